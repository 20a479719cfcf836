/* Sums of elements whose exponents lie too far apart for the block paths (the "large superaccumulator" of Neal 2015,
 * arXiv:1505.05571). An f64 goes to one bucket for each sign and exponent (with AVX-512: exponent_slots.h). Two f32 are added
 * together to a pair of doubles, one of 256 pairs chosen by the classes of both exponents: adding to memory takes as long for
 * two as for one. Callers handle the signs of zeros. */
#ifndef RK_CPU_BUCKETS_H
#define RK_CPU_BUCKETS_H

#include "kernels/cpu/loops/inexact.h"
#include "kernels/cpu/loops/sums/digits.h"
#if VB == 64
#include "kernels/cpu/loops/sums/exponent_slots.h"
#else

/* ---- f64 ---- */

enum {
    FEW64 = 6000, /* for shorter arrays clearing and emptying the buckets takes longer */
    FOLD = 16,    /* neighbouring buckets that are emptied together */
    FULL64 = 51   /* log2 of the adds after which they are emptied: twice as many would still fit */
};

/* The sum of an exponent's bucket minus that of its negative elements. */
INLINE i128 both_signs(const acc *a, u128 positive, u128 negative)
{
    return a->magnitudes ? (i128)(positive + negative) : (i128)(positive - negative);
}

INLINE void clear_buckets64(acc *a)
{
    memset(a->bucket, 0, sizeof a->bucket);
    memset(a->over, 0, sizeof a->over);
    a->bucket_adds = 0;
}

static void empty_buckets64(acc *a)
{
    for (int e = 0; e < BUCKETS64 / 2; e += FOLD) {
        i128 v = 0;
        for (int i = e + FOLD; i-- > e;) {
            int j = i + BUCKETS64 / 2;
            v = 2 * v + both_signs(a, (u128)a->over[i] << 64 | a->bucket[i], (u128)a->over[j] << 64 | a->bucket[j]);
        }
        if (v)
            acc_add(a, v, e + RK_E0_64);
    }
    clear_buckets64(a);
}

/* *to += v; did it exceed 2^64? In assembly, because GCC would split the addition to memory into load, add and store. */
INLINE bool add_over(uint64_t *to, uint64_t v)
{
#ifdef __x86_64__
    bool over;
    __asm__("add %2, %1" : "=@ccc"(over), "+m"(*to) : "r"(v));
    return over;
#else
    return __builtin_add_overflow(*to, v, to);
#endif
}

/* The significand of b as if it had a hidden bit; take_odd64 empties the buckets of elements without one. */
INLINE void bucket_f64(acc *a, uint64_t b)
{
    const uint64_t hidden = (uint64_t)1 << 52;
    if (__builtin_expect(add_over(&a->bucket[b >> 52], (b & (hidden - 1)) | hidden), 0))
        a->over[b >> 52]++;
}

/* Adds zeros, subnormals, infinities and NaNs among n bucketed elements one by one instead. */
static void take_odd64(acc *a, const u64_loose *x, size_t n)
{
    static const int odd[] = {0, 0x7ff, 0x800, 0xfff};
    uint64_t any = 0;
    for (int i = 0; i < 4; i++) {
        any |= a->bucket[odd[i]] | a->over[odd[i]];
        a->bucket[odd[i]] = a->over[odd[i]] = 0;
    }
    for (size_t i = 0; any && i < n;) {
        uint64_t few[64]; /* collected without a branch for each element, because zeros may be anywhere */
        size_t k = 0;
        for (size_t end = n - i < 64 ? n : i + 64; i < end; i++) {
            few[k] = x[i];
            k += ((((x[i] >> 52) + 1) & 0x7ff) <= 1) & (x[i] << 1 != 0);
        }
        while (k > 0)
            add_f64(a, few[--k]);
    }
}

