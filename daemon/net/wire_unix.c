/* ipc://: the streams of unix sockets. A connection stays with one thread, which reads it and runs its events. So the thread
 * that the kernel wakes for a small request answers it. Threads wait in level-triggered epoll, and a socket's mask changes only
 * when it must: a request costs epoll_wait, readv and send. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/net/unix_threads.h"
#include "proto/clock.h"

enum {
    MOST_READ = 256 * 1024, /* bytes of one turn: a large message must not delay its thread's other streams */
    MOST_POSTED = 2         /* posted items of work queued for a thread; the poster of more runs them itself */
};

struct rd_unix_wire {
    rd_wire wire; /* first: a wire is its rd_unix_wire */
    rd_unix_source source;
    int fd;
    rd_unix_thread *thread;
    struct ucred peer;
    pthread_mutex_t lock; /* of what follows */
    uint32_t mask;        /* what epoll looks for */
    bool watched;         /* by epoll */
    bool over;            /* this end or the peer hung up: every operation fails from now on */
    bool ended;           /* the last event has been delivered */
    struct iovec out;     /* iov_len 0: nothing to send */
    bool receiving;
    struct iovec in[2];
    bool turn;   /* `received` without reading is asked for */
    bool queued; /* it is in its thread's list of turns */
    rd_unix_wire *next_turn;
};

static rd_unix_wire *of(rd_wire *w) { return (rd_unix_wire *)w; }

/* ---- turns ---- */
/* With the stream's lock. */
static void ask_for_turn(rd_unix_wire *w)
{
    rd_unix_thread *t = w->thread;
    if (w->queued || w->ended)
        return;
    w->queued = true;
    w->next_turn = NULL;
    pthread_mutex_lock(&t->lock);
    bool first = !t->turns;
    *t->turns_end = w;
    t->turns_end = &w->next_turn;
    pthread_mutex_unlock(&t->lock);
    if (first)
        rd_unix_kick(t);
}

static rd_unix_wire *next_turn(rd_unix_thread *t)
{
    pthread_mutex_lock(&t->lock);
    rd_unix_wire *w = t->turns;
    if (w)
        t->turns = w->next_turn;
    if (!t->turns)
        t->turns_end = &t->turns;
    pthread_mutex_unlock(&t->lock);
    return w;
}

static void leave_turns(rd_unix_wire *w)
{
    rd_unix_thread *t = w->thread;
    rd_unix_wire **at = &t->turns;
    if (!w->queued)
        return;
    pthread_mutex_lock(&t->lock);
    while (*at != w)
        at = &(*at)->next_turn;
    *at = w->next_turn;
    if (!*at)
        t->turns_end = at;
    pthread_mutex_unlock(&t->lock);
    w->queued = false;
}

