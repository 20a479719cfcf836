#include "client/fdpass.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/client.h"
#include "client/error.h"
#include "proto/clock.h"

enum {
    LIMIT_MS = 10000, /* for an answer, which takes microseconds unless the machine is overloaded or something is wrong */
    SLICE_MS = 50     /* of a wait, after which the program may interrupt it */
};

void rc_fdpass_init(rc_fdpass *s)
{
    pthread_mutexattr_t attr;
    *s = (rc_fdpass){.fd = -1};
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&s->lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

void rc_fdpass_fini(rc_fdpass *s)
{
    if (s->fd >= 0)
        close(s->fd);
    pthread_mutex_destroy(&s->lock);
}

/* ---- with s->lock ---- */

/* Not rc_leave: it runs the callbacks of jobs, which may come back here. */
static void enter(reduce_client *c) { pthread_mutex_lock(&c->lock); }
static void leave(reduce_client *c) { pthread_mutex_unlock(&c->lock); }

static void set_why(reduce_client *c, const char *what, const char *detail)
{
    enter(c);
    snprintf(c->fdpass.why, sizeof c->fdpass.why, "%.40s%s%.50s", what, detail[0] ? ": " : "", detail);
    rc_clean_text(c->fdpass.why); /* the daemon's words, perhaps */
    leave(c);
}

static void hang_up(reduce_client *c)
{
    enter(c);
    if (c->fdpass.fd >= 0)
        close(c->fdpass.fd);
    c->fdpass.fd = -1;
    c->fdpass.owed = 0;
    leave(c);
}

static bool broken(reduce_client *c, int error)
{
    hang_up(c);
    set_why(c, "the fdpass socket broke", error ? strerror(error) : "");
    return false;
}

static bool send_packet(int fd, const rp_side *p, int passed, int flags)
{
    uint8_t packet[RP_SIDE_MAX];
    struct iovec part = {packet, rp_put_side(packet, p)};
    union {
        char bytes[CMSG_SPACE(sizeof passed)];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        *h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof passed), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(h), &passed, sizeof passed);
    }
    ssize_t n;
    do
        n = sendmsg(fd, &m, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)part.iov_len;
}

/* For one slice at most. *passed: the descriptor that came, or -1. */
static ssize_t receive_packet(int fd, uint8_t *packet, size_t room, int *passed)
{
    struct iovec part = {packet, room};
    union {
        char bytes[CMSG_SPACE(sizeof *passed)];
        struct cmsghdr align;
    } control;
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    *passed = -1;
    for (struct cmsghdr *h = n < 0 ? NULL : CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof *passed))
            memcpy(passed, CMSG_DATA(h), sizeof *passed);
    return m.msg_flags & MSG_TRUNC ? -1 : n;
}

/* The reply to an exchange that was interrupted: give back what it brings. */
static void discard(reduce_client *c, const uint8_t *packet, size_t n, int passed)
{
    rp_side reply;
    rp_fault e, bad;
    if (passed >= 0)
        close(passed);
    if (rp_get_side_reply(packet, n, &reply, &e, &bad) || reply.status || reply.kind == RP_SIDE_ATTACH)
        return;
    enter(c);
    rc_fdpass_drop(c, c->fdpass.session, reply.value);
    leave(c);
}

/* The reply, within the time limit. errno is ECANCELED if the program interrupts the call. */
static ssize_t await_packet(reduce_client *c, uint8_t *packet, size_t room, int *passed)
{
    const uint64_t end = rp_deadline_after(LIMIT_MS);
    uint64_t ask = rc_ask_at(c);
    for (;;) {
        ssize_t n = receive_packet(c->fdpass.fd, packet, room, passed);
        if (n > 0 && c->fdpass.owed) {
            c->fdpass.owed--;
            discard(c, packet, (size_t)n, *passed);
            continue;
        }
        if (n >= 0 || (errno != EAGAIN && errno != EINTR) || rp_now_ns() >= end)
            return n;
        if (rc_is_interrupted(c, &ask)) {
            c->fdpass.owed++;
            errno = ECANCELED;
            return n;
        }
    }
}

