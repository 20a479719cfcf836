// Rows whose value is known from near sums, mostly: they end in the same launch.
#pragma once

#include <algorithm>

#include "kernels/cuda/exact/near_moments.cuh"
#include "kernels/cuda/pass/finish_moments.cuh"
#include "kernels/cuda/pass/segment.cuh"

namespace rk {

// What a block leaves. In scratch
struct alignas(16) NearPartial {
    NearSums sums;
    u64 flags;
};

// The sums and flags that the row's n blocks have left. Whole block.
template <int kThreads>
__device__ __forceinline__ NearSums join_partials(const NearPartial *partials, u32 n, u32 &flags, NearRoom<kThreads> &room)
{
    NearSums all;
    all.clear();
    for (u32 i = threadIdx.x; i < n; i += kThreads) {
        const double2 *p = (const double2 *)&partials[i];
        const double2 a = __ldcg(p), b = __ldcg(p + 1), c = __ldcg(p + 2);
        flags |= (u32)__ldcg(&partials[i].flags);
        all.join({{a.x, {a.y, b.x}}, {b.y, {c.x, c.y}}});
    }
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

// The value of a row from its sums. False: it is not certain. Whole block.
__device__ __forceinline__ bool finish_near(const FinishArgs &a, u64 row, const NearSums &of, u64 count, u64 *cell)
{
    if (write_moments(a, row, NearMoments(of.sum.sum(), of.squares.sum(), count), (const u64 *)NULL, cell))
        return true;
    if (!of.exact())
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
            NearSums sums = join_block<Near::kThreads>(near.ended(), room);
            u32 flags = near.flags;
            if (__syncthreads_or(flags)) { // rare
                if (flags)
                    atomicOr(&all_flags, flags);
                __syncthreads();
                flags = all_flags;
            }
            if (gridDim.x > 1) {
                if (threadIdx.x == 0)
                    of_row[blockIdx.x] = {sums, flags};
                if (!last_of_row(args.totals + row))
                    continue;
                sums = join_partials<Near::kThreads>(of_row, gridDim.x, flags, room);
            }
            const bool special = __syncthreads_or(flags); // then the sums do not count
            if (!special && finish_near(finish, args.first_row + row, sums, args.row_len, cell))
                continue;
            if (special)
                words_of_flags(finish.plan, args.row_len, flags, words);
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
