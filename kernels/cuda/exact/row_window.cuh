// Sums of squares of a whole row or column, in a window of 19 binades or more below its largest element, and a row's extremes.
//
// As in exponent_window.cuh, but for up to 2^n elements, in 29 - n binades. They are multiples of u, the lowest bit of the
// lowest binade, and below 2^(52 - n) u, so their sum is below 2^52 u. The sum of their squares is below 2^(104 - n) u^2. Above
// the anchor 2^(105 - n) u^2 a double counts 2^(53 - n) u^2; a square loses at most half of that there, and all of them at most
// 2^52 u^2.
#pragma once

#include "kernels/cuda/exact/exponent_window.cuh"
#include "kernels/cuda/exact/twosum.cuh"

namespace rk {

constexpr u32 kRowLog2 = 10; // of the most elements of a row: n
__device__ constexpr u32 row_binades(u32 n) { return 29 - n; }
// With this exponent field of the lowest binade
__device__ __forceinline__ double row_anchor(u32 n, u32 first) { return Window::power(105 - (int)n + 2 * ((int)first - 150)); }

// Where the window of a row lies, of up to 2^kLog2 elements, and whether they fit it. `most`: the largest magnitude; `smallest`
// that is not zero: twice, less 1.
template <u32 kLog2 = kRowLog2> struct RowWindow {
    u32 first; // exponent field of the lowest binade

    __device__ __forceinline__ explicit RowWindow(u32 most)
    {
        const u32 top = most >> 23, below = row_binades(kLog2) - 1;
        first = top > below ? top - below : 1;
    }
    __device__ __forceinline__ bool holds(u32 most, u32 smallest) const
    {
        return most < kInfinite && (first == 1 || smallest >= (first << 24) - 1);
    }
    __device__ __forceinline__ double anchor() const { return row_anchor(kLog2, first); }
};

// The sums of elements that fit the window.
struct RowSums {
    double sum, upper, lower; // upper: from the anchor on

    __device__ __forceinline__ explicit RowSums(double anchor) : sum(-0.0), upper(anchor), lower(0) {}
    __device__ __forceinline__ void add(u32 bits)
    {
        const double v = (double)__uint_as_float(bits);
        add_square(v, upper, lower);
        sum = __dadd_rn(sum, v);
    }
    // Of the squares in two doubles
    __device__ __forceinline__ void squares(double anchor, double (&x)[2]) const
    {
        x[1] = two_sum(__dsub_rn(upper, anchor), lower, x[0]);
    }
};

// The extremes of elements as 32-bit integers, signed and unsigned. Three of these determine the smallest and the largest f32
// (with -0 below +0), and take half as many instructions.
struct RowExtremes {
    int most_signed = (int)(1u << 31);
    u32 most = 0, least = ~0u;
    u32 smallest = ~0u; // of magnitudes that are not zero, twice, less 1
    u32 some = 0;       // elements that are not zero

    __device__ __forceinline__ void note(u32 bits, bool counts)
    {
        most_signed = max(most_signed, (int)bits);
        most = max(most, bits);
        least = min(least, bits);
        smallest = min(smallest, 2 * bits - 1); // of zero that is all ones
        some += counts ? one_if_any(2 * bits) : 0;
    }
    // With those of the row's lanes, but for `smallest`. Whole warp.
    __device__ __forceinline__ void join(u32 lanes)
    {
        if (lanes == kWarp) {
            most_signed = warp_max(most_signed);
            most = warp_max(most);
            least = warp_min(least);
            some = warp_add(some);
            return;
        }
        for (u32 d = lanes / 2; d; d /= 2) {
            most_signed = max(most_signed, __shfl_xor_sync(kFullMask, most_signed, d));
            most = max(most, __shfl_xor_sync(kFullMask, most, d));
            least = min(least, __shfl_xor_sync(kFullMask, least, d));
            some += __shfl_xor_sync(kFullMask, some, d);
        }
    }
    // The bits of the row's least and greatest element
    __device__ __forceinline__ u32 low() const { return most >> 31 ? most : least; }
    __device__ __forceinline__ u32 high() const { return most_signed < 0 ? least : (u32)most_signed; }
    __device__ __forceinline__ u32 magnitude() const { return max(low() & 0x7fffffffu, high() & 0x7fffffffu); }
};

} // namespace rk
