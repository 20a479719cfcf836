// A value that was rounded to f64, in the format that is asked for.
//
// Rounded to a narrower format, a value is what the nearest double v is, unless v is a tie there: numbers midway between two of
// that format are doubles, so no value lies on another side of one than v. (Figueroa, When is double rounding innocuous?,
// SIGNUM Newsletter 30(3), 1995, has other cases.)
#pragma once

#include "kernels/cuda/pass/machine.cuh"
#include "kernels/exact/state.h"

namespace rk {

// Bits of a finite double below the last place of format f. They are in its significand if there are at most 53.
__device__ __forceinline__ int bits_below(u64 bits, rk_format f)
{
    const int above = (int)(bits >> 52 & 2047) - 1023 - f.emin; // not f.emin - exponent: as in rk_round_window
    return 53 - f.precision - (above < 0 ? above : 0);
}

// Midway between two neighbouring numbers of format f, or between its largest one and the next power of two?
__device__ __forceinline__ bool is_tie(u64 bits, rk_format f)
{
    const u64 field = bits >> 52 & 2047, significand = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    const int below = bits_below(bits, f);
    return field != 0 && field != 2047 && below > 0 && below <= 53 &&
           (significand & ((1ull << below) - 1)) == 1ull << (below - 1);
}

// v, no NaN, cut to f32, with a last bit that says whether something was cut off: rounded further, it is rounded once.
__device__ __forceinline__ u32 cut_bits(double v)
{
    const float cut = __double2float_rz(v);
    return __float_as_uint(cut) | ((double)cut != v);
}

// v, no NaN, rounded to the bits of format `out`. By the hardware: integers take long.
__device__ __forceinline__ u64 rounded_bits(double v, int out)
{
    if (out == RP_F64)
        return (u64)__double_as_longlong(v);
    if (out == RP_F32)
        return __float_as_uint((float)v);
    const u32 bits = cut_bits(v);
    return out == RP_F16 ? half_of_float(__uint_as_float(bits)) : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

// The value v to the bits of format `out`. False: v does not decide it.
__device__ __forceinline__ bool value_bits(double v, int out, u64 *bits)
{
    *bits = (u64)__double_as_longlong(v);
    if (out == RP_F64)
        return true;
    if (is_tie(*bits, rk_format_of(out)))
        return false;
    *bits = v == v ? rounded_bits(v, out) : rk_convert_float(RP_F64, *bits, out);
    return true;
}

} // namespace rk
