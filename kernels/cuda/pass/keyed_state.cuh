// Reductions by key (keyed_args.h): a group's state, from its tables.
#pragma once

#include "kernels/cuda/pass/finish.cuh"
#include "kernels/cuda/pass/keyed.cuh"

namespace rk {

// Carried digits to limbs
__device__ inline void limbs_of_digits(const u64 *digit, int limbs, uint64_t *limb)
{
    i64 carry = 0;
    for (int i = 0; i < 2 * limbs; i++) {
        const i64 t = (i64)digit[i] + carry; // each below 2^63 - 2^32
        if (i % 2)
            limb[i / 2] |= (u64)(u32)t << 32;
        else
            limb[i / 2] = (u32)t;
        carry = t >> 32;
    }
}

// A group's window as 128-bit two's complement
__device__ __forceinline__ void window_of(const KeyedArgs &a, u64 group, uint64_t (&v)[2])
{
    const int words = keyed_words(a.kind);
    const i64 low = (i64)a.window[group * words];
    v[0] = (u64)low;
    v[1] = (u64)(low >> 63);
    if (words < 2)
        return;
    const i64 high = (i64)a.window[group * words + 1];
    const uint64_t up[2] = {(u64)high << a.split, (u64)(high >> (64 - a.split))};
    rk_add_limbs(v, up, 2);
}

// The float sum of a group: what is in its digits and its window
__device__ inline void sum_of_group(const KeyedArgs &a, u64 group, u32 flags, rk_state *s)
{
    const int limbs = rk_sum_limbs(s->layout);
    s->nz = s->count && (!(flags & kFlagMinusZero) || flags & kFlagNz);
    if (s->special)
        return;
    if (flags & kFlagDigits)
        limbs_of_digits(a.digits + group * (u64)(2 * limbs), limbs, s->limb);
    uint64_t v[2];
    window_of(a, group, v);
    const bool negative = v[1] >> 63;
    const uint64_t low = negative ? 0 - v[0] : v[0], high = negative ? ~v[1] + (v[0] == 0) : v[1];
    rk_add_shifted(s->limb, limbs, low, (int)a.head->base, negative);
    rk_add_shifted(s->limb, limbs, high, (int)a.head->base + 64, negative);
}

// The sum of squares of a group, of floats or integers
__device__ inline void squares_of_group(const KeyedArgs &a, u64 group, u32 flags, rk_state *s)
{
    const int limbs = rk_square_limbs(s->layout),
              words = rk_bytes(a.dtype) == 8 ? keyed_words(kKeyedWideSquares) : keyed_words(kKeyedSquares);
    uint64_t *limb = s->limb + rk_sum_limbs(s->layout);
    if (s->special)
        return;
    if (flags & kFlagDigits)
        limbs_of_digits(a.square_digits + group * (u64)(2 * limbs), limbs, limb);
    for (int k = 0; k < words; k++)
        rk_add_shifted(limb, limbs, a.squares[group * (u64)words + (u64)k], 2 * (int)a.head->base + k * (int)a.square_split, 0);
}

__device__ inline void state_of_group(const KeyedArgs &a, int layout, u64 group, rk_state *s)
{
    const u32 flags = a.flags[group];
    rk_state_init(s, layout, a.dtype);
    s->count = a.counts ? a.counts[group] : 1;
    s->skipped = (flags & kFlagSkipped) != 0;
    s->special = (u8)(flags & kFlagSpecial);
    switch (a.kind) {
    case kKeyedFloat:
    case kKeyedDouble:
        sum_of_group(a, group, flags, s);
        break;
    case kKeyedInt:
    case kKeyedLong: {
        uint64_t v[2];
        window_of(a, group, v);
        s->limb[0] = v[0];
        s->limb[1] = v[1];
        break;
    }
    case kKeyedBest:
        s->limb[0] = s->count ? rk_unrank(a.dtype, a.least, a.window[group]) : 0;
        if (a.places && s->count)
            s->limb[1] = a.index_base + a.n - a.places[group];
        break;
    case kKeyedCount:
    case kKeyedSquares:
    case kKeyedWideSquares:
        break;
    }
}

// Has each group one more element?
__device__ __forceinline__ bool has_initial(const KeyedArgs &a, const FinishArgs &f)
{
    return a.initial || f.spec.flags & RP_INITIAL;
}

__device__ __forceinline__ u64 initial_of(const KeyedArgs &a, const FinishArgs &f, u64 group)
{
    const u64 bits = a.initial ? bits_at(a.initial, (u32)rk_bytes(a.dtype), group) : f.spec.initial;
    return a.dtype == RP_BOOL ? bits != 0 : bits;
}

// That element, to a group's state. rk_state_add of all layouts takes nvcc longer than all kernels.
__device__ inline void add_initial(const KeyedArgs &a, const FinishArgs &f, u64 group, rk_state *s)
{
    u64 bits = initial_of(a, f, group);
    if (rk_is_nan(a.dtype, bits)) {
        bits = rk_nan_bits(rk_format_of(a.dtype));
        if (!rk_state_nan(s, a.nan))
            return;
    }
    if (a.kind == kKeyedBest)
        rk_choice_add(s, bits, RP_NO_INDEX);
    else if (a.kind != kKeyedCount)
        rk_sums_add(s, bits);
    s->count++;
}

} // namespace rk
