// Covariances and correlations of rows, segments and columns of floats by walking along them with near sums (near_sum.cuh). A
// line whose value that leaves in doubt is listed.
#include "kernels/cuda/exact/near_comoments.cuh"
#include "kernels/cuda/pass/unit_parts.h"
#include "kernels/cuda/pass/walk_pairs.cuh"

namespace rk {

template <PairTypes kTypes> WalkFn comoment_line_part(bool squares, NearShape shape)
{
    constexpr int kX = element_of(kTypes), kW = weight_of(kTypes);
    return squares ? near_pair_walk<kX, kW, NearComoments<kW == RP_F64, true, true>>(shape)
                   : near_pair_walk<kX, kW, NearComoments<kW == RP_F64, false, true>>(shape);
}

#define PARTS(X) X(F16) X(Bf16) X(F32) X(F32F64) X(F64)
#define PART(of) template WalkFn comoment_line_part<PairTypes::of>(bool squares, NearShape shape);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
