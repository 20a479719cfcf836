/* Products of floats: rounding against exact big integers and the machine's own multiplication; order, edges, ties. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fenv.h>
#include <stdio.h>

#include "kernels/exact/product_pair.h"
#include "tests/unit/oracle.h"

static const int FLOATS[] = {RP_F16, RP_BF16, RP_F32, RP_F64};
enum { MANY = 12000 };

/* ---- the exact product: words * 2^unit, multiplied out ---- */

typedef struct exact {
    uint64_t *word;
    int words, unit, negative;
} exact;

static void times(exact *p, int dtype, uint64_t bits)
{
    int e;
    long double v = t_decode(dtype, &bits).v, m = frexpl(fabsl(v), &e);
    uint64_t factor = (uint64_t)ldexpl(m, 64), carry = 0;
    int zeros = __builtin_ctzll(factor);
    factor >>= zeros;
    p->unit += e - 64 + zeros;
    p->negative ^= signbit(v) != 0;
    for (int i = 0; i < p->words; i++) {
        unsigned __int128 t = (unsigned __int128)p->word[i] * factor + carry;
        p->word[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
    if (carry)
        p->word[p->words++] = carry;
}

static uint64_t round_exact(int dtype, const uint64_t *x, int n, int out)
{
    uint64_t *word = calloc((size_t)n + 1, sizeof *word);
    assert_non_null(word);
    exact p = {word, 1, 0, 0};
    word[0] = 1;
    for (int i = 0; i < n; i++)
        times(&p, dtype, x[i]);
    t_big b = {{0}}; /* the highest words; what lies below only has to be seen */
    int first = p.words > 8 ? p.words - 8 : 0, below = 0;
    for (int i = 0; i < first; i++)
        below |= word[i] != 0;
    for (int i = first; i < p.words; i++)
        b.w[i - first + 1] = word[i];
    b.w[0] = (uint64_t)below;
    if (p.negative)
        t_big_negate(&b);
    uint64_t bits = t_big_round(b, p.unit + 64 * (first - 1), false, out);
    free(word);
    return bits;
}

/* ---- the one that is tested ---- */

static void add(uint64_t acc[4], int dtype, uint64_t bits)
{
    rk_format f = rk_format_of(dtype);
    rk_log2_add(acc, f, bits & ~rk_sign_bit(f, 1));
    acc[3] += bits >> (f.width - 1);
}

static uint64_t finished(const uint64_t acc[4], int out) { return rk_exp2_round(acc, (int)(acc[3] & 1), rk_format_of(out)); }

/* ---- in two doubles (product_pair.h) ---- */

static long pairs, certain_pairs;

/* Several pairs, normalised every `steps` factors, and joined */
static rk_product_pair pair_of(int dtype, const uint64_t *x, int n, int parts, int steps)
{
    rk_format f = rk_format_of(dtype);
    rk_product_pair all = rk_pair_one();
    for (int k = 0; k < parts; k++) {
        rk_product_pair part = rk_pair_one();
        for (int i = k, step = 1; i < n; i += parts, step++) {
            int exponent;
            rk_pair_times(&part.high, &part.low, rk_pair_factor(f, x[i] & ~rk_sign_bit(f, 1), &exponent));
            part.exponent += exponent;
            if (step % steps == 0)
                part.exponent += rk_pair_normalise(&part.high, &part.low);
        }
        part.exponent += rk_pair_normalise(&part.high, &part.low);
        rk_pair_join(&all, part);
    }
    return all;
}

/* Where the rounding of pairs is certain, it is that of the logarithms. */
static void check_pairs(int dtype, const uint64_t *x, int n, int out, uint64_t want)
{
    int negatives = 0;
    for (int i = 0; i < n; i++)
        negatives += (int)(x[i] >> (rk_format_of(dtype).width - 1));
    for (int way = 0; way < 2; way++) {
        uint64_t got;
        rk_product_pair p = pair_of(dtype, x, n, way ? 3 : 1, way ? 5 : RK_PAIR_STEPS);
        int certain = rk_pair_round(p, (uint64_t)n, negatives & 1, rk_format_of(out), &got);
        pairs++;
        certain_pairs += certain;
        if (certain && got != want)
            fail_msg("%s -> %s, %d elements in pairs: %#llx, not %#llx", rp_dtype_name(dtype), rp_dtype_name(out), n,
                     (unsigned long long)got, (unsigned long long)want);
    }
}

/* ---- */

static uint64_t product(int dtype, const uint64_t *x, int n, int out)
{
    uint64_t acc[4] = {0};
    for (int i = 0; i < n; i++)
        add(acc, dtype, x[i]);
    uint64_t bits = finished(acc, out);
    check_pairs(dtype, x, n, out, bits);
    return bits;
}

static void check(int dtype, const uint64_t *x, int n, int out)
{
    uint64_t got = product(dtype, x, n, out), want = round_exact(dtype, x, n, out);
    if (got != want)
        fail_msg("%s -> %s, %d elements from %#llx: %#llx, exactly %#llx", rp_dtype_name(dtype), rp_dtype_name(out), n,
                 (unsigned long long)x[0], (unsigned long long)got, (unsigned long long)want);
}

static uint64_t bits_of(double v) { return T_LOAD(uint64_t, &v); }
static double double_of(uint64_t bits) { return T_LOAD(double, &bits); }

#define PRODUCT(out, ...) \
    double_of(product_of_doubles((double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double), out))
static uint64_t product_of_doubles(const double *v, size_t n, int out)
{
    uint64_t x[16] = {0};
    for (size_t i = 0; i < n; i++)
        x[i] = bits_of(v[i]);
    return product(RP_F64, x, (int)n, out);
}

/* A finite element that is not zero, with that exponent field. `short_one`: few bits in the fraction. */
static uint64_t element(t_rng *r, int dtype, uint64_t field, bool short_one)
{
    rk_format f = rk_format_of(dtype);
    uint64_t fraction = t_next(r) >> (65 - f.precision), sign = t_next(r) & rk_sign_bit(f, 1);
    if (short_one)
        fraction &= ~(uint64_t)0 << t_below(r, (uint64_t)f.precision);
    if (!field && !fraction)
        fraction = 1;
    return sign | field << (f.precision - 1) | fraction;
}

/* Elements whose product stays near one; `spread`: how far from it a single one may be, in powers of two. */
static void fill(t_rng *r, int dtype, uint64_t *x, int n, int spread)
{
    rk_format f = rk_format_of(dtype);
    int sum = 0, emax = 1 - f.emin;
    for (int i = 0; i < n; i++) {
        int e = (int)t_below(r, (uint64_t)(spread < emax ? spread : emax) + 1);
        if (sum > 0 || (sum == 0 && t_below(r, 2)))
            e = -e;
        sum += e;
        x[i] = element(r, dtype, (uint64_t)(e + emax), t_below(r, 4) == 0);
    }
}

/* ---- exact cases ---- */

static void test_powers_of_two(void **state)
{
    (void)state;
    uint64_t acc[4] = {0};
    for (uint64_t field = 0; field < 2047; field++)
        add(acc, RP_F64, field ? field << 52 : 1);
    /* -1074, and -1022 .. 1023 */
    uint64_t e = (uint64_t)(-1074 + 1023);
    assert_int_equal(acc[0], 0);
    assert_int_equal(acc[1], e << 48);
    assert_int_equal(acc[2], ~(uint64_t)0);
    assert_true(PRODUCT(RP_F64, 0x1p-1074, 0x1p1023, 0x1p51) == 1);
    assert_true(PRODUCT(RP_F64, 0x1p1023, 0x1p1023, 0x1p-1074, 0x1p-1074, -0x1p100) == -0x1p-2);
    assert_int_equal(product(RP_F64, NULL, 0, RP_F64), bits_of(1.0));
}

static void test_small_integers(void **state)
{
    (void)state;
    uint64_t acc[4] = {0};
    double exactly = 1;
    for (int i = 1; i <= 22; i++) { /* 22! has 51 bits above its zeros */
        add(acc, RP_F64, bits_of(i));
        exactly *= i;
        assert_int_equal(finished(acc, RP_F64), bits_of(exactly));
    }
    uint64_t threes[4] = {0};
    exactly = 1;
    for (int i = 1; i <= 33; i++) { /* 3^33 < 2^53 */
        add(threes, RP_F64, bits_of(i % 2 ? -3 : 3));
        exactly *= i % 2 ? -3 : 3;
        assert_int_equal(finished(threes, RP_F64), bits_of(exactly));
    }
    assert_true(PRODUCT(RP_F64, 0.1, 10) == 1); /* a tie between 1 and the number above: to even */
    assert_true(PRODUCT(RP_F64, 0x1.fffffffffffffp0, 0x1p0) == 0x1.fffffffffffffp0);
    assert_true(PRODUCT(RP_F64, 0x1.fffffffffffffp-1, 0x1.0000000000001p0) == 1); /* 1 + 2^-53 - 2^-105 */
}

/* 3 * 683 lies between two f16; so do many products of small integers. */
static void test_ties_of_narrow_types(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++) {
        int dtype = FLOATS[t];
        double most = ldexp(1, rk_format_of(dtype).precision < 12 ? rk_format_of(dtype).precision : 12);
        for (double a = 1; a < most; a += 2)
            for (double b = 1; b < 64; b += 2) {
                uint64_t x[2] = {0, 0};
                t_store(dtype, &x[0], a);
                t_store(dtype, &x[1], b);
                check(dtype, x, 2, dtype);
            }
    }
}

static void test_pairs_of_doubles(void **state)
{
    (void)state;
    t_rng r = {11};
    assert_int_equal(fegetround(), FE_TONEAREST);
    for (int i = 0; i < 300000; i++) {
        uint64_t x[2], mask = i % 3 == 0 ? ~(uint64_t)0 << 26 : ~(uint64_t)0; /* many ties: 27 by 27 bits */
        for (int k = 0; k < 2; k++)
            x[k] = element(&r, RP_F64, t_below(&r, 2047), false) & (mask | 1);
        if (i % 3 == 0)
            for (int k = 0; k < 2; k++)
                x[k] = (x[k] & ~(uint64_t)1) | (uint64_t)1 << 26;
        if (!(x[0] << 1) || !(x[1] << 1))
            continue;
        double want = double_of(x[0]) * double_of(x[1]);
        if (product(RP_F64, x, 2, RP_F64) != bits_of(want))
            fail_msg("%a * %a", double_of(x[0]), double_of(x[1]));
    }
}

/* The product of two odd significands is one unit of its 106 bits above or below a tie. */
static void test_pairs_beside_ties(void **state)
{
    (void)state;
    t_rng r = {17};
    const uint64_t below_53 = ((uint64_t)1 << 53) - 1, tie = (uint64_t)1 << 52;
    int tested = 0;
    while (tested < 2000) {
        uint64_t a = (t_next(&r) & below_53) | tie | 1, inverse = 1;
        for (int i = 0; i < 6; i++) /* Newton, modulo 2^64 */
            inverse *= 2 - a * inverse;
        uint64_t b = (tie + (tested % 2 ? 1 : ~(uint64_t)0)) * inverse & below_53;
        if (b < tie || (unsigned __int128)a * b >> 105 == 0)
            continue;
        tested++;
        double x = (double)a, y = (double)b;
        assert_int_equal(product_of_doubles((double[]){x, y}, 2, RP_F64), bits_of(x * y));
    }
}

/* Odd numbers whose product has 54 bits */
static void test_ties_of_many_elements(void **state)
{
    (void)state;
    t_rng r = {18};
    int ties = 0, longest = 0;
    for (int i = 0; i < 3000; i++) {
        uint64_t x[60], exactly = 1, most = 3 + 2 * t_below(&r, i % 2 ? 3 : 300);
        int n = 0;
        while (exactly >> 53 == 0) {
            uint64_t v = i < 100 ? (uint64_t)(2 * i + 3) : 3 + (t_below(&r, most) & ~(uint64_t)1);
            exactly *= v;
            x[n++] = bits_of((double)v);
        }
        if (exactly >> 54)
            continue;
        ties++;
        longest = n > longest ? n : longest;
        assert_int_equal(product(RP_F64, x, n, RP_F64), bits_of((double)exactly));
    }
    assert_true(ties > 500 && longest == 34);
}

static void test_up_to_106_bits(void **state)
{
    (void)state;
    static const int fits[] = {9, 13, 4, 2};
    t_rng r = {12};
    for (int t = 0; t < 4; t++)
        for (int out = 0; out < 4; out++)
            for (int i = 0; i < 3000; i++) {
                uint64_t x[16];
                int n = 1 + (int)t_below(&r, (uint64_t)fits[t]);
                fill(&r, FLOATS[t], x, n, i % 2 ? 2 : 40);
                check(FLOATS[t], x, n, FLOATS[out]);
            }
}

/* ---- sums of logarithms that few arrays have ---- */

static void test_far_exponents(void **state)
{
    (void)state;
    const uint64_t five = (uint64_t)5 << 48;
    uint64_t just_below_zero[4] = {~(uint64_t)0, ~(uint64_t)0, ~(uint64_t)0, 0};
    assert_true(double_of(finished(just_below_zero, RP_F64)) == 1);
    for (int64_t above = -4; above <= 4; above++) { /* 2^(5 + 65536 above) */
        uint64_t acc[4] = {0, five, (uint64_t)above, 0}, negative[4] = {0, 0 - five, (uint64_t)above, 0};
        assert_true(double_of(finished(acc, RP_F64)) == (above < 0 ? 0 : above ? INFINITY : 32));
        assert_true(double_of(finished(negative, RP_F64)) == (above < -1 ? 0 : above < 0 ? 0x1p-5 : INFINITY));
    }
}

/* ---- any arrays ---- */

static void test_random_arrays(void **state)
{
    (void)state;
    t_rng r = {13};
    static uint64_t x[500];
    for (int i = 0; i < 2000; i++) {
        int dtype = FLOATS[t_below(&r, 4)], n = 1 + (int)t_below(&r, t_below(&r, 10) ? 40 : 500);
        fill(&r, dtype, x, n, (int[]){0, 3, 20, 1000}[t_below(&r, 4)]);
        for (int out = 0; out < 4; out++)
            check(dtype, x, n, FLOATS[out]);
    }
}

/* Only what lies near a tie is not certain: one of 2^40 of random doubles, more of narrower results of few elements. */
static void test_certain(void **state)
{
    (void)state;
    t_rng r = {19};
    static uint64_t x[400];
    pairs = certain_pairs = 0;
    for (int i = 0; i < 20000; i++) {
        int n = 20 + (int)t_below(&r, 380);
        fill(&r, RP_F64, x, n, 20);
        product(RP_F64, x, n, RP_F64);
    }
    assert_int_equal(certain_pairs, pairs);
    const uint64_t representable[] = {bits_of(3), bits_of(-0.75), bits_of(0x1p-1074), bits_of(1)};
    product(RP_F64, representable, 4, RP_F64); /* a product that is not halfway */
    assert_int_equal(certain_pairs, pairs);
    const uint64_t tie[] = {bits_of(1.5), bits_of(0x1.0000000000001p0)};
    pairs = certain_pairs = 0;
    product(RP_F64, tie, 2, RP_F64);
    assert_true(pairs == 2 && certain_pairs == 0);
}

static void test_many_elements(void **state)
{
    (void)state;
    t_rng r = {14};
    static uint64_t x[MANY];
    for (int t = 0; t < 4; t++) {
        fill(&r, FLOATS[t], x, MANY, 5);
        for (int out = 0; out < 4; out++)
            check(FLOATS[t], x, MANY, FLOATS[out]);
    }
}

/* Elements of every size, subnormal ones too: the product soon leaves the range, or lies among the subnormals. */
static void test_full_range(void **state)
{
    (void)state;
    t_rng r = {15};
    int finite = 0, infinite = 0, zero = 0, subnormal = 0;
    for (int i = 0; i < 40000; i++) {
        int dtype = FLOATS[t_below(&r, 4)], out = FLOATS[t_below(&r, 4)], n = 1 + (int)t_below(&r, 6);
        rk_format f = rk_format_of(dtype), o = rk_format_of(out);
        uint64_t x[6], fields = rk_inf_bits(f) >> (f.precision - 1);
        for (int k = 0; k < n; k++)
            x[k] = element(&r, dtype, t_below(&r, 8) ? t_below(&r, fields) : 0, t_below(&r, 3) == 0);
        check(dtype, x, n, out);
        uint64_t magnitude = product(dtype, x, n, out) & ~rk_sign_bit(o, 1);
        infinite += magnitude == rk_inf_bits(o);
        zero += magnitude == 0;
        subnormal += magnitude && magnitude >> (o.precision - 1) == 0;
        finite += magnitude && magnitude < rk_inf_bits(o);
    }
    assert_true(finite > 1000 && infinite > 1000 && zero > 1000 && subnormal > 100);
}

static void test_edges(void **state)
{
    (void)state;
    double most = 0x1.fffffffffffffp1023;
    assert_true(PRODUCT(RP_F64, most) == most);
    assert_true(PRODUCT(RP_F64, most, 0x1.0000000000001p0) == INFINITY);
    assert_true(PRODUCT(RP_F64, -0x1p512, 0x1p512) == -INFINITY);
    assert_true(PRODUCT(RP_F64, 0x1.fffffffffffffp512, 0x1p511) == most);
    assert_true(PRODUCT(RP_F64, 0x1p-1074, 0.5) == 0); /* a tie */
    assert_true(signbit(PRODUCT(RP_F64, -0x1p-1074, 0.5)));
    assert_true(PRODUCT(RP_F64, 0x1p-1074, 0x1.0000000000001p-1) == 0x1p-1074);
    assert_true(PRODUCT(RP_F64, 0x1p-1074, 1.5) == 0x1p-1073);                         /* a tie */
    assert_true(PRODUCT(RP_F64, 0x1.fffffffffffffp-1022, 0.5) == 0x1p-1022);           /* up into the normal numbers, a tie */
    assert_int_equal(product_of_doubles((double[]){255.5, 256.5}, 2, RP_F16), 0x7c00); /* 65535.75 */
    assert_int_equal(product_of_doubles((double[]){65519, 1}, 2, RP_F16), 0x7bff);     /* below 65520, half way to 65536 */
    assert_int_equal(product_of_doubles((double[]){0x1p-13, 0x1p-12}, 2, RP_F16), 0);
}

/* 2^60 equal elements by doubling: of the largest and of the smallest magnitude */
static void test_as_many_as_there_may_be(void **state)
{
    (void)state;
    const uint64_t element_bits[] = {0x7fefffffffffffff, 1, 0x3ff0000000000001, 0x3fefffffffffffff};
    const double want[] = {INFINITY, 0, exp(0x1p8), exp(-0x1p7)};
    for (int i = 0; i < 4; i++) {
        uint64_t acc[4] = {0};
        add(acc, RP_F64, element_bits[i]);
        for (int k = 0; k < 60; k++)
            rk_add_limbs(acc, acc, 3);
        double got = double_of(finished(acc, RP_F64));
        /* (1 + 2^-52)^(2^60) = e^(2^8 - 2^-45 ..) */
        assert_true(got == want[i] || fabs(got / want[i] - 1) < 0x1p-40);
        assert_int_equal((int64_t)acc[2] < 0, i % 2);
    }
}

/* ---- order ---- */

static void test_any_order_and_split(void **state)
{
    (void)state;
    t_rng r = {16};
    static uint64_t x[3000];
    enum { N = sizeof x / sizeof *x };
    for (int t = 0; t < 4; t++) {
        rk_format f = rk_format_of(FLOATS[t]);
        fill(&r, FLOATS[t], x, N, 200);
        uint64_t want[4] = {0};
        for (int i = 0; i < N; i++)
            add(want, FLOATS[t], x[i]);
        for (int round = 0; round < 20; round++) {
            uint64_t part[8][4] = {{0}};
            rk_log2_batch batch[8] = {{0, 0}};
            for (int i = N - 1; i > 0; i--) {
                int k = (int)t_below(&r, (uint64_t)i + 1);
                uint64_t swap = x[i];
                x[i] = x[k];
                x[k] = swap;
            }
            for (int i = 0; i < N; i++) {
                uint64_t p = t_below(&r, 8);
                if (p < 4)
                    add(part[p], FLOATS[t], x[i]);
                else
                    rk_log2_collect(&batch[p], f, x[i] & ~rk_sign_bit(f, 1));
                part[p][3] += p < 4 ? 0 : x[i] >> (f.width - 1);
            }
            uint64_t got[4] = {0};
            for (int p = 7; p >= 0; p--) {
                rk_log2_flush(part[p], &batch[p]);
                rk_add_limbs(got, part[p], 3);
                got[3] += part[p][3];
            }
            assert_memory_equal(got, want, sizeof want);
        }
    }
}

static void test_full_batch(void **state)
{
    (void)state;
    const uint64_t elements[] = {0x7fefffffffffffff, 0x000fffffffffffff};
    for (int i = 0; i < 2; i++) {
        uint64_t at_once[3] = {5, 6, 7}, singly[3] = {5, 6, 7};
        rk_log2_batch b = {0, 0};
        for (int k = 0; k < RK_LOG2_BATCH; k++) {
            rk_log2_collect(&b, rk_format_of(RP_F64), elements[i]);
            rk_log2_add(singly, rk_format_of(RP_F64), elements[i]);
        }
        rk_log2_flush(at_once, &b);
        assert_memory_equal(at_once, singly, sizeof singly);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_powers_of_two),
        cmocka_unit_test(test_small_integers),
        cmocka_unit_test(test_ties_of_narrow_types),
        cmocka_unit_test(test_pairs_of_doubles),
        cmocka_unit_test(test_pairs_beside_ties),
        cmocka_unit_test(test_ties_of_many_elements),
        cmocka_unit_test(test_up_to_106_bits),
        cmocka_unit_test(test_far_exponents),
        cmocka_unit_test(test_random_arrays),
        cmocka_unit_test(test_certain),
        cmocka_unit_test(test_many_elements),
        cmocka_unit_test(test_full_range),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_as_many_as_there_may_be),
        cmocka_unit_test(test_any_order_and_split),
        cmocka_unit_test(test_full_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
