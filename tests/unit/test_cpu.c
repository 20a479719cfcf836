/* The CPU engine against the slow oracle: every op, type and NaN policy, all instruction sets, every cut, rows,
 * threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "kernels/cpu/cpu.h"
#include "kernels/exact/log2.h"
#include "tests/unit/oracle.h"
#include "tests/unit/sanitized.h"

/* One op of every layout of states */
static const int ops[] = {RP_OP_SUM,       RP_OP_MIN,    RP_OP_MAX,   RP_OP_ARGMIN, RP_OP_ARGMAX,  RP_OP_COUNT_NONZERO,
                          RP_OP_PROD,      RP_OP_MINMAX, RP_OP_SUMSQ, RP_OP_NORM1,  RP_OP_NORMINF, RP_OP_VAR,
                          RP_OP_COUNT_NAN, RP_OP_AND,    RP_OP_OR,    RP_OP_XOR,    RP_OP_STATS};
enum { OPS = sizeof ops / sizeof ops[0] };

static bool defined(int op, int dtype) { return !rk_is_float(dtype) || (op != RP_OP_AND && op != RP_OP_OR && op != RP_OP_XOR); }

#define EACH_TYPE(dtype, nan)                                 \
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++) \
        for (int nan = 0; nan <= (rk_is_float(dtype) ? RP_NAN_ERROR : 0); nan++)
#define EACH_KIND(op, dtype, nan)                                     \
    EACH_TYPE (dtype, nan)                                            \
        for (int k_ = 0, op = ops[0]; k_ < OPS; op = ops[++k_ % OPS]) \
            if (defined(op, dtype))

/* ---- helpers ---- */

static void print_state(const char *label, const rk_state *s)
{
    print_error("  %s special %u nz %u skipped %u count %llu:", label, s->special, s->nz, s->skipped,
                (unsigned long long)s->count);
    for (int i = 0; i < rk_limbs(s->layout); i++)
        if (s->limb[i])
            print_error(" [%d]%llx", i, (unsigned long long)s->limb[i]);
    print_error("\n");
}

/* `what` holds what repeats the case: families and lengths follow from fixed seeds. */
static void expect_state(const rk_state *got, const rk_state *want, const char *what, int op, int dtype, int nan, uint64_t n)
{
    if (memcmp(got, want, rp_state_size(want->layout)) == 0)
        return;
    print_error("%s: %s of %llu %s, policy %s\n", what, rp_op_name(op), (unsigned long long)n, rp_dtype_name(dtype),
                rp_nan_name(nan));
    print_state("got ", got);
    print_state("want", want);
    fail();
}

/* The state of n elements: by the table's loop or, without a table, one element at a time. */
static rk_state reduce(const rk_simd *simd, int op, int dtype, int nan, const void *x, uint64_t n, uint64_t index)
{
    rk_state s;
    rk_state_init(&s, rp_state_layout(op, dtype), dtype);
    if (simd) {
        simd->reduce[s.layout][dtype](&s, x, n, index, nan);
        return s;
    }
    size_t size = rp_dtype_size(dtype);
    for (uint64_t i = 0; i < n; i++)
        rk_state_add(&s, t_bits(dtype, (const uint8_t *)x + i * size), index + i, nan);
    return s;
}

/* With room to start anywhere in the first bytes. */
static uint8_t *memory(size_t bytes)
{
    uint8_t *p = malloc(bytes + 64);
    assert_non_null(p);
    return p;
}

/* ---- loops, and adding element by element ---- */

static void check_op(const t_facts *facts, int op, const void *x, uint64_t n, const char *what, uint64_t seed)
{
    rk_state want = t_state_of(facts, op);
    for (int k = 0; k <= rk_simd_count; k++) {
        const rk_simd *simd = k < rk_simd_count ? rk_simds[k] : NULL;
        if (simd && !rk_simd_runs(simd))
            continue;
        rk_state got = reduce(simd, op, facts->dtype, facts->nan, x, n, 1000);
        char text[80];
        snprintf(text, sizeof text, "%s, %s, seed or family %llu", simd ? simd->name : "one by one", what,
                 (unsigned long long)seed);
        expect_state(&got, &want, text, op, facts->dtype, facts->nan, n);
    }
}

static void check_ops(int dtype, int nan, const void *x, uint64_t n, const char *what, uint64_t seed)
{
    t_facts facts = t_facts_of(dtype, nan, (t_line){x, NULL, n, 1, 1000});
    for (int k = 0; k < OPS; k++)
        if (defined(ops[k], dtype))
            check_op(&facts, ops[k], x, n, what, seed);
}

static void check_sums(int dtype, int nan, const void *x, uint64_t n, const char *what, uint64_t seed)
{
    static const int sums[] = {RP_OP_SUM, RP_OP_SUMSQ, RP_OP_NORM1, RP_OP_VAR, RP_OP_STATS};
    t_facts facts = t_facts_of(dtype, nan, (t_line){x, NULL, n, 1, 1000});
    for (size_t k = 0; k < sizeof sums / sizeof sums[0]; k++)
        check_op(&facts, sums[k], x, n, what, seed);
}

static void test_every_length(void **state)
{
    (void)state;
    uint8_t *x = memory(8 * 300);
    EACH_TYPE (dtype, nan) {
        t_rng r = {42 + (uint64_t)(dtype * 3 + nan)};
        for (uint64_t n = 0; n <= 300; n += n < 150 ? 1 : 7) {
            uint64_t family = t_below(&r, T_FAMILIES);
            uint8_t *p = x + t_below(&r, 9); /* any alignment */
            t_fill(&r, dtype, (int)family, p, n);
            check_ops(dtype, nan, p, n, "every length", family);
        }
    }
    free(x);
}

static void test_every_family(void **state)
{
    (void)state;
    enum { MOST = 9000 };
    uint8_t *x = memory(8 * MOST);
    EACH_TYPE (dtype, nan) {
        t_rng r = {7 + (uint64_t)(dtype * 3 + nan)};
        for (uint64_t family = 0; family < T_FAMILIES; family++) {
            uint64_t n = 2048 + t_below(&r, family % 3 ? 2100 : MOST - 2048);
            uint8_t *p = x + t_below(&r, 9);
            t_fill(&r, dtype, (int)family, p, n);
            check_ops(dtype, nan, p, n, "every family", family);
        }
    }
    free(x);
}

/* Blocks of different families one after the other: guesses of the next block's exponent are wrong then. */
static void test_changing_data(void **state)
{
    (void)state;
    enum { MOST = 30000 };
    uint8_t *x = memory(8 * MOST);
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
        for (uint64_t seed = 1; seed <= 8; seed++) {
            t_rng r = {seed};
            size_t size = rp_dtype_size(dtype);
            for (uint64_t n = 0; n < MOST;) {
                uint64_t some = 1 + t_below(&r, 6000);
                if (some > MOST - n)
                    some = MOST - n;
                t_fill(&r, dtype, (int)t_below(&r, T_FAMILIES), x + n * size, some);
                n += some;
            }
            check_sums(dtype, (int)(seed % 2), x, MOST, "changing families", seed);
        }
    free(x);
}

/* The sign of a zero sum hangs on every single element, NaNs that are skipped left out. */
static void test_one_positive_zero(void **state)
{
    (void)state;
    enum { N = 9000 };
    uint8_t *x = memory(8 * N);
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
        for (uint64_t at = 0; at <= N; at += 600) { /* at N: nowhere */
            size_t size = rp_dtype_size(dtype);
            for (uint64_t i = 0; i < N; i++)
                t_store(dtype, x + i * size, i == at ? 0.0 : -0.0);
            check_sums(dtype, RP_NAN_PROPAGATE, x, N, "one positive zero", at);
            for (uint64_t i = 5; i < N; i += 100)
                if (i != at)
                    t_store(dtype, x + i * size, NAN);
            check_sums(dtype, RP_NAN_OMIT, x, N, "one positive zero and NaNs", at);
        }
    free(x);
}

/* Squares as large as a lane may sum, beside the smallest one that still fits. */
static void test_full_square_lanes(void **state)
{
    (void)state;
    enum { N = 4096 };
    static float x[N];
    for (int span = 15; span <= 25; span++) {
        for (int i = 0; i < N; i++)
            x[i] = i == 77 ? ldexpf(1, -span) : 0x1.fffffep0f;
        check_sums(RP_F32, 0, x, N, "full square lanes", (uint64_t)span);
    }
}

/* The logarithm of each significand of f32, by every instruction set. */
static void test_every_logarithm(void **state)
{
    (void)state;
    enum { N = 4096 };
    static uint32_t x[N];
    for (uint32_t first = 0x3f800000; first < 0x40000000; first += N) {
        uint64_t want[3] = {0};
        for (uint32_t i = 0; i < N; i++) {
            x[i] = first + i;
            rk_log2_add(want, rk_format_of(RP_F32), x[i]);
        }
        for (int k = 0; k < rk_simd_count; k++)
            if (rk_simd_runs(rk_simds[k])) {
                rk_state s = reduce(rk_simds[k], RP_OP_PROD, RP_F32, 0, x, N, 0);
                assert_memory_equal(s.limb, want, sizeof want);
            }
    }
}

/* After a block that sets the lanes' anchor: an element that only just fits beside it, elements of another size, sums of
 * zero, negative zeros alone, and one infinity or NaN. */
