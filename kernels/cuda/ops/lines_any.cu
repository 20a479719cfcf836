// Walking kernels for every layout: adding by definition, and finishing. Those of pairs are units of their own.
#include "kernels/cuda/pass/finish_pairs.cuh"
#include "kernels/cuda/pass/lines.cuh"
#include "kernels/cuda/pass/narrow_total.cuh"
#include "kernels/cuda/pass/unit_parts.h"
#include "kernels/cuda/pass/whole.h"
#include "kernels/exact/line.h"

namespace rk {
namespace {

// The general way along a line, by the definitions of kernels/exact/state.h: elements `from`, from + step, ... that are not
// masked out, to the state. `first_index` is the index of the line's element 0.
__device__ void add_line(const FinishArgs &a, const rp_parts &parts, u64 first_index, rk_line line, u64 from, u32 step,
                         rk_state *s)
{
    const int bytes = rk_bytes(a.spec.dtype);
    for (u64 i = from; i < line.n; i += step) {
        u64 at = line.first + i * line.stride;
        if (parts.mask && !parts.mask[at])
            continue;
        rk_state_add(s, rk_load(parts.elements + at * bytes, bytes), first_index + i, a.spec.nan);
    }
}

// Bits of a number as the states have it: f32 beside f64 weights is widened.
__device__ u64 bits_of_state(const FinishArgs &a, int dtype, u64 bits)
{
    return dtype == a.plan.dtype ? bits : rk_convert_float(dtype, bits, a.plan.dtype);
}

// As add_line, of elements and their weights.
__device__ void add_pair_line(const FinishArgs &a, const rp_parts &parts, const rk_line &line, u64 from, u32 step, rk_state *s)
{
    const rp_spec &spec = a.spec;
    const int bytes = rk_bytes(spec.dtype), beside = rk_bytes(spec.weights);
    for (u64 i = from; i < line.n; i += step) {
        const u64 at = line.first + i * line.stride;
        if (parts.mask && !parts.mask[at])
            continue;
        const u64 x = rk_load(parts.elements + at * bytes, bytes);
        const u64 w = rk_load(parts.weights + rk_weight_of(&spec, at) * beside, beside);
        rk_pairs_add(s, bits_of_state(a, spec.dtype, x), bits_of_state(a, spec.weights, w), spec.nan, spec.zero_drops);
    }
}

template <bool kPaired> __device__ void add_some(const FinishArgs &a, const rp_parts &parts, u64 first_index,
                                                 const rk_line &line, u64 from, u32 step, rk_state *s)
{
    if constexpr (kPaired)
        add_pair_line(a, parts, line, from, step, s);
    else
        add_line(a, parts, first_index, line, from, step, s);
}

template <bool kPaired> __device__ void merge(rk_state *s, const rk_state *o)
{
    if constexpr (kPaired)
        rk_pairs_merge(s, o);
    else
        rk_state_merge(s, o);
}

// Adds one walker's share of the line to the state.
template <bool kPaired> __device__ void add_share(const FinishArgs &a, const SegmentArgs &g, const WalkArgs &w,
                                                  const rk_line &line, u64 walker, rk_state *s)
{
    if (w.run == 1) {
        add_some<kPaired>(a, w.parts, g.first_index, line, walker, w.walkers, s);
        return;
    }
    const u32 bytes = 16 / w.run, lead = (u32)((uintptr_t)(w.parts.elements + line.first * bytes) & 15) / bytes;
    for (u64 v = walker; v * w.run < lead + line.n; v += w.walkers) { // vector v, which may begin before the line
        const u64 from = v ? v * w.run - lead : 0, to = (v + 1) * w.run - lead, end = to < line.n ? to : line.n;
        add_some<kPaired>(a, w.parts, g.first_index + from, {line.first + from, 1, end - from}, 0, 1, s);
    }
}

// A team's part of a line to the state of its first lane, `mine` being this thread's. All the team's lanes.
template <bool kPaired> __device__ void walk_part(const FinishArgs &a, const SegmentArgs &g, const WalkArgs &w,
                                                  const Share &part, u64 *mine, u32 state_words)
{
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, mask = group_mask(lanes);
    rk_state *s = (rk_state *)mine;
    rk_state_init(s, a.plan.layout, a.plan.dtype);
    for (u32 k = lane; k < w.team; k += lanes)
        add_share<kPaired>(a, g, w, part.line, (u64)part.team * w.team + k, s);
    for (u32 d = lanes / 2; d; d /= 2) {
        __syncwarp(mask);
        if (lane < d)
            merge<kPaired>(s, (const rk_state *)(mine + d * state_words));
    }
    __syncwarp(mask);
}

// A line's value from its state: by doubles if possible, because dividing integers takes long. One thread.
template <bool kPaired> __device__ void finish_state(const FinishArgs &a, u64 line, rk_state &s, uint64_t *scratch)
{
    if constexpr (kPaired) {
        write_pairs(a, line, s, scratch);
        return;
    }
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
template <bool kPaired> __global__ void __launch_bounds__(kWalkThreads, kPaired ? 1 : 8)
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
        walk_part<kPaired>(a, g, w, part, mine, state_words);
        const rk_state *all = (const rk_state *)first;
        for (u32 j = lane; j < a.plan.all; j += lanes)
            out[j] = word_of_state(a.plan, first[0], all->count, all->limb, j);
        __syncwarp(group_mask(lanes)); // states are free for the next line
    }
}

template <bool kPaired> __global__ void __launch_bounds__(kWalkThreads, kPaired ? 1 : 5)
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
    const u8 *cells = (const u8 *)a.cells + w.first_line * a.cell_bytes;
    const u64 uncertain = uncertain_bits(a.cell_bytes);
    for (u64 i = (u64)blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes; i < known + marked; i += stride) {
        if (i >= known && rk_load(cells + (i - known) * a.cell_bytes, (int)a.cell_bytes) != uncertain)
            continue;
        const u64 number = i < known ? list[1 + i] : w.first_line + i - known;
        const rk_line line = rk_line_of(&a.spec, w.parts.offsets, number);
        if constexpr (!kPaired)
            if (narrow_total(a, w.parts, number, line, lanes))
                continue;
        walk_part<kPaired>(a, g, w, {number, 0, line}, mine, state_words);
        if (threadIdx.x % lanes == 0)
            finish_state<kPaired>(a, number, *(rk_state *)mine, (uint64_t *)(mine + scratch_at));
        __syncwarp(group_mask(lanes)); // states are free for the next line
    }
}

