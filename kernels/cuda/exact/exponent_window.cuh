// Exact sums of f32, bf16 and f16, and of their squares, as doubles: while the elements keep to 16 neighbouring binades, the
// window.
//
// For up to 2^13 elements 52 bits hold the sum. Of a square the upper part is what an addition to a large number, the anchor,
// keeps of it; what that rounds off goes to another double, which has room for it (Rump, Ogita, Oishi, "Accurate
// floating-point summation", part I, SIAM J. Sci. Comput. 31 (2008), section 3). The owner handles elements that do not fit,
// and the content of a window that must shift or is full.
#pragma once

#include "kernels/cuda/exact/moment_sums.cuh"

namespace rk {

// The range of some elements, as bits of f32, to decide whether they fit.
struct Magnitudes {
    u32 most = 0, least = ~0u; // least: of those that are not zero, less 1

    // Returns 1 if it is a zero.
    __device__ __forceinline__ u32 note(u32 bits)
    {
        const u32 magnitude = bits & 0x7fffffffu, less_1 = magnitude - 1; // of zero that is all ones
        most = max(most, magnitude);
        least = min(least, less_1);
        return less_1 >> 31; // one instruction
    }
};

// Adds the square of v: its upper part to `upper`, which has begun as an anchor, the rest to `lower`.
__device__ __forceinline__ void add_square(double v, double &upper, double &lower)
{
    const double with = __fma_rn(v, v, upper), kept = __dsub_rn(with, upper); // the upper part of the square, exact
    lower = __dadd_rn(lower, __fma_rn(v, v, -kept));
    upper = with;
}

// Its unit is u = 2^(first - 150), the lowest bit of its lowest binade. Elements are multiples of u below 2^39 u, squares
// multiples of u^2 below 2^78 u^2, and 2^13 of these below 2^91 u^2. Above the anchor 2^92 u^2 a double counts 2^40 u^2;
// what the squares lose there is at most half of that each, together 2^52 u^2.
struct Window {
    static constexpr u32 kBinades = 16, kFull = 1u << 13;

    u32 first;           // exponent field of the lowest binade
    u32 count;           // elements
    double sum;          // of all; -0.0 as long as all are
    double upper, lower; // of the squares: anchor + multiples of 2^40 units, and the rest

    static __device__ __forceinline__ double power(int e) { return __hiloint2double((e + 1023) << 20, 0); } // 2^e
    __device__ __forceinline__ int unit_exponent() const { return (int)first - 150; }
    __device__ __forceinline__ double anchor() const { return power(92 + 2 * unit_exponent()); }
    __device__ __forceinline__ double upper_squares() const { return __dsub_rn(upper, anchor()); }

    // All of it
    __device__ __forceinline__ MomentSums sums() const { return {{sum, 0, false}, {{upper_squares(), lower, 0}, false}}; }

    __device__ __forceinline__ void open(u32 lowest)
    {
        first = lowest;
        count = 0;
        sum = -0.0;
        lower = 0;
        upper = anchor();
    }
    // For elements with exponent fields up to `top`, and a binade of room above.
    __device__ __forceinline__ void open_for(u32 top) { open(top > kBinades - 2 ? top - (kBinades - 2) : 1); }

    // Must it shift for elements with exponent fields up to `top`?
    __device__ __forceinline__ bool too_low(u32 top) const { return (int)(top - first) >= (int)kBinades; }
    __device__ __forceinline__ bool too_high(u32 top) const { return (int)(top - first) < (int)kBinades / 2 && first > 1; }
    // If it is not too low: are all these elements in the window?
    __device__ __forceinline__ bool holds(const Magnitudes &m) const { return first == 1 || m.least >= (first << 23) - 1; }

    // The owner counts `count`.
    template <bool kSquares> __device__ __forceinline__ void add(u32 bits)
    {
        const double x = (double)__uint_as_float(bits);
        if (kSquares)
            add_square(x, upper, lower);
        sum = __dadd_rn(sum, x);
    }
};

} // namespace rk
