/* ipc://: unix sockets and a few threads that serve them. A connection stays with one thread, which reads it and runs its
 * events. So the thread that the kernel wakes for a small request answers it. Threads wait in level-triggered epoll, and a
 * socket's mask changes only when it must: a request costs epoll_wait, readv and send. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/host.h"
#include "daemon/base/workers.h"
#include "daemon/net/limits.h"
#include "daemon/net/wire.h"

enum {
    MOST_THREADS = 8,
    BATCH = 64,             /* sockets looked at in a turn of a thread */
    ACCEPTS = 16,           /* connections accepted in a turn */
    BACKLOG = 1024,         /* connections that wait to be accepted: clients try again when there are more */
    MOST_READ = 256 * 1024, /* bytes of one turn: a large message must not delay its thread's other streams */
    MANY_CORES = 8,
    MOST_ERRANDS = 2, /* errands queued for a thread; a thread that has more runs them itself */
    RESERVE = 64      /* the last descriptors are for root and the daemon's own user, so that they can repair things */
};

static const uint64_t LINGER_NS = 100000; /* after an event, on machines with MANY_CORES: waking a thread takes some 15 us */

/* An object that epoll reports on. */
typedef struct source {
    void (*ready)(struct source *s, uint32_t events);
} source;

typedef struct unix_wire unix_wire;

typedef struct unix_thread {
    source kick; /* first: its eventfd wakes the thread */
    struct rd_unix_threads *pool;
    int epoll, kicked;
    pthread_t thread;
    bool started;
    atomic_bool quit;
    atomic_uint streams;
    uint64_t served_ns;     /* when its last turn ended */
    atomic_bool asleep;     /* it must be woken */
    uint64_t rest_until_ns; /* listeners rest until then; 0: none does */
    pthread_mutex_t lock;   /* of the turns; taken after a stream's */
    unix_wire *turns, **turns_end;
    _Atomic(rd_errand *) errands; /* the newest first */
    atomic_uint n_errands;        /* including those being run */
} unix_thread;

struct unix_wire {
    rd_wire wire; /* first: a wire is its unix_wire */
    source source;
    int fd;
    unix_thread *thread;
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
    unix_wire *next_turn;
};

typedef struct unix_listener {
    rd_listener listener; /* first: a listener is its unix_listener */
    source source;
    struct rd_unix_threads *pool;
    int fd;
    bool watched, resting, closed;
    bool passed, paused; /* the socket outlives this daemon; its peers wait for the next one */
    char path[sizeof((struct sockaddr_un){0}.sun_path)];
    struct unix_listener *next;
} unix_listener;

struct rd_unix_threads {
    unix_thread threads[MOST_THREADS];
    unsigned n;
    bool linger;
    const rd_workers *workers; /* NULL: none */
    rlim_t descriptors;        /* that this process may have */
    pthread_mutex_t lock;      /* of the listeners: the first thread holds it while it accepts */
    unix_listener *listeners;
};

static unix_wire *of(rd_wire *w) { return (unix_wire *)w; }

/* ---- turns ---- */
static void kick(unix_thread *t) { eventfd_write(t->kicked, 1); } /* fails only after 2^64 kicks */

/* With the stream's lock. */
static void ask_for_turn(unix_wire *w)
{
    unix_thread *t = w->thread;
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
        kick(t);
}

static unix_wire *next_turn(unix_thread *t)
{
    pthread_mutex_lock(&t->lock);
    unix_wire *w = t->turns;
    if (w)
        t->turns = w->next_turn;
    if (!t->turns)
        t->turns_end = &t->turns;
    pthread_mutex_unlock(&t->lock);
    return w;
}