static void test_blocks_behind_an_anchor(void **state)
{
    (void)state;
    enum { BLOCK = 4096, N = 5 * BLOCK };
    uint8_t *x = memory(8 * N);
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
        for (int k = -24 + dtype % SOME; k <= 15; k += SOME) {
            const size_t size = rp_dtype_size(dtype);
            t_rng r = {(uint64_t)(k + 25)};
            for (uint64_t i = 0; i < N; i++) {
                double usual = 1 + (double)t_below(&r, 1024) / 1024;
                double v[] = {usual, i % BLOCK ? usual : ldexp(1, k), ldexp(usual, k), i % 2 ? -1 : 1, -0.0};
                t_store(dtype, x + i * size, v[i / BLOCK]);
            }
            check_sums(dtype, 0, x, N, "blocks behind an anchor", (uint64_t)(k + 24));
            t_store(dtype, x + (BLOCK + 77) * size, k % 2 ? INFINITY : NAN);
            check_sums(dtype, RP_NAN_OMIT, x, N, "specials behind an anchor", (uint64_t)(k + 24));
        }
    free(x);
}

/* Behind a block that sets the lanes' anchor: rests of magnitudes, some of them negative, whose total rounds because of one
 * tiny element. */
static void test_a_speck_behind_an_anchor(void **state)
{
    (void)state;
    enum { BLOCK = 4096, N = 3 * BLOCK };
    uint8_t *x = memory(8 * N);
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
        for (uint64_t seed = 1; seed <= 40; seed += SOME) {
            const size_t size = rp_dtype_size(dtype);
            t_rng r = {seed};
            for (uint64_t i = 0; i < N; i++)
                t_store(dtype, x + i * size, ldexp((double)t_below(&r, 1 << 24), -24));
            uint8_t *speck = x + (BLOCK + t_below(&r, BLOCK)) * size;
            memset(speck, 0, size);
            *speck = 1; /* the least subnormal number */
            check_sums(dtype, 0, x, N, "a speck behind an anchor", seed);
        }
    free(x);
}

/* Infinities and NaNs here and there in data that goes to the buckets. */
static void test_wide_with_specials(void **state)
{
    (void)state;
    enum { MOST = 30000 };
    uint8_t *x = memory(8 * MOST);
    for (int dtype = RP_BF16; dtype <= RP_F64; dtype++)
        for (uint64_t seed = 1 + (uint64_t)dtype % SOME; seed <= 12; seed += SOME) {
            static const double odd[] = {INFINITY, NAN, -INFINITY, -NAN};
            t_rng r = {seed};
            size_t size = rp_dtype_size(dtype);
            t_fill(&r, dtype, T_FULL, x, MOST);
            for (uint64_t k = 0; k < seed % 4; k++) {
                uint64_t which = seed < 5 ? 0 : seed < 9 ? 1 : t_below(&r, 4);
                t_store(dtype, x + t_below(&r, MOST) * size, odd[which]);
            }
            for (int nan = 0; nan <= RP_NAN_ERROR; nan++)
                check_sums(dtype, nan, x, MOST, "wide with specials", seed);
        }
    free(x);
}

/* Exponents that lie `span` apart below `top`, at any of the types' ends. Some elements cancel, some are zeros. */
static void fill_span(t_rng *r, int dtype, uint8_t *x, uint64_t n, int top, int span)
{
    const size_t size = rp_dtype_size(dtype);
    for (uint64_t i = 0; i < n; i++) {
        double v = ldexp(1 + (double)t_below(r, (uint64_t)1 << 52) * 0x1p-52, top - (int)t_below(r, (uint64_t)span + 1));
        t_store(dtype, x + i * size, t_below(r, 9) ? t_below(r, 2) ? -v : v : t_below(r, 2) ? 0.0 : -0.0);
        if (i && t_below(r, 5) == 0) {
            memcpy(x + i * size, x + (i - 1) * size, size);
            x[i * size + size - 1] ^= 0x80;
        }
    }
}

static void test_spans(void **state)
{
    (void)state;
    enum { MOST = 4 * 2048 + 2048 + 100 };
    uint8_t *x = memory(8 * MOST);
    for (int dtype = RP_BF16; dtype <= RP_F64; dtype++) {
        const int highest = dtype == RP_F64 ? 1023 : 127, lowest = dtype == RP_F64 ? -1074 : -149;
        for (int span = 15; span <= (dtype == RP_F64 ? 420 : 276); span += 15) {
            t_rng r = {(uint64_t)span};
            uint64_t n = 2048 + t_below(&r, MOST - 2048);
            const int tops[] = {highest, 3, lowest + span, highest - 25};
            fill_span(&r, dtype, x, n, tops[span / 15 % 4], span);
            check_sums(dtype, 0, x, n, "span", (uint64_t)span);
        }
    }
    free(x);
}

/* Behind wide blocks, one of which sets the levels: an element a bit smaller or larger than they take, zeros, specials. */
static void test_a_speck_behind_levels(void **state)
{
    (void)state;
    enum { BLOCK = 4096, N = 3 * BLOCK };
    uint8_t *x = memory(8 * N);
    for (int dtype = RP_BF16; dtype <= RP_F64; dtype++)
        for (int k = 0; k < 20; k++) {
            const size_t size = rp_dtype_size(dtype);
            const int span = 30 + k * 37 % 80, beyond = k % 2 ? k / 2 : 1 + k / 2 - 2 * span / 3;
            t_rng r = {(uint64_t)k};
            fill_span(&r, dtype, x, N, 40, span);
            for (uint64_t i = 0; k % 3 == 0 && i < BLOCK; i++)
                t_store(dtype, x + (2 * BLOCK + i) * size, i % 100 ? -0.0 : 0.0);
            t_store(dtype, x + (BLOCK + t_below(&r, BLOCK)) * size,
                    k % 2 ? ldexp(1, 40 + beyond) : ldexp(1.5, 40 - 2 * span - beyond));
            check_sums(dtype, 0, x, N, "a speck behind levels", (uint64_t)k);
            t_store(dtype, x + t_below(&r, N) * size, (double[]){NAN, INFINITY, -INFINITY}[k % 3]);
            check_sums(dtype, k / 3 % 2 ? RP_NAN_OMIT : RP_NAN_PROPAGATE, x, N, "a special behind levels", (uint64_t)k);
        }
    free(x);
}

/* Zeros, subnormal numbers and specials in data too wide for all but the buckets. */
static void test_odd_elements_in_buckets(void **state)
{
    (void)state;
    enum { N = 20000 };
    uint8_t *x = memory(8 * N);
    for (int dtype = RP_F32; dtype <= RP_F64; dtype++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            const size_t size = rp_dtype_size(dtype);
            t_rng r = {seed};
            for (uint64_t i = 0; i < N; i++) {
                uint64_t bits = t_next(&r);
                uint8_t *p = x + i * size;
                memcpy(p, &bits, size);
                if (t_below(&r, 4) == 0) /* a zero or a subnormal number of either sign */
                    t_store(dtype, p, (bits & 1 ? -1 : 1) * ldexp((double)(bits >> 60), dtype == RP_F64 ? -1074 : -149));
                else if (!isfinite(dtype == RP_F64 ? T_LOAD(double, p) : (double)T_LOAD(float, p)))
                    t_store(dtype, p, 1);
            }
            check_sums(dtype, 0, x, N, "odd elements in buckets", seed);
            for (uint64_t k = 0; k < seed; k++)
                t_store(dtype, x + t_below(&r, N) * size, k ? NAN : seed % 2 ? INFINITY : -INFINITY);
            for (int nan = 0; nan <= RP_NAN_ERROR; nan++)
                check_sums(dtype, nan, x, N, "specials in buckets", seed);
        }
    free(x);
}

/* Wide finite data for long enough that buckets fill up and are emptied in between, by elements of one sign and of the
 * other. */
static void test_full_buckets(void **state)
{
    (void)state;
    const uint64_t lengths[] = {3000000, 60000}; /* f32: more than 2^19 in one bucket; f64: more than 2^12 */
    uint8_t *x = memory(4 * lengths[0]);
    for (int dtype = RP_F32; dtype <= RP_F64 && SOME == 1; dtype++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            const uint64_t n = lengths[dtype - RP_F32];
            const int far = dtype == RP_F64 ? 900 : 100;
            for (uint64_t i = 0; i < n; i++) /* two exponents far apart, largest fractions */
                t_store(dtype, x + i * rp_dtype_size(dtype),
                        i % 8 ? ldexp(sign * 0x1.fffffeffffffp0, far + (i % 2 && dtype == RP_F64))
                              : -sign * ldexp(0x1.fffffep0, -far));
            check_sums(dtype, 0, x, n, "two far exponents", (uint64_t)(sign + 1));
        }
    for (uint64_t i = 0; i < 200000; i++) /* both ends of a class of 16 exponents, and a far one in every lane */
        t_store(RP_F32, x + 4 * i, i % 7 == 0 ? -0x1.fffffep-120 : i % 3 ? 0x1.fffffep112 : 0x1.000002p97);
    check_sums(RP_F32, 0, x, 200000, "both ends of a class", 0);
    free(x);
}

