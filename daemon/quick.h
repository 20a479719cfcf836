/* Small reductions, answered where they arrive: in nng's threads, many at once, without a turn of the loop.
 *
 * A sum of some KiB takes a microsecond; handing it to the loop and back takes ten times that, and all replies would go out
 * through one thread. So a REDUCE that is small, well formed and of a known session is computed by the CPU engine and
 * answered at once. Everything else, every error included, is left to the loop, which owns sessions and says what is wrong.
 *
 * What nng's threads touch: the session table (under its lock), the engine's rk_run_small, and `tally` here (under
 * `lock`), which the loop collects. The gate keeps all of it alive: rd_quick_close waits for those inside. */
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
    size_t small_bytes;     /* elements of larger requests are not looked at */
    atomic_uint max_unsent; /* a session with more replies on their way is the loop's business */
    pthread_mutex_t lock;
    rd_trace *trace; /* NULL: none */
    rd_tally tally; /* answered here since the last rd_quick_collect */
} rd_quick;

bool rd_quick_init(rd_quick *q);
void rd_quick_fini(rd_quick *q);

/* From now on requests are taken. Engine, sessions and trace stay valid until rd_quick_close. */
void rd_quick_open(rd_quick *q, rk_engine *engine, rd_sessions *sessions, rd_trace *trace, size_t small_bytes,
                   unsigned max_unsent);
void rd_quick_close(rd_quick *q); /* take no more, and wait for those under way; again is fine */

/* nng's threads: answer the request, or return false and leave it as it was. */
bool rd_quick_answer(void *quick, rd_request *r);

/* The loop: move what was counted here into `to`. */
void rd_quick_collect(rd_quick *q, rd_tally *to);

#endif
