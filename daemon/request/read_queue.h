/* Requests whose data are in a file and wait for a buffer to be read into, and long ranges that could have more readers. The
 * loop's thread. */
#ifndef RD_READ_QUEUE_H
#define RD_READ_QUEUE_H

#include "daemon/request/requests.h"

/* Queue a request for a buffer. */
void rd_read_queue_put(rd_requests *q, rd_request *r);

/* Start as many reads as there are buffers for. Each calls `done` in the loop, later. A read that gets no memory ends with
 * its request's job->done at once. */
typedef void rd_read_done(rd_work *w);
void rd_read_queue_feed(rd_requests *q, rd_read_done *done);

/* Remove a request that is parked: it waits until its user gives a buffer back. */
void rd_read_queue_remove(rd_requests *q, rd_request *r);

/* No further part of a long range is read; their requests end with `f`. */
void rd_stop_reading(rd_requests *q, const rp_fault *f);

#endif
