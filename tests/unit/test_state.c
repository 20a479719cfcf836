/* State arithmetic: rounding, order, conversion, merging, and the checks of states from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "kernels/exact/check.h"
#include "kernels/exact/finish.h"
#include "tests/unit/oracle.h"

/* ---- helpers ---- */

/* The state of a few doubles, as elements of `dtype`. */
static rk_state state_of(int op, int dtype, int nan, const double *x, int n)
{
    uint8_t data[8 * 16] = {0};
    for (int i = 0; i < n; i++)
        t_store(dtype, data + (size_t)i * rp_dtype_size(dtype), x[i]);
    return t_state(op, dtype, data, (uint64_t)n, 0, nan);
}

static rk_state sum_of(int dtype, const double *x, int n) { return state_of(RP_OP_SUM, dtype, 0, x, n); }

static uint64_t finished(const rk_state *s, int out)
{
    rp_spec spec = {.op = RP_OP_SUM, .dtype = s->dtype, .out = (uint8_t)out, .rows = 1};
    uint64_t scratch[RK_FINISH_SCRATCH], words[RP_MAX_CELL_WORDS];
    assert_int_equal(rk_state_finish(s, &spec, scratch, words), RP_OK);
    return words[0];
}

static uint64_t rounded(int dtype, int out, const double *x, int n)
{
    rk_state s = sum_of(dtype, x, n);
    return finished(&s, out);
}
#define ROUNDED(dtype, out, ...) rounded(dtype, out, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static void assert_bits(uint64_t got, uint64_t want) { assert_int_equal(got, want); }

/* ---- rounding ---- */

static void test_ties(void **state)
{
    (void)state;
    assert_bits(ROUNDED(RP_F64, RP_F64, 0x1p53, 1), 0x4340000000000000);             /* down to even */
    assert_bits(ROUNDED(RP_F64, RP_F64, 0x1p53, 2, 1), 0x4340000000000002);          /* up to even */
    assert_bits(ROUNDED(RP_F64, RP_F64, 0x1p53, 1, 0x1p-1074), 0x4340000000000001);  /* just above the tie */
    assert_bits(ROUNDED(RP_F64, RP_F64, 0x1p53, 1, -0x1p-1074), 0x4340000000000000); /* just below */
    assert_bits(ROUNDED(RP_F64, RP_F64, -0x1p53, -1, -0x1p-1074), 0xc340000000000001);
    assert_bits(ROUNDED(RP_F64, RP_F32, 0x1p24, 1), 0x4b800000);
    assert_bits(ROUNDED(RP_F64, RP_F16, 2048, 1, 0x1p-1000), 0x6801);
    assert_bits(ROUNDED(RP_F64, RP_BF16, 256, 1), 0x4380);
    assert_bits(ROUNDED(RP_F64, RP_F64, 0x1.fffffffffffffp52, 0.5), 0x4340000000000000); /* carries into the exponent */
}

/* f64 first would round to the tie, and then the wrong way. */
static void test_no_double_rounding(void **state)
{
    (void)state;
    assert_bits(ROUNDED(RP_F64, RP_F32, 1, 0x1p-24, 0x1p-60), 0x3f800001);
    assert_bits(ROUNDED(RP_F64, RP_F16, 1, 0x1p-11, 0x1p-70), 0x3c01);
}

static void test_subnormals(void **state)
{
    (void)state;
    assert_bits(ROUNDED(RP_F64, RP_F64, 0x1p-1074), 1);
    assert_bits(ROUNDED(RP_F64, RP_F64, 0x1p-1022, -0x1p-1074), 0x000fffffffffffff);
    assert_bits(ROUNDED(RP_F64, RP_F32, 0x1p-150), 0);            /* a tie with zero */
    assert_bits(ROUNDED(RP_F64, RP_F32, 0x1p-150, 0x1p-1074), 1); /* above it */
    assert_bits(ROUNDED(RP_F64, RP_F32, -0x1p-150), 0x80000000);  /* rounds to zero, keeps the sign */
    assert_bits(ROUNDED(RP_F64, RP_F32, -0x1p-1074), 0x80000000);
    assert_bits(ROUNDED(RP_F64, RP_F32, 0x1.8p-149), 2);                /* a tie between subnormals */
    assert_bits(ROUNDED(RP_F64, RP_F16, 0x1.ffep-15, 0x1p-26), 0x0400); /* up into the normal numbers */
    assert_bits(ROUNDED(RP_F32, RP_F32, 0x1p-149, 0x1p-149), 2);
}

