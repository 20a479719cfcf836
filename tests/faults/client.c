/* libreduce while its calls fail, one at a time:  client URL FILE
 *
 * For n = 1, 2, ... the n-th call of calls.def that libreduce makes fails during a scenario of every kind of
 * call. Each call gives the right answer or an error with a text, and the scenario after it, without faults, is right
 * throughout. Ends when a scenario comes to its end before its fault. FILE has 1 MiB of f32, all 1. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/reduce.h"
#include "tests/faults/faults.h"

enum { BIG = 5 << 18, N = 1 << 18, SMALL = 500 }; /* elements: two messages, one, and a small one */

static float *ones;
static bool strict; /* no fault is injected: every call must succeed */
static unsigned errors;

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "%s: %s (after a fault in %s, call %llu)\n", what, detail, t_faults_page()->name,
            (unsigned long long)t_faults_page()->fail_at);
    exit(1);
}

/* An error must explain itself; a success must be right. */
static bool fine(int err, const char *what, const double *got, double want)
{
    if (err && (strict || err > 0 || !reduce_errmsg()[0]))
        die(what, reduce_errmsg());
    if (!err && got && *got != want)
        die(what, "a wrong answer");
    errors += err != 0;
    return !err;
}

static void whole_arrays(reduce_client *c, int fd)
{
    static const int paths[] = {REDUCE_PATH_INLINE, REDUCE_PATH_SHM};
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = REDUCE_SUM;
    s.dtype = REDUCE_F32;
    double sum = 0;
    fine(reduce_sum_f32(c, ones, SMALL, &sum), "small sum", &sum, SMALL);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        s.path = paths[i];
        fine(reduce_run(c, &s, ones, N * sizeof *ones, &sum, sizeof sum, NULL), "reduce_run", &sum, N);
    }
    s.path = REDUCE_PATH_AUTO;
    fine(reduce_run(c, &s, ones, BIG * sizeof *ones, &sum, sizeof sum, NULL), "reduce_run of much", &sum, BIG);
    fine(reduce_file(c, &s, fd, 0, N * sizeof *ones, &sum, sizeof sum, NULL), "reduce_file", &sum, N);
}

static void rows(reduce_client *c)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    double sums[SMALL];
    s.op = REDUCE_SUM;
    s.dtype = REDUCE_F32;
    s.rows = SMALL;
    if (fine(reduce_run(c, &s, ones, SMALL * 500 * sizeof *ones, sums, sizeof sums, NULL), "rows", NULL, 0))
        for (int i = 0; i < SMALL; i++)
            fine(0, "a row", &sums[i], 500);
}

static void streams(reduce_client *c)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    reduce_stream *t;
    double sum = 0;
    s.op = REDUCE_SUM;
    s.dtype = REDUCE_F32;
    if (!fine(reduce_stream_begin(c, &s, &t), "begin", NULL, 0))
        return;
    bool whole = true;
    for (int i = 0; i < 3; i++)
        whole = fine(reduce_stream_append(t, ones, SMALL * sizeof *ones), "append", NULL, 0) && whole;
    int err = reduce_stream_finish(t, &sum, sizeof sum, NULL);
    if (whole || strict)
        fine(err, "finish", &sum, 3 * SMALL);
}

static void jobs(reduce_client *c)
{
    reduce_spec s = REDUCE_SPEC_INIT;
    reduce_job *job[4];
    double sum[4] = {0};
    int fd;
    s.op = REDUCE_SUM;
    s.dtype = REDUCE_F32;
    fine(reduce_ended_fd(c, &fd), "ended_fd", NULL, 0);
    for (int i = 0; i < 4; i++)
        if (!fine(reduce_submit(c, &s, ones, N * sizeof *ones, &sum[i], sizeof sum[i], NULL, NULL, &job[i]), "submit", NULL, 0))
            job[i] = NULL;
    for (int i = 0; i < 4; i++) {
        if (job[i])
            fine(reduce_wait(job[i], UINT32_MAX, NULL), "wait", &sum[i], N);
        reduce_job_free(job[i]);
    }
}