static void leave_turns(unix_wire *w)
{
    unix_thread *t = w->thread;
    unix_wire **at = &t->turns;
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
static void unwatch(unix_wire *w)
{
    if (w->watched)
        epoll_ctl(w->thread->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    w->watched = false;
    w->mask = 0;
}

static void watch(unix_wire *w, uint32_t mask)
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
static void tell_sent(unix_wire *w, bool ok, size_t n) { w->wire.events->sent(w->wire.user, ok, n); }

static void tell_received(unix_wire *w, bool ok, size_t n) { w->wire.events->received(w->wire.user, ok, n); }

/* Call with the lock held; it is released. */
static void end_stream(unix_wire *w)
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

static void send_ready(unix_wire *w)
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
static void ignore(unix_wire *w, uint32_t events)
{
    if (events & (EPOLLHUP | EPOLLERR)) {
        w->over = true;
        unwatch(w);
    } else {
        watch(w, w->mask & ~(uint32_t)EPOLLIN);
    }
}

static void receive_ready(unix_wire *w, uint32_t events)
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

static void unix_stream_ready(source *s, uint32_t events)
{
    unix_wire *w = (unix_wire *)((char *)s - offsetof(unix_wire, source));
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        send_ready(w);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive_ready(w, events);
}

static void take_turn(unix_wire *w)
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

/* ---- errands ---- */
static _Thread_local unix_thread *this_thread;

static void run_errands(unix_thread *t)
{
    rd_errand *newest = atomic_exchange_explicit(&t->errands, NULL, memory_order_acquire), *x = NULL, *next;
    for (; newest; newest = next) {
        next = newest->next;
        newest->next = x;
        x = newest;
    }
    for (; x; x = next) {
        next = x->next;
        x->run(x); /* which may free it */
        atomic_fetch_sub_explicit(&t->n_errands, 1, memory_order_relaxed);
        t->served_ns = rd_now_ns();
    }
}

static bool has_errands(unix_thread *t) { return atomic_load_explicit(&t->errands, memory_order_relaxed) != NULL; }

/* ---- what is asked of a stream ---- */
/* Another thread has sent a reply. While that wakes the peer, wake the stream's own thread for the peer's next request. */
static void awaken(unix_thread *t)
{
    if (t->pool->linger && atomic_exchange(&t->asleep, false))
        kick(t);
}

/* Either the thread sees the errand before it sleeps, or this code sees that it sleeps. */
static bool unix_leave_to_reader(rd_wire *wire, rd_errand *x)
{
    unix_thread *t = of(wire)->thread;
    if (!t->pool->linger || t == this_thread || atomic_load_explicit(&t->asleep, memory_order_relaxed) ||
        atomic_load_explicit(&t->n_errands, memory_order_relaxed) >= MOST_ERRANDS)
        return false;
    atomic_fetch_add_explicit(&t->n_errands, 1, memory_order_relaxed);
    x->next = atomic_load_explicit(&t->errands, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&t->errands, &x->next, x))
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
    unix_wire *w = of(wire);
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
    unix_wire *w = of(wire);
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
    unix_wire *w = of(wire);
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
    unix_wire *w = of(wire);
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

/* ---- accepting ---- */
static unix_thread *least_busy(rd_unix_threads *pool)
{
    unix_thread *best = &pool->threads[0];
    for (unsigned i = 1; i < pool->n; i++)
        if (atomic_load_explicit(&pool->threads[i].streams, memory_order_relaxed) <
            atomic_load_explicit(&best->streams, memory_order_relaxed))
            best = &pool->threads[i];
    return best;
}

static bool may_come(const rd_unix_threads *pool, int fd, const struct ucred *who)
{
    return (rlim_t)fd + RESERVE < pool->descriptors || rd_uid_is_admin(who->uid);
}

static unix_wire *make_stream(unix_listener *l, int fd)
{
    unix_wire *w = calloc(1, sizeof *w);
    socklen_t len = sizeof w->peer;
    if (!w || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &w->peer, &len) != 0 || !may_come(l->pool, fd, &w->peer)) {
        free(w);
        close(fd);
        return NULL;
    }
    w->wire = (rd_wire){
        .ops = &ops, .events = l->listener.events, .origin = {true, w->peer.uid}, .listener = l->listener.number, .ipc = true};
    w->source.ready = unix_stream_ready;
    w->fd = fd;
    w->thread = least_busy(l->pool);
    atomic_fetch_add_explicit(&w->thread->streams, 1, memory_order_relaxed);
    pthread_mutex_init(&w->lock, NULL);
    return w;
}

static void watch_listener(unix_listener *l, bool on)
{
    struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.ptr = &l->source};
    epoll_ctl(l->pool->threads[0].epoll, l->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, l->fd, &e);
    l->watched = true;
}

