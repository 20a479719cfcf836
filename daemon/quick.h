/* Small reductions, answered without a turn of the loop, many at once.
 *
 * A sum of some KiB takes a microsecond; handing it to the loop and back takes ten times that, and all replies would go
 * out through one thread. So a REDUCE that is small, well formed and of a known session is computed by the CPU engine
 * in the thread of nng that received it, and answered at once; or it goes from there into a batch (rk_submit_batched),
 * and a thread of the engine answers it. Everything else, every error included, is left to the loop, which owns sessions
 * and says what is wrong: also a request that comes back from its batch without a result, or too late.
 *
 * What these threads touch: the session table (under its lock), a session that is held, the engine's rk_run_small and
 * rk_submit_batched, and `tally` here (under `lock`), which the loop collects. The gate keeps all of it alive for nng's
 * threads: rd_quick_close waits for those inside. For what is in a batch then, the held session and the transport's
 * count of busy contexts keep it, until rk_close. */
#ifndef RD_QUICK_H
#define RD_QUICK_H

#include <pthread.h>

#include "daemon/request.h"
#include "daemon/session.h"
#include "daemon/stats.h"
#include "daemon/trace.h"

typedef struct rd_quick {
    pthread_rwlock_t gate; /* read-locked inside; written to open and close */
    bool open;
    rk_engine *engine;
    rd_sessions *sessions;
    size_t max_bytes; /* elements of larger requests are not looked at */
    atomic_uint max_taken, max_unsent; /* a session with more here, or more replies to take, is the loop's business */
    pthread_mutex_t lock;
    rd_trace *trace; /* NULL: none */
    rd_tally tally; /* answered here since the last rd_quick_collect */
} rd_quick;

bool rd_quick_init(rd_quick *q);
void rd_quick_fini(rd_quick *q);

/* From now on requests are taken. The engine stays valid until rd_quick_close, sessions and trace until rk_close. */
void rd_quick_open(rd_quick *q, rk_engine *engine, rd_sessions *sessions, rd_trace *trace, size_t max_bytes);
void rd_quick_close(rd_quick *q); /* take no more, and wait for nng's threads that are here; again is fine */

/* For each session; before rd_quick_open and later. */
void rd_quick_limit(rd_quick *q, unsigned max_taken, unsigned max_unsent);

/* nng's threads: take the request and answer it now or later, or return false and leave it as it was. */
bool rd_quick_answer(void *quick, rd_request *r);

/* The loop: move what was counted here into `to`. */
void rd_quick_collect(rd_quick *q, rd_tally *to);

#endif