template <bool kPaired> __global__ void __launch_bounds__(kWalkThreads, kPaired ? 1 : 7)
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
        const int64_t *digits = (const int64_t *)words;
        if (has_sum(p, s->special))
            rk_limbs_of_digits(digits, s->limb, p.sum / 2);
        if (!s->special) {
            rk_limbs_of_digits(digits + p.sum, s->limb + p.sum / 2, (p.digits - p.sum) / 2);
            if (p.layout == RP_STATE_PROD)
                rk_limbs_of_digits(digits, s->limb, 3);
        }
        if constexpr (kPaired)
            write_pairs(a, w.first_line + i, *s, (uint64_t *)(mine + scratch_at));
        else
            write_cell(a, w.first_line + i, *s, (uint64_t *)(mine + scratch_at));
    }
}

} // namespace

template <AnyPart kPart> StatesFn walk_states_part() { return walk_states<kPart == AnyPart::Pairs>; }
template <AnyPart kPart> ListedFn walk_listed_part() { return walk_listed<kPart == AnyPart::Pairs>; }
template <AnyPart kPart> FinishFn finish_lines_part() { return finish_lines<kPart == AnyPart::Pairs>; }

#define PARTS(X) X(Elements) X(Pairs)
#define PART(of)                                       \
    template StatesFn walk_states_part<AnyPart::of>(); \
    template ListedFn walk_listed_part<AnyPart::of>(); \
    template FinishFn finish_lines_part<AnyPart::of>();
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
