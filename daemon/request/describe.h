/* Text that describes a session in lists: its user, and the name that its client chose. */
#ifndef RD_DESCRIBE_H
#define RD_DESCRIBE_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/state/session.h"

/* May `viewer` (NULL: the daemon itself) see what `x` does? It sees its own user's sessions; root and the daemon's user see
 * all. */
bool rd_may_see(const rd_session *viewer, const rd_session *x);

void rd_describe_peer(FILE *f, const rd_session *x); /* "uid=1000 pid=12", "address=" or "address= user=tls:NAME" */
void rd_describe_name(FILE *f, const rd_session *x); /* any bytes: for rp_clean */

#endif