static void test_overflow_edge(void **state)
{
    (void)state;
    const double max = 0x1.fffffffffffffp1023;
    assert_bits(ROUNDED(RP_F64, RP_F64, max, 0x1p969), 0x7fefffffffffffff);
    assert_bits(ROUNDED(RP_F64, RP_F64, max, 0x1p970), 0x7ff0000000000000); /* the tie goes to the infinity */
    assert_bits(ROUNDED(RP_F64, RP_F64, max, 0x1p970, -0x1p-1074), 0x7fefffffffffffff);
    assert_bits(ROUNDED(RP_F64, RP_F64, max, max, -max, -max, 1), 0x3ff0000000000000);
    assert_bits(ROUNDED(RP_F64, RP_F64, -max, -max), 0xfff0000000000000);
    assert_bits(ROUNDED(RP_F64, RP_F16, 65519.99), 0x7bff);
    assert_bits(ROUNDED(RP_F64, RP_F16, 65520), 0x7c00);
    assert_bits(ROUNDED(RP_F32, RP_F32, 0x1.fffffep127, 0x1p103), 0x7f800000);
    assert_bits(ROUNDED(RP_F32, RP_F32, 0x1.fffffep127, 0x1p102), 0x7f7fffff);
    assert_bits(ROUNDED(RP_F32, RP_F64, 0x1p127, 0x1p127), 0x47f0000000000000);
}

static void test_zeros_and_specials(void **state)
{
    (void)state;
    rk_state empty = sum_of(RP_F64, NULL, 0);
    assert_bits(finished(&empty, RP_F64), 0);
    assert_bits(ROUNDED(RP_F64, RP_F64, -0.0, -0.0), 0x8000000000000000);
    assert_bits(ROUNDED(RP_F64, RP_F64, -0.0, 0.0), 0);
    assert_bits(ROUNDED(RP_F64, RP_F64, 1, -1), 0);
    assert_bits(ROUNDED(RP_F32, RP_F16, -0.0), 0x8000);
    for (int out = RP_F16; out <= RP_F64; out++) {
        assert_bits(ROUNDED(RP_F64, out, INFINITY, 1), rk_inf_bits(rk_format_of(out)));
        assert_bits(ROUNDED(RP_F32, out, -INFINITY, 1), rk_inf_bits(rk_format_of(out)) | rk_sign_bit(rk_format_of(out), 1));
        assert_bits(ROUNDED(RP_F64, out, -INFINITY, INFINITY), t_canonical_nan(out));
        assert_bits(ROUNDED(RP_F64, out, -NAN, 3), t_canonical_nan(out));
    }
}

/* Random limbs against the bit-by-bit oracle. */
static void test_round_limbs(void **state)
{
    (void)state;
    t_rng r = {2024};
    for (int i = 0; i < 20000; i++) {
        int dtype = i % 2 ? RP_F32 : RP_F64, n = i % 2 ? RK_LIMBS32 : RK_LIMBS64, out = RP_F16 + (int)t_below(&r, 4);
        t_big b = {{0}};
        int from = (int)t_below(&r, (uint64_t)n), to = from + (int)t_below(&r, 3);
        for (int k = from; k <= to && k < n; k++)
            b.w[k] = t_below(&r, 3) ? t_next(&r) : t_below(&r, 2) ? 0 : UINT64_MAX;
        b.w[n - 1] >>= 2;
        if (t_below(&r, 4) == 0) /* close to a tie */
            b.w[0] ^= t_below(&r, 2);
        if (t_below(&r, 2))
            t_big_negate(&b);
        uint64_t want = t_big_round(b, rk_e0(dtype), false, out);
        uint64_t got = rk_round_limbs(b.w, n, rk_e0(dtype), 0, rk_format_of(out));
        if (got != want)
            fail_msg("case %d, %s as %s: got %llx, want %llx", i, rp_dtype_name(dtype), rp_dtype_name(out),
                     (unsigned long long)got, (unsigned long long)want);
    }
}

/* ---- conversion ---- */

static void test_convert_against_casts(void **state)
{
    (void)state;
    t_rng r = {77};
    for (int i = 0; i < 300000; i++) {
        uint64_t b = t_next(&r);
        double d;
        if (i % 3 == 0) /* around the range of f32 and its subnormals */
            b = (b & ~((uint64_t)0x7ff << 52)) | (uint64_t)(1023 - 155 + t_below(&r, 290)) << 52;
        if (i % 5 == 0)
            b &= ~(uint64_t)0x1fffffff | (uint64_t)1 << 28; /* ties and exact values */
        memcpy(&d, &b, 8);
        float f = (float)d;
        uint64_t got = rk_convert_float(RP_F64, b, RP_F32), back = rk_convert_float(RP_F32, got, RP_F64);
        assert_bits(got, isnan(d) ? 0x7fc00000 : T_LOAD(uint32_t, &f));
        double wide = f;
        assert_bits(back, isnan(d) ? t_canonical_nan(RP_F64) : T_LOAD(uint64_t, &wide));
    }
}

