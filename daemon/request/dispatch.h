/* From a message to its handler. */
#ifndef RD_DISPATCH_H
#define RD_DISPATCH_H

#include "daemon/request/requests.h"

/* Check the header and run the handler. The request is answered now or later, exactly once. */
void rd_dispatch(rd_requests *q, rd_request *r);

/* The devices are open, or the daemon takes no new work: handle the requests that waited for them again. */
void rd_dispatch_held(rd_requests *q);

/* A session with more unsent replies than this does not read them. */
unsigned rd_unread_limit(const rd_config *c);

/* Is the engine stopped? Then `f` says so. */
bool rd_halted(const rd_requests *q, rp_fault *f);

rd_handler rd_on_reduce, rd_on_reduce_at;                                                  /* on_reduce.c */
rd_handler rd_on_begin, rd_on_append, rd_on_finish, rd_on_abort;                           /* on_stream.c */
rd_handler rd_on_store, rd_on_write, rd_on_write_at, rd_on_commit, rd_on_list, rd_on_drop; /* on_resident.c */
rd_handler rd_on_query;                                                                    /* on_query.c */

#endif
