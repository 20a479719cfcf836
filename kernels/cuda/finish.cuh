// The last steps of the chain: join partials, and turn what is left of a row into its state and its cell.
#pragma once

#include "kernels/cuda/common.cuh"

namespace rk {

// What the finish needs of the request.
struct FinishArgs {
    u8 layout, dtype, nan, out;
    bool states_out, least;
    u32 words;      // of a partial
    u32 cell_bytes;
    void *cells;
    u32 *fault;
};

__device__ inline void write_bits(const FinishArgs &a, u64 row, u64 bits)
{
    if (a.cell_bytes == 8)
        ((u64 *)a.cells)[row] = bits;
    else if (a.cell_bytes == 4)
        ((u32 *)a.cells)[row] = (u32)bits;
    else
        ((uint16_t *)a.cells)[row] = (uint16_t)bits;
}

// Write the finished row: its state, or its value.
__device__ inline void write_cell(const FinishArgs &a, u64 row, const rk_state &s)
{
    if (a.states_out) {
        u64 *cell = (u64 *)((unsigned char *)a.cells + row * a.cell_bytes);
        const u64 *words = (const u64 *)&s;
        for (u32 i = 0; i < a.cell_bytes / 8; i++)
            cell[i] = words[i];
        return;
    }
    uint64_t bits;
    if (rk_state_finish(&s, a.nan, a.out, &bits) != RP_OK)
        *a.fault = 1;
    write_bits(a, row, bits);
}

// The canonical state that the words of a partial stand for; limbs of float sums are left to carry_digits.
__device__ inline void state_of_words(const FinishArgs &a, const u64 *words, rk_state *s)
{
    rk_state_init(s, a.layout, a.dtype);
    u32 own = a.words - kTailWords;
    u32 flags = (u32)words[own + kWordFlags];
    s->count = words[own + kWordCount];
    s->special = flags & kFlagSpecial;
    s->nz = (flags & kFlagNz) != 0;
    s->skipped = (flags & kFlagSkipped) != 0;
    switch (a.layout) {
    case RP_STATE_SUM32:
    case RP_STATE_SUM64:
        break;
    case RP_STATE_INT:
        rk_limbs_of_digits((const int64_t *)words, s->limb, rk_limbs(a.layout));
        break;
    case RP_STATE_COUNT:
        s->limb[0] = words[0];
        break;
    default:
        if (s->count == 0)
            break;
        s->limb[0] = rk_unrank(a.dtype, a.least, words[0]);
        if (a.layout == RP_STATE_ARGMIN || a.layout == RP_STATE_ARGMAX)
            s->limb[1] = words[1];
    }
}

// ---- float sums, by a whole warp: the serial way costs microseconds of latency at the end of every request ----

// A lane holds kGroups digits: lane, lane + 32, lane + 64.
constexpr int kMaxGroups = (kDigits64 + kWarp - 1) / kWarp;

// Each lane's value of the digit below its own, given its values `c`; 0 below the lowest digit.
template <int kGroups>
__device__ __forceinline__ void from_digit_below(const u64 (&c)[kGroups], u64 (&below)[kGroups])
{
    const u32 lane = threadIdx.x % kWarp;
    u64 last = 0;
#pragma unroll
    for (int k = 0; k < kGroups; k++) {
        u64 t = __shfl_sync(kFullMask, c[k], (lane + kWarp - 1) % kWarp);
        below[k] = lane ? t : last;
        last = t; // lane 0 has what lane 31 of this group said: digit 32k + 31
    }
}

// Carry-save digits words[0..n), each below 2^61 in magnitude, to plain base-2^32 digits (two's complement) at
// `digits`. To begin with, every digit lends 2^30 to the one below it in units of that one, which leaves the value as
// it is modulo 2^(32n) and makes all digits positive. Two rounds then bring them down to at most 2^32, and what still
// ripples is a binary addition of the generate and propagate bits of all lanes.
template <int kGroups> __device__ inline void carry_digits(const u64 *words, int n, u32 *digits)
{
    const int lane = threadIdx.x % kWarp;
    constexpr u64 kLoan = 1ull << 30;
    u64 d[kGroups], c[kGroups], below[kGroups];
#pragma unroll
    for (int k = 0; k < kGroups; k++) {
        int j = lane + k * kWarp;
        d[k] = j < n ? words[j] + (kLoan << 32) - (j ? kLoan : 0) : 0;
    }
#pragma unroll
    for (int round = 0; round < 2; round++) {
#pragma unroll
        for (int k = 0; k < kGroups; k++)
            c[k] = d[k] >> 32;
        from_digit_below(c, below);
#pragma unroll
        for (int k = 0; k < kGroups; k++)
            d[k] = (u32)d[k] + below[k];
    }
    u64 carry = 0; // into the lowest digit of the group
#pragma unroll
    for (int k = 0; k < kGroups; k++) {
        u32 generate = __ballot_sync(kFullMask, d[k] >> 32), propagate = __ballot_sync(kFullMask, d[k] == 0xffffffffu);
        u64 sum = (u64)propagate + ((u64)generate << 1) + carry; // a carry runs through all ones above it
        u32 in = (u32)sum ^ propagate;
        carry = sum >> 32;
        int j = lane + k * kWarp;
        if (j < n)
            digits[j] = (u32)d[k] + (in >> lane & 1);
    }
    __syncwarp();
}

// The limbs of s, a float sum without specials, rounded to `out`. Lane 0 has the result.
__device__ inline u64 round_sum(const FinishArgs &a, const rk_state &s)
{
    const int lane = threadIdx.x % kWarp, n = rk_limbs(a.layout);
    const int negative = (int)(s.limb[n - 1] >> 63);
    rk_format f = rk_format_of(a.out);
    int low = n, head = -1;
    for (int k = 0; k < n; k += kWarp) {
        u32 some = __ballot_sync(kFullMask, lane + k < n && s.limb[lane + k] != 0);
        if (some && low == n)
            low = k + __ffs((int)some) - 1;
    }
    if (low == n)
        return rk_sign_bit(f, s.count && !s.nz);
    for (int k = 0; k < n; k += kWarp) {
        u32 some = __ballot_sync(kFullMask, lane + k < n && rk_magnitude_limb(s.limb, lane + k, negative, low) != 0);
        if (some)
            head = k + kWarp - 1 - __clz((int)some);
    }
    return rk_round_between(s.limb, low, head, rk_e0(a.layout), negative, f);
}

__device__ inline bool is_float_sum(int layout) { return layout == RP_STATE_SUM32 || layout == RP_STATE_SUM64; }

// The row that `words` (shared memory) are all of: its state, finished. By the first warp of the block, all lanes; kept
// out of line, since it is no part of the loops.
static __device__ __noinline__ void finish_row(const FinishArgs &a, u64 row, const u64 *words)
{
    __shared__ rk_state s;
    const bool first = threadIdx.x % kWarp == 0;
    const bool limbs = is_float_sum(a.layout) && !(words[a.words - kTailWords + kWordFlags] & kFlagSpecial);
    if (first)
        state_of_words(a, words, &s);
    __syncwarp();
    if (limbs && a.layout == RP_STATE_SUM32)
        carry_digits<1>(words, kDigits32, (u32 *)s.limb);
    else if (limbs)
        carry_digits<kMaxGroups>(words, kDigits64, (u32 *)s.limb);
    if (limbs && !a.states_out && !(a.nan == RP_NAN_ERROR && s.skipped)) {
        u64 bits = round_sum(a, s);
        if (first)
            write_bits(a, row, bits);
    } else if (first) {
        write_cell(a, row, s);
    }
    __syncwarp();
}

} // namespace rk