/* Every f16 and bf16 survives the way to any wider type and back. */
static void test_convert_16_bits(void **state)
{
    (void)state;
    for (int from = RP_F16; from <= RP_BF16; from++)
        for (uint32_t b = 0; b < 65536; b++) {
            uint16_t h = (uint16_t)b;
            t_value v = t_decode(from, &h);
            double d = (double)v.v;
            uint64_t wide = rk_convert_float(from, b, RP_F64);
            if (v.nan) {
                assert_bits(wide, t_canonical_nan(RP_F64));
                continue;
            }
            assert_bits(wide, T_LOAD(uint64_t, &d));
            assert_bits(rk_convert_float(RP_F64, wide, from), b);
            assert_bits(rk_convert_float(RP_F32, rk_convert_float(from, b, RP_F32), from), b);
            int other = from == RP_F16 ? RP_BF16 : RP_F16;
            if (!isinf(v.v))
                assert_bits(rk_convert_float(from, b, other), t_big_round(t_big_of(v.v, -1075), -1075, signbit(v.v), other));
        }
}

/* ---- order ---- */

static void check_rank(int dtype, uint64_t a, uint64_t b)
{
    t_value x = t_decode(dtype, &a), y = t_decode(dtype, &b);
    for (int least = 0; least <= 1; least++) {
        uint64_t rx = rk_rank(dtype, least, a), ry = rk_rank(dtype, least, b);
        if (x.nan || y.nan)
            assert_true(x.nan ? (y.nan ? rx == ry : rx > ry) : rx < ry);
        else if (least ? t_less(x.v, y.v) : t_less(y.v, x.v))
            assert_true(rx > ry);
        else if (least ? t_less(y.v, x.v) : t_less(x.v, y.v))
            assert_true(rx < ry);
        else
            assert_true(rx == ry);
        assert_bits(rk_unrank(dtype, least, rx), x.nan ? t_canonical_nan(dtype) : a);
    }
}

static void test_ranks(void **state)
{
    (void)state;
    t_rng r = {5};
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++) {
        int width = t_width(dtype);
        uint64_t mask = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
        uint64_t all = width <= 16 ? mask + 1 : 100000, last = 0;
        /* all patterns of 8 and 16 bits, each beside its neighbour and a random one */
        for (uint64_t i = 0; i < all; i++) {
            uint64_t b = width <= 16 ? i : t_next(&r) & mask;
            check_rank(dtype, b, last);
            check_rank(dtype, b, t_next(&r) & mask);
            last = b;
        }
    }
}

/* ---- merging ---- */

static rk_state random_state(t_rng *r, int op, int dtype, int nan, uint64_t index)
{
    uint8_t x[8 * 20];
    uint64_t n = t_below(r, 20);
    t_fill(r, dtype, (int)t_below(r, T_FAMILIES), x, n);
    return t_state(op, dtype, x, n, index, nan);
}

static void test_merge_laws(void **state)
{
    (void)state;
    t_rng r = {31};
    for (int i = 0; i < 20000; i++) {
        int op = 1 + (int)t_below(&r, RP_OP_STATS), dtype = 1 + (int)t_below(&r, 12), nan = (int)t_below(&r, 3);
        if (op >= RP_OP_AND && op <= RP_OP_XOR)
            dtype = RP_I8 + (int)t_below(&r, 8);
        size_t size = rp_state_size(rp_state_layout(op, dtype));
        rk_state a = random_state(&r, op, dtype, nan, 0), b = random_state(&r, op, dtype, nan, 20);
        rk_state c = random_state(&r, op, dtype, nan, 40), ab = a, ba = b, ab_c, bc = b, a_bc = a, none;
        rk_state_merge(&ab, &b);
        rk_state_merge(&ba, &a);
        assert_memory_equal(&ab, &ba, size);
        ab_c = ab;
        rk_state_merge(&ab_c, &c);
        rk_state_merge(&bc, &c);
        rk_state_merge(&a_bc, &bc);
        assert_memory_equal(&ab_c, &a_bc, size);
        rk_state_init(&none, rp_state_layout(op, dtype), dtype);
        rk_state_merge(&none, &a);
        assert_memory_equal(&none, &a, size);
        rp_fault f;
        if (rk_state_check(op, dtype, &ab_c, size, &f) != RP_OK)
            fail_msg("case %d: %s of %s: a merged state is refused: %s %s", i, rp_op_name(op), rp_dtype_name(dtype), f.field,
                     f.text);
    }
}

static void test_delayed_carries(void **state)
{
    (void)state;
    int64_t d[12] = {-1};
    uint64_t limb[6];
    rk_limbs_of_digits(d, limb, 6);
    for (int i = 0; i < 6; i++)
        assert_bits(limb[i], UINT64_MAX);
    memset(d, 0, sizeof d);
    d[0] = INT64_C(1) << 60;
    d[2] = -(INT64_C(1) << 40);
    rk_limbs_of_digits(d, limb, 6);
    assert_bits(limb[0], (uint64_t)1 << 60);
    assert_bits(limb[1], -((uint64_t)1 << 40));
    assert_bits(limb[5], UINT64_MAX);
}

/* ---- states from outside ---- */

