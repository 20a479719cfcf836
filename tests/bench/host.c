/* A program that has its data in memory and asks the daemon for the sum: tests/bench/host_path.py runs it.
 *
 *     host URL BYTES RUNS [alloc|resident|PATH]  prints the microseconds of each sum of that many bytes of f32, one a line;
 *                                                alloc: they are in memory of reduce_alloc; resident: put before, and
 *                                                behind the microseconds come those in which the daemon computed;
 *                                                PATH: in a file, whose elements are 0 to 15, over and over */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/reduce.h"

static void die(const char *why)
{
    fprintf(stderr, "host: %s\n", why);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

typedef enum { PLAIN, ALLOC, RESIDENT, FILED } place;

static const char name[] = "tests-bench-host"; /* of the resident data */

static place take_place(int argc, char **argv)
{
    if (argc == 4)
        return PLAIN;
    if (argc == 5 && strcmp(argv[4], "alloc") == 0)
        return ALLOC;
    if (argc != 5)
        die("usage: host URL BYTES RUNS [alloc|resident|PATH]");
    return strcmp(argv[4], "resident") == 0 ? RESIDENT : FILED;
}

static float *get_memory(reduce_client *c, place where, size_t bytes)
{
    void *memory = where == ALLOC ? NULL : malloc(bytes);
    if (where == ALLOC && reduce_alloc(c, bytes, &memory))
        die(reduce_errmsg());
    if (!memory)
        die("no memory");
    return memory;
}

/* The sum, and the microseconds in which the daemon computed, told of resident data only. */
static double sum_of(reduce_client *c, place where, const float *x, size_t n, double *compute_us)
{
    double sum;
    reduce_spec spec = REDUCE_SPEC_INIT; /* of f32 */
    reduce_result r = REDUCE_RESULT_INIT;
    if (where == RESIDENT ? reduce_named(c, &spec, name, 0, REDUCE_REST, &sum, sizeof sum, &r) : reduce_sum_f32(c, x, n, &sum))
        die(reduce_errmsg());
    *compute_us = (double)r.compute_ns / 1e3;
    return sum;
}

static void put(reduce_client *c, const float *x, size_t n)
{
    reduce_put_opts o = REDUCE_PUT_OPTS_INIT;
    o.flags = REDUCE_REPLACE;
    if (reduce_put(c, name, REDUCE_F32, x, n * sizeof *x, &o))
        die(reduce_errmsg());
}

/* A file of 0 to 15, over and over. */
static void sum_file(reduce_client *c, const char *path, size_t n, int runs)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const reduce_spec spec = REDUCE_SPEC_INIT; /* of f32 */
    for (int i = -1; i < runs; i++) {
        double sum, begin = now_us();
        if (reduce_file(c, &spec, fd, 0, n * sizeof(float), &sum, sizeof sum, NULL))
            die(reduce_errmsg());
        if (i >= 0)
            printf("%.3f\n", now_us() - begin);
        if (sum != 7.5 * (double)n)
            die("wrong sum");
    }
    close(fd);
}

int main(int argc, char **argv)
{
    reduce_client *c;
    double want = 0, compute_us;
    place where = take_place(argc, argv);
    size_t n = strtoull(argv[2], NULL, 10) / sizeof(float);
    if (reduce_open(&c, argv[1], NULL))
        die(reduce_errmsg());
    if (where == FILED) {
        sum_file(c, argv[4], n, atoi(argv[3]));
        reduce_close(c);
        return 0;
    }
    float *x = get_memory(c, where, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(i % 16);
        want += x[i];
    }
    if (where == RESIDENT)
        put(c, x, n);
    for (int i = -1, runs = atoi(argv[3]); i < runs; i++) { /* the first run warms up */
        double begin = now_us(), sum = sum_of(c, where, x, n, &compute_us), us = now_us() - begin;
        if (i >= 0 && where == RESIDENT)
            printf("%.3f %.3f\n", us, compute_us);
        else if (i >= 0)
            printf("%.3f\n", us);
        if (sum != want)
            die("wrong sum");
    }
    if (where == RESIDENT && reduce_drop(c, name))
        die(reduce_errmsg());
    if (where != ALLOC)
        free(x);
    reduce_close(c);
    return 0;
}
