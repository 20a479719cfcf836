/* Exact sums of elements whose exponents lie far apart: block-anchored accumulation at several levels.
 *
 * Adding x to S = anchor + (sum so far), with a large power of two as the anchor, rounds x to a multiple of the anchor's last
 * place and leaves an exactly known rest (Dekker's Fast2Sum; AccSum of Rump, Ogita and Oishi splits so). The rest goes to a
 * second, smaller anchor, and so on. If nothing is left then, the block is exact, and since every S stayed in one binade,
 * bits(S) - bits(anchor) is a level's sum as an integer.
 *
 * With AVX-512 only T = S + x is rounded silently. T - S, x - (T - S) and the plain sums of the last rests raise the inexact
 * flag if they round (inexact.h), and the proof needs no bound on the elements. With other instruction sets the largest
 * magnitude shows that the anchors were high enough, and the last rests are tested for 0.
 *
 * The largest exponent determines the anchors; with the smallest one it determines their number. Both are guessed from an
 * earlier block and are determined anew only where the guess fails. */
#ifndef RK_CPU_SUM_LEVELS_H
#define RK_CPU_SUM_LEVELS_H

#include "kernels/cpu/loops/sums/lanes.h"

enum {
    UNROLL = 4,
    STEP64 = LANES64 * UNROLL,
    BLOCK64 = 2048,      /* 16 KiB stays in L1 for a second try */
    AHEAD = 8192,        /* bytes to prefetch ahead: measured best from memory, no loss in caches */
    FAR_BYTES = 2 << 20, /* more do not fit into L2 */
    FEWEST_LEVELS = 2,
    MOST_LEVELS = VB == 64   ? 6
                  : VB == 32 ? 4
                             : 3, /* of f64; with more levels buckets are faster */
    MOST_LEVELS32 = VB == 64   ? 4
                    : VB == 32 ? 3
                               : 2,
    HIGHEST_ANCHOR = 1000, /* above this S could overflow */
    LOOK_AFTER = 64        /* after this many successful blocks fewer levels are tried */
};

/* 2^c >= n */
static inline int log2_up(size_t n) { return n > 1 ? 64 - __builtin_clzll(n - 1) : 0; }

/* 1.5 * 2^k: stays in its binade while less than 2^(k-1) is added or taken away */
static inline double anchor(int k) { return f64_of((uint64_t)(k + 1023) << 52 | (uint64_t)1 << 51); }

/* The lanes of a block, level by level. */
typedef struct level_lanes {
    vf64 sum[MOST_LEVELS * UNROLL];
    vf64 most[2]; /* magnitudes; not with AVX-512 */
    vf64 left;    /* bits of the last rests; with AVX-512 these are summed at the last level instead */
} level_lanes;

/* Vectors of lanes for each level: as many as fit the registers. */
enum { LEVEL_VECTORS = VB == 64 ? UNROLL : UNROLL / 2 };

