// Sums of squares, variances and norms of rows, segments and columns by walking along them with near sums (near_sum.cuh): a few
// doubles, with a bound on what these do not hold. A line whose value that leaves in doubt is listed.
#include "kernels/cuda/pass/unit_parts.h"
#include "kernels/cuda/pass/walk_near.cuh"

namespace rk {

template <int kDtype> WalkFn near_line_part(NearShape shape) { return near_walk<FloatWalk<kDtype, kMoments, true>>(shape); }

#define PARTS(X) X(RP_F16) X(RP_BF16) X(RP_F32) X(RP_F64)
#define PART(of) template WalkFn near_line_part<of>(NearShape shape);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