/* ---- what epoll looks for, with the stream's lock ---- */
static void unwatch(rd_unix_wire *w)
{
    if (w->watched)
        epoll_ctl(w->thread->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    w->watched = false;
    w->mask = 0;
}

static void watch(rd_unix_wire *w, uint32_t mask)
{
    struct epoll_event e = {.events = mask, .data.ptr = &w->source};
    if (w->watched && mask == w->mask)
        return;
    if (epoll_ctl(w->thread->epoll, w->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, w->fd, &e) == 0) {
        w->watched = true;
        w->mask = mask;
    } else { /* no memory */
        w->over = true;
        ask_for_turn(w);
    }
}

/* ---- events; those of one stream come from its thread alone ---- */
static void tell_sent(rd_unix_wire *w, bool ok, size_t n) { w->wire.events->sent(w->wire.user, ok, n); }

static void tell_received(rd_unix_wire *w, bool ok, size_t n) { w->wire.events->received(w->wire.user, ok, n); }

/* Call with the lock held; it is released. */
static void end_stream(rd_unix_wire *w)
{
    bool sending = w->out.iov_len > 0;
    w->over = true;
    w->out.iov_len = 0;
    w->receiving = w->turn = false;
    leave_turns(w);
    unwatch(w);
    w->ended = true;
    pthread_mutex_unlock(&w->lock);
    if (sending)
        tell_sent(w, false, 0);
    tell_received(w, false, 0); /* frees it, perhaps */
}

static void send_ready(rd_unix_wire *w)
{
    pthread_mutex_lock(&w->lock);
    bool sending = w->out.iov_len > 0;
    ssize_t n = !sending || w->over ? -1 : send(w->fd, w->out.iov_base, w->out.iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    bool waits = sending && n < 0 && !w->over && (errno == EAGAIN || errno == EINTR);
    if (!waits)
        w->out.iov_len = 0;
    pthread_mutex_unlock(&w->lock);
    if (sending && !waits)
        tell_sent(w, n >= 0, n >= 0 ? (size_t)n : 0);
    pthread_mutex_lock(&w->lock);
    if (!w->out.iov_len && w->watched)
        watch(w, w->mask & ~(uint32_t)EPOLLOUT);
    pthread_mutex_unlock(&w->lock);
}

/* No read is under way. Stop watching a peer that has hung up, which would raise events without end. */
static void ignore(rd_unix_wire *w, uint32_t events)
{
    if (events & (EPOLLHUP | EPOLLERR)) {
        w->over = true;
        unwatch(w);
    } else {
        watch(w, w->mask & ~(uint32_t)EPOLLIN);
    }
}

static void receive_ready(rd_unix_wire *w, uint32_t events)
{
    pthread_mutex_lock(&w->lock);
    if (!w->receiving) {
        ignore(w, events);
        pthread_mutex_unlock(&w->lock);
        return;
    }
    ssize_t n = w->over ? 0 : readv(w->fd, w->in, w->in[1].iov_len ? 2 : 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        pthread_mutex_unlock(&w->lock);
    } else if (n <= 0) {
        end_stream(w);
    } else {
        w->receiving = false;
        pthread_mutex_unlock(&w->lock);
        tell_received(w, true, (size_t)n);
    }
}

static void unix_stream_ready(rd_unix_source *s, uint32_t events)
{
    rd_unix_wire *w = (rd_unix_wire *)((char *)s - offsetof(rd_unix_wire, source));
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        send_ready(w);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive_ready(w, events);
}

static void take_turn(rd_unix_wire *w)
{
    pthread_mutex_lock(&w->lock);
    w->queued = false;
    bool turn = w->turn;
    if (w->over && (turn || w->receiving)) {
        end_stream(w);
        return;
    }
    bool sending = w->over && w->out.iov_len;
    if (sending)
        w->out.iov_len = 0;
    w->turn = false;
    pthread_mutex_unlock(&w->lock);
    if (sending)
        tell_sent(w, false, 0);
    else if (turn)
        tell_received(w, true, 0);
}

void rd_unix_take_turns(rd_unix_thread *t)
{
    rd_unix_wire *w;
    while ((w = next_turn(t)))
        take_turn(w);
}

/* ---- posted work ---- */
_Thread_local rd_unix_thread *rd_unix_this_thread;

void rd_unix_run_posted(rd_unix_thread *t)
{
    rd_posted *newest = atomic_exchange_explicit(&t->posted, NULL, memory_order_acquire), *x = NULL, *next;
    for (; newest; newest = next) {
        next = newest->next;
        newest->next = x;
        x = newest;
    }
    for (; x; x = next) {
        next = x->next;
        x->run(x); /* which may free it */
        atomic_fetch_sub_explicit(&t->n_posted, 1, memory_order_relaxed);
        t->served_ns = rp_now_ns();
    }
}

bool rd_unix_has_posted(rd_unix_thread *t) { return atomic_load_explicit(&t->posted, memory_order_relaxed) != NULL; }

/* ---- what is asked of a stream ---- */
/* Another thread has sent a reply. While that wakes the peer, wake the stream's own thread for the peer's next request. */
static void awaken(rd_unix_thread *t)
{
    if (t->pool->linger && atomic_exchange(&t->asleep, false))
        rd_unix_kick(t);
}

/* Either the thread sees the posted work before it sleeps, or this code sees that it sleeps. */
static bool unix_leave_to_reader(rd_wire *wire, rd_posted *x)
{
    rd_unix_thread *t = of(wire)->thread;
    if (!t->pool->linger || t == rd_unix_this_thread || atomic_load_explicit(&t->asleep, memory_order_relaxed) ||
        atomic_load_explicit(&t->n_posted, memory_order_relaxed) >= MOST_POSTED)
        return false;
    atomic_fetch_add_explicit(&t->n_posted, 1, memory_order_relaxed);
    x->next = atomic_load_explicit(&t->posted, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&t->posted, &x->next, x))
        ;
    awaken(t);
    return true;
}

static size_t unix_send(rd_wire *wire, const void *data, size_t n)
{
    ssize_t sent = send(of(wire)->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    awaken(of(wire)->thread);
    return sent > 0 ? (size_t)sent : 0;
}

static bool unix_send_rest(rd_wire *wire, const void *data, size_t n)
{
    rd_unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    bool whole = !w->over;
    if (whole) {
        w->out = (struct iovec){(void *)data, n};
        watch(w, w->mask | EPOLLOUT);
    }
    pthread_mutex_unlock(&w->lock);
    return whole;
}

static size_t at_most(size_t n, size_t most) { return n < most ? n : most; }

static void unix_receive(rd_wire *wire, void *to, size_t n, void *more, size_t more_n)
{
    rd_unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    w->turn = n == 0;
    w->receiving = n > 0;
    w->in[0] = (struct iovec){to, at_most(n, MOST_READ)};
    w->in[1] = (struct iovec){more, n <= MOST_READ ? more_n : 0};
    if (w->over || w->turn)
        ask_for_turn(w);
    else
        watch(w, w->mask | EPOLLIN);
    pthread_mutex_unlock(&w->lock);
}

static void unix_end_sending(rd_wire *w) { shutdown(of(w)->fd, SHUT_WR); }

static void unix_hang_up(rd_wire *wire)
{
    rd_unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    if (!w->over) {
        w->over = true;
        shutdown(w->fd, SHUT_RDWR);
        ask_for_turn(w);
    }
    pthread_mutex_unlock(&w->lock);
}

static bool unix_peer(rd_wire *w, rd_peer *peer)
{
    const struct ucred *who = &of(w)->peer;
    *peer = (rd_peer){.local = rd_uid_is_known(who->uid), .pid = (uint64_t)who->pid, .uid = who->uid, .gid = who->gid};
    snprintf(peer->text, sizeof peer->text, "pid %" PRIu64 " uid %" PRIu64, peer->pid, peer->uid);
    return true;
}

static void unix_free(rd_wire *wire)
{
    rd_unix_wire *w = of(wire);
    atomic_fetch_sub_explicit(&w->thread->streams, 1, memory_order_relaxed);
    close(w->fd);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static const rd_wire_ops ops = {.send = unix_send,
                                .send_rest = unix_send_rest,
                                .receive = unix_receive,
                                .leave_to_reader = unix_leave_to_reader,
                                .end_sending = unix_end_sending,
                                .hang_up = unix_hang_up,
                                .peer = unix_peer,
                                .free = unix_free};

/* ---- making ---- */
rd_wire *rd_unix_wire_new(const rd_unix_listener *l, int fd, const struct ucred *peer, rd_unix_thread *t)
{
    rd_unix_wire *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->wire = (rd_wire){
        .ops = &ops, .events = l->listener.events, .origin = {true, peer->uid}, .listener = l->listener.number, .ipc = true};
    w->source.ready = unix_stream_ready;
    w->fd = fd;
    w->peer = *peer;
    w->thread = t;
    atomic_fetch_add_explicit(&w->thread->streams, 1, memory_order_relaxed);
    pthread_mutex_init(&w->lock, NULL);
    return &w->wire;
}
