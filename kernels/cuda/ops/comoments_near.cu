// Covariances and correlations of whole rows of floats by near sums. Rows in doubt: comoments_exact.cu.
#include "kernels/cuda/exact/near_comoments.cuh"
#include "kernels/cuda/pass/near_pair_rows.cuh"

namespace rk {

template <PairTypes kTypes> SegmentKernel near_comoments_part(bool squares, bool choose)
{
    return near_pair_rows<NearComoments, kTypes>(squares, choose);
}

#define PARTS(X) X(F16) X(Bf16) X(F32) X(F32F64) X(F64)
#define PART(of) template SegmentKernel near_comoments_part<PairTypes::of>(bool squares, bool choose);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
