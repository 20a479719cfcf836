/* The daemon's unix sockets, with a peer in this thread: which events a stream tells at its end, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/net/wire.h"
#include "tests/unit/awaiting.h"
#include "tests/unit/many_cores.h"

enum { LIMIT_S = 120 }; /* of a wait that fails */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rd_wire *wire;
    int sent, unsent, received, ends;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static rd_unix_threads *threads;
static rd_listener *door;
static int peer;
static char folder[64], path[80];

static atomic_bool no_memory;

int epoll_ctl(int epoll, int what, int fd, struct epoll_event *e)
{
    int (*real)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl"); /* a sanitizer's, perhaps */
    if (!atomic_load(&no_memory) || what == EPOLL_CTL_DEL)
        return real(epoll, what, fd, e);
    errno = ENOMEM;
    return -1;
}

static void count(int *what)
{
    pthread_mutex_lock(&seen.lock);
    ++*what;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void test_opened(void *arg, rd_wire *w)
{
    (void)arg;
    pthread_mutex_lock(&seen.lock);
    w->user = w;
    seen.wire = w;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void test_received(void *user, bool ok, size_t n)
{
    (void)user;
    (void)n;
    count(ok ? &seen.received : &seen.ends);
}

static void test_sent(void *user, bool ok, size_t n)
{
    (void)user;
    (void)n;
    count(ok ? &seen.sent : &seen.unsent);
}

static bool is_open(void) { return seen.wire != NULL; }
static bool has_not_sent(void) { return seen.unsent > 0; }
static bool has_ended(void) { return seen.ends > 0; }

static int awaited;
static bool has_received(void) { return seen.received >= awaited; }

static void await(bool (*condition)(void)) { await_within(LIMIT_S, &seen.lock, &seen.changed, condition); }

static int set_up(void **state)
{
    (void)state;
    static const rd_wire_events events = {test_opened, test_received, test_sent};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char why[256];
    seen.wire = NULL;
    seen.sent = seen.unsent = seen.received = seen.ends = 0;
    strcpy(folder, "/tmp/test-rd-wire-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/s", folder);
    threads = rd_unix_open(NULL);
    door = threads ? rd_unix_listen(threads, path, -1, &events, NULL, why, sizeof why) : NULL;
    if (!door)
        return -1;
    door->ops->start(door);
    strcpy(a.sun_path, path);
    peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(peer, (struct sockaddr *)&a, sizeof a))
        return -1;
    await(is_open);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    seen.wire->ops->free(seen.wire);
    door->ops->close(door);
    rd_unix_close(threads);
    close(peer);
    unlink(path);
    return rmdir(folder);
}

/* More than the kernel takes: an operation is under way. */
static void send_without_end(rd_wire *w)
{
    static char data[1 << 16];
    while (w->ops->send(w, data, sizeof data))
        ;
    assert_true(w->ops->send_rest(w, data, sizeof data));
}

static void receive_to_the_end(rd_wire *w)
{
    static char byte;
    w->ops->receive(w, &byte, 1, NULL, 0);
    await(has_ended);
}

static void receive_to_the_end_of_peer(void)
{
    seen.wire->ops->hang_up(seen.wire);
    receive_to_the_end(seen.wire);
}

static void what_is_unsent_is_told_once(void **state)
{
    (void)state;
    rd_wire *w = seen.wire;
    send_without_end(w);
    w->ops->hang_up(w); /* nothing is to be received: a paused connection */
    await(has_not_sent);
    assert_int_equal(seen.ends, 0);
    receive_to_the_end(w);
    assert_int_equal(seen.unsent, 1);
    assert_int_equal(seen.ends, 1);
    assert_int_equal(seen.sent + seen.received, 0);
}

/* Without memory for epoll nothing would ever say that the kernel takes more. */
static void what_cannot_be_watched_is_unsent(void **state)
{
    (void)state;
    rd_wire *w = seen.wire;
    static char byte;
    atomic_store(&no_memory, true);
    assert_true(w->ops->send_rest(w, &byte, 1));
    await(has_not_sent);
    atomic_store(&no_memory, false);
    receive_to_the_end(w);
    assert_int_equal(seen.unsent, 1);
    assert_int_equal(seen.ends, 1);
}

static void what_is_unsent_is_told_before_the_end(void **state)
{
    (void)state;
    rd_wire *w = seen.wire;
    static char byte;
    send_without_end(w);
    w->ops->receive(w, &byte, 1, NULL, 0);
    w->ops->hang_up(w);
    await(has_ended);
    assert_int_equal(seen.unsent, 1);
    assert_false(w->ops->send_rest(w, &byte, 1));
}

/* ---- posted work ---- */
enum { ITEMS = 2000, POSTERS = 2 };

typedef struct item {
    rd_posted posted; /* first */
    unsigned runs;
    pthread_t by;
} item;

static atomic_uint done, declined, over;

static void run_item(rd_posted *x)
{
    item *e = (item *)x;
    e->runs++;
    e->by = pthread_self();
    atomic_fetch_add(&done, 1);
    if (atomic_load(&over) == POSTERS) { /* nobody waits before */
        pthread_mutex_lock(&seen.lock);
        pthread_cond_broadcast(&seen.changed);
        pthread_mutex_unlock(&seen.lock);
    }
}

static bool all_are_over(void) { return atomic_load(&done) + atomic_load(&declined) == POSTERS * ITEMS; }

static void *post_items(void *items)
{
    const struct timespec pause = {0, 150000}; /* the reader sleeps after 100 us */
    for (item *e = items; e < (item *)items + ITEMS; e++) {
        e->posted.run = run_item;
        if (!seen.wire->ops->leave_to_reader(seen.wire, &e->posted))
            atomic_fetch_add(&declined, 1);
        if ((e - (item *)items) % 50 == 0)
            nanosleep(&pause, NULL); /* poll interval: the reader falls asleep */
    }
    atomic_fetch_add(&over, 1);
    return NULL;
}

/* The peer sends a byte, and it is received. */
static void keep_awake(void)
{
    static char to;
    const char byte = 0;
    awaited = seen.received + 1;
    seen.wire->ops->receive(seen.wire, &to, 1, NULL, 0);
    assert_int_equal(send(peer, &byte, 1, 0), 1);
    await(has_received);
}

/* Several threads post work to the reader while it goes to sleep and wakes up: it does each, once, or declines. */
static void posted_work_is_done_once_by_the_reader(void **state)
{
    (void)state;
    static item items[POSTERS * ITEMS];
    pthread_t thread[POSTERS];
    const item *last = NULL;
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, post_items, items + i * ITEMS), 0);
    while (atomic_load(&over) < POSTERS)
        keep_awake();
    for (int i = 0; i < POSTERS; i++)
        pthread_join(thread[i], NULL);
    await(all_are_over);
    assert_true(atomic_load(&done) > 0);
    for (const item *e = items; e < items + POSTERS * ITEMS; e++) {
        assert_true(e->runs <= 1);
        if (e->runs && last)
            assert_true(pthread_equal(e->by, last->by));
        last = e->runs ? e : last;
    }
    receive_to_the_end_of_peer();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_unsent_is_told_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_watched_is_unsent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_unsent_is_told_before_the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(posted_work_is_done_once_by_the_reader, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