INLINE void bucket_block64(acc *a, const u64_loose *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        prefetch(x + i, 8192);
        for (int k = 0; k < 8; k++)
            bucket_f64(a, x[i + k]);
    }
    for (; i < n; i++)
        bucket_f64(a, x[i]);
    take_odd64(a, x, n);
}

#endif

/* GCC's clones of this and of fill_buckets32 would be slower. n is at most BLOCK64, and with AVX-512 a multiple of
 * LANES64. */
ONE_COPY void fill_buckets64(acc *a, const void *data, size_t n)
{
    const u64_loose *x = data;
    count_adds(a, (uint32_t)n);
    if (a->n < FEW64) {
        for (size_t i = 0; i < n; i++)
            add_f64(a, x[i]);
        return;
    }
    if (!a->bucketed) {
        clear_buckets64(a);
        a->bucketed = 64;
    }
    bucket_block64(a, x, n);
    a->bucket_adds += n;
    if (a->bucket_adds >> FULL64)
        empty_buckets64(a);
}

/* ---- f32: an element of class c, with an exponent field from 16 c to 16 c + 15, is a multiple of u = 2^(16 c - 150) below
 * 2^39 u. So 2^14 of a class sum exactly. ---- */

enum {
    FEW32 = 1500,
    MOST_ADDS32 = 2 * COPIES32 << 14, /* 2^14 adds to each sum, even if all go to the same pair */
    PAIRS = 256,                      /* pairs whose places are computed together: meanwhile the pairs reach L1 */
    PAIRS_AHEAD = 8192                /* bytes to prefetch */
};

/* The places of n pairs, a multiple of LANES64, in bytes. False: there are infinities or NaNs. */
static __attribute__((noinline)) bool take_apart32(uint64_t *at, const void *data, size_t n)
{
    const vu64_loose *x = data;
    const uint64_t one = ((uint64_t)1 << 55) + (1 << 23); /* added: an exponent field of all ones carries into the sign */
    vu64 odd = {0};
    uint64_t any = 0;
    for (size_t i = 0; i < n / LANES64; i++) {
        if (i * VB % 64 == 0)
            prefetch(x + i, PAIRS_AHEAD);
        *(vu64 *)(void *)(at + i * LANES64) = (x[i] >> 23 & 0xf0) | (x[i] >> 51 & 0xf00);
        odd |= (x[i] + one) ^ x[i];
    }
    for (int j = 0; j < LANES64; j++)
        any |= odd[j];
    return !(any & ((uint64_t)1 << 63 | (uint64_t)1 << 31));
}

/* In assembly: GCC would load first and convert afterwards. */
INLINE pair64 load_pair32(const void *p)
{
    pair64 v;
#ifdef __AVX__
    __asm__("vcvtps2pd %1, %0" : "=x"(v) : "m"(*(const char(*)[8])p));
#elif defined(__x86_64__)
    __asm__("cvtps2pd %1, %0" : "=x"(v) : "m"(*(const char(*)[8])p));
#else
    v = (pair64)vcvt_f64_f32(vld1_f32((const float *)p));
#endif
    return v;
}

INLINE void add_pairs32(acc *a, const uint64_t *at, const char *x, size_t n, bool magnitudes)
{
    typedef VEC(int64_t, 16) bits;
    const bits kept = (bits){0} + (magnitudes ? INT64_MAX : -1);
    for (size_t i = 0; i < n; i += 8)
        for (size_t k = i; k < i + 8; k++)
            *(pair64 *)(void *)((char *)a->pair[k % COPIES32] + at[k]) += (pair64)((bits)load_pair32(x + 8 * k) & kept);
}

static void add_apart32(acc *a, const char *x, size_t n)
{
    _Alignas(VB) uint64_t at[PAIRS];
    if (!take_apart32(at, x, n))
        for (size_t i = 0; i < 2 * n; i++)
            add_f32(a, ((const u32_loose *)(const void *)x)[i]);
    else if (a->magnitudes)
        add_pairs32(a, at, x, n, true);
    else
        add_pairs32(a, at, x, n, false);
}

