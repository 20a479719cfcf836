// Joining partials: the kernel family launched again on what pass 1 left, until one partial a row is left.
#pragma once

#include "kernels/cuda/finish.cuh"

namespace rk {

constexpr int kMergeThreads = 1024; // at most

// Join `n` partials at `in` into shared `total` (a.words words), by the whole block. `space`: blockDim.x words of
// shared.
__device__ inline void merge_sums(const u64 *in, u64 n, u32 words, u64 *space, u64 *total)
{
    // Thread (group, j) walks word j of every groups-th partial: neighbours read neighbouring words.
    const u32 groups = blockDim.x / words, group = threadIdx.x / words, j = threadIdx.x % words;
    const bool flags = j == words - kTailWords + kWordFlags;
    u64 sum = 0;
    if (group < groups) {
#pragma unroll 8
        for (u64 p = group; p < n; p += groups) {
            u64 w = in[p * words + j];
            sum = flags ? sum | w : sum + w;
        }
        space[threadIdx.x] = sum;
    }
    for (u32 left = groups, half; left > 1; left = half) {
        half = (left + 1) / 2;
        __syncthreads();
        if (group + half < left) {
            u64 w = space[(group + half) * words + j];
            sum = flags ? sum | w : sum + w;
            space[threadIdx.x] = sum;
        }
    }
    if (group == 0)
        total[j] = sum;
    __syncthreads();
}

// The same for min .. argmax: words are rank, index, count, flags.
__device__ inline void merge_bests(const u64 *in, u64 n, u64 *space, u64 *total)
{
    u64 rank = 0, index = RP_NO_INDEX, count = 0, flags = 0;
    for (u64 p = threadIdx.x; p < n; p += blockDim.x) {
        const u64 *w = in + 4 * p;
        if (w[0] > rank || (w[0] == rank && w[1] < index)) {
            rank = w[0];
            index = w[1];
        }
        count += w[2];
        flags |= w[3];
    }
    for (int d = kWarp / 2; d; d >>= 1) {
        u64 r = __shfl_xor_sync(kFullMask, rank, d), i = __shfl_xor_sync(kFullMask, index, d);
        if (r > rank || (r == rank && i < index)) {
            rank = r;
            index = i;
        }
        flags |= __shfl_xor_sync(kFullMask, flags, d);
    }
    count = warp_sum(count);
    if (threadIdx.x % kWarp == 0) {
        u64 *w = space + threadIdx.x / kWarp * 4;
        w[0] = rank;
        w[1] = index;
        w[2] = count;
        w[3] = flags;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (u32 k = 1; k < blockDim.x / kWarp; k++) {
            const u64 *w = space + 4 * k;
            if (w[0] > rank || (w[0] == rank && w[1] < index)) {
                rank = w[0];
                index = w[1];
            }
            count += w[2];
            flags |= w[3];
        }
        total[0] = rank;
        total[1] = index;
        total[2] = count;
        total[3] = flags;
    }
    __syncthreads();
}

__device__ inline bool chooses(int layout) { return layout >= RP_STATE_MIN && layout <= RP_STATE_ARGMAX; }

// Middle pass: block (x, row) joins its share of the row's partials into one. blockDim.x >= words, a multiple of 32.
__global__ void __launch_bounds__(kMergeThreads)
merge_partials(const __grid_constant__ FinishArgs a, const u64 *in, u64 rows, u64 per_row, u64 share, u64 *out)
{
    extern __shared__ u64 space[];
    __shared__ u64 total[kMaxWords];
    let_next_pass_start();
    wait_for_previous_pass();
    for (u64 row = blockIdx.y; row < rows; row += gridDim.y) {
        u64 from = blockIdx.x * share, n = per_row - from < share ? per_row - from : share;
        const u64 *mine = in + (row * per_row + from) * a.words;
        if (chooses(a.layout))
            merge_bests(mine, n, space, total);
        else
            merge_sums(mine, n, a.words, space, total);
        if (threadIdx.x < a.words)
            out[(row * gridDim.x + blockIdx.x) * a.words + threadIdx.x] = total[threadIdx.x];
        __syncthreads();
    }
}

// Last pass: a block joins all partials of a row and finishes it.
__global__ void __launch_bounds__(kMergeThreads)
merge_and_finish(const __grid_constant__ FinishArgs a, const u64 *in, u64 rows, u64 per_row, u64 first_row)
{
    extern __shared__ u64 space[];
    __shared__ u64 total[kMaxWords];
    wait_for_previous_pass();
    for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
        const u64 *mine = in + row * per_row * a.words;
        if (chooses(a.layout))
            merge_bests(mine, per_row, space, total);
        else
            merge_sums(mine, per_row, a.words, space, total);
        if (threadIdx.x < kWarp)
            finish_row(a, first_row + row, total);
        __syncthreads();
    }
}

// Canonical states from outside become partials: thread (state, word).
__global__ void unpack_states(FinishArgs a, const u64 *states, u64 n, u32 state_words, u64 *out)
{
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, p = i / a.words;
    const u32 j = (u32)(i % a.words), own = a.words - kTailWords;
    if (p >= n)
        return;
    const u64 *s = states + p * state_words; // word 0: the header's bytes, word 1: count, then the limbs
    u64 w;
    if (j == own + kWordCount)
        w = s[1];
    else if (j == own + kWordFlags)
        w = (s[0] >> 8 & 3) | (s[0] >> 16 & 1 ? kFlagNz : 0) | (s[0] >> 24 & 1 ? kFlagSkipped : 0);
    else if (chooses(a.layout))
        w = s[1] == 0 ? (j ? RP_NO_INDEX : 0) : j == 0 ? rk_rank(a.dtype, a.least, s[2]) : s[3];
    else if (a.layout == RP_STATE_COUNT)
        w = s[2];
    else if (j == own - 1)
        w = (u64)((i64)s[2 + j / 2] >> 32); // the top digit keeps the sign
    else
        w = (u32)(s[2 + j / 2] >> (32 * (j & 1)));
    out[i] = w;
}

} // namespace rk