static void refused(int op, const rk_state *s, const char *field)
{
    rp_fault f = {.code = RP_OK};
    int layout = rp_state_layout(op, s->dtype);
    assert_int_equal(rk_state_check(op, s->dtype, s, rp_state_size(layout), &f), RP_BAD_MESSAGE);
    assert_int_equal(f.code, RP_BAD_MESSAGE);
    assert_string_equal(f.field, field);
    assert_true(f.text[0] != 0);
}

static void accepted(int op, const rk_state *s)
{
    rp_fault f;
    if (rk_state_check(op, s->dtype, s, rp_state_size(rp_state_layout(op, s->dtype)), &f) != RP_OK)
        fail_msg("refused: %s %s", f.field, f.text);
}

/* A good state with one change. */
#define WITH(good, change)   \
    ({                       \
        rk_state s = (good); \
        change;              \
        s;                   \
    })
#define REFUSED(op, good, change, field)    \
    do {                                    \
        rk_state bad_ = WITH(good, change); \
        refused(op, &bad_, field);          \
    } while (0)
#define ACCEPTED(op, good, change)           \
    do {                                     \
        rk_state good_ = WITH(good, change); \
        accepted(op, &good_);                \
    } while (0)

static void test_check_head(void **state)
{
    (void)state;
    rp_fault f;
    rk_state good = sum_of(RP_F32, (double[]){1, 2}, 2);
    accepted(RP_OP_SUM, &good);
    assert_int_equal(rk_state_check(RP_OP_SUM, RP_F32, &good, 63, &f), RP_BAD_MESSAGE);
    assert_int_equal(f.limit, 64);
    assert_int_equal(rk_state_check(RP_OP_SUM, RP_F32, &good, 64, NULL), RP_OK);
    assert_int_equal(rk_state_check(RP_OP_SUM, RP_F16, &good, 64, &f), RP_BAD_MESSAGE);
    assert_string_equal(f.field, "dtype");
    REFUSED(RP_OP_SUM, good, s.layout = RP_STATE_SUM64, "layout");
    REFUSED(RP_OP_SUM, good, s.special = 4, "special");
    REFUSED(RP_OP_SUM, good, s.nz = 2, "nz");
    REFUSED(RP_OP_SUM, good, s.skipped = 2, "skipped");
    REFUSED(RP_OP_SUM, good, s.zero[0] = 1, "zero");
    REFUSED(RP_OP_SUM, good, s.zero[2] = 128, "zero");
    REFUSED(RP_OP_SUM, good, s.count = RP_MAX_COUNT + 1, "count");
    ACCEPTED(RP_OP_SUM, good, s.count = RP_MAX_COUNT);
    ACCEPTED(RP_OP_SUM, good, s.skipped = 1);
}

static void test_check_float_sums(void **state)
{
    (void)state;
    rk_state good = sum_of(RP_F32, (double[]){1, 2}, 2);
    rk_state infinite = sum_of(RP_F32, (double[]){INFINITY, 2}, 2);
    rk_state empty = sum_of(RP_F32, NULL, 0);
    rk_state most = sum_of(RP_F32, (double[]){-0x1.fffffep127}, 1);
    accepted(RP_OP_SUM, &infinite);
    accepted(RP_OP_SUM, &empty);
    accepted(RP_OP_SUM, &most);
    REFUSED(RP_OP_SUM, infinite, s.limb[3] = 1, "special");
    REFUSED(RP_OP_SUM, infinite, s.nz = 0, "special");
    REFUSED(RP_OP_SUM, infinite, s.count = 0, "special");
    REFUSED(RP_OP_SUM, empty, s.nz = 1, "nz");
    REFUSED(RP_OP_SUM, good, s.nz = 0, "nz");
    REFUSED(RP_OP_SUM, good, s.count = 0, "nz");
    REFUSED(RP_OP_SUM, good, s.limb[5] = (uint64_t)1 << 63, "limbs"); /* far too negative */
    /* 2 * 2^278 units: one more than two elements can have */
    REFUSED(RP_OP_SUM, good, s.limb[4] = (uint64_t)1 << 23, "limbs");
    ACCEPTED(RP_OP_SUM, good, s.limb[4] = (uint64_t)1 << 22);
    REFUSED(RP_OP_SUM, good, s.limb[0] = 1, "limbs"); /* half of the smallest subnormal */
    rk_state half = sum_of(RP_F16, (double[]){65504, 65504}, 2);
    accepted(RP_OP_SUM, &half);
    REFUSED(RP_OP_SUM, half, s.count = 1, "limbs");
    rk_state wide = sum_of(RP_F64, (double[]){0x1.fffffffffffffp1023, 0x1p-1074}, 2);
    accepted(RP_OP_SUM, &wide);
    REFUSED(RP_OP_SUM, wide, s.limb[33] = 1, "limbs");
}

