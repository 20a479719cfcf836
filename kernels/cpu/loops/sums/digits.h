/* The working form of an exact sum of floats: radix-2^32 digits in int64 with delayed carries (state.h), and the buckets that
 * feed them (buckets.h). It sums elements, their magnitudes or their squares, which differ only in unit and sign. */
#ifndef RK_CPU_DIGITS_H
#define RK_CPU_DIGITS_H

#include <string.h>

#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/state.h"

typedef __int128 i128;
typedef unsigned __int128 u128;

enum {
    CARRY_AFTER = 1 << 28, /* adds of less than 2^33 that every digit has room for */
    BUCKETS64 = 4096,      /* sign and 11 bits of exponent */
    SLOTS64 = 1024,        /* 10 bits of exponent */
    CLASSES32 = 16,        /* of 16 exponents */
    COPIES32 = 4           /* copies of the sums, used in turn: an addition to the place of the one before would wait for it */
};

typedef VEC(double, 16) pair64;

typedef struct acc {
    int64_t digit[2 * RK_SQUARE_LIMBS64];
    int digits;
    int e0;              /* the unit is 2^e0 */
    bool magnitudes;     /* magnitudes are summed */
    uint8_t special, nz; /* as in rk_state */
    bool omit;           /* skip NaNs */
    bool far;            /* the elements do not fit into L2 */
    bool near;           /* the sum may lack up to `neglected` (sum_near.h) */
    double neglected;
    uint64_t n;           /* elements to come */
    uint64_t nans;        /* skipped */
    uint32_t adds;        /* to the digits since the last carry */
    int bucketed;         /* 64 or 32: the kind of buckets in use, which are cleared on first use; 0: none */
    uint64_t bucket_adds; /* since the buckets were emptied */
    union {
        struct {
            uint64_t bucket[BUCKETS64]; /* sums of significands */
            uint32_t over[BUCKETS64];   /* how often a bucket exceeded 2^64 */
        };
        struct {
            int64_t slot[SLOTS64]; /* with AVX-512: sums of significands with signs */
            int32_t slot_over[SLOTS64];
        };
        pair64 pair[COPIES32][CLASSES32 * CLASSES32]; /* f32: sums of first and of second elements, by both classes */
    };
} acc;

/* A sum of `limbs` limbs in units of 2^e0 over n elements. */
static void acc_start(acc *a, int limbs, int e0, bool magnitudes, uint64_t n, int nan_policy)
{
    a->digits = 2 * limbs;
    memset(a->digit, 0, (size_t)a->digits * sizeof a->digit[0]);
    a->e0 = e0;
    a->magnitudes = magnitudes;
    a->special = a->nz = 0;
    a->omit = nan_policy != RP_NAN_PROPAGATE;
    a->far = a->near = false;
    a->neglected = 0;
    a->n = n;
    a->nans = 0;
    a->adds = 0;
    a->bucketed = 0;
}

/* How often one way of adding a block has failed recently. */
typedef struct tries {
    int fails, skip; /* failed attempts in a row; blocks that skip this way */
} tries;

/* After k failed attempts in a row the next 2^k - 2 (at most 126) blocks skip this way. */
static inline void try_failed(tries *t)
{
    if (t->fails < 7)
        t->fails++;
    t->skip = (1 << t->fails) - 2;
}

static inline void try_fitted(tries *t) { t->fails -= t->fails > 0; }

static inline bool try_skipped(tries *t)
{
    if (t->skip == 0)
        return false;
    t->skip--;
    return true;
}

/* What earlier blocks of one kind of data have shown, to choose how to add the next one. */
typedef struct pace {
    int guess;      /* exponent field of a double below which the next block's lanes should stay; 0: unknown */
    tries quick;    /* a type's own way for data of a usual range, if it has one */
    tries last;     /* the way before the levels */
    tries wide;     /* the levels (sum_levels.h), before the next two */
    tries near;     /* near sums (sum_near.h), before the buckets */
    int field;      /* exponent field of a double below which elements at levels should stay */
    int levels;     /* 0: to be determined */
    int trust;      /* blocks until it is determined again */
    int near_field; /* as `field`, for near sums; 0: unknown */
} pace;

/* ---- digits ---- */

static void carry(acc *a)
{
    int64_t c = 0;
    for (int i = 0; i < a->digits - 1; i++) {
        int64_t t = a->digit[i] + c;
        a->digit[i] = t & 0xffffffff;
        c = t >> 32;
    }
    a->digit[a->digits - 1] += c;
    a->adds = 0;
}

static inline void count_adds(acc *a, uint32_t n)
{
    a->adds += n;
    if (a->adds >= CARRY_AFTER)
        carry(a);
}

