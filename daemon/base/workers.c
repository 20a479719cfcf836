#include "daemon/base/workers.h"

#include <errno.h>
#include <signal.h>

#include "daemon/base/host.h"
#include "proto/clock.h"

enum { PLACES = RD_MAX_READERS + RD_MAX_STUCK };

static const uint64_t REST_NS = RP_NS_PER_S;
static const uint64_t SMALL_NS = 50 * RP_NS_PER_MS; /* after a small request, the next one is likely within this time */

/* ---- a thread ---- */

static unsigned bulk_now(const rd_workers *w) { return atomic_load_explicit(&w->bulk, memory_order_relaxed); }

static void count_bulk(rd_workers *w, const rd_work *x, bool runs)
{
    if (x->bulk)
        atomic_store_explicit(&w->bulk, bulk_now(w) + (runs ? 1 : -1u), memory_order_relaxed);
}

static bool small_ones_come(const rd_workers *w)
{
    return rp_now_ns() < atomic_load_explicit(&w->small_ns, memory_order_relaxed) + SMALL_NS;
}

/* Should this bulk work wait and leave its processor to small requests? A user's only work does not wait, because then slow
 * files of other users would delay it. Stuck works use no processor. */
static bool gives_way(rd_workers *w, const rd_work *x)
{
    const bool gives = x->bulk && *x->running > 0 && bulk_now(w) >= w->bulk_beside_small + w->stuck && small_ones_come(w);
    w->held_back |= gives;
    return gives;
}

static bool may_run(const rd_workers *w, const rd_work *x)
{
    return *x->running < w->per_user && (!x->busy || *x->busy < w->busy_per_user);
}

/* The oldest work whose user may use another thread. Call with the lock held. */
static rd_work *next_work(rd_workers *w)
{
    for (rd_work **at = &w->queue; *at; at = &(*at)->next) {
        rd_work *x = *at;
        if (!may_run(w, x) || gives_way(w, x))
            continue;
        *at = x->next;
        if (!x->next)
            w->queue_end = at;
        w->queued--;
        return x;
    }
    return NULL;
}

/* Call with the lock held; it is released meanwhile. */
static void run_work(rd_workers *w, rd_worker *me, rd_work *x)
{
    unsigned *running = x->running, *busy = x->busy;
    (*running)++;
    if (busy)
        (*busy)++;
    count_bulk(w, x, true);
    me->since_ns = rp_now_ns();
    pthread_mutex_unlock(&w->lock);
    x->run(x);
    pthread_mutex_lock(&w->lock);
    me->since_ns = 0;
    w->stuck -= me->stuck;
    me->stuck = false;
    (*running)--;
    if (busy)
        (*busy)--;
    count_bulk(w, x, false);
    if (w->held_back && !small_ones_come(w)) {
        w->held_back = false;
        pthread_cond_broadcast(&w->work);
    }
    x->next = NULL;
    *w->over_end = x;
    w->over_end = &x->next;
    if (w->closing)
        pthread_cond_broadcast(&w->work); /* those that wait for the queue to end */
    pthread_mutex_unlock(&w->lock);
    w->wake(w->wake_arg);
    pthread_mutex_lock(&w->lock);
}

/* Call with the lock held. False: no work came for a long time. */
static bool wait_for_work(rd_workers *w, bool stays)
{
    struct timespec end = rp_timespec(rp_now_ns() + w->rest_ns);
    w->idle++;
    int err = stays ? pthread_cond_wait(&w->work, &w->lock) : pthread_cond_timedwait(&w->work, &w->lock, &end);
    w->idle--;
    return err != ETIMEDOUT;
}

static unsigned places(const rd_workers *w) { return w->most + (w->stuck < RD_MAX_STUCK ? w->stuck : RD_MAX_STUCK); }

/* The thread was stuck and has been replaced. */
static bool is_surplus(const rd_workers *w, const rd_worker *me) { return me != w->worker && w->running > places(w); }

