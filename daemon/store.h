/* The messages of resident data (resident.h), and what other handlers need of them. */
#ifndef RD_STORE_H
#define RD_STORE_H

#include "daemon/resident.h"

struct rd_request;
struct rd_server;

/* The resident data with this handle of the user who asks; NULL: there are none. */
rd_resident *rd_store_find(struct rd_server *s, const struct rd_request *r, uint64_t id);

/* May the range be reduced so? Errors: TYPE, BAD_MESSAGE, SHAPE. */
rp_err rd_store_check(const rd_resident *x, const rp_spec *spec, const rp_at *a, rp_fault *f);

/* Submit the request's job, of which nothing but the data is missing: they are the range. The request waits. */
void rd_store_submit(struct rd_server *s, struct rd_request *r, rd_resident *x, const rp_at *a);

/* ABORT of what the session is writing. False: it writes nothing of this handle. */
bool rd_store_abort(struct rd_server *s, const struct rd_request *r, uint64_t id);

/* A request is about to be answered or dropped: let go of what it held. */
void rd_store_end(struct rd_server *s, struct rd_request *r);

#endif
