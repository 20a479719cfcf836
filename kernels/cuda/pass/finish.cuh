// The last steps of the chain: join partials, and turn a row's words into its state and its cell.
#pragma once

#include "kernels/cuda/exact/narrow_value.cuh"
#include "kernels/cuda/exact/ziv_state.cuh"
#include "kernels/cuda/pass/partial.cuh"
#include "kernels/cuda/pass/whole.h"

namespace rk {

__device__ inline void lower_fault(u32 *fault, u64 line) { atomicMin(fault, (u32)(line < kNoFault ? line : kNoFault - 1)); }
__device__ inline void set_fault(const FinishArgs &a, u64 line) { lower_fault(a.fault, line); }

__device__ inline void write_bits(u32 bytes, void *cells, u64 i, u64 bits)
{
    if (bytes == 8)
        ((u64 *)cells)[i] = bits;
    else if (bytes == 4)
        ((u32 *)cells)[i] = (u32)bits;
    else if (bytes == 2)
        ((uint16_t *)cells)[i] = (uint16_t)bits;
    else
        ((uint8_t *)cells)[i] = (uint8_t)bits;
}

// The value of a line that is v in f64, in the format that is asked for. `exact`: it is v, and finite. False, and nothing is
// written: v does not decide it.
__device__ __forceinline__ bool write_value(const FinishArgs &a, u64 line, double v, bool exact = false)
{
    u64 bits;
    if (exact)
        bits = rounded_bits(v, a.spec.out);
    else if (!value_bits(v, a.spec.out, &bits))
        return false;
    write_bits(a.cell_bytes, a.cells, line, bits);
    return true;
}

__device__ __forceinline__ u64 uncertain_bits(u32 bytes)
{
    return bytes == 8 ? kUncertain8 : bytes == 4 ? kUncertain4 : kUncertain2;
}

// The words of a finished row's value.
__device__ inline void write_words(const FinishArgs &a, u64 row, const uint64_t *words)
{
    const u32 bytes = a.spec.op == RP_OP_STATS ? 8 : (u32)rk_bytes(a.spec.out), n = a.cell_bytes / bytes;
    for (u32 i = 0; i < n; i++)
        write_bits(bytes, a.cells, row * n + i, words[i]);
}

__device__ inline void write_state(const FinishArgs &a, u64 row, const rk_state &s)
{
    u64 *cell = (u64 *)((unsigned char *)a.cells + row * a.cell_bytes);
    const u64 *words = (const u64 *)&s;
    for (u32 i = 0; i < a.cell_bytes / 8; i++)
        cell[i] = words[i];
}

// Write the finished row: its state, or its value. `scratch`: RK_FINISH_SCRATCH words. One thread.
static __device__ __noinline__ void write_cell(const FinishArgs &a, u64 row, rk_state &s, uint64_t *scratch)
{
    if (a.spec.flags & RP_STATES_OUT) {
        write_state(a, row, s);
        return;
    }
    if (a.spec.flags & RP_INITIAL)
        rk_state_add(&s, a.spec.initial, RP_NO_INDEX, a.spec.nan);
    uint64_t words[RP_MAX_CELL_WORDS];
    if (rk_state_finish(&s, &a.spec, scratch, words) != RP_OK)
        set_fault(a, row);
    write_words(a, row, words);
}

// ---- float sums, by a whole warp: the serial way costs microseconds of latency at the end of every request ----

// A lane holds kGroups digits: lane, lane + 32, lane + 64, ...

// Each lane's value of the digit below its own, given its values `c`; 0 below the lowest digit.
template <int kGroups> __device__ __forceinline__ void from_digit_below(const u64 (&c)[kGroups], u64 (&below)[kGroups])
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

__device__ inline void carry_digits(const u64 *words, int n, uint64_t *limb)
{
    if (n <= kWarp)
        carry_digits<1>(words, n, (u32 *)limb);
    else if (n <= 3 * kWarp)
        carry_digits<3>(words, n, (u32 *)limb);
    else
        carry_digits<5>(words, n, (u32 *)limb);
}

// rk_range_of, by a warp. n: not 0
__device__ __forceinline__ rk_range limb_range(const uint64_t *limb, int n)
{
    const int lane = threadIdx.x % kWarp, negative = (int)(limb[n - 1] >> 63);
    int low = n, head = -1;
    for (int k = 0; k < n; k += kWarp) {
        const u32 some = __ballot_sync(kFullMask, lane + k < n && limb[lane + k] != 0);
        if (some && low == n)
            low = k + __ffs((int)some) - 1;
    }
    for (int k = 0; k < n; k += kWarp) {
        const u32 some = __ballot_sync(kFullMask, lane + k < n && rk_magnitude_limb(limb, lane + k, negative, low) != 0);
        if (some)
            head = k + kWarp - 1 - __clz((int)some);
    }
    return {low < n ? low : 0, low < n ? head + 1 : 0};
}

// The plain float sum (a.plain) that `words` of shared memory stand for, in kDigits digits: rounded and written. By a warp.
template <int kDigits> __device__ __forceinline__ void finish_plain(const FinishArgs &a, u64 row, const u64 *words)
{
    constexpr int n = kDigits / 2, kGroups = (kDigits + kWarp - 1) / kWarp;
    __shared__ uint64_t limb[n];
    const int lane = threadIdx.x % kWarp;
    const u32 flags = (u32)words[kDigits + kWordFlags];
    const rk_format f = rk_format_of(a.spec.out);
    u64 bits;
    if (flags & kFlagSpecial) {
        bits = rk_special_bits(flags & kFlagSpecial, f);
    } else {
        carry_digits<kGroups>(words, kDigits, (u32 *)limb);
        const int negative = (int)(limb[n - 1] >> 63);
        const rk_range r = limb_range(limb, n);
        bits = r.end ? rk_round_between(limb, r.low, r.end - 1, rk_e0(a.spec.dtype), negative, f)
                     : rk_sign_bit(f, words[kDigits + kWordCount] && !(flags & kFlagNz) && !rk_is_abs(a.plan.layout));
    }
    if (lane == 0) {
        if (a.spec.nan == RP_NAN_ERROR && (flags & kFlagSkipped))
            set_fault(a, row);
        write_bits(a.cell_bytes, a.cells, row, bits);
    }
    __syncwarp();
}

// ---- finished values that take no state ----

// An integer sum.
__device__ __forceinline__ int sum_value(const FinishArgs &a, u64 low, i64 high, u64 *value)
{
    const uint64_t v[3] = {low, (u64)high, (u64)(high >> 63)};
    uint64_t word;
    const int code = rk_fit(v, a.spec.out, &word);
    *value = word;
    return code;
}

// The element of this rank, the best of `count`; the largest magnitude of none is zero. `dtype` is the request's, perhaps as a
// constant.
__device__ __forceinline__ int element_value(const FinishArgs &a, int dtype, u64 rank, u64 count, u64 *value)
{
    const u64 bits = rk_unrank(dtype, a.spec.op == RP_OP_MIN, rank);
    uint64_t word;
    int code = RP_OK;
    if (a.spec.out == dtype && !rk_is_nan(dtype, bits))
        word = bits;
    else if (dtype == RP_F32 && a.spec.out == RP_F64 && !rk_is_nan(RP_F32, bits)) // by the hardware
        word = (u64)__double_as_longlong((double)__uint_as_float((u32)bits));
    else
        code = rk_element_out(dtype, bits, a.spec.out, &word);
    *value = word;
    if (count == 0 && a.spec.op == RP_OP_NORMINF)
        *value = 0;
    return count || a.spec.op == RP_OP_NORMINF ? code : RP_EMPTY;
}

__device__ __forceinline__ int index_value(u64 index, u64 count, u64 *value)
{
    *value = index;
    return count ? RP_OK : RP_EMPTY;
}

// What follows from `some` of `count` elements; of bools also min, max and others (makes_light_truths).
__device__ __forceinline__ int count_value(const FinishArgs &a, u64 some, u64 count, u64 *value)
{
    const int op = a.spec.op;
    const bool any = op == RP_OP_ANY || op == RP_OP_MAX || op == RP_OP_OR,
               all = op == RP_OP_ALL || op == RP_OP_MIN || op == RP_OP_AND;
    *value = any ? some != 0 : all ? some == count : some;
    return count == 0 && (op == RP_OP_MIN || op == RP_OP_MAX) ? RP_EMPTY : RP_OK;
}

// Any of them: an integer sum, an element, an index, a count, an integer product.
__device__ inline int light_value(const FinishArgs &a, const u64 *words, u64 *value)
{
    const WordPlan &p = a.plan;
    const bool refused = a.spec.nan == RP_NAN_ERROR && (words[p.own + kWordFlags] & kFlagSkipped);
    u64 count = words[p.own + kWordCount];
    uint64_t v[2];
    if (refused)
        return RP_NAN;
    switch ((rp_layout)p.layout) {
    case RP_STATE_INT:
        rk_limbs_of_digits((const int64_t *)words, v, 2);
        return sum_value(a, v[0], (i64)v[1], value);
    case RP_STATE_MIN:
    case RP_STATE_MAX:
    case RP_STATE_NORMINF:
        return element_value(a, p.dtype, words[0], count, value);
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
        return index_value(words[1], count, value);
    case RP_STATE_PRODINT:
        *value = words[RK_PROD_WRAPPED];
        return RP_OK;
    case RP_STATE_COUNT:
        break;
    case RP_STATE_SUM32: // a.plain
    case RP_STATE_SUM64:
    case RP_STATE_ABS32:
    case RP_STATE_ABS64:
    case RP_STATE_SQ32: // not here: squares take a state
    case RP_STATE_SQ64:
    case RP_STATE_SQINT:
    case RP_STATE_MOM32:
    case RP_STATE_MOM64:
    case RP_STATE_MOMINT:
    case RP_STATE_ABSINT:
    case RP_STATE_MINMAX:
    case RP_STATE_NANS:
    case RP_STATE_AND:
    case RP_STATE_OR:
    case RP_STATE_XOR:
    case RP_STATE_PROD:
    case RP_STATE_STATS32:
    case RP_STATE_STATS64:
    case RP_STATE_STATSINT:
    case RP_STATE_DOT32: // pairs take a state, too
    case RP_STATE_DOT64:
    case RP_STATE_DOTINT:
    case RP_STATE_WMEAN32:
    case RP_STATE_WMEAN64:
    case RP_STATE_WMEANINT:
    case RP_STATE_COV32:
    case RP_STATE_COV64:
    case RP_STATE_COVINT:
    case RP_STATE_CORR32:
    case RP_STATE_CORR64:
    case RP_STATE_CORRINT:
        break;
    }
    return count_value(a, words[0], count, value);
}

// The same for any plain float sum; out of line, because it is not part of the loops.
static __device__ __noinline__ void finish_float(const FinishArgs &a, u64 row, const u64 *words)
{
    if (a.plan.sum == kDigits32)
        finish_plain<kDigits32>(a, row, words);
    else
        finish_plain<kDigits64>(a, row, words);
}

// Finishes the row whose words are all in `words` (shared memory), if a.light. By the first warp of the block, all lanes.
// Inline, except for floats: arguments are constants in the kernel itself, but memory in functions that it calls.
__device__ __forceinline__ void finish_light(const FinishArgs &a, u64 row, const u64 *words)
{
    if (a.plain) {
        finish_float(a, row, words);
    } else if (threadIdx.x % kWarp == 0) {
        u64 bits = 0;
        if (light_value(a, words, &bits) != RP_OK)
            set_fault(a, row);
        write_bits(a.cell_bytes, a.cells, row, bits);
    }
    __syncwarp();
}

// Writes the value of a row of floats if a few doubles decide it. By a warp: the first lane returns whether it did.
__device__ __forceinline__ bool write_by_doubles(const FinishArgs &a, u64 row, const rk_state &s)
{
    const int sum = rk_sum_limbs(s.layout), squares = rk_square_limbs(s.layout);
    const rk_range none = {0, 0};
    if (!sum && !squares)
        return false;
    const rk_range of_sum = sum ? limb_range(s.limb, sum) : none,
                   of_squares = squares ? limb_range(s.limb + sum, squares) : none;
    uint64_t words[RP_MAX_CELL_WORDS];
    if (threadIdx.x % kWarp || a.spec.flags & (RP_STATES_OUT | RP_INITIAL) ||
        !finish_by_doubles(s, of_sum, of_squares, a.spec, (rk_finisher)a.finisher, words))
        return false;
    write_words(a, row, words);
    return true;
}

// Shared memory that this takes
struct FinishRoom {
    PlainState s;
    uint64_t scratch[RK_FINISH_SCRATCH];
};

// Finishes the row whose words are all in `words` (shared memory), for any value. By the first warp of the block, all lanes.
static __device__ __noinline__ void finish_row(const FinishArgs &a, u64 row, const u64 *words, FinishRoom &room)
{
    rk_state &s = room.s.get();
    const WordPlan &p = a.plan;
    const bool first = threadIdx.x % kWarp == 0;
    if (first)
        state_of_words(p, words, &s);
    __syncwarp();
    if (has_sum(p, s.special))
        carry_digits(words, p.sum, s.limb);
    if (!s.special && p.digits > p.sum)
        carry_digits(words + p.sum, p.digits - p.sum, s.limb + p.sum / 2);
    if (!s.special && p.layout == RP_STATE_PROD)
        carry_digits(words, 6, s.limb);
    const bool written = write_by_doubles(a, row, s);
    __syncwarp(); // all lanes have read the state
    if (!written && first)
        write_cell(a, row, s, room.scratch);
    __syncwarp();
}

__device__ __forceinline__ void finish_row(const FinishArgs &a, u64 row, const u64 *words)
{
    __shared__ FinishRoom room;
    finish_row(a, row, words, room);
}

} // namespace rk
