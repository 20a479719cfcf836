// Exact sums of cov and corr, of any type and shape. Blocks share a line, and the last of them finishes it. They are for
// states, for integers, and for lines that near sums leave in doubt (comoments_near.cu, comoments_lines.cu).
#include "kernels/cuda/exact/thread_sum.cuh"
#include "kernels/cuda/pass/finish_comoments.cuh"
#include "kernels/cuda/pass/last_block.cuh"
#include "kernels/cuda/pass/unit_parts.h"
#include "kernels/exact/line.h"

namespace rk {
namespace {

using Digits = LongDigits<2 * RP_MAX_LIMBS>; // the numbers of a state, one behind the other
using Sum = ThreadSum<Digits>;
constexpr int kThreads = 256; // at most: fewer for short lines

// Where a block has its digits, and what they become.
struct Room {
    Digits digits;
    u64 words[kMostWords];
    ComomentRoom finish;
    u64 count;
    u32 flags;
};

// The pairs of a line
struct PairsOfLine {
    const u8 *x, *w, *mask; // of its first pair; mask: may be NULL
    u64 x_apart, w_apart;   // elements from one to the next
    u64 n;
};

__device__ PairsOfLine pairs_of(const rp_spec &s, const rp_parts &parts, const rk_line &line)
{
    const bool columns = s.flags & RP_COLUMNS, own = s.weights_extent == RP_EXTENT_ELEMENTS;
    const bool one = s.weights_extent == (columns ? RP_EXTENT_ROW : RP_EXTENT_COLUMN);
    const u64 first = line.n ? rk_weight_of(&s, line.first) : 0;
    return {parts.elements + line.first * rk_bytes(s.dtype),
            parts.weights + first * rk_bytes(s.weights),
            parts.mask ? parts.mask + line.first : NULL,
            line.stride,
            own ? line.stride : !one,
            line.n};
}

// ---- floats ----

__device__ __forceinline__ double double_of(int dtype, u64 bits)
{
    switch (dtype) {
    case RP_F16:
        return Float<RP_F16>::value((u16)bits);
    case RP_BF16:
        return Float<RP_BF16>::value((u16)bits);
    case RP_F32:
        return Float<RP_F32>::value((u32)bits);
    default:
        return Float<RP_F64>::value(bits);
    }
}

// A thread's sums. A product is p + q, p being it rounded; of f32 and less q is 0.
template <bool kSquares> struct FloatSums {
    Sum of[kSquares ? RK_CO_NUMBERS : RK_CO_XX];
    u64 count;
    u32 flags;
    Digits *digits;
    int layout, e0;
    bool skip;

    __device__ __forceinline__ void init(const FinishArgs &a, Digits *to)
    {
        for (Sum &s : of)
            s.terms.clear();
        count = flags = 0;
        digits = to;
        layout = a.plan.layout;
        e0 = rk_e0(a.plan.dtype);
        skip = a.spec.nan != RP_NAN_PROPAGATE;
    }
    __device__ __forceinline__ int at(int number) const { return 2 * rk_number_at(layout, number); }
    __device__ __forceinline__ void add_number(int number, double x)
    {
        const double v[1] = {x};
        of[number].add(v, digits, at(number), e0);
    }
    __device__ __forceinline__ void add_product(int number, double x, double w)
    {
        const double p = __dmul_rn(x, w), v[2] = {p, __fma_rn(x, w, -p)};
        if (Sum::two_hold(x, w, p))
            of[number].add(v, digits, at(number), 2 * e0);
        else
            Sum::add_product(digits, at(number), e0, x, w);
    }
    __device__ __forceinline__ void add(const rp_spec &s, u64 of_x, u64 of_w)
    {
        const double x = double_of(s.dtype, of_x), w = double_of(s.weights, of_w);
        if (skip && (x != x || w != w)) {
            flags |= kFlagSkipped;
            return;
        }
        count++;
        if (!(fabs(x) < INFINITY && fabs(w) < INFINITY)) {
            flags |= RK_NAN;
            return;
        }
        add_number(RK_CO_X, x);
        add_number(RK_CO_W, w);
        add_product(RK_CO_XW, x, w);
        if constexpr (kSquares) {
            add_product(RK_CO_XX, x, x);
            add_product(RK_CO_WW, w, w);
        }
    }
    // To the block's digits
    __device__ __forceinline__ void move()
    {
        of[RK_CO_X].move(digits, at(RK_CO_X), e0);
        of[RK_CO_W].move(digits, at(RK_CO_W), e0);
        of[RK_CO_XW].move(digits, at(RK_CO_XW), 2 * e0);
        if constexpr (kSquares) {
            of[RK_CO_XX].move(digits, at(RK_CO_XX), 2 * e0);
            of[RK_CO_WW].move(digits, at(RK_CO_WW), 2 * e0);
        }
    }
};

// ---- integers ----

// A thread's sums, in 192 bits of two's complement each.
template <bool kSquares> struct IntSums {
    u64 of[kSquares ? RK_CO_NUMBERS : RK_CO_XX][3];
    u64 count;
    u32 flags;
    Digits *digits;
    int layout;

    __device__ __forceinline__ void init(const FinishArgs &a, Digits *to)
    {
        for (auto &limbs : of)
            limbs[0] = limbs[1] = limbs[2] = 0;
        count = flags = 0;
        digits = to;
        layout = a.plan.layout;
    }
    __device__ __forceinline__ void add_to(u64 (&sum)[3], unsigned __int128 v, bool negative)
    {
        const unsigned __int128 before = (unsigned __int128)sum[1] << 64 | sum[0], now = negative ? before - v : before + v;
        sum[2] += negative ? 0 - (u64)(before < v) : (u64)(now < v);
        sum[0] = (u64)now;
        sum[1] = (u64)(now >> 64);
    }
    __device__ __forceinline__ void add(const rp_spec &s, u64 of_x, u64 of_w)
    {
        const int dtype = s.dtype;
        const u64 x = dtype == RP_BOOL ? of_x != 0 : of_x, w = dtype == RP_BOOL ? of_w != 0 : of_w;
        const u64 a = rk_magnitude(dtype, x), b = rk_magnitude(dtype, w);
        const bool below = rk_int_is_negative(dtype, x), beside = rk_int_is_negative(dtype, w);
        count++;
        add_to(of[RK_CO_X], a, below);
        add_to(of[RK_CO_W], b, beside);
        add_to(of[RK_CO_XW], (unsigned __int128)a * b, below != beside);
        if constexpr (kSquares) {
            add_to(of[RK_CO_XX], (unsigned __int128)a * a, false);
            add_to(of[RK_CO_WW], (unsigned __int128)b * b, false);
        }
    }
    // To the block's digits. Sums have two limbs, products three.
    __device__ __forceinline__ void move()
    {
#pragma unroll
        for (int k = 0; k < (int)(sizeof of / sizeof *of); k++) {
            const u64 *v = of[k];
            const u64 sum[4] = {(u32)v[0], v[0] >> 32, (u32)v[1], v[1] >> 32};
            const u64 above[2] = {(u32)v[2], v[2] >> 32};
            digits->add(2 * rk_number_at(layout, k), sum);
            if (k != RK_CO_X && k != RK_CO_W)
                digits->add(2 * rk_number_at(layout, k) + 4, above);
        }
    }
};

// ---- a line ----

// Word j of the block's digits
__device__ u64 word_of_digits(const Digits &digits, int layout, int j)
{
    int number = 0;
    while (number + 1 < rk_numbers(layout) && j >= 2 * rk_number_at(layout, number + 1))
        number++;
    const int at = 2 * rk_number_at(layout, number);
    return digits.word(at, 2 * rk_number_limbs(layout, number), j - at);
}

// Pair i of the line, as bits
struct PairBits {
    u64 x, w;
    bool in; // it counts