/* Extreme integers for long enough that no narrow lane could hold their sum. */
static void test_long_integers(void **state)
{
    (void)state;
    enum { N = 2200000 };
    uint8_t *x = memory(8 * (size_t)N);
    t_rng r = {1};
    for (int dtype = RP_I8; dtype <= RP_U64; dtype++)
        for (int family = T_SUBNORMAL; family <= T_HUGE; family += T_HUGE - T_SUBNORMAL) {
            t_fill(&r, dtype, family, x, N);
            __int128 want = (__int128)t_decode(dtype, x).v * N;
            for (int k = 0; k < rk_simd_count; k++) {
                if (!rk_simd_runs(rk_simds[k]))
                    continue;
                rk_state s = reduce(rk_simds[k], RP_OP_SUM, dtype, 0, x, N, 0);
                assert_true((__int128)((unsigned __int128)s.limb[1] << 64 | s.limb[0]) == want);
            }
        }
    free(x);
}

/* One element in otherwise equal data, at every place around the edges of vectors and blocks. */
static void test_arg_places(void **state)
{
    (void)state;
    enum { N = 4200 };
    static uint8_t x[N];
    for (uint64_t at = 0; at < N; at += at < 200 || at > 4000 ? 1 : 97) {
        memset(x, 5, sizeof x);
        x[at] = 9;
        rk_state s = reduce(rk_simd_best(), RP_OP_ARGMAX, RP_U8, 0, x, N, 0);
        assert_int_equal(s.limb[1], at);
        s = reduce(rk_simd_best(), RP_OP_ARGMIN, RP_U8, 0, x, N, 7);
        assert_int_equal(s.limb[1], at == 0 ? 8 : 7);
    }
}

/* Any cut, merged in any order, gives the bytes of the whole array. */
static void test_any_cut(void **state)
{
    (void)state;
    enum { N = 5000, MOST_PARTS = 12 };
    uint8_t *x = memory(8 * N);
    EACH_KIND (op, dtype, nan) {
        t_rng r = {500 + (uint64_t)(op * 100 + dtype * 3 + nan)};
        size_t size = rp_dtype_size(dtype);
        for (int round = 0; round < 4; round++) {
            t_fill(&r, dtype, (int)t_below(&r, T_FAMILIES), x, N);
            rk_state want = reduce(rk_simd_best(), op, dtype, nan, x, N, 0), part[MOST_PARTS];
            uint64_t from = 0;
            for (int k = 0; k < MOST_PARTS; k++) {
                uint64_t n = k == MOST_PARTS - 1 ? N - from : t_below(&r, N - from + 1);
                part[k] = reduce(rk_simds[rk_simd_count - 1], op, dtype, nan, x + from * size, n, from);
                from += n;
            }
            for (int parts = MOST_PARTS; parts > 1;) { /* join any two, either way round; the last one fills the gap */
                int i = (int)t_below(&r, (uint64_t)parts), j = (int)t_below(&r, (uint64_t)parts - 1);
                j += j >= i;
                rk_state_merge(&part[i], &part[j]);
                part[j] = part[--parts];
            }
            expect_state(&part[0], &want, "merged parts", op, dtype, nan, N);
        }
    }
    free(x);
}

/* ---- whole tasks ---- */

/* The engine's wake-ups, so that a test waits without polling. */
typedef struct waker {
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool pending;
} waker;

static void wake(void *arg)
{
    waker *w = arg;
    pthread_mutex_lock(&w->lock);
    w->pending = true;
    pthread_cond_signal(&w->woken);
    pthread_mutex_unlock(&w->lock);
}

static rk_task *wait_for(rk_engine *e, waker *w)
{
    for (;;) {
        rk_task *t = rk_poll(e);
        if (t)
            return t;
        pthread_mutex_lock(&w->lock);
        while (!w->pending)
            pthread_cond_wait(&w->woken, &w->lock);
        w->pending = false;
        pthread_mutex_unlock(&w->lock);
    }
}

static waker the_waker = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static rk_engine *open_cpu(int threads, size_t small)
{
    rk_options o = {.backend = RP_BACKEND_CPU, .threads = threads, .small_bytes = small, .wake = wake, .wake_arg = &the_waker};
    rk_engine *e;
    char why[160];
    the_waker.pending = false;
    if (rk_open(&e, &o, why, sizeof why) != RP_OK)
        fail_msg("rk_open: %s", why);
    return e;
}

/* The bytes of a task whose spec is complete. */
static void measure(rk_task *t)
{
    const rp_spec *s = &t->spec;
    t->bytes = rp_elements(s) * (rp_item_size(s) + (s->flags & RP_MASK ? 1 : 0)) +
               (s->flags & RP_OFFSETS ? 8 * (s->rows + 1) : 0);
    assert_int_equal(rp_spec_check(&t->spec, &t->fault), RP_OK);
    assert_int_equal(rp_spec_match(&t->spec, 0, t->bytes, &t->fault), RP_OK);
}

static rk_task task_of(int op, int dtype, int nan, uint32_t flags, uint64_t rows, uint64_t row_len, const void *x, void *cells)
{
    rk_task t = {
        .spec =
            {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .nan = (uint8_t)nan, .flags = flags, .rows = rows, .row_len = row_len},
        .data = x,
        .cells = cells};
    measure(&t);
    return t;
}

/* The same of several planes. */
static rk_task planes_of(rk_task t, uint64_t planes)
{
    t.spec.planes = planes;
    measure(&t);
    return t;
}

static void run(rk_engine *e, rk_task *t)
{
    if (rk_submit(e, t, RK_HERE | RK_QUEUED) != RK_FINISHED)
        assert_ptr_equal(wait_for(e, &the_waker), t);
}

static void check_cell(const rk_task *t, uint64_t row, uint64_t got, uint64_t want, const char *what)
{
    if (got == want)
        return;
    const rp_spec *s = &t->spec;
    print_error("%s: result %llu of %llu x %llu x %llu, %s of %s as %s, policy %s, flags %u: got %llx, want %llx\n", what,
                (unsigned long long)row, (unsigned long long)rp_planes(s), (unsigned long long)s->rows,
                (unsigned long long)s->row_len, rp_op_name(s->op), rp_dtype_name(s->dtype), rp_dtype_name(s->out),
                rp_nan_name(s->nan), s->flags, (unsigned long long)got, (unsigned long long)want);
    fail();
}

/* The elements that the definition sees: `initial`, then those of the line that the mask lets in. */
static t_facts facts_of(const rk_task *t, uint64_t result)
{
    const rp_spec *s = &t->spec;
    rp_parts p = rp_spec_parts(s, t->data, NULL);
    size_t size = rp_dtype_size(s->dtype);
    uint64_t first = result * s->row_len, n = s->row_len, stride = 1;
    if (s->flags & RP_OFFSETS) {
        first = T_LOAD(uint64_t, p.offsets + 8 * result);
        n = T_LOAD(uint64_t, p.offsets + 8 * result + 8) - first;
    } else if (s->flags & RP_COLUMNS) {
        first = result / s->row_len * s->rows * s->row_len + result % s->row_len;
        n = s->rows;
        stride = s->row_len;
    }
    const uint64_t runs = s->flags & RP_COLUMNS ? 1 : rp_planes(s);
    t_facts f = t_nothing(s->dtype, s->nan);
    for (uint64_t i = 0, at = first; i < runs; i++, at += s->rows * s->row_len)
        t_add_line(&f,
                   (t_line){p.elements + at * size, p.mask ? p.mask + at : NULL, n, stride, s->index_base + t->base + i * n});
    if (s->flags & RP_INITIAL)
        t_add(&f, &s->initial, RP_NO_INDEX);
    return f;
}

/* Compare a finished task's cells or fault with the oracle, result by result. */
static void check_task(const rk_task *t, const char *what)
{
    const rp_spec *s = &t->spec;
    size_t cell_size = rp_cell_size(s), word_size = s->op == RP_OP_STATS ? 8 : rp_dtype_size(s->out);
    assert_int_equal(t->backend, RP_BACKEND_CPU);
    for (uint64_t i = 0; i < rp_results(s); i++) {
        const uint8_t *cell = (const uint8_t *)t->cells + i * cell_size;
        t_facts facts = facts_of(t, i);
        if (s->flags & RP_STATES_OUT) {
            rk_state state, want = t_state_of(&facts, s->op);
            memcpy(&state, cell, cell_size);
            expect_state(&state, &want, what, s->op, s->dtype, s->nan, facts.count);
            continue;
        }
        uint64_t want[RP_MAX_CELL_WORDS], value[2];
        int code = t_finish(&facts, s, want);
        if (code != RP_OK) {
            assert_int_equal(t->fault.code, code);
            assert_int_equal(t->fault.index, i);
            if (code == RP_OVERFLOW) {
                t_overflow_value(&facts, s, value);
                assert_memory_equal(t->fault.value, value, sizeof value);
            }
            return;
        }
        for (size_t k = 0; k * word_size < cell_size; k++) {
            uint64_t got = 0;
            memcpy(&got, cell + k * word_size, word_size);
            check_cell(t, i, got, want[k] & UINT64_MAX >> (64 - 8 * word_size), what);
        }
    }
    assert_int_equal(t->fault.code, RP_OK);
}

typedef struct shape {
    uint64_t rows, row_len;
} shape;