static void rest(unix_listener *l)
{
    l->resting = true;
    l->pool->threads[0].rest_until_ns = rd_after_ms(RD_ACCEPT_REST_MS);
    watch_listener(l, false);
}

/* Accepts one peer. False: no other peer waits. */
static bool accept_one(unix_listener *l)
{
    int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
        return true;
    if (fd < 0 && errno != EAGAIN)
        rest(l);
    if (fd < 0)
        return false;
    unix_wire *w = make_stream(l, fd);
    if (w)
        l->listener.events->opened(l->listener.arg, &w->wire);
    return true;
}

static void unix_listener_ready(source *s, uint32_t events)
{
    unix_listener *l = (unix_listener *)((char *)s - offsetof(unix_listener, source));
    (void)events;
    pthread_mutex_lock(&l->pool->lock);
    for (int i = 0; i < ACCEPTS && !l->closed && !l->paused && accept_one(l); i++)
        ;
    pthread_mutex_unlock(&l->pool->lock);
}

static void end_rest(rd_unix_threads *pool)
{
    pool->threads[0].rest_until_ns = 0;
    pthread_mutex_lock(&pool->lock);
    for (unix_listener *l = pool->listeners; l; l = l->next)
        if (l->resting && !l->closed && !l->paused) {
            l->resting = false;
            watch_listener(l, true);
        }
    pthread_mutex_unlock(&pool->lock);
}

/* ---- the threads ---- */
static void unix_kicked(source *s, uint32_t events)
{
    eventfd_t n;
    (void)events;
    eventfd_read(((unix_thread *)s)->kicked, &n);
}

/* Requests that follow each other closely find the thread awake. But where bulk works keep processors busy, a woken client may
 * have no processor except this thread's. */
static int linger(unix_thread *t, struct epoll_event *events)
{
    const bool quiet = t->pool->linger && !(t->pool->workers && rd_workers_bulk(t->pool->workers));
    int n = 0;
    while (quiet && n == 0 && rd_now_ns() < t->served_ns + LINGER_NS) {
        if (has_errands(t))
            run_errands(t);
        n = epoll_wait(t->epoll, events, BATCH, 0);
    }
    return n;
}

static int sleep_until_event(unix_thread *t, struct epoll_event *events)
{
    atomic_store(&t->asleep, true);
    const int most_ms = atomic_load(&t->errands) ? 0 : t->rest_until_ns ? RD_ACCEPT_REST_MS : -1;
    int n = epoll_wait(t->epoll, events, BATCH, most_ms);
    atomic_store_explicit(&t->asleep, false, memory_order_relaxed);
    return n;
}

static void turn(unix_thread *t)
{
    struct epoll_event events[BATCH];
    int n = linger(t, events);
    if (n == 0)
        n = sleep_until_event(t, events);
    for (int i = 0; i < n; i++) {
        source *s = events[i].data.ptr;
        s->ready(s, events[i].events);
    }
    run_errands(t);
    unix_wire *w;
    while ((w = next_turn(t)))
        take_turn(w);
    t->served_ns = rd_now_ns();
}

static void *unix_serve(void *arg)
{
    unix_thread *t = this_thread = arg;
    while (!atomic_load_explicit(&t->quit, memory_order_relaxed)) {
        turn(t);
        if (t->rest_until_ns && rd_now_ns() >= t->rest_until_ns)
            end_rest(t->pool);
    }
    return NULL;
}

