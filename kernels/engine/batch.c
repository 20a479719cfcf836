/* Batching: small tasks that come while the device is busy go into one launch.
 *
 *     submit -> queue -> none flies, or a crowd waits -> a flight takes off -> landed -> done
 *
 * A task that comes while nothing flies is launched by the thread that brings it. While the task is alone, that thread also
 * watches for the landing, because waking another thread takes longer than the flight. When a second task comes, or after
 * ALONE_NS, the flight is left to the crew. No task waits for others to join: a batch is what came while another one was
 * flying. A second flight takes off beside it only for a CROWD, because a launch costs as much processor time as several
 * requests.
 *
 * The crew are threads that launch, watch and hand back. Handing back wakes clients, one after the other, which takes longer
 * than a flight. So a thread that has seen a landing leaves the next launch to another one that lingers, if there is one.
 *
 * No waiting task is forgotten. While a flight is out, the thread that sees it land or one that lingers takes what waits. And
 * before a thread of the crew sleeps, it checks for work under `lock`. Everything runs under `lock`, except launching, checking
 * whether a batch has landed, and `done`. */
#include "kernels/engine/batch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/engine/spin.h"

enum {
    ALONE_NS = 40000,  /* how long the thread of a single task watches, without serving others; such a batch takes some 15 us */
    WATCH_NS = 100000, /* how long to poll without a pause, then every NAP_NS with `closely`; a batch takes some 10 us */
    NAP_NS = 20000,
    CROWD = 4,     /* tasks */
    MOST_CREW = 3, /* on many cores; on few, lingering threads would take processors from clients */
    MANY_CORES = 8
};

typedef enum {
    FREE,
    HELD, /* a thread launches it, or watches for its landing */
    LEFT  /* to the crew */
} flight_state;

typedef struct flight {
    flight_state state;
    unsigned number;
    rk_task *tasks;
    unsigned n;
    uint64_t launched_ns;
} flight;

struct rk_batcher {
    const rk_batch_ops *ops;
    void *impl;
    rk_busy *busy;
    size_t max_bytes;
    pthread_mutex_t lock;
    rk_task *head, **tail;
    flight flights[RK_BATCH_FLIGHTS];
    pthread_cond_t wake; /* there is work, or closing */
    pthread_t crew[MOST_CREW];
    unsigned threads, lingering; /* the crew, and those of it that linger */
    bool closing;
    uint64_t batches, batched, largest, busy_ns, sizes[RK_BATCH_SIZES];
    /* changed under the lock; threads that watch or linger read them without it */
    atomic_uint waiting, out, left; /* tasks in the queue; flights that are not FREE; of these, LEFT */
};

/* ---- the counts: changed with the lock ---- */
static unsigned count_of(atomic_uint *n) { return atomic_load_explicit(n, memory_order_relaxed); }
static void set_count(atomic_uint *n, unsigned to) { atomic_store_explicit(n, to, memory_order_relaxed); }

static void set_state(rk_batcher *b, flight *f, flight_state s)
{
    set_count(&b->out, count_of(&b->out) + (s != FREE) - (f->state != FREE));
    set_count(&b->left, count_of(&b->left) + (s == LEFT) - (f->state == LEFT));
    f->state = s;
}

/* May the tasks that wait take off? */
static bool may_take_off(rk_batcher *b)
{
    unsigned waiting = count_of(&b->waiting), out = count_of(&b->out);
    return waiting && (out == 0 || (waiting >= CROWD && out < b->ops->flights));
}

static bool has_work(rk_batcher *b) { return count_of(&b->left) || may_take_off(b); }

/* ---- launching: any thread ---- */

static flight *flight_in(rk_batcher *b, flight_state s)
{
    flight *f = b->flights;
    while (f->state != s)
        f++;
    return f;
}

/* With the lock: moves waiting tasks, at most as many as a batch holds, to a flight that is to be launched. NULL: there are
 * none, or they must wait. */
static flight *load(rk_batcher *b)
{
    if (!may_take_off(b))
        return NULL;
    flight *f = flight_in(b, FREE);
    rk_task *last = b->head;
    f->tasks = last;
    for (f->n = 1; f->n < RK_BATCH_TASKS && last->next; f->n++)
        last = last->next;
    b->head = last->next;
    if (!b->head)
        b->tail = &b->head;
    last->next = NULL;
    set_count(&b->waiting, count_of(&b->waiting) - f->n);
    set_state(b, f, HELD);
    return f;
}

static void launch(rk_batcher *b, flight *f)
{
    f->launched_ns = rk_now_ns();
    for (rk_task *t = f->tasks; t; t = t->next) {
        t->start_ns = f->launched_ns;
        t->copy_ns = t->compute_ns = 0;
        t->fault.code = RP_OK;
        t->batch = f->n;
    }
    rk_busy_begin(b->busy);
    b->ops->launch(b->impl, f->number, f->tasks);
}

/* With the lock: wake a thread of the crew for the work, unless one lingers, which sees it without. */
static void call_crew(rk_batcher *b)
{
    if (!b->lingering)
        pthread_cond_signal(&b->wake);
}

/* Leave the flight to the crew, which watches for its landing. */
static void leave(rk_batcher *b, flight *f)
{
    pthread_mutex_lock(&b->lock);
    set_state(b, f, LEFT);
    call_crew(b);
    pthread_mutex_unlock(&b->lock);
}

static bool fits(const rk_batcher *b, const rk_task *t)
{
    return !t->memory && !t->beside && rk_task_size(t) <= b->max_bytes && rp_results(&t->spec) &&
           !(t->spec.flags & RP_STATES_IN) && b->ops->fits(t);
}

/* ---- landing: the thread that watches ---- */

