/* Sessions by connection, their end, the inbox between threads, the latency histogram, the lock of a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/lock.h"
#include "daemon/net/inbox.h"
#include "daemon/state/session.h"
#include "daemon/telemetry/histogram.h"

/* ---- sessions ---- */
static void sessions_are_found_by_connection(void **state)
{
    (void)state;
    enum { N = 500 };
    rd_sessions s;
    rd_users users = {0};
    assert_true(rd_sessions_init(&s, &users, 16)); /* far too few buckets: chains are used */
    for (uint32_t i = 1; i <= N; i++)
        assert_non_null(rd_session_open(&s, i * 7));
    assert_null(rd_session_open(&s, 7));
    for (uint32_t i = 1; i <= N; i += 2)
        rd_session_close(&s, rd_session_find(&s, i * 7));
    for (uint32_t i = 1; i <= N; i++)
        assert_int_equal(rd_session_find(&s, i * 7) != NULL, i % 2 == 0);
    assert_int_equal(s.connections, N / 2);
    rd_session_close(&s, rd_session_find(&s, 1)); /* unknown: nothing happens */
    rd_sessions_fini(&s);
}

static void ids_are_random_and_told_at_hello(void **state)
{
    (void)state;
    rd_sessions s;
    rd_users users = {0};
    assert_true(rd_sessions_init(&s, &users, 16));
    rd_session *a = rd_session_open(&s, 1), *b = rd_session_open(&s, 2);
    assert_int_equal(a->id, 0);
    a->peer = b->peer = (rd_peer){.local = true, .uid = 7};
    assert_true(rd_session_own(&s, a) && rd_session_own(&s, b));
    assert_true(rd_session_greet(&s, a, "one", 3, true) && rd_session_greet(&s, b, "", 0, false));
    assert_true(a->id && b->id && a->id != b->id);
    assert_string_equal(a->name, "one");
    assert_int_equal(s.greeted, 2);
    assert_true(a->owner == b->owner && rd_held(&a->owner->charges, RD_HELD_CONNECTIONS) == 2 &&
                rd_held(&a->owner->charges, RD_HELD_SESSIONS) == 2);
    rd_session_close(&s, a);
    assert_int_equal(s.greeted, 1);
    assert_true(rd_held(&b->owner->charges, RD_HELD_CONNECTIONS) == 1 && rd_held(&b->owner->charges, RD_HELD_SESSIONS) == 1);
    rd_sessions_fini(&s);
    assert_null(users.first);
}

static void a_closed_session_waits_for_its_work(void **state)
{
    (void)state;
    rd_sessions s;
    rd_users users = {0};
    rp_spec spec = {.op = RP_OP_SUM, .dtype = RP_I8, .rows = 1};
    assert_true(rd_sessions_init(&s, &users, 16));
    rd_session *x = rd_session_open(&s, 1), *other = rd_session_open(&s, 2);
    rd_stream *stream = rd_stream_open(&x->streams, 1, &spec);
    x->inflight = 1;
    stream->jobs = 1;
    rd_session_close(&s, other);
    rd_session_close(&s, x);
    assert_null(rd_session_find(&s, 1));
    rd_sessions_reap(&s);
    assert_ptr_equal(s.dead, x); /* the other one is gone */
    x->inflight = 0;
    rd_account_charge(&x->unsent, 100);
    rd_sessions_reap(&s);
    assert_ptr_equal(s.dead, x);
    rd_account_release(&x->unsent, 100);
    rd_sessions_reap(&s);
    assert_ptr_equal(s.dead, x);
    stream->jobs = 0;
    rd_sessions_reap(&s);
    assert_null(s.dead);
    rd_sessions_fini(&s);
}

/* ---- inbox ---- */
static void count_wake(void *arg) { ++*(int *)arg; }

static void the_inbox_wakes_only_a_sleeper(void **state)
{
    (void)state;
    rd_inbox b;
    rd_event e[8];
    int wakes = 0;
    assert_true(rd_inbox_init(&b, 4, count_wake, &wakes));
    assert_true(rd_inbox_put(&b, (rd_event){.kind = RD_CONNECTION_OPENED, .connection = 1}));
    assert_true(rd_inbox_put(&b, (rd_event){.kind = RD_CONNECTION_CLOSED, .connection = 1}));
    assert_int_equal(wakes, 1);
    assert_int_equal(rd_inbox_take(&b, e, 8), 2);
    assert_int_equal(e[1].kind, RD_CONNECTION_CLOSED);
    rd_inbox_put(&b, (rd_event){.kind = RD_MESSAGE}); /* the loop has not seen it empty: it will come again */
    assert_int_equal(wakes, 1);
    assert_int_equal(rd_inbox_take(&b, e, 8), 1);
    assert_int_equal(rd_inbox_take(&b, e, 8), 0);
    rd_inbox_put(&b, (rd_event){.kind = RD_MESSAGE});
    assert_int_equal(wakes, 2);
    rd_inbox_close(&b);
    assert_false(rd_inbox_put(&b, (rd_event){.kind = RD_CONNECTION_OPENED}));
    rd_inbox_fini(&b);
}

static void the_inbox_grows_with_connections(void **state)
{
    (void)state;
    enum { N = 5000 };
    rd_inbox b;
    rd_event e[100];
    int wakes = 0;
    uint32_t seen = 0;
    assert_true(rd_inbox_init(&b, 4, count_wake, &wakes));
    for (uint32_t i = 0; i < N; i++) { /* taking on the way moves the ring's start */
        assert_true(rd_inbox_put(&b, (rd_event){.kind = RD_CONNECTION_OPENED, .connection = i}));
        if (i % 3 == 0 && rd_inbox_take(&b, e, 1))
            assert_int_equal(e[0].connection, seen++);
    }
    for (uint32_t i = 0; i < N; i++)
        assert_true(rd_inbox_put(&b, (rd_event){.kind = RD_CONNECTION_CLOSED, .connection = i}));
    for (size_t n; (n = rd_inbox_take(&b, e, 100));)
        for (size_t i = 0; i < n; i++)
            assert_int_equal(e[i].connection, seen++ % N);
    assert_int_equal(seen, 2 * N);
    rd_inbox_fini(&b);
}

