// Exact sums of f64: which kernel of columns.cuh.
#include "kernels/cuda/columns.cuh"

namespace rk {
namespace {

template <int kColumns, int kInFlight> SegmentKernel pick(bool skip)
{
    return skip ? segment_kernel<DigitSum<kColumns, kInFlight, true>>()
                : segment_kernel<DigitSum<kColumns, kInFlight, false>>();
}

} // namespace

// Shared memory bounds the columns of an SM, 528 bytes each. Few large blocks leave fewer partials than many small
// ones, and have more warps to add columns up: the largest block that the device allows is the best. With so few
// threads, long rows want more loads in flight; short ones want the smaller tiles.
SegmentKernel sum_f64_kernel(bool skip, size_t shared_per_block, bool long_row)
{
    if (shared_per_block < DigitSum<384, 4, false>::shared_bytes() + 4096) // 198 KiB: Hopper, data centre Blackwell
        return pick<96, 4>(skip);                                          // 50 KiB: any
    return long_row ? pick<384, 8>(skip) : pick<384, 4>(skip);
}

} // namespace rk
