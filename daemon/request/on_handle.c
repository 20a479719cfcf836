#include "daemon/request/on_handle.h"

#include <unistd.h>

/* ---- replies ---- */
static void answer(rd_channel *c, const rd_handle *x, rp_side_kind kind)
{
    rp_side p = {.reply = true, .kind = kind, .value = x ? x->id : 0, .size = x ? x->size : 0};
    rd_fdpass_send(c, &p, NULL, x && x->kind == RD_HANDLE_ARENA ? x->fd : -1);
}

static void refuse(rd_channel *c, rp_side_kind kind, const rp_fault *f)
{
    rp_side p = {.reply = true, .kind = kind, .status = f->code};
    rd_fdpass_send(c, &p, f, -1);
}

/* ---- handles ---- */
static void add(rd_channel *c, rd_handle *x)
{
    rd_handles_add(&c->session->handles, x);
    rd_handle_hold(x); /* keeps it: answering may close the channel, which drops the handle */
    answer(c, x, c->asked);
    if (x->kind == RD_HANDLE_ARENA) {
        close(x->fd);
        x->fd = -1;
    }
    rd_handle_release(x);
}

/* The handle that a channel asked for was made, or could not be made. */
static void on_handle_made(rd_handle *x)
{
    rd_channel *c = x->maker;
    if (c && !x->fault.code) {
        add(c, x);
    } else {
        if (c)
            refuse(c, c->asked, &x->fault);
        rd_handle_release(x);
    }
    if (c && !c->closing) {
        c->making = NULL;
        rd_fdpass_watch(c);
    }
}

static bool same_token(const uint8_t *a, const uint8_t *b)
{
    uint8_t differ = 0;
    for (size_t i = 0; i < RP_TOKEN; i++) /* in constant time */
        differ |= a[i] ^ b[i];
    return differ == 0;
}

static void attach(rd_requests *q, rd_channel *c, const rp_side *p)
{
    rd_session *x = rd_session_by_id(q->sessions, p->value);
    rp_fault f = {.index = RP_NO_INDEX};
    if (!x || !x->peer.local || x->peer.uid != c->user->uid || x->channel || !same_token(x->token, p->token)) {
        rp_fail(&f, RP_AUTH, "token", 0, "no session of this user waits for an fdpass channel");
        refuse(c, RP_SIDE_ATTACH, &f);
        rd_fdpass_hang_up(c);
        return;
    }
    c->session = x;
    x->channel = c;
    rd_fdpass_attach(c);
    answer(c, NULL, RP_SIDE_ATTACH);
}

/* Begin to make a handle; the channel is not read meanwhile. */
static void make(rd_requests *q, rd_channel *c, const rp_side *p, int fd)
{
    rd_holdings *h = q->holdings;
    rp_fault f = {.index = RP_NO_INDEX};
    rd_fdpass_rest(c);
    c->asked = (rp_side_kind)p->kind;
    if (c->session->handles.n >= RP_MAX_SHARES) {
        rp_fail(&f, RP_QUOTA, "handles", RP_MAX_SHARES, "this session has %u files and arenas", c->session->handles.n);
        if (fd >= 0)
            rd_handle_reject(h, c->user, fd);
    } else if (p->kind == RP_SIDE_FILE) {
        rd_handle_file(h, c->user, fd, on_handle_made, c, &c->making, &f);
    } else if (p->kind == RP_SIDE_DEVICE) {
        rd_handle_device(h, c->user, p, on_handle_made, c, &c->making, &f);
    } else if (p->kind == RP_SIDE_DEVICE_FD) {
        rd_handle_device_fd(h, c->user, fd, p->value, on_handle_made, c, &c->making, &f);
    } else {
        rd_handle_arena(h, c->user, p->value, on_handle_made, c, &c->making, &f);
    }
    if (f.code)
        refuse(c, c->asked, &f);
    if (f.code && !c->closing)
        rd_fdpass_watch(c);
}

static void drop(rd_channel *c, uint64_t id)
{
    rd_handle *x = rd_handles_find(&c->session->handles, id);
    if (!x)
        return;
    x->given_back = true;
    rd_handles_drop(&c->session->handles, x);
}

/* ---- hooks ---- */
void rd_on_packet(void *requests, rd_channel *c, const rp_side *p, int fd)
{
    if (p->kind == RP_SIDE_ATTACH)
        attach(requests, c, p);
    else if (p->kind == RP_SIDE_DROP)
        drop(c, p->value);
    else
        make(requests, c, p, fd);
}

void rd_on_channel_gone(void *requests, rd_channel *c)
{
    (void)requests;
    if (c->making)
        c->making->maker = NULL;
    if (!c->session)
        return;
    c->session->channel = NULL;
    rd_handles_drop_all(&c->session->handles);
}