typedef struct class_sums {
    double first[CLASSES32], second[CLASSES32]; /* sums of the pairs by class */
} class_sums;

/* The sum of a class as first element is over all classes of the second one, and the other way round. */
static __attribute__((noinline)) void sum_classes(const acc *a, class_sums *out)
{
    class_sums sums = {{0}, {0}};
    for (int s = 0; s < CLASSES32; s++)
        for (int f = 0; f < CLASSES32; f++) {
            pair64 v = a->pair[0][s * CLASSES32 + f];
            for (int k = 1; k < COPIES32; k++)
                v += a->pair[k][s * CLASSES32 + f];
            sums.first[f] += v[0];
            sums.second[s] += v[1];
        }
    *(volatile class_sums *)out = sums;
}

static void add_part_double(acc *a, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != 0)
        add_part_f64(a, bits);
}

static void empty_buckets32(acc *a)
{
    class_sums sums;
    inexact_clear(&sums);
    sum_classes(a, &sums);
    if (!inexact_seen(&sums))
        for (int c = 0; c < CLASSES32; c++) {
            add_part_double(a, sums.first[c]);
            add_part_double(a, sums.second[c]);
        }
    else
        for (int k = 0; k < COPIES32; k++)
            for (int i = 0; i < CLASSES32 * CLASSES32; i++) {
                add_part_double(a, a->pair[k][i][0]);
                add_part_double(a, a->pair[k][i][1]);
            }
    count_adds(a, 2 * COPIES32 * CLASSES32 * CLASSES32);
    memset(a->pair, 0, sizeof a->pair);
    a->bucket_adds = 0;
}

static void start_buckets32(acc *a)
{
    memset(a->pair, 0, sizeof a->pair);
    a->bucketed = 32;
    a->bucket_adds = 0;
}

/* n is a multiple of 2 * LANES64, at most BLOCK64. */
ONE_COPY void fill_buckets32(acc *a, const void *data, size_t n)
{
    const u32_loose *x = data;
    count_adds(a, (uint32_t)n);
    if (a->n < FEW32) {
        for (size_t i = 0; i < n; i++)
            add_f32(a, x[i]);
        return;
    }
    if (!a->bucketed)
        start_buckets32(a);
    if (a->bucket_adds + n > MOST_ADDS32)
        empty_buckets32(a);
    for (size_t i = 0; i < n; i += 2 * PAIRS)
        add_apart32(a, (const char *)(x + i), (n - i < 2 * PAIRS ? n - i : 2 * PAIRS) / 2);
    a->bucket_adds += n;
}

/* ---- end ---- */

INLINE bool no_digits(const int64_t d[8]) { return !(d[0] | d[1] | d[2] | d[3] | d[4] | d[5] | d[6] | d[7]); }

/* Digits to limbs that are 0: most digits of most sums are 0. */
static void limbs_of(const int64_t *digit, uint64_t *limb, int n)
{
    int low = 0, end = n;
    while (low + 4 <= n && no_digits(digit + 2 * low))
        low += 4;
    while (end >= low + 4 && no_digits(digit + 2 * end - 8))
        end -= 4;
    while (low < n && !(digit[2 * low] | digit[2 * low + 1]))
        low++;
    while (end > low && !(digit[2 * end - 1] | digit[2 * end - 2]))
        end--;
    int64_t carry = rk_limbs_of_digits(digit + 2 * low, limb + low, end - low);
    for (int i = end; i < n && carry; i++, carry >>= 63)
        limb[i] = (uint64_t)carry;
}

/* The sum's limbs, which are 0; they stay so if it is an infinity or NaN. */
static void acc_end(acc *a, uint64_t *limb)
{
    if (a->bucketed == 64)
        empty_buckets64(a);
    else if (a->bucketed == 32)
        empty_buckets32(a);
    if (!a->special)
        limbs_of(a->digit, limb, a->digits / 2);
}

#endif