static void test_tasks(void **state)
{
    (void)state;
    static const int threads[] = {1, 2, 5};
    static const shape shapes[] = {{1, 0}, {1, 1}, {1, 77}, {3, 0}, {5, 1}, {200, 3}, {70, 9}, {2, 700}};
    uint8_t *x = memory(8 * 6000), *cells = memory(RP_MAX_STATE * 400);
    for (int k = 0; k < 3; k++) {
        rk_engine *e = open_cpu(threads[k], k == 1 ? 4096 : 0);
        EACH_KIND (op, dtype, nan)
            for (size_t i = (size_t)(op + dtype + nan) % SOME; i < sizeof shapes / sizeof shapes[0]; i += SOME) {
                t_rng r = {(uint64_t)(1 + op + 100 * dtype + 7 * nan) + 1000 * i};
                uint8_t *p = x + t_below(&r, 9);
                t_fill(&r, dtype, (int)t_below(&r, T_FAMILIES), p, shapes[i].rows * shapes[i].row_len);
                uint32_t flags = t_below(&r, 3) ? 0 : RP_STATES_OUT;
                rk_task t = task_of(op, dtype, nan, flags, shapes[i].rows, shapes[i].row_len, p, cells + t_below(&r, 9));
                t.spec.index_base = 5;
                t.base = 70;
                run(e, &t);
                check_task(&t, "task");
            }
        rk_close(e);
    }
    free(x);
    free(cells);
}

/* ---- elements that come in parts ---- */

enum { PART = 400 }; /* elements at most */

/* Adds the first `n` elements of the task's data, in parts that each overwrite the one before; with fewer than there should be
 * the feed ends without a result. */
static bool run_parts(rk_engine *e, rk_task *t, uint64_t n)
{
    const size_t size = rp_dtype_size(t->spec.dtype);
    uint8_t part[8 * PART];
    t_rng r = {n + 1};
    rk_feed *f = rk_feed_open(e, t);
    if (!f)
        return false;
    for (uint64_t at = 0, some; at < n; at += some) {
        some = 1 + t_below(&r, PART);
        some = some < n - at ? some : n - at;
        memcpy(part, (const uint8_t *)t->data + at * size, some * size);
        assert_true(rk_feed_add(f, part, at, some, NULL));
    }
    rk_feed_end(f, n == rp_elements(&t->spec));
    return true;
}

static void test_parts(void **state)
{
    (void)state;
    enum { LONG = 16 << 10 }; /* bytes of a row, of which a task may have several */
    static const shape shapes[] = {{1, 0}, {1, 1}, {1, 77}, {1, 3000}, {3, LONG}};
    uint8_t *x = memory(4 * LONG), *cells = memory(RP_MAX_STATE * 3 + 9);
    rk_engine *e = open_cpu(1, 0);
    EACH_KIND (op, dtype, nan)
        for (size_t i = 0; op != RP_OP_PROD && i < sizeof shapes / sizeof shapes[0]; i++) {
            t_rng r = {(uint64_t)(1 + op + 100 * dtype + 7 * nan) + 1000 * i};
            uint8_t *p = x + t_below(&r, 9);
            const uint64_t rows = shapes[i].rows, size = rp_dtype_size(dtype),
                           len = rows > 1 ? shapes[i].row_len / size + t_below(&r, 9) : shapes[i].row_len;
            if (rows > 1 && t_below(&r, 16))
                continue;
            t_fill(&r, dtype, (int)t_below(&r, T_FAMILIES), p, rows * len);
            rk_task t = task_of(op, dtype, nan, t_below(&r, 3) ? 0 : RP_STATES_OUT, rows, len, p, cells + t_below(&r, 9));
            t.spec.index_base = 5;
            t.base = 70;
            assert_true(run_parts(e, &t, rows * len));
            check_task(&t, "parts");
        }
    rk_close(e);
    free(x);
    free(cells);
}

/* Adds the first `rows` rows of columns: some at a time, each part overwriting the one before; or all at once. The last ones
 * come first if `backwards`. */
static bool run_rows(rk_engine *e, rk_task *t, uint64_t rows, bool once, bool backwards)
{
    const size_t row = (size_t)t->spec.row_len * rp_dtype_size(t->spec.dtype);
    uint8_t *part = memory(t->bytes);
    t_rng r = {rows + 1};
    rk_feed *f = rk_feed_open(e, t);
    for (uint64_t done = 0, n, from; f && done < rows; done += n) {
        n = once ? rows : 1 + t_below(&r, t->spec.rows / 2 + 1);
        n = n < rows - done ? n : rows - done;
        from = backwards ? rows - done - n : done;
        memcpy(part, (const uint8_t *)t->user + from * row, n * row);
        assert_true(rk_feed_add(f, part, from * t->spec.row_len, n * t->spec.row_len, NULL));
    }
    if (f)
        rk_feed_end(f, rows == t->spec.rows);
    free(part);
    return f;
}

typedef struct adders {
    rk_feed *feed;
    const rk_task *t;
    uint64_t next; /* row; atomic */
} adders;

static void *add_rows(void *arg)
{
    adders *x = arg;
    const rp_spec *s = &x->t->spec;
    const size_t row = (size_t)s->row_len * rp_dtype_size(s->dtype);
    for (uint64_t at; (at = __atomic_fetch_add(&x->next, 1, __ATOMIC_RELAXED)) < s->rows;)
        if (!rk_feed_add(x->feed, (const uint8_t *)x->t->user + at * row, at * s->row_len, s->row_len, NULL))
            return x; /* no memory */
    rk_feed_join(x->feed);
    return NULL;
}

/* The same bytes, or the same fault, as an earlier run left in `kept` */
static void expect_same(const rk_task *t, const rk_task *earlier, const void *kept)
{
    assert_memory_equal(&t->fault, &earlier->fault, sizeof t->fault);
    if (t->fault.code == RP_OK)
        assert_memory_equal(t->cells, kept, rp_results(&t->spec) * rp_cell_size(&t->spec));
}

static void test_columns_in_parts(void **state)
{
    (void)state;
    static const shape shapes[] = {{1, 1}, {4, 0}, {1, 300}, {70, 9}, {200, 3}, {7, 150}, {40, 133}};
    uint8_t *x = memory(8 * 6000 + 9), *cells = memory(RP_MAX_STATE * 300 + 9), *kept = memory(RP_MAX_STATE * 300);
    rk_engine *e = open_cpu(1, 0);
    EACH_KIND (op, dtype, nan)
        for (size_t i = 0; op != RP_OP_PROD && i < sizeof shapes / sizeof shapes[0]; i++) {
            t_rng r = {(uint64_t)(1 + op + 100 * dtype + 7 * nan) + 1000 * i};
            uint8_t *p = x + t_below(&r, 9);
            t_fill(&r, dtype, (int)t_below(&r, T_FAMILIES), p, shapes[i].rows * shapes[i].row_len);
            const uint32_t flags = RP_COLUMNS | (t_below(&r, 3) ? 0 : RP_STATES_OUT);
            rk_task t = task_of(op, dtype, nan, flags, shapes[i].rows, shapes[i].row_len, p, cells + t_below(&r, 9));
            t.spec.index_base = 5;
            t.base = 70;
            t.user = p;
            t.data = NULL;
            assert_true(rk_takes_parts(e, &t));
            assert_true(run_rows(e, &t, t.spec.rows, true, false));
            t.data = p;
            check_task(&t, "columns in one part");
            t.data = NULL;
            const rk_task one = t;
            const size_t size = rp_results(&t.spec) * rp_cell_size(&t.spec);
            memcpy(kept, t.cells, size);
            for (int backwards = 0; backwards < 2; backwards++) {
                memset(t.cells, 0xa5, size);
                assert_true(run_rows(e, &t, t.spec.rows, false, backwards));
                expect_same(&t, &one, kept);
            }
        }
    rk_close(e);
    free(x);
    free(cells);
    free(kept);
}

/* Several threads add rows at once, so there are several sets of states. */
static void test_columns_of_threads(void **state)
{
    (void)state;
    enum { THREADS = 3, ROWS = 300, COLUMNS = ALONE_TOO ? 2000 : 400 };
    static const int some[] = {RP_OP_SUM, RP_OP_ARGMAX, RP_OP_VAR, RP_OP_STATS};
    uint8_t *x = memory(8 * ROWS * COLUMNS), *cells = memory(RP_MAX_CELL_WORDS * 8 * COLUMNS);
    rk_engine *e = open_cpu(1, 0);
    for (size_t k = 0; k < sizeof some / sizeof some[0]; k++) {
        t_rng r = {k + 1};
        pthread_t thread[THREADS];
        t_fill(&r, RP_F64, (int)t_below(&r, T_FAMILIES), x, ROWS * COLUMNS);
        rk_task t = task_of(some[k], RP_F64, RP_NAN_OMIT, RP_COLUMNS, ROWS, COLUMNS, x, cells);
        t.user = x;
        adders all = {rk_feed_open(e, &t), &t, 0};
        assert_non_null(all.feed);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, add_rows, &all), 0);
        for (int i = 0; i < THREADS; i++) {
            void *failed;
            pthread_join(thread[i], &failed);
            assert_null(failed);
        }
        rk_feed_end(all.feed, true);
        check_task(&t, "columns of several threads");
    }
    rk_close(e);
    free(x);
    free(cells);
}

