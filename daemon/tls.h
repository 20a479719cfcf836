/* TLS as the configuration asks for it. */
#ifndef RD_TLS_H
#define RD_TLS_H

#include <stdbool.h>

#include "daemon/base/config.h"
#include "daemon/net/transport.h"

/* Give a transport the files of tls+tcp:// URLs; without a transport only look whether they can be used. Without such URLs
 * nothing is done. False: `why` has the reason. True: it has a warning, or is "". */
bool rd_tls_open(const rd_config *c, rd_transport *t, char why[RD_MAX_WHY]);

/* Read the files that `fresh` names, while the URLs of `now` are served. False: `why` has the reason, and the old ones stay.
 * True: *changed has those that differ (cert_dates.h), and `why` as above. */
bool rd_tls_renew(const rd_config *now, const rd_config *fresh, rd_transport *t, unsigned *changed, char why[RD_MAX_WHY]);

#endif
