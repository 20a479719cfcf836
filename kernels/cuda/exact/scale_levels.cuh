// Levels of f64, so that no square is out of range. Level k is for elements of which the largest has an exponent field of
// 500 k - 227 to 500 k + 272. Each is multiplied by 2^(500 (2 - k)), so the largest x' is from 2^-250 (at level 0: 2^-74) to
// 2^250. Elements far below it lose bits, or all they have, which the sum of the squares does not show.
#pragma once

#include "kernels/cuda/exact/near_sum.cuh"

namespace rk {

constexpr int kLevelBits = 500, kPlainLevel = 2; // of which x' is x
constexpr int kNoLevel = -1;                     // of sums without elements

// Of a finite element's upper word without the sign; of an infinity or a NaN the last one.
__device__ __forceinline__ int level_of(u32 upper) { return (int)((upper >> 20) + 227) / kLevelBits; }
// Twice the least such word
__device__ __forceinline__ u32 level_begin(int level) { return level ? (u32)(kLevelBits * level - 227) << 21 : 0; }
// Twice the least such word that is too large for a level: for the last one, that of an infinity
__device__ __forceinline__ u32 level_end(int level)
{
    return level == 2 * kPlainLevel ? 0x7ffu << 21 : (u32)(kLevelBits * (level + 1) - 227) << 21;
}
__device__ __forceinline__ double level_power(int e) { return __hiloint2double((1023 + e) << 20, 0); } // 2^e, normal
__device__ __forceinline__ double level_scale(int level) { return level_power(kLevelBits * (kPlainLevel - level)); }
// An element is 2 to this, times x'.
__device__ __forceinline__ int level_bits(int level) { return kLevelBits * (level - kPlainLevel); }

// v times 2^bits, if that is not subnormal. v: finite
__device__ __forceinline__ bool scale_value(double *v, int bits)
{
    const int high = __double2hiint(*v), field = (high >> 20 & 0x7ff) + bits;
    if (field >= 0x7ff)
        *v = copysign(INFINITY, *v);
    else
        *v = __hiloint2double((int)((u32)high + ((u32)bits << 20)), __double2loint(*v));
    return field > 0;
}

} // namespace rk
