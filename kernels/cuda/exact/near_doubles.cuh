// Sums of f64, and of their squares, in a few doubles each with a bound on what these do not hold.
#pragma once

#include "kernels/cuda/exact/enclosed.cuh"

namespace rk {

// Of an element's upper word without the sign: infinities and NaNs from here on; and a square below 2^-900 may not be the sum
// of two doubles. One that overflows makes the bound NaN.
constexpr u32 kSpecialHigh = 0x7ff00000u, kLeastSquared = (1023 - 450) << 20;

// The square of x, unless that is tiny, in two doubles
__device__ __forceinline__ void add_square(Enclosed &squares, double x)
{
    const double square = __dmul_rn(x, x), rest = __fma_rn(x, x, -square);
    squares.add(square);
    squares.rest.join({rest, rest});
}

template <bool kSquares> struct NearDoubles {
    Enclosed sum, squares;
    u32 tiny; // bits of elements whose squares two doubles may not hold: mostly none

    __device__ __forceinline__ void clear()
    {
        sum.clear();
        squares.clear();
        tiny = 0;
    }
    // A finite element, by its words
    __device__ __forceinline__ void add(u32 low, u32 high)
    {
        const double x = __hiloint2double((int)high, (int)low);
        sum.add(x);
        if (!kSquares)
            return;
        const u32 upper = high & 0x7fffffffu;
        tiny |= upper < kLeastSquared ? upper | low : 0;
        add_square(squares, x);
    }
    // The squares, of which nothing is known if one was tiny
    __device__ __forceinline__ Enclosed known_squares() const
    {
        return tiny ? Enclosed{squares.s, {-INFINITY, INFINITY}} : squares;
    }
};

} // namespace rk
