/* A CUDA program that lets the daemon reduce its memory on the GPU, where it lies: the example for reduce_device.
 *
 *     device URL CPU_URL RUNS
 *
 * First checks: the same bits as a daemon on CPU_URL gives for a copy in host memory; wrong handles and ranges refused. Then
 * it prints, for each of RUNS sums of 2^28 f32, the microseconds of the call and of the work on the GPU in it, one a line. */
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/reduce.h"

enum { CHECKED = 4 << 20, LARGE = 1 << 28 }; /* elements */
enum { ROOM = 1 << 20 };                     /* bytes for results */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "device: %s: %s\n", what, why);
    exit(1);
}

static void cuda(cudaError_t err, const char *what)
{
    if (err != cudaSuccess)
        die(what, cudaGetErrorString(err));
}

static void reduced(int err, const char *what)
{
    if (err)
        die(what, reduce_errmsg());
}

static void expect(int want, int got, const char *what)
{
    if (got != want)
        die(what, got ? reduce_errmsg() : "not refused");
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* An allocation on the device and the 64 bytes that another process opens it with. */
typedef struct {
    float *at;
    cudaIpcMemHandle_t handle;
} allocation;

static allocation allocate(size_t bytes)
{
    allocation a;
    cuda(cudaMalloc((void **)&a.at, bytes), "cudaMalloc");
    cuda(cudaIpcGetMemHandle(&a.handle, a.at), "cudaIpcGetMemHandle");
    return a;
}

/* What the daemon is to have done with it before it is freed. */
static void release(reduce_client *c, allocation *a)
{
    reduced(reduce_device_close(c, &a->handle), "reduce_device_close");
    cuda(cudaFree(a->at), "cudaFree");
}

/* Reduce elements first .. first + n on both sides. */
static void compare(reduce_client *gpu, reduce_client *cpu, const allocation *a, const float *copy, int op, uint64_t rows,
                    uint32_t flags, size_t first, size_t n)
{
    static char here[ROOM], there[ROOM];
    reduce_result result = REDUCE_RESULT_INIT;
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = op;
    s.dtype = REDUCE_F32;
    s.rows = rows;
    s.flags = flags;
    reduced(reduce_device(gpu, &s, &a->handle, first * sizeof(float), n * sizeof(float), here, sizeof here, &result),
            reduce_op_name(op));
    if (result.path != REDUCE_PATH_DEVICE || result.count != n)
        die(reduce_op_name(op), "another path, or another count");
    reduced(reduce_run(cpu, &s, copy + first, n * sizeof(float), there, sizeof there, NULL), "on the CPU");
    if (memcmp(here, there, result.cells * result.cell_size))
        die(reduce_op_name(op), "other bits than on the CPU");
}

/* `other`: a second client of the daemon of `gpu`. */
static void check(reduce_client *gpu, reduce_client *other, reduce_client *cpu)
{
    static const int ops[] = {REDUCE_SUM, REDUCE_MAX, REDUCE_ARGMIN, REDUCE_STD, REDUCE_STATS, REDUCE_COUNT_NONZERO};
    const size_t bytes = CHECKED * sizeof(float);
    allocation a = allocate(bytes);
    float *copy = malloc(bytes);
    uint32_t random = 12345;
    double cell;
    for (size_t i = 0; copy && i < CHECKED; i++) {
        random = random * 1664525u + 1013904223u;
        copy[i] = (float)(int32_t)random * (i % 1000 ? 1e-9f : 1e20f);
    }
    if (!copy)
        die("malloc", "no memory");
    cuda(cudaMemcpy(a.at, copy, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        compare(gpu, cpu, &a, copy, ops[i], 1, 0, 0, CHECKED);
        compare(gpu, cpu, &a, copy, ops[i], 1, 0, 3, CHECKED - 1000);
        compare(gpu, cpu, &a, copy, ops[i], 1024, 0, 0, CHECKED);
        compare(gpu, cpu, &a, copy, ops[i], 4096, REDUCE_COLUMNS, 1, CHECKED / 2);
    }
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = REDUCE_SUM;
    s.dtype = REDUCE_F32;
    expect(REDUCE_E_SHAPE, reduce_device(gpu, &s, &a.handle, 1ull << 40, 4, &cell, sizeof cell, NULL), "beyond the end");
    expect(REDUCE_E_SHAPE, reduce_device(gpu, &s, &a.handle, 2, 4, &cell, sizeof cell, NULL), "within an element");
    cudaIpcMemHandle_t wrong;
    memset(&wrong, 0x5a, sizeof wrong);
    expect(REDUCE_E_BAD_HANDLE, reduce_device(gpu, &s, &wrong, 0, 4, &cell, sizeof cell, NULL), "a made-up handle");
    s.op = REDUCE_PROD; /* the fault is that of the row */
    s.dtype = REDUCE_I32;
    s.rows = 16;
    double many[16];
    expect(REDUCE_E_OVERFLOW, reduce_device(gpu, &s, &a.handle, 0, bytes, many, sizeof many, NULL), "a product");
    compare(other, cpu, &a, copy, REDUCE_SUM, 1, 0, 0, CHECKED);
    reduced(reduce_device_close(gpu, &a.handle), "reduce_device_close");
    compare(other, cpu, &a, copy, REDUCE_SUM, 1, 0, 1, CHECKED - 1); /* which keeps it open */
    release(other, &a);
    free(copy);
}

static void measure(reduce_client *c, int runs)
{
    const size_t bytes = LARGE * sizeof(float);
    allocation a = allocate(bytes);
    reduce_result result = REDUCE_RESULT_INIT;
    reduce_spec s = REDUCE_SPEC_INIT;
    double sum;
    s.op = REDUCE_SUM;
    s.dtype = REDUCE_F32;
    s.out = REDUCE_F64;
    cuda(cudaMemset(a.at, 0x3f, bytes), "cudaMemset"); /* elements 0x3f3f3f3f = 12533567 * 2^-24 */
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); /* before the daemon looks at it */
    for (int i = -3; i < runs; i++) { /* the first ones open it and warm up */
        double begin = now_us();
        reduced(reduce_device(c, &s, &a.handle, 0, bytes, &sum, sizeof sum, &result), "sum");
        double wall = now_us() - begin;
        if (sum != 12533567.0 * (1 << 4))
            die("sum", "not what the elements add up to");
        if (i >= 0)
            printf("%.1f %.1f\n", wall, (double)(result.copy_ns + result.compute_ns) / 1e3);
    }
    release(c, &a);
}

int main(int argc, char **argv)
{
    reduce_client *gpu, *other, *cpu;
    if (argc != 4)
        die("usage", "device URL CPU_URL RUNS");
    reduced(reduce_open(&gpu, argv[1], NULL), argv[1]);
    reduced(reduce_open(&other, argv[1], NULL), argv[1]);
    reduced(reduce_open(&cpu, argv[2], NULL), argv[2]);
    check(gpu, other, cpu);
    measure(gpu, atoi(argv[3]));
    reduce_close(gpu);
    reduce_close(other);
    reduce_close(cpu);
    return 0;
}