static void test_check_words(void **state)
{
    (void)state;
    int8_t i8[2] = {-128, -128};
    rk_state sum = t_state(RP_OP_SUM, RP_I8, i8, 2, 0, 0);
    accepted(RP_OP_SUM, &sum);
    REFUSED(RP_OP_SUM, sum, s.count = 1, "limbs");
    REFUSED(RP_OP_SUM, sum, s.limb[1] = 0, "limbs");
    REFUSED(RP_OP_SUM, sum, s.nz = 1, "nz");
    REFUSED(RP_OP_SUM, sum, s.special = 1, "special");
    REFUSED(RP_OP_SUM, sum, s.skipped = 1, "skipped");
    uint64_t u64[2] = {UINT64_MAX, UINT64_MAX};
    sum = t_state(RP_OP_SUM, RP_U64, u64, 2, 0, 0);
    accepted(RP_OP_SUM, &sum);
    REFUSED(RP_OP_SUM, sum, s.limb[0]++, "limbs");
    ACCEPTED(RP_OP_SUM, sum, (s.count = RP_MAX_COUNT, s.limb[1] = (uint64_t)1 << 59));
    rk_state count = t_state(RP_OP_COUNT_NONZERO, RP_I8, i8, 2, 0, 0);
    accepted(RP_OP_COUNT_NONZERO, &count);
    REFUSED(RP_OP_COUNT_NONZERO, count, s.limb[0] = 3, "limbs");
    REFUSED(RP_OP_COUNT_NONZERO, count, s.limb[1] = 1, "limbs");
}

static void test_check_choices(void **state)
{
    (void)state;
    float x[2] = {3, NAN};
    rk_state max = t_state(RP_OP_MAX, RP_F32, x, 1, 0, 0), nan = t_state(RP_OP_MAX, RP_F32, x, 2, 0, 0);
    rk_state arg = t_state(RP_OP_ARGMAX, RP_F32, x, 1, 9, 0), none = t_state(RP_OP_MAX, RP_F32, x, 0, 0, 0);
    rk_state no_arg = t_state(RP_OP_ARGMAX, RP_F32, x, 0, 0, 0);
    accepted(RP_OP_MAX, &max);
    accepted(RP_OP_MAX, &nan);
    accepted(RP_OP_ARGMAX, &arg);
    accepted(RP_OP_MAX, &none);
    accepted(RP_OP_ARGMAX, &no_arg);
    REFUSED(RP_OP_MAX, max, s.limb[0] |= (uint64_t)1 << 32, "limbs");
    REFUSED(RP_OP_MAX, max, s.limb[1] = 1, "limbs");
    REFUSED(RP_OP_MAX, nan, s.limb[0]++, "limbs");                    /* a payload */
    REFUSED(RP_OP_MAX, nan, s.limb[0] |= (uint64_t)1 << 31, "limbs"); /* a negative NaN */
    REFUSED(RP_OP_MAX, none, s.limb[0] = 1, "limbs");
    REFUSED(RP_OP_MAX, none, s.limb[1] = UINT64_MAX, "limbs");
    REFUSED(RP_OP_ARGMAX, no_arg, s.limb[1] = 0, "limbs");
    REFUSED(RP_OP_ARGMAX, arg, s.limb[1] = UINT64_MAX, "limbs");
    REFUSED(RP_OP_ARGMAX, arg, s.limb[1] = 2 * RP_MAX_COUNT, "limbs");
    REFUSED(RP_OP_MAX, max, s.nz = 1, "nz");
}

