/* Big integers in 64-bit limbs, lowest first, two's complement: the arithmetic of exact sums. Pure, thread-safe. */
#ifndef RK_LIMBS_H
#define RK_LIMBS_H

#include "kernels/exact/format.h"

/* From the working form of float sums, base-2^32 digits in int64 with delayed carries, d[0..2n), to two's complement
 * limb[0..n). Returns the carry into limb n. */
RK_FN int64_t rk_limbs_of_digits(const int64_t *d, uint64_t *limb, int n)
{
    int64_t carry = 0;
    for (int i = 0; i < n; i++) {
        int64_t lo = d[2 * i] + carry;
        int64_t hi = d[2 * i + 1] + (lo >> 32);
        limb[i] = (uint64_t)(uint32_t)lo | (uint64_t)(uint32_t)hi << 32;
        carry = hi >> 32;
    }
    return carry;
}

/* a += b over n limbs */
RK_FN void rk_add_limbs(uint64_t *a, const uint64_t *b, int n)
{
    uint64_t carry = 0;
    for (int i = 0; i < n; i++) {
        uint64_t s = a[i] + b[i];
        uint64_t c = s < b[i];
        a[i] = s + carry;
        carry = c | (a[i] < s);
    }
}

/* limb i of |value|, for a two's complement number that is negative if `negative`; `low` counts the zero limbs below,
 * because -x is ~x + 1 and the carry runs through zero limbs only */
RK_FN uint64_t rk_magnitude_limb(const uint64_t *limb, int i, int negative, int low)
{
    if (!negative || i < low)
        return limb[i];
    return i == low ? 0 - limb[i] : ~limb[i];
}

/* The nonzero limbs of |x| lie in [low, end). Of 0 both are 0. */
typedef struct rk_range {
    int low, end;
} rk_range;

RK_FN rk_range rk_range_of(const uint64_t *limb, int n)
{
    rk_range r = {0, n};
    const uint64_t sign = (uint64_t)((int64_t)limb[n - 1] >> 63);
    while (r.low + 4 <= n && (limb[r.low] | limb[r.low + 1] | limb[r.low + 2] | limb[r.low + 3]) == 0)
        r.low += 4;
    while (r.low < n && limb[r.low] == 0)
        r.low++;
    if (r.low == n)
        r.low = r.end = 0;
    while (r.end > r.low + 4 &&
           ((limb[r.end - 1] ^ sign) | (limb[r.end - 2] ^ sign) | (limb[r.end - 3] ^ sign) | (limb[r.end - 4] ^ sign)) == 0)
        r.end -= 4;
    while (r.end > r.low + 1 && limb[r.end - 1] == sign) /* above the lowest limb, |x| has ~limb if x is negative */
        r.end--;
    return r;
}

/* Round the integer limb * 2^e0 that is not zero. `low`: its lowest limb that is not zero; `head`: the highest limb of its
 * magnitude that is not zero. */
RK_FN uint64_t rk_round_between(const uint64_t *limb, int low, int head, int e0, int negative, rk_format f)
{
    uint64_t first = rk_magnitude_limb(limb, head, negative, low);
    uint64_t next = head > 0 ? rk_magnitude_limb(limb, head - 1, negative, low) : 0;
    int shift = rk_clz64(first);
    uint64_t window = shift ? first << shift | next >> (64 - shift) : first;
    int sticky = (shift ? next << shift : next) != 0 || low < head - 1;
    return rk_round_window(window, e0 + 64 * head + 63 - shift, sticky, negative, f);
}

/* Round the integer limb[0..n) * 2^e0. `zero_negative`: what an exact zero rounds to. */
RK_COLD uint64_t rk_round_limbs(const uint64_t *limb, int n, int e0, int zero_negative, rk_format f)
{
    rk_range r = rk_range_of(limb, n);
    if (!r.end)
        return rk_sign_bit(f, zero_negative);
    return rk_round_between(limb, r.low, r.end - 1, e0, (int)(limb[n - 1] >> 63), f);
}

/* limb[0..n) += or -= v * 2^shift */
RK_FN void rk_add_shifted(uint64_t *limb, int n, uint64_t v, int shift, int negative)
{
    int i = shift / 64, s = shift % 64;
    uint64_t part = v << s, above = s ? v >> (64 - s) : 0, carry = 0;
    for (; i < n && (part | above | carry); i++) {
        uint64_t before = limb[i], t = part + carry;
        carry = t < carry; /* part + carry wrapped: then t is 0 */
        limb[i] = negative ? before - t : before + t;
        carry += negative ? before < t : limb[i] < t;
        part = above;
        above = 0;
    }
}

#endif
