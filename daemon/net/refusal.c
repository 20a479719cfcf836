#include "daemon/net/refusal.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/net/sending.h"
#include "proto/codec.h"

enum { LONG_START = RP_ROUTE + RP_HEADER_SIZE /* of a frame that is too long: what names its request */ };

rd_step rd_refusal_begin_long(rd_connection *c)
{
    c->frame = malloc(LONG_START);
    if (!c->frame)
        return RD_HANG_UP;
    c->long_frame = true;
    rp_frame_into(&c->in, c->frame, LONG_START);
    return RD_GO_ON;
}

/* NULL: no memory, or it is not known which request it would be. */
static rd_reply_buffer *refusal_of_long(rd_connection *c)
{
    rp_header h;
    rp_fault f = {.index = RP_NO_INDEX};
    size_t route;
    if (rp_get_route(c->frame, LONG_START, &route) != RP_ROUTE_FINE ||
        (rp_get_header(c->frame + route, RP_HEADER_SIZE, &h, &f) && strcmp(f.field, "body_len") != 0) || h.reply)
        return NULL;
    rd_reply_buffer *r = rd_reply_buffer_new(&c->all->unsent, RP_HEADER_SIZE + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT);
    if (!r)
        return NULL;
    uint8_t *message = rd_reply_buffer_message(r);
    rp_fail(&f, RP_TOO_LARGE, "body_len", RP_MAX_BODY, "a message has at most %u bytes behind its header", RP_MAX_BODY);
    h.body_len = rp_put_fault(message + RP_HEADER_SIZE, &f);
    h.reply = true;
    h.status = RP_TOO_LARGE;
    h.time_ms = 0;
    rp_put_header(message, &h);
    rd_reply_buffer_frame(r, c->wire->ipc, c->frame, route, RP_HEADER_SIZE + h.body_len);
    r->last = true;
    return r;
}

rd_step rd_refusal_of_long(rd_connection *c)
{
    if (rd_sending_pauses(c))
        return RD_PAUSED;
    rd_reply_buffer *r = refusal_of_long(c);
    if (!r)
        return RD_HANG_UP;
    rd_send(c, r, 0);
    return rd_sending_look(c);
}
