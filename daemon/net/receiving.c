#include "daemon/net/receiving.h"

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
        rd_inbox_put(all->inbox, (rd_event){.kind = RD_CONNECTION_CLOSED, .connection = c->id});
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

/* A part of a frame is there, and time passes until the rest comes: for its bytes, too, once their number is known. */
static void begin_time(rd_connection *c)
{
    bool sized = c->in.at == RP_AT_FRAME;
    if (c->timed && (c->sized || !sized))
        return;
    pthread_mutex_lock(&c->lock);
    c->frame_by_ns = (c->timed ? c->frame_by_ns : rd_after_ms(RD_TRANSFER_LIMIT_MS)) + (sized ? rd_transfer_ns(c->in.size) : 0);
    pthread_mutex_unlock(&c->lock);
    c->timed = true;
    c->sized = sized;
}

/* The frame is whole; and a message, perhaps. */
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
    size_t size;
    rp_route_state route = rp_get_route(c->frame + RD_MESSAGE_AT, c->in.size, &size);
    if (route == RP_ROUTE_BROKEN)
        return RD_HANG_UP;
    if (route == RP_ROUTE_TOO_LONG)
        rd_frame_room_drop(c);
    end_time(c, route == RP_ROUTE_FINE);
    if (route == RP_ROUTE_TOO_LONG)
        return RD_GO_ON;
    return rd_exchange_pool_take(c->all->pool, c);
}

static rd_step take_step(rd_connection *c)
{
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
        return c->long_frame ? rd_refusal_of_long(c) : rd_frame_room_grow(c);
    case RP_READ_FRAME:
        return on_frame(c);
    case RP_READ_LONG:
        return rd_refusal_begin_long(c);
    case RP_READ_STRANGER:
    case RP_READ_NO_HEAD:
    case RP_READ_SHORT:
        break;
    }
    return RD_HANG_UP;
}

/* ---- the chain ---- */

/* Of an ending connection what comes is thrown away, so that the peer can send it, read the last reply and hang up. */
static void receive_more(rd_connection *c)
{
    rp_frame_reader *in = &c->in;
    if (rd_is_ending(c))
        c->wire->ops->receive(c->wire, in->ahead, sizeof in->ahead, NULL, 0);
    else
        c->wire->ops->receive(c->wire, in->to, in->missing, in->ahead, sizeof in->ahead);
}

/* Until more bytes are needed, or another thread goes on. */
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