INLINE vf64 add_to_level(vf64 sum, vf64 v)
{
#if VB == 64
    return (vf64)_mm512_add_round_pd((__m512d)sum, (__m512d)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    return sum + v;
#endif
}

/* Levels that have an anchor */
INLINE int anchored_levels(int levels) { return VB == 64 ? levels - 1 : levels; }

static inline double level_start(int l, int levels, const int *k) { return l < anchored_levels(levels) ? anchor(k[l]) : 0; }

/* k of the anchors for n elements below 2^(field - 1022): per lane they sum to at most 2^(k[0]-1), and the rests of one level
 * to at most 2^(k-1) of the next. */
static void anchors(int field, size_t n, int levels, int *k)
{
    const int c = log2_up(n / (size_t)(LANES64 * LEVEL_VECTORS));
    for (int l = 0; l < levels; l++) {
        k[l] = l == 0 ? field - 1022 + c + 1 : k[l - 1] - 53 + c + 1;
        if (k[l] < -1022) /* its last place is that of the smallest subnormal, so nothing is left */
            k[l] = -1022;
    }
}

/* As many levels as n elements need that are multiples of 2^(least - 1075) below 2^(most - 1022), or 0: too many. */
static int levels_for(int most, int least, size_t n, int most_levels)
{
    const int sum_bits = VB == 64 ? 54 : 52; /* the last level's, above the unit: rests of 2^c elements, or an anchor */
    for (int levels = FEWEST_LEVELS, k[MOST_LEVELS]; levels <= most_levels; levels += levels < 4 ? 1 : 2) {
        anchors(most, n, levels, k);
        if (k[levels - 1] <= (least > 0 ? least : 1) - 1075 + sum_bits || k[levels - 1] == -1022)
            return k[0] <= HIGHEST_ANCHOR ? levels : 0;
    }
    return 0;
}

/* ---- the loops: n is a multiple of STEP64, at most BLOCK64 ---- */

#define LEVEL_LOOP(TYPE, BYTES)                                                                                        \
    INLINE void levels_of_##TYPE(const void *x, size_t n, int levels, bool magnitudes, const int *k, level_lanes *out) \
    {                                                                                                                  \
        vf64 s[MOST_LEVELS][UNROLL], most[2] = {{0}, {0}};                                                             \
        vi64 left = {0};                                                                                               \
        for (int l = 0; l < levels; l++)                                                                               \
            for (int u = 0; u < LEVEL_VECTORS; u++)                                                                    \
                s[l][u] = (vf64){0} + level_start(l, levels, k);                                                       \
        for (size_t i = 0; i < n; i += (size_t)LEVEL_VECTORS * LANES64)                                                \
            for (int u = 0; u < LEVEL_VECTORS; u++) {                                                                  \
                const char *p = (const char *)x + BYTES * (i + (size_t)u * LANES64);                                   \
                vf64 rest = load_##TYPE(p);                                                                            \
                if (u * LANES64 * BYTES % 64 == 0)                                                                     \
                    prefetch(p, AHEAD);                                                                                \
                if (magnitudes || VB < 64) {                                                                           \
                    vf64 m = (vf64)((vi64)rest & INT64_MAX);                                                           \
                    most[u % 2] = VB < 64 ? max_f64(m, most[u % 2]) : m;                                               \
                    rest = magnitudes ? m : rest;                                                                      \
                }                                                                                                      \
                for (int l = 0; l < anchored_levels(levels); l++) {                                                    \
                    vf64 with = add_to_level(s[l][u], rest);                                                           \
                    rest -= with - s[l][u];                                                                            \
                    s[l][u] = with;                                                                                    \
                }                                                                                                      \
                if (VB == 64)                                                                                          \
                    s[levels - 1][u] += rest;                                                                          \
                else                                                                                                   \
                    left |= (vi64)rest;                                                                                \
            }                                                                                                          \
        for (int l = 0; l < levels; l++)                                                                               \
            put_lanes(out->sum + l * LEVEL_VECTORS, s[l], LEVEL_VECTORS);                                              \
        put_lanes(out->most, most, 2);                                                                                 \
        vf64 some = (vf64)left;                                                                                        \
        put_lanes(&out->left, &some, 1);                                                                               \
    }                                                                                                                  \
    EACH_LEVELS(LEVEL_FUNCTIONS, TYPE)                                                                                 \
    static levels_fn *const levels_##TYPE[2][MOST_LEVELS + 1] = {{EACH_LEVELS(LEVEL_PLAIN, TYPE)},                     \
                                                                 {EACH_LEVELS(LEVEL_ABS, TYPE)}};

#define LEVEL_FUNCTIONS(TYPE, LEVELS)                                                                                        \
    static __attribute__((noinline)) void levels_##TYPE##_##LEVELS(const void *x, size_t n, const int *k, level_lanes *out)  \
    {                                                                                                                        \
        levels_of_##TYPE(x, n, LEVELS, false, k, out);                                                                       \
    }                                                                                                                        \
    static                                                                                                                   \
        __attribute__((noinline)) void levels_abs_##TYPE##_##LEVELS(const void *x, size_t n, const int *k, level_lanes *out) \
    {                                                                                                                        \
        levels_of_##TYPE(x, n, LEVELS, true, k, out);                                                                        \
    }