static void own_memory(reduce_client *c)
{
    double sum = 0;
    void *memory;
    if (!fine(reduce_alloc(c, N * sizeof *ones, &memory), "alloc", NULL, 0))
        return;
    memcpy(memory, ones, N * sizeof *ones);
    fine(reduce_sum_f32(c, memory, N, &sum), "sum of allocated memory", &sum, N);
    reduce_free(c, memory);
}

static void resident(reduce_client *c)
{
    reduce_spec s = REDUCE_SPEC_INIT; /* the sum of f32 */
    reduce_resident r = REDUCE_RESIDENT_INIT;
    reduce_put_opts o = REDUCE_PUT_OPTS_INIT;
    double sum = 0;
    o.flags = REDUCE_REPLACE; /* one from a scenario with a fault may be there */
    if (!fine(reduce_put(c, "kept", REDUCE_F32, ones, N * sizeof *ones, &o), "put", NULL, 0))
        return;
    fine(reduce_named(c, &s, "kept", 0, REDUCE_REST, &sum, sizeof sum, NULL), "reduce_named", &sum, N);
    fine(reduce_find(c, "kept", &r), "find", NULL, 0);
    fine(reduce_drop(c, "kept"), "drop", NULL, 0);
}

/* What this process reduces itself: with helpers, and with a copy beside the mask. */
static void local(const char *url)
{
    reduce_client *c;
    reduce_open_opts o = REDUCE_OPEN_OPTS_INIT;
    reduce_spec s = REDUCE_SPEC_INIT; /* the sum of f32 */
    uint8_t mask[SMALL] = {1, 1, 1};
    double sum = 0;
    o.local = REDUCE_LOCAL_YES;
    if (!fine(reduce_open(&c, url, &o), "open", NULL, 0))
        return;
    s.path = REDUCE_PATH_LOCAL;
    fine(reduce_run(c, &s, ones, BIG * sizeof *ones, &sum, sizeof sum, NULL), "much here", &sum, BIG);
    s.mask = mask;
    fine(reduce_run(c, &s, ones, SMALL * sizeof *ones, &sum, sizeof sum, NULL), "with a mask here", &sum, 3);
    reduce_close(c);
}

static int ignore(void *arg, const reduce_entry *e)
{
    (void)arg;
    return e->key[0] == 0;
}

static void scenario(const char *url, int fd)
{
    reduce_client *c;
    reduce_open_opts o = REDUCE_OPEN_OPTS_INIT;
    o.timeout_ms = 60000;
    if (!fine(reduce_open(&c, url, &o), "open", NULL, 0))
        return;
    fine(reduce_ping(c, NULL), "ping", NULL, 0);
    fine(reduce_query(c, REDUCE_TOPIC_STATUS, ignore, NULL), "query", NULL, 0);
    whole_arrays(c, fd);
    rows(c);
    streams(c);
    jobs(c);
    own_memory(c);
    resident(c);
    reduce_close(c);
    local(url);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    t_faults *f = t_faults_page();
    int fd = open(argv[2], O_RDONLY | O_CLOEXEC);
    ones = malloc(BIG * sizeof *ones);
    if (fd < 0 || !ones)
        return 2;
    for (size_t i = 0; i < BIG; i++)
        ones[i] = 1;
    unsigned walked = 0;
    for (;; walked++) {
        strict = true;
        scenario(argv[1], fd);
        strict = false;
        atomic_store(&f->fired, 0);
        atomic_store(&f->fail_at, atomic_load(&f->calls) + walked + 1);
        scenario(argv[1], fd);
        atomic_store(&f->fail_at, 0);
        if (!atomic_load(&f->fired))
            break;
    }
    printf("%u faults walked, %u errors told\n", walked, errors);
    free(ones);
    close(fd);
    return walked ? 0 : 1;
}