/* += v * 2^exponent, which is a multiple of the unit */
static void acc_add(acc *a, i128 v, int exponent)
{
    int shift = exponent - a->e0;
    bool negative = v < 0;
    u128 rest = negative ? -(u128)v : (u128)v;
    if (shift < 0) {
        rest >>= -shift < 127 ? -shift : 127;
        shift = 0;
    }
    for (int i = shift / 32; rest; i++, rest >>= 32) {
        uint64_t part = (uint64_t)(uint32_t)rest << shift % 32;
        int64_t low = (uint32_t)part, high = (int64_t)(part >> 32);
        a->digit[i] += negative ? -low : low;
        if (high)
            a->digit[i + 1] += negative ? -high : high;
    }
    count_adds(a, 1);
}

/* ---- single elements, for the few that no block loop takes ---- */

static inline void add_infinity(acc *a, bool negative)
{
    a->special |= negative && !a->magnitudes ? RK_NINF : RK_PINF;
    a->nz = 1;
}

static inline void add_nans(acc *a, uint64_t n)
{
    if (n && a->omit) {
        a->nans += n;
    } else if (n) {
        a->special = RK_NAN;
        a->nz = 1;
    }
}

static inline void add_special(acc *a, bool nan, bool negative)
{
    if (nan)
        add_nans(a, 1);
    else
        add_infinity(a, negative);
}

/* A NaN to propagate: nothing that follows can change the state any more. */
static inline bool decided(const acc *a) { return a->special == RK_NAN && !a->omit; }

/* `sign` is 0 or -1. */
static inline void add_with_sign(acc *a, uint64_t b, int64_t sign)
{
    int e = (int)(b >> 52) & 0x7ff, at = e + RK_E0_64 - a->e0;
    uint64_t m = b & 0xfffffffffffff;
    if (e == 0x7ff) {
        add_special(a, m != 0, sign != 0);
        return;
    }
    a->nz |= b != (uint64_t)1 << 63;
    m = e ? m | (uint64_t)1 << 52 : m << 1;
    if (at < 0) { /* the unit is larger; b is a multiple of it */
        m = at > -64 ? m >> -at : 0;
        at = 0;
    }
    u128 t = (u128)m << (at & 31);
    int64_t *d = a->digit + (at >> 5);
    d[0] += ((int64_t)(uint32_t)t ^ sign) - sign;
    d[1] += ((int64_t)(uint32_t)(t >> 32) ^ sign) - sign;
    d[2] += ((int64_t)(t >> 64) ^ sign) - sign;
}

/* An element. */
static inline void add_f64(acc *a, uint64_t b) { add_with_sign(a, b, a->magnitudes ? 0 : (int64_t)b >> 63); }

/* A part of the sum of elements or of magnitudes; either part may be negative. */
static inline void add_part_f64(acc *a, uint64_t b) { add_with_sign(a, b, (int64_t)b >> 63); }

/* In units of 2^RK_E0_32 */
static inline void add_f32(acc *a, uint32_t b)
{
    int e = (int)(b >> 23) & 0xff;
    uint32_t m = b & 0x7fffff;
    int64_t sign = a->magnitudes ? 0 : -(int64_t)(b >> 31);
    if (e == 0xff) {
        add_special(a, m != 0, sign != 0);
        return;
    }
    a->nz |= b != (uint32_t)1 << 31;
    uint64_t t = (uint64_t)(e ? m | (uint32_t)1 << 23 : m << 1) << (e & 31);
    int64_t *d = a->digit + (e >> 5);
    d[0] += ((int64_t)(uint32_t)t ^ sign) - sign;
    d[1] += ((int64_t)(t >> 32) ^ sign) - sign;
}

/* ---- blocks with infinities or NaNs, alike for both widths ---- */

/* Takes infinities and NaNs out and adds the rest; -0.0, the identity, stands in their places. */
#define ODD_BLOCKS(W, BLOCK, INF)                                                                       \
    static void add_block##W(acc *a, pace *p, const void *x, size_t n);                                 \
    static __attribute__((noinline)) void add_odd_block##W(acc *a, pace *p, const void *data, size_t n) \
    {                                                                                                   \
        const u##W##_loose *x = data;                                                                   \
        const uint##W##_t sign = (uint##W##_t)1 << (W - 1);                                             \
        _Alignas(VB) uint##W##_t finite[BLOCK];                                                         \
        uint##W##_t nans = 0, above = 0, below = 0;                                                     \
        for (size_t i = 0; i < n; i++) {                                                                \
            uint##W##_t m = x[i] & INT##W##_MAX;                                                        \
            nans += m > INF;                                                                            \
            above |= x[i] == INF;                                                                       \
            below |= x[i] == (INF | sign);                                                              \
            finite[i] = m >= INF ? sign : x[i];                                                         \
        }                                                                                               \
        add_nans(a, nans);                                                                              \
        if (above)                                                                                      \
            add_infinity(a, false);                                                                     \
        if (below)                                                                                      \
            add_infinity(a, true);                                                                      \
        if (!a->special) /* with `special` the limbs are zero in any case */                            \
            add_block##W(a, p, finite, n);                                                              \
    }

#endif
