/* Batching: small tasks that come while the device is busy go into one launch.
 *
 *     submit -> queue -> nothing flies: all that wait take off -> landed: the next take off, then done
 *
 * One batch flies at a time, so that the next one gathers meanwhile. A task that comes while none flies is launched by the
 * thread that brings it. That thread also watches for the landing, as long as the task is alone: to wake another thread takes
 * longer than the flight. When a second task comes, or after ALONE_NS, the batcher's thread takes the watch over. It launches
 * what has gathered and hands the tasks back. Nothing waits for company: a batch is what came while another one was flying.
 * So tasks wait in the queue only while a batch flies, whose landing takes them.
 *
 * Everything is under `lock` but launching, looking whether the batch has landed, and `done`. */
#include "kernels/engine/batch.h"
#include "kernels/engine/spin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum {
    ALONE_NS = 40000,  /* a batch of one task takes some 15 us: its thread watches for so long, and serves nobody meanwhile */
    WATCH_NS = 100000, /* a batch takes some 10 us: look without a pause for so long, then every NAP_NS, with care */
    NAP_NS = 20000
};

typedef enum {
    FREE,
    LOADING, /* and, if its thread watches, until that is over */
    FLYING   /* the batcher's thread watches */
} flight_state;

struct rk_batcher {
    const rk_batch_ops *ops;
    void *impl;
    rk_busy *busy;
    size_t max_bytes;
    pthread_mutex_t lock;
    rk_task *head, **tail;
    atomic_bool company; /* the queue is not empty; looked at without the lock by a thread that watches */
    /* the flight */
    atomic_int state; /* a flight_state; changed under the lock, looked at without by the thread */
    rk_task *tasks;
    unsigned n;
    uint64_t launched_ns;
    pthread_t thread;
    pthread_cond_t wake; /* it flies, or closing */
    bool started, closing;
    uint64_t batches, batched, largest, busy_ns, sizes[RK_BATCH_SIZES];
};

static flight_state state_of(rk_batcher *b) { return (flight_state)atomic_load_explicit(&b->state, memory_order_acquire); }
static void set_state(rk_batcher *b, flight_state s) { atomic_store_explicit(&b->state, (int)s, memory_order_release); }

/* ---- launching: any thread ---- */

/* With the lock: the tasks that wait, at most as many as a batch holds, for a launch. False: there are none, or a flight. */
static bool load(rk_batcher *b)
{
    rk_task *last = b->head;
    if (!last || state_of(b) != FREE)
        return false;
    b->tasks = last;
    for (b->n = 1; b->n < RK_BATCH_TASKS && last->next; b->n++)
        last = last->next;
    b->head = last->next;
    if (!b->head)
        b->tail = &b->head;
    last->next = NULL;
    atomic_store_explicit(&b->company, b->head != NULL, memory_order_relaxed);
    set_state(b, LOADING);
    return true;
}

static void launch(rk_batcher *b)
{
    b->launched_ns = rk_now_ns();
    for (rk_task *t = b->tasks; t; t = t->next) {
        t->start_ns = b->launched_ns;
        t->copy_ns = t->compute_ns = 0;
        t->fault.code = RP_OK;
        t->batch = b->n;
    }
    rk_busy_begin(b->busy);
    b->ops->launch(b->impl, b->tasks);
}

