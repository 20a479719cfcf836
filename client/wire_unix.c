/* ipc://: a socket of our own, and threads that serve it. One of them leads: it waits for what happens, and stops leading
 * when an event begins. A thread that waits for a reply can read the socket itself (read_here): then the reply wakes that
 * thread alone. By way of another one, or nng's two, it would wake two or three, each of which takes 20 us on a virtual
 * machine at rest. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/under_way.h"
#include "client/wire.h"

enum {
    FEWEST_THREADS = 2,                   /* an event may wait for another one: of a job whose callback frees another job */
    MOST_THREADS = RC_MOST_UNDER_WAY + 1, /* each copies into a part of the stage, and one leads */
};

static const uint64_t NEVER = UINT64_MAX;
static const uint64_t REST_NS = 100 * RP_NS_PER_MS; /* in which a helper may come back to read: else both would wake */
static const uint64_t REDIAL_NS = 5 * RP_NS_PER_MS; /* between attempts to connect while the daemon's queue is full */

typedef struct unix_wire {
    rc_wire wire; /* first: a wire is its unix_wire */
    struct sockaddr_un address;
    int kick;   /* an eventfd: the leader is to look anew */
    int nudged; /* another one: whoever reads here is to return */

    pthread_mutex_t lock;  /* of what follows; not held while an event runs */
    pthread_cond_t follow; /* somebody is to lead */
    pthread_t threads[MOST_THREADS];
    unsigned n_threads, idle, telling; /* that wait to lead; in an event. The others are about to look anew */
    unsigned helpers;                  /* that are asked for */
    bool led;
    bool quit;
    uint64_t dial_ns; /* NEVER: no dialling */
    bool dial_stopped;
    uint64_t ring_ns;
    int fd; /* -1: not connected */
    bool hung_up;
    struct iovec out; /* iov_len 0: nothing to send */
    bool receiving, again;
    struct iovec in[2];
    bool helper;      /* a thread is in read_here */
    bool interrupted; /* ... and is to return, or the next one is; `nudged` says the same */
    uint64_t rest_ns; /* until then the leader does not read */
} unix_wire;

typedef struct event {
    enum { NOTHING, DIALLED, SENT, RECEIVED, RANG, HELPS } kind;
    rc_connection_err err;
    size_t n;
} event;

static unix_wire *of(rc_wire *w) { return (unix_wire *)w; }

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- waiting and waking ---- */

static void signal_fd(int fd) { eventfd_write(fd, 1); } /* fails after 2^64 of them */

/* Until `until`, or something happens to one of two. */
static void wait_for(struct pollfd fds[2], uint64_t until)
{
    uint64_t now = until == NEVER ? 0 : rp_now_ns(), left = until > now ? until - now : 0;
    struct timespec t = rp_timespec(left);
    if (ppoll(fds, 2, until == NEVER ? NULL : &t, NULL) < 0)
        fds[0].revents = fds[1].revents = 0;
}

/* Until something happens to one of two, or `until`. Does it? */
static bool watch_for(struct pollfd fds[2], uint64_t until)
{
    int n = 0;
    while (n == 0 && rp_now_ns() < until)
        n = poll(fds, 2, 0);
    return n > 0;
}

static void *unix_run(void *arg);

/* The program's signals are not for this thread. */
static bool start_thread(unix_wire *w)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&w->threads[w->n_threads], NULL, unix_run, w) == 0;
    w->n_threads += started;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* While nobody leads. If nobody can be had, the first to return from its event leads. */
static void find_leader(unix_wire *w)
{
    if (w->idle)
        pthread_cond_signal(&w->follow);
    else if (w->telling == w->n_threads && w->n_threads < MOST_THREADS && !w->quit)
        start_thread(w);
}

/* With the lock: the state has changed. */
static void kick(unix_wire *w)
{
    if (w->led)
        signal_fd(w->kick);
    else
        find_leader(w);
}