#define LEVEL_PLAIN(TYPE, LEVELS) [LEVELS] = levels_##TYPE##_##LEVELS,
#define LEVEL_ABS(TYPE, LEVELS) [LEVELS] = levels_abs_##TYPE##_##LEVELS,
#if VB == 64
#define EACH_LEVELS(F, TYPE) F(TYPE, 2) F(TYPE, 3) F(TYPE, 4) F(TYPE, 6)
#elif VB == 32
#define EACH_LEVELS(F, TYPE) F(TYPE, 2) F(TYPE, 3) F(TYPE, 4)
#else
#define EACH_LEVELS(F, TYPE) F(TYPE, 2) F(TYPE, 3)
#endif

typedef void levels_fn(const void *x, size_t n, const int *k, level_lanes *out);

INLINE vf64 load_f64(const void *p) { return *(const vf64_loose *)p; }

LEVEL_LOOP(f64, 8)
LEVEL_LOOP(f32, 4)
LEVEL_LOOP(bf16, 2)
#undef LEVEL_LOOP
#undef LEVEL_FUNCTIONS
#undef LEVEL_PLAIN
#undef LEVEL_ABS
#undef EACH_LEVELS

/* ---- a block ---- */

/* The sum of a level's lanes in units of 2^(k-52). False: an S has left its anchor's binade. */
static bool level_sum(const vf64 *lanes, int k, int64_t *sum)
{
    const vu64 start = (vu64)((vf64){0} + anchor(k));
    vu64 total = {0}, differ = {0};
    uint64_t any = 0;
    for (int u = 0; u < LEVEL_VECTORS; u++) {
        total += (vu64)lanes[u] - start;
        differ |= (vu64)lanes[u] ^ start;
    }
    for (int j = 0; j < LANES64; j++)
        any |= differ[j];
    *sum = (int64_t)sum_lanes(total);
    return any >> 52 == 0;
}

#if VB == 64

/* Was everything added exactly, the last rests to the sums of the last level? */
static bool levels_exact(const level_lanes *l, int field)
{
    (void)field;
    return !inexact_seen(l);
}

/* Adds the last level, of plain sums. False, and nothing is added: there are infinities or NaNs. */
static bool add_last_level(acc *a, const vf64 *sums)
{
    double total;
    total_lanes(sums, LEVEL_VECTORS, &total);
    bool rounded = inexact_seen(&total);
    if (!is_finite(total))
        return false;
    if (rounded || total != 0)
        add_lanes(a, sums, LEVEL_VECTORS, total, rounded);
    return true;
}

#else

static bool levels_exact(const level_lanes *l, int field)
{
    int64_t left = 0, most = 0;
    for (int j = 0; j < LANES64; j++) {
        vi64 bits = (vi64)max_f64(l->most[0], l->most[1]);
        left |= ((vi64)l->left)[j] & INT64_MAX;
        most = bits[j] > most ? bits[j] : most;
    }
    return left == 0 && (int)(most >> 52) <= field;
}

static bool add_last_level(acc *a, const vf64 *sums)
{
    (void)a, (void)sums;
    return true;
}

#endif

/* n elements with exponent fields of doubles up to `field`. False, and nothing is added: they must be added in another way. */
static bool try_levels(acc *a, const void *x, size_t n, int field, int levels, levels_fn *const *read)
{
    level_lanes lanes;
    int k[MOST_LEVELS];
    int64_t sum[MOST_LEVELS];
    const int anchored = anchored_levels(levels);
    anchors(field, n, levels, k);
    if (k[0] > HIGHEST_ANCHOR)
        return false;
    inexact_clear(&lanes);
    read[levels](x, n, k, &lanes);
    if (!levels_exact(&lanes, field))
        return false;
    for (int l = 0; l < anchored; l++)
        if (!level_sum(lanes.sum + l * LEVEL_VECTORS, k[l], &sum[l]))
            return false;
    if (!add_last_level(a, lanes.sum + anchored * LEVEL_VECTORS))
        return false;
    for (int l = 0; l < anchored; l++)
        acc_add(a, sum[l], k[l] - 52);
    return true;
}