    __device__ __forceinline__ PairBits(const PairsOfLine &line, int bytes, int beside, u64 i)
    {
        in = i < line.n && (!line.mask || line.mask[i * line.x_apart]);
        x = in ? rk_load(line.x + i * line.x_apart * bytes, bytes) : 0;
        w = in ? rk_load(line.w + i * line.w_apart * beside, beside) : 0;
    }
};

// This block's share of the line to its words. Whole block.
template <class Sums> __device__ __forceinline__ void sum_share(const FinishArgs &a, const PairsOfLine &line, Room &room)
{
    const rp_spec &spec = a.spec;
    const int bytes = rk_bytes(spec.dtype), beside = rk_bytes(spec.weights), all = a.plan.digits;
    const u64 step = (u64)gridDim.x * blockDim.x;
    room.digits.clear();
    if (threadIdx.x == 0)
        room.count = room.flags = 0;
    __syncthreads();
    Sums sums;
    sums.init(a, &room.digits);
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    PairBits next(line, bytes, beside, i);
    while (i < line.n) {
        const PairBits now = next;
        i += step;
        next = PairBits(line, bytes, beside, i); // requested before the one in front of it is added
        if (now.in)
            sums.add(spec, now.x, now.w);
    }
    sums.move();
    if (sums.count)
        atomicAdd(&room.count, sums.count);
    if (sums.flags)
        atomicOr(&room.flags, sums.flags);
    __syncthreads();
    for (int j = threadIdx.x; j < all; j += blockDim.x)
        room.words[j] = word_of_digits(room.digits, a.plan.layout, j);
    if (threadIdx.x == 0) {
        room.words[all + kWordCount] = room.count;
        room.words[all + kWordFlags] = room.flags;
    }
    __syncthreads();
}

// The words of the line's blocks, which have left them at `partials`, joined. False: other blocks are still to come. Whole
// block.
__device__ __forceinline__ bool join_shares(const FinishArgs &a, RowTotal *total, u64 *partials, u64 *words)
{
    const u32 all = a.plan.all;
    for (u32 j = threadIdx.x; j < all; j += blockDim.x)
        partials[blockIdx.x * all + j] = words[j];
    if (!last_of_row(total))
        return false;
    for (u32 j = threadIdx.x; j < all; j += blockDim.x) {
        const bool flags = j == a.plan.own + kWordFlags;
        u64 word = 0;
#pragma unroll 8
        for (u32 k = 0; k < gridDim.x; k++) {
            const u64 v = __ldcg(&partials[k * all + j]);
            word = flags ? word | v : word + v;
        }
        words[j] = word;
    }
    __syncthreads();
    return true;
}

// The line with all its blocks, to cell `row`. `total`, `partials`: of this line. Whole block.
template <class Sums> __device__ __forceinline__ void reduce_line(const FinishArgs &a, const PairsOfLine &line, u64 row,
                                                                  RowTotal *total, u64 *partials, Room &room)
{
    sum_share<Sums>(a, line, room);
    if (gridDim.x > 1 && !join_shares(a, total, partials, room.words))
        return;
    if (threadIdx.x < kWarp)
        finish_comoments(a, row, room.words, room.finish);
    __syncthreads();
}

// All lines of a launch
template <class Sums> __global__ void __launch_bounds__(kThreads, 2)
    exact_comoments(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                    const __grid_constant__ WalkArgs w, u64 *partials)
{
    __shared__ Room room;
    for (u64 i = blockIdx.y; i < w.lines; i += gridDim.y) {
        const u64 number = w.first_line + i;
        const PairsOfLine line = pairs_of(a.spec, w.parts, rk_line_of(&a.spec, w.parts.offsets, number));
        reduce_line<Sums>(a, line, number, g.totals + i, partials + i * gridDim.x * a.plan.all, room);
    }
}

// Those that near sums have listed, a block each
template <class Sums> __global__ void __launch_bounds__(kThreads, 2)
    listed_comoments(const __grid_constant__ FinishArgs a, const __grid_constant__ WalkArgs w, u64 *list)
{
    __shared__ Room room;
    wait_for_previous_pass();
    const u64 listed = list[0];
    __syncthreads(); // before the last block clears the list
    if (threadIdx.x == 0 && count_in_turn((u32 *)(list - 1), gridDim.y - 1) == gridDim.y - 1)
        list[0] = 0;
    for (u64 i = blockIdx.y; i < listed; i += gridDim.y) {
        const u64 number = list[1 + i];
        const PairsOfLine line = pairs_of(a.spec, w.parts, rk_line_of(&a.spec, w.parts.offsets, number));
        reduce_line<Sums>(a, line, number, NULL, NULL, room);
    }
}

// Whole rows in doubt: near_pair_rows.cuh
template <class Sums> __global__ void __launch_bounds__(kThreads, 2)
    redo_comoments(SegmentArgs args, const __grid_constant__ FinishArgs a, u64 *scratch)
{
    __shared__ Room room;
    wait_for_previous_pass();
    const int beside = rk_bytes(a.spec.weights);
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
        if (!scratch[row])
            continue;
        const bool one = args.weights_each == 1;
        const PairsOfLine line = {args.data + ((row * args.row_len) << args.element_log2),
                                  args.weights + row * args.weights_each * beside,
                                  args.mask ? args.mask + row * args.row_len : NULL,
                                  1,
                                  !one,
                                  args.row_len};
        u64 *partials = scratch + args.rows + row * gridDim.x * a.plan.all;
        reduce_line<Sums>(a, line, args.first_row + row, args.totals + row, partials, room);
    }
}

} // namespace

template <ComomentPart kPart> ComomentKernels comoment_kernels_part()
{
    using Sums = std::conditional_t<
        kPart == ComomentPart::Cov, FloatSums<false>,
        std::conditional_t<kPart == ComomentPart::Corr, FloatSums<true>,
                           std::conditional_t<kPart == ComomentPart::CovInt, IntSums<false>, IntSums<true>>>>;
    if constexpr (kPart == ComomentPart::Cov || kPart == ComomentPart::Corr)
        return {exact_comoments<Sums>, listed_comoments<Sums>, redo_comoments<Sums>, kThreads};
    else
        return {exact_comoments<Sums>, NULL, NULL, kThreads};
}

#define PARTS(X) X(Cov) X(Corr) X(CovInt) X(CorrInt)
#define PART(of) template ComomentKernels comoment_kernels_part<ComomentPart::of>();
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
