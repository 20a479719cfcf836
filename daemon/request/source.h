/* What the handle in REDUCE_AT and WRITE_AT names: a file, an arena or device memory of the session, or resident data of its
 * user. It is held until the request ends. */
#ifndef RD_SOURCE_H
#define RD_SOURCE_H

#include "daemon/request/requests.h"

/* The file or arena of the session that `field` of the request names, for a range that lies within it. Errors: BAD_HANDLE,
 * TOO_LARGE, SHAPE. */
rp_err rd_source_find(const rd_request *r, const rp_at *a, const char *field, struct rd_handle **x, rp_fault *f);

/* The request's task is for the range, and holds `x` until the request ends. */
void rd_source_use(rd_request *r, struct rd_handle *x, const rp_at *a);

/* The request holds `x` until it ends. */
void rd_source_hold(rd_request *r, struct rd_resident *x);

/* The task of a REDUCE_AT, but for its cells: checked, and what its handle names is held until the request ends. The loop, or
 * any thread with holdings->lock. Errors: those of PROTOCOL.md's table that do not need the engine. */
rp_err rd_source_read(rd_request *r, rp_fault *f);

/* r->release of requests that hold no more than this: gives back handle, buffer and resident data. Any thread, unless it waited
 * for a file. */
void rd_source_release(rd_request *r);

#endif