#define OF(op, dtype, nan, ...) \
    state_of(op, dtype, nan, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static void test_check_squares(void **state)
{
    (void)state;
    rk_state sq = OF(RP_OP_SUMSQ, RP_F32, 0, -3, 4), inf = OF(RP_OP_SUMSQ, RP_F32, 0, -INFINITY, 4);
    rk_state most = OF(RP_OP_SUMSQ, RP_F64, 0, 0x1.fffffffffffffp1023, 0x1p-1074);
    accepted(RP_OP_SUMSQ, &sq);
    accepted(RP_OP_NORM2, &inf);
    accepted(RP_OP_SUMSQ, &most);
    REFUSED(RP_OP_SUMSQ, sq, s.nz = 1, "nz");
    REFUSED(RP_OP_SUMSQ, sq, s.special = RK_NINF, "special");
    REFUSED(RP_OP_SUMSQ, inf, s.special = RK_NINF, "special");
    REFUSED(RP_OP_SUMSQ, inf, s.limb[0] = 1, "special");
    REFUSED(RP_OP_SUMSQ, sq, memset(s.limb + 4, 0xff, 48), "limbs"); /* negative */
    REFUSED(RP_OP_SUMSQ, sq, s.limb[0] = 1, "limbs");                /* a quarter of the smallest square */
    ACCEPTED(RP_OP_SUMSQ, sq, s.limb[0] = 4);
    REFUSED(RP_OP_SUMSQ, sq, s.limb[8] = (uint64_t)1 << 45, "limbs"); /* 2 x 2^556 units */
    ACCEPTED(RP_OP_SUMSQ, sq, s.limb[8] = (uint64_t)1 << 44);
    rk_state abs = OF(RP_OP_NORM1, RP_F64, 0, -3, 4);
    accepted(RP_OP_NORM1, &abs);
    REFUSED(RP_OP_NORM1, abs, memset(s.limb + 16, 0xff, 8 * 18), "limbs");
    int8_t i8[2] = {-128, -128};
    sq = t_state(RP_OP_SUMSQ, RP_I8, i8, 2, 0, 0);
    accepted(RP_OP_SUMSQ, &sq);
    REFUSED(RP_OP_SUMSQ, sq, s.limb[0]++, "limbs");
    REFUSED(RP_OP_SUMSQ, sq, s.limb[2] = UINT64_MAX, "limbs");
    abs = t_state(RP_OP_NORM1, RP_I8, i8, 2, 0, 0);
    accepted(RP_OP_NORM1, &abs);
    REFUSED(RP_OP_NORM1, abs, s.limb[0]++, "limbs");
}

/* No state has a negative variance. */
static void test_check_moments(void **state)
{
    (void)state;
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++) {
        rk_state equal = OF(RP_OP_VAR, dtype, 0, 3, 3, 3);
        int squares = rk_sum_limbs(equal.layout);
        accepted(RP_OP_VAR, &equal);
        REFUSED(RP_OP_VAR, equal, s.count = 2, "limbs");
        ACCEPTED(RP_OP_VAR, equal, s.count = 4);
        REFUSED(RP_OP_VAR, equal, memset(s.limb + squares, 0, 8 * (size_t)rk_square_limbs(s.layout)), "limbs");
        REFUSED(RP_OP_VAR, equal, s.nz = 0, "nz");
        REFUSED(RP_OP_VAR, equal, s.special = RK_NAN, "special");
    }
    int64_t x[3] = {INT64_MIN, INT64_MIN, INT64_MIN};
    rk_state equal = t_state(RP_OP_STD, RP_I64, x, 3, 0, 0);
    accepted(RP_OP_STD, &equal);
    REFUSED(RP_OP_STD, equal, s.limb[3]--, "limbs");
    REFUSED(RP_OP_STD, equal, s.limb[2]++, "limbs"); /* above 3 x 2^126 */
}

static void test_check_pairs(void **state)
{
    (void)state;
    rk_state pair = OF(RP_OP_MINMAX, RP_F32, 0, 3, -2), one = OF(RP_OP_MINMAX, RP_F32, 0, 3);
    rk_state nan = OF(RP_OP_MINMAX, RP_F32, 0, 3, NAN), largest = OF(RP_OP_NORMINF, RP_F32, 0, -3);
    accepted(RP_OP_MINMAX, &pair);
    accepted(RP_OP_RANGE, &nan);
    accepted(RP_OP_NORMINF, &largest);
    REFUSED(RP_OP_MINMAX, pair, s.limb[0] = s.limb[1] + 1, "limbs");
    REFUSED(RP_OP_MINMAX, pair, s.limb[1] |= (uint64_t)1 << 32, "limbs");
    REFUSED(RP_OP_MINMAX, one, s.limb[1]++, "limbs");
    REFUSED(RP_OP_MINMAX, one, s.count = 0, "limbs");
    REFUSED(RP_OP_RANGE, nan, s.limb[0] = 0, "limbs");
    REFUSED(RP_OP_NORMINF, largest, s.limb[0] |= (uint64_t)1 << 31, "limbs");
    int8_t i8 = -128;
    largest = t_state(RP_OP_NORMINF, RP_I8, &i8, 1, 0, 0);
    accepted(RP_OP_NORMINF, &largest);
    REFUSED(RP_OP_NORMINF, largest, s.limb[0] = 129, "limbs");
}

static void test_check_nans_and_bits(void **state)
{
    (void)state;
    rk_state nans = OF(RP_OP_COUNT_NAN, RP_F32, RP_NAN_ERROR, NAN, 1, NAN);
    accepted(RP_OP_COUNT_NAN, &nans);
    REFUSED(RP_OP_COUNT_NAN, nans, s.limb[0] = 4, "limbs");
    REFUSED(RP_OP_COUNT_NAN, nans, s.limb[0] = 0, "skipped");
    uint8_t u8[2] = {12, 10};
    rk_state none = t_state(RP_OP_COUNT_NAN, RP_U8, u8, 2, 0, 0);
    REFUSED(RP_OP_COUNT_NAN, none, s.limb[0] = 3, "limbs");
    for (int op = RP_OP_AND; op <= RP_OP_XOR; op++) {
        rk_state bits = t_state(op, RP_U8, u8, 2, 0, 0), empty = t_state(op, RP_U8, u8, 0, 0, 0);
        accepted(op, &bits);
        accepted(op, &empty);
        REFUSED(op, bits, s.limb[0] = 256, "limbs");
        REFUSED(op, bits, s.limb[1] = 1, "limbs");
        REFUSED(op, empty, s.limb[0] ^= 1, "limbs");
    }
}

