/* What the handle in REDUCE_AT and WRITE_AT names: a file, an arena or device memory of the session, or resident data of its
 * user. It is held until the request ends. */
#ifndef RD_SOURCE_H
#define RD_SOURCE_H

#include "daemon/request/requests.h"

/* Find the session's file or arena that `field` of the request names, and check that the range lies within it. Errors:
 * BAD_HANDLE, TOO_LARGE, SHAPE. */
rp_err rd_source_find(const rd_request *r, const rp_at *a, const char *field, struct rd_handle **x, rp_fault *f);

/* Set the request's task to the range, and hold `x` until the request ends. */
void rd_source_use(rd_request *r, struct rd_handle *x, const rp_at *a);

/* Hold `x` until the request ends. */
void rd_source_hold(rd_request *r, struct rd_resident *x);

/* Fill the task of a REDUCE_AT, except for its cells, check it, and hold what its handles name until the request ends. Called
 * by the `loop`, or by any thread with holdings->lock. RD_LATER: only the loop does it. Errors: those of PROTOCOL.md's table
 * that do not need the engine. */
rp_err rd_source_read(rd_request *r, bool loop, rp_fault *f);

/* The same of a REDUCE with tagged parts. The loop. */
rp_err rd_source_read_message(rd_request *r, rp_fault *f);

/* r->release of requests that hold nothing else: gives back handle, buffer and resident data. Any thread, unless the request
 * waited for a file. */
void rd_source_release(rd_request *r);

#endif
