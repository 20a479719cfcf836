#include "daemon/net/fdpass.h"

#include <errno.h>
#include <fcntl.h>
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
#include "daemon/base/peer.h"
#include "daemon/base/turned_away.h"

enum {
    BACKLOG = 64,
    FDS_TAKEN = 253 /* as many as the kernel lets a packet carry: all that came must be closed, and not by the kernel here */
};

/* ---- channels come and go ---- */
static void fdpass_closed(uv_handle_t *h)
{
    rd_channel *c = h->data;
    rd_handle_reject(c->all->holdings, c->user, c->fd);
    rd_discharge(c->all->holdings->users, c->user, RD_HELD_CHANNELS, 1);
    rd_user_put(c->all->holdings->users, c->user);
    free(c);
}

void rd_fdpass_hang_up(rd_channel *c)
{
    rd_fdpass *f = c->all;
    if (c->closing)
        return;
    c->closing = true;
    f->gone(f->arg, c);
    f->unauthenticated -= !c->attached;
    *(c->prev ? &c->prev->next : &f->first) = c->next;
    *(c->next ? &c->next->prev : &f->last) = c->prev;
    f->channels--;
    shutdown(c->fd, SHUT_RDWR); /* the close itself may come much later */
    uv_close((uv_handle_t *)&c->poll, fdpass_closed);
}

void rd_fdpass_attach(rd_channel *c)
{
    c->attached = true;
    c->all->unauthenticated--;
    rd_let_descriptors(c->fd);
}

/* Peers that never send ATTACH must not lock others out. */
static void close_oldest_unauthenticated(rd_fdpass *f)
{
    rd_channel *c = f->first;
    while (c->attached)
        c = c->next;
    rd_fdpass_hang_up(c);
}

/* ---- packets ---- */
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

void rd_fdpass_send(rd_channel *c, const rp_side *p, const rp_fault *f, int fd)
{
    uint8_t packet[RP_SIDE_MAX + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT];
    size_t len = rp_put_side(packet, p);
    if (f)
        len += rp_put_fault(packet + len, f);
    if (!send_packet(c, packet, len, fd))
        rd_fdpass_hang_up(c);
}

static rp_err check_packet(const rd_channel *c, const uint8_t *packet, size_t len, unsigned fds, rp_side *p, rp_fault *f)
{
    rp_err err = rp_get_side(packet, len, p, f);
    if (err)
        return err;
    unsigned wanted = p->kind == RP_SIDE_FILE || p->kind == RP_SIDE_DEVICE_FD;
    if ((p->kind == RP_SIDE_ATTACH) == c->attached)
        return rp_fail(f, RP_BAD_MESSAGE, "kind", 0, c->attached ? "this channel is attached" : "the first packet is ATTACH");
    if (fds != wanted)
        return rp_fail(f, RP_BAD_MESSAGE, "descriptors", wanted, "%u descriptors instead of %u", fds, wanted);
    return RP_OK;
}

/* The last reply of the channel. */
static void refuse_packet(rd_channel *c, uint32_t kind, const rp_fault *f)
{
    rp_side p = {.reply = true, .kind = kind, .status = f->code};
    rd_log(RD_LOG_DEBUG, "uid %llu: fdpass channel closed: bad packet: %s: %s", (unsigned long long)c->user->uid, f->field,
           f->text);
    rd_fdpass_send(c, &p, f, -1);
    rd_fdpass_hang_up(c);
}

