/* TLS as the configuration asks for it. */
#ifndef RD_TLS_H
#define RD_TLS_H

#include <stdbool.h>

#include "daemon/base/config.h"
#include "daemon/net/transport.h"

/* Give a transport the files of tls+tcp:// URLs; without a transport only look whether they can be used. Without such URLs
 * nothing is done. False: `why` has the reason. True: it has a warning, or is "". */
bool rd_tls_open(const rd_config *c, rd_transport *t, char why[RD_MAX_WHY]);

#endif
