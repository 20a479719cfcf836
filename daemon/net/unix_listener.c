/* Listening unix sockets. The first thread accepts. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/base/turned_away.h"
#include "daemon/net/limits.h"
#include "daemon/net/unix_threads.h"
#include "proto/clock.h"

enum {
    ACCEPTS = 16,   /* connections accepted in a turn */
    BACKLOG = 1024, /* connections that wait to be accepted: clients try again when there are more */
    RESERVE = 64,   /* the last descriptors are for root and the daemon's own user, so that they can repair things */
    TOLD = 16       /* the first of these are for peers that get an answer */
};

static const char NO_DESCRIPTORS[] = "the daemon's descriptors are used up: LimitNOFILE of the unit, or ulimit -n";

/* ---- accepting ---- */
static rd_unix_thread *least_busy(rd_unix_threads *pool)
{
    rd_unix_thread *best = &pool->threads[0];
    for (unsigned i = 1; i < pool->n; i++)
        if (atomic_load_explicit(&pool->threads[i].streams, memory_order_relaxed) <
            atomic_load_explicit(&best->streams, memory_order_relaxed))
            best = &pool->threads[i];
    return best;
}

/* Is the descriptor one of those that only root and the daemon's own user get? */
static bool is_reserved(const rd_unix_threads *pool, int fd, const struct ucred *who, rlim_t reserve)
{
    return (rlim_t)fd + reserve >= pool->descriptors && !rd_uid_is_admin(who->uid);
}

static void turn_away(const struct ucred *who, rd_away reason, const char *why)
{
    char text[64];
    snprintf(text, sizeof text, "pid %d uid %u", who->pid, who->uid);
    rd_turn_away(reason, text, why);
}

/* NULL if the peer is refused or memory is short; `fd` is closed then. */
static rd_wire *make_stream(const rd_unix_listener *l, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0;
    const bool full = known && is_reserved(l->pool, fd, &peer, RESERVE);
    const bool untold = full && is_reserved(l->pool, fd, &peer, RESERVE - TOLD);
    rd_wire *w = known && !untold ? rd_unix_wire_new(l, fd, &peer, least_busy(l->pool)) : NULL;
    if (full)
        turn_away(&peer, RD_AWAY_DESCRIPTORS, NO_DESCRIPTORS);
    else if (known && !w)
        turn_away(&peer, RD_AWAY_MEMORY, "out of memory");
    if (w && full)
        w->no_room = l->pool->descriptors;
    if (!w)
        close(fd);
    return w;
}

static void watch_listener(rd_unix_listener *l, bool on)
{
    struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.ptr = &l->source};
    epoll_ctl(l->pool->threads[0].epoll, l->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, l->fd, &e);
    l->watched = true;
}

static void rest(rd_unix_listener *l)
{
    l->resting = true;
    l->pool->threads[0].rest_until_ns = rp_after_ms(RD_ACCEPT_REST_MS);
    watch_listener(l, false);
}

/* Accepts one peer. False: no other peer waits. */
static bool accept_one(rd_unix_listener *l)
{
    int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
        return true;
    if (fd < 0 && errno != EAGAIN) {
        rd_turn_away(errno == EMFILE || errno == ENFILE ? RD_AWAY_DESCRIPTORS : RD_AWAY_MEMORY, l->path, strerror(errno));
        rest(l);
    }
    if (fd < 0)
        return false;
    rd_wire *w = make_stream(l, fd);
    if (w)
        l->listener.events->opened(l->listener.arg, w);
    return true;
}

static void unix_listener_ready(rd_unix_source *s, uint32_t events)
{
    rd_unix_listener *l = (rd_unix_listener *)((char *)s - offsetof(rd_unix_listener, source));
    (void)events;
    pthread_mutex_lock(&l->pool->lock);
    for (int i = 0; i < ACCEPTS && !l->closed && !l->paused && accept_one(l); i++)
        ;
    pthread_mutex_unlock(&l->pool->lock);
}

