/* Quotients and square roots of exact integers of many limbs, rounded once.
 *
 * Quotients are cut after 128 significant bits and roots after 64; a nonzero rest sets the sticky bit of the single rounding.
 * So each result is correctly rounded. Pure, thread-safe. */
#ifndef RK_QUOTIENT_H
#define RK_QUOTIENT_H

#include "kernels/exact/limbs.h"

/* A magnitude's top: window * 2^(top - 127) with bit 127 of window set, and less than one unit of it more if `sticky`.
 * window 0: the number is zero. */
typedef struct rk_top {
    unsigned __int128 window;
    int top, sticky;
} rk_top;

RK_COLD uint64_t rk_round_top(rk_top t, int negative, rk_format f)
{
    if (!t.window)
        return 0;
    return rk_round_window((uint64_t)(t.window >> 64), t.top, t.sticky || (uint64_t)t.window, negative, f);
}

/* The quotient of rest * 2^64 + next by d, where rest < d; rest becomes the remainder. Two digits of base 2^32 (Knuth,
 * vol. 2, 4.3.1, algorithm D): on processors without a 128-bit division this takes a tenth of the compiler library's time. */
RK_FN uint64_t rk_divide_step(uint64_t *rest, uint64_t next, uint64_t d)
{
    if (d == 1)
        return next;
    int shift = rk_clz64(d);
    uint64_t r = shift ? *rest << shift | next >> (64 - shift) : *rest, low = next << shift;
    d <<= shift;
    uint64_t dh = d >> 32, dl = d & UINT32_MAX, q[2];
    for (int i = 0; i < 2; i++) {
        uint64_t digit = i ? low & UINT32_MAX : low >> 32, t = r / dh, m = r % dh;
        while (t >> 32 || t * dl > (m << 32 | digit)) {
            t--;
            m += dh;
            if (m >> 32)
                break;
        }
        r = (r << 32 | digit) - t * d; /* modulo 2^64: it is below d */
        q[i] = t;
    }
    *rest = r >> shift;
    return q[0] << 32 | q[1];
}

/* |limb[0..n) * 2^e0| / a / b / c, where none is zero. Schoolbook division by one limb after the other (Knuth 4.3.1,
 * exercise 16), from the highest limb down and on into the fraction, until there are 128 bits. */
RK_COLD rk_top rk_divide(const uint64_t *limb, int n, int e0, uint64_t a, uint64_t b, uint64_t c)
{
    rk_top t = {0, 0, 0};
    rk_range r = rk_range_of(limb, n);
    if (!r.end)
        return t;
    uint64_t q[3] = {0, 0, 0}, rest_a = 0, rest_b = 0, rest_c = 0;
    int negative = (int)(limb[n - 1] >> 63), i = r.end - 1, highest = 0, have = 0;
    for (; have < 3; i--) {
        uint64_t next = i >= 0 ? rk_magnitude_limb(limb, i, negative, r.low) : 0;
        uint64_t digit = rk_divide_step(&rest_c, rk_divide_step(&rest_b, rk_divide_step(&rest_a, next, a), b), c);
        if (have || digit) {
            if (!have)
                highest = i;
            q[have++] = digit;
        }
    }
    int shift = rk_clz64(q[0]);
    t.window = (unsigned __int128)q[0] << 64 | q[1];
    if (shift)
        t.window = t.window << shift | q[2] >> (64 - shift);
    t.top = e0 + 64 * highest + 63 - shift;
    t.sticky = (q[2] << shift) != 0 || rest_a || rest_b || rest_c || r.low <= i;
    return t;
}

/* a[0..n] -= q v[0..n); returns whether the result is negative. */
RK_FN int rk_subtract_multiple(uint64_t *a, const uint64_t *v, int n, uint64_t q)
{
    uint64_t carry = 0, borrow = 0;
    for (int i = 0; i <= n; i++) {
        const unsigned __int128 p = (i < n ? (unsigned __int128)v[i] * q : 0) + carry;
        const uint64_t low = (uint64_t)p, before = a[i], t = before - low;
        a[i] = t - borrow;
        borrow = (before < low) | (t < borrow);
        carry = (uint64_t)(p >> 64);
    }
    return borrow != 0;
}

/* The next digit of a quotient by v[0..n), whose highest bit is set: a[0..n] is below v 2^64 and becomes the remainder (Knuth
 * 4.3.1, algorithm D; the guess from the highest limbs is at most 2 too large). */
RK_FN uint64_t rk_divide_digit(uint64_t *a, const uint64_t *v, int n)
{
    uint64_t rest = a[n], q = rest < v[n - 1] ? rk_divide_step(&rest, a[n - 1], v[n - 1]) : ~(uint64_t)0;
    for (int negative = rk_subtract_multiple(a, v, n, q); negative; q--) {
        uint64_t carry = 0;
        for (int i = 0; i <= n; i++) {
            const unsigned __int128 t = (unsigned __int128)a[i] + (i < n ? v[i] : 0) + carry;
            a[i] = (uint64_t)t;
            carry = (uint64_t)(t >> 64);
        }
        negative = !carry;
    }
    return q;
}

/* Limb i of a magnitude times 2^shift, which is not zero in r alone. */
RK_FN uint64_t rk_shifted_limb(const uint64_t *limb, int n, rk_range r, int i, int shift)
{
    const int negative = (int)(limb[n - 1] >> 63);
    const uint64_t here = i >= r.low && i < r.end ? rk_magnitude_limb(limb, i, negative, r.low) : 0,
                   below = i - 1 >= r.low && i - 1 < r.end ? rk_magnitude_limb(limb, i - 1, negative, r.low) : 0;
    return shift ? here << shift | below >> (64 - shift) : here;
}