static void test_check_products(void **state)
{
    (void)state;
    rk_state p = OF(RP_OP_PROD, RP_F32, 0, 3, -4), zero = OF(RP_OP_PROD, RP_F32, 0, 3, -0.0), none = p;
    rk_state nan = OF(RP_OP_PROD, RP_F32, 0, 0, INFINITY), least = OF(RP_OP_PROD, RP_F32, 0, 0x1p-149);
    rk_state_init(&none, RP_STATE_PROD, RP_F32);
    accepted(RP_OP_PROD, &p);
    accepted(RP_OP_PROD, &zero);
    accepted(RP_OP_PROD, &nan);
    accepted(RP_OP_PROD, &none);
    accepted(RP_OP_PROD, &least);
    REFUSED(RP_OP_PROD, p, s.limb[3] = 3, "limbs");
    REFUSED(RP_OP_PROD, p, s.limb[2] = 1, "limbs");
    REFUSED(RP_OP_PROD, p, s.special = 4, "special");
    REFUSED(RP_OP_PROD, p, s.special = RK_ZERO, "special");
    REFUSED(RP_OP_PROD, nan, s.limb[3] = 1, "limbs");
    REFUSED(RP_OP_PROD, none, s.limb[0] = 1, "limbs");
    REFUSED(RP_OP_PROD, least, s.limb[1]--, "limbs");
}

static void test_check_int_products(void **state)
{
    (void)state;
    int8_t x[3] = {-7, 5, 0}, most[10];
    memset(most, -128, sizeof most);
    rk_state p = t_state(RP_OP_PROD, RP_I8, x, 2, 0, 0), zero = t_state(RP_OP_PROD, RP_I8, x, 3, 0, 0);
    rk_state over = t_state(RP_OP_PROD, RP_I8, most, 10, 0, 0), none = t_state(RP_OP_PROD, RP_I8, x, 0, 0, 0);
    accepted(RP_OP_PROD, &p);
    accepted(RP_OP_PROD, &zero);
    accepted(RP_OP_PROD, &over);
    accepted(RP_OP_PROD, &none);
    REFUSED(RP_OP_PROD, p, s.limb[RK_PROD_WRAPPED] = 35, "limbs"); /* the wrong sign */
    REFUSED(RP_OP_PROD, p, s.limb[RK_PROD_NEGATIVES] = 3, "limbs");
    REFUSED(RP_OP_PROD, p, s.limb[RK_PROD_MAGNITUDE] = 0, "limbs"); /* two of i8 are no 2^64 */
    REFUSED(RP_OP_PROD, p, (s.limb[RK_PROD_MAGNITUDE] = 16385, s.limb[RK_PROD_WRAPPED] = -UINT64_C(16385)), "limbs");
    ACCEPTED(RP_OP_PROD, p, (s.limb[RK_PROD_MAGNITUDE] = 16384, s.limb[RK_PROD_WRAPPED] = -UINT64_C(16384)));
    REFUSED(RP_OP_PROD, zero, s.limb[RK_PROD_WRAPPED] = 1, "limbs");
    REFUSED(RP_OP_PROD, zero, s.count = 0, "special");
    REFUSED(RP_OP_PROD, zero, s.special = RK_INF, "special");
    REFUSED(RP_OP_PROD, over, s.count = 9, "limbs");
    REFUSED(RP_OP_PROD, none, s.limb[RK_PROD_MAGNITUDE] = 2, "limbs");
    uint8_t u = 3;
    p = t_state(RP_OP_PROD, RP_U8, &u, 1, 0, 0);
    REFUSED(RP_OP_PROD, p, (s.limb[RK_PROD_NEGATIVES] = 1, s.limb[RK_PROD_WRAPPED] = -UINT64_C(3)), "limbs");
}

