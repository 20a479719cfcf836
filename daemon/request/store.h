/* The messages of resident data (resident.h), and what other handlers need of them. */
#ifndef RD_STORE_H
#define RD_STORE_H

#include "daemon/state/resident.h"

struct rd_request;
struct rd_server;

/* May the range be reduced so? Errors: TYPE, BAD_MESSAGE, SHAPE. */
rp_err rd_store_check(const rd_resident *x, const rp_spec *spec, const rp_at *a, rp_fault *f);

/* The request's task is for the range, and holds `x` until the request ends. */
void rd_store_use(struct rd_request *r, rd_resident *x, const rp_at *a);

/* ABORT of what the session is writing. False: it writes nothing of this handle. */
bool rd_store_abort(struct rd_server *s, const struct rd_request *r, uint64_t id);

/* A request is about to be answered or dropped: let go of what it held. Any thread for REDUCE_AT. */
void rd_store_end(struct rd_server *s, struct rd_request *r);

#endif