/* Call with the lock held. */
static void count(rk_batcher *b, const flight *f)
{
    unsigned size = 0;
    while (size + 1 < RK_BATCH_SIZES && f->n >> (size + 1))
        size++;
    b->batches++;
    b->batched += f->n;
    b->sizes[size]++;
    b->largest = f->n > b->largest ? f->n : b->largest;
    b->busy_ns += rk_now_ns() - f->launched_ns;
}

/* True while this thread hands tasks back. It does not watch a task that `done` submits, because such calls would nest. */
static _Thread_local bool handing_back;

/* The tasks are finished. Before they are handed back, waiting tasks are launched, or left to another thread at once. */
static void land(rk_batcher *b, flight *f)
{
    rk_task *t = f->tasks, *after;
    pthread_mutex_lock(&b->lock);
    count(b, f);
    set_state(b, f, FREE);
    flight *next = b->lingering ? NULL : load(b);
    pthread_mutex_unlock(&b->lock);
    if (next) {
        launch(b, next);
        leave(b, next);
    }
    rk_busy_end(b->busy);
    handing_back = true;
    for (; t; t = after) {
        after = t->next;
        t->next = NULL;
        t->done(t); /* from here on the task belongs to its submitter */
    }
    handing_back = false;
}

/* The launching thread watches for the landing. False: the crew must. */
static bool lands_alone(rk_batcher *b, flight *f)
{
    if (handing_back)
        return false;
    const uint64_t until = f->launched_ns + ALONE_NS;
    while (!b->ops->landed(b->impl, f->number, f->tasks, false)) {
        if (count_of(&b->waiting) || rk_now_ns() > until)
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
    set_count(&b->waiting, count_of(&b->waiting) + 1);
    flight *f = count_of(&b->out) == 0 ? load(b) : NULL;
    if (count_of(&b->waiting) == CROWD && may_take_off(b))
        call_crew(b);
    pthread_mutex_unlock(&b->lock);
    if (!f)
        return true;
    launch(b, f);
    if (lands_alone(b, f))
        land(b, f);
    else
        leave(b, f);
    return true;
}

/* ---- the crew ---- */

static void await_landing(rk_batcher *b, const flight *f)
{
    const struct timespec nap = {0, NAP_NS};
    const uint64_t since = rk_now_ns();
    for (bool late = false; !b->ops->landed(b->impl, f->number, f->tasks, late); late = rk_now_ns() - since > WATCH_NS) {
        if (late)
            nanosleep(&nap, NULL);
        else
            rk_pause();
    }
}

/* Linger: requests that follow each other closely find a thread awake, and waking one takes as long as a batch. Call with the
 * lock held; returns with it. */
static void linger(rk_batcher *b)
{
    const uint64_t until = rk_now_ns() + b->ops->linger_ns;
    b->lingering++;
    while (!has_work(b) && rk_now_ns() < until) {
        pthread_mutex_unlock(&b->lock);
        while (!has_work(b) && rk_now_ns() < until)
            rk_pause();
        pthread_mutex_lock(&b->lock);
    }
    b->lingering--;
}

/* With the lock: a flight to watch; if it is `fresh`, it must be launched first. NULL: there is no work. */
static flight *take_work(rk_batcher *b, bool *fresh)
{
    *fresh = !count_of(&b->left);
    if (*fresh)
        return load(b);
    flight *f = flight_in(b, LEFT);
    set_state(b, f, HELD);
    return f;
}

/* With the lock: wait for a flight to watch. NULL: the engine is closing, and none will come. */
static flight *await_work(rk_batcher *b, bool *fresh)
{
    flight *f;
    linger(b);
    while (!(f = take_work(b, fresh)) && !b->closing)
        pthread_cond_wait(&b->wake, &b->lock);
    if (has_work(b))
        call_crew(b);
    return f;
}

static void *crew_main(void *arg)
{
    rk_batcher *b = arg;
    bool fresh;
    pthread_mutex_lock(&b->lock);
    for (flight *f; (f = await_work(b, &fresh));) {
        pthread_mutex_unlock(&b->lock);
        if (fresh)
            launch(b, f);
        await_landing(b, f);
        land(b, f);
        pthread_mutex_lock(&b->lock);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- open, close, counters ---- */

/* False: not even one thread could start. */
static bool start_crew(rk_batcher *b, long cores)
{
    const unsigned want = b->ops->flights > 1 && cores >= MANY_CORES ? MOST_CREW : 1;
    while (b->threads < want && pthread_create(&b->crew[b->threads], NULL, crew_main, b) == 0)
        b->threads++;
    return b->threads > 0;
}

rk_batcher *rk_batch_open(const rk_batch_ops *ops, void *impl, rk_busy *busy, size_t max_bytes, long cores)
{
    rk_batcher *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->ops = ops;
    b->impl = impl;
    b->busy = busy;
    b->max_bytes = max_bytes;
    b->tail = &b->head;
    for (unsigned i = 0; i < RK_BATCH_FLIGHTS; i++)
        b->flights[i].number = i;
    rk_spin_lock_init(&b->lock);
    pthread_cond_init(&b->wake, NULL);
    if (start_crew(b, cores))
        return b;
    rk_batch_close(b);
    return NULL;
}

void rk_batch_stop(rk_batcher *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_broadcast(&b->wake);
    pthread_mutex_unlock(&b->lock);
    while (b->threads)
        pthread_join(b->crew[--b->threads], NULL);
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

/* A flight that is out counts as full, because its tasks land together. */
unsigned rk_batch_load(const rk_batcher *b)
{
    if (!b)
        return 0;
    return atomic_load_explicit(&b->waiting, memory_order_relaxed) +
           RK_BATCH_TASKS * atomic_load_explicit(&b->out, memory_order_relaxed);
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