static void test_check_stats(void **state)
{
    (void)state;
    rk_state good = OF(RP_OP_STATS, RP_F32, RP_NAN_PROPAGATE, 3, 0, -2), nan = OF(RP_OP_STATS, RP_F32, 0, 3, NAN);
    rk_state skipped = OF(RP_OP_STATS, RP_F32, RP_NAN_OMIT, 3, NAN), none = OF(RP_OP_STATS, RP_F32, RP_NAN_OMIT, NAN, NAN);
    const int at = rk_sum_limbs(good.layout) + rk_square_limbs(good.layout);
    accepted(RP_OP_STATS, &good);
    accepted(RP_OP_STATS, &nan);
    accepted(RP_OP_STATS, &skipped);
    accepted(RP_OP_STATS, &none);
    REFUSED(RP_OP_STATS, good, s.limb[at + RK_STATS_ZEROS] = 4, "limbs");
    REFUSED(RP_OP_STATS, good, s.limb[at + RK_STATS_NANS] = 1, "limbs");
    REFUSED(RP_OP_STATS, good, s.limb[at + RK_STATS_MIN_INDEX] = RP_NO_INDEX, "limbs");
    REFUSED(RP_OP_STATS, good, s.limb[at + RK_STATS_MAX] = 0xff800000, "limbs");
    REFUSED(RP_OP_STATS, good, s.count = 1, "limbs");
    REFUSED(RP_OP_STATS, good, s.skipped = 1, "skipped");
    REFUSED(RP_OP_STATS, nan, s.limb[at + RK_STATS_NANS] = 0, "limbs");
    REFUSED(RP_OP_STATS, nan, s.limb[at + RK_STATS_NANS] = 3, "limbs");
    REFUSED(RP_OP_STATS, nan, s.limb[at + RK_STATS_MIN] = 0, "limbs");
    REFUSED(RP_OP_STATS, skipped, s.skipped = 0, "limbs");
    REFUSED(RP_OP_STATS, skipped, s.limb[at + RK_STATS_NANS] = RP_MAX_COUNT + 1, "limbs");
    REFUSED(RP_OP_STATS, none, s.limb[at + RK_STATS_MAX] = 1, "limbs");
    REFUSED(RP_OP_STATS, none, s.limb[at + RK_STATS_MAX_INDEX] = 0, "limbs");
    uint16_t u16[2] = {5, 9};
    rk_state whole = t_state(RP_OP_STATS, RP_U16, u16, 2, 0, 0);
    accepted(RP_OP_STATS, &whole);
    REFUSED(RP_OP_STATS, whole, s.limb[2 + 3 + RK_STATS_NANS] = 1, "limbs");
    REFUSED(RP_OP_STATS, whole, s.limb[2] = 97, "limbs"); /* below 14^2 / 2 */
    rk_state holes = whole;
    rk_state_missing(&holes, 0);
    assert_memory_equal(&holes, &whole, rp_state_size(whole.layout));
    rk_state_missing(&holes, 4);
    accepted(RP_OP_STATS, &holes);
    REFUSED(RP_OP_STATS, holes, s.skipped = 0, "limbs");
    REFUSED(RP_OP_STATS, holes, s.limb[2 + 3 + RK_STATS_NANS] = 0, "skipped");
    REFUSED(RP_OP_STATS, holes, s.limb[2 + 3 + RK_STATS_NANS] = RP_MAX_COUNT + 1, "limbs");
    rk_state sum = t_state(RP_OP_SUM, RP_U16, u16, 2, 0, 0), nans = t_state(RP_OP_COUNT_NAN, RP_U16, u16, 2, 0, 0);
    rk_state_missing(&sum, 4);
    rk_state_missing(&nans, 4);
    accepted(RP_OP_COUNT_NAN, &nans);
    assert_int_equal(sum.skipped, 0);
    REFUSED(RP_OP_SUM, sum, s.skipped = 1, "skipped");
    REFUSED(RP_OP_COUNT_NAN, nans, s.skipped = 1, "skipped");
    REFUSED(RP_OP_COUNT_NAN, nans, s.limb[0] = 7, "limbs");
}

/* For any bytes the check ends and gives a valid answer. */
static void test_check_noise(void **state)
{
    (void)state;
    t_rng r = {8};
    for (int i = 0; i < 50000; i++) {
        int op = 1 + (int)t_below(&r, RP_OP_STATS), dtype = 1 + (int)t_below(&r, 12);
        if (op >= RP_OP_AND && op <= RP_OP_XOR)
            dtype = RP_I8 + (int)t_below(&r, 8);
        rk_state s = random_state(&r, op, dtype, (int)t_below(&r, 3), 0);
        size_t size = rp_state_size(rp_state_layout(op, dtype));
        ((uint8_t *)&s)[t_below(&r, size)] ^= (uint8_t)(1 + t_below(&r, 255));
        rp_fault f;
        if (rk_state_check(op, dtype, &s, size, &f) == RP_OK) {
            rp_spec spec = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .rows = 1};
            uint64_t scratch[RK_FINISH_SCRATCH], words[RP_MAX_CELL_WORDS];
            assert_int_equal(rp_spec_check(&spec, NULL), RP_OK);
            rk_state_finish(&s, &spec, scratch, words);
        } else {
            assert_true(f.field[0] && f.text[0]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_no_double_rounding),
        cmocka_unit_test(test_subnormals),
        cmocka_unit_test(test_overflow_edge),
        cmocka_unit_test(test_zeros_and_specials),
        cmocka_unit_test(test_round_limbs),
        cmocka_unit_test(test_convert_against_casts),
        cmocka_unit_test(test_convert_16_bits),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_merge_laws),
        cmocka_unit_test(test_delayed_carries),
        cmocka_unit_test(test_check_head),
        cmocka_unit_test(test_check_float_sums),
        cmocka_unit_test(test_check_words),
        cmocka_unit_test(test_check_choices),
        cmocka_unit_test(test_check_squares),
        cmocka_unit_test(test_check_moments),
        cmocka_unit_test(test_check_pairs),
        cmocka_unit_test(test_check_nans_and_bits),
        cmocka_unit_test(test_check_products),
        cmocka_unit_test(test_check_int_products),
        cmocka_unit_test(test_check_stats),
        cmocka_unit_test(test_check_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
