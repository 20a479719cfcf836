/* Replies: the one way out of the daemon, for the loop and the fast path. Before the reply is sent, the request gives back what
 * it holds (r->release) and is counted and traced; afterwards it belongs to its exchange again. */
#ifndef RD_REPLY_H
#define RD_REPLY_H

#include "daemon/request/requests.h"

/* The loop takes up a request of r->session: it counts for session and user until it is answered. */
void rd_request_enter(rd_request *r);

/* It waits for the engine: put it into the list of requests under way until it is answered. */
void rd_wait(rd_requests *q, rd_request *r);

/* Answer with the reply that rd_exchange_reply gave and the caller filled: its first `body_len` bytes. */
void rd_answer(rd_requests *q, rd_request *r, size_t body_len);

/* Answer with one number, or with an empty body. Errors: NO_MEMORY; then it is not answered. */
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

/* Count and log that a connection is cut, with the reason. */
void rd_note_disconnected(rd_requests *q, const rd_session *x, const char *reason);

#endif
