#include "client/enter.h"

#include <errno.h>
#include <time.h>

#include "client/client.h"
#include "proto/clock.h"

void rc_enter(reduce_client *c) { pthread_mutex_lock(&c->lock); }

/* Do a piece of the work that was queued under the mutex. False: there is none. */
static bool flush_one(reduce_client *c)
{
    rc_ending **first = c->outbox ? &c->outbox : &c->endings, *work = *first;
    if (!work)
        return false;
    *first = work->next;
    work->run(c, work);
    return true;
}

/* The connection's threads read replies, unless a caller reads its reply itself. */
static void leave_to_connection(reduce_client *c)
{
    if (c->busy && !c->helping)
        rc_connection_interrupt(c->connection);
}

void rc_leave(reduce_client *c)
{
    while (flush_one(c))
        ;
    leave_to_connection(c);
    pthread_mutex_unlock(&c->lock);
}

void rc_send_later(reduce_client *c, rc_ending *message)
{
    message->next = NULL;
    *(c->outbox ? &c->outbox_end->next : &c->outbox) = message;
    c->outbox_end = message;
}

void rc_end_later(reduce_client *c, rc_ending *e)
{
    e->next = c->endings;
    c->endings = e;
}

static bool helped_by_other(const reduce_client *c) { return c->helping && !pthread_equal(c->helper, pthread_self()); }

void rc_wake(pthread_cond_t *cond, reduce_client *c)
{
    pthread_cond_broadcast(cond);
    c->unreadable = false;
    if (helped_by_other(c))
        rc_connection_interrupt(c->connection);
}

bool rc_cond_wait(pthread_cond_t *cond, reduce_client *c, uint64_t until_ns)
{
    if (flush_one(c)) /* the event that the caller waits for may happen meanwhile */
        return true;
    leave_to_connection(c);
    if (until_ns == 0) {
        pthread_cond_wait(cond, &c->lock);
        return true;
    }
    struct timespec end = rp_timespec(until_ns);
    return pthread_cond_timedwait(cond, &c->lock, &end) != ETIMEDOUT;
}

bool rc_reply_wait(pthread_cond_t *cond, reduce_client *c, uint64_t until_ns, uint64_t watch_until_ns)
{
    if (c->busy != 1 || c->outbox || c->endings || c->helping || c->unreadable)
        return rc_cond_wait(cond, c, until_ns);
    c->helping = true;
    c->helper = pthread_self();
    pthread_mutex_unlock(&c->lock);
    bool read = rc_connection_read_here(c->connection, until_ns, watch_until_ns);
    pthread_mutex_lock(&c->lock);
    c->helping = false;
    c->unreadable |= !read; /* the event may have happened meanwhile: the caller checks before it waits */
    return until_ns == 0 || rp_now_ns() < until_ns;
}
