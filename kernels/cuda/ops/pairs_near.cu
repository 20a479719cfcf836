// Sums of products of whole rows of floats, and weighted means, by near sums. Rows in doubt: pairs_exact.cu.
#include "kernels/cuda/exact/near_pairs.cuh"
#include "kernels/cuda/pass/near_pair_rows.cuh"

namespace rk {

template <PairTypes kTypes> SegmentKernel near_pairs_part(bool mean, bool choose)
{
    return near_pair_rows<NearPairs, kTypes>(mean, choose);
}

#define PARTS(X) X(F16) X(Bf16) X(F32) X(F32F64) X(F64)
#define PART(of) template SegmentKernel near_pairs_part<PairTypes::of>(bool mean, bool choose);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
