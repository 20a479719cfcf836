/* The value at a place between two elements, rounded once, for hosts and devices. Pure, thread-safe. */
#ifndef RK_ORDER_MIX_H
#define RK_ORDER_MIX_H

#include "kernels/exact/families/choice.h"
#include "kernels/exact/layout.h"
#include "kernels/exact/order_place.h"
#include "kernels/exact/quotient.h"

enum { RK_MIX_FACTORS = 22, RK_MIX_LIMBS = RK_LIMBS64 + RK_MIX_FACTORS + 4, RK_TENS_A_FACTOR = 19 };

/* times x 10^tens as factors below 2^64, and as a number. */
typedef struct rk_divisor {
    int factors, limbs;
    uint64_t factor[RK_MIX_FACTORS + 1], limb[RK_MIX_FACTORS + 1];
} rk_divisor;

RK_FN void rk_divisor_times(rk_divisor *d, uint64_t by)
{
    uint64_t carry = 0;
    for (int i = 0; i < d->limbs; i++) {
        const unsigned __int128 v = (unsigned __int128)d->limb[i] * by + carry;
        d->limb[i] = (uint64_t)v;
        carry = (uint64_t)(v >> 64);
    }
    if (carry)
        d->limb[d->limbs++] = carry;
    d->factor[d->factors++] = by;
}

RK_FN void rk_divisor_of(rk_divisor *d, rk_place p)
{
    d->factors = 0;
    d->limbs = 1;
    d->limb[0] = 1;
    int tens = p.tens < RK_TENS_A_FACTOR - 1 ? p.tens : RK_TENS_A_FACTOR - 1; /* leaves room for `times` */
    rk_divisor_times(d, (uint64_t)p.times * (uint64_t)rk_power_of_ten(tens));
    for (int left = p.tens - tens; left > 0; left -= tens) {
        tens = left < RK_TENS_A_FACTOR ? left : RK_TENS_A_FACTOR;
        rk_divisor_times(d, (uint64_t)rk_power_of_ten(tens));
    }
}

/* A finite element: mantissa x 2^shift in units of 2^rk_e0. */
typedef struct rk_mix_element {
    uint64_t mantissa;
    int shift, negative;
} rk_mix_element;

RK_FN rk_mix_element rk_mix_element_of(int dtype, uint64_t bits)
{
    rk_mix_element e = {rk_magnitude(dtype, bits), 0, rk_is_signed(dtype) && rk_sign_extend(bits, rk_bytes(dtype)) >> 63};
    if (rk_is_float(dtype)) {
        const rk_number x = rk_number_of(rk_format_of(dtype), bits);
        e.mantissa = x.mantissa;
        e.shift = x.unit - rk_e0(dtype);
        e.negative = x.negative;
    }
    return e;
}

/* sum += or -= x times the n limbs of `by` */
RK_FN void rk_mix_add(uint64_t *sum, int limbs, rk_mix_element x, const uint64_t *by, int n, bool minus)
{
    for (int i = 0; i < n; i++) {
        const unsigned __int128 v = (unsigned __int128)x.mantissa * by[i];
        rk_add_shifted(sum, limbs, (uint64_t)v, x.shift + 64 * i, x.negative ^ minus);
        rk_add_shifted(sum, limbs, (uint64_t)(v >> 64), x.shift + 64 * (i + 1), x.negative ^ minus);
    }
}

/* The number limb[0..n) x 2^e0 over the divisor, rounded once. It is divided by one factor after the other, from the highest
 * limb down, until there are 128 bits. */
RK_FN uint64_t rk_round_quotient(const uint64_t *limb, int n, int e0, const rk_divisor *d, rk_format f)
{
    const rk_range r = rk_range_of(limb, n);
    const int negative = (int)(limb[n - 1] >> 63);
    uint64_t rest[RK_MIX_FACTORS + 1] = {0}, q[3] = {0};
    int i = r.end - 1, highest = 0, have = 0, sticky;
    if (!r.end)
        return 0;
    for (; have < 3; i--) {
        uint64_t digit = i >= 0 ? rk_magnitude_limb(limb, i, negative, r.low) : 0;
        for (int k = 0; k < d->factors; k++)
            digit = rk_divide_step(&rest[k], digit, d->factor[k]);
        if (!have && !digit)
            continue;
        highest = have ? highest : i;
        q[have++] = digit;
    }
    sticky = r.low <= i;
    for (int k = 0; k < d->factors; k++)
        sticky |= rest[k] != 0;
    const int shift = rk_clz64(q[0]);
    rk_top t = {(unsigned __int128)q[0] << 64 | q[1], e0 + 64 * highest + 63 - shift, 0};
    if (shift)
        t.window = t.window << shift | q[2] >> (64 - shift);
    t.sticky = sticky || q[2] << shift != 0;
    return rk_round_top(t, negative, f);
}

