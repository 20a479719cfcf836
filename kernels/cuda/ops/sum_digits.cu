// Exact sums of f64: which kernel of digit_accumulator.cuh.
#include "kernels/cuda/exact/digit_accumulator.cuh"

namespace rk {
namespace {

template <int kColumns, int kInFlight> SegmentKernel pick(bool skip)
{
    return skip ? segment_kernel<DigitSum<kColumns, kInFlight, true, true>>()
                : segment_kernel<DigitSum<kColumns, kInFlight, false, true>>();
}

} // namespace

// Few large blocks leave fewer partials than many small ones, and have more warps to add columns up. But the columns, 360
// bytes each, are to leave a third of an SM's memory to L1, which loads in flight pass through.
SegmentKernel sum_f64_kernel(bool skip, bool large_shared) { return large_shared ? pick<448, 6>(skip) : pick<128, 4>(skip); }

} // namespace rk
