// Values in f64 to the narrower floats that a request wants.
//
// Kernels for many lines round each value to the nearest double v. Rounded to a narrower format, it is that of v, unless v is a
// tie there: numbers midway between two of that format are doubles, so no value lies on another side of one than v. Lines whose
// v is a tie are listed. (Figueroa, When is double rounding innocuous?, SIGNUM Newsletter 30(3), 1995, has other cases.)
#include "kernels/cuda/pass/args.h"
#include "kernels/cuda/pass/narrow_total.cuh"

namespace rk {
namespace {

// Midway between two neighbouring numbers of format f, or between its largest one and the next power of two?
__device__ bool is_tie(u64 bits, rk_format f)
{
    const u64 field = bits >> 52 & 2047, significand = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    const int below = bits_below(bits, f);
    return field != 0 && field != 2047 && below <= 53 && (significand & ((1ull << below) - 1)) == 1ull << (below - 1);
}

__global__ void narrow(const __grid_constant__ FinishArgs a, const u64 *wide, u64 first, u64 lines, u64 *list)
{
    wait_for_previous_pass();
    const rk_format f = rk_format_of(a.spec.out);
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += (u64)gridDim.x * blockDim.x) {
        const u64 v = wide[first + i];
        if (is_tie(v, f))
            list[1 + atomicAdd(list, 1ull)] = first + i;
        else
            write_bits(a.cell_bytes, a.cells, first + i, rk_convert_float(RP_F64, v, a.spec.out));
    }
}

} // namespace

NarrowFn narrow_kernel() { return narrow; }

} // namespace rk
