/* What a user holds and may hold, in QUERY's status. */
#ifndef RD_HELD_H
#define RD_HELD_H

#include "daemon/request/requests.h"

/* "held.files" and "limit.files" for the session's own user; for root and the daemon's user also "user.1000.files" of others,
 * and "all.files". Entries that are 0 and have no limit are left out, and those that a reply has no room for. */
void rd_put_held(rd_requests *q, const rd_session *x, rp_writer *w);

#endif
