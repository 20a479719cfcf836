// Partials become values: launches on the partials until each row has one.
#define RK_FINISHES_PAIRS
#include "kernels/cuda/launch/routes.h"
#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/pass/merge.cuh"
#include "kernels/cuda/pass/run_states.cuh"

namespace rk {
namespace {

// Threads for joining n partials: enough that each takes about eight words, whole warps.
int merge_threads(u64 n, u32 words)
{
    u64 want = div_up(n * words / 8 + 1, kWarp) * kWarp, least = div_up(words, kWarp) * kWarp;
    return (int)(want < least ? least : want > kMergeThreads ? kMergeThreads : want);
}

} // namespace

cudaError_t merge_rows(const Asked &q, const FinishArgs &a, u64 rows, u64 per_row, u64 first_row)
{
    Scratch s = q.scratch;
    const bool overlap = q.d->overlapped_launch;
    const u64 fan_in = a.added ? per_row : kTuning.fan_in_words / a.plan.all; // what one block, which also finishes, can take
    while (per_row > fan_in) {
        u64 blocks = div_up(per_row, fan_in), share = div_up(per_row, blocks);
        int threads = merge_threads(share, a.plan.all);
        TRY_CUDA(gpu_launch(overlap, merge_partials, dim3((u32)blocks, rows_of_grid(rows)), threads, threads * sizeof(u64),
                            q.stream, a, (const u64 *)s.a, rows, per_row, share, s.b));
        u64 *swap = s.a;
        s.a = s.b;
        s.b = swap;
        per_row = blocks;
    }
    const dim3 grid(rows_of_grid(rows));
    const u64 *in = s.a;
    if (a.plain && !a.added && a.plan.sum == kDigits32)
        return gpu_launch(overlap, merge_sum<kDigits32, 32>, grid, MergeSum<kDigits32, 32>::kThreads, 0, q.stream, a, in, rows,
                          per_row, first_row);
    if (a.plain && !a.added)
        return gpu_launch(overlap, merge_sum<kDigits64, 14>, grid, MergeSum<kDigits64, 14>::kThreads, 0, q.stream, a, in, rows,
                          per_row, first_row);
    int threads = a.added ? kAddedThreads : merge_threads(per_row, a.plan.all);
    if (rk_is_comoments(a.plan.layout))
        return gpu_launch(overlap, merge_comoments, grid, threads, threads * sizeof(u64), q.stream, a, in, rows, per_row,
                          first_row);
    return gpu_launch(overlap, a.light ? merge_and_finish<true> : merge_and_finish<false>, grid, threads, threads * sizeof(u64),
                      q.stream, a, s.totals, in, rows, per_row, first_row);
}

cudaError_t join_states(const Asked &q, const u64 *states, u64 rows, u64 per_row, u64 first_row)
{
    const u64 n = rows * per_row;
    if (n)
        TRY_CUDA(gpu_launch(false, unpack_states, (u32)div_up(n * q.a.plan.all, 256), 256, 0, q.stream, q.a, states, n,
                            (u32)rp_state_size(q.layout) / 8, q.scratch.a));
    return merge_rows(q, q.a, rows, per_row, first_row);
}

cudaError_t join_runs(const Asked &q, const FinishArgs &a, const RunStates &r, const void *states, u64 first)
{
    TRY_CUDA(gpu_launch(false, unpack_runs, (u32)div_up(r.rows * r.each * a.plan.all, 256), 256, 0, q.stream, a, r,
                        (const u64 *)states, q.scratch.a));
    return merge_rows(q, a, r.rows, r.each, first);
}

} // namespace rk