/* ---- events, with the lock ---- */

static rc_connection_err link_err(int err)
{
    switch (err) {
    case EACCES:
    case EPERM:
        return RC_LINK_DENIED;
    case ENOMEM:
    case ENOBUFS:
    case EMFILE:
    case ENFILE:
        return RC_LINK_NO_MEMORY;
    default: /* the socket is not there, nobody listens, or the other end is gone */
        return RC_LINK_REFUSED;
    }
}

/* 0 or the errno */
static int connect_socket(unix_wire *w)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, (const struct sockaddr *)&w->address, sizeof w->address)) {
        int err = errno;
        close(fd);
        return err;
    }
    w->fd = fd;
    w->hung_up = false;
    return 0;
}

static event try_to_dial(unix_wire *w)
{
    int err = w->dial_stopped ? ECANCELED : connect_socket(w);
    w->dial_ns = err == EAGAIN ? rp_now_ns() + REDIAL_NS : NEVER;
    return err == EAGAIN ? (event){.kind = NOTHING} : (event){DIALLED, err ? link_err(err) : RC_LINK_OK, 0};
}

static event try_to_send(unix_wire *w)
{
    ssize_t n = w->hung_up ? -1 : send(w->fd, w->out.iov_base, w->out.iov_len, MSG_NOSIGNAL);
    if (n < 0 && !w->hung_up && (errno == EAGAIN || errno == EINTR))
        return (event){.kind = NOTHING};
    w->out.iov_len = 0;
    return n < 0 ? (event){SENT, RC_LINK_REFUSED, 0} : (event){SENT, RC_LINK_OK, (size_t)n};
}

static event try_to_receive(unix_wire *w)
{
    bool again = w->again && !w->hung_up;
    ssize_t n = w->hung_up || again ? 0 : readv(w->fd, w->in, 2);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return (event){.kind = NOTHING};
    w->receiving = w->again = false;
    return n > 0 || again ? (event){RECEIVED, RC_LINK_OK, (size_t)n} : (event){RECEIVED, RC_LINK_REFUSED, 0};
}

/* The leader leaves receiving to helpers. */
static bool rests(const unix_wire *w) { return w->helper || rp_now_ns() < w->rest_ns; }

/* Receiving ends without a look at the socket. */
static bool is_received(const unix_wire *w) { return w->receiving && (w->again || w->hung_up); }

static void tell(unix_wire *w, event e)
{
    const rc_wire_events *to = w->wire.events;
    void *arg = w->wire.arg;
    if (e.kind == NOTHING)
        return;
    pthread_mutex_unlock(&w->lock);
    if (e.kind == DIALLED)
        to->dialled(arg, e.err);
    else if (e.kind == SENT)
        to->sent(arg, e.err, e.n);
    else if (e.kind == RECEIVED)
        to->received(arg, e.err, e.n);
    else if (e.kind == RANG)
        to->rang(arg);
    else
        to->helps(arg);
    pthread_mutex_lock(&w->lock);
}

/* ---- the threads ---- */

/* What need not be waited for. */
static event due(unix_wire *w)
{
    uint64_t now = rp_now_ns();
    if (now >= w->dial_ns)
        return try_to_dial(w);
    if (now >= w->ring_ns) {
        w->ring_ns = NEVER;
        return (event){RANG, RC_LINK_OK, 0};
    }
    if (w->out.iov_len && w->hung_up)
        return try_to_send(w);
    if (is_received(w) && !w->helper)
        return try_to_receive(w);
    return (event){.kind = NOTHING};
}

