/* Inside kernels/: the tasks of an engine that are under way or finished, without those of batches. What the front (engine.c)
 * hands in and polls, and where backends hand back (rk_complete). Any thread. */
#ifndef RK_INFLIGHT_H
#define RK_INFLIGHT_H

#include <pthread.h>

#include "kernels/engine/utilisation.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_inflight {
    void (*wake)(void *arg); /* rk_options */
    void *wake_arg;
    rk_busy busy; /* the backend: tasks and batches */
    pthread_mutex_t lock;
    rk_task *done, **done_end;
    unsigned under_way; /* tasks handed in, and neither polled nor handed back */
    uint64_t idle_ns;   /* since when there are none; 0: the last was not polled */
    rk_task *alone;     /* of these, the one of rk_submit_alone; NULL: there is none */
    uint64_t tasks, small_tasks, device_tasks, small_ns;
} rk_inflight;

void rk_inflight_init(rk_inflight *f, const rk_options *o);
void rk_inflight_fini(rk_inflight *f);

/* A task comes in, to be polled. */
void rk_inflight_enter(rk_inflight *f, rk_task *t);

/* ... to be handed to `done`, if the engine is at rest; false: it is not. */
bool rk_inflight_enter_alone(rk_inflight *f, rk_task *t, void (*done)(rk_task *t));

/* A task was finished without coming in. */
void rk_inflight_small(rk_inflight *f, const rk_task *t);

/* The task is finished (fault, backend, times set). Calls its `done`, or makes it pollable and wakes the owner. */
void rk_complete(rk_inflight *f, rk_task *t);

/* The next finished task, or NULL. */
rk_task *rk_inflight_poll(rk_inflight *f);

/* Nothing is under way any more: forget what was to be polled, hand back what was dropped before it began. */
void rk_inflight_drop(rk_inflight *f);

void rk_inflight_stats(rk_inflight *f, rk_stats *s); /* adds busy_ns, sets its counters */

#ifdef __cplusplus
}
#endif
#endif
