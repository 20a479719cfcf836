#include "kernels/cpu/threads/parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/cpu/threads/crowd.h"
#include "kernels/cpu/threads/here.h"
#include "kernels/cpu/threads/room.h"

enum { MOST_HELPERS = 63 };

/* State of one call. The call does not wait for helpers that start when no part is left: on a busy machine that takes
 * milliseconds. So the last thread to leave frees it. */
typedef struct crew {
    pthread_mutex_t lock;
    pthread_cond_t over; /* no part is under way */
    rk_part_fn *run;
    void *arg;
    unsigned parts, next, under_way;
    int members;
    uint64_t used_ns; /* processor time of those that have no part any more */
} crew;

static uint64_t ns_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- how many ---- */

/* By log2 of the parts that calls want: helpers that come too late for short calls may be in time for long ones. */
enum { SIZES = 7 };
static rk_crowd crowds[SIZES];
static _Thread_local rk_crowd *crowd = crowds; /* of this thread's last call */
static atomic_int helping; /* helpers of all calls of this process; too high for good in a child that is forked meanwhile */

/* Of `wanted` helpers those that the others leave. */
static int free_helpers(unsigned wanted, int busy)
{
    const int left = rk_cpu_cores() - 1 - busy, want = wanted < MOST_HELPERS ? (int)wanted : MOST_HELPERS;
    return left <= 0 ? 0 : want < left ? want : left;
}

void rk_forget_load(void)
{
    for (int i = 0; i < SIZES; i++)
        rk_crowd_forget(&crowds[i]);
}

unsigned rk_parts_at_once(unsigned wanted)
{
    const int busy = atomic_load_explicit(&helping, memory_order_relaxed);
    if (wanted <= 1)
        return 1;
    const int size = 31 - __builtin_clz(wanted);
    crowd = &crowds[size < SIZES ? size : SIZES - 1];
    return 1 + (unsigned)rk_crowd_helpers(crowd, free_helpers(wanted - 1, busy), ns_of(CLOCK_MONOTONIC));
}

/* Reserves up to `wanted` helpers and returns how many; the caller gives these back. */
static int take_helpers(unsigned wanted)
{
    int busy = atomic_load_explicit(&helping, memory_order_relaxed), n;
    do {
        n = free_helpers(wanted, busy);
    } while (n > 0 &&
             !atomic_compare_exchange_weak_explicit(&helping, &busy, busy + n, memory_order_relaxed, memory_order_relaxed));
    return n;
}

static void give_helpers(int n) { atomic_fetch_sub_explicit(&helping, n, memory_order_relaxed); }

/* ---- together ---- */

static crew *crew_new(unsigned parts, rk_part_fn *run, void *arg, int members)
{
    crew *c = malloc(sizeof *c);
    if (!c)
        return NULL;
    *c = (crew){.run = run, .arg = arg, .parts = parts, .members = members};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->over, NULL);
    return c;
}

static void leave(crew *c, int members)
{
    pthread_mutex_lock(&c->lock);
    c->members -= members;
    const bool last = c->members == 0;
    pthread_mutex_unlock(&c->lock);
    if (!last)
        return;
    pthread_cond_destroy(&c->over);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Runs parts until none is left. Call with the lock held; returns with it. */
static void run_some(crew *c)
{
    const uint64_t before = ns_of(CLOCK_THREAD_CPUTIME_ID);
    while (c->next < c->parts) {
        const unsigned part = c->next++;
        c->under_way++;
        pthread_mutex_unlock(&c->lock);
        c->run(c->arg, part);
        pthread_mutex_lock(&c->lock);
        c->under_way--;
    }
    c->used_ns += ns_of(CLOCK_THREAD_CPUTIME_ID) - before;
    if (c->under_way == 0)
        pthread_cond_broadcast(&c->over);
}

static void *parts_help(void *arg)
{
    crew *c = arg;
    pthread_mutex_lock(&c->lock);
    run_some(c);
    pthread_mutex_unlock(&c->lock);
    leave(c, 1);
    give_helpers(1);
    return NULL;
}

/* Returns how many were started. */
static int start_helpers(crew *c, int wanted)
{
    pthread_t thread;
    int n = 0;
    while (n < wanted && rk_start_thread(parts_help, c, true, &thread))
        n++;
    return n;
}

static void run_together(crew *c, int helpers)
{
    const uint64_t begin = ns_of(CLOCK_MONOTONIC);
    const int missing = helpers - start_helpers(c, helpers);
    pthread_mutex_lock(&c->lock);
    run_some(c);
    while (c->under_way)
        pthread_cond_wait(&c->over, &c->lock);
    const uint64_t used = c->used_ns;
    pthread_mutex_unlock(&c->lock);
    if (helpers > missing)
        rk_crowd_note(crowd, helpers - missing, used, ns_of(CLOCK_MONOTONIC) - begin);
    leave(c, 1 + missing);
    give_helpers(missing);
}

void rk_run_parts(unsigned parts, rk_part_fn *run, void *arg)
{
    const int helpers = parts > 1 ? take_helpers(parts - 1) : 0;
    crew *c = helpers ? crew_new(parts, run, arg, helpers + 1) : NULL;
    if (c) {
        run_together(c, helpers);
        return;
    }
    give_helpers(helpers);
    for (unsigned i = 0; i < parts; i++)
        run(arg, i);
}