static event wait_for_next(unix_wire *w)
{
    uint64_t until = earlier(w->dial_ns, w->ring_ns);
    bool rest = rests(w), sends = w->out.iov_len, reads = w->receiving && !rest;
    if (rest)
        until = earlier(until, w->helper ? rp_now_ns() + REST_NS : w->rest_ns);
    struct pollfd fds[] = {{sends || reads ? w->fd : -1, (short)((reads ? POLLIN : 0) | (sends ? POLLOUT : 0)), 0},
                           {w->kick, POLLIN, 0}};
    pthread_mutex_unlock(&w->lock);
    wait_for(fds, until);
    eventfd_t n;
    if (fds[1].revents)
        eventfd_read(w->kick, &n);
    pthread_mutex_lock(&w->lock);
    if (fds[0].revents & ~POLLIN && w->out.iov_len) /* there is room, or an error */
        return try_to_send(w);
    if (fds[0].revents && w->receiving && !w->helper)
        return try_to_receive(w);
    return (event){.kind = NOTHING};
}

static void *unix_run(void *arg)
{
    unix_wire *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->quit) {
        if (w->helpers) {
            w->helpers--;
            w->telling++;
            if (!w->led) /* for which this thread may have been woken */
                find_leader(w);
            tell(w, (event){HELPS, RC_LINK_OK, 0});
            w->telling--;
            continue;
        }
        if (w->led) {
            w->idle++;
            pthread_cond_wait(&w->follow, &w->lock);
            w->idle--;
            continue;
        }
        w->led = true;
        event e = due(w);
        if (e.kind == NOTHING)
            e = wait_for_next(w);
        w->led = false;
        w->telling++;
        tell(w, e);
        w->telling--;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- reading by a thread that waits for a reply ---- */

/* With the lock. */
static bool is_interrupted(unix_wire *w)
{
    eventfd_t n;
    bool interrupted = w->interrupted;
    if (interrupted)
        eventfd_read(w->nudged, &n);
    w->interrupted = false;
    return interrupted;
}

static event read_or_wait(unix_wire *w, uint64_t until, uint64_t watch_until)
{
    struct pollfd fds[] = {{w->fd, POLLIN, 0}, {w->nudged, POLLIN, 0}};
    pthread_mutex_unlock(&w->lock);
    if (!watch_for(fds, watch_until))
        wait_for(fds, until);
    pthread_mutex_lock(&w->lock);
    return fds[0].revents && !is_interrupted(w) && w->receiving ? try_to_receive(w) : (event){.kind = NOTHING};
}

static bool unix_read_here(rc_wire *wire, uint64_t until, uint64_t watch_until)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    bool mine = !w->helper && w->receiving;
    if (mine) {
        w->helper = true;
        tell(w, is_interrupted(w) || is_received(w) ? (event){.kind = NOTHING}
                                                    : read_or_wait(w, until ? until : NEVER, watch_until));
        w->helper = false;
        w->rest_ns = rp_now_ns() + REST_NS;
        if (is_received(w))
            kick(w);
    }
    pthread_mutex_unlock(&w->lock);
    return mine;
}

static void unix_interrupt(rc_wire *wire)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    if (!w->interrupted)
        signal_fd(w->nudged);
    w->interrupted = true;
    bool rested = !w->helper && rests(w);
    w->rest_ns = 0;
    if (rested || !w->led)
        kick(w);
    pthread_mutex_unlock(&w->lock);
}

/* ---- what is asked for ---- */

static rc_connection_err unix_dial(rc_wire *wire)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    w->dial_ns = 0;
    w->dial_stopped = false;
    kick(w);
    pthread_mutex_unlock(&w->lock);
    return RC_LINK_OK;
}

static void unix_stop_dialling(rc_wire *wire)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    if (w->dial_ns != NEVER)
        w->dial_ns = 0;
    w->dial_stopped = true;
    kick(w);
    pthread_mutex_unlock(&w->lock);
}

static size_t unix_send_now(rc_wire *wire, const void *data, size_t n)
{
    ssize_t sent = send(of(wire)->fd, data, n, MSG_NOSIGNAL); /* the caller sees to it that fd stays */
    return sent > 0 ? (size_t)sent : 0;
}

