#include "daemon/base/workers.h"

#include <signal.h>

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

static void *workers_run(void *arg)
{
    rd_workers *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        rd_work *x = next_work(w);
        if (!x && w->closing && !w->queue)
            break;
        if (!x) {
            pthread_cond_wait(&w->work, &w->lock);
            continue;
        }
        unsigned *running = x->running;
        (*running)++;
        pthread_mutex_unlock(&w->lock);
        x->run(x);
        pthread_mutex_lock(&w->lock);
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
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool rd_workers_open(rd_workers *w, unsigned threads, void (*wake)(void *arg), void *wake_arg)
{
    sigset_t all, old;
    *w = (rd_workers){.wake = wake, .wake_arg = wake_arg};
    w->queue_end = &w->queue;
    w->over_end = &w->over;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->work, NULL);
    w->per_user = threads > 1 ? threads - (threads + 3) / 4 : 1;
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (w->threads < threads && pthread_create(&w->thread[w->threads], NULL, workers_run, w) == 0)
        w->threads++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return w->threads == threads;
}

void rd_workers_close(rd_workers *w)
{
    if (!w->wake || w->closed)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->threads; i++)
        pthread_join(w->thread[i], NULL);
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
