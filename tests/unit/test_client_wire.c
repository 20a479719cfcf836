/* The client's own socket: events that must wake the leading thread while it waits for something else. The clock stands still
 * and no timer ends a wait here, so no timer can hide a missing wake-up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/wire.h"
#include "tests/unit/awaiting.h"

enum { LIMIT_S = 120 /* of a wait that fails */, HELPERS = 12 };

/* What the threads of the wire do, and what has happened. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t main;
    int leaders, waits, past; /* threads of the wire that wait in ppoll; how often one did, and had done */
    bool reads, writes;       /* what the last one waits for of the socket, */
    bool timed;               /* and whether for some time only */
    atomic_int tries;         /* to send */
    int dialled, sent, received, rang, helps;
    int looks, sleeps;        /* of a helper: without waiting; in ppoll */
    atomic_int asked;         /* for helpers, by helpers */
    rc_connection_err err;    /* of the last event */
    void (*on_dialled)(void); /* within the event */
    void (*on_received)(void);
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static rc_wire *wire;
static int door = -1, peer = -1;
static char path[64], byte;
static uint64_t far_ns; /* a time that never comes */

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = 1000};
    return 0;
}

static void write_peer(void) { assert_int_equal(write(peer, "x", 1), 1); }

/* The wire's threads wait here, and a helper, for which a byte comes when it is there. */
int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
    bool helper = pthread_equal(pthread_self(), seen.main), now = t && t->tv_sec == 0 && t->tv_nsec == 0;
    if (helper)
        write_peer();
    pthread_mutex_lock(&seen.lock);
    if (helper) {
        seen.sleeps++; /* it alone reads and writes this, without the lock, too */
    } else {
        seen.leaders++;
        seen.waits++;
        seen.reads = fds[0].fd >= 0;
        seen.writes = seen.reads && fds[0].events & POLLOUT;
        seen.timed = t != NULL;
    }
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
    int got = (int)syscall(SYS_ppoll, fds, n, now ? t : NULL, mask, (size_t)8);
    int err = errno;
    pthread_mutex_lock(&seen.lock);
    seen.leaders -= !helper;
    pthread_mutex_unlock(&seen.lock);
    errno = err;
    return got;
}

/* A helper looks here; its byte comes before the third time. */
int poll(struct pollfd *fds, nfds_t n, int ms)
{
    const struct timespec none = {0};
    assert_int_equal(ms, 0);
    if (++seen.looks == 3)
        write_peer();
    return (int)syscall(SYS_ppoll, fds, n, &none, NULL, (size_t)8);
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
    atomic_fetch_add(&seen.tries, 1);
    return syscall(SYS_sendto, fd, data, n, flags, NULL, (size_t)0);
}

