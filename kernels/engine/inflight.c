#include "kernels/engine/inflight.h"

#include "kernels/engine/clock.h"
#include "kernels/engine/engine.h"
#include "kernels/engine/spin.h"

/* The engine is at rest when no polled task has been under way for this long. It exceeds the owner's pause between tasks: where
 * such tasks follow each other closely, the engine's threads are awake, and share the work better than submitting threads. */
static const uint64_t REST_NS = 20000;

void rk_inflight_init(rk_inflight *f, const rk_options *o)
{
    *f = (rk_inflight){.wake = o->wake, .wake_arg = o->wake_arg};
    f->done_end = &f->done;
    rk_spin_lock_init(&f->lock);
    rk_busy_init(&f->busy);
    f->busy.all = o->busy;
}

void rk_inflight_fini(rk_inflight *f)
{
    rk_busy_fini(&f->busy);
    pthread_mutex_destroy(&f->lock);
}

/* ---- in ---- */

static void prepare(rk_inflight *f, rk_task *t, void (*done)(rk_task *t))
{
    t->next = NULL;
    t->impl = NULL;
    t->done = done;
    t->device = (uint8_t)rk_inflight_number(f);
    t->load = rk_task_size(t);
    __atomic_fetch_add(&f->load, t->load, __ATOMIC_RELAXED);
    rk_busy_begin(&f->busy);
}

void rk_inflight_enter(rk_inflight *f, rk_task *t, void (*done)(rk_task *t))
{
    pthread_mutex_lock(&f->lock);
    f->under_way++;
    pthread_mutex_unlock(&f->lock);
    prepare(f, t, done);
}

bool rk_inflight_enter_alone(rk_inflight *f, rk_task *t, void (*done)(rk_task *t))
{
    pthread_mutex_lock(&f->lock);
    bool rests = f->under_way == 0 && rk_now_ns() - f->idle_ns >= REST_NS;
    if (rests) {
        f->under_way = 1;
        f->alone = t;
    }
    pthread_mutex_unlock(&f->lock);
    if (rests)
        prepare(f, t, done);
    return rests;
}

void rk_inflight_past(rk_inflight *f, const rk_task *t, bool small)
{
    pthread_mutex_lock(&f->lock);
    f->tasks++;
    f->small_tasks += small;
    f->small_ns += t->compute_ns;
    pthread_mutex_unlock(&f->lock);
}

/* ---- rates ---- */

/* Often enough to follow the machine's load, and rarely enough that tasks cut by a period's ends do not matter. */
static const uint64_t RATED_BYTES = 32 << 20;

/* With the lock: work is done. Faster than before: so it is, for one that is taken to be slow gets no work to show better.
 * Slower: it settles in a few periods. */
static void measure(rk_inflight *f, uint64_t bytes)
{
    f->rated += bytes;
    if (f->rated < RATED_BYTES)
        return;
    const uint64_t busy = rk_busy_ns(&f->busy);
    const double now = (double)f->rated / (double)(busy - f->rated_ns + 1), old = f->rate;
    double rate = now < old ? (old + now) / 2 : now;
    __atomic_store(&f->rate, &rate, __ATOMIC_RELAXED);
    f->rated = 0;
    f->rated_ns = busy;
}

double rk_inflight_rate(const rk_inflight *f)
{
    double rate;
    __atomic_load(&f->rate, &rate, __ATOMIC_RELAXED);
    return rate;
}

/* ---- out ---- */

/* With the lock: a task is no longer under way. After a task of RK_ALONE the engine is at rest at once. */
static void leave(rk_inflight *f, bool polled)
{
    if (--f->under_way == 0)
        f->idle_ns = polled ? rk_now_ns() : 0;
}

/* Call with the lock held. */
static void make_pollable(rk_inflight *f, rk_task *t)
{
    t->next = NULL;
    *f->done_end = t;
    f->done_end = &t->next;
}

void rk_complete(rk_inflight *f, rk_task *t)
{
    void (*done)(rk_task * t) = t->done;
    rk_busy_end(&f->busy);
    __atomic_fetch_sub(&f->load, t->load, __ATOMIC_RELAXED);
    pthread_mutex_lock(&f->lock);
    f->tasks++;
    f->device_tasks += t->backend == RP_BACKEND_CUDA;
    if (!t->memory) /* data that lie in a device say nothing of the way there, which they do not take */
        measure(f, t->load);
    if (done) {
        f->alone = f->alone == t ? NULL : f->alone;
        leave(f, false);
    } else {
        make_pollable(f, t);
    }
    pthread_mutex_unlock(&f->lock);
    if (done)
        done(t);
    else if (f->wake)
        f->wake(f->wake_arg);
}

rk_task *rk_inflight_poll(rk_inflight *f)
{
    pthread_mutex_lock(&f->lock);
    rk_task *t = f->done;
    if (t) {
        f->done = t->next;
        if (!f->done)
            f->done_end = &f->done;
        t->next = NULL;
        leave(f, true);
    }
    pthread_mutex_unlock(&f->lock);
    return t;
}

void rk_inflight_drop(rk_inflight *f)
{
    rk_task *t = f->alone; /* its owner waits for it */
    if (t) {
        rp_fail(&t->fault, RP_BUSY, "engine", 0, "the engine is stopped");
        rk_complete(f, t);
    }
    f->done = NULL;
    f->done_end = &f->done;
}

void rk_inflight_stats(rk_inflight *f, rk_stats *s)
{
    pthread_mutex_lock(&f->lock);
    s->tasks = f->tasks;
    s->small_tasks = f->small_tasks;
    s->device_tasks = f->device_tasks;
    s->busy_ns += f->small_ns;
    pthread_mutex_unlock(&f->lock);
    s->active_ns = rk_busy_ns(&f->busy);
}