/* The batcher's thread watches for the landing. */
static void hand_over(rk_batcher *b)
{
    pthread_mutex_lock(&b->lock);
    set_state(b, FLYING);
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

static bool fits(const rk_batcher *b, const rk_task *t)
{
    return !t->memory && rk_task_size(t) <= b->max_bytes && rp_results(&t->spec) && !(t->spec.flags & RP_STATES_IN) &&
           b->ops->fits(t);
}

/* ---- landing: the thread that watches ---- */

/* With the lock. */
static void count(rk_batcher *b)
{
    unsigned size = 0;
    while (size + 1 < RK_BATCH_SIZES && b->n >> (size + 1))
        size++;
    b->batches++;
    b->batched += b->n;
    b->sizes[size]++;
    b->largest = b->n > b->largest ? b->n : b->largest;
    b->busy_ns += rk_now_ns() - b->launched_ns;
}

/* This thread hands tasks back: one that `done` submits is not watched here, or each would nest in the one before. */
static _Thread_local bool handing_back;

/* The tasks are finished: what waits takes off before they are handed back. */
static void land(rk_batcher *b)
{
    rk_task *t = b->tasks, *after;
    pthread_mutex_lock(&b->lock);
    count(b);
    set_state(b, FREE);
    bool loaded = load(b);
    pthread_mutex_unlock(&b->lock);
    if (loaded) {
        launch(b);
        hand_over(b);
    }
    rk_busy_end(b->busy);
    handing_back = true;
    for (; t; t = after) {
        after = t->next;
        t->next = NULL;
        t->done(t); /* the task is no longer ours */
    }
    handing_back = false;
}

/* The thread that launched watches. False: the batcher's thread has to. */
static bool lands_alone(rk_batcher *b)
{
    if (handing_back)
        return false;
    const uint64_t until = b->launched_ns + ALONE_NS;
    while (!b->ops->landed(b->impl, b->tasks, false)) {
        if (atomic_load_explicit(&b->company, memory_order_relaxed) || rk_now_ns() > until)
            return false;
        rk_pause();
    }
    return true;
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
    bool loaded = load(b);
    if (!loaded)
        atomic_store_explicit(&b->company, true, memory_order_relaxed);
    pthread_mutex_unlock(&b->lock);
    if (!loaded)
        return true;
    launch(b);
    if (lands_alone(b))
        land(b);
    else
        hand_over(b);
    return true;
}

/* ---- landing: the batcher's thread ---- */

static void await_landing(rk_batcher *b)
{
    const struct timespec nap = {0, NAP_NS};
    const uint64_t since = rk_now_ns();
    for (bool late = false; !b->ops->landed(b->impl, b->tasks, late); late = rk_now_ns() - since > WATCH_NS) {
        if (late)
            nanosleep(&nap, NULL);
        else
            rk_pause();
    }
}

/* Requests that follow each other closely find the thread awake: to wake it takes as long as a batch. */
static void linger(rk_batcher *b)
{
    const uint64_t until = rk_now_ns() + b->ops->linger_ns;
    while (state_of(b) != FLYING && rk_now_ns() < until)
        rk_pause();
}

/* False: never again. */
static bool await_launch(rk_batcher *b)
{
    linger(b);
    pthread_mutex_lock(&b->lock);
    while (state_of(b) != FLYING && !b->closing)
        pthread_cond_wait(&b->wake, &b->lock);
    bool flies = state_of(b) == FLYING;
    pthread_mutex_unlock(&b->lock);
    return flies;
}

static void *batcher_main(void *arg)
{
    rk_batcher *b = arg;
    while (await_launch(b)) {
        await_landing(b);
        land(b);
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
    pthread_cond_init(&b->wake, NULL);
    b->started = pthread_create(&b->thread, NULL, batcher_main, b) == 0;
    if (b->started)
        return b;
    rk_batch_close(b);
    return NULL;
}

void rk_batch_stop(rk_batcher *b)
{
    if (!b || !b->started)
        return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    b->started = false;
}

void rk_batch_close(rk_batcher *b)
{
    if (!b)
        return;
    rk_batch_stop(b);
    pthread_cond_destroy(&b->wake);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

void rk_batch_stats(rk_batcher *b, rk_stats *s)
{
    pthread_mutex_lock(&b->lock);
    s->tasks += b->batched;
    s->device_tasks += s->backend == RP_BACKEND_CUDA ? b->batched : 0;
    s->busy_ns += b->busy_ns;
    s->batches = b->batches;
    s->batched_tasks = b->batched;
    s->largest_batch = b->largest;
    for (int i = 0; i < RK_BATCH_SIZES; i++)
        s->batch_sizes[i] = b->sizes[i];
    pthread_mutex_unlock(&b->lock);
}
