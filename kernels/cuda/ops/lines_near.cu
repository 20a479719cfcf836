// Sums of squares, variances and norms of rows, segments and columns by walking along them with near sums (near_sum.cuh): a few
// doubles, with a bound on what these do not hold. A line whose value that leaves in doubt is listed.
#include "kernels/cuda/pass/walk_near.cuh"

namespace rk {
namespace {

template <int kDtype> WalkFn pick(NearShape shape) { return near_walk<FloatWalk<kDtype, kMoments, true>>(shape); }

} // namespace

WalkFn near_line_kernel(int layout, int dtype, NearShape shape)
{
    if (!rk_square_limbs(layout) || rk_is_stats(layout))
        return NULL;
    switch (dtype) {
    case RP_F16:
        return pick<RP_F16>(shape);
    case RP_BF16:
        return pick<RP_BF16>(shape);
    case RP_F32:
        return pick<RP_F32>(shape);
    default:
        return pick<RP_F64>(shape);
    }
}

} // namespace rk