static void *workers_run(void *arg)
{
    rd_worker *me = arg;
    rd_workers *w = me->all;
    pthread_mutex_lock(&w->lock);
    w->idle--;
    for (bool wanted = true; (wanted || w->queue) && !is_surplus(w, me);) {
        rd_work *x = next_work(w);
        if (x)
            run_work(w, me, x);
        else if (w->closing && !w->queue)
            break;
        else
            wanted = wait_for_work(w, me == w->worker);
    }
    w->running--;
    me->runs = false;
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- threads come and go ---- */

/* Call with the lock held. False: the maximum is reached, or no thread can be created. */
static bool start_worker(rd_workers *w)
{
    sigset_t all, old;
    rd_worker *x = w->worker;
    if (w->running >= places(w))
        return false;
    while (x->runs)
        x++;
    if (x->started)
        pthread_join(x->thread, NULL); /* returns at once: the thread has nothing left to do */
    x->all = w;
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    x->started = x->runs = pthread_create(&x->thread, NULL, workers_run, x) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    w->idle += x->runs; /* a new thread looks for work first */
    w->running += x->runs;
    return x->runs;
}

void rd_workers_fit(rd_workers *w, unsigned most)
{
    pthread_mutex_lock(&w->lock);
    w->most = most;
    w->per_user = most > 1 ? most - (most + 3) / 4 : 1;
    pthread_mutex_unlock(&w->lock);
}

bool rd_workers_open(rd_workers *w, unsigned most, unsigned busiest, void (*wake)(void *arg), void *wake_arg)
{
    *w = (rd_workers){.wake = wake, .wake_arg = wake_arg, .rest_ns = REST_NS};
    w->queue_end = &w->queue;
    w->over_end = &w->over;
    pthread_mutex_init(&w->lock, NULL);
    rp_cond_init(&w->work);
    w->busy_per_user = busiest;
    w->bulk_beside_small = rd_cores() > 1 ? rd_cores() - 1 : 1;
    rd_workers_fit(w, most);
    pthread_mutex_lock(&w->lock);
    bool started = start_worker(w);
    pthread_mutex_unlock(&w->lock);
    return started;
}

void rd_workers_watch(rd_workers *w, uint64_t now_ns)
{
    if (!w->wake || w->closed)
        return;
    pthread_mutex_lock(&w->lock);
    for (rd_worker *x = w->worker; x < w->worker + PLACES; x++) {
        if (x->stuck || !x->since_ns || now_ns < x->since_ns + RD_STUCK_MS * RP_NS_PER_MS)
            continue;
        x->stuck = true;
        w->stuck++;
    }
    while (!w->closing && w->queued > w->idle && start_worker(w))
        ;
    pthread_mutex_unlock(&w->lock);
}

unsigned rd_workers_running(rd_workers *w, const unsigned *running)
{
    if (!w->wake || w->closed)
        return 0;
    pthread_mutex_lock(&w->lock);
    unsigned n = *running;
    pthread_mutex_unlock(&w->lock);
    return n;
}

void rd_workers_small(rd_workers *w) { atomic_store_explicit(&w->small_ns, rp_now_ns(), memory_order_relaxed); }

bool rd_workers_bulk(const rd_workers *w) { return bulk_now(w) > 0; }

unsigned rd_workers_stuck(rd_workers *w) { return rd_workers_running(w, &w->stuck); }

void rd_workers_close(rd_workers *w)
{
    if (!w->wake || w->closed)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (rd_worker *x = w->worker; x < w->worker + PLACES; x++)
        if (x->started)
            pthread_join(x->thread, NULL);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    w->closed = true;
}

void rd_workers_add(rd_workers *w, rd_work *x)
{
    x->next = NULL;
    if (w->closed) {
        x->run(x);
        x->done(x);
        return;
    }
    pthread_mutex_lock(&w->lock);
    *w->queue_end = x;
    w->queue_end = &x->next;
    if (++w->queued <= w->idle || !start_worker(w))
        pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

static rd_work *take_finished(rd_workers *w)
{
    if (!w->wake) /* never opened */
        return NULL;
    if (!w->closed)
        pthread_mutex_lock(&w->lock);
    rd_work *x = w->over;
    if (x && !(w->over = x->next))
        w->over_end = &w->over;
    if (!w->closed)
        pthread_mutex_unlock(&w->lock);
    return x;
}

void rd_workers_finish(rd_workers *w)
{
    for (rd_work *x; (x = take_finished(w));)
        x->done(x);
}
