/* How lists for people name a session: whose it is, and what its client calls itself. */
#ifndef RD_DESCRIBE_H
#define RD_DESCRIBE_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/state/session.h"

/* Does `viewer` (NULL: the daemon itself) see what `x` does? Its user's own, or all if its user is root or the daemon's. */
bool rd_may_see(const rd_session *viewer, const rd_session *x);

void rd_describe_peer(FILE *f, const rd_session *x); /* "uid=1000 pid=12", "address=" or "address= user=tls:NAME" */
void rd_describe_name(FILE *f, const rd_session *x); /* control characters as ? */

#endif
