// Exact sums of f64: which kernel of columns.cuh.
#include "kernels/cuda/columns.cuh"

namespace rk {
namespace {

template <int kColumns> SegmentKernel pick(bool skip)
{
    return skip ? segment_kernel<DigitSum<kColumns, 4, true>>() : segment_kernel<DigitSum<kColumns, 4, false>>();
}

} // namespace

// Shared memory bounds the columns of an SM, 528 bytes each. Few large blocks leave fewer partials than many small
// ones, and have more warps to add columns up: the largest block that the device allows is the best.
SegmentKernel sum_f64_kernel(bool skip, bool large_shared) { return large_shared ? pick<384>(skip) : pick<96>(skip); }

} // namespace rk