void rd_unix_end_rest(rd_unix_threads *pool)
{
    pool->threads[0].rest_until_ns = 0;
    pthread_mutex_lock(&pool->lock);
    for (rd_unix_listener *l = pool->listeners; l; l = l->next)
        if (l->resting && !l->closed && !l->paused) {
            l->resting = false;
            watch_listener(l, true);
        }
    pthread_mutex_unlock(&pool->lock);
}

/* ---- listening ---- */
static void unix_start(rd_listener *listener)
{
    rd_unix_listener *l = (rd_unix_listener *)listener;
    pthread_mutex_lock(&l->pool->lock);
    watch_listener(l, true);
    pthread_mutex_unlock(&l->pool->lock);
}

static void unix_pause(rd_listener *listener)
{
    rd_unix_listener *l = (rd_unix_listener *)listener;
    pthread_mutex_lock(&l->pool->lock);
    l->paused = l->passed;
    if (l->paused)
        watch_listener(l, false);
    pthread_mutex_unlock(&l->pool->lock);
}

/* The first thread may still use it in its current turn, so it is freed together with the threads. */
static void unix_close_listener(rd_listener *listener)
{
    rd_unix_listener *l = (rd_unix_listener *)listener;
    pthread_mutex_lock(&l->pool->lock);
    l->closed = true;
    if (!l->passed)
        rd_remove_own(l->path, l->own);
    close(l->fd); /* epoll forgets it */
    pthread_mutex_unlock(&l->pool->lock);
}

/* A passed socket listens already. After another listen() the kernel names this process in the peers' SO_PEERCRED. */
static int bind_and_listen(rd_unix_listener *l)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, l->path, sizeof a.sun_path);
    if (!l->passed && bind(l->fd, (struct sockaddr *)&a, sizeof a))
        return errno;
    l->own = rd_file_at(l->path);
    int err = listen(l->fd, BACKLOG) ? errno : 0;
    if (err && !l->passed)
        rd_remove_own(l->path, l->own);
    return err;
}

static int open_socket(int passed)
{
    return passed >= 0 ? passed : socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* A socket is bound once, so a new one takes over the descriptor. */
static int bind_anew(rd_unix_listener *l)
{
    const int old = l->fd, fd = open_socket(-1);
    if (fd < 0)
        return errno;
    l->fd = fd;
    int err = bind_and_listen(l);
    l->fd = old;
    if (!err && dup3(fd, old, O_CLOEXEC) < 0)
        err = errno;
    close(fd);
    return err;
}

static int unix_again(rd_listener *listener)
{
    rd_unix_listener *l = (rd_unix_listener *)listener;
    pthread_mutex_lock(&l->pool->lock);
    int err = bind_anew(l);
    if (!err) {
        l->watched = false; /* epoll has forgotten the old one */
        watch_listener(l, !l->resting);
    }
    pthread_mutex_unlock(&l->pool->lock);
    return err;
}

static const rd_listener_ops listener_ops = {
    .start = unix_start, .pause = unix_pause, .close = unix_close_listener, .again = unix_again};

rd_listener *rd_unix_listen(rd_unix_threads *pool, const char *path, int passed, const rd_wire_events *events, void *arg,
                            char *why, size_t cap)
{
    rd_unix_listener *l = calloc(1, sizeof *l);
    bool fits = l && snprintf(l->path, sizeof l->path, "%s", path) < (int)sizeof l->path;
    int fd = fits ? open_socket(passed) : passed;
    int err = !l ? ENOMEM : !fits ? ENAMETOOLONG : fd < 0 ? errno : 0;
    if (!err) {
        l->fd = fd;
        l->passed = passed >= 0;
        err = bind_and_listen(l);
    }
    if (err) {
        snprintf(why, cap, "ipc://%s: %s", path, strerror(err));
        if (fd >= 0)
            close(fd);
        free(l);
        return NULL;
    }
    l->listener = (rd_listener){.ops = &listener_ops, .events = events, .arg = arg};
    l->source.ready = unix_listener_ready;
    l->pool = pool;
    l->next = pool->listeners;
    pool->listeners = l;
    return &l->listener;
}