/* ---- events ---- */
static void happened(int *what, rc_connection_err err)
{
    pthread_mutex_lock(&seen.lock);
    ++*what;
    seen.err = err;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void test_dialled(void *arg, rc_connection_err err)
{
    (void)arg;
    if (seen.on_dialled)
        seen.on_dialled();
    happened(&seen.dialled, err);
}

static void test_sent(void *arg, rc_connection_err err, size_t n)
{
    (void)arg;
    (void)n;
    happened(&seen.sent, err);
}

static void test_received(void *arg, rc_connection_err err, size_t n)
{
    (void)arg;
    (void)n;
    void (*then)(void) = seen.on_received;
    seen.on_received = NULL;
    if (then)
        then();
    happened(&seen.received, err);
}

static void test_rang(void *arg)
{
    (void)arg;
    happened(&seen.rang, RC_LINK_OK);
}

static void await(bool (*condition)(void));
static bool has_all_helpers(void) { return seen.helps == HELPERS; }

/* Each helper asks for the next, and none ends before all are there. */
static void test_helps(void *arg)
{
    (void)arg;
    happened(&seen.helps, RC_LINK_OK);
    if (atomic_fetch_add(&seen.asked, 1) < HELPERS - 1)
        wire->ops->help(wire);
    await(has_all_helpers);
}

/* ---- waiting for them ---- */
static bool rests(void) { return seen.leaders == 1 && !seen.reads && seen.waits > seen.past; }
static bool watches(void) { return seen.leaders == 1 && seen.reads; }
static bool is_blocked(void) { return seen.leaders == 1 && seen.writes; }
static bool knocks(void) { return seen.leaders == 1 && seen.timed && !seen.reads; }
static bool has_dialled(void) { return seen.dialled > 0; }
static bool has_sent(void) { return seen.sent > 0; }
static bool has_received(void) { return seen.received > 0; }
static bool has_received_twice(void) { return seen.received > 1; }
static bool has_rung(void) { return seen.rang > 0; }

static void await(bool (*condition)(void)) { await_within(LIMIT_S, &seen.lock, &seen.changed, condition); }

/* Whether it is so now: the wire's threads may change it a moment later. */
static bool is_so(bool (*condition)(void))
{
    pthread_mutex_lock(&seen.lock);
    const bool so = condition();
    pthread_mutex_unlock(&seen.lock);
    return so;
}

/* ---- the other end ---- */
static int set_up(void **state)
{
    (void)state;
    static const rc_wire_events events = {test_dialled, test_sent, test_received, test_rang, test_helps};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char folder[] = "/tmp/test-client-wire-XXXXXX";
    seen.main = pthread_self();
    seen.dialled = seen.sent = seen.received = seen.rang = seen.helps = seen.waits = seen.past = seen.looks = seen.sleeps = 0;
    seen.asked = 0;
    far_ns = UINT64_MAX;
    seen.on_dialled = seen.on_received = NULL;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/s", folder);
    strcpy(a.sun_path, path);
    door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(door, (struct sockaddr *)&a, sizeof a) || listen(door, 0) || rc_wire_unix(&wire, path, &events, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    wire->ops->free(wire);
    if (peer >= 0)
        close(peer);
    close(door);
    peer = -1;
    unlink(path);
    *strrchr(path, '/') = '\0';
    return rmdir(path);
}

static void read_a_byte(void) { wire->ops->receive(wire, &byte, 1, NULL, 0); }
static void ask_for_a_turn(void) { wire->ops->receive(wire, NULL, 0, NULL, 0); }

static void connect_wire(void)
{
    assert_int_equal(wire->ops->dial(wire), RC_LINK_OK);
    await(has_dialled);
    assert_int_equal(seen.err, RC_LINK_OK);
    peer = accept4(door, NULL, NULL, SOCK_CLOEXEC);
    assert_true(peer >= 0);
}

/* A bell in the far future makes a leader look anew, and then rest. */
static void make_it_rest(void)
{
    pthread_mutex_lock(&seen.lock);
    seen.past = seen.waits;
    pthread_mutex_unlock(&seen.lock);
    wire->ops->ring(wire, --far_ns);
    await(rests);
}

/* This thread reads a byte, and does `then` in the event; the leader then leaves the socket to helpers. */
static void help(void (*then)(void))
{
    seen.on_received = then;
    assert_true(wire->ops->read_here(wire, 0, 0));
    assert_true(has_received());
    make_it_rest();
}

static void hang_up(void)
{
    wire->ops->hang_up(wire);
    await(has_received_twice);
    assert_int_equal(seen.err, RC_LINK_REFUSED);
    wire->ops->drop(wire);
}

/* ---- the tests ---- */
static void what_a_helper_asks_for_is_for_the_others(void **state)
{
    (void)state;
    connect_wire();
    read_a_byte();
    help(read_a_byte);
    seen.received = 0;
    seen.on_received = ask_for_a_turn;
    assert_true(wire->ops->read_here(wire, 0, 0));
    await(has_received_twice);
    assert_int_equal(seen.err, RC_LINK_OK);
    wire->ops->drop(wire);
}

static void an_interruption_ends_the_leaders_rest(void **state)
{
    (void)state;
    connect_wire();
    read_a_byte();
    help(read_a_byte);
    wire->ops->interrupt(wire);
    write_peer();
    await(has_received_twice);
    assert_int_equal(seen.err, RC_LINK_OK);
    wire->ops->drop(wire);
}

/* The clock stands still: before its time it would look for ever, and from then on not at all. */
static void a_helper_looks_before_it_sleeps(void **state)
{
    (void)state;
    connect_wire();
    read_a_byte();
    assert_true(wire->ops->read_here(wire, 0, far_ns));
    assert_true(has_received());
    assert_int_equal(seen.looks, 3);
    assert_int_equal(seen.sleeps, 0);
    read_a_byte();
    assert_true(wire->ops->read_here(wire, 0, 1000000000000));
    assert_true(is_so(has_received_twice));
    assert_int_equal(seen.looks, 3);
    assert_int_equal(seen.sleeps, 1);
    wire->ops->drop(wire);
}

/* A reply wakes the leader of a client whose request is blocked: it has no reason to try the request again. */
static void a_reply_is_read_while_a_request_is_blocked(void **state)
{
    (void)state;
    static char block[4096];
    size_t sent = 0, drained = 0;
    connect_wire();
    for (size_t n; (n = wire->ops->send_now(wire, block, sizeof block)) > 0;)
        sent += n;
    read_a_byte();
    wire->ops->send(wire, block, sizeof block);
    await(is_blocked);
    seen.tries = 0;
    write_peer();
    await(has_received);
    assert_int_equal(seen.tries, 0);
    assert_false(is_so(has_sent));
    while (drained < sent) {
        const ssize_t n = read(peer, block, sizeof block);
        assert_true(n > 0);
        drained += (size_t)n;
    }
    await(has_sent);
    assert_int_equal(seen.err, RC_LINK_OK);
    wire->ops->drop(wire);
}

static void hanging_up_ends_the_leaders_rest(void **state)
{
    (void)state;
    connect_wire();
    read_a_byte();
    help(read_a_byte);
    hang_up();
}

static void dialling_stops_at_once(void **state)
{
    (void)state;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strcpy(a.sun_path, path);
    assert_int_equal(connect(other, (struct sockaddr *)&a, sizeof a), 0); /* the door's queue is full */
    wire->ops->dial(wire);
    await(knocks);
    wire->ops->stop_dialling(wire);
    await(has_dialled);
    assert_int_equal(seen.err, RC_LINK_REFUSED);
    close(other);
}

static void the_bell_can_be_set_while_the_leader_waits(void **state)
{
    (void)state;
    await(rests);
    wire->ops->ring(wire, 1);
    await(has_rung);
}

static void read_while_another_one_leads(void)
{
    make_it_rest();
    read_a_byte();
    await(watches);
}

static void reading_wakes_a_leader_that_was_found_meanwhile(void **state)
{
    (void)state;
    seen.on_dialled = read_while_another_one_leads;
    connect_wire();
    write_peer();
    await(has_received);
    read_a_byte();
    await(watches);
    hang_up();
}

/* While all of them are busy another thread leads. */
static void helpers_work_at_once(void **state)
{
    (void)state;
    await(rests);
    wire->ops->help(wire);
    await(has_all_helpers);
    wire->ops->ring(wire, 1);
    await(has_rung);
}

static void times_are_cut_into_seconds_and_the_rest(void **state)
{
    (void)state;
    static const struct timespec want[] = {{0, 0}, {0, 999999999}, {1, 0}, {9223372036, 854775807}};
    static const uint64_t ns[] = {0, 999999999, 1000000000, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        struct timespec t = rp_timespec(ns[i]);
        assert_true(t.tv_sec == want[i].tv_sec && t.tv_nsec == want[i].tv_nsec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_helper_asks_for_is_for_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_interruption_ends_the_leaders_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_helper_looks_before_it_sleeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reply_is_read_while_a_request_is_blocked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hanging_up_ends_the_leaders_rest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(dialling_stops_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_bell_can_be_set_while_the_leader_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reading_wakes_a_leader_that_was_found_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(helpers_work_at_once, set_up, tear_down),
        cmocka_unit_test(times_are_cut_into_seconds_and_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