/* Handles a packet with `n` descriptors and closes all of them but the one that the packet needs, if any. */
static void on_packet(rd_channel *c, const uint8_t *packet, size_t len, const int *fds, unsigned n)
{
    rp_side p = {0};
    rp_fault f;
    rd_fdpass *all = c->all;
    if (check_packet(c, packet, len, n, &p, &f) == RP_OK) {
        all->packet(all->arg, c, &p, n ? fds[0] : -1);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        rd_handle_reject(all->holdings, c->user, fds[i]);
    refuse_packet(c, p.kind, &f);
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

static void fdpass_readable(uv_poll_t *poll, int status, int events)
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
    /* the channel is broken, or its packet may bring more descriptors whose close hangs */
    if (status < 0 || rd_held(&c->user->charges, RD_HELD_CLOSING) >= RP_MAX_USER_CLOSING) {
        rd_fdpass_hang_up(c);
        return;
    }
    ssize_t n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    unsigned n_fds = n < 0 ? 0 : take_descriptors(&m, fds);
    bool cut = m.msg_flags & (MSG_TRUNC | MSG_CTRUNC); /* the packet is too long, or the process has no descriptors left */
    if (n <= 0 && n_fds == 0)
        rd_fdpass_hang_up(c);
    else
        on_packet(c, packet, cut ? 0 : (size_t)n, fds, n_fds);
}

void rd_fdpass_watch(rd_channel *c) { uv_poll_start(&c->poll, UV_READABLE, fdpass_readable); }

void rd_fdpass_rest(rd_channel *c) { uv_poll_stop(&c->poll); }

/* ---- listening ---- */
static void open_channel(rd_fdpass *f, int fd, uint64_t uid)
{
    rd_channel *c = calloc(1, sizeof *c);
    rd_user *user = c ? rd_user_get(f->holdings->users, uid) : NULL;
    if (!user || uv_poll_init(f->loop, &c->poll, fd) != 0) {
        if (user)
            rd_user_put(f->holdings->users, user);
        free(c);
        close(fd);
        return;
    }
    c->poll.data = c;
    c->fd = fd;
    c->all = f;
    c->user = user;
    c->prev = f->last;
    *(f->last ? &f->last->next : &f->first) = c;
    f->last = c;
    f->channels++;
    rd_charge_anyway(f->holdings->users, user, RD_HELD_CHANNELS, 1);
    if (++f->unauthenticated > RP_MAX_UNAUTHENTICATED)
        close_oldest_unauthenticated(f);
    rd_fdpass_watch(c);
}

static void fdpass_accept(uv_poll_t *poll, int status, int events)
{
    rd_fdpass_listener *l = poll->data;
    struct ucred who;
    socklen_t len = sizeof who;
    (void)events;
    int fd = status < 0 ? -1 : accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        l->resting = status < 0 || !(errno == EAGAIN || errno == EINTR || errno == ECONNABORTED);
        if (l->resting && status >= 0)
            rd_turn_away(errno == EMFILE || errno == ENFILE ? RD_AWAY_DESCRIPTORS : RD_AWAY_MEMORY, l->path, strerror(errno));
        if (l->resting) /* polling would report the pending peer all the time; descriptors and memory come back later */
            uv_poll_stop(poll);
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && rd_uid_is_known(who.uid) &&
        rd_gate_lets(l->gate, who.uid, who.gid)) {
        open_channel(l->all, fd, who.uid);
    } else {
        l->all->refused++;
        rd_turn_away(RD_AWAY_USER, l->path, "the lists do not let its user in");
        close(fd);
    }
}

void rd_fdpass_tick(rd_fdpass *f)
{
    for (rd_fdpass_listener *l = f->listeners; l < f->listeners + f->n_listeners; l++)
        if (l->resting)
            l->resting = uv_poll_start(&l->poll, UV_READABLE, fdpass_accept) != 0;
}

void rd_fdpass_pause(rd_fdpass *f)
{
    for (rd_fdpass_listener *l = f->listeners; l < f->listeners + f->n_listeners; l++)
        if (l->passed) {
            l->resting = false;
            uv_poll_stop(&l->poll);
        }
}

static bool bind_listener(rd_fdpass_listener *l, unsigned mode, const rd_ids *group)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%.*s", (int)sizeof a.sun_path - 1, l->path);
    l->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&a, sizeof a) != 0)
        return false;
    l->own = rd_file_at(l->path);
    return rd_hand_socket(l->path, mode, group) && listen(l->fd, BACKLOG) == 0;
}

