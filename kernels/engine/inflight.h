/* Inside kernels/: the tasks of a device that are under way or finished. The front (engine.c) hands them in and polls them;
 * backends hand them back (rk_complete). Any thread. */
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
    rk_busy busy; /* the backend */
    pthread_mutex_t lock;
    rk_task *done, **done_end;
    unsigned under_way; /* tasks handed in that are neither polled nor handed to `done` */
    uint64_t idle_ns;   /* since when none is under way; 0: the last one was not polled */
    uint64_t load;      /* bytes of work of unfinished tasks (rk_task.load); atomic */
    bool lost;          /* the device failed for good; atomic */
    rk_task *alone;     /* the task of RK_ALONE among them; NULL: none */
    uint64_t tasks, small_tasks, device_tasks, small_ns;
    unsigned number; /* of the device; atomic */
    /* bytes of work a nanosecond, while there was some, atomic; the work and the busy time since it was measured */
    double rate;
    uint64_t rated, rated_ns;
    unsigned passed; /* share.c; atomic */
} rk_inflight;

void rk_inflight_init(rk_inflight *f, const rk_options *o);
void rk_inflight_fini(rk_inflight *f);

/* A task comes in. At its end it is polled, or, with `done`, handed to that function. */
void rk_inflight_enter(rk_inflight *f, rk_task *t, void (*done)(rk_task *t));

/* The same for a task with `done`, if the engine is at rest; false: it is not. */
bool rk_inflight_enter_alone(rk_inflight *f, rk_task *t, void (*done)(rk_task *t));

/* A task was finished without coming in; `small`: in the submitter's thread. */
void rk_inflight_past(rk_inflight *f, const rk_task *t, bool small);

/* The task is finished (fault, backend, times set). Calls its `done`, or makes it pollable and wakes the owner. */
void rk_complete(rk_inflight *f, rk_task *t);

/* The next finished task, or NULL. */
rk_task *rk_inflight_poll(rk_inflight *f);

/* Nothing is under way any more: drop tasks to be polled, and hand back tasks with `done` that never began. */
void rk_inflight_drop(rk_inflight *f);

void rk_inflight_stats(rk_inflight *f, rk_stats *s); /* adds busy_ns, sets its counters */

/* Bytes of work a nanosecond while there was some; 0: not known so far. */
double rk_inflight_rate(const rk_inflight *f);

/* The device is lost for good. */
static inline void rk_inflight_lose(rk_inflight *f) { __atomic_store_n(&f->lost, true, __ATOMIC_RELAXED); }
static inline bool rk_inflight_lost(const rk_inflight *f) { return __atomic_load_n(&f->lost, __ATOMIC_RELAXED); }
static inline unsigned rk_inflight_number(const rk_inflight *f) { return __atomic_load_n(&f->number, __ATOMIC_RELAXED); }
static inline uint64_t rk_inflight_load(const rk_inflight *f) { return __atomic_load_n(&f->load, __ATOMIC_RELAXED); }

#ifdef __cplusplus
}
#endif
#endif