static bool open_thread(rd_unix_threads *pool, unix_thread *t)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &t->kick};
    t->pool = pool;
    t->kick.ready = unix_kicked;
    t->turns_end = &t->turns;
    pthread_mutex_init(&t->lock, NULL);
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->kicked = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->started = t->epoll >= 0 && t->kicked >= 0 && epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->kicked, &e) == 0 &&
                 pthread_create(&t->thread, NULL, unix_serve, t) == 0;
    return t->started;
}

static void close_thread(unix_thread *t)
{
    atomic_store_explicit(&t->quit, true, memory_order_relaxed);
    if (t->started) {
        kick(t);
        pthread_join(t->thread, NULL);
    }
    if (t->epoll >= 0)
        close(t->epoll);
    if (t->kicked >= 0)
        close(t->kicked);
    pthread_mutex_destroy(&t->lock);
}

/* Threads for this machine, at least two: while one copies a large message, the others continue. */
static unsigned how_many(void)
{
    const unsigned cores = rd_cores();
    return cores < 8 ? 2 : cores < 16 ? 3 : cores < 32 ? 4 : MOST_THREADS;
}

rd_unix_threads *rd_unix_open(const rd_workers *workers)
{
    rd_unix_threads *pool = calloc(1, sizeof *pool);
    struct rlimit r;
    if (!pool)
        return NULL;
    pool->descriptors = getrlimit(RLIMIT_NOFILE, &r) == 0 ? r.rlim_cur : RLIM_INFINITY;
    pthread_mutex_init(&pool->lock, NULL);
    pool->workers = workers;
    pool->linger = rd_cores() >= MANY_CORES;
    bool whole = true;
    while (whole && pool->n < how_many())
        whole = open_thread(pool, &pool->threads[pool->n++]);
    if (whole)
        return pool;
    rd_unix_close(pool);
    return NULL;
}

void rd_unix_close(rd_unix_threads *pool)
{
    if (!pool)
        return;
    for (unsigned i = 0; i < pool->n; i++)
        close_thread(&pool->threads[i]);
    while (pool->listeners) {
        unix_listener *l = pool->listeners;
        pool->listeners = l->next;
        free(l);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* ---- listening ---- */
static void unix_start(rd_listener *listener)
{
    unix_listener *l = (unix_listener *)listener;
    pthread_mutex_lock(&l->pool->lock);
    watch_listener(l, true);
    pthread_mutex_unlock(&l->pool->lock);
}

static void unix_pause(rd_listener *listener)
{
    unix_listener *l = (unix_listener *)listener;
    pthread_mutex_lock(&l->pool->lock);
    l->paused = l->passed;
    if (l->paused)
        watch_listener(l, false);
    pthread_mutex_unlock(&l->pool->lock);
}

/* The first thread may still use it in its current turn, so it is freed together with the threads. */
static void unix_close_listener(rd_listener *listener)
{
    unix_listener *l = (unix_listener *)listener;
    pthread_mutex_lock(&l->pool->lock);
    l->closed = true;
    if (!l->passed)
        unlink(l->path);
    close(l->fd); /* epoll forgets it */
    pthread_mutex_unlock(&l->pool->lock);
}

/* A passed socket listens already. After another listen() the kernel names this process in the peers' SO_PEERCRED. */
static int bind_and_listen(const unix_listener *l)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, l->path, sizeof a.sun_path);
    if (!l->passed && bind(l->fd, (struct sockaddr *)&a, sizeof a))
        return errno;
    int err = listen(l->fd, BACKLOG) ? errno : 0;
    if (err && !l->passed)
        unlink(l->path);
    return err;
}

static const rd_listener_ops listener_ops = {.start = unix_start, .pause = unix_pause, .close = unix_close_listener};

static int open_socket(int passed)
{
    return passed >= 0 ? passed : socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

rd_listener *rd_unix_listen(rd_unix_threads *pool, const char *path, int passed, const rd_wire_events *events, void *arg,
                            char *why, size_t cap)
{
    unix_listener *l = calloc(1, sizeof *l);
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
