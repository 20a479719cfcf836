/* Batching: small tasks that come while the device is busy go into one launch.
 *
 *     submit -> queue -> a free lane takes all that wait -> launch -> landed: the next launch, then done
 *
 * A lane holds one batch, from its launch until it has landed. Who finds a lane free launches: the submitting thread if
 * the device is idle, so that a lone task waits for nobody, else the batcher's own thread, which lands all. Nothing
 * waits for company: a batch is what came while all lanes were taken. So a task waits in the queue only while some lane
 * is taken, whose landing takes it.
 *
 * Everything is under `lock` but launching, looking whether a lane has landed, and `done`. */
#include "kernels/batch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    WATCH_NS = 100000, /* a batch takes some 10 us: look without a pause for so long, then every NAP_NS, with care */
    NAP_NS = 20000
};

typedef enum { FREE, LOADING, FLYING } lane_state;

typedef struct lane {
    atomic_int state; /* a lane_state; written under the lock, looked at without */
    rk_task *tasks;
    unsigned n;
    uint64_t launched_ns;
} lane;

struct rk_batcher {
    const rk_batch_ops *ops;
    void *impl;
    rk_busy *busy;
    size_t max_bytes;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t take_off; /* a lane flies, or closing */
    rk_task *head, **tail;
    lane lanes[RK_BATCH_LANES];
    unsigned flying;
    bool closing;
    uint64_t batches, tasks, largest, busy_ns, sizes[RK_BATCH_SIZES];
};

/* ---- any thread ---- */

/* With the lock: a free lane with the tasks that wait, at most as many as it holds. NULL: no lane, or no tasks. */
static lane *load(rk_batcher *b)
{
    lane *l = b->lanes, *end = l + RK_BATCH_LANES;
    while (l < end && atomic_load_explicit(&l->state, memory_order_relaxed) != FREE)
        l++;
    if (l == end || !b->head)
        return NULL;
    rk_task *last = b->head;
    l->tasks = b->head;
    for (l->n = 1; l->n < RK_BATCH_TASKS && last->next; l->n++)
        last = last->next;
    b->head = last->next;
    if (!b->head)
        b->tail = &b->head;
    last->next = NULL;
    atomic_store_explicit(&l->state, LOADING, memory_order_relaxed);
    return l;
}

static void launch(rk_batcher *b, lane *l)
{
    l->launched_ns = rk_now_ns();
    for (rk_task *t = l->tasks; t; t = t->next) {
        t->start_ns = l->launched_ns;
        t->copy_ns = t->compute_ns = 0;
        t->fault.code = RP_OK;
        t->batch = l->n;
    }
    rk_busy_begin(b->busy);
    b->ops->launch(b->impl, (int)(l - b->lanes), l->tasks);
    pthread_mutex_lock(&b->lock);
    atomic_store_explicit(&l->state, FLYING, memory_order_release);
    b->flying++;
    pthread_cond_signal(&b->take_off);
    pthread_mutex_unlock(&b->lock);
}

static bool fits(const rk_batcher *b, const rk_task *t)
{
    size_t cells = rp_results(&t->spec) * rp_cell_size(&t->spec);
    return !(t->spec.flags & RP_STATES_IN) && cells && t->bytes <= b->max_bytes && cells <= b->max_bytes - t->bytes &&
           b->ops->fits(t);
}

bool rk_batch_submit(rk_batcher *b, rk_task *t, void (*done)(rk_task *t))
{
    if (!fits(b, t))
        return false;
    t->next = NULL;
    t->done = done;
    pthread_mutex_lock(&b->lock);
    *b->tail = t;
    b->tail = &t->next;
    lane *l = load(b);
    pthread_mutex_unlock(&b->lock);
    if (l)
        launch(b, l);
    return true;
}

/* ---- the batcher's thread ---- */

/* With the lock. */
static void count(rk_batcher *b, const lane *l)
{
    unsigned size = 0;
    while (size + 1 < RK_BATCH_SIZES && l->n >> (size + 1))
        size++;
    b->batches++;
    b->tasks += l->n;
    b->sizes[size]++;
    b->largest = l->n > b->largest ? l->n : b->largest;
    b->busy_ns += rk_now_ns() - l->launched_ns;
}

/* The lane's tasks are finished: what waits takes off before they are handed back. */
static void land(rk_batcher *b, lane *l)
{
    rk_task *t = l->tasks, *after;
    pthread_mutex_lock(&b->lock);
    count(b, l);
    atomic_store_explicit(&l->state, FREE, memory_order_relaxed);
    b->flying--;
    lane *next = load(b);
    pthread_mutex_unlock(&b->lock);
    if (next)
        launch(b, next);
    rk_busy_end(b->busy);
    for (; t; t = after) {
        after = t->next;
        t->next = NULL;
        t->done(t); /* the task is no longer ours */
    }
}

static bool land_ready(rk_batcher *b, bool closely)
{
    bool any = false;
    for (int i = 0; i < RK_BATCH_LANES; i++) {
        lane *l = &b->lanes[i];
        if (atomic_load_explicit(&l->state, memory_order_acquire) != FLYING ||
            !b->ops->landed(b->impl, i, l->tasks, closely))
            continue;
        land(b, l);
        any = true;
    }
    return any;
}

/* Wait until a lane flies. False: never again. */
static bool wait_for_flight(rk_batcher *b)
{
    pthread_mutex_lock(&b->lock);
    while (!b->flying && !b->closing)
        pthread_cond_wait(&b->take_off, &b->lock);
    bool any = b->flying > 0;
    pthread_mutex_unlock(&b->lock);
    return any;
}

static void *batcher_main(void *arg)
{
    rk_batcher *b = arg;
    const struct timespec nap = {0, NAP_NS};
    while (wait_for_flight(b)) {
        uint64_t since = rk_now_ns();
        for (bool late = false; !land_ready(b, late); late = rk_now_ns() - since > WATCH_NS) {
            if (late)
                nanosleep(&nap, NULL);
            else
                __builtin_ia32_pause();
        }
    }
    return NULL;
}

/* ---- open, close, counters ---- */

rk_batcher *rk_batch_open(const rk_batch_ops *ops, void *impl, rk_busy *busy, size_t max_bytes)
{
    rk_batcher *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->ops = ops;
    b->impl = impl;
    b->busy = busy;
    b->max_bytes = max_bytes;
    b->tail = &b->head;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->take_off, NULL);
    if (pthread_create(&b->thread, NULL, batcher_main, b) == 0)
        return b;
    pthread_cond_destroy(&b->take_off);
    pthread_mutex_destroy(&b->lock);
    free(b);
    return NULL;
}

void rk_batch_close(rk_batcher *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_signal(&b->take_off);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->take_off);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void rk_batch_stats(rk_batcher *b, rk_stats *s)
{
    pthread_mutex_lock(&b->lock);
    s->tasks += b->tasks;
    s->device_tasks += s->backend == RP_BACKEND_CUDA ? b->tasks : 0;
    s->busy_ns += b->busy_ns;
    s->batches = b->batches;
    s->batched_tasks = b->tasks;
    s->largest_batch = b->largest;
    for (int i = 0; i < RK_BATCH_SIZES; i++)
        s->batch_sizes[i] = b->sizes[i];
    pthread_mutex_unlock(&b->lock);
}
