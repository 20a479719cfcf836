/* Sums that are open: a window of the long accumulator (kernels/exact/families/sums.h), so that most additions are one shift
 * and one addition of integers. What does not fit the window goes to a whole state, which is made when it is needed. Inline,
 * pure.
 *
 *   field    exponent field of a double, 1 to 2046: the element is m 2^(field - 1075), with 53 bits of m
 *   base     of a window: its unit is 2^(base - 1075); of squares 2^(base - 2150)
 *
 * Bits of another float type are taken as the double of the same value. */
#ifndef RK_WINDOW_H
#define RK_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/exact/state.h"

enum {
    RK_FIELD_END = 2047,             /* the field of infinities and NaNs */
    RK_SUM_REACH = 127 - 53 - 1,     /* base to base + reach are the fields of a sum's window of 128 bits */
    RK_SQUARE_REACH = 192 - 106 - 2, /* ... and, doubled, of a window of 192 bits for squares */
    RK_BASE_STEP = 16, /* bases are multiples of it, if they can: then windows of several threads often have one */
    RK_NO_BASE = 4095, /* no element fits */
    RK_SUM_ABOVE = 45, /* a new window begins so far below the field of its first element */
    RK_SQUARE_ABOVE = 48
};

typedef __int128 rk_int128 __attribute__((aligned(8))); /* slots are in memory of others, such as DuckDB's rows */

typedef struct rk_window {
    rk_int128 sum;
    uint64_t head;   /* count of elements (RK_COUNT_BITS), then flags, then base */
    rk_state *whole; /* the rest; NULL: there is none. Owned */
} rk_window;

typedef struct rk_square_window {
    uint64_t sum[3];
    uint64_t base;
} rk_square_window;

enum { RK_COUNT_BITS = 48, RK_BASE_SHIFT = 52 };
#define RK_COUNT_MASK (((uint64_t)1 << RK_COUNT_BITS) - 1)
#define RK_HEAD_NZ ((uint64_t)1 << 48)      /* some element was not -0.0 */
#define RK_HEAD_SKIPPED ((uint64_t)1 << 49) /* a NaN was skipped */
#define RK_HEAD_BASE ((uint64_t)RK_NO_BASE << RK_BASE_SHIFT)

static inline unsigned rk_field(uint64_t bits) { return (unsigned)(bits >> 52) & RK_FIELD_END; }
static inline uint64_t rk_significand(uint64_t bits) { return (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52; }

/* The base for a window that takes `field` (of squares doubled) in its middle, so that its reach ends below `end`. */
static inline uint64_t rk_base_for(int field, int above, int reach, int end)
{
    const int wanted = field - above < RK_BASE_STEP ? 1 : (field - above) / RK_BASE_STEP * RK_BASE_STEP;
    return (uint64_t)(wanted + reach < end ? wanted : end - 1 - reach);
}

/* sum + the double with these bits, if it is within the window and the sum does not leave it. */
static inline bool rk_window_next(const rk_window *w, uint64_t bits, __int128 *sum)
{
    const uint64_t up = rk_field(bits) - (w->head >> RK_BASE_SHIFT);
    if (up > RK_SUM_REACH)
        return false;
    /* In words: of 128-bit shifts and checked additions gcc 12 makes twice as many instructions. */
    const uint64_t m = rk_significand(bits), sign = 0 - (bits >> 63), shifted = m << (up & 63),
                   over = m >> 1 >> (63 - (up & 63));
    const uint64_t low = (up > 63 ? 0 : shifted) ^ sign, high = (up > 63 ? shifted : over) ^ sign;
    const unsigned __int128 before = (unsigned __int128)w->sum,
                            after = before + ((unsigned __int128)high << 64 | low) + (sign & 1);
    const uint64_t is = (uint64_t)(after >> 64);
    *sum = (__int128)after;
    return (int64_t)(((uint64_t)(before >> 64) ^ is) & (high ^ is)) >= 0;
}

/* The same of squares. */
static inline bool rk_squares_next(const rk_square_window *w, uint64_t bits, uint64_t sum[3])
{
    const uint64_t up = 2 * (uint64_t)rk_field(bits) - w->base, m = rk_significand(bits);
    if (up > RK_SQUARE_REACH)
        return false;
    const unsigned __int128 square = (unsigned __int128)m * m;
    const unsigned __int128 low = (unsigned __int128)(uint64_t)square << (up & 63), high = (square >> 64) << (up & 63);
    const uint64_t a = (uint64_t)low, b = (uint64_t)(low >> 64) | (uint64_t)high, c = (uint64_t)(high >> 64);
    const bool word = up > 63;
    unsigned __int128 t = (unsigned __int128)w->sum[0] + (word ? 0 : a);
    sum[0] = (uint64_t)t;
    t = (t >> 64) + w->sum[1] + (word ? a : b);
    sum[1] = (uint64_t)t;
    t = (t >> 64) + w->sum[2] + (word ? b : c);
    sum[2] = (uint64_t)t;
    return t >> 64 == 0;
}

/* limb[0..n) += the magnitude v[0..words) * 2^shift, or minus it. Bits below the first limb are 0. */
static inline void rk_add_words(uint64_t *limb, int n, const uint64_t *v, int words, int shift, bool negative)
{
    for (int i = 0; i < words; i++) {
        const int at = shift + 64 * i;
        if (at >= 0)
            rk_add_shifted(limb, n, v[i], at, negative);
        else if (at > -64)
            rk_add_shifted(limb, n, v[i] >> -at, 0, negative);
    }
}

/* Add a window to the limbs of a state of floats, in units of 2^rk_e0, and of their squares. */
static inline void rk_window_close(const rk_window *w, rk_state *s)
{
    if (!w->sum)
        return;
    const bool negative = w->sum < 0;
    const unsigned __int128 magnitude = negative ? 0 - (unsigned __int128)w->sum : (unsigned __int128)w->sum;
    const uint64_t v[2] = {(uint64_t)magnitude, (uint64_t)(magnitude >> 64)};
    const int shift = (int)(w->head >> RK_BASE_SHIFT) - 1075 - rk_e0(s->dtype);
    rk_add_words(s->limb, rk_sum_limbs(s->layout), v, 2, shift, negative);
}

static inline void rk_squares_close(const rk_square_window *w, rk_state *s)
{
    if (w->sum[0] | w->sum[1] | w->sum[2])
        rk_add_words(s->limb + rk_sum_limbs(s->layout), rk_square_limbs(s->layout), w->sum, 3,
                     (int)w->base - 2150 - 2 * rk_e0(s->dtype), false);
}

#endif
