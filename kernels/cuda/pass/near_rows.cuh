// Rows whose value is known from near sums, mostly: they end in the same launch.
#pragma once

#include <algorithm>

#include "kernels/cuda/exact/far_sums.cuh"
#include "kernels/cuda/exact/near_moments.cuh"
#include "kernels/cuda/pass/finish_moments.cuh"
#include "kernels/cuda/pass/segment.cuh"

namespace rk {

// What a block leaves. In scratch
struct alignas(16) NearPartial {
    NearSums sums;
    u64 flags;
};

// The flags of all threads. Whole block. `all`, shared memory: flags that some of them have.
__device__ __forceinline__ u32 flags_of_block(u32 flags, u32 *all)
{
    if (!__syncthreads_or(flags)) // mostly
        return 0;
    if (flags)
        atomicOr(all, flags);
    __syncthreads();
    return *all;
}

// Are its sums at a level (far_sums.cuh)?
template <class Near, class = void> constexpr bool kScaled = false;
template <class Near> constexpr bool kScaled<Near, std::void_t<decltype(Near::kScales)>> = Near::kScales;

// Sums at the level that these flags tell, to that of more flags
__device__ __forceinline__ void raise_sums(NearSums &sums, u32 flags, u32 to)
{
    if (const int levels = level_of_flags(to) - level_of_flags(flags))
        raise_far(sums.sum, sums.squares, levels);
}

// The sums and flags that the row's n blocks have left. Whole block. all_flags: those of this one.
template <int kThreads, bool kScales> __device__ __forceinline__ NearSums join_partials(const NearPartial *partials, u32 n,
                                                                                        u32 &flags, u32 *all_flags,
                                                                                        NearRoom<kThreads> &room)
{
    NearSums all;
    all.clear();
    flags = 0;
    for (u32 i = threadIdx.x; i < n; i += kThreads) {
        const double2 *p = (const double2 *)&partials[i];
        const double2 a = __ldcg(p), b = __ldcg(p + 1), c = __ldcg(p + 2);
        const u32 own = (u32)__ldcg(&partials[i].flags), both = flags | own;
        NearSums one = {{a.x, {a.y, b.x}}, {b.y, {c.x, c.y}}};
        if (kScales && both) {
            raise_sums(all, flags, both);
            raise_sums(one, own, both);
        }
        flags = both;
        all.join(one);
    }
    const u32 own = flags;
    flags = flags_of_block(own, all_flags);
    if (kScales && flags)
        raise_sums(all, own, flags);
    return join_block<kThreads>(all, room);
}

// Rare: the row's words, exactly, by one block that goes through the parts of all blocks.
template <class Any> __device__ __noinline__ void sum_again(const SegmentArgs &args, const WordPlan &plan,
                                                            const unsigned char *p, void *shared, u64 *words)
{
    __shared__ u64 part[Any::kWords + kTailWords];
    clear_words(plan, words);
    for (u32 block = 0; block < gridDim.x; block++) {
        Any any;
        const u64 elements = add_part_of(block, any, args, p, shared, Nothing{});
        any.flush(args, p, shared, elements, part);
        __syncthreads();
        const u32 j = threadIdx.x;
        if (j < plan.all)
            words[j] = join_words(word_kind(plan, j), words[j], part[j]);
        __syncthreads();
    }
}

// The words of a row with infinities or NaNs, of which threads know these flags. Whole block.
__device__ __forceinline__ void words_of_flags(const WordPlan &plan, u64 count, u32 flags, u64 *words)
{
    clear_words(plan, words);
    if (threadIdx.x == 0)
        words[plan.own + kWordCount] = count;
    if (flags)
        atomicOr(&words[plan.own + kWordFlags], (u64)(flags | kFlagNz));
    __syncthreads();
}

// The value of a row from its sums, whose elements are over 2^scale. False: it is not certain. Whole block.
__device__ __forceinline__ bool finish_near(const FinishArgs &a, u64 row, const NearSums &of, u64 count, int scale, u64 *cell)
{
    if (write_moments(a, row, centred(of.sum, of.squares, count, scale), (const u64 *)NULL, cell))
        return true;
    if (scale || !of.exact())
        return false;
    LineSums<3> sums = {{0, 0, false}, {{of.squares.s, of.squares.rest.high, 0}, false}, count, 0}; // ties
    sums.sum.t = two_sum(of.sum.s, of.sum.rest.high, sums.sum.s);
    return sums.squares.gather() && write_moments(a, row, sums, (const u64 *)NULL, cell);
}

// Rows of elements of which none is left out; has_moments(finish), of sums and squares alone.
template <class Near, class Any> __global__ void __launch_bounds__(Any::kThreads, Any::kBlocksPerSm)
    near_moments(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    static_assert(Near::kThreads == Any::kThreads && Near::kUnroll == Any::kUnroll); // sum_again goes through the same parts
    if constexpr (kUsedHere<Any>) {
        RK_DYNAMIC_SHARED(unsigned char, shared);
        __shared__ u64 words[Any::kWords + kTailWords], cell[RP_MAX_CELL_WORDS];
        __shared__ u32 all_flags;
        for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y, __syncthreads()) {
            const unsigned char *p = args.data + ((row * args.row_len) << args.element_log2);
            NearPartial *of_row = (NearPartial *)partials + row * gridDim.x;
            Near near;
            if (threadIdx.x == 0)
                all_flags = 0;
            add_part(near, args, p, shared);
            NearRoom<Near::kThreads> &room = *(NearRoom<Near::kThreads> *)shared;
            u32 flags = flags_of_block(near.flags, &all_flags);
            NearSums sums;
            if constexpr (kScaled<Near>)
                sums = near.ended(flags);
            else
                sums = near.ended();
            sums = join_block<Near::kThreads>(sums, room);
            if (gridDim.x > 1) {
                if (threadIdx.x == 0)
                    of_row[blockIdx.x] = {sums, flags};
                if (!last_of_row(args.totals + row))
                    continue;
                sums = join_partials<Near::kThreads, kScaled<Near>>(of_row, gridDim.x, flags, &all_flags, room);
            }
            const u32 special = flags & kFlagSpecial; // then the sums do not count
            const int scale = kScaled<Near> ? level_bits(level_of_flags(flags)) : 0;
            if (!special && finish_near(finish, args.first_row + row, sums, args.row_len, scale, cell))
                continue;
            if (special)
                words_of_flags(finish.plan, args.row_len, special, words);
            else
                sum_again<Any>(args, finish.plan, p, shared, words);
            if (threadIdx.x < kWarp)
                finish_row(finish, args.first_row + row, words, *(FinishRoom *)shared);
        }
    }
}

// `Near`'s blocks finish all rows; `Any` sums a row again whose value they leave in doubt.
template <class Near, class Any> SegmentKernel near_rows()
{
    const size_t bytes = std::max(Any::shared_bytes(), sizeof(NearRoom<Near::kThreads>));
    return {near_moments<Near, Any>, Any::kThreads, Any::kUnroll, bytes, Any::kMaxPerThread, NULL, NULL, NULL,
            kLeavesSums<Any>};
}

} // namespace rk
