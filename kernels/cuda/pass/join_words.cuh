// Joining partials by a block, word by word.
#pragma once

#include "kernels/cuda/pass/partial.cuh"

namespace rk {

// Word j of n partials at `in`, from number `first` on, every `step`-th. Of a pair also the index.
__device__ inline void join_own(WordKind kind, const u64 *in, u64 n, u32 words, u64 first, u32 step, u64 *word, u64 *index)
{
    u64 w = word_identity(kind), at = RP_NO_INDEX;
    if (kind == kWordAdd || kind == kWordOr) { // the hot ones, in one loop: a warp has both
        const bool bits = kind == kWordOr;
#pragma unroll 8
        for (u64 p = first; p < n; p += step) {
            u64 x = in[p * words];
            w = bits ? w | x : w + x;
        }
    } else if (kind == kWordRank) {
#pragma unroll 4
        for (u64 p = first; p < n; p += step)
            join_pair(w, at, in[p * words], in[p * words + 1]);
    } else if (kind != kWordIndex) {
        for (u64 p = first; p < n; p += step)
            w = join_words(kind, w, in[p * words]);
    }
    *word = w;
    *index = at;
}

// Join `n` partials at `in` into shared `total`, by the whole block. `space`: blockDim.x words of shared.
__device__ inline void merge_words(const WordPlan &plan, const u64 *in, u64 n, u64 *space, u64 *total)
{
    // Thread (group, j) walks word j of every groups-th partial: neighbours read neighbouring words. The thread of a
    // rank walks its index, too, and the next thread only lends its place.
    const u32 words = plan.all, groups = blockDim.x / words, group = threadIdx.x / words, j = threadIdx.x % words;
    const WordKind kind = word_kind(plan, j);
    const bool pair = kind == kWordRank;
    u64 word = 0, index = 0;
    if (group < groups) {
        join_own(kind, in + j, n, words, group, groups, &word, &index);
        if (kind != kWordIndex)
            space[threadIdx.x] = word;
        if (pair)
            space[threadIdx.x + 1] = index;
    }
    for (u32 left = groups, half; left > 1; left = half) {
        half = (left + 1) / 2;
        __syncthreads();
        if (group + half < left && kind != kWordIndex) {
            const u64 *other = &space[(group + half) * words + j];
            if (pair)
                join_pair(word, index, other[0], other[1]);
            else
                word = join_words(kind, word, *other);
            space[threadIdx.x] = word;
            if (pair)
                space[threadIdx.x + 1] = index;
        }
    }
    if (group == 0 && kind != kWordIndex) {
        total[j] = word;
        if (pair)
            total[j + 1] = index;
    }
    __syncthreads();
}

} // namespace rk