/* (x (whole - part) + y part) / whole in units of 2^e0, rounded once. False: 128 bits do not hold the sum. */
RK_FN bool rk_mix_near(rk_mix_element x, rk_mix_element y, rk_place p, int e0, rk_format f, uint64_t *word)
{
    if (p.tens >= RK_TENS_A_FACTOR)
        return false;
    const uint64_t whole = (uint64_t)p.times * (uint64_t)rk_power_of_ten(p.tens), part = (uint64_t)p.part;
    const int low = x.shift < y.shift ? x.shift : y.shift, room = rk_clz64(whole) - 2;
    if (x.shift - low > room + rk_clz64(x.mantissa | 1) || y.shift - low > room + rk_clz64(y.mantissa | 1))
        return false;
    const unsigned __int128 a = (unsigned __int128)x.mantissa * (whole - part) << (x.shift - low),
                            b = (unsigned __int128)y.mantissa * part << (y.shift - low);
    const bool minus = x.negative != y.negative;
    unsigned __int128 sum = !minus ? a + b : a < b ? b - a : a - b;
    *word = 0;
    if (!sum)
        return true;
    const int up = sum >> 64 ? rk_clz64((uint64_t)(sum >> 64)) : 64 + rk_clz64((uint64_t)sum);
    sum <<= up;
    const unsigned __int128 quotient = sum / whole; /* above 2^64: whole < 2^63 */
    const int shift = rk_clz64((uint64_t)(quotient >> 64));
    const rk_top t = {quotient << shift, e0 + low - up + 127 - shift, quotient * whole != sum};
    *word = rk_round_top(t, minus && a < b ? y.negative : x.negative, f);
    return true;
}

/* a + g (b - a) of finite elements = (a (whole - part) + b part) / whole, in limbs from that of the lower one's unit on: most
 * neighbours are near each other. */
RK_FN uint64_t rk_mix(int dtype, uint64_t a, uint64_t b, rk_place p, rk_format f)
{
    const uint64_t part[2] = {(uint64_t)p.part, (uint64_t)(p.part >> 64)};
    rk_mix_element x = rk_mix_element_of(dtype, a), y = rk_mix_element_of(dtype, b);
    x.shift = x.mantissa ? x.shift : y.shift;
    y.shift = y.mantissa ? y.shift : x.shift;
#ifndef __CUDA_ARCH__
    uint64_t word;
    if (rk_mix_near(x, y, p, rk_e0(dtype), f, &word))
        return word;
#endif
    const int below = (x.shift < y.shift ? x.shift : y.shift) / 64 * 64, most = (x.shift < y.shift ? y.shift : x.shift) - below;
    x.shift -= below;
    y.shift -= below;
    uint64_t sum[RK_MIX_LIMBS];
    rk_divisor d;
    rk_divisor_of(&d, p);
    const int limbs = most / 64 + d.limbs + 4;
    for (int i = 0; i < limbs; i++)
        sum[i] = 0;
    rk_mix_add(sum, limbs, x, d.limb, d.limbs, false);
    rk_mix_add(sum, limbs, x, part, 2, true);
    rk_mix_add(sum, limbs, y, part, 2, false);
    return rk_round_quotient(sum, limbs, rk_e0(dtype) + below, &d, f);
}

RK_FN rp_err rk_order_element(int dtype, int out, uint64_t bits, uint64_t *word)
{
    if (rk_is_float(dtype) || !rk_is_float(out))
        return (rp_err)rk_element_out(dtype, bits, out, word);
    *word = rk_mix(dtype, bits, bits, rk_place_at(0, 0), rk_format_of(out));
    return RP_OK;
}

/* The value between element a and the next one, b, which is read only if the place is not that of `a`. */
RK_FN rp_err rk_order_between(int dtype, int out, uint64_t a, uint64_t b, rk_place p, uint64_t *word)
{
    const rk_format from = rk_format_of(dtype), f = rk_format_of(out);
    if (!p.part || a == b)
        return rk_order_element(dtype, out, a, word);
    const bool floats = rk_is_float(dtype);
    const bool low = floats && a == (rk_sign_bit(from, 1) | rk_inf_bits(from)), high = floats && b == rk_inf_bits(from);
    *word = low && high ? rk_nan_bits(f)
            : low       ? rk_sign_bit(f, 1) | rk_inf_bits(f)
            : high      ? rk_inf_bits(f)
                        : rk_mix(dtype, a, b, p, f);
    return RP_OK;
}

#endif
