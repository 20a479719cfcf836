/* Reductions that are answered without a turn of the loop, many at once: small ones, and those whose data the engine has.
 *
 * A sum of some KiB takes a microsecond; handing it to the loop and back takes ten times that, and all replies would go
 * out through one thread. So a REDUCE that is small, well formed and of a known session is computed by the CPU engine
 * in the thread of nng that received it, and answered at once; or it goes from there into a batch (rk_submit_batched),
 * and a thread of the engine answers it. So does a REDUCE_AT of resident data or of memory on the device, of any size, that
 * finds the engine at rest (rk_submit_alone), with nobody waiting for his turn. Everything else, every error included, is
 * left to the loop, which owns sessions and says what is wrong: also a request that comes back from the engine without a
 * result, or too late.
 *
 * What these threads touch: the session table (under its lock), a session that is held, its shares and its user's resident
 * data (under s->handles; what is found is held), rd_workers_add, the engine's rk_run_small, rk_submit_batched and
 * rk_submit_alone, and `tally` here (under `lock`), which the loop collects. The gate keeps all of it alive for nng's threads:
 * rd_fastpath_close waits for those inside. What the engine has then is `under_way`: draining waits for it, and rk_stop for the
 * rest. */
#ifndef RD_FASTPATH_H
#define RD_FASTPATH_H

#include <pthread.h>

#include "daemon/request/request.h"
#include "daemon/state/session.h"
#include "daemon/telemetry/stats.h"

struct rd_server;

typedef struct rd_fastpath {
    pthread_rwlock_t gate; /* read-locked inside; written to open and close */
    atomic_bool open;
    struct rd_server *server;          /* of this, what is told above */
    size_t max_bytes;                  /* of elements in a message, and of cells: larger requests are not looked at */
    atomic_bool crowded;               /* the loop has tasks in the engine, or in the queues for it: nothing goes past them */
    atomic_uint under_way;             /* tasks that the engine has from here */
    atomic_uint max_taken, max_unsent; /* a session with more here, or more replies to take, is the loop's business */
    pthread_mutex_t lock;
    rd_tally tally; /* answered here since the last rd_fastpath_collect */
} rd_fastpath;

bool rd_fastpath_init(rd_fastpath *q);
void rd_fastpath_fini(rd_fastpath *q);

/* From now on requests are taken; with 0 bytes none are. */
void rd_fastpath_open(rd_fastpath *q, struct rd_server *s, size_t max_bytes);
void rd_fastpath_close(rd_fastpath *q); /* take no more, and wait for nng's threads that are here; again is fine */

/* Tasks that the engine has from here. Once this is closed, the bell is rung when the last of them is back. */
unsigned rd_fastpath_under_way(const rd_fastpath *q);

/* For each session; before rd_fastpath_open and later. */
void rd_fastpath_limit(rd_fastpath *q, unsigned max_taken, unsigned max_unsent);

/* The loop: has it tasks in the engine, or in the queues for it? */
void rd_fastpath_crowd(rd_fastpath *q, bool crowded);

/* nng's threads: take the request and answer it now or later, or return false and leave it as it was. */
bool rd_fastpath_answer(void *fastpath, rd_exchange *e);

/* The loop: move what was counted here into `to`. */
void rd_fastpath_collect(rd_fastpath *q, rd_tally *to);

#endif