/* Elements that end too soon leave the cell as it was; what cannot come in parts is not begun. */
static void test_parts_that_cannot_be(void **state)
{
    (void)state;
    double x[600] = {1};
    uint64_t cell[600] = {7};
    rk_engine *e = open_cpu(1, 0);
    rk_task t = task_of(RP_OP_SUM, RP_F64, 0, 0, 1, 600, x, cell);
    for (uint64_t n = 0; n < 600; n += 599) {
        assert_true(run_parts(e, &t, n));
        assert_int_equal(cell[0], 7);
    }
    t = task_of(RP_OP_SUM, RP_F64, 0, RP_COLUMNS, 3, 200, x, cell);
    t.user = x;
    for (uint64_t n = 0; n < 3; n++) {
        assert_true(run_rows(e, &t, n, false, false));
        assert_int_equal(cell[0], 7);
    }
    const rk_task others[] = {task_of(RP_OP_PROD, RP_F64, 0, 0, 1, 600, x, cell),
                              task_of(RP_OP_SUM, RP_F64, 0, 0, 2, 300, x, cell),
                              task_of(RP_OP_PROD, RP_F64, 0, RP_COLUMNS, 3, 200, x, cell),
                              planes_of(task_of(RP_OP_SUM, RP_F64, 0, RP_COLUMNS, 3, 100, x, cell), 2),
                              task_of(RP_OP_SUM, RP_F64, 0, RP_COLUMNS, 1, 5000, x, cell),
                              task_of(RP_OP_SUM, RP_F64, 0, RP_COLUMNS | RP_MASK, 3, 200, x, cell),
                              task_of(RP_OP_SUM, RP_F64, 0, RP_MASK, 1, 500, x, cell)};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        t = others[i];
        assert_false(rk_takes_parts(e, &t));
        assert_null(rk_feed_open(e, &t));
    }
    rk_close(e);
}

static void check_reply_type(int op, int dtype, int out, uint8_t *x, uint64_t n)
{
    if (!defined(op, dtype))
        return;
    for (int family = 0; family < T_FAMILIES; family++) {
        uint64_t cell[RP_MAX_CELL_WORDS];
        rk_task t = task_of(op, dtype, 0, 0, 1, n, x, cell);
        t.spec.out = (uint8_t)out;
        if (rp_spec_check(&t.spec, NULL) != RP_OK)
            return;
        t_rng r = {(uint64_t)(op * 1000 + dtype * 100 + out + family * 31)};
        t_fill(&r, dtype, family, x, n);
        rk_cpu_run(&t);
        check_task(&t, "reply type");
    }
}

static void test_reply_types(void **state)
{
    (void)state;
    enum { N = 300 };
    uint8_t *x = memory(8 * N);
    for (int op = RP_OP_SUM; op <= RP_OP_STATS; op++)
        for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
            for (int out = RP_I8; out <= RP_F64; out++)
                check_reply_type(op, dtype, out, x, N);
    free(x);
}

/* Large enough for segments, with few and with many rows. */
static void test_segments(void **state)
{
    (void)state;
    static const shape shapes[] = {{1, 80001}, {3, 40007}, {90, 1003}};
    uint8_t *x = memory(8 * 130000), cells[RP_MAX_STATE * 90];
    rk_engine *e = open_cpu(5, 0);
    for (int op = RP_OP_SUM; op <= RP_OP_STATS; op++)
        for (size_t i = (size_t)op % SOME; i < sizeof shapes / sizeof shapes[0]; i++) {
            int dtype = op >= RP_OP_AND && op <= RP_OP_XOR ? RP_I16 : (int[]){RP_F64, RP_F32, RP_I64}[((size_t)op + i) % 3];
            t_rng r = {(uint64_t)op * 10 + i + 1};
            t_fill(&r, dtype, i == 1 ? T_SPECIAL : T_NARROW, x + 3, shapes[i].rows * shapes[i].row_len);
            uint32_t flags = op % 2 ? RP_STATES_OUT : 0;
            rk_task t = task_of(op, dtype, RP_NAN_OMIT, flags, shapes[i].rows, shapes[i].row_len, x + 3, cells);
            t.spec.index_base = 1 << 20;
            run(e, &t);
            check_task(&t, "segments");
        }
    rk_close(e);
    free(x);
}

/* ---- shapes ---- */

typedef struct arena {
    uint8_t *data, *cells;
    size_t room; /* bytes of both */
} arena;

static void fill_offsets(t_rng *r, const rp_spec *s, uint8_t *offsets)
{
    uint64_t at = t_below(r, 4) ? 0 : t_below(r, s->row_len + 1);
    for (uint64_t i = 0; i <= s->rows; i++) {
        memcpy(offsets + 8 * i, &at, 8);
        uint64_t step = t_below(r, 4) == 0 ? s->row_len - at : 2 * s->row_len / s->rows;
        at += t_below(r, (step < s->row_len - at ? step : s->row_len - at) + 1);
    }
}

static void fill_mask(t_rng *r, uint8_t *mask, uint64_t n)
{
    uint64_t kept = (uint64_t[]){0, 1, 30, 99, 100}[t_below(r, 5)];
    for (uint64_t i = 0; i < n; i++)
        mask[i] = t_below(r, 100) < kept ? (uint8_t)(1 + t_below(r, 255)) : 0;
}

/* The elements that a mask keeps, by every instruction set, from any address; nothing is written beyond the room for all. */
static void test_keep(void **state)
{
    (void)state;
    enum { MOST = 150, AT = 3 };
    uint8_t x[8 * MOST + 8], mask[MOST], out[8 * (MOST + AT) + 8], want[sizeof out];
    t_rng r = {3};
    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (uint8_t)t_next(&r);
    for (size_t n = 0; n <= MOST; n++)
        for (int log2_size = 0; log2_size < 4; log2_size++) {
            const size_t size = (size_t)1 << log2_size;
            const uint8_t *from = x + n % 7;
            size_t k = AT;
            fill_mask(&r, mask, n);
            memset(want, 0xee, sizeof want);
            for (size_t i = 0; i < n; i++)
                if (mask[i])
                    memcpy(want + k++ * size, from + i * size, size);
            for (int t = 0; t < rk_simd_count; t++) {
                if (!rk_simd_runs(rk_simds[t]))
                    continue;
                memset(out, 0xee, sizeof out);
                assert_int_equal(rk_simds[t]->keep[log2_size](out, AT, from, mask, n), k);
                assert_memory_equal(out, want, k * size);
                assert_memory_equal(out + (AT + n) * size, want + (AT + n) * size, sizeof out - (AT + n) * size);
            }
        }
}

/* Columns transposed to contiguous elements, by the loops of every instruction set; nothing is written beside them. */
static void test_turn(void **state)
{
    (void)state;
    enum { ROWS = 70, COLUMNS = 70, APART = 8 * ROWS + 24 };
    uint8_t *x = memory(8 * ROWS * COLUMNS), *out = memory(APART * COLUMNS);
    t_rng r = {98};
    for (size_t i = 0; i < 8 * ROWS * COLUMNS; i++)
        x[i] = (uint8_t)t_below(&r, 256);
    for (int i = 0; i < 4000; i++) {
        const int log2_size = i % 4;
        const size_t size = (size_t)1 << log2_size, rows = t_below(&r, ROWS), columns = t_below(&r, COLUMNS),
                     stride = (columns + t_below(&r, COLUMNS - columns)) * size, apart = rows * size + t_below(&r, 24),
                     from = t_below(&r, 9);
        for (int t = 0; t < rk_simd_count; t++) {
            if (!rk_simd_runs(rk_simds[t]))
                continue;
            memset(out, 0xa5, APART * COLUMNS);
            rk_simds[t]->turn[log2_size](out, apart, x + from, stride, rows, columns);
            for (size_t c = 0; c < columns; c++) {
                for (size_t row = 0; row < rows; row++)
                    assert_memory_equal(out + c * apart + row * size, x + from + row * stride + c * size, size);
                for (size_t k = rows * size; k < apart; k++)
                    assert_int_equal(out[c * apart + k], 0xa5);
            }
            assert_int_equal(out[columns * apart], 0xa5);
        }
    }
    free(x);
    free(out);
}

/* Some columns of a wider matrix to states, by every instruction set: in rows as many as are taken at once, fewer and more.
 * The facts of each column hold for every operation. */
static void check_columns(rk_task t, uint64_t first, uint64_t columns, uint64_t from, uint64_t n)
{
    const rp_spec *s = &t.spec;
    rk_state *states = malloc((size_t)columns * sizeof *states);
    t_facts *facts = malloc((size_t)columns * sizeof *facts);
    for (uint64_t c = 0; c < columns; c++) {
        const uint8_t *x = (const uint8_t *)t.data + (from * s->row_len + first + c) * rp_dtype_size(s->dtype);
        facts[c] = t_facts_of(s->dtype, s->nan, (t_line){x, NULL, n, s->row_len, s->index_base + t.base + from});
    }
    for (int i = 0; i < OPS * rk_simd_count; i++) {
        const rk_simd *simd = rk_simds[i % rk_simd_count];
        const int op = ops[i / rk_simd_count];
        if (op == RP_OP_PROD || !defined(op, s->dtype) || !rk_simd_runs(simd))
            continue;
        t.spec.op = (uint8_t)op;
        rk_cpu_columns(simd, &t, first, columns, from, n, states, NULL);
        for (uint64_t c = 0; c < columns; c++) {
            const rk_state want = t_state_of(&facts[c], op);
            expect_state(&states[c], &want, simd->name, op, s->dtype, s->nan, n);
        }
    }
    free(states);
    free(facts);
}

