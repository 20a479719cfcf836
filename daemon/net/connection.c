#include "daemon/net/connection.h"

#include <stdlib.h>

#include "daemon/base/brief_lock.h"

/* ---- lists of those that wait ---- */
void rd_waiting_append(rd_connection **list, rd_connection *c)
{
    while (*list)
        list = &(*list)->waits;
    c->waits = NULL;
    *list = c;
}

void rd_waiting_remove(rd_connection **list, const rd_connection *c)
{
    while (*list && *list != c)
        list = &(*list)->waits;
    if (*list)
        *list = c->waits;
}

/* ---- reading, and not reading ---- */
rd_step rd_connection_pause(rd_connection *c, rd_pause reason)
{
    pthread_mutex_lock(&c->lock);
    bool open = !c->closed;
    if (open)
        c->paused = reason;
    pthread_mutex_unlock(&c->lock);
    return open ? RD_PAUSED : RD_HANG_UP;
}

bool rd_connection_claim(rd_connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool mine = c->paused != RD_READING;
    c->paused = RD_READING;
    if (mine && c->frame_by_ns != UINT64_MAX)
        c->frame_by_ns = rp_after_ms(RD_TRANSFER_LIMIT_MS) + rd_transfer_ns(c->in.size);
    pthread_mutex_unlock(&c->lock);
    return mine;
}

void rd_connection_turn(rd_connection *c) { c->wire->ops->receive(c->wire, NULL, 0, NULL, 0); }

void rd_connection_resume(rd_connection *c)
{
    if (rd_connection_claim(c))
        rd_connection_turn(c);
}

/* ---- its end ---- */
void rd_connection_hang_up(rd_connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool first = !c->closed;
    c->closed = true;
    pthread_mutex_unlock(&c->lock);
    if (first)
        c->wire->ops->hang_up(c->wire);
    rd_connection_resume(c);
}

static void end_strangeness(rd_connection *c)
{
    if (c->unauthenticated)
        rd_origin_authenticated(&c->all->origins, c->origin, c->charged);
    c->unauthenticated = false;
}

void rd_connection_admit(rd_connection *c, uint64_t session)
{
    pthread_mutex_lock(&c->all->lock);
    end_strangeness(c);
    pthread_mutex_unlock(&c->all->lock);
    pthread_mutex_lock(&c->lock);
    c->session = session;
    pthread_mutex_unlock(&c->lock);
}

void rd_connection_hold(rd_connection *c) { atomic_fetch_add_explicit(&c->holders, 1, memory_order_relaxed); }

static void delist(rd_connection *c)
{
    rd_connections *all = c->all;
    pthread_mutex_lock(&all->lock);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    end_strangeness(c);
    rd_origin_leave(&all->origins, c->origin);
    pthread_mutex_unlock(&all->lock);
}

