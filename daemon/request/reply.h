/* Replies: the one way out of the daemon, for the loop and the fast path. What the request holds is given back (r->release) and
 * the reply is counted and traced before it leaves; afterwards the request is its exchange's again. */
#ifndef RD_REPLY_H
#define RD_REPLY_H

#include "daemon/request/requests.h"

/* The loop takes up a request of r->session: it counts for session and user until it is answered. */
void rd_request_enter(rd_request *r);

/* It waits for the engine: in the list of requests under way until it is answered. */
void rd_wait(rd_requests *q, rd_request *r);
void rd_wait_end(rd_request *r); /* or nothing, if it does not wait */

/* Answer with the reply that rd_exchange_reply gave and the caller filled: its first `body_len` bytes. */
void rd_answer(rd_requests *q, rd_request *r, size_t body_len);

/* Answer with one number, or with nothing. Errors: NO_MEMORY, and no answer. */
rp_err rd_answer_u64(rd_requests *q, rd_request *r, uint64_t v, rp_fault *f);
rp_err rd_answer_empty(rd_requests *q, rd_request *r, rp_fault *f);

/* Answer with the result of the finished task of the request, whose cells are in the reply. */
void rd_answer_result(rd_requests *q, rd_request *r, const rp_spec *spec, uint64_t count);

/* The same from any thread, for a request that holds its session (rd_session_hold), which is released. */
void rd_answer_fast(rd_requests *q, rd_request *r);

/* The end of a request's task: its result, or why there is none. */
void rd_answer_job(rd_requests *q, rd_job *job);

/* Answer with an error. */
void rd_refuse(rd_requests *q, rd_request *r, const rp_fault *f);

/* A connection is cut for a reason: counted, and logged. */
void rd_note_disconnected(rd_requests *q, const rd_session *x, const char *reason);

#endif
