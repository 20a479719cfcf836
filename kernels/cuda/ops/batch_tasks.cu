// One launch for many small tasks, each with a spec of its own.
//
// A task is one unit or a few: a line that the whole block reduces, or many short lines, a thread each. A block takes
// one unit. It reads the unit's description and the task's data from pinned host memory, over the bus, into its shared
// memory; reduces by the definitions of kernels/exact/state.h, which serve every operation, type and shape, or sums of floats
// as pairs of doubles (twosum.cuh), which saves half of a batch's time; writes cells and
// faults back to pinned memory; and last the number of the launch, which the host polls. So a batch is a single launch, without
// a copy or an event, which would take longer than the work.
#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/cuda/pass/batch.h"
#include "kernels/cuda/pass/short_lines.cuh"

namespace rk {
namespace {

// Whole block; both at a multiple of 16. Up to 15 bytes more than asked for.
__device__ void copy_in(void *to, const void *from, u32 bytes)
{
    for (u32 i = threadIdx.x; i < (bytes + 15) / 16; i += blockDim.x)
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
}

__device__ rp_parts parts_of(const BatchUnit &u, const unsigned char *data)
{
    rp_parts p;
    p.offsets = data;
    p.elements = data + u.elements_at;
    p.mask = u.mask_at ? data + u.mask_at : nullptr;
    return p;
}

// Join word j of the partials first, first + step, ... below n, which word(partial, j) gives, into out[j]; of a rank
// also the index behind it.
template <class Word> __device__ void join_word(const WordPlan &plan, u32 j, u32 first, u32 n, u32 step, Word word, u64 *out)
{
    const WordKind kind = word_kind(plan, j);
    u64 joined = word_identity(kind), index = RP_NO_INDEX;
    if (kind == kWordIndex)
        return; // an index is joined with its rank
    for (u32 i = first; i < n; i += step) {
        if (kind == kWordRank)
            join_pair(joined, index, word(i, j), word(i, j + 1));
        else
            joined = join_words(kind, joined, word(i, j));
    }
    out[j] = joined;
    if (kind == kWordRank)
        out[j + 1] = index;
}

// The words of all walkers' states, joined to `total`: by groups of threads into `words`, a thread for each word, then
// the groups.
__device__ void join_states(const WordPlan &plan, const u64 *states, u32 state_words, u32 walkers, u64 *words, u64 *total)
{
    const u32 groups = kBatchThreads / plan.all, group = threadIdx.x / plan.all, j = threadIdx.x % plan.all;
    if (group < groups)
        join_word(
            plan, j, group, walkers, groups,
            [&](u32 walker, u32 k) {
                const u64 *s = states + walker * state_words; // header, count, limbs
                return word_of_state(plan, s[0], s[1], (const uint64_t *)(s + 2), k);
            },
            words + group * plan.all);
    __syncthreads();
    if (threadIdx.x < plan.all)
        join_word(
            plan, threadIdx.x, 0, groups, 1, [&](u32 g, u32 k) { return words[g * plan.all + k]; }, total);
    __syncthreads();
}

// A row of floats to its sum, if a pair of doubles holds that, by the whole block. False: it does not, or NaNs are refused;
// nothing is written.
template <int kDtype> __device__ bool sum_row(const BatchUnit &u, const unsigned char *data)
{
    const rp_spec &spec = u.finish.spec;
    const rk_line line = rk_line_of(&spec, data, u.first_line);
    const FloatBits<kDtype> *p = (const FloatBits<kDtype> *)(data + u.elements_at) + line.first;
    Pair sum = {-0.0, -0.0, false};
    u32 elements = 0, skipped = 0;
    for (u32 i = threadIdx.x; i < line.n; i += kBatchThreads, elements++)
        add_float<kDtype>(sum, p[i], spec.nan != RP_NAN_PROPAGATE, skipped);
    sum = join_block<kBatchThreads / kWarp>(sum);
    const bool refused = __syncthreads_or(skipped && spec.nan == RP_NAN_ERROR), some = __syncthreads_or(elements > skipped);
    if (!sum.lost && !refused && threadIdx.x == 0)
        ((double *)u.finish.cells)[u.first_line] = some ? sum.value() : 0.0;
    return !sum.lost && !refused;
}

__device__ bool sum_row(const BatchUnit &u, const unsigned char *data)
{
    return u.finish.spec.dtype == RP_F32 ? sum_row<RP_F32>(u, data) : sum_row<RP_F64>(u, data);
}

// One line, by the whole block. It overwrites `data`.
__device__ void reduce_line(const BatchUnit &u, unsigned char *data, u64 *states)
{
    static_assert(kMaxWords <= kBatchThreads && kBatchThreads * sizeof(u64) <= RK_MAX_BATCH_BYTES, "a thread a word");
    __shared__ u64 total[kMaxWords];
    const FinishArgs &a = u.finish;
    const rp_parts parts = parts_of(u, data);
    if (threadIdx.x < u.walkers)
        walk_line(a, parts, u.first_index, rk_line_of(&a.spec, parts.offsets, u.first_line), threadIdx.x, u.walkers,
                  (rk_state *)(states + threadIdx.x * u.state_words));
    __syncthreads();
    join_states(a.plan, states, u.state_words, u.walkers, (u64 *)data, total);
    if (threadIdx.x >= kWarp)
        return;
    if (a.light)
        finish_light(a, u.first_line, total);
    else
        finish_row(a, u.first_line, total);
}

// Short lines, a thread each.
__device__ void reduce_lines(const BatchUnit &u, const unsigned char *data, u64 *states)
{
    const rp_parts parts = parts_of(u, data);
    const u32 room = kStateBytes / (u32)sizeof(u64) / u.state_words;
    const u32 threads = room < kBatchThreads ? room : kBatchThreads;
    u64 *mine = states + threadIdx.x * u.state_words;
    for (u32 i = threadIdx.x; threadIdx.x < threads && i < u.lines; i += threads) {
        const u64 line = u.first_line + i;
        const rk_line l = rk_line_of(&u.finish.spec, parts.offsets, line);
        walk_line(u.finish, parts, u.first_index, l, 0, 1, (rk_state *)mine);
        write_cell(u.finish, line, *(rk_state *)mine, (uint64_t *)(mine + u.scratch_at));
    }
}

__global__ void __launch_bounds__(kBatchThreads) reduce_batch(BatchMemory *memory, u32 launch)
{
    RK_DYNAMIC_SHARED(unsigned char, data);
    __shared__ BatchUnit unit;
    __shared__ u32 fault;
    u64 *states = (u64 *)(data + RK_MAX_BATCH_BYTES);
    copy_in(&unit, &memory->unit[blockIdx.x], sizeof unit);
    __syncthreads();
    if (threadIdx.x == 0) {
        fault = kNoFault;
        unit.finish.fault = &fault;
    }
    copy_in(data, unit.data, unit.bytes);
    __syncthreads();
    if (!unit.walkers)
        reduce_lines(unit, data, states);
    else if (!unit.pairs || !sum_row(unit, data))
        reduce_line(unit, data, states);
    __syncthreads();
    if (threadIdx.x == 0) {
        memory->fault[blockIdx.x] = fault;
        __threadfence_system(); // the cells of all threads and the fault, before the number
        *(volatile u32 *)&memory->done[blockIdx.x] = launch;
    }
}

} // namespace

BatchFn batch_kernel() { return reduce_batch; }

} // namespace rk
