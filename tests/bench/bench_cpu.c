/* How fast the CPU engine is: exact sums beside a plain vector sum of the same build, and the cost of one small task.
 * Prints GB/s (best of several runs) and ns. Usage: bench_cpu [THREADS] */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"

/* ---- data ---- */
enum { NORMAL, FULL_RANGE };

static uint64_t seed = 88172645463325252u;
static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void fill(void *data, int dtype, size_t n, int kind)
{
    int range = dtype == RP_F64 ? 2000 : 250;
    for (size_t i = 0; i < n; i++) {
        double u = ((double)(next() >> 11) + 1) * 0x1p-53, angle = (double)(next() >> 11) * 0x1p-53;
        double v = kind == NORMAL ? sqrt(-2 * log(u)) * cos(6.283185307179586 * angle)
                                  : ldexp(u, (int)(next() % (unsigned)range) - range / 2);
        if (dtype == RP_F64)
            ((double *)data)[i] = v;
        else
            ((float *)data)[i] = (float)v;
    }
}

/* ---- the plain sum: eight vector accumulators, in 512-bit registers if there are any ---- */
#define PLAIN(NAME, T)                                                                               \
    __attribute__((target_clones("avx512f", "avx2", "default"))) double NAME(const void *data, size_t bytes); \
    __attribute__((target_clones("avx512f", "avx2", "default"))) double NAME(const void *data, size_t bytes)  \
    {                                                                                                \
        typedef T vec __attribute__((vector_size(64)));                                              \
        typedef T vec_loose __attribute__((vector_size(64), aligned(1), may_alias));                 \
        const char *p = data;                                                                        \
        vec s[8] = {{0}};                                                                            \
        for (size_t i = 0; i + 512 <= bytes; i += 512)                                               \
            for (int u = 0; u < 8; u++) {                                                            \
                __builtin_prefetch(p + i + u * 64 + 4096);                                           \
                s[u] += *(const vec_loose *)(const void *)(p + i + u * 64);                          \
            }                                                                                        \
        double total = 0;                                                                            \
        for (int u = 0; u < 8; u++)                                                                  \
            for (size_t j = 0; j < 64 / sizeof(T); j++)                                              \
                total += s[u][j];                                                                    \
        return total;                                                                                \
    }
PLAIN(plain_f32, float)
PLAIN(plain_f64, double)

/* ---- timing: every thread does its share of the data, again and again ---- */
typedef struct share {
    const char *data;
    size_t bytes;
    int dtype, rounds;
    bool exact;
    pthread_barrier_t *start;
    uint64_t begin, end;
    double sink;
} share;

static void once(share *s)
{
    if (!s->exact) {
        s->sink += s->dtype == RP_F64 ? plain_f64(s->data, s->bytes) : plain_f32(s->data, s->bytes);
        return;
    }
    rk_state state;
    rk_state_init(&state, rp_state_layout(RP_OP_SUM, s->dtype), s->dtype);
    rk_simd_best()->reduce[RP_OP_SUM][s->dtype](&state, s->data, s->bytes / rp_dtype_size(s->dtype), 0, 0);
    s->sink += (double)state.limb[2];
}

static void *work(void *arg)
{
    share *s = arg;
    once(s);
    pthread_barrier_wait(s->start);
    s->begin = rk_now_ns();
    for (int i = 0; i < s->rounds; i++)
        once(s);
    s->end = rk_now_ns();
    return NULL;
}

static double gbps(const char *data, size_t bytes, int dtype, bool exact, int threads)
{
    pthread_barrier_t start;
    pthread_t t[64];
    share s[64];
    int rounds = (int)((512u << 20) / bytes);
    rounds = rounds < 1 ? 1 : rounds;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        s[i] = (share){
            data + bytes / (size_t)threads * (size_t)i, bytes / (size_t)threads, dtype, rounds, exact, &start, 0, 0, 0};
        pthread_create(&t[i], NULL, work, &s[i]);
    }
    uint64_t begin = UINT64_MAX, end = 0;
    for (int i = 0; i < threads; i++) {
        pthread_join(t[i], NULL);
        begin = s[i].begin < begin ? s[i].begin : begin;
        end = s[i].end > end ? s[i].end : end;
    }
    pthread_barrier_destroy(&start);
    return (double)bytes * rounds / (double)(end - begin);
}

