// Sums of products of whole rows of floats, and weighted means, by near sums. Rows in doubt: pairs_exact.cu.
#include "kernels/cuda/exact/near_pairs.cuh"
#include "kernels/cuda/pass/near_pair_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

template <int kX, int kW, bool kMean, bool kChoose> SegmentKernel pick()
{
    return near_pair_rows<PairRows<NearPairs<kW == RP_F64, kMean, kChoose>, kX, kW, kChoose>>();
}

template <int kX, int kW> SegmentKernel pick(bool mean, bool choose)
{
    return mean     ? choose ? pick<kX, kW, true, true>() : pick<kX, kW, true, false>()
               : choose ? pick<kX, kW, false, true>()
                    : pick<kX, kW, false, false>();
}

} // namespace

template <PairTypes kTypes> SegmentKernel near_pairs_part(bool mean, bool choose)
{
    return pick<element_of(kTypes), weight_of(kTypes)>(mean, choose);
}

#define PARTS(X) X(F16) X(Bf16) X(F32) X(F32F64) X(F64)
#define PART(of) template SegmentKernel near_pairs_part<PairTypes::of>(bool mean, bool choose);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
