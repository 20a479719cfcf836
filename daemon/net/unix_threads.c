/* The threads that serve all unix sockets. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/base/host.h"
#include "daemon/net/limits.h"
#include "daemon/net/unix_threads.h"
#include "proto/clock.h"

enum {
    BATCH = 64, /* sockets looked at in a turn of a thread */
    MANY_CORES = 8
};

static const uint64_t LINGER_NS = 100000; /* after an event, on machines with MANY_CORES: waking a thread takes some 15 us */

static void unix_kicked(rd_unix_source *s, uint32_t events)
{
    eventfd_t n;
    (void)events;
    eventfd_read(((rd_unix_thread *)s)->kicked, &n);
}

/* Requests that follow each other closely find the thread awake. But where bulk works keep processors busy, a woken client may
 * have no processor except this thread's. */
static int linger(rd_unix_thread *t, struct epoll_event *events)
{
    const bool quiet = t->pool->linger && !(t->pool->workers && rd_workers_bulk(t->pool->workers));
    int n = 0;
    while (quiet && n == 0 && rp_now_ns() < t->served_ns + LINGER_NS) {
        if (rd_unix_has_posted(t))
            rd_unix_run_posted(t);
        n = epoll_wait(t->epoll, events, BATCH, 0);
    }
    return n;
}

static int sleep_until_event(rd_unix_thread *t, struct epoll_event *events)
{
    atomic_store(&t->asleep, true);
    const int most_ms = atomic_load(&t->posted) ? 0 : t->rest_until_ns ? RD_ACCEPT_REST_MS : -1;
    int n = epoll_wait(t->epoll, events, BATCH, most_ms);
    atomic_store_explicit(&t->asleep, false, memory_order_relaxed);
    return n;
}

static void turn(rd_unix_thread *t)
{
    struct epoll_event events[BATCH];
    int n = linger(t, events);
    if (n == 0)
        n = sleep_until_event(t, events);
    for (int i = 0; i < n; i++) {
        rd_unix_source *s = events[i].data.ptr;
        s->ready(s, events[i].events);
    }
    rd_unix_run_posted(t);
    rd_unix_take_turns(t);
    t->served_ns = rp_now_ns();
}

static void *unix_serve(void *arg)
{
    rd_unix_thread *t = rd_unix_this_thread = arg;
    while (!atomic_load_explicit(&t->quit, memory_order_relaxed)) {
        turn(t);
        if (t->rest_until_ns && rp_now_ns() >= t->rest_until_ns)
            rd_unix_end_rest(t->pool);
    }
    return NULL;
}

static bool open_thread(rd_unix_threads *pool, rd_unix_thread *t)
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

static void close_thread(rd_unix_thread *t)
{
    atomic_store_explicit(&t->quit, true, memory_order_relaxed);
    if (t->started) {
        rd_unix_kick(t);
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
    return cores < 8 ? 2 : cores < 16 ? 3 : cores < 32 ? 4 : RD_UNIX_MOST_THREADS;
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
        rd_unix_listener *l = pool->listeners;
        pool->listeners = l->next;
        free(l);
    }
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
