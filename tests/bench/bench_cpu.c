/* How fast the CPU engine is: exact sums beside a plain vector sum of the same build, other operations beside sums or integers,
 * and the cost of one small task. Prints GB/s and ns; what has a peer also as a JSON object a line, for tests/bench/run.py.
 * Usage: bench_cpu [THREADS [FILE]] */
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
#define PLAIN(NAME, T)                                                                                        \
    __attribute__((target_clones("avx512f", "avx2", "default"))) double NAME(const void *data, size_t bytes); \
    __attribute__((target_clones("avx512f", "avx2", "default"))) double NAME(const void *data, size_t bytes)  \
    {                                                                                                         \
        typedef T vec __attribute__((vector_size(64)));                                                       \
        typedef T vec_loose __attribute__((vector_size(64), aligned(1), may_alias));                          \
        const char *p = data;                                                                                 \
        vec s[8] = {{0}};                                                                                     \
        for (size_t i = 0; i + 512 <= bytes; i += 512)                                                        \
            for (int u = 0; u < 8; u++) {                                                                     \
                __builtin_prefetch(p + i + u * 64 + 4096);                                                    \
                s[u] += *(const vec_loose *)(const void *)(p + i + u * 64);                                   \
            }                                                                                                 \
        double total = 0;                                                                                     \
        for (int u = 0; u < 8; u++)                                                                           \
            for (size_t j = 0; j < 64 / sizeof(T); j++)                                                       \
                total += s[u][j];                                                                             \
        return total;                                                                                         \
    }
PLAIN(plain_f32, float)
PLAIN(plain_f64, double)

/* ---- timing: every thread does its share of the data, again and again ---- */
typedef struct what {
    const char *who;
    int op, dtype;
    bool plain;
} what;

typedef struct share {
    const char *data;
    size_t bytes;
    what w;
    int rounds;
    pthread_barrier_t *start;
    uint64_t begin, end;
    double sink;
} share;

static void once(share *s)
{
    const int dtype = s->w.dtype;
    if (s->w.plain) {
        s->sink += dtype == RP_F64 ? plain_f64(s->data, s->bytes) : plain_f32(s->data, s->bytes);
        return;
    }
    rk_state state;
    rk_state_init(&state, rp_state_layout(s->w.op, dtype), dtype);
    if (s->w.op == RP_OP_SUM) { /* as the engine sums; without its result, whose cost does not depend on the size */
        double neglected;
        rk_simd_best()->near_sum[dtype](&state, s->data, s->bytes / rp_dtype_size(dtype), RP_NAN_PROPAGATE, &neglected);
        s->sink += (double)state.limb[0] + neglected;
        return;
    }
    rk_simd_best()->reduce[state.layout][dtype](&state, s->data, s->bytes / rp_dtype_size(dtype), 0, 0);
    s->sink += (double)state.limb[0];
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

static double gbps(const char *data, size_t bytes, what w, int threads)
{
    pthread_barrier_t start;
    pthread_t t[64];
    share s[64];
    int rounds = (int)((512u << 20) / bytes);
    rounds = rounds < 1 ? 1 : rounds;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        s[i] = (share){data + bytes / (size_t)threads * (size_t)i, bytes / (size_t)threads, w, rounds, &start, 0, 0, 0};
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

enum { SAMPLES = 7 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Rates of a peer and of what is compared with it, in order. In turn, so that a change of the machine's load affects both. */
static void sample(const char *data, size_t bytes, const what pair[2], int threads, double rates[2][SAMPLES])
{
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < 2; k++)
            rates[k][i] = gbps(data, bytes, pair[k], threads);
    for (int k = 0; k < 2; k++)
        qsort(rates[k], SAMPLES, sizeof(double), by_value);
}

static void compare(FILE *json, const char *data, size_t bytes, const what pair[2], const char *kind, int threads)
{
    double rates[2][SAMPLES];
    char name[64], size[16];
    sample(data, bytes, pair, threads, rates);
    snprintf(size, sizeof size, bytes >> 20 ? "%zu MiB" : "%zu KiB", bytes >> 20 ? bytes >> 20 : bytes >> 10);
    snprintf(name, sizeof name, "cpu %s %s %s %s, %s", rp_op_name(pair[1].op), rp_dtype_name(pair[1].dtype), kind, size,
             threads > 1 ? "all threads" : "1 thread");
    double peer = rates[0][SAMPLES / 2], ours = rates[1][SAMPLES / 2];
    printf("%-48s %-8s %6.1f GB/s, ours %6.1f GB/s, ratio %.2f\n", name, pair[0].who, peer, ours, ours / peer);
    fflush(stdout);
    for (int k = 0; json && k < 2; k++)
        fprintf(json,
                "{\"group\": \"cpu\", \"case\": \"%s\", \"who\": \"%s\", \"unit\": \"GB/s\", \"median\": %.3f, "
                "\"low\": %.3f, \"high\": %.3f, \"runs\": %d}\n",
                name, pair[k].who, rates[k][SAMPLES / 2], rates[k][0], rates[k][SAMPLES - 1], SAMPLES);
}

enum { MOST_BYTES = 1 << 30 };

static void fill_all(char *data, int dtype, int kind)
{
    const size_t made = 64 << 20; /* and repeated */
    fill(data, dtype, made / rp_dtype_size(dtype), kind);
    for (size_t at = made; at < MOST_BYTES; at += made)
        memcpy(data + at, data, made);
}

static void bench_sums(char *data, int most_threads, FILE *json)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, MOST_BYTES};
    for (int dtype = RP_F32; dtype <= RP_F64; dtype++)
        for (int kind = NORMAL; kind <= FULL_RANGE; kind++) {
            const what pair[2] = {{"plain", RP_OP_SUM, dtype, true}, {"reduced", RP_OP_SUM, dtype, false}};
            fill_all(data, dtype, kind);
            for (int threads = 1; threads <= most_threads; threads += most_threads > 1 ? most_threads - 1 : 1)
                for (int i = 0; i < 3; i++)
                    compare(json, data, sizes[i], pair, kind ? "full-range" : "normal", threads);
        }
}