/* |u[0..nu) / v[0..nv) * 2^e0|, v not zero, which are not zero in a and in b alone. `scratch`: 2 nv + 1 words. */
RK_COLD rk_top rk_divide_limbs(const uint64_t *u, int nu, rk_range a, const uint64_t *v, int nv, rk_range b, int e0,
                               uint64_t *scratch)
{
    rk_top t = {0, 0, 0};
    const int n = b.end - b.low, shift = rk_clz64(rk_magnitude_limb(v, b.end - 1, (int)(v[nv - 1] >> 63), b.low));
    uint64_t *rest = scratch, *by = scratch + n + 1, q[3] = {0, 0, 0};
    int i = a.end, have = 0, highest = 0;
    if (!a.end)
        return t;
    for (int k = 0; k < n; k++)
        by[k] = rk_shifted_limb(v, nv, b, b.low + k, shift);
    for (int k = 0; k <= n; k++)
        rest[k] = 0;
    for (; have < 3; i--) {
        for (int k = n; k > 0; k--)
            rest[k] = rest[k - 1];
        rest[0] = rk_shifted_limb(u, nu, a, i, shift);
        const uint64_t digit = rk_divide_digit(rest, by, n);
        if (have || digit) {
            if (!have)
                highest = i;
            q[have++] = digit;
        }
    }
    const int top = rk_clz64(q[0]);
    t.window = (unsigned __int128)q[0] << 64 | q[1];
    if (top)
        t.window = t.window << top | q[2] >> (64 - top);
    t.top = e0 + 64 * (highest - b.low) + 63 - top;
    t.sticky = (q[2] << top) != 0 || a.low < i || rk_shifted_limb(u, nu, a, i, shift) != 0;
    for (int k = 0; k <= n; k++)
        t.sticky |= rest[k] != 0;
    return t;
}

/* floor(root of v) and the rest v - root^2, for v >= 2^62; bit by bit. */
RK_FN uint32_t rk_root64(uint64_t v, uint64_t *rest)
{
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 62; bit; bit >>= 2) {
        uint64_t t = root + bit;
        root >>= 1;
        if (v >= t) {
            v -= t;
            root += bit;
        }
    }
    *rest = v;
    return (uint32_t)root;
}

/* The root, cut to 64 bits: its upper half from the upper half of the number, the lower one by a division (Zimmermann,
 * Karatsuba Square Root, 1999). */
RK_COLD rk_top rk_root(rk_top t)
{
    if (!t.window)
        return t;
    /* value = window * 2^exponent; the exponent must be even */
    unsigned __int128 v = t.window;
    int exponent = t.top - 127;
    if (exponent & 1) {
        t.sticky |= (int)(v & 1);
        v >>= 1;
        exponent++;
    }
    uint64_t rest, low = (uint64_t)v, high = rk_root64((uint64_t)(v >> 64), &rest);
    unsigned __int128 r = (unsigned __int128)rest << 32 | low >> 32; /* rest is at most 2 high: below 2^65 */
    uint64_t q = (uint64_t)(r >> 1) / high;
    uint64_t root = (high << 32) + q;
    unsigned __int128 square = (unsigned __int128)root * root;
    while (q > UINT32_MAX || square > v) { /* at most twice */
        root--;
        q--;
        square = (unsigned __int128)root * root;
    }
    t.window = (unsigned __int128)root << 64; /* v has 127 or 128 bits, its root 64 */
    t.top = exponent / 2 + 63;
    t.sticky |= square != v;
    return t;
}

/* out[0..n) = limb[from..from + n) * k; limb is not negative, and zero outside of r */
RK_COLD void rk_multiply(uint64_t *out, const uint64_t *limb, rk_range r, int from, int n, uint64_t k)
{
    uint64_t carry = 0;
    for (int i = from; i < from + n; i++) {
        unsigned __int128 p = (unsigned __int128)(i >= r.low && i < r.end ? limb[i] : 0) * k + carry;
        out[i - from] = (uint64_t)p;
        carry = (uint64_t)(p >> 64);
    }
}

/* a[0..n), which begins at limb `from`, -= x^2 for the two's complement x[0..m) that is not zero in r. By columns. */
RK_COLD void rk_subtract_square(uint64_t *a, int from, int n, const uint64_t *x, int m, rk_range r)
{
    int negative = (int)(x[m - 1] >> 63);
    unsigned __int128 column = 0; /* carried into the column, and its sum so far; `over` counts 2^128 */
    uint64_t over = 0, borrow = 0;
    for (int k = 2 * r.low; r.end && k < from + n; k++) {
        int last = k - r.low < r.end - 1 ? k - r.low : r.end - 1;
        for (int i = k - r.end + 1 > r.low ? k - r.end + 1 : r.low; i <= last; i++) {
            unsigned __int128 p = (unsigned __int128)rk_magnitude_limb(x, i, negative, r.low) *
                                  rk_magnitude_limb(x, k - i, negative, r.low);
            column += p;
            over += column < p;
        }
        uint64_t digit = (uint64_t)column, before = a[k - from], t = before - digit;
        a[k - from] = t - borrow;
        borrow = (before < digit) | (t < borrow);
        column = column >> 64 | (unsigned __int128)over << 64;
        over = 0;
    }
}

#endif
