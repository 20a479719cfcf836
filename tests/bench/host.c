/* A program that has its data in memory and asks the daemon for the sum: tests/bench/host_path.py runs it.
 *
 *     host URL BYTES RUNS [alloc]   prints the microseconds of each sum of that many bytes of f32, one a line;
 *                                   alloc: they are in memory of reduce_alloc */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

int main(int argc, char **argv)
{
    reduce_client *c;
    double sum, want = 0;
    bool alloc = argc == 5 && strcmp(argv[4], "alloc") == 0;
    if (argc != 4 && !alloc)
        die("usage: host URL BYTES RUNS [alloc]");
    size_t n = strtoull(argv[2], NULL, 10) / sizeof(float);
    if (reduce_open(&c, argv[1], NULL))
        die(reduce_errmsg());
    void *memory = NULL;
    if (alloc ? reduce_alloc(c, n * sizeof(float), &memory) : !(memory = malloc(n * sizeof(float))))
        die(alloc ? reduce_errmsg() : "no memory");
    float *x = memory;
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(i % 16);
        want += x[i];
    }
    for (int i = -1, runs = atoi(argv[3]); i < runs; i++) { /* the first run warms up */
        double begin = now_us();
        if (reduce_sum_f32(c, x, n, &sum))
            die(reduce_errmsg());
        if (i >= 0)
            printf("%.3f\n", now_us() - begin);
        if (sum != want)
            die("wrong sum");
    }
    if (!alloc)
        free(x);
    reduce_close(c);
    return 0;
}
