// The exact sum of a thread's doubles: in three of them as far as these hold it, else in the block's long accumulator.
#pragma once

#include "kernels/cuda/exact/long_digits.cuh"
#include "kernels/cuda/exact/ziv_round.cuh"

namespace rk {

// An exact sum of finite doubles: what three do not hold is in digits from `at` on, in units of 2^e0.
template <class Digits> struct ThreadSum {
    static constexpr int kTerms = 3;

    Terms<kTerms> terms;

    static __device__ __noinline__ void add_long(Digits *digits, int at, int e0, double v)
    {
        int offset;
        const i64 units = units_of(v, e0, &offset);
        if (units)
            digits->add(at, offset, (u64)(units < 0 ? -units : units), units < 0);
    }
    __device__ __forceinline__ void move(Digits *digits, int at, int e0)
    {
#pragma unroll
        for (int k = 0; k < kTerms; k++)
            add_long(digits, at, e0, terms.x[k]);
        terms.clear();
    }
    template <int kCount> __device__ __forceinline__ void add(const double (&v)[kCount], Digits *digits, int at, int e0)
    {
        Terms<kTerms> with = terms;
#pragma unroll
        for (int k = 0; k < kCount; k++)
            with.add(v[k]);
        if (!with.lost) {
            terms = with;
            return;
        }
        move(digits, at, e0);
#pragma unroll 1
        for (int k = 0; k < kCount; k++) {
            with = terms;
            with.add(chosen_of(v, k));
            if (with.lost)
                add_long(digits, at, e0, chosen_of(v, k));
            else
                terms = with;
        }
    }
    // v[k], without local memory
    template <int kCount> static __device__ __forceinline__ double chosen_of(const double (&v)[kCount], int k)
    {
        double x = v[0];
#pragma unroll
        for (int i = 1; i < kCount; i++)
            x = k == i ? v[i] : x;
        return x;
    }

    // A product in units of 2^(2 e0), as an integer: rare
    static __device__ __noinline__ void add_product(Digits *digits, int at, int e0, double x, double w)
    {
        const rk_format f = rk_format_of(RP_F64);
        const rk_number a = rk_number_of(f, (u64)__double_as_longlong(x)), b = rk_number_of(f, (u64)__double_as_longlong(w));
        digits->add(at, a.unit + b.unit - 2 * e0, (unsigned __int128)a.mantissa * b.mantissa, a.negative != b.negative);
    }
    // Is x w the double p, which is it rounded, and another one?
    static __device__ __forceinline__ bool two_hold(double x, double w, double p)
    {
        return fabs(p) < 0x1p1000 && (fabs(p) >= 0x1p-960 || x == 0 || w == 0);
    }
};

} // namespace rk
