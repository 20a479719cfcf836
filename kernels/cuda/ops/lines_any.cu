// Walking kernels for every layout: adding by definition, and finishing.
#include "kernels/cuda/pass/lines.cuh"
#include "kernels/cuda/pass/narrow_total.cuh"
#include "kernels/cuda/pass/short_lines.cuh"
#include "kernels/cuda/pass/whole.h"

namespace rk {
namespace {

// Adds one walker's share of the line to the state.
__device__ void add_share(const FinishArgs &a, const SegmentArgs &g, const WalkArgs &w, const rk_line &line, u64 walker,
                          rk_state *s)
{
    if (w.run == 1) {
        add_line(a, w.parts, g.first_index, line, walker, w.walkers, s);
        return;
    }
    const u32 bytes = 16 / w.run, lead = (u32)((uintptr_t)(w.parts.elements + line.first * bytes) & 15) / bytes;
    for (u64 v = walker; v * w.run < lead + line.n; v += w.walkers) { // vector v, which may begin before the line
        const u64 from = v ? v * w.run - lead : 0, to = (v + 1) * w.run - lead, end = to < line.n ? to : line.n;
        add_line(a, w.parts, g.first_index + from, {line.first + from, 1, end - from}, 0, 1, s);
    }
}

// A team's part of a line to the state of its first lane, `mine` being this thread's. All the team's lanes.
__device__ void walk_part(const FinishArgs &a, const SegmentArgs &g, const WalkArgs &w, const Share &part, u64 *mine,
                          u32 state_words)
{
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, mask = group_mask(lanes);
    rk_state *s = (rk_state *)mine;
    rk_state_init(s, a.plan.layout, a.spec.dtype);
    for (u32 k = lane; k < w.team; k += lanes)
        add_share(a, g, w, part.line, (u64)part.team * w.team + k, s);
    for (u32 d = lanes / 2; d; d /= 2) {
        __syncwarp(mask);
        if (lane < d)
            rk_state_merge(s, (const rk_state *)(mine + d * state_words));
    }
    __syncwarp(mask);
}

// A line's value from its state: by doubles if possible, because dividing integers takes long. One thread.
__device__ void finish_state(const FinishArgs &a, u64 line, rk_state &s, uint64_t *scratch)
{
    const int sum = rk_sum_limbs(s.layout), squares = rk_square_limbs(s.layout);
    const rk_range none = {0, 0}, of_sum = sum ? rk_range_of(s.limb, sum) : none;
    const rk_range of_squares = squares ? rk_range_of(s.limb + sum, squares) : none;
    uint64_t words[RP_MAX_CELL_WORDS];
    if (finish_by_doubles(s, of_sum, of_squares, a.spec, (rk_finisher)a.finisher, words))
        write_words(a, line, words);
    else
        write_cell(a, line, s, scratch);
}

// Blocks that must fit an SM bound the registers, of which what ends a line would take more.
__global__ void __launch_bounds__(kWalkThreads, 8)
    walk_states(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
                u64 *partials, u32 state_words, bool again)
{
    RK_DYNAMIC_SHARED(u64, states);
    let_next_pass_start();
    wait_for_previous_pass();
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, teams = w.walkers / w.team;
    u64 *mine = states + threadIdx.x * state_words;
    const u64 *first = mine - lane * state_words;
    const u64 stride = (u64)gridDim.x * (blockDim.x / lanes);
    for (u64 i = (u64)blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes; i < w.lines * teams; i += stride) {
        const Share part = share_of(a, w, i);
        u64 *out = partial_of(a, w, partials, part);
        const bool lost = again && out[a.plan.own + kWordFlags] & kFlagLost;
        if (part.line.n > w.longest || (again && !lost))
            continue;
        walk_part(a, g, w, part, mine, state_words);
        const rk_state *all = (const rk_state *)first;
        for (u32 j = lane; j < a.plan.all; j += lanes)
            out[j] = word_of_state(a.plan, first[0], all->count, all->limb, j);
        __syncwarp(group_mask(lanes)); // states are free for the next line
    }
}

__global__ void __launch_bounds__(kWalkThreads, 5)
    walk_listed(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
                u64 *list, u32 state_words, u32 scratch_at)
{
    RK_DYNAMIC_SHARED(u64, states);
    wait_for_previous_pass();
    const u32 lanes = w.lanes;
    u64 *mine = states + threadIdx.x * state_words;
    const u64 stride = (u64)gridDim.x * (blockDim.x / lanes), listed = list[0];
    __syncthreads(); // before the last block clears the list
    if (threadIdx.x == 0 && count_in_turn((u32 *)(list - 1), gridDim.x - 1) == gridDim.x - 1)
        list[0] = 0;
    const u64 known = w.marked ? 0 : min(listed, kMostListed), marked = listed > known ? w.lines : 0; // that may be marked
    const u64 *cells = (const u64 *)a.cells + w.first_line;
    for (u64 i = (u64)blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes; i < known + marked; i += stride) {
        if (i >= known && cells[i - known] != kUncertain)
            continue;
        const u64 number = i < known ? list[1 + i] : w.first_line + i - known;
        const rk_line line = rk_line_of(&a.spec, w.parts.offsets, number);
        if (narrow_total(a, w.parts, number, line, lanes))
            continue;
        walk_part(a, g, w, {number, 0, line}, mine, state_words);
        if (threadIdx.x % lanes == 0)
            finish_state(a, number, *(rk_state *)mine, (uint64_t *)(mine + scratch_at));
        __syncwarp(group_mask(lanes)); // states are free for the next line
    }
}

__global__ void __launch_bounds__(kWalkThreads, 7)
    finish_lines(const __grid_constant__ FinishArgs a, const __grid_constant__ WalkArgs w, const u64 *partials, u32 state_words,
                 u32 scratch_at)
{
    RK_DYNAMIC_SHARED(u64, states);
    u64 *mine = states + threadIdx.x * state_words;
    rk_state *s = (rk_state *)mine;
    const WordPlan &p = a.plan;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < w.lines; i += (u64)gridDim.x * blockDim.x) {
        const u64 *words = partials + i * p.all;
        if (rk_line_of(&a.spec, w.parts.offsets, w.first_line + i).n > w.longest)
            continue; // another kernel has it
        state_of_words(p, words, s);
        if (!s->special) {
            const int64_t *digits = (const int64_t *)words;
            rk_limbs_of_digits(digits, s->limb, p.sum / 2);
            rk_limbs_of_digits(digits + p.sum, s->limb + p.sum / 2, (p.digits - p.sum) / 2);
            if (p.layout == RP_STATE_PROD)
                rk_limbs_of_digits(digits, s->limb, 3);
        }
        write_cell(a, w.first_line + i, *s, (uint64_t *)(mine + scratch_at));
    }
}

} // namespace

StatesFn walk_states_kernel() { return walk_states; }
ListedFn walk_listed_kernel() { return walk_listed; }
FinishFn finish_lines_kernel() { return finish_lines; }

} // namespace rk
