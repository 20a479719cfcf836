// Where the blocks of a row meet: the last one to come finishes the row, in the same launch (threadFenceReduction of the CUDA
// samples). In the scratch of the chain, so launches of several slots do not disturb each other.
//
// All are zero before the first launch on a scratch, and again after every launch: the counter wraps, and the last block clears
// the words.
#pragma once

#include "kernels/cuda/pass/args.h"
#include "kernels/cuda/pass/finish_moments.cuh"

namespace rk {

// Does the row have its value already?
__device__ __forceinline__ bool is_done(const FinishArgs &a, u64 row) { return a.doubts && __ldcg(&a.doubts[row]) == 0; }

// Whole block. Has every other block of the row come here before? Then what they wrote is visible.
__device__ __forceinline__ bool last_of_row(RowTotal *total)
{
    bool last = false;
    __syncthreads(); // the block has written
    if (threadIdx.x == 0) {
        last = count_in_turn(&total->arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    return __syncthreads_or(last);
}

// Call it once all blocks of the row have arrived.
__device__ __forceinline__ void reset_tickets(RowTotal *totals)
{
    if (threadIdx.x < kDrawers)
        totals[threadIdx.x].drawn = 0;
}

// The block's words (shared) join those of the row. Whole block.
__device__ __forceinline__ void add_words(const WordPlan &plan, RowTotal *total, const u64 *words)
{
    const u32 j = threadIdx.x;
    if (j >= plan.all || words[j] == 0)
        return;
    const WordKind kind = word_kind(plan, j);
    if (kind == kWordOr)
        atomicOr(&total->words[j], words[j]);
    else if (kind == kWordRank)
        atomicMax(&total->words[j], words[j]);
    else if (kind == kWordAdd)
        atomicAdd(&total->words[j], words[j]);
}

// The row's words to `words` (shared). The last block, all of it.
__device__ __forceinline__ void take_words(const WordPlan &plan, RowTotal *total, u64 *words)
{
    if (threadIdx.x < plan.all) {
        words[threadIdx.x] = __ldcg(&total->words[threadIdx.x]);
        total->words[threadIdx.x] = 0;
    }
    __syncthreads();
}

// The same of a row whose blocks have added to kSpread totals, because blocks that add to the same words at once wait for each
// other.
constexpr u32 kSpread = 8;
__device__ __forceinline__ void take_spread_words(const WordPlan &plan, RowTotal *totals, u64 *words)
{
    const u32 j = threadIdx.x;
    if (j < plan.all) {
        const bool sums = word_kind(plan, j) == kWordAdd;
        u64 of[kSpread], all = 0;
#pragma unroll
        for (u32 k = 0; k < kSpread; k++)
            of[k] = __ldcg(&totals[k].words[j]);
#pragma unroll
        for (u32 k = 0; k < kSpread; k++) {
            all = sums ? all + of[k] : all | of[k];
            totals[k].words[j] = 0;
        }
        words[j] = all;
    }
    __syncthreads();
}

__device__ __forceinline__ void clear_words(const WordPlan &plan, u64 *words)
{
    if (threadIdx.x < plan.all)
        words[threadIdx.x] = 0;
    __syncthreads();
}

// The pairs of a block's stats (words, shared) to those of the row, of which all blocks' first ones lie together. Whole block.
__device__ __forceinline__ void leave_pairs(const WordPlan &plan, u64 *of_row, const u64 *words)
{
    const u64 *pair = words + plan.digits + 2 * threadIdx.x;
    if (threadIdx.x < 2)
        ((ulonglong2 *)of_row)[threadIdx.x * gridDim.x + blockIdx.x] = {pair[0], pair[1]};
}

// The best of n pairs of rank and index, to `words` (shared); of `ends` times n, which lie one behind the other, of each n.
// Whole block, of which these have equal shares of warps.
static __device__ __noinline__ void join_ranks(const ulonglong2 *pairs, u32 n, u32 ends, u64 *words)
{
    __shared__ u64 best[kWarp][2];
    const u32 lane = threadIdx.x % kWarp, share = blockDim.x / ends, end = threadIdx.x / share, of_share = share / kWarp;
    u64 rank = 0, index = RP_NO_INDEX;
    for (u32 i = threadIdx.x % share; i < n; i += share) {
        const ulonglong2 p = __ldcg(&pairs[end * n + i]);
        join_pair(rank, index, p.x, p.y);
    }
    for (int round = 0; round < 2; round++) {
        for (int d = kWarp / 2; d; d >>= 1) {
            u64 other = __shfl_xor_sync(kFullMask, rank, d), at = __shfl_xor_sync(kFullMask, index, d);
            join_pair(rank, index, other, at);
        }
        if (round == 0) { // then every warp joins those of its share
            if (lane == 0) {
                best[threadIdx.x / kWarp][0] = rank;
                best[threadIdx.x / kWarp][1] = index;
            }
            __syncthreads();
            rank = lane < of_share ? best[end * of_share + lane][0] : 0;
            index = lane < of_share ? best[end * of_share + lane][1] : RP_NO_INDEX;
        }
    }
    if (threadIdx.x % share == 0) {
        words[2 * end] = rank;
        words[2 * end + 1] = index;
    }
    __syncthreads();
}

// Where block `block` of n leaves its sums, behind the pairs of stats.
__device__ __forceinline__ SumsPartial *sums_of_block(u64 *of_row, u32 n, u32 block)
{
    return (SumsPartial *)(of_row + 4 * n) + block;
}

// The words of a row that n blocks have added up, to `words` (shared). Whole block.
__device__ __forceinline__ void take_added(const WordPlan &plan, RowTotal *total, const u64 *of_row, u32 n, u64 *words)
{
    take_words(plan, total, words);
    if (!plan.indexed)
        return;
    join_ranks((const ulonglong2 *)of_row, n, 2, words + plan.digits);
}

// As take_added, where sums are beside the words. True if the row is finished, else `words` have all of it. Whole block.
template <int kThreads> __device__ __forceinline__ bool take_sums(const FinishArgs &a, RowTotal *total, const u64 *of_row,
                                                                  u32 n, u64 row, u64 *words, u64 *cell)
{
    const SumsPartial *partials = sums_of_block((u64 *)of_row, n, 0);
    MomentSums all = share_of_sums(partials, n);
    take_added(a.plan, total, of_row, n, words);
    const bool fits = join_block<kThreads / kWarp>(all) && !(words[a.plan.own + kWordFlags] & kFlagLost);
    if (fits && has_moments(a) && finish_sums(a, row, all, words, cell))
        return true;
    add_sums(a, partials, n, words);
    return false;
}

// Shared memory of finish_added
struct AddedRoom {
    MomentRoom moments;
    FinishRoom any;
};

// A row whose n blocks have added up their words (a.added): finished. `words` (shared): room for them. Whole block.
template <int kThreads> __device__ __noinline__ void finish_added(const FinishArgs &a, RowTotal *total, const u64 *of_row,
                                                                  u32 n, u64 row, u64 *words, AddedRoom &room)
{
    if (a.added == kAddedBesideSums) {
        if (take_sums<kThreads>(a, total, of_row, n, row, words, room.moments.cell))
            return;
    } else {
        take_added(a.plan, total, of_row, n, words);
    }
    if (has_moments(a) && finish_moments(a, row, words, room.moments))
        return;
    if (threadIdx.x < kWarp && a.plain)
        finish_float(a, row, words);
    else if (threadIdx.x < kWarp)
        finish_row(a, row, words, room.any);
    __syncthreads();
}

} // namespace rk
