#include "daemon/net/fdpass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/interpose.h"
#include "daemon/base/lock.h"
#include "daemon/base/log.h"
#include "daemon/server.h"

enum {
    BACKLOG = 64,
    FDS_TAKEN = 253 /* as many as the kernel lets a packet carry: all that came must be closed, and not by the kernel here */
};

/* ---- channels come and go ---- */
static void on_closed(uv_handle_t *h)
{
    rd_channel *c = h->data;
    if (c->session) /* was attached */
        rd_handle_reject(c->server, c->user, c->fd);
    else
        close(c->fd);
    rd_user_put(&c->server->users, c->user);
    free(c);
}

static void close_channel(rd_channel *c)
{
    rd_server *s = c->server;
    rd_fdpass *side = &s->fdpass;
    if (c->closing)
        return;
    c->closing = true;
    if (c->making)
        c->making->maker = NULL;
    if (c->session) {
        c->session->channel = NULL;
        rd_handles_drop_all(s, &c->session->shares);
    } else {
        side->strangers--;
    }
    *(c->prev ? &c->prev->next : &side->first) = c->next;
    *(c->next ? &c->next->prev : &side->last) = c->prev;
    side->channels--;
    shutdown(c->fd, SHUT_RDWR); /* it may be a while until it is closed */
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

void rd_fdpass_leave(rd_server *s, rd_session *x)
{
    (void)s;
    if (x && x->channel)
        close_channel(x->channel);
}

/* Who never says ATTACH must not keep others out. */
static void close_oldest_stranger(rd_fdpass *side)
{
    rd_channel *c = side->first;
    while (c->session)
        c = c->next;
    close_channel(c);
}

/* ---- sending ---- */
static bool send_packet(const rd_channel *c, const void *packet, size_t len, int fd)
{
    struct iovec part = {(void *)packet, len};
    union {
        char bytes[CMSG_SPACE(sizeof fd)];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        *h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(h), &fd, sizeof fd);
    }
    return sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

/* Who does not take the answer to the one request it may have is gone or broken. */
static void answer(rd_channel *c, const rd_handle *x, rp_side_kind kind)
{
    uint8_t packet[RP_SIDE_MAX];
    rp_side p = {.reply = true, .kind = kind, .value = x ? x->id : 0, .size = x ? x->size : 0};
    if (!send_packet(c, packet, rp_put_side(packet, &p), x && x->kind == RD_HANDLE_ARENA ? x->fd : -1))
        close_channel(c);
}

static void refuse(rd_channel *c, rp_side_kind kind, const rp_fault *f)
{
    uint8_t packet[RP_SIDE_MAX + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT];
    rp_side p = {.reply = true, .kind = kind, .status = f->code};
    size_t len = rp_put_side(packet, &p);
    len += rp_put_fault(packet + len, f);
    if (!send_packet(c, packet, len, -1))
        close_channel(c);
}

/* ---- packets ---- */
static void watch(rd_channel *c);

/* What a channel asked for is there, or not. */
static void on_made(rd_server *s, rd_handle *x)
{
    rd_channel *c = x->maker;
    if (!c || x->fault.code) {
        if (c)
            refuse(c, c->asked, &x->fault);
        rd_handle_release(s, x);
    } else {
        rd_handles_add(s, &c->session->shares, x);
        rd_handle_hold(x); /* answering may close the channel, and drop it */
        answer(c, x, c->asked);
        if (x->kind == RD_HANDLE_ARENA) {
            close(x->fd);
            x->fd = -1;
        }
        rd_handle_release(s, x);
    }
    if (c && !c->closing) {
        c->making = NULL;
        watch(c);
    }
}

static bool same_token(const uint8_t *a, const uint8_t *b)
{
    uint8_t differ = 0;
    for (size_t i = 0; i < RP_TOKEN; i++) /* in the same time wherever they differ */
        differ |= a[i] ^ b[i];
    return differ == 0;
}

static void attach(rd_channel *c, const rp_side *p)
{
    rd_fdpass *side = &c->server->fdpass;
    rd_session *x = rd_session_by_id(&c->server->sessions, p->value);
    rp_fault f = {.index = RP_NO_INDEX};
    if (!x || !x->peer.local || x->peer.uid != c->user->uid || x->channel || !same_token(x->token, p->token)) {
        rp_fail(&f, RP_AUTH, "token", 0, "no session of this user that wants such a side channel");
        refuse(c, RP_SIDE_ATTACH, &f);
        close_channel(c);
        return;
    }
    c->session = x;
    x->channel = c;
    side->strangers--;
    rd_let_descriptors(c->fd);
    answer(c, NULL, RP_SIDE_ATTACH);
}

/* Begin to make something; the channel rests meanwhile. */
static void make(rd_channel *c, const rp_side *p, int fd)
{
    rd_server *s = c->server;
    rp_fault f = {.index = RP_NO_INDEX};
    uv_poll_stop(&c->poll);
    c->asked = (rp_side_kind)p->kind;
    if (c->session->shares.n >= RP_MAX_SHARES) {
        rp_fail(&f, RP_QUOTA, "handles", RP_MAX_SHARES, "this session has %u files and arenas", c->session->shares.n);
        if (fd >= 0)
            rd_handle_reject(s, c->user, fd);
    } else if (p->kind == RP_SIDE_FILE) {
        rd_handle_file(s, c->user, fd, on_made, c, &c->making, &f);
    } else if (p->kind == RP_SIDE_DEVICE) {
        rd_handle_device(s, c->user, p->device, on_made, c, &c->making, &f);
    } else if (p->kind == RP_SIDE_DEVICE_FD) {
        rd_handle_device_fd(s, c->user, fd, p->value, on_made, c, &c->making, &f);
    } else {
        rd_handle_arena(s, c->user, p->value, on_made, c, &c->making, &f);
    }
    if (f.code)
        refuse(c, c->asked, &f);
    if (f.code && !c->closing)
        watch(c);
}

static void drop(rd_channel *c, uint64_t id)
{
    rd_handle *x = rd_handles_find(&c->session->shares, id);
    if (x)
        rd_handles_drop(c->server, &c->session->shares, x);
}

/* A packet and `n` descriptors, of which all but one that is wanted are closed. */
static void on_packet(rd_channel *c, const uint8_t *packet, size_t len, const int *fds, unsigned n)
{
    rp_side p;
    rp_fault f;
    bool right = rp_get_side(packet, len, &p, &f) == RP_OK && (p.kind == RP_SIDE_ATTACH) == !c->session &&
                 n == (p.kind == RP_SIDE_FILE || p.kind == RP_SIDE_DEVICE_FD);
    for (unsigned i = 0; i < n && !right; i++)
        rd_handle_reject(c->server, c->user, fds[i]);
    if (!right) {
        rd_log(RD_LOG_DEBUG, "uid %llu: side channel closed: malformed packet", (unsigned long long)c->user->uid);
        close_channel(c);
    } else if (p.kind == RP_SIDE_ATTACH) {
        attach(c, &p);
    } else if (p.kind == RP_SIDE_DROP) {
        drop(c, p.value);
    } else {
        make(c, &p, n ? fds[0] : -1);
    }
}

static unsigned take_descriptors(struct msghdr *m, int fds[FDS_TAKEN])
{
    unsigned n = 0;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
            continue;
        unsigned here = (unsigned)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (unsigned i = 0; i < here && n < FDS_TAKEN; i++)
            memcpy(&fds[n++], CMSG_DATA(h) + i * sizeof(int), sizeof(int));
    }
    return n;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    rd_channel *c = poll->data;
    uint8_t packet[RP_SIDE_MAX + 1]; /* one more byte shows that a packet is too long */
    union {
        char bytes[CMSG_SPACE(FDS_TAKEN * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {packet, sizeof packet};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    int fds[FDS_TAKEN];
    (void)events;
    if (status < 0 || c->user->closing >= RP_MAX_USER_CLOSING) { /* broken, or its packet may bring more of what hangs */
        close_channel(c);
        return;
    }
    ssize_t n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    unsigned n_fds = n < 0 ? 0 : take_descriptors(&m, fds);
    bool cut = m.msg_flags & (MSG_TRUNC | MSG_CTRUNC); /* too long, or this process may have no more descriptors */
    if (n <= 0 && n_fds == 0)
        close_channel(c);
    else
        on_packet(c, packet, cut ? 0 : (size_t)n, fds, n_fds);
}

static void watch(rd_channel *c) { uv_poll_start(&c->poll, UV_READABLE, on_readable); }

/* ---- doors ---- */
static void welcome(rd_server *s, int fd, uint64_t uid)
{
    rd_fdpass *side = &s->fdpass;
    rd_channel *c = calloc(1, sizeof *c);
    rd_user *user = c ? rd_user_get(&s->users, uid) : NULL;
    if (!user || uv_poll_init(&s->loop, &c->poll, fd) != 0) {
        if (user)
            rd_user_put(&s->users, user);
        free(c);
        close(fd);
        return;
    }
    c->poll.data = c;
    c->fd = fd;
    c->server = s;
    c->user = user;
    c->prev = side->last;
    *(side->last ? &side->last->next : &side->first) = c;
    side->last = c;
    side->channels++;
    if (++side->strangers > RP_MAX_STRANGERS)
        close_oldest_stranger(side);
    watch(c);
}

static void on_knock(uv_poll_t *poll, int status, int events)
{
    rd_door *d = poll->data;
    struct ucred who;
    socklen_t len = sizeof who;
    (void)events;
    int fd = status < 0 ? -1 : accept4(d->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        d->resting = status < 0 || !(errno == EAGAIN || errno == EINTR || errno == ECONNABORTED);
        if (d->resting) /* who knocks would be there all the time: descriptors and memory come back */
            uv_poll_stop(poll);
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && rd_gate_lets(d->gate, who.uid, who.gid)) {
        welcome(d->server, fd, who.uid);
    } else {
        d->server->stats.dropped++;
        close(fd);
    }
}

void rd_fdpass_tick(rd_server *s)
{
    for (rd_door *d = s->fdpass.doors; d < s->fdpass.doors + s->fdpass.n_doors; d++)
        if (d->resting)
            d->resting = uv_poll_start(&d->poll, UV_READABLE, on_knock) != 0;
}

static bool bind_door(rd_door *d, unsigned mode, const rd_ids *group)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%.*s", (int)sizeof a.sun_path - 1, d->path);
    d->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return d->fd >= 0 && bind(d->fd, (struct sockaddr *)&a, sizeof a) == 0 && rd_hand_socket(d->path, mode, group) &&
           listen(d->fd, BACKLOG) == 0;
}

bool rd_fdpass_listen(rd_server *s, const char *path, const rd_gate *gate, char *why, size_t cap)
{
    rd_door *d = &s->fdpass.doors[s->fdpass.n_doors];
    snprintf(d->path, sizeof d->path, "%s" RP_SIDE_SUFFIX, path);
    if (strlen(d->path) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        snprintf(why, cap, "%s: path too long", d->path);
        return false;
    }
    if (rd_clear_socket(d->path, why, cap) != RD_LOCK_OK)
        return false;
    d->server = s;
    d->gate = gate;
    d->poll.data = d;
    int err = bind_door(d, (unsigned)s->config.socket_mode, &s->config.socket_group) ? 0 : -errno;
    if (!err && !(err = uv_poll_init(&s->loop, &d->poll, d->fd)) && !(err = uv_poll_start(&d->poll, UV_READABLE, on_knock))) {
        s->fdpass.n_doors++;
        return true;
    }
    snprintf(why, cap, "%s: %s", d->path, uv_strerror(err));
    unlink(d->path);
    if (d->fd >= 0)
        close(d->fd);
    return false;
}

static void on_door_closed(uv_handle_t *h) { close(((rd_door *)h->data)->fd); }

void rd_fdpass_close(rd_server *s)
{
    rd_fdpass *side = &s->fdpass;
    while (side->first)
        close_channel(side->first);
    for (; side->n_doors; side->n_doors--) {
        rd_door *d = &side->doors[side->n_doors - 1];
        unlink(d->path);
        uv_close((uv_handle_t *)&d->poll, on_door_closed);
    }
}
