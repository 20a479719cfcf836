#include "daemon/base/workers.h"

#include <signal.h>

#include "daemon/server.h"

/* The oldest chore whose user has a thread left. With the lock. */
static rd_work *next_chore(rd_workers *c)
{
    for (rd_work **at = &c->queue; *at; at = &(*at)->next) {
        rd_work *x = *at;
        if (x->user->running >= c->per_user)
            continue;
        *at = x->next;
        if (!x->next)
            c->queue_end = at;
        return x;
    }
    return NULL;
}

static void *work(void *arg)
{
    rd_workers *c = arg;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        rd_work *x = next_chore(c);
        if (!x && c->closing && !c->queue)
            break;
        if (!x) {
            pthread_cond_wait(&c->work, &c->lock);
            continue;
        }
        rd_user *user = x->user;
        user->running++;
        pthread_mutex_unlock(&c->lock);
        x->run(x);
        pthread_mutex_lock(&c->lock);
        user->running--;
        x->next = NULL;
        *c->over_end = x;
        c->over_end = &x->next;
        if (c->closing)
            pthread_cond_broadcast(&c->work); /* those that wait for the queue to end */
        pthread_mutex_unlock(&c->lock);
        c->wake(c->wake_arg);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

bool rd_workers_open(rd_workers *c, unsigned threads, void (*wake)(void *arg), void *wake_arg)
{
    sigset_t all, old;
    *c = (rd_workers){.wake = wake, .wake_arg = wake_arg};
    c->queue_end = &c->queue;
    c->over_end = &c->over;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    c->per_user = threads > 1 ? threads - (threads + 3) / 4 : 1;
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (c->threads < threads && pthread_create(&c->thread[c->threads], NULL, work, c) == 0)
        c->threads++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return c->threads == threads;
}

void rd_workers_close(rd_workers *c)
{
    if (!c->wake || c->closed)
        return;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->threads; i++)
        pthread_join(c->thread[i], NULL);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    c->closed = true;
}

void rd_workers_add(rd_server *s, rd_work *chore)
{
    rd_workers *c = &s->workers;
    chore->next = NULL;
    if (c->closed) {
        chore->run(chore);
        chore->done(s, chore);
        return;
    }
    pthread_mutex_lock(&c->lock);
    *c->queue_end = chore;
    c->queue_end = &chore->next;
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->lock);
}

rd_work *rd_workers_take(rd_workers *c)
{
    if (!c->wake) /* never opened */
        return NULL;
    if (!c->closed)
        pthread_mutex_lock(&c->lock);
    rd_work *x = c->over;
    if (x && !(c->over = x->next))
        c->over_end = &c->over;
    if (!c->closed)
        pthread_mutex_unlock(&c->lock);
    return x;
}
