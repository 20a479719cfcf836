/* Sums that are open: a window of the long accumulator (kernels/exact/families/sums.h), so that most additions are one shift
 * and one addition of integers. What does not fit the window goes to a whole state, which is made when it is needed. Inline,
 * pure.
 *
 *   field    exponent field of a double, 1 to 2046: the element is m 2^(field - 1075), with 53 bits of m
 *   base     of a window: its unit is 2^(base - 1075); of the squares beside it 2^(2 base - 2150)
 *
 * Bits of another float type are taken as the double of the same value. */
#ifndef RK_WINDOW_H
#define RK_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/exact/state.h"

enum {
    RK_FIELD_END = 2047, /* the field of infinities and NaNs */
    RK_SUM_REACH = 62,   /* base to base + reach are the fields of a window */
    RK_PRODUCT_REACH = 2 * RK_SUM_REACH,
    RK_BASE_STEP = 16, /* bases are multiples of it, if they can: then windows of several threads often have one */
    RK_NO_BASE = 4095, /* no element fits */
    RK_SUM_ABOVE = 32  /* a new window begins so far below the field of its first element */
};

typedef __int128 rk_int128 __attribute__((aligned(8))); /* slots are in memory of others, such as DuckDB's rows */

typedef struct rk_window {
    rk_int128 sum;
    uint64_t head;   /* count of elements (RK_COUNT_BITS), then flags, then base */
    rk_state *whole; /* the rest; NULL: there is none. Owned */
} rk_window;

/* ... of the squares of the same elements, or, with a sign, of products. */
typedef struct rk_square_window {
    uint64_t sum[4];
} rk_square_window;

enum { RK_COUNT_BITS = 48, RK_BASE_SHIFT = 52 };
#define RK_COUNT_MASK (((uint64_t)1 << RK_COUNT_BITS) - 1)
#define RK_HEAD_NZ ((uint64_t)1 << 48)      /* some element was not -0.0 */
#define RK_HEAD_SKIPPED ((uint64_t)1 << 49) /* a NaN was skipped */
#define RK_HEAD_BASE ((uint64_t)RK_NO_BASE << RK_BASE_SHIFT)

static inline unsigned rk_field(uint64_t bits) { return (unsigned)(bits >> 52) & RK_FIELD_END; }
static inline uint64_t rk_significand(uint64_t bits) { return (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52; }

/* The base for a window that takes `field` in its middle. */
static inline uint64_t rk_base_for(int field)
{
    const int wanted = field - RK_SUM_ABOVE < RK_BASE_STEP ? 1 : (field - RK_SUM_ABOVE) / RK_BASE_STEP * RK_BASE_STEP;
    return (uint64_t)(wanted + RK_SUM_REACH < RK_FIELD_END ? wanted : RK_FIELD_END - 1 - RK_SUM_REACH);
}

/* Is the double with these bits within the window, and surely the sum after its addition? */
static inline bool rk_window_takes(const rk_window *w, uint64_t bits)
{
    const uint64_t up = rk_field(bits) - (w->head >> RK_BASE_SHIFT);
    return (up <= RK_SUM_REACH) & (((uint64_t)(w->sum >> 64) + ((uint64_t)1 << 62)) >> 63 == 0);
}

/* Powers of 2, to RK_SUM_REACH. Of a product with a shifted 1 gcc 12 makes three, since it sees that this is not negative. */
#define RK_POWERS(n) \
    (int64_t)1 << n, (int64_t)2 << n, (int64_t)4 << n, (int64_t)8 << n, (int64_t)16 << n, (int64_t)32 << n, (int64_t)64 << n
static const int64_t rk_powers[RK_SUM_REACH + 1] = {RK_POWERS(0),  RK_POWERS(7),  RK_POWERS(14), RK_POWERS(21), RK_POWERS(28),
                                                    RK_POWERS(35), RK_POWERS(42), RK_POWERS(49), RK_POWERS(56)};

/* Add a double that it takes. A product is one instruction; a shift of 128 bits is many. */
static inline void rk_window_put(rk_window *w, uint64_t bits)
{
    const uint64_t up = rk_field(bits) - (w->head >> RK_BASE_SHIFT), sign = 0 - (bits >> 63);
    const int64_t m = (int64_t)((rk_significand(bits) ^ sign) - sign);
    w->sum += (__int128)m * rk_powers[up];
}

/* Surely the sum of squares after one more? */
static inline bool rk_squares_take(const rk_square_window *q) { return q->sum[3] >> 63 == 0; }

/* m * n * 2^up, or minus it, to the sum. With `up` to 124 a product is below 2^230. */
static inline void rk_products_put(rk_square_window *q, uint64_t up, uint64_t m, uint64_t n, uint64_t sign)
{
    const uint64_t shift = (uint64_t)1 << (up & 63);
    const unsigned __int128 product = (unsigned __int128)m * n, low = (unsigned __int128)(uint64_t)product * shift,
                            high = (unsigned __int128)(uint64_t)(product >> 64) * shift;
    uint64_t *sum = q->sum + (up >> 6), middle = ((uint64_t)(low >> 64) | (uint64_t)high) ^ sign; /* from word 0 or 1 on */
    uint64_t last = (uint64_t)(high >> 64) ^ sign;
    unsigned __int128 t = (unsigned __int128)((uint64_t)low ^ sign) + (sign & 1);
    const uint64_t first = (uint64_t)(t >> 64) + __builtin_add_overflow(sum[0], (uint64_t)t, &sum[0]);
    uint64_t second = __builtin_add_overflow(middle, first, &middle);
    second += __builtin_add_overflow(sum[1], middle, &sum[1]);
    const uint64_t third = __builtin_add_overflow(last, second, &last) + __builtin_add_overflow(sum[2], last, &sum[2]);
    q->sum[3] += (sign + third) & ((up >> 6) - 1); /* not from word 1 on: then it was the last one */
}

/* How far the unit of the product of two doubles is above that of the sum. Above RK_PRODUCT_REACH: it does not take it, or one
 * of them is 0 or special. */
static inline uint64_t rk_product_up(const rk_window *w, uint64_t x, uint64_t y)
{
    const uint64_t a = rk_field(x), b = rk_field(y), usual = (a - 1 < RK_FIELD_END - 1) & (b - 1 < RK_FIELD_END - 1);
    return (a + b - 2 * (w->head >> RK_BASE_SHIFT)) | (usual - 1);
}

/* Surely the sum of products after one more? */
static inline bool rk_products_take(const rk_square_window *q) { return (q->sum[3] + ((uint64_t)1 << 62)) >> 63 == 0; }

/* Add the square of a double that the window beside takes. */
static inline void rk_squares_put(rk_square_window *q, const rk_window *w, uint64_t bits)
{
    const uint64_t m = rk_significand(bits);
    rk_products_put(q, 2 * (rk_field(bits) - (w->head >> RK_BASE_SHIFT)), m, m, 0);
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

static inline void rk_squares_close(const rk_square_window *q, const rk_window *w, rk_state *s, bool negative)
{
    const int shift = 2 * (int)(w->head >> RK_BASE_SHIFT) - 2150 - 2 * rk_e0(s->dtype);
    uint64_t v[4], carry = negative;
    for (int i = 0; i < 4; i++) {
        v[i] = (q->sum[i] ^ (0 - (uint64_t)negative)) + carry;
        carry &= v[i] == 0;
    }
    if (v[0] | v[1] | v[2] | v[3])
        rk_add_words(s->limb + rk_sum_limbs(s->layout), rk_square_limbs(s->layout), v, 4, shift, negative);
}

#endif
