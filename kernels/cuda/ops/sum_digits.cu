// Exact sums of f64: the instance of digit_accumulator.cuh.
#include "kernels/cuda/exact/digit_accumulator.cuh"

namespace rk {
namespace {

template <int kColumns, int kInFlight> SegmentKernel pick(bool skip)
{
    return skip ? segment_kernel<DigitSum<kColumns, kInFlight, true, true>>()
                : segment_kernel<DigitSum<kColumns, kInFlight, false, true>>();
}

} // namespace

// Few large blocks leave fewer partials than many small ones, and have more warps to sum the columns of digits. But these
// columns, 360 bytes each, must leave a third of an SM's memory to L1 for loads in flight.
SegmentKernel sum_f64_kernel(bool skip, bool large_shared) { return large_shared ? pick<448, 6>(skip) : pick<128, 4>(skip); }

} // namespace rk
