// Means, variances and norms in f64 from a few doubles that hold exact sums: rounded correctly, or not at all where what was
// neglected on the way could decide (Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded last
// bit", ACM TOMS 17 (1991)). The other way, by integers of up to 4288 bits (kernels/finish.h), takes about fifty times as
// long, which is what counts where there are many short lines.
//
// Error-free transforms: two_sum (pair.cuh), and a product with its error by a fused multiply-add (Dekker 1971; Muller et
// al., "Handbook of Floating-Point Arithmetic", 5.1).
#pragma once

#include "kernels/cuda/pair.cuh"

namespace rk {

// What is certain is so for results and operands within this range: nothing over- or underflows on the way.
__device__ __forceinline__ bool in_range(double x) { return fabs(x) > 0x1p-450 && fabs(x) < 0x1p450; }

// The exact sum of what was added to kTerms doubles, if not `lost`.
template <int kTerms> struct Terms {
    double x[kTerms];
    bool lost;

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int k = 0; k < kTerms; k++)
            x[k] = 0;
        lost = false;
    }
    // What one term rounds off goes to the next; behind the last it is lost.
    __device__ __forceinline__ void add(double v)
    {
#pragma unroll
        for (int k = 0; k < kTerms; k++)
            v = two_sum(x[k], v, x[k]);
        lost |= !(v == 0);
    }
    __device__ __forceinline__ void add_product(double a, double b)
    {
        const double p = __dmul_rn(a, b);
        lost |= !(p == 0 ? a == 0 || b == 0 : in_range(p));
        add(__fma_rn(a, b, -p));
        add(p);
    }
    // Brings the sum to the front: x[0] is all of it but at most 2^-52 of it, which is x[1] with a like error. False if that
    // could not be done.
    __device__ __forceinline__ bool gather()
    {
#pragma unroll
        for (int pass = 1; pass < kTerms; pass++)
#pragma unroll
            for (int k = kTerms - 1; k > 0; k--)
                x[k] = two_sum(x[k - 1], x[k], x[k - 1]);
        bool small = fabs(x[1]) <= 0x1p-52 * fabs(x[0]);
#pragma unroll
        for (int k = 2; k < kTerms; k++)
            small &= fabs(x[k]) <= 0x1p-104 * fabs(x[0]);
        return !lost && small;
    }
};

// A value as high + low, with an error of at most 2^-96 of it.
struct Near {
    double high, low;

    // The value rounded to the nearest double, ties to even. False if that is not certain.
    __device__ __forceinline__ bool round(double *v) const
    {
        double sum, rest = two_sum(high, low, sum), error = 0x1p-95 * fabs(sum);
        *v = sum;
        return in_range(sum) && __dadd_rn(sum, __dadd_rn(rest, error)) == sum && __dadd_rn(sum, __dsub_rn(rest, error)) == sum;
    }
};

// (high + low) / divisor, |low| <= 2^-52 |high|; all in range, or high 0. The remainder of a quotient is exact.
__device__ __forceinline__ Near quotient(double high, double low, double divisor)
{
    const double q = __ddiv_rn(high, divisor), rest = __fma_rn(-q, divisor, high);
    return {q, __ddiv_rn(__dadd_rn(rest, low), divisor)};
}

// The root of a positive value: one step of Newton's method from the root of its upper part. So is a root's remainder.
__device__ __forceinline__ Near root(Near v)
{
    const double r = __dsqrt_rn(v.high), rest = __fma_rn(-r, r, v.high);
    return {r, __ddiv_rn(__dadd_rn(rest, v.low), __dadd_rn(r, r))};
}

} // namespace rk
