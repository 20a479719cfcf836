#include "daemon/net/receiving.h"

#include <stdlib.h>

#include "daemon/net/exchange_pool.h"
#include "daemon/net/frame_room.h"
#include "daemon/net/refusal.h"
#include "daemon/net/sending.h"

/* ---- the end ---- */
static void end_receiving(rd_connection *c)
{
    rd_connections *all = c->all;
    rd_connection_hang_up(c);
    pthread_mutex_lock(&all->lock);
    rd_exchange_pool_forget(all->pool, c);
    rd_waiting_remove(&all->starving, c);
    pthread_mutex_unlock(&all->lock);
    rd_frame_room_drop(c);
    if (c->announced)
        rd_inbox_put(all->inbox, (rd_event){.kind = RD_CONNECTION_CLOSED, .connection = c->id, .misbehaved = c->misbehaved});
    pthread_mutex_lock(&all->lock);
    all->receivers--;
    pthread_cond_signal(&all->less);
    pthread_mutex_unlock(&all->lock);
    rd_connection_let_go(c);
}

/* ---- frames ---- */
static rd_step on_greeted(rd_connection *c)
{
    pthread_mutex_lock(&c->lock);
    c->announced = !c->closed;
    pthread_mutex_unlock(&c->lock);
    if (!c->announced)
        return RD_HANG_UP;
    return rd_inbox_put(c->all->inbox, (rd_event){.kind = RD_CONNECTION_OPENED, .connection = c->id}) ? RD_GO_ON : RD_HANG_UP;
}

/* Part of a frame has come: set its deadline, and add the time for its bytes once their number is known. Only the start of a
 * frame that is too long is read. */
static void begin_time(rd_connection *c)
{
    bool sized = c->in.at == RP_AT_FRAME && !c->long_frame;
    if (c->timed && (c->sized || !sized))
        return;
    pthread_mutex_lock(&c->lock);
    c->frame_by_ns = (c->timed ? c->frame_by_ns : rp_after_ms(RD_TRANSFER_LIMIT_MS)) + (sized ? rd_transfer_ns(c->in.size) : 0);
    pthread_mutex_unlock(&c->lock);
    c->timed = true;
    c->sized = sized;
}

/* The frame is whole; it may be a message. */
static void end_time(rd_connection *c, bool message)
{
    pthread_mutex_lock(&c->lock);
    c->under_way += message;
    c->frame_by_ns = UINT64_MAX;
    c->timed = false;
    pthread_mutex_unlock(&c->lock);
}

static rd_step on_frame(rd_connection *c)
{
    rp_fault f;
    bool good = rd_check_frame(c->frame + RD_MESSAGE_AT, c->in.size, &c->check, &f) == RP_OK;
    end_time(c, good);
    return good ? rd_exchange_pool_take(c->all->pool, c) : rd_refuse_frame(c, &f);
}

/* ---- a frame that is too long: only what names its request is read ---- */
static rd_step begin_long(rd_connection *c)
{
    c->frame = malloc(RD_MESSAGE_AT + RD_FRAME_START);
    if (!c->frame)
        return RD_HANG_UP;
    c->long_frame = true;
    rp_frame_into(&c->in, c->frame + RD_MESSAGE_AT, RD_FRAME_START);
    return RD_GO_ON;
}

static rd_step end_long(rd_connection *c)
{
    rp_fault f;
    rd_check_frame(c->frame + RD_MESSAGE_AT, c->in.size, &c->check, &f);
    return rd_refuse_frame(c, &f);
}

static rd_step misbehaves(rd_connection *c)
{
    c->misbehaved = true;
    return RD_HANG_UP;
}

static rd_step take_step(rd_connection *c)
{
    if (c->refusal)
        return rd_refusal_send(c);
    switch (rp_frame_next(&c->in)) {
    case RP_READ_MORE:
        if (c->announced && rp_frame_is_inside(&c->in))
            begin_time(c);
        return RD_READ_MORE;
    case RP_READ_GREETED:
        return on_greeted(c);
    case RP_READ_BEGUN:
        return rd_frame_room_grow(c);
    case RP_READ_FULL:
        return c->long_frame ? end_long(c) : rd_frame_room_grow(c);
    case RP_READ_FRAME:
        return on_frame(c);
    case RP_READ_LONG:
        return begin_long(c);
    case RP_READ_NOT_OURS:
    case RP_READ_NO_HEAD:
    case RP_READ_SHORT:
        break;
    }
    return misbehaves(c);
}

/* ---- the chain ---- */

/* Input of an ending connection is discarded, so that the peer can finish sending, read the last reply and hang up. */
static void receive_more(rd_connection *c)
{
    rp_frame_reader *in = &c->in;
    if (rd_is_ending(c))
        c->wire->ops->receive(c->wire, in->ahead, sizeof in->ahead, NULL, 0);
    else
        c->wire->ops->receive(c->wire, in->to, in->missing, in->ahead, sizeof in->ahead);
}

/* Handles input until more bytes are needed, or until another thread continues. */
static void go_on(rd_connection *c)
{
    rd_step step = rd_sending_look(c);
    while (step == RD_GO_ON)
        step = take_step(c);
    if (step == RD_READ_MORE)
        receive_more(c);
    if (step == RD_HANG_UP) {
        rd_connection_hang_up(c);
        rd_connection_turn(c); /* which ends it */
    }
}

void rd_receiving_received(void *connection, bool ok, size_t n)
{
    rd_connection *c = connection;
    if (!ok) {
        end_receiving(c);
        return;
    }
    if (n && !rd_is_ending(c))
        rp_frame_got(&c->in, n);
    go_on(c);
}

void rd_receiving_begin(rd_connection *c)
{
    rd_send_greeting(c);
    go_on(c);
}
