#include "daemon/base/workers.h"

#include <signal.h>

#include "daemon/base/clock.h"

/* The oldest work whose user has a thread left. With the lock. */
static rd_work *next_work(rd_workers *w)
{
    for (rd_work **at = &w->queue; *at; at = &(*at)->next) {
        rd_work *x = *at;
        if (*x->running >= w->per_user)
            continue;
        *at = x->next;
        if (!x->next)
            w->queue_end = at;
        return x;
    }
    return NULL;
}

/* It runs the work without the lock, and puts it among those that are over. */
static void run_work(rd_workers *w, rd_worker *me, rd_work *x)
{
    unsigned *running = x->running;
    (*running)++;
    me->since_ns = rd_now_ns();
    pthread_mutex_unlock(&w->lock);
    x->run(x);
    pthread_mutex_lock(&w->lock);
    me->since_ns = 0;
    (*running)--;
    x->next = NULL;
    *w->over_end = x;
    w->over_end = &x->next;
    if (w->closing)
        pthread_cond_broadcast(&w->work); /* those that wait for the queue to end */
    pthread_mutex_unlock(&w->lock);
    w->wake(w->wake_arg);
    pthread_mutex_lock(&w->lock);
}

/* A thread that was stuck is back. True: its place is taken. */
static bool is_spare(rd_workers *w, rd_worker *me)
{
    if (!me->stuck)
        return false;
    me->stuck = false;
    w->stuck--;
    w->running++;
    return w->running > w->threads;
}

static void *workers_run(void *arg)
{
    rd_worker *me = arg;
    rd_workers *w = me->all;
    pthread_mutex_lock(&w->lock);
    while (!is_spare(w, me)) {
        rd_work *x = next_work(w);
        if (x)
            run_work(w, me, x);
        else if (w->closing && !w->queue)
            break;
        else
            pthread_cond_wait(&w->work, &w->lock);
    }
    w->running--;
    me->ended = true;
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* In a free place; with the lock. False: there is none, or no thread. Signals are the loop's. */
static bool start_thread(rd_workers *w)
{
    rd_worker *me = w->worker, *end = w->worker + sizeof w->worker / sizeof w->worker[0];
    sigset_t all, old;
    while (me < end && me->started && !me->ended)
        me++;
    if (me == end)
        return false;
    if (me->started)
        pthread_join(me->thread, NULL);
    *me = (rd_worker){.all = w};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    me->started = pthread_create(&me->thread, NULL, workers_run, me) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    w->running += me->started;
    return me->started;
}

bool rd_workers_open(rd_workers *w, unsigned threads, void (*wake)(void *arg), void *wake_arg)
{
    *w = (rd_workers){.wake = wake, .wake_arg = wake_arg, .threads = threads};
    w->queue_end = &w->queue;
    w->over_end = &w->over;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    w->per_user = threads > 1 ? threads - (threads + 3) / 4 : 1;
    pthread_mutex_lock(&w->lock);
    while (w->running < threads && start_thread(w))
        ;
    pthread_mutex_unlock(&w->lock);
    return w->running == threads;
}

void rd_workers_watch(rd_workers *w, uint64_t now_ns)
{
    if (!w->wake || w->closed)
        return;
    pthread_mutex_lock(&w->lock);
    for (rd_worker *x = w->worker; x < w->worker + sizeof w->worker / sizeof w->worker[0]; x++) {
        if (x->stuck || !x->since_ns || now_ns < x->since_ns + (uint64_t)RD_STUCK_MS * 1000000)
            continue;
        x->stuck = true;
        w->stuck++;
        w->running--;
    }
    while (!w->closing && w->running < w->threads && start_thread(w))
        ;
    pthread_mutex_unlock(&w->lock);
}

unsigned rd_workers_stuck(rd_workers *w)
{
    if (!w->wake || w->closed)
        return 0;
    pthread_mutex_lock(&w->lock);
    unsigned n = w->stuck;
    pthread_mutex_unlock(&w->lock);
    return n;
}

void rd_workers_close(rd_workers *w)
{
    if (!w->wake || w->closed)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (rd_worker *x = w->worker; x < w->worker + sizeof w->worker / sizeof w->worker[0]; x++)
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