void rd_connection_let_go(rd_connection *c)
{
    rd_connections *all = c->all;
    if (atomic_fetch_sub_explicit(&c->holders, 1, memory_order_acq_rel) != 1)
        return;
    delist(c);
    rd_reply_buffer_free(c->replies);
    rd_reply_buffer_free(c->refusal);
    c->wire->ops->free(c->wire);
    pthread_mutex_lock(&all->lock);
    all->alive--;
    pthread_cond_signal(&all->less);
    pthread_mutex_unlock(&all->lock); /* the transport may be freed from here on */
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* ---- its beginning ---- */
static bool is_open(rd_connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool open = !c->closed;
    pthread_mutex_unlock(&c->lock);
    return open;
}

/* The oldest unauthenticated connection of an origin, or of all local or network peers if it is NULL. */
static rd_connection *oldest_unauthenticated(rd_connections *all, const rd_origin_use *o, bool local)
{
    rd_connection *oldest = NULL;
    for (rd_connection *c = all->newest; c; c = c->next)
        if (c->unauthenticated && is_open(c) && (o ? c->origin == o : c->origin->id.local == local))
            oldest = c;
    return oldest;
}

/* Counts one more unauthenticated connection and closes the oldest if there are too many. Call with the lock of `all` held. */
static void bound_unauthenticated(rd_connections *all, const rd_origin_use *o)
{
    bool local = o->id.local;
    rd_connection *c = NULL;
    if (o->unauthenticated > RD_MAX_ORIGIN_UNAUTHENTICATED)
        c = oldest_unauthenticated(all, o, local);
    else if (all->origins.unauthenticated[local] > RD_MAX_UNAUTHENTICATED)
        c = oldest_unauthenticated(all, NULL, local);
    if (c)
        rd_connection_hang_up(c);
}

static bool enlist(rd_connections *all, rd_connection *c)
{
    pthread_mutex_lock(&all->lock);
    c->origin = all->closing ? NULL : rd_origin_join(&all->origins, c->wire->origin);
    if (c->origin) {
        c->id = ++all->last_id;
        c->unauthenticated = true;
        bound_unauthenticated(all, c->origin);
        c->next = all->newest;
        c->at = &all->newest;
        if (c->next)
            c->next->at = &c->next;
        all->newest = c;
        all->receivers++;
        all->alive++;
    }
    pthread_mutex_unlock(&all->lock);
    return c->origin != NULL;
}

rd_connection *rd_connection_new(rd_connections *all, rd_wire *w)
{
    rd_connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->all = all;
    c->wire = w;
    c->replies_end = &c->replies;
    c->frame_by_ns = c->send_by_ns = UINT64_MAX;
    c->greet_by_ns = rp_after_ms(RD_GREETING_LIMIT_MS);
    atomic_init(&c->holders, 1);
    rd_brief_lock_init(&c->lock);
    rp_frame_init(&c->in, rp_greeting_req, w->ipc, RD_MAX_FRAME);
    w->user = c; /* set before it is listed: then another thread may hang it up, and events arrive */
    if (enlist(all, c))
        return c;
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

/* The newest connection is looked up most often, so the search begins there. */
rd_connection *rd_connection_find(rd_connections *all, uint32_t id)
{
    pthread_mutex_lock(&all->lock);
    rd_connection *c = all->newest;
    while (c && c->id != id)
        c = c->next;
    unsigned n = c ? atomic_load_explicit(&c->holders, memory_order_relaxed) : 0;
    while (n && !atomic_compare_exchange_weak_explicit(&c->holders, &n, n + 1, memory_order_relaxed, memory_order_relaxed))
        ;
    pthread_mutex_unlock(&all->lock);
    return n ? c : NULL;
}

/* ---- all of them ---- */
void rd_connections_init(rd_connections *all, rd_inbox *inbox, rd_exchange_pool *pool)
{
    all->inbox = inbox;
    all->pool = pool;
    rd_brief_lock_init(&all->lock);
    pthread_cond_init(&all->less, NULL);
}

void rd_connections_destroy(rd_connections *all)
{
    pthread_cond_destroy(&all->less);
    pthread_mutex_destroy(&all->lock);
}

/* Peers that are silent or slow. */
static bool is_late(rd_connection *c, uint64_t now)
{
    pthread_mutex_lock(&c->lock);
    bool late = now >= (c->announced ? UINT64_MAX : c->greet_by_ns) || (c->paused == RD_READING && now >= c->frame_by_ns) ||
                ((c->replies || rd_is_ending(c)) && now >= c->send_by_ns);
    pthread_mutex_unlock(&c->lock);
    return late;
}

static bool is_gone(const rd_connection *c) { return c->wire->ops->is_gone && c->wire->ops->is_gone(c->wire); }

void rd_connections_tick(rd_connections *all)
{
    uint64_t now = rp_now_ns();
    pthread_mutex_lock(&all->lock);
    for (rd_connection *c = all->newest; c; c = c->next)
        if (is_late(c, now) || is_gone(c))
            rd_connection_hang_up(c);
    pthread_mutex_unlock(&all->lock);
}

void rd_connections_distrust(rd_connections *all)
{
    pthread_mutex_lock(&all->lock);
    for (rd_connection *c = all->newest; c; c = c->next)
        if (c->wire->ops->is_trusted && !c->wire->ops->is_trusted(c->wire))
            rd_connection_hang_up(c);
    pthread_mutex_unlock(&all->lock);
}

void rd_connections_hang_up(rd_connections *all)
{
    pthread_mutex_lock(&all->lock);
    all->closing = true;
    for (rd_connection *c = all->newest; c; c = c->next)
        rd_connection_hang_up(c);
    while (all->receivers)
        pthread_cond_wait(&all->less, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

void rd_connections_wait(rd_connections *all)
{
    pthread_mutex_lock(&all->lock);
    while (all->alive) /* pending sends end with an error */
        pthread_cond_wait(&all->less, &all->lock);
    pthread_mutex_unlock(&all->lock);
}
