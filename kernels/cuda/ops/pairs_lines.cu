// Sums of products and weighted means of rows, segments and columns of floats by walking along them with near sums
// (near_sum.cuh). A line whose value that leaves in doubt is listed.
#include "kernels/cuda/exact/near_pairs.cuh"
#include "kernels/cuda/pass/unit_parts.h"
#include "kernels/cuda/pass/walk_pairs.cuh"

namespace rk {

template <PairTypes kTypes> WalkFn pair_line_part(bool mean, NearShape shape)
{
    constexpr int kX = element_of(kTypes), kW = weight_of(kTypes);
    return mean ? near_pair_walk<kX, kW, NearPairs<kW == RP_F64, true, true>>(shape)
                : near_pair_walk<kX, kW, NearPairs<kW == RP_F64, false, true>>(shape);
}

#define PARTS(X) X(F16) X(Bf16) X(F32) X(F32F64) X(F64)
#define PART(of) template WalkFn pair_line_part<PairTypes::of>(bool mean, NearShape shape);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
