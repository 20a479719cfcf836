/* From a request to its handler, and from a handler to the reply. */
#ifndef RD_DISPATCH_H
#define RD_DISPATCH_H

#include "daemon/server.h"

/* Check the header and run the handler. The request is answered now or later, exactly once. */
void rd_dispatch(rd_server *s, rd_request *r);

/* Answer with the reply that rd_exchange_reply gave and the caller filled: its first `body_len` bytes. */
void rd_answer(rd_server *s, rd_request *r, size_t body_len);

/* Answer with one number, or with nothing. Errors: NO_MEMORY, and no answer. */
rp_err rd_answer_u64(rd_server *s, rd_request *r, uint64_t v, rp_fault *f);
rp_err rd_answer_empty(rd_server *s, rd_request *r, rp_fault *f);

/* What a handler says when rd_exchange_reply gave nothing. */
rp_err rd_no_memory(rp_fault *f);

/* Answer with the result of the finished task of the request, whose cells are in the reply. */
void rd_answer_result(rd_server *s, rd_request *r, const rp_spec *spec, uint64_t count);

/* Answer with an error. */
void rd_refuse(rd_server *s, rd_request *r, const rp_fault *f);

/* A session with more replies on their way than this does not read them. */
unsigned rd_unread_limit(const rd_server *s);

/* CLOCK_MONOTONIC; 0: none. Pure, as rd_late. */
uint64_t rd_deadline_of(const rd_request *r);

/* Is the engine stopped? Then `f` says so. */
bool rd_halted(const rd_server *s, rp_fault *f);

/* Past the deadline? Then `f` says so. */
bool rd_late(const rd_request *r, rp_fault *f);

/* The request waits for the engine (rd_answer and rd_refuse end it). */
void rd_wait(rd_server *s, rd_request *r);

/* Handlers: RP_OK if the request is answered or waits; an error with `f` filled if it is to be refused. */
typedef rp_err rd_handler(rd_server *s, rd_request *r, rp_fault *f);
rd_handler rd_on_reduce, rd_on_begin, rd_on_append, rd_on_finish, rd_on_abort;             /* work.c */
rd_handler rd_on_reduce_at;                                                                /* at.c */
rd_handler rd_on_store, rd_on_write, rd_on_write_at, rd_on_commit, rd_on_list, rd_on_drop; /* store.c */
rd_handler rd_on_query;                                                                    /* status.c */

#endif