/* Ask and wait. False: refused or interrupted (the socket stays; `e` says why), or the socket broke and is closed (e->code
 * RP_OK). */
static bool exchange(reduce_client *c, const rp_side *ask, int give, rp_side *reply, int *got, rp_fault *e)
{
    uint8_t packet[RP_SIDE_SIZE + RP_ERROR_SIZE + RP_MAX_FIELD + RP_MAX_TEXT];
    rp_fault bad;
    *got = -1;
    e->code = RP_OK;
    if (!send_packet(c->fdpass.fd, ask, give, c->fdpass.owed ? MSG_DONTWAIT : 0)) /* it is full of what was interrupted */
        return broken(c, errno);
    ssize_t n = await_packet(c, packet, sizeof packet, got);
    if (n < 0 && errno == ECANCELED) {
        rc_fail_interrupted(e);
        return false;
    }
    if (n <= 0 || rp_get_side_reply(packet, (size_t)n, reply, e, &bad) || reply->kind != ask->kind)
        return broken(c, n < 0 ? errno : 0);
    if (reply->status)
        set_why(c, rp_err_name((int)reply->status), e->text);
    return reply->status == RP_OK;
}

/* Is the peer the user that serves the messages? Files are passed to no other. With a socket unit, root listens until the
 * daemon has started. */
static bool trusted(int fd, const char *path)
{
    struct ucred peer;
    struct stat st;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && stat(path, &st) == 0 &&
           (peer.uid == st.st_uid || peer.uid == 0);
}

static int dial(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const struct timeval limit = {.tv_sec = LIMIT_MS / 1000}, slice = {.tv_usec = SLICE_MS * 1000};
    if ((size_t)snprintf(a.sun_path, sizeof a.sun_path, "%s" RP_SIDE_SUFFIX, path) >= sizeof a.sun_path)
        return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof slice);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 && trusted(fd, path))
        return fd;
    close(fd);
    return -1;
}

/* Only an interruption is in `f`. */
static bool attach(reduce_client *c, const char *url, uint64_t session, const uint8_t *token, rp_fault *f)
{
    static const uint8_t none[RP_TOKEN];
    rp_side ask = {.kind = RP_SIDE_ATTACH, .value = session}, reply;
    rp_fault e;
    int got;
    if (strncmp(url, "ipc://", 6) != 0 || memcmp(token, none, RP_TOKEN) == 0) {
        set_why(c, "the daemon passes no descriptors here", "");
        return false;
    }
    int fd = dial(url + 6);
    if (fd < 0) {
        set_why(c, "the fdpass socket cannot be reached", "");
        return false;
    }
    enter(c);
    c->fdpass.fd = fd;
    leave(c);
    memcpy(ask.token, token, RP_TOKEN);
    bool mine = exchange(c, &ask, -1, &reply, &got, &e);
    if (!mine && -(int)e.code == REDUCE_E_INTERRUPTED)
        *f = e;
    else if (!mine)
        hang_up(c);
    return mine;
}

static bool open_locked(reduce_client *c, rp_fault *f)
{
    uint8_t token[RP_TOKEN];
    enter(c);
    uint64_t session = c->session;
    bool known = session == c->fdpass.session;
    memcpy(token, c->welcome.token, RP_TOKEN);
    leave(c);
    if (known || !session)
        return known && session && c->fdpass.fd >= 0;
    hang_up(c);
    enter(c);
    c->fdpass.session = session;
    c->fdpass.why[0] = 0;
    leave(c);
    return attach(c, c->url, session, token, f);
}

/* Wait for the lock, which another thread has for as long as its exchange takes. False, with `f`: this thread has it, or is
 * interrupted. */
static bool lock(reduce_client *c, rp_fault *f)
{
    uint64_t ask = rc_ask_at(c);
    for (;;) {
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        end = rp_timespec((uint64_t)end.tv_sec * 1000 * RP_NS_PER_MS + (uint64_t)end.tv_nsec + SLICE_MS * RP_NS_PER_MS);
        const int err = pthread_mutex_timedlock(&c->fdpass.lock, &end);
        if (err == EDEADLK)
            rc_fail(f, REDUCE_E_ARGUMENT, "device", "another call of this thread waits for it");
        if (err != ETIMEDOUT)
            return !err;
        if (rc_is_interrupted(c, &ask)) {
            rc_fail_interrupted(f);
            return false;
        }
    }
}

