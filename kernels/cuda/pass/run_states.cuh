// Rows in runs (kernels/exact/runs.h): a first pass leaves a canonical state for each run, or for each position in the runs of
// a row, and these are joined like other partials.
#pragma once

#include "kernels/cuda/pass/partial.cuh"
#include "kernels/cuda/pass/run_states.h"

namespace rk {

// Word j of the k-th state of a row, with indexes within the row
__device__ inline u64 word_of_run(const WordPlan &p, const RunStates &r, const u64 *state, u64 k, u32 j)
{
    const u64 word = word_of_state(p, state[0], state[1], (const uint64_t *)(state + 2), j);
    const bool index = j >= p.digits && j < p.own && p.kinds[j - p.digits] == kWordIndex;
    return index && word != RP_NO_INDEX && k >= r.carried ? word * r.times + r.from + (k - r.carried) * r.step : word;
}

// The states become partials, those of a row side by side: thread (row, state, word).
__global__ void unpack_runs(const __grid_constant__ FinishArgs a, const __grid_constant__ RunStates r, const u64 *states,
                            u64 *out)
{
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, p = i / a.plan.all, row = p / r.each, k = p % r.each;
    if (row < r.rows)
        out[i] = word_of_run(a.plan, r, states + (row * r.row_apart + k * r.apart) * r.words, k, (u32)(i % a.plan.all));
}

} // namespace rk