/* Both kinds in turn, so that a change of the machine's mood hits both. */
static void best(const char *data, size_t bytes, int dtype, int threads, double most[2])
{
    most[0] = most[1] = 0;
    for (int i = 0; i < 14; i++) {
        double g = gbps(data, bytes, dtype, i % 2, threads);
        most[i % 2] = g > most[i % 2] ? g : most[i % 2];
    }
}

static void bench_sums(int most_threads)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, 256 << 20};
    char *data = malloc(256 << 20);
    for (int dtype = RP_F32; dtype <= RP_F64; dtype++)
        for (int kind = NORMAL; kind <= FULL_RANGE; kind++) {
            fill(data, dtype, (256u << 20) / rp_dtype_size(dtype), kind);
            for (int threads = 1; threads <= most_threads; threads += most_threads > 1 ? most_threads - 1 : 1)
                for (int i = 0; i < 3; i++) {
                    double g[2];
                    best(data, sizes[i], dtype, threads, g);
                    printf("sum %s %-10s %7zu KiB %2d threads: plain %6.1f GB/s, exact %6.1f GB/s, ratio %.2f\n",
                           rp_dtype_name(dtype), kind ? "full range" : "normal", sizes[i] >> 10, threads, g[0], g[1],
                           g[1] / g[0]);
                }
        }
    free(data);
}

static void bench_other(void)
{
    enum { BYTES = 1 << 20 };
    char *data = malloc(BYTES);
    for (size_t i = 0; i < BYTES; i += 8)
        memcpy(data + i, &(uint64_t){(next() & 0x3f3f3f3f3f3f3f3f) | 0x2001200120012001}, 8); /* no type's extremes */
    for (int op = RP_OP_SUM; op <= RP_OP_COUNT_NONZERO; op++) {
        printf("%-13s 1 MiB, GB/s:", rp_op_name(op));
        for (int dtype = RP_I8; dtype <= RP_F64; dtype++) {
            uint64_t least = UINT64_MAX;
            for (int i = 0; i < 30; i++) {
                rk_state s;
                rk_state_init(&s, rp_state_layout(op, dtype), dtype);
                uint64_t begin = rk_now_ns();
                rk_simd_best()->reduce[op][dtype](&s, data, BYTES / rp_dtype_size(dtype), 0, RP_NAN_OMIT);
                uint64_t ns = rk_now_ns() - begin;
                least = ns < least ? ns : least;
            }
            printf(" %s %.1f", rp_dtype_name(dtype), BYTES / (double)least);
        }
        printf("\n");
    }
    free(data);
}

static void bench_small(void)
{
    static const uint64_t lengths[] = {0, 1, 8, 64, 512, 4096};
    static double data[4096];
    for (int dtype = RP_F32; dtype <= RP_F64; dtype++)
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
            enum { ROUNDS = 20000 };
            double cell;
            fill(data, dtype, lengths[k], NORMAL);
            rk_task t = {
                .spec = {.op = RP_OP_SUM, .dtype = (uint8_t)dtype, .out = RP_F64, .rows = 1, .row_len = lengths[k]},
                .data = data,
                .bytes = lengths[k] * rp_dtype_size(dtype),
                .cells = &cell};
            uint64_t begin = rk_now_ns();
            for (int i = 0; i < ROUNDS; i++)
                rk_cpu_run(&t);
            printf("rk_cpu_run sum of %4llu %s: %.0f ns\n", (unsigned long long)lengths[k], rp_dtype_name(dtype),
                   (double)(rk_now_ns() - begin) / ROUNDS);
        }
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    threads = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    printf("code: %s, %d threads\n", rk_simd_best()->name, threads);
    bench_small();
    bench_other();
    bench_sums(threads);
    return 0;
}