/* One exchange, on a socket that is opened before. 0, the error in `f`, or REDUCE_E_ARGUMENT: the socket broke, or there is
 * none. */
static int locked_exchange(reduce_client *c, const rp_side *ask, int give, rp_side *reply, int *got, rp_fault *f)
{
    *got = -1;
    f->code = RP_OK;
    if (open_locked(c, f) && exchange(c, ask, give, reply, got, f))
        return 0;
    return f->code == RP_OK ? REDUCE_E_ARGUMENT : -(int)f->code;
}

/* ---- public ---- */

int rc_fdpass_file(reduce_client *c, int fd, uint64_t *handle, uint64_t *session)
{
    rp_side ask = {.kind = RP_SIDE_FILE}, reply;
    rp_fault f = {.code = RP_OK};
    int got;
    *handle = 0;
    if (!lock(c, &f))
        return -(int)f.code;
    const int err = locked_exchange(c, &ask, fd, &reply, &got, &f);
    *session = c->fdpass.session;
    pthread_mutex_unlock(&c->fdpass.lock);
    if (!err)
        *handle = reply.value;
    return err;
}

int rc_fdpass_arena(reduce_client *c, size_t bytes, rc_arena *a)
{
    rp_side ask = {.kind = RP_SIDE_ARENA, .value = bytes}, reply;
    rp_fault f = {.code = RP_OK};
    int got = -1;
    void *base = MAP_FAILED;
    if (!lock(c, &f))
        return -(int)f.code;
    const int err = locked_exchange(c, &ask, -1, &reply, &got, &f);
    if (!err && got >= 0 && reply.size >= bytes && reply.size <= SIZE_MAX)
        base = mmap(NULL, (size_t)reply.size, PROT_READ | PROT_WRITE, MAP_SHARED, got, 0);
    const int why = errno;
    if (got >= 0)
        close(got); /* so that the daemon does not find it in use */
    if (!err && base == MAP_FAILED) {
        set_why(c, "an arena cannot be mapped", strerror(why));
        enter(c);
        rc_fdpass_drop(c, c->fdpass.session, reply.value); /* its bytes count */
        leave(c);
    }
    if (base != MAP_FAILED)
        *a = (rc_arena){.base = base, .bytes = (size_t)reply.size, .handle = reply.value, .session = c->fdpass.session};
    pthread_mutex_unlock(&c->fdpass.lock);
    return err || base != MAP_FAILED ? err : REDUCE_E_ARGUMENT;
}

int rc_fdpass_device(reduce_client *c, rc_device *d, rp_fault *f)
{
    rp_side ask = {.kind = d->fd < 0 ? RP_SIDE_DEVICE : RP_SIDE_DEVICE_FD, .value = d->bytes}, reply;
    int got;
    memcpy(ask.device, d->device, sizeof ask.device);
    memcpy(ask.uuid, d->uuid, sizeof ask.uuid);
    f->code = RP_OK;
    d->handle = 0;
    if (!lock(c, f))
        return -(int)f->code;
    const int err = locked_exchange(c, &ask, d->fd, &reply, &got, f);
    d->session = c->fdpass.session;
    if (err && f->code == RP_OK)
        rc_fail(f, err, "device", "%s", c->fdpass.why);
    pthread_mutex_unlock(&c->fdpass.lock);
    if (!err)
        d->handle = reply.value;
    return err;
}

void rc_fdpass_drop(reduce_client *c, uint64_t session, uint64_t handle)
{
    if (!handle || c->fdpass.fd < 0 || session != c->fdpass.session)
        return;
    /* if it is lost, the session's end drops it */
    send_packet(c->fdpass.fd, &(rp_side){.kind = RP_SIDE_DROP, .value = handle}, -1, MSG_DONTWAIT);
}