/* Beside sums, and extremes beside those of integers. */
static void bench_beside(char *data, int threads, FILE *json)
{
    const what sum = {"sum", RP_OP_SUM, RP_F32, false}, i32 = {"i32", RP_OP_MAX, RP_I32, false};
    fill_all(data, RP_F32, NORMAL);
    for (int k = 0; k < 2; k++) {
        const what moments[2] = {sum, {"reduced", k ? RP_OP_STATS : RP_OP_VAR, RP_F32, false}};
        const what end[2] = {i32, {"reduced", k ? RP_OP_MIN : RP_OP_MAX, RP_F32, false}};
        compare(json, data, 1 << 20, moments, "normal", 1);
        compare(json, data, MOST_BYTES, moments, "normal", threads);
        compare(json, data, 64 << 10, end, "normal", 1);
        compare(json, data, 1 << 20, end, "normal", 1);
    }
}

/* One op of every layout; NaNs are looked for. */
static void bench_other(void)
{
    enum { BYTES = 1 << 20 };
    static const int ops[] = {RP_OP_SUM,           RP_OP_NORM1,     RP_OP_SUMSQ,  RP_OP_VAR,    RP_OP_STATS,
                              RP_OP_PROD,          RP_OP_MIN,       RP_OP_ARGMAX, RP_OP_MINMAX, RP_OP_NORMINF,
                              RP_OP_COUNT_NONZERO, RP_OP_COUNT_NAN, RP_OP_AND};
    static uint64_t whole[BYTES / 8];
    char *real = malloc(BYTES);
    for (size_t i = 0; i < BYTES / 8; i++)
        whole[i] = (next() & 0x3f3f3f3f3f3f3f3f) | 0x2001200120012001; /* no type's extremes */
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) {
        printf("%-13s 1 MiB, GB/s:", rp_op_name(ops[k]));
        for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++) {
            int layout = rp_state_layout(ops[k], dtype);
            rk_reduce_fn *reduce = rk_simd_best()->reduce[layout][dtype];
            uint64_t least = UINT64_MAX;
            if (dtype == RP_F32 || dtype == RP_F64)
                fill(real, dtype, BYTES / rp_dtype_size(dtype), NORMAL);
            const void *data = dtype == RP_F32 || dtype == RP_F64 ? (const void *)real : whole;
            for (int i = 0; reduce && i < 30; i++) {
                rk_state s;
                rk_state_init(&s, layout, dtype);
                uint64_t begin = rk_now_ns();
                reduce(&s, data, BYTES / rp_dtype_size(dtype), 0, RP_NAN_OMIT);
                uint64_t ns = rk_now_ns() - begin;
                least = ns < least ? ns : least;
            }
            if (reduce)
                printf(" %s %.1f", rp_dtype_name(dtype), BYTES / (double)least);
        }
        printf("\n");
    }
    free(real);
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
            rk_task t = {.spec = {.op = RP_OP_SUM, .dtype = (uint8_t)dtype, .out = RP_F64, .rows = 1, .row_len = lengths[k]},
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
    FILE *json = argc > 2 ? fopen(argv[2], "w") : NULL;
    if (argc > 2 && !json) {
        perror(argv[2]);
        return 1;
    }
    char *data = malloc(MOST_BYTES);
    bench_sums(data, threads, json);
    bench_beside(data, threads, json);
    free(data);
    return json && fclose(json) ? 1 : 0;
}
