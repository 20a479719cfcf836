#include "daemon/net/sending.h"

#include <string.h>

/* ---- back-pressure, with the connection's lock ---- */
static bool is_crowded(const rd_connection *c)
{
    unsigned part = c->paused == RD_FOR_REPLIES ? 2 : 1;
    return (c->n_replies > RD_MAX_QUEUED / part && c->queued_bytes > RD_MAX_QUEUED_BYTES / part) ||
           c->under_way >= RD_MAX_UNDER_WAY / part;
}

static bool is_roomy(const rd_connection *c)
{
    return (c->paused == RD_FOR_REPLIES && !is_crowded(c)) || (c->paused == RD_FOR_ANSWERS && c->under_way == 0);
}

/* ---- the queue, with the connection's lock ---- */

/* Sends as many replies as the kernel takes now, and moves those that are out to *done. False: the stream is broken. */
static bool send_replies(rd_connection *c, rd_reply_buffer **done)
{
    const rd_wire_ops *ops = c->wire->ops;
    while (c->replies && !c->closed) {
        rd_reply_buffer *r = c->replies;
        size_t n = ops->send(c->wire, r->at, r->left);
        r->at += n;
        r->left -= n;
        if (r->left) {
            c->sending = ops->send_rest(c->wire, r->at, r->left);
            if (c->sending)
                rd_connection_hold(c);
            return c->sending;
        }
        c->replies = r->next;
        if (!c->replies)
            c->replies_end = &c->replies;
        c->n_replies--;
        c->queued_bytes -= r->queued;
        r->next = *done;
        *done = r;
    }
    if (rd_is_ending(c) && !c->replies && !c->closed) {
        ops->end_sending(c->wire);
        c->send_by_ns = rp_after_ms(RD_LINGER_MS);
    }
    return !c->closed;
}

/* The backlog has one deadline: its first reply sets it, and each reply adds the time that a slow link takes for its bytes. */
static void queue_reply(rd_connection *c, rd_reply_buffer *r)
{
    uint64_t ns = rd_transfer_ns(r->left);
    c->send_by_ns = c->replies ? c->send_by_ns + ns : rp_after_ms(RD_TRANSFER_LIMIT_MS) + ns;
    r->next = NULL;
    *c->replies_end = r;
    c->replies_end = &r->next;
    c->n_replies++;
    r->queued = r->left;
    c->queued_bytes += r->queued;
    if (r->last)
        atomic_store_explicit(&c->ending, true, memory_order_relaxed);
}

/* Called with the lock, which it releases, after the queue has changed. The replies in `done` were sent; `whole` is false if
 * the peer is gone. */
static void settle(rd_connection *c, bool whole, rd_reply_buffer *done)
{
    bool roomy = is_roomy(c);
    pthread_mutex_unlock(&c->lock);
    rd_reply_buffer_free(done);
    if (!whole)
        rd_connection_hang_up(c);
    else if (roomy)
        rd_connection_resume(c);
}

/* ---- sending ---- */
void rd_send(rd_connection *c, rd_reply_buffer *r, unsigned answered)
{
    rd_reply_buffer *done = NULL;
    bool whole = true;
    pthread_mutex_lock(&c->lock);
    c->under_way -= answered;
    if (!c->closed && !rd_is_ending(c)) {
        queue_reply(c, r);
        if (!c->sending)
            whole = send_replies(c, &done);
    } else {
        r->next = NULL;
        done = r;
    }
    settle(c, whole, done);
}

void rd_sending_sent(void *connection, bool ok, size_t n)
{
    rd_connection *c = connection;
    rd_reply_buffer *done = NULL;
    pthread_mutex_lock(&c->lock);
    c->sending = false;
    c->replies->at += n;
    c->replies->left -= n;
    bool whole = ok && send_replies(c, &done);
    settle(c, whole, done);
    rd_connection_let_go(c);
}

void rd_send_greeting(rd_connection *c)
{
    rd_reply_buffer *r = rd_reply_buffer_new(&c->all->unsent, 0);
    if (!r) {
        rd_connection_hang_up(c);
        return;
    }
    r->at = r->bytes;
    r->left = RP_GREETING;
    memcpy(r->at, rp_greeting_rep, RP_GREETING);
    rd_send(c, r, 0);
}

/* ---- and reading ---- */
rd_step rd_sending_look(rd_connection *c)
{
    rd_step step = RD_GO_ON;
    pthread_mutex_lock(&c->lock);
    if (c->closed) {
        step = RD_HANG_UP;
    } else if (rd_is_ending(c)) {
        step = RD_READ_MORE;
    } else if (is_crowded(c)) {
        c->paused = RD_FOR_REPLIES;
        step = RD_PAUSED;
    }
    pthread_mutex_unlock(&c->lock);
    return step;
}

bool rd_sending_pauses(rd_connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool waits = c->under_way && !c->closed;
    if (waits)
        c->paused = RD_FOR_ANSWERS;
    pthread_mutex_unlock(&c->lock);
    return waits;
}
