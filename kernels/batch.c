/* Batching: small tasks that come while the device is busy go into one launch.
 *
 *     submit -> queue -> a free lane takes all that wait -> launch -> landed: the next launch, then done
 *
 * A lane holds one batch, from its launch until it has landed, and has a thread that waits for the landing and hands the
 * tasks back. Who finds a lane free launches: the submitting thread if the device is idle, so that a lone task waits for
 * nobody, else the lane's thread. Nothing waits for company: a batch is what came while all lanes were taken. So tasks wait
 * in the queue only while some lane is taken, whose landing takes them.
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
    rk_batcher *batcher;
    int number;
    pthread_t thread;
    pthread_cond_t wake; /* it flies, or closing */
    atomic_int state; /* a lane_state; changed under the lock, looked at without by its thread */
    bool waits; /* the thread: it hands nothing back */
    rk_task *tasks;
    unsigned n;
    uint64_t launched_ns;
} lane;

struct rk_batcher {
    const rk_batch_ops *ops;
    void *impl;
    rk_busy *busy;
    size_t max_bytes;
    pthread_mutex_t lock;
    rk_task *head, **tail;
    lane lanes[RK_BATCH_LANES];
    int started; /* lanes that have their thread */
    bool closing;
    uint64_t batches, tasks, largest, busy_ns, sizes[RK_BATCH_SIZES];
};

static lane_state state_of(lane *l) { return (lane_state)atomic_load_explicit(&l->state, memory_order_acquire); }
static void set_state(lane *l, lane_state s) { atomic_store_explicit(&l->state, (int)s, memory_order_release); }

/* ---- launching: any thread ---- */

/* With the lock: rather one whose thread will see it land at once. */
static lane *free_lane(rk_batcher *b)
{
    lane *found = NULL;
    for (lane *l = b->lanes; l < b->lanes + RK_BATCH_LANES; l++)
        if (state_of(l) == FREE && (!found || l->waits))
            found = l;
    return found;
}

/* With the lock: the tasks that wait, at most as many as a batch holds, to a free lane. False: there are none. */
static bool load(rk_batcher *b, lane *l)
{
    rk_task *last = b->head;
    if (!last)
        return false;
    l->tasks = last;
    for (l->n = 1; l->n < RK_BATCH_TASKS && last->next; l->n++)
        last = last->next;
    b->head = last->next;
    if (!b->head)
        b->tail = &b->head;
    last->next = NULL;
    set_state(l, LOADING);
    return true;
}

static void launch(lane *l)
{
    rk_batcher *b = l->batcher;
    l->launched_ns = rk_now_ns();
    for (rk_task *t = l->tasks; t; t = t->next) {
        t->start_ns = l->launched_ns;
        t->copy_ns = t->compute_ns = 0;
        t->fault.code = RP_OK;
        t->batch = l->n;
    }
    rk_busy_begin(b->busy);
    b->ops->launch(b->impl, l->number, l->tasks);
    pthread_mutex_lock(&b->lock);
    set_state(l, FLYING);
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&b->lock);
}

static bool fits(const rk_batcher *b, const rk_task *t)
{
    return rk_task_size(t) <= b->max_bytes && rp_results(&t->spec) && !(t->spec.flags & RP_STATES_IN) && b->ops->fits(t);
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
    lane *l = free_lane(b);
    bool loaded = l && load(b, l);
    pthread_mutex_unlock(&b->lock);
    if (loaded)
        launch(l);
    return true;
}

/* ---- landing: the lane's thread ---- */

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

/* The tasks are finished: what waits takes off before they are handed back. */
static void land(lane *l)
{
    rk_batcher *b = l->batcher;
    rk_task *t = l->tasks, *after;
    pthread_mutex_lock(&b->lock);
    count(b, l);
    set_state(l, FREE);
    bool loaded = load(b, l);
    pthread_mutex_unlock(&b->lock);
    if (loaded)
        launch(l);
    rk_busy_end(b->busy);
    for (; t; t = after) {
        after = t->next;
        t->next = NULL;
        t->done(t); /* the task is no longer ours */
    }
}

static bool has_landed(lane *l, bool closely)
{
    rk_batcher *b = l->batcher;
    return b->ops->landed(b->impl, l->number, l->tasks, closely);
}

static void await_landing(lane *l)
{
    const struct timespec nap = {0, NAP_NS};
    const uint64_t since = rk_now_ns();
    for (bool late = false; !has_landed(l, late); late = rk_now_ns() - since > WATCH_NS) {
        if (late)
            nanosleep(&nap, NULL);
        else
            __builtin_ia32_pause();
    }
}

static void set_waits(lane *l)
{
    pthread_mutex_lock(&l->batcher->lock);
    l->waits = true;
    pthread_mutex_unlock(&l->batcher->lock);
}

/* Requests that follow each other closely find the thread awake: to wake it takes as long as a batch. */
static void linger(const rk_batcher *b, lane *l)
{
    const uint64_t until = rk_now_ns() + b->ops->linger_ns;
    while (state_of(l) != FLYING && rk_now_ns() < until)
        __builtin_ia32_pause();
}

/* Wait until the lane flies. False: never again. */
static bool await_launch(lane *l)
{
    rk_batcher *b = l->batcher;
    set_waits(l);
    linger(b, l);
    pthread_mutex_lock(&b->lock);
    while (state_of(l) != FLYING && !b->closing)
        pthread_cond_wait(&l->wake, &b->lock);
    l->waits = false;
    bool flies = state_of(l) == FLYING;
    pthread_mutex_unlock(&b->lock);
    return flies;
}

static void *lane_main(void *arg)
{
    lane *l = arg;
    while (await_launch(l)) {
        await_landing(l);
        land(l);
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
    for (int i = 0; i < RK_BATCH_LANES; i++) {
        b->lanes[i].batcher = b;
        b->lanes[i].number = i;
        pthread_cond_init(&b->lanes[i].wake, NULL);
    }
    while (b->started < RK_BATCH_LANES &&
           pthread_create(&b->lanes[b->started].thread, NULL, lane_main, &b->lanes[b->started]) == 0)
        b->started++;
    if (b->started == RK_BATCH_LANES)
        return b;
    rk_batch_close(b);
    return NULL;
}

void rk_batch_close(rk_batcher *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    for (int i = 0; i < RK_BATCH_LANES; i++)
        pthread_cond_signal(&b->lanes[i].wake);
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < b->started; i++)
        pthread_join(b->lanes[i].thread, NULL);
    for (int i = 0; i < RK_BATCH_LANES; i++)
        pthread_cond_destroy(&b->lanes[i].wake);
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
