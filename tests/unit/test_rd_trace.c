/* The trace: many threads put more than the disk may take, and nothing is lost without being counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/telemetry/trace.h"

enum { THREADS = 4, EACH = 20000 }; /* together more than the ring holds */

static void *put_many(void *trace)
{
    rd_record a = {.msg = RP_MSG_PING, .stage_ns = {[RD_TOTAL] = 5}};
    for (int i = 0; i < EACH; i++) {
        a.received_ns += 10;
        rd_trace_put(trace, &a);
    }
    return NULL;
}

/* Lines with a request, and is the last one the end? */
static uint64_t count_requests(const char *path, bool *whole)
{
    char line[1024];
    uint64_t n = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        n += strstr(line, "\"cat\":\"request\"") != NULL;
        *whole = strcmp(line, "]}\n") == 0;
    }
    fclose(f);
    return n;
}

static void every_request_is_written_or_counted(void **state)
{
    (void)state;
    char path[] = "/tmp/reduced-trace-XXXXXX", why[256];
    pthread_t thread[THREADS];
    bool whole = false;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    rd_trace *t = rd_trace_open(path, 0, 1 << 30, why, sizeof why);
    assert_non_null(t);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, put_many, t), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    rd_trace_counts c;
    for (c = rd_trace_counted(t); c.written + c.dropped < THREADS * EACH; c = rd_trace_counted(t))
        sched_yield(); /* the rest of the ring is being written */
    rd_trace_close(t);
    assert_int_equal(c.written + c.dropped, THREADS * EACH);
    assert_int_equal(count_requests(path, &whole), c.written);
    assert_true(whole && c.written > 0);
    unlink(path);
}

/* How many lines have `text`? */
static unsigned lines_with(const char *path, const char *text)
{
    char line[1024];
    unsigned n = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

static void the_route_of_a_launch_is_in_its_stages(void **state)
{
    (void)state;
    char path[] = "/tmp/reduced-trace-XXXXXX", why[256];
    rd_record a = {.msg = RP_MSG_REDUCE,
                   .worked = true,
                   .op = RP_OP_SUM,
                   .dtype = RP_F32,
                   .start_ns = 1,
                   .received_ns = 10,
                   .stage_ns = {[RD_KERNEL] = 2, [RD_TOTAL] = 5}};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    rd_trace *t = rd_trace_open(path, 0, 1 << 20, why, sizeof why);
    assert_non_null(t);
    rd_trace_put(t, &a);
    a.route = "lane rows";
    rd_trace_put(t, &a);
    rd_trace_close(t);
    assert_int_equal(lines_with(path, "\"name\":\"kernel\""), 2);
    assert_int_equal(lines_with(path, "\"route\""), 2); /* of the second one: its queue and its kernel */
    assert_int_equal(lines_with(path, "\"route\":\"lane rows\""), 2);
    unlink(path);
}

static void a_trace_that_cannot_be_opened_says_why(void **state)
{
    (void)state;
    char why[256] = "";
    assert_null(rd_trace_open("/proc/nothing/here", 0, 1 << 20, why, sizeof why));
    assert_non_null(strstr(why, "/proc/nothing/here"));
    rd_trace_put(NULL, NULL); /* without a trace: nothing */
    rd_trace_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_is_written_or_counted),
        cmocka_unit_test(the_route_of_a_launch_is_in_its_stages),
        cmocka_unit_test(a_trace_that_cannot_be_opened_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