/* The exponent fields, as those of doubles, of the largest and of the smallest nonzero magnitude. */
typedef struct reach {
    int most, least;
    bool special, nonzero, nz; /* infinities or NaNs; there is an element other than 0; other than -0.0 */
} reach;

#define REACH(NAME, W, FRACTION, BIAS)                                                         \
    static bool nz_##NAME(const u##W##_loose *x, size_t n)                                     \
    {                                                                                          \
        uint##W##_t differ = 0;                                                                \
        for (size_t i = 0; i < n; i++)                                                         \
            differ |= x[i] ^ (uint##W##_t)((uint##W##_t)1 << (W - 1));                         \
        return differ != 0;                                                                    \
    }                                                                                          \
    static __attribute__((noinline)) reach reach_##NAME(const void *data, size_t n)            \
    {                                                                                          \
        const u##W##_loose *x = data;                                                          \
        uint##W##_t most = 0, least = UINT##W##_MAX; /* less 1: 0 is the largest */            \
        for (size_t i = 0; i < n; i++) {                                                       \
            uint##W##_t m = x[i] & INT##W##_MAX, less = (uint##W##_t)(m - 1);                  \
            most = m > most ? m : most;                                                        \
            least = less < least ? less : least;                                               \
        }                                                                                      \
        int high = (int)(most >> FRACTION), low = (int)((uint##W##_t)(least + 1) >> FRACTION); \
        return (reach){.most = (high ? high : 1) + BIAS,                                       \
                       .least = (low ? low : 1) + BIAS,                                        \
                       .special = high == INT##W##_MAX >> FRACTION,                            \
                       .nonzero = most != 0,                                                   \
                       .nz = most != 0 || nz_##NAME(x, n)};                                    \
    }
REACH(f64, 64, 52, 0)
REACH(f32, 32, 23, 1023 - 127)
REACH(bf16, 16, 7, 1023 - 127)
#undef REACH

typedef reach reach_fn(const void *x, size_t n);
typedef enum { LEVELS_ADDED, LEVELS_SPECIAL, LEVELS_TOO_WIDE } levels_outcome; /* nothing is added but with the first one */

/* Like add_by_levels, for elements that are not all zero. Often two levels suffice instead of three, because small elements
 * have few bits. */
static bool add_by_new_levels(acc *a, pace *p, const void *x, size_t n, reach r, int bits, levels_fn *const *read)
{
    const int field = r.most + 1, most = a->near ? FEWEST_LEVELS : bits == 52 ? MOST_LEVELS : MOST_LEVELS32;
    int levels = levels_for(field, r.least + 52 - bits, n, most);
    if (p->levels == 0 && levels == 3 && try_levels(a, x, n, field, 2, read))
        levels = 2;
    else if (!levels || !try_levels(a, x, n, field, levels, read))
        return false;
    p->field = field;
    p->levels = levels;
    p->trust = LOOK_AFTER;
    return true;
}

/* Adds n elements whose significands have `bits` bits after the first one. */
static levels_outcome add_by_levels(acc *a, pace *p, const void *x, size_t n, int bits,
                                    levels_fn *const (*read)[MOST_LEVELS + 1], reach_fn *look)
{
    levels_fn *const *f = read[a->magnitudes];
    if (p->levels && try_levels(a, x, n, p->field, p->levels, f)) {
        if (--p->trust == 0)
            p->levels = 0;
        return LEVELS_ADDED;
    }
    reach r = look(x, n);
    if (r.special)
        return LEVELS_SPECIAL;
    a->nz |= r.nz;
    if (!r.nonzero)
        return LEVELS_ADDED;
    return add_by_new_levels(a, p, x, n, r, bits, f) ? LEVELS_ADDED : LEVELS_TOO_WIDE;
}

#endif