static void test_columns_by_rows(void **state)
{
    (void)state;
    static const shape shapes[] = {{1, 17}, {7, 8}, {140, 133}, {530, 17}, {1100, 9}};
    enum { SHAPES = sizeof shapes / sizeof shapes[0], EACH = 3 };
    uint8_t *x = memory(8 * 140 * 150), cells[1];
    EACH_TYPE (dtype, nan)
        for (size_t i = 0; i < EACH * SHAPES; i++) {
            const shape *at = &shapes[i % SHAPES];
            t_rng r = {(uint64_t)(1 + 100 * dtype + 7 * nan) + 1000 * i};
            uint8_t *p = x + t_below(&r, 9);
            const int family = (int)t_below(&r, T_FAMILIES + 3);
            t_fill(&r, dtype, family < T_FAMILIES ? family : T_NARROW, p, at->rows * at->row_len);
            rk_task t = task_of(RP_OP_SUM, dtype, nan, RP_COLUMNS, at->rows, at->row_len, p, cells);
            t.spec.index_base = 5;
            t.base = 70;
            const uint64_t first = t_below(&r, 4) % at->row_len, from = t_below(&r, 2) % at->rows;
            check_columns(t, first, at->row_len - first, from, at->rows - from);
        }
    free(x);
}

/* What they are made for: ordinary columns, and those of all kinds of zeros. */
static void test_squares_of_ordinary_columns(void **state)
{
    (void)state;
    enum { ROWS = 1024, COLUMNS = 24 };
    uint8_t *x = memory(8 * ROWS * COLUMNS);
    double parts[RK_SQUARE_PARTS][RK_COLUMNS_TOGETHER];
    for (int k = 0; k < rk_simd_count; k++)
        for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
            for (int family = 0; family < 3; family++) {
                t_rng r = {99};
                t_fill(&r, dtype, family == 0 ? T_NARROW : family == 1 ? T_ZEROS : T_NEGATIVE_ZERO, x, ROWS * COLUMNS);
                rk_column_squares_fn *squares = rk_simd_runs(rk_simds[k]) ? rk_simds[k]->column_squares[dtype] : NULL;
                assert_true(!squares || squares(x, COLUMNS * rp_dtype_size(dtype), ROWS, COLUMNS, parts));
            }
    free(x);
}

/* Any op, type, policy, reply type, shape, mask, initial, ddof and data, at any alignment. */
static rk_task random_task(t_rng *r, const arena *m, uint64_t most)
{
    int op, dtype;
    do {
        op = 1 + (int)t_below(r, RP_OP_STATS);
        dtype = 1 + (int)t_below(r, RP_F64);
    } while (!defined(op, dtype));
    uint32_t flags = (uint32_t[]){0, RP_OFFSETS, RP_COLUMNS, RP_COLUMNS}[t_below(r, 4)];
    flags |= (t_below(r, 2) ? RP_MASK : 0) | (t_below(r, 3) ? 0 : RP_INITIAL);
    flags |= op == RP_OP_PROD && !rk_is_float(dtype) && t_below(r, 2) ? RP_WRAP : 0;
    flags |= !(flags & RP_INITIAL) && t_below(r, 3) == 0 ? RP_STATES_OUT : 0;
    uint64_t rows = 1 + t_below(r, (const uint64_t[]){8, 300, most / 20}[t_below(r, 3)]), row_len = t_below(r, most / rows + 1);
    if (flags & RP_OFFSETS)
        row_len = t_below(r, most + 1);
    uint64_t planes = !(flags & RP_OFFSETS) && t_below(r, 2) ? 1 + t_below(r, 1 + most / 20 / rows) : 0;
    if (planes)
        row_len = t_below(r, t_below(r, 3) ? 2 + row_len / planes : 1 + row_len / planes / 10);
    uint8_t *data = m->data + t_below(r, 9);
    rk_task t = task_of(op, dtype, (int)t_below(r, rk_is_float(dtype) ? 3 : 1), flags, rows, row_len, data,
                        m->cells + t_below(r, 9));
    rp_spec *s = &t.spec;
    t = planes_of(t, planes);
    assert_true(t.bytes + 16 <= m->room && rp_results(s) * rp_cell_size(s) + 16 <= m->room);
    rp_parts p = rp_spec_parts(s, data, NULL);
    if (flags & RP_OFFSETS)
        fill_offsets(r, s, data);
    t_fill(r, dtype, (int)t_below(r, T_FAMILIES), data + (p.elements - data), rp_elements(s));
    if (flags & RP_MASK)
        fill_mask(r, data + (p.mask - data), rp_elements(s));
    if (flags & RP_INITIAL)
        t_fill(r, dtype, (int)t_below(r, T_FAMILIES), &s->initial, 1);
    s->ddof = op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_STATS ? (uint32_t)t_below(r, 3) : 0;
    s->index_base = t_below(r, 1000);
    do
        s->out = (uint8_t)t_below(r, RP_F64 + 1);
    while (rp_spec_check(s, NULL) != RP_OK);
    return t;
}

/* A copy that begins at any alignment; `from` may be NULL. The caller frees *owned. */
static const uint8_t *copied(t_rng *r, const uint8_t *from, uint64_t bytes, uint8_t **owned)
{
    const uint64_t before = t_below(r, 9);
    *owned = from ? memory(bytes + before) : NULL;
    return from ? memcpy(*owned + before, from, bytes) : NULL;
}

/* The task that has run, with its companions away from its elements: the same cells and fault. */
static void check_beside(rk_engine *e, t_rng *r, const rk_task *t, const char *what)
{
    const size_t bytes = rp_results(&t->spec) * rp_cell_size(&t->spec);
    const rp_parts p = rp_spec_parts(&t->spec, t->data, NULL);
    uint8_t *mask, *offsets, *cells = memory(bytes + 1);
    const rp_parts beside = {.mask = copied(r, p.mask, rp_role_bytes(&t->spec, RP_ROLE_MASK), &mask),
                             .offsets = copied(r, p.offsets, rp_role_bytes(&t->spec, RP_ROLE_OFFSETS), &offsets)};
    rk_task apart = {.spec = t->spec, .data = p.elements, .beside = &beside, .cells = cells, .base = t->base};
    apart.bytes = rp_elements(&t->spec) * rp_item_size(&t->spec);
    run(e, &apart);
    if (apart.fault.code != t->fault.code || apart.fault.index != t->fault.index)
        fail_msg("%s: with companions elsewhere %s instead of %s", what, rp_err_name(apart.fault.code),
                 rp_err_name(t->fault.code));
    if (!t->fault.code && memcmp(cells, t->cells, bytes) != 0)
        fail_msg("%s: other cells with companions elsewhere", what);
    free(mask);
    free(offsets);
    free(cells);
}

static void run_random_tasks(uint64_t seed, int rounds, uint64_t most, int threads, size_t small)
{
    arena m = {.room = 12 * most + RP_MAX_STATE * (most / 20 + 3000)};
    m.data = memory(m.room);
    m.cells = memory(m.room);
    rk_engine *e = open_cpu(threads, small);
    t_rng r = {seed}, places = {seed + 1000};
    for (int i = 0; i < rounds; i++) {
        rk_task t = random_task(&r, &m, most);
        char what[40];
        snprintf(what, sizeof what, "seed %d, task %d", (int)seed, i);
        run(e, &t);
        check_task(&t, what);
        if (t.spec.flags & (RP_MASK | RP_OFFSETS))
            check_beside(e, &places, &t, what);
    }
    rk_close(e);
    free(m.data);
    free(m.cells);
}

static void test_shapes(void **state)
{
    (void)state;
    run_random_tasks(1, 4000 / SOME, 300, 1, 1 << 20);
    run_random_tasks(2, 2000 / SOME, 3000, 3, 0);
}

/* Sums of many short lines: rows, segments and columns, which go several at a time. */
static void test_short_sums(void **state)
{
    (void)state;
    enum { MOST = 600 };
    uint8_t *data = memory(8 * 2 * MOST + 8 * 41), cells[8 * 64];
    t_rng r = {77};
    for (int i = 0; i < 3000; i++) {
        static const uint32_t shapes[] = {0, RP_OFFSETS, RP_COLUMNS};
        int dtype = RP_F32 + (int)t_below(&r, 2);
        uint32_t flags = shapes[t_below(&r, 3)];
        uint64_t rows = 1 + t_below(&r, 40), row_len = t_below(&r, flags & RP_OFFSETS ? MOST : MOST / 40);
        uint8_t *p = data + t_below(&r, 9);
        rk_task t = task_of(RP_OP_SUM, dtype, (int)t_below(&r, 3), flags, rows, row_len, p, cells);
        if (!(flags & RP_OFFSETS) && row_len && row_len * rows < 2 * MOST)
            t = planes_of(t,
                          t_below(&r, 64 / row_len < 2 * MOST / (rows * row_len) ? 64 / row_len : 2 * MOST / (rows * row_len)));
        if (flags & RP_OFFSETS)
            fill_offsets(&r, &t.spec, p);
        rp_parts parts = rp_spec_parts(&t.spec, p, NULL);
        t_fill(&r, dtype, i % T_FAMILIES, p + (parts.elements - p), rp_elements(&t.spec));
        rk_cpu_run(&t);
        check_task(&t, "short sums");
    }
    free(data);
}

