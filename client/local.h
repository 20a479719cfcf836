/* Reductions in this process instead of the daemon: arrays in its memory, where that is expected to take less time. */
#ifndef RC_LOCAL_H
#define RC_LOCAL_H

#include "client/client.h"
#include "client/job.h"

/* May the client do so at all? Its option, or $REDUCE_LOCAL. 0, or the error. */
int rc_local_option(const reduce_open_opts *o, bool *local, rp_fault *f);

/* The engine of this session's daemon, asked for once in a session, and again while its GPUs are opening; all 0 if it is gone.
 * Call without the mutex. 0, or REDUCE_E_INTERRUPTED, reported: the program ends the call. */
int rc_engine_of(reduce_client *c, rc_engine *engine);

/* *why the daemon is to do this request; NULL: reduce it here, with a->threads. It may query the daemon's engine, once in a
 * session. Call without the mutex. 0, or REDUCE_E_INTERRUPTED, reported. */
int rc_local_refusal(reduce_client *c, rc_ask *a, const char **why);

/* How many threads may reduce here. A daemon on these cores has as many as its administrator or user wants. */
int rc_threads_beside(const rc_engine *e);

/* Fill in a->work: what is known of the request, and of the daemon's engine. */
void rc_weigh(reduce_client *c, rc_ask *a, const rc_engine *e);

/* A request went the way that rc_local_refusal said, without an error: the next ones of its kind go by what it took. Of
 * a file, if the daemon's engine is known. */
void rc_local_note(reduce_client *c, rc_ask *a, bool here);

/* A request was reduced here. No daemon knows that before the client claims it. */
static inline void rc_local_count(reduce_client *c, uint64_t bytes)
{
    atomic_fetch_add_explicit(&c->requests_here, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->bytes_here, bytes, memory_order_relaxed);
}

/* What was counted since the last claim, for a message whose parts and data have `used` bytes. Nothing if it would be too long,
 * or if the daemon knows no claims. */
rp_claim rc_local_claim(reduce_client *c, uint64_t used);

#endif