/* ---- histogram ---- */
static void quantiles_are_close(void **state)
{
    (void)state;
    rd_histogram h = {.count = 0};
    assert_int_equal(rd_histogram_quantile(&h, 0.5), 0);
    for (uint64_t v = 1; v <= 100000; v++)
        rd_histogram_add(&h, v);
    for (int i = 1; i <= 100; i++) {
        double want = i * 1000.0, got = (double)rd_histogram_quantile(&h, i / 100.0);
        assert_true(got >= want && got <= want * 1.126);
    }
    assert_int_equal(rd_histogram_quantile(&h, 1.0), 100000);
    assert_int_equal(h.max, 100000);
}

static void extremes_have_a_bucket(void **state)
{
    (void)state;
    const uint64_t values[] = {0, 1, 7, 8, 9, UINT64_MAX / 2, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        rd_histogram h = {.count = 0};
        rd_histogram_add(&h, values[i]);
        assert_int_equal(rd_histogram_quantile(&h, 0.5), values[i]);
        assert_int_equal(rd_histogram_quantile(&h, 0), values[i]);
    }
}

/* ---- lock ---- */
static void make_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    close(fd);
}

/* Somebody puts a link in the socket's place between bind and the change of its mode. */
static void modes_are_for_sockets_alone(void **state)
{
    (void)state;
    char dir[] = "/tmp/reduced-test-XXXXXX", path[64], file[72];
    const rd_ids none = {0};
    struct stat st;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(file, sizeof file, "%s/secret", dir);
    make_socket(path);
    assert_true(rd_hand_socket(path, 0640, &none));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    unlink(path);

    close(open(file, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(symlink(file, path), 0);
    assert_false(rd_hand_socket(path, 0666, &none));
    assert_false(rd_hand_socket(file, 0666, &none));
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    unlink(path);
    unlink(file);
    rmdir(dir);
}

static void a_socket_has_one_daemon(void **state)
{
    (void)state;
    char dir[] = "/tmp/reduced-test-XXXXXX", path[64], lock[72], why[200];
    int first, second;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(lock, sizeof lock, "%s.lock", path);

    make_socket(path); /* a stale one */
    int fd;
    assert_int_equal(rd_lock_socket(path, &first, why, sizeof why), RD_LOCK_OK);
    assert_int_equal(access(path, F_OK), -1); /* removed */

    assert_int_equal(rd_lock_socket(path, &second, why, sizeof why), RD_LOCK_HELD);
    char pid[32];
    snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
    assert_non_null(strstr(why, pid));
    close(first);

    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(rd_lock_socket(path, &first, why, sizeof why), RD_LOCK_FAILED);
    assert_non_null(strstr(why, "symbolic link"));
    unlink(path);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_int_equal(rd_lock_socket(path, &first, why, sizeof why), RD_LOCK_FAILED);
    assert_int_equal(access(path, F_OK), 0); /* somebody's file stays */
    unlink(path);
    unlink(lock);
    assert_int_equal(symlink("/tmp/reduced-test-elsewhere", lock), 0);
    assert_int_equal(rd_lock_socket(path, &first, why, sizeof why), RD_LOCK_FAILED);
    unlink(lock);
    assert_int_equal(rd_lock_socket("/nonexistent/dir/s", &first, why, sizeof why), RD_LOCK_FAILED);
    assert_int_equal(rmdir(dir), 0);
}

static void write_at(const char *path, off_t at, const char *text)
{
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    assert_int_equal(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    close(fd);
}

/* Rates pass from one daemon to the next; what is not two rates is none. */
static void a_lock_keeps_rates(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "48000000000",
                                        "999999             \n",
                                        "-48000000000         \n",
                                        "4800000000x          \n",
                                        "99999999999999       \n",
                                        "48000000000 48000000 \n"};
    char dir[] = "/tmp/reduced-test-XXXXXX", path[64], lock[72], why[200];
    int fd;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(lock, sizeof lock, "%s.lock", path);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rd_lock_socket(path, &fd, why, sizeof why), RD_LOCK_OK);
        const rd_kept_rates found = rd_lock_rates(fd);
        assert_int_equal(found.device, i ? UINT64_C(48000000000) : 0);
        assert_int_equal(found.cpu, i == 2 ? 7000000 : 0);
        assert_true(rd_lock_keep_rates(fd, (rd_kept_rates){i ? 0 : UINT64_C(48000000000), i ? 7000000 : 0}));
        close(fd);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_at(lock, 21, wrong[i]);
        assert_int_equal(rd_lock_socket(path, &fd, why, sizeof why), RD_LOCK_OK);
        assert_int_equal(rd_lock_rates(fd).device, 0);
        close(fd);
    }
    unlink(lock);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_are_found_by_connection),
        cmocka_unit_test(ids_are_random_and_told_at_hello),
        cmocka_unit_test(a_closed_session_waits_for_its_work),
        cmocka_unit_test(the_inbox_wakes_only_a_sleeper),
        cmocka_unit_test(the_inbox_grows_with_connections),
        cmocka_unit_test(quantiles_are_close),
        cmocka_unit_test(extremes_have_a_bucket),
        cmocka_unit_test(a_socket_has_one_daemon),
        cmocka_unit_test(a_lock_keeps_rates),
        cmocka_unit_test(modes_are_for_sockets_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
