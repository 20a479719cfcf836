// The two kernels of walking that know every layout: adding by definition, and finishing.
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/walk.cuh"

namespace rk {
namespace {

__global__ void walk_states(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                            const __grid_constant__ WalkArgs w, u64 *partials, u32 state_words, bool again)
{
    extern __shared__ u64 states[];
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, mask = group_mask(lanes), groups = w.walkers / lanes;
    u64 *mine = states + threadIdx.x * state_words;
    const u64 *first = mine - lane * state_words;
    rk_state *s = (rk_state *)mine;
    const u64 stride = (u64)gridDim.x * (blockDim.x / lanes);
    for (u64 i = (u64)blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes; i < w.lines * groups; i += stride) {
        const Share part = share_of(a, w, i);
        u64 *out = partial_of(a, w, partials, part);
        if (part.line.n > w.longest || (again && !(out[a.plan.own + kWordFlags] & kFlagLost)))
            continue;
        walk_line(a, w.parts, g.first_index, part.line, part.group * lanes + lane, w.walkers, s);
        for (u32 d = lanes / 2; d; d /= 2) {
            __syncwarp(mask);
            if (lane < d)
                rk_state_merge(s, (const rk_state *)(mine + d * state_words));
        }
        __syncwarp(mask);
        const rk_state *all = (const rk_state *)first;
        for (u32 j = lane; j < a.plan.all; j += lanes)
            out[j] = word_of_state(a.plan, first[0], all->count, all->limb, j);
        __syncwarp(mask); // states are free for the next line
    }
}

__global__ void finish_lines(const __grid_constant__ FinishArgs a, const __grid_constant__ WalkArgs w, const u64 *partials,
                             u32 state_words, u32 scratch_at)
{
    extern __shared__ u64 states[];
    u64 *mine = states + threadIdx.x * state_words;
    rk_state *s = (rk_state *)mine;
    const WordPlan &p = a.plan;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < w.lines; i += (u64)gridDim.x * blockDim.x) {
        const u64 *words = partials + i * p.all;
        if (rk_line_of(&a.spec, w.parts.offsets, w.first_line + i).n > w.longest || words[p.own + kWordFlags] & kFlagDone)
            continue; // another kernel's, or done
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
FinishFn finish_lines_kernel() { return finish_lines; }

} // namespace rk
