// Covariances and correlations of whole rows of floats by near sums. Rows in doubt: comoments_exact.cu.
#include "kernels/cuda/exact/near_comoments.cuh"
#include "kernels/cuda/pass/near_pair_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

template <int kX, int kW, bool kSquares, bool kChoose> SegmentKernel pick()
{
    return near_pair_rows<PairRows<NearComoments<kW == RP_F64, kSquares, kChoose>, kX, kW, kChoose>>();
}

} // namespace

template <PairTypes kTypes> SegmentKernel near_comoments_part(bool squares, bool choose)
{
    constexpr int kX = element_of(kTypes), kW = weight_of(kTypes);
    return squares  ? choose ? pick<kX, kW, true, true>() : pick<kX, kW, true, false>()
            : choose ? pick<kX, kW, false, true>()
                    : pick<kX, kW, false, false>();
}

#define PARTS(X) X(F16) X(Bf16) X(F32) X(F32F64) X(F64)
#define PART(of) template SegmentKernel near_comoments_part<PairTypes::of>(bool squares, bool choose);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
