#include "daemon/net/frame_room.h"

#include <stdlib.h>

#include "daemon/base/blocks.h"

_Static_assert((RD_MESSAGE_AT + RP_ROUTE_LEAST + RP_HEADER_SIZE + RP_SPEC_SIZE) % 16 == 0, "RD_MESSAGE_AT");

/* Call with the lock of `all` held. */
static bool charge(rd_connection *c)
{
    if (!rd_origin_charge(&c->all->origins, c->origin, c->unauthenticated, c->in.size))
        return false;
    c->charged = c->in.size;
    return true;
}

/* Gives back bytes that a frame no longer holds, so starving frames may begin. Call with the lock of `all` held. */
static void feed_starving(rd_connections *all)
{
    for (rd_connection **at = &all->starving, *c; (c = *at);) {
        if (!charge(c)) {
            at = &c->waits;
            continue;
        }
        *at = c->waits;
        rd_connection_resume(c);
    }
}

static void drop_charge(rd_connection *c)
{
    if (!c->charged)
        return;
    pthread_mutex_lock(&c->all->lock);
    rd_origin_release(&c->all->origins, c->origin, c->unauthenticated, c->charged);
    c->charged = 0;
    feed_starving(c->all);
    pthread_mutex_unlock(&c->all->lock);
}

uint8_t *rd_frame_room_take(rd_connection *c)
{
    uint8_t *frame = c->frame;
    c->frame = NULL;
    c->room = 0;
    drop_charge(c);
    return frame;
}

void rd_frame_room_drop(rd_connection *c)
{
    const size_t room = c->room;
    rd_frame_room_free(rd_frame_room_take(c), room);
}

void rd_frame_room_free(uint8_t *frame, size_t size) { rd_block_free(frame, RD_MESSAGE_AT + size); }

/* The whole of a large frame is charged before its memory grows, so a frame that has begun can be completed. */
static rd_step charge_or_starve(rd_connection *c)
{
    rd_connections *all = c->all;
    rd_step step = RD_GO_ON;
    pthread_mutex_lock(&all->lock);
    if (!c->charged && !charge(c)) {
        step = rd_connection_pause(c, RD_FOR_ROOM);
        if (step == RD_PAUSED)
            rd_waiting_append(&all->starving, c);
    }
    pthread_mutex_unlock(&all->lock);
    return step;
}

rd_step rd_frame_room_grow(rd_connection *c)
{
    size_t size = c->in.size, room = c->room ? c->room * RD_FRAME_GROWTH : RD_FRAME_FIRST;
    rd_step step = c->room && !c->charged ? charge_or_starve(c) : RD_GO_ON;
    if (step != RD_GO_ON)
        return step;
    room = room < size ? room : size;
    const size_t bytes = RD_MESSAGE_AT + room;
    uint8_t *frame = c->frame ? realloc(c->frame, bytes) : rd_block_new(bytes);
    if (!frame)
        return RD_HANG_UP;
    c->frame = frame;
    rp_frame_into(&c->in, frame + RD_MESSAGE_AT + c->room, room - c->room);
    c->room = room;
    return RD_GO_ON;
}
