/* What a user holds against what it may, as QUERY answers it. */
#ifndef RD_HELD_H
#define RD_HELD_H

#include "daemon/request/requests.h"

/* "held.files" and "limit.files" for the session's own user; for root and the daemon's user also "user.1000.files" of others,
 * and "all.files". What is 0 and has no limit is left out, and what a reply has no room for. */
void rd_put_held(rd_requests *q, const rd_session *x, rp_writer *w);

#endif
