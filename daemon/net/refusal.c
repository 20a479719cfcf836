#include "daemon/net/refusal.h"

#include "daemon/base/log.h"
#include "daemon/net/frame_room.h"
#include "daemon/net/sending.h"

enum { MAX_ERROR = RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT };

/* A reply that is complete except for the session in its header, which an earlier HELLO may still set. NULL: no memory. */
static rd_reply_buffer *make_refusal(rd_connection *c, const rp_fault *f)
{
    rd_reply_buffer *r = rd_reply_buffer_new(&c->all->unsent, RP_HEADER_SIZE + MAX_ERROR);
    if (!r)
        return NULL;
    rp_header *h = &c->check.header;
    *h = (rp_header){.version = rp_reply_version(h->version), .type = h->type, .reply = true, .status = f->code, .id = h->id};
    h->body_len = rp_put_fault(rd_reply_buffer_message(r) + RP_HEADER_SIZE, f);
    rd_reply_buffer_frame(r, c->wire->ipc, c->frame + RD_MESSAGE_AT, c->check.route, RP_HEADER_SIZE + h->body_len);
    return r;
}

static void send_refusal(rd_connection *c, rd_reply_buffer *r)
{
    pthread_mutex_lock(&c->lock);
    c->check.header.session = c->session;
    pthread_mutex_unlock(&c->lock);
    rp_put_header(rd_reply_buffer_message(r), &c->check.header);
    rd_send(c, r, 0);
}

rd_step rd_refusal_send(rd_connection *c)
{
    if (rd_sending_pauses(c))
        return RD_PAUSED;
    rd_reply_buffer *r = c->refusal;
    c->refusal = NULL;
    r->last = true;
    send_refusal(c, r);
    return rd_sending_look(c);
}

/* Only a few replies that are charged to no account may wait. */
static bool has_few_replies(rd_connection *c)
{
    pthread_mutex_lock(&c->lock);
    bool few = c->n_replies < RD_MAX_QUEUED;
    pthread_mutex_unlock(&c->lock);
    return few;
}

static void log_fault(const rd_connection *c, const rp_fault *f)
{
    rd_peer peer;
    if (c->wire->ops->peer(c->wire, &peer))
        rd_log(RD_LOG_DEBUG, "%s: bad frame: %s: %s", peer.text, f->field, f->text);
}

rd_step rd_refuse_frame(rd_connection *c, const rp_fault *f)
{
    bool goes_on = c->check.relayed && !c->long_frame;
    bool answer = c->check.route && (!goes_on || has_few_replies(c));
    rd_reply_buffer *r = answer ? make_refusal(c, f) : NULL;
    log_fault(c, f);
    rd_frame_room_drop(c);
    if (goes_on) {
        if (r)
            send_refusal(c, r);
        return RD_GO_ON;
    }
    c->misbehaved = true;
    c->refusal = r;
    return r ? rd_refusal_send(c) : RD_HANG_UP;
}