/* A mask that its client clears while the task runs: right behind its elements are known, before their places are looked for.
 * No memory follows it. */
enum { FADING = 4096 }; /* bytes of elements and mask: a page */
static uint8_t *fading;

static void reduce_and_clear(rk_state *s, const void *x, uint64_t n, uint64_t index, int nan)
{
    rk_simd_best()->reduce[s->layout][s->dtype](s, x, n, index, nan);
    memset(fading + FADING / 2, 0, FADING / 2);
}

static void test_mask_that_changes(void **state)
{
    (void)state;
    static const int placed[] = {RP_OP_ARGMIN, RP_OP_ARGMAX, RP_OP_STATS};
    enum { N = FADING / 2, COLUMNS = 4 };
    fading = mmap(NULL, 2 * FADING, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(fading, MAP_FAILED);
    assert_int_equal(mprotect(fading + FADING, FADING, PROT_NONE), 0);
    for (int i = 0; i < N; i++)
        fading[i] = (uint8_t)(i / 8);
    for (int i = 0; i < 6; i++) {
        uint64_t cells[COLUMNS][RP_MAX_CELL_WORDS], bad_row, rows = i < 3 ? 1 : N / COLUMNS;
        int op = placed[i % 3];
        rk_state bad_state;
        rk_simd simd = *rk_simd_best();
        simd.reduce[rp_state_layout(op, RP_U8)][RP_U8] = reduce_and_clear;
        memset(fading + N, 1, N);
        rk_task t = task_of(op, RP_U8, 0, RP_MASK | (i < 3 ? 0 : RP_COLUMNS), rows, N / rows, fading, cells);
        assert_int_equal(rk_cpu_lines(&simd, &t, 0, rp_results(&t.spec), &bad_row, &bad_state), RP_OK);
        assert_true((op == RP_OP_STATS ? cells[0][RP_STATS_ARGMAX] : cells[0][0]) < (i < 3 ? N : N / COLUMNS));
    }
    munmap(fading, 2 * FADING);
}

/* Pieces: what several threads share. */
static void test_large_shapes(void **state)
{
    (void)state;
    run_random_tasks(3, 40, 200000, 3, 0);
}

/* Segments that begin and end around the edges of pieces, which are some 128 KiB apart. */
static void test_edges_of_pieces(void **state)
{
    (void)state;
    enum { N = 50000, EDGE = 128 * 1024 / 8 };
    uint64_t *data = malloc(8 * (4 + N));
    double *x = (double *)(data + 4), cells[3];
    for (int i = 0; i < N; i++)
        x[i] = i;
    rk_engine *e = open_cpu(2, 0);
    for (uint64_t a = EDGE - 200; a < EDGE + 10; a++)
        for (uint64_t b = a; b < N; b += b == a ? 1 : N / 3) {
            memcpy(data, (uint64_t[]){0, a, b, N}, 32);
            rk_task t = task_of(RP_OP_SUM, RP_F64, 0, RP_OFFSETS, 3, N, data, cells);
            run(e, &t);
            for (int i = 0; i < 3; i++) {
                double from = (double)data[i], to = (double)data[i + 1];
                assert_true(cells[i] == (to - from) * (to + from - 1) / 2);
            }
        }
    rk_close(e);
    free(data);
}

/* The states of `parts` equal parts of each row, made by the engine. */
static void make_parts(rk_engine *e, int op, int dtype, int nan, const uint8_t *x, uint64_t rows, uint64_t n, uint64_t parts,
                       uint8_t *states)
{
    size_t size = rp_dtype_size(dtype), state_size = rp_state_size(rp_state_layout(op, dtype));
    for (uint64_t i = 0; i < rows * parts; i++) {
        uint64_t row = i / parts, from = i % parts * (n / parts);
        const uint8_t *start = x + (row * n + from) * size;
        rk_task part = task_of(op, dtype, nan, RP_STATES_OUT, 1, n / parts, start, states + i * state_size);
        part.base = from;
        run(e, &part);
        assert_int_equal(part.fault.code, RP_OK);
    }
}

/* States of parts go back in as RP_STATES_IN, in rows. */
static void test_states_in(void **state)
{
    (void)state;
    enum { ROWS = 3, PARTS = 7, N = 210 };
    uint8_t *x = memory(8 * ROWS * N), states[ROWS * PARTS * RP_MAX_STATE], cells[ROWS * RP_MAX_STATE];
    rk_engine *e = open_cpu(2, 0);
    EACH_KIND (op, dtype, nan) {
        t_rng r = {(uint64_t)(op * 100 + dtype * 3 + nan)};
        t_fill(&r, dtype, (int)t_below(&r, T_FAMILIES), x, ROWS * N);
        make_parts(e, op, dtype, nan, x, ROWS, N, PARTS, states);
        rk_task whole = task_of(op, dtype, nan, RP_STATES_IN, ROWS, PARTS, states, cells);
        run(e, &whole);
        rk_task expected = whole; /* as if it had been given the elements */
        expected.spec.flags = 0;
        expected.spec.row_len = N;
        expected.data = x;
        check_task(&expected, "states in");
    }
    rk_close(e);
    free(x);
}

/* Values that are missing in parts are missing in the whole: of integers they are NaNs of stats and count_nan, too. */
static void test_states_with_missing_values(void **state)
{
    (void)state;
    enum { PARTS = 5, N = 40, MISSING = 3 };
    uint8_t x[8 * N], states[PARTS * RP_MAX_STATE];
    uint64_t cells[RP_MAX_CELL_WORDS], plain[RP_MAX_CELL_WORDS];
    rk_engine *e = open_cpu(2, 0);
    EACH_KIND (op, dtype, nan) {
        if (rk_is_float(dtype) || (op != RP_OP_STATS && op != RP_OP_COUNT_NAN && op != RP_OP_MAX))
            continue;
        t_rng r = {(uint64_t)(op * 100 + dtype)};
        t_fill(&r, dtype, 0, x, N);
        make_parts(e, op, dtype, nan, x, 1, N, PARTS, states);
        rk_task t = task_of(op, dtype, nan, RP_STATES_IN, 1, PARTS, states, plain);
        run(e, &t);
        const size_t size = rp_state_size(rp_state_layout(op, dtype));
        for (int i = 1; i < PARTS; i += 2) {
            rk_state s;
            memcpy(&s, states + i * size, size);
            rk_state_missing(&s, MISSING);
            memcpy(states + i * size, &s, size);
        }
        t = task_of(op, dtype, nan, RP_STATES_IN, 1, PARTS, states, cells);
        run(e, &t);
        const bool refused = op == RP_OP_STATS && nan == RP_NAN_ERROR;
        assert_int_equal(t.fault.code, refused ? RP_NAN : RP_OK);
        plain[op == RP_OP_STATS ? RP_STATS_NANS : 0] += op == RP_OP_MAX ? 0 : PARTS / 2 * MISSING;
        if (!refused)
            assert_memory_equal(cells, plain, rp_cell_size(&t.spec));
    }
    rk_close(e);
}

static void test_states_in_faults(void **state)
{
    (void)state;
    uint64_t cells[2];
    uint8_t packed[4 * 32];
    for (int i = 0; i < 4; i++) {
        rk_state s = t_state(RP_OP_MIN, RP_F64, &(double){i}, 1, 0, 0);
        memcpy(packed + 32 * i, &s, 32);
    }
    rk_task t = task_of(RP_OP_MIN, RP_F64, 0, RP_STATES_IN, 2, 2, packed, cells);
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_OK);
    packed[32 * 2 + 5] = 1; /* a reserved byte of row 1 */
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_BAD_MESSAGE);
    assert_int_equal(t.fault.index, 1);
    packed[32 * 2 + 5] = 0;
    for (int i = 0; i < 2; i++) { /* each in range, but not together */
        uint64_t count = RP_MAX_COUNT - (uint64_t)i;
        memcpy(packed + 32 * i + 8, &count, 8);
    }
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_TOO_LARGE);
    assert_int_equal(t.fault.index, 0);
    assert_string_equal(t.fault.field, "count");
}

/* NaNs that stats skipped are counted, too. */
static void test_too_many_nans(void **state)
{
    (void)state;
    const size_t size = rp_state_size(RP_STATE_STATS32), nans = size - 8;
    uint8_t packed[2 * RP_MAX_STATE];
    uint64_t cells[RP_STATS_WORDS];
    rk_state s = t_state(RP_OP_STATS, RP_F32, &(float){NAN}, 1, 0, RP_NAN_OMIT);
    for (size_t i = 0; i < 2; i++) {
        memcpy(packed + i * size, &s, size);
        memcpy(packed + i * size + nans, &(uint64_t){RP_MAX_COUNT - i}, 8);
    }
    rk_task t = task_of(RP_OP_STATS, RP_F32, RP_NAN_OMIT, RP_STATES_IN, 1, 2, packed, cells);
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_TOO_LARGE);
    memcpy(packed + size + nans, &(uint64_t){0}, 8);
    packed[size + 3] = 0; /* none skipped */
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_OK);
    assert_int_equal(cells[RP_STATS_NANS], RP_MAX_COUNT);
}

