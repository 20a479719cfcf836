// Kernels that walk along floats (float_walk.cuh).
#include "kernels/cuda/pass/unit_parts.h"
#include "kernels/cuda/pass/walk_columns.cuh"

namespace rk {
namespace {

// Rows and segments: a team is some lanes of a warp. kVectors: w.run is not 1; takes registers, which pays for long lines.
template <class Walker, bool kVectors> __global__ void __launch_bounds__(kWalkThreads)
    walk_floats(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
                u64 *out)
{
    const Lanes team = {w.lanes, group_mask(w.lanes)};
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, lines = kWarp / lanes; // of a warp at once
    const u64 shares = w.lines * (w.walkers / lanes), turn = (u64)lines * w.turns;
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    for (u64 first = warp * turn; first < shares; first += warps * turn) {
        typename Walker::Line mine;
        u64 number = RP_NO_INDEX; // of the line in `mine`
        for (u32 t = 0; t < w.turns; t++) {
            const u64 i = first + t * lines + threadIdx.x % kWarp / lanes;
            Share s = share_of(a, w, i < shares ? i : shares - 1);
            const bool own = i < shares && s.line.n <= w.longest;
            s.line.n = own ? s.line.n : 0;
            Walker x;
            x.init(a.plan, g.skip);
            if constexpr (kVectors)
                VectorWalk<Walker>(w.parts, s.line, w.walkers, team).add_all(x, s.team * lanes + lane);
            else
                walk_groups(x, w.parts, s.line, s.team * lanes + lane, w.walkers, team);
            x.join(lanes);
            const typename Walker::Line l = x.line();
            if (own && !w.values)
                for (u32 j = lane; j < a.plan.all; j += lanes)
                    partial_of(a, w, out, s)[j] = l.word(a.plan, g, j);
            if (own && lane == t) {
                mine = l;
                number = w.first_line + s.number;
            }
        }
        // Each lane finishes a line: the slowest step is done for all of them at once.
        if (w.values && number != RP_NO_INDEX)
            finish_or_list(mine, a, g, number, out);
    }
}

template <class Walker> WalkFn kernel_of(WalkShape shape)
{
    return shape == kColumnWalk ? walk_columns<Walker>
           : shape == kLongWalk ? walk_floats<Walker, true>
                                : walk_floats<Walker, false>;
}

} // namespace

template <int kDtype> WalkFn walk_float_part(int layout, WalkShape shape)
{
    if (rk_is_stats(layout))
        return kernel_of<FloatWalk<kDtype, kStatistics>>(shape);
    return rk_square_limbs(layout) ? kernel_of<FloatWalk<kDtype, kMoments>>(shape) : kernel_of<FloatWalk<kDtype, kSum>>(shape);
}

#define PARTS(X) X(RP_F16) X(RP_BF16) X(RP_F32) X(RP_F64)
#define PART(dtype) template WalkFn walk_float_part<dtype>(int layout, WalkShape shape);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
