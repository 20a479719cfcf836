/* What goes to the engine, and when. A request's task waits in the scheduler (sched.h) for its turn; until then it can be
 * taken back if its deadline passes, or if its client cancels it or is gone. A task in the engine runs to its end, but
 * order statistics and tasks by key on the CPU stop within a pass. The reply is DEADLINE or CANCELLED then, in any case. */
#ifndef RD_EXECUTOR_H
#define RD_EXECUTOR_H

#include "daemon/request/requests.h"

/* The engine is open: set the windows, how much it gets at a time. */
void rd_executor_open(rd_requests *q);

/* Devices have joined the engine: set the windows anew. */
void rd_executor_fit(rd_requests *q);

/* A task of the daemon itself goes to the engine at once; job->done comes at once (small task) or in a later turn. */
void rd_submit(rd_requests *q, rd_job *job);

/* Queue the complete task of a request (rd_wait), except for data still to be read from a file (r->read.wanted). job->done is
 * called later in this turn or in a later one. For a task that was taken back, task.fault is then DEADLINE or CANCELLED. */
void rd_schedule(rd_requests *q, rd_request *r);

/* Give the engine and the readers of files as much as their windows have room for. */
void rd_executor_feed(rd_requests *q);

/* Take what the engine has finished. */
void rd_take_finished(rd_requests *q);

/* A request of the fast path is finished: DEADLINE if it is too late. Any thread. */
void rd_settle_late(rd_request *r);

/* End the waiting requests of a session that have not begun, with `f`, and soon those that the engine can stop, with CANCELLED;
 * if `id` is not NULL, only those with this id. Returns how many. */
unsigned rd_withdraw(rd_requests *q, const rd_session *x, const uint64_t *id, const rp_fault *f);

/* The request has a deadline and waits in a queue, or for its stream: look at it then. */
void rd_watch_deadline(rd_requests *q, const rd_request *r);

/* Where a request that waits is: in a queue, with a reader, in the engine, ... */
const char *rd_whereabouts(const rd_request *r);

#endif