static void unix_send_more(rc_wire *wire, const void *data, size_t n)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    w->out = (struct iovec){(void *)data, n};
    kick(w);
    pthread_mutex_unlock(&w->lock);
}

/* It is within an event, whose thread looks anew after it: only a leader that was found meanwhile must be woken. */
static void unix_receive(rc_wire *wire, void *to, size_t n, void *more, size_t more_n)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    w->in[0] = (struct iovec){to, n};
    w->in[1] = (struct iovec){more, more_n};
    w->receiving = true;
    w->again = n == 0;
    if (w->led && !(w->again ? w->helper : rests(w)))
        signal_fd(w->kick);
    pthread_mutex_unlock(&w->lock);
}

static void unix_hang_up(rc_wire *wire)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    w->hung_up = true;
    shutdown(w->fd, SHUT_RDWR); /* wakes a helper */
    kick(w);
    pthread_mutex_unlock(&w->lock);
}

static void unix_drop(rc_wire *wire)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    close(w->fd);
    w->fd = -1;
    pthread_mutex_unlock(&w->lock);
}

static void unix_ring(rc_wire *wire, uint64_t when)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    bool sooner = when < w->ring_ns;
    w->ring_ns = earlier(when, w->ring_ns);
    if (sooner)
        kick(w);
    pthread_mutex_unlock(&w->lock);
}

/* Without one to spare it is left to the first thread that returns from its event. */
static void unix_help(rc_wire *wire)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    w->helpers++;
    if (w->idle)
        pthread_cond_signal(&w->follow);
    else if (w->n_threads < MOST_THREADS && !w->quit)
        start_thread(w);
    pthread_mutex_unlock(&w->lock);
}

/* ---- making and freeing ---- */

static void unix_free(rc_wire *wire)
{
    unix_wire *w = of(wire);
    pthread_mutex_lock(&w->lock);
    w->quit = true;
    signal_fd(w->kick);
    pthread_cond_broadcast(&w->follow);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->n_threads; i++) /* no more are started */
        pthread_join(w->threads[i], NULL);
    if (w->kick >= 0)
        close(w->kick);
    if (w->nudged >= 0)
        close(w->nudged);
    pthread_cond_destroy(&w->follow);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static const rc_wire_ops ops = {.dial = unix_dial,
                                .stop_dialling = unix_stop_dialling,
                                .send_now = unix_send_now,
                                .send = unix_send_more,
                                .receive = unix_receive,
                                .hang_up = unix_hang_up,
                                .drop = unix_drop,
                                .ring = unix_ring,
                                .read_here = unix_read_here,
                                .interrupt = unix_interrupt,
                                .help = unix_help,
                                .free = unix_free};

static rc_connection_err set_up(unix_wire *w)
{
    w->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->nudged = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool right = w->kick >= 0 && w->nudged >= 0;
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < FEWEST_THREADS && right; i++)
        right = start_thread(w);
    pthread_mutex_unlock(&w->lock);
    return right ? RC_LINK_OK : RC_LINK_NO_MEMORY;
}

rc_connection_err rc_wire_unix(rc_wire **wire, const char *path, const rc_wire_events *events, void *arg)
{
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof((struct sockaddr_un){0}).sun_path)
        return RC_LINK_BAD_URL;
    unix_wire *w = calloc(1, sizeof *w);
    if (!w)
        return RC_LINK_NO_MEMORY;
    *w = (unix_wire){.fd = -1, .kick = -1, .nudged = -1, .dial_ns = NEVER, .ring_ns = NEVER};
    w->wire = (rc_wire){.ops = &ops, .events = events, .arg = arg};
    w->address.sun_family = AF_UNIX;
    memcpy(w->address.sun_path, path, n);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->follow, NULL);
    rc_connection_err why = set_up(w);
    if (why)
        unix_free(&w->wire);
    else
        *wire = &w->wire;
    return why;
}