/* A passed socket listens already. After another listen() peers see this process as the owner (unix_listener.c). */
static bool open_listener(rd_fdpass_listener *l, unsigned mode, const rd_ids *group)
{
    return l->passed ? listen(l->fd, BACKLOG) == 0 : bind_listener(l, mode, group);
}

static void remove_socket(rd_fdpass_listener *l)
{
    if (!l->passed)
        rd_remove_own(l->path, l->own);
}

bool rd_fdpass_listen(rd_fdpass *f, const char *path, int passed, const rd_config *config, const rd_gate *gate, char *why,
                      size_t cap)
{
    rd_fdpass_listener *l = &f->listeners[f->n_listeners];
    snprintf(l->path, sizeof l->path, "%s" RP_SIDE_SUFFIX, path);
    if (strlen(l->path) >= sizeof((struct sockaddr_un *)0)->sun_path) {
        snprintf(why, cap, "%s: path too long", l->path);
        return false;
    }
    if (passed < 0 && rd_clear_socket(l->path, why, cap) != RD_LOCK_OK)
        return false;
    l->all = f;
    l->fd = passed;
    l->passed = passed >= 0;
    l->gate = gate;
    l->poll.data = l;
    int err = open_listener(l, (unsigned)config->socket_mode, &config->socket_group) ? 0 : -errno;
    if (!err && !(err = uv_poll_init(f->loop, &l->poll, l->fd)) &&
        !(err = uv_poll_start(&l->poll, UV_READABLE, fdpass_accept))) {
        f->n_listeners++;
        return true;
    }
    snprintf(why, cap, "%s: %s", l->path, uv_strerror(err));
    remove_socket(l);
    if (l->fd >= 0)
        close(l->fd);
    return false;
}

/* A new socket takes over the descriptor. The poll is stopped meanwhile: epoll forgets the old one. */
static bool bind_anew(rd_fdpass_listener *l, const rd_config *config)
{
    const int old = l->fd;
    uv_poll_stop(&l->poll);
    bool right = bind_listener(l, (unsigned)config->socket_mode, &config->socket_group) && dup3(l->fd, old, O_CLOEXEC) >= 0;
    const int err = errno;
    if (l->fd >= 0)
        close(l->fd);
    l->fd = old;
    l->resting = uv_poll_start(&l->poll, UV_READABLE, fdpass_accept) != 0;
    errno = err;
    return right;
}

bool rd_fdpass_keep(rd_fdpass *f, const char *path, const rd_config *config, char *why, size_t cap)
{
    for (rd_fdpass_listener *l = f->listeners; l < f->listeners + f->n_listeners; l++) {
        const size_t n = strlen(path);
        if (l->passed || strncmp(l->path, path, n) || strcmp(l->path + n, RP_SIDE_SUFFIX) || !rd_is_missing(l->path))
            continue;
        if (!bind_anew(l, config)) {
            char left[RD_MAX_WHY];
            snprintf(why, cap, "%s was removed and cannot be bound again: %s", l->path, strerror(errno));
            rd_clear_socket(l->path, left, sizeof left); /* bound, but without its mode: the next turn tries again */
            return false;
        }
        rd_log(RD_LOG_WARN, "%s was removed: it is bound again", l->path);
    }
    return true;
}

static void fdpass_listener_closed(uv_handle_t *h) { close(((rd_fdpass_listener *)h->data)->fd); }

void rd_fdpass_close(rd_fdpass *f)
{
    while (f->first)
        rd_fdpass_hang_up(f->first);
    for (; f->n_listeners; f->n_listeners--) {
        rd_fdpass_listener *l = &f->listeners[f->n_listeners - 1];
        remove_socket(l);
        uv_close((uv_handle_t *)&l->poll, fdpass_listener_closed);
    }
}
