// Sums of any elements in a few doubles, with a bound on their error, and the values that follow from them: rounded correctly,
// or not at all if the error could decide the rounding (ziv_round.cuh).
#pragma once

#include "kernels/cuda/exact/row_values.cuh"

namespace rk {

// A sum within `error` of s + t; NaN if something overflowed. All of nothing or -0.0: s is -0.0, and only then.
struct NearSum {
    double s, t, error;

    __device__ __forceinline__ void clear()
    {
        s = t = -0.0;
        error = 0;
    }
    __device__ __forceinline__ void add(double x)
    {
        double e = two_sum(s, x, s);
        e = two_sum(t, e, t);
        error = __dadd_ru(error, fabs(e));
    }
    __device__ __forceinline__ void join(const NearSum &o)
    {
        double e = two_sum(s, o.s, s), f = two_sum(t, o.t, t);
        e = two_sum(t, e, t);
        error = __dadd_ru(__dadd_ru(error, o.error), __dadd_ru(fabs(e), fabs(f)));
    }
    // With another lane of the warp, which gets the same
    __device__ __forceinline__ void join_lane(u32 distance)
    {
        join({__shfl_xor_sync(kFullMask, s, distance), __shfl_xor_sync(kFullMask, t, distance),
              __shfl_xor_sync(kFullMask, error, distance)});
    }
    __device__ __forceinline__ Pair pair() const { return {s, t, !(error == 0)}; }
    // |t| <= 2^-53 |s|
    __device__ __forceinline__ NearSum gathered() const
    {
        NearSum x;
        x.t = two_sum(s, t, x.s);
        x.error = error;
        return x;
    }
    // Rounded correctly. False if that is not certain.
    __device__ __forceinline__ bool value(double *v) const
    {
        *v = t == 0 ? s : __dadd_rn(s, t);
        return __dadd_rn(s, __dadd_rd(t, -error)) == __dadd_rn(s, __dadd_ru(t, error));
    }
    // The same of the mean
    __device__ __forceinline__ bool mean(const Divisor &count, double *v) const
    {
        const NearSum a = gathered();
        *v = t == 0 ? s : a.s; // a zero has this sign
        if (a.s == 0)
            return a.error == 0;
        return count.quotient(a.s, a.t, a.error).round(v) ||
               (a.error == 0 && in_range(a.s) && exact_quotient(a.s, a.t, count.d, v));
    }
};

// n Q - S^2. S is s + t, so S^2 is s^2 + 2 s t + t^2, where the last two terms are at most 2^-51 s^2. What the rounding of
// p = n q, of s^2 and of their difference takes off is known, and at most 2^-53 p each. So is n times the second term of the
// squares. Adding all of these rounds off at most 2^-101 p.
__device__ __forceinline__ Within spread_of(double n, const NearSum &sum, const NearSum &squares)
{
    const NearSum a = sum.gathered(), q = squares.gathered();
    const double p = __dmul_rn(n, q.s), s2 = __dmul_rn(a.s, a.s), cross = __fma_rn(2 * a.s, a.t, __dmul_rn(a.t, a.t));
    double d, high;
    const double e = two_sum(p, -s2, d), rest = __dsub_rn(__fma_rn(n, q.s, -p), __fma_rn(a.s, a.s, -s2));
    const double low = two_sum(d, __dsub_rn(__fma_rn(n, q.t, __dadd_rn(rest, e)), cross), high);
    const double of_sum = __dmul_rn(a.error, __fma_rn(2, fabs(a.s), a.error));
    const bool in = high > 0 && in_range(p) && (a.s == 0 || in_range(s2));
    return {high, low, in ? __fma_rn(1.25, __fma_rn(n, q.error, of_sum), 0x1p-100 * p) : INFINITY};
}

// The value that follows from the sum or the squares of `count` elements. False: it is not certain, or there is none. Out of
// line: rare.
static __device__ __noinline__ bool value_near(int op, u32 ddof, rk_finisher finisher, u64 count, const NearSum &sum,
                                               const NearSum &squares, double *v)
{
    const double n = (double)count;
    auto over = [](const Within &x, double divisor) {
        double high;
        const double low = two_sum(x.high, x.low, high);
        return Divisor(divisor).quotient(high, low, x.error);
    };
    if (count == 0 || count >= 1ull << 53)
        return false;
    if (finisher == RK_FINISH_TOTAL)
        return sum.value(v);
    if (finisher == RK_FINISH_MEAN)
        return sum.mean(Divisor(n), v);
    if (finisher == RK_FINISH_SQUARES) {
        const NearSum q = squares.gathered();
        const Within all = {q.s, q.t, q.error};
        return (op == RP_OP_SUMSQ ? all : op == RP_OP_RMS ? over(all, n).root() : all.root()).round(v);
    }
    if (finisher != RK_FINISH_SPREAD || count <= ddof)
        return false;
    Within x = over(over(spread_of(n, sum, squares), n), (double)(count - ddof));
    if (op == RP_OP_SEM)
        x = over(x, n);
    return (op == RP_OP_VAR ? x : x.root()).round(v);
}

} // namespace rk