static void test_overflow_faults(void **state)
{
    (void)state;
    uint64_t big[3] = {1, UINT64_MAX, 5}, cell[3];
    rk_task t = task_of(RP_OP_SUM, RP_U64, 0, 0, 1, 3, big, cell);
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_OVERFLOW);
    assert_int_equal(t.fault.value[0], 5);
    assert_int_equal(t.fault.value[1], 1);
    assert_string_equal(t.fault.field, "out");
    t = task_of(RP_OP_MAX, RP_U64, 0, 0, 3, 1, big, cell);
    t.spec.out = RP_I64;
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_OVERFLOW);
    assert_int_equal(t.fault.index, 1);
    assert_int_equal(t.fault.value[0], UINT64_MAX);
    assert_int_equal(t.fault.value[1], 0);
    int8_t negative = -3;
    t = task_of(RP_OP_MIN, RP_I8, 0, 0, 1, 1, &negative, cell);
    t.spec.out = RP_U64;
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_OVERFLOW);
    assert_true((int64_t)t.fault.value[0] == -3 && (int64_t)t.fault.value[1] == -1);
}

static void test_nan_and_empty_faults(void **state)
{
    (void)state;
    double nan = NAN, cell;
    rk_task t = task_of(RP_OP_SUM, RP_F64, RP_NAN_ERROR, 0, 1, 1, &nan, &cell);
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_NAN);
    t = task_of(RP_OP_ARGMAX, RP_F64, RP_NAN_OMIT, 0, 1, 1, &nan, &cell);
    rk_cpu_run(&t);
    assert_int_equal(t.fault.code, RP_EMPTY);
    assert_int_equal(t.fault.index, 0);
}

/* Several workers find bad rows: the first row is reported, with its own value. */
static void test_first_bad_row(void **state)
{
    (void)state;
    enum { ROWS = 100, N = 5000 };
    uint64_t *x = calloc((size_t)ROWS * N, sizeof *x), cells[ROWS];
    rk_engine *e = open_cpu(3, 0);
    for (uint64_t row = 30; row < ROWS; row += 20) {
        x[row * N] = UINT64_MAX;
        x[row * N + 1] = row;
    }
    for (int round = 0; round < 20; round++) {
        rk_task t = task_of(RP_OP_SUM, RP_U64, 0, 0, ROWS, N, x, cells);
        run(e, &t);
        assert_int_equal(t.fault.code, RP_OVERFLOW);
        assert_int_equal(t.fault.index, 30);
        assert_int_equal(t.fault.value[0], 29);
        assert_int_equal(t.fault.value[1], 1);
    }
    rk_close(e);
    free(x);
}

/* Many tasks of all sizes at once, each comes back once. */
static void test_many_in_flight(void **state)
{
    (void)state;
    enum { TASKS = 200, MOST = 100000 };
    static double x[MOST], cells[TASKS];
    static rk_task t[TASKS];
    for (int i = 0; i < MOST; i++)
        x[i] = i;
    rk_engine *e = open_cpu(3, 1024);
    int under_way = 0;
    for (int i = 0; i < TASKS; i++) {
        uint64_t n = (uint64_t)(i * 7919 % MOST);
        t[i] = task_of(RP_OP_SUM, RP_F64, 0, 0, 1, i % 10 ? n : n % 30, x, &cells[i]);
        t[i].user = &t[i];
        under_way += rk_submit(e, &t[i], RK_HERE | RK_QUEUED) == RK_UNDER_WAY;
    }
    int small = TASKS - under_way;
    assert_true(small > 0);
    for (; under_way; under_way--) {
        rk_task *done = wait_for(e, &the_waker);
        assert_ptr_equal(done->user, done);
        done->user = NULL;
    }
    assert_null(rk_poll(e));
    for (int i = 0; i < TASKS; i++) {
        double n = (double)t[i].spec.row_len;
        assert_true(cells[i] == n * (n - 1) / 2);
    }
    rk_stats s;
    rk_get_stats(e, &s);
    assert_int_equal(s.tasks, TASKS);
    assert_int_equal(s.small_tasks, small);
    assert_int_equal(s.device_tasks, 0);
    assert_int_equal(s.threads, 3);
    assert_true(s.busy_ns > 0);
    assert_string_equal(s.simd, rk_simd_best()->name);
    rk_close(e);
}

static void test_close_with_tasks_queued(void **state)
{
    (void)state;
    enum { TASKS = 50, N = 200000 };
    double *x = calloc(N, sizeof *x), cells[TASKS];
    static rk_task t[TASKS];
    for (int round = 0; round < 5; round++) {
        rk_engine *e = open_cpu(2, 0);
        for (int i = 0; i < TASKS; i++) {
            t[i] = task_of(RP_OP_SUM, RP_F64, 0, 0, 1, N, x, &cells[i]);
            assert_int_equal(rk_submit(e, &t[i], RK_HERE | RK_QUEUED), RK_UNDER_WAY);
        }
        rk_close(e);
    }
    rk_close(NULL);
    free(x);
}

static void test_open(void **state)
{
    (void)state;
    rk_engine *e;
    char why[160];
    rk_options o = {.backend = 77};
    assert_int_equal(rk_open(&e, &o, why, sizeof why), RP_TYPE);
    assert_null(e);
    assert_non_null(strstr(why, "77"));
    o = (rk_options){.threads = 1};
    assert_int_equal(rk_open(&e, &o, NULL, 0), RP_OK);
    rk_close(e);
}

static void test_probe(void **state)
{
    (void)state;
    rk_engine *e = open_cpu(2, 1 << 20);
    rk_task t;
    rk_probe(e, 0, &t);
    assert_int_equal(rk_submit(e, &t, RK_HERE | RK_QUEUED),
                     RK_UNDER_WAY); /* never in the submitter's thread: it tries the backend */
    assert_ptr_equal(wait_for(e, &the_waker), &t);
    assert_true(rk_probe_ok(&t));
    memset(t.cells, 0, 8);
    assert_false(rk_probe_ok(&t));
    rk_close(e);
}

/* The floating-point control register, its status bits left out; and bits that flush subnormals and round up. */
#ifdef __x86_64__
static uint64_t fp_control(void) { return _mm_getcsr() & ~0x3fu; }
static void set_fp_control(uint64_t control) { _mm_setcsr((unsigned)control); }
enum { FP_HOSTILE = 0x8000 | 0x0040 | 0x4000 }; /* FTZ, DAZ, towards +infinity */
#else
static uint64_t fp_control(void)
{
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}
static void set_fp_control(uint64_t control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }
enum { FP_HOSTILE = 1 << 24 | 1 << 22 }; /* FZ, towards +infinity */
#endif

/* Flushing of subnormals and another rounding direction in the caller change nothing and stay as they were. */
static void test_hostile_environment(void **state)
{
    (void)state;
    static double x[1000];
    double cell;
    uint64_t before = fp_control(), hostile = before | FP_HOSTILE;
    for (int i = 0; i < 1000; i++)
        x[i] = i % 2 ? 0x1p-1074 : 0x1p-1060;
    rk_task t = task_of(RP_OP_SUM, RP_F64, 0, 0, 1, 1000, x, &cell);
    set_fp_control(hostile);
    rk_cpu_run(&t);
    uint64_t after = fp_control();
    rk_engine *e = open_cpu(1, 0);
    set_fp_control(before);
    assert_int_equal(after, hostile);
    check_task(&t, "hostile environment");
    run(e, &t);
    check_task(&t, "worker of a hostile thread");
    rk_close(e);
}

int main(void)
{
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_every_family),
        cmocka_unit_test(test_changing_data),
        cmocka_unit_test(test_one_positive_zero),
        cmocka_unit_test(test_full_square_lanes),
        cmocka_unit_test(test_every_logarithm),
        cmocka_unit_test(test_blocks_behind_an_anchor),
        cmocka_unit_test(test_a_speck_behind_an_anchor),
        cmocka_unit_test(test_wide_with_specials),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_a_speck_behind_levels),
        cmocka_unit_test(test_odd_elements_in_buckets),
        cmocka_unit_test(test_full_buckets),
        cmocka_unit_test(test_long_integers),
        cmocka_unit_test(test_arg_places),
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_columns_in_parts),
        cmocka_unit_test(test_reply_types),
        cmocka_unit_test(test_short_sums),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_turn),
        cmocka_unit_test(test_columns_by_rows),
        cmocka_unit_test(test_squares_of_ordinary_columns),
    };
    const struct CMUnitTest tasks[] = {
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_columns_of_threads),
        cmocka_unit_test(test_parts_that_cannot_be),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_mask_that_changes),
        cmocka_unit_test(test_large_shapes),
        cmocka_unit_test(test_edges_of_pieces),
        cmocka_unit_test(test_states_in),
        cmocka_unit_test(test_states_with_missing_values),
        cmocka_unit_test(test_states_in_faults),
        cmocka_unit_test(test_too_many_nans),
        cmocka_unit_test(test_overflow_faults),
        cmocka_unit_test(test_nan_and_empty_faults),
        cmocka_unit_test(test_first_bad_row),
        cmocka_unit_test(test_many_in_flight),
        cmocka_unit_test(test_close_with_tasks_queued),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_hostile_environment),
    };
    int failed = ALONE_TOO ? cmocka_run_group_tests(alone, NULL, NULL) : 0;
    return failed + cmocka_run_group_tests(tasks, NULL, NULL);
}
