// Joining partials: the kernel family launched again on what pass 1 left, until one partial a row is left. For values that
// take a state, for states from outside, and for what walkers leave.
#pragma once

#include "kernels/cuda/pass/finish_comoments.cuh"
#include "kernels/cuda/pass/join_words.cuh"
#include "kernels/cuda/pass/last_block.cuh"

namespace rk {

constexpr int kMergeThreads = 1024; // at most
constexpr int kAddedThreads = 256;  // for a row whose words are added up
static_assert(kAddedThreads >= kMaxWords);

// Middle pass: block (x, row) joins its share of the row's partials into one. blockDim.x >= words, a multiple of 32.
__global__ void __launch_bounds__(kMergeThreads)
    merge_partials(const __grid_constant__ FinishArgs a, const u64 *in, u64 rows, u64 per_row, u64 share, u64 *out)
{
    RK_DYNAMIC_SHARED(u64, space);
    __shared__ u64 total[kMostWords];
    let_next_pass_start();
    wait_for_previous_pass();
    for (u64 row = blockIdx.y; row < rows; row += gridDim.y) {
        u64 from = blockIdx.x * share, n = per_row - from < share ? per_row - from : share;
        const u64 *mine = in + (row * per_row + from) * a.plan.all;
        merge_words(a.plan, mine, n, space, total);
        if (threadIdx.x < a.plan.all)
            out[(row * gridDim.x + blockIdx.x) * a.plan.all + threadIdx.x] = total[threadIdx.x];
        __syncthreads();
    }
}

// Last pass: a block joins all partials of a row and finishes it. There are four kernels, because code that runs once is
// expensive: cold instructions are fetched from memory. This template makes two of them: any layout and value, or values that
// take no state (kLight: a.light). `totals`, of these rows: a.added.
template <bool kLight> __global__ void __launch_bounds__(kMergeThreads)
    merge_and_finish(const __grid_constant__ FinishArgs a, RowTotal *totals, const u64 *in, u64 rows, u64 per_row,
                     u64 first_row)
{
    RK_DYNAMIC_SHARED(u64, space);
    __shared__ u64 total[kMaxWords];
    wait_for_previous_pass();
    for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const u64 *of_row = in + row * per_row * a.plan.all;
        if constexpr (!kLight) {
            if (is_done(a, first_row + row))
                continue;
            if (a.added) {
                __shared__ AddedRoom room;
                if (rows == 1)
                    reset_tickets(totals);
                finish_added<kAddedThreads>(a, totals + row, of_row, (u32)per_row, first_row + row, total, room);
                continue;
            }
        }
        merge_words(a.plan, of_row, per_row, space, total);
        if (threadIdx.x < kWarp) {
            if constexpr (kLight)
                finish_light(a, first_row + row, total);
            else
                finish_row(a, first_row + row, total);
        }
        __syncthreads();
    }
}

// The third: cov and corr.
__global__ void __launch_bounds__(kMergeThreads)
    merge_comoments(const __grid_constant__ FinishArgs a, const u64 *in, u64 rows, u64 per_row, u64 first_row)
{
    RK_DYNAMIC_SHARED(u64, space);
    __shared__ u64 total[kMostWords];
    __shared__ ComomentRoom room;
    wait_for_previous_pass();
    for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
        merge_words(a.plan, in + row * per_row * a.plan.all, per_row, space, total);
        if (threadIdx.x < kWarp)
            finish_comoments(a, first_row + row, total, room);
        __syncthreads();
    }
}

// The fourth: plain float sums (a.plain). The number of words is known, and all but the flags are added.
template <int kDigits, int kGroups> struct MergeSum {
    static constexpr int kWords = kDigits + kTailWords, kThreads = (kWords * kGroups + kWarp - 1) / kWarp * kWarp;

    static __device__ __forceinline__ void join(const u64 *in, u64 n, u64 *total)
    {
        __shared__ u64 space[kGroups][kWords];
        // Thread (group, j) adds word j of every kGroups-th partial: neighbours read neighbouring words.
        const u32 group = threadIdx.x / kWords, j = threadIdx.x % kWords, lane = threadIdx.x % kWarp;
        const bool flags = j == kDigits + kWordFlags;
        if (group < kGroups) {
            u64 sum = 0;
#pragma unroll 4
            for (u64 p = group; p < n; p += kGroups) {
                u64 w = in[p * kWords + j];
                sum = flags ? sum | w : sum + w;
            }
            space[group][j] = sum;
        }
        __syncthreads();
        for (u32 word = threadIdx.x / kWarp; word < kWords; word += kThreads / kWarp) { // a warp joins a word's groups
            u64 w = lane < kGroups ? space[lane][word] : 0;
            w = word == kDigits + kWordFlags ? warp_or((u32)w) : warp_sum(w);
            if (lane == 0)
                total[word] = w;
        }
        __syncthreads();
    }
};

template <int kDigits, int kGroups> __global__ void __launch_bounds__(MergeSum<kDigits, kGroups>::kThreads)
    merge_sum(const __grid_constant__ FinishArgs a, const u64 *in, u64 rows, u64 per_row, u64 first_row)
{
    __shared__ u64 total[kDigits + kTailWords];
    wait_for_previous_pass();
    for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
        MergeSum<kDigits, kGroups>::join(in + row * per_row * (kDigits + kTailWords), per_row, total);
        if (threadIdx.x < kWarp)
            finish_plain<kDigits>(a, first_row + row, total);
        __syncthreads();
    }
}

// Canonical states from outside become partials: thread (state, word).
__global__ void unpack_states(const __grid_constant__ FinishArgs a, const u64 *states, u64 n, u32 state_words, u64 *out)
{
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, p = i / a.plan.all;
    if (p >= n)
        return;
    const u64 *s = states + p * state_words; // word 0: the header's bytes, word 1: count, then the limbs
    out[i] = word_of_state(a.plan, s[0], s[1], (const uint64_t *)(s + 2), (u32)(i % a.plan.all));
}

} // namespace rk
