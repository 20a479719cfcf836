// Means and variances of many rows of one length from their exact sums. They are rounded correctly, or not at all if neglected
// terms could decide the rounding (ziv_round.cuh). Reciprocals of the divisors are computed once.
#pragma once

#include "kernels/cuda/exact/ziv_round.cuh"

namespace rk {

// A value as high + low, with an error of at most `error`.
struct Within {
    double high, low, error;

    // Rounded to the nearest double, ties to even. False if that is not certain.
    __device__ __forceinline__ bool round(double *v) const
    {
        double sum;
        const double rest = two_sum(high, low, sum);
        *v = sum;
        if (sum == 0)
            return error == 0;
        // rounded outwards, for an error may be less than half a unit of the last place of `rest`
        return in_range(sum) && __dadd_rn(sum, __dadd_ru(rest, error)) == sum && __dadd_rn(sum, __dadd_rd(rest, -error)) == sum;
    }
    // Its root, if it is not negative: one step of Newton's method. If `low` is at most 2^-50 of `high`, what is neglected and
    // what is rounded off are less than 2^-101 of the root together.
    __device__ __forceinline__ Within root() const
    {
        if (high == 0)
            return *this;
        const double r = __dsqrt_rn(high), rest = __fma_rn(-r, r, high), half = __drcp_rn(__dadd_rn(r, r));
        return {r, __dmul_rn(__dadd_rn(rest, low), half), __fma_rn(error, half, 0x1p-100 * r)};
    }
};

// A number to divide by, and its reciprocal, rounded.
struct Divisor {
    double d, over;

    Divisor() = default;
    __device__ __forceinline__ explicit Divisor(double divisor)
    {
        d = divisor;
        over = __drcp_rn(divisor);
    }
    // (high + low) / d, low at most 2^-52 of high, and high + low has this error. The quotient is off by two units of the last
    // place at most, so its remainder is rounded by 2^-104 of it; with what `low` adds, all is within 2^-101.
    __device__ __forceinline__ Within quotient(double high, double low, double error) const
    {
        const double q = __dmul_rn(high, over), rest = __fma_rn(-q, d, high);
        return {q, __dmul_rn(__dadd_rn(rest, low), over), __fma_rn(error, over, 0x1p-100 * fabs(q))};
    }
};

// Of rows of `count` elements, at most 2^10; variances only if that is more than `ddof`.
struct RowValues {
    double n;
    Divisor mean_by, spread_by;

    // of_mean: variances are divided by the count once more
    __device__ __forceinline__ RowValues(u32 count, u32 ddof, bool of_mean)
        : n(count), mean_by(n), spread_by((double)(count * (u64)(count > ddof ? count - ddof : 1) * (of_mean ? count : 1)))
    {
    }
    __device__ __forceinline__ bool mean(double sum, double *v) const
    {
        if (sum != 0)
            return mean_by.quotient(sum, 0, 0).round(v);
        *v = sum; // of this sign
        return true;
    }
    // The variance from `sum` and the sum of squares q[0] + q[1], |q[1]| <= 2^-53 q[0].
    //
    // n Q - S^2: of p = n q[0] and S^2, rounded, what is rounded off is known, and that of their difference; each is at most
    // 2^-53 p. So is n q[1]. Adding these rounds off at most 2^-102 p.
    __device__ __forceinline__ Within variance(double sum, const double (&q)[2]) const
    {
        const double p = __dmul_rn(n, q[0]), s2 = __dmul_rn(sum, sum);
        double d, high;
        const double e = two_sum(p, -s2, d), of_p = __fma_rn(n, q[0], -p), of_s2 = __fma_rn(sum, sum, -s2);
        if (p == s2 && of_p == of_s2 && q[1] == 0) // all elements are equal
            return {0, 0, 0};
        const double rest = __dsub_rn(of_p, of_s2), low = two_sum(d, __fma_rn(n, q[1], __dadd_rn(rest, e)), high);
        Within v = spread_by.quotient(high, low, 0x1p-101 * p);
        if (!(high > 0 && in_range(p) && (sum == 0 || in_range(s2)))) // out of range: nothing is certain
            v.error = INFINITY;
        return v;
    }
    // The value of an operation on squares
    __device__ __forceinline__ Within of_squares(int op, double sum, const double (&q)[2]) const
    {
        const Within total = {q[0], q[1], 0};
        if (op == RP_OP_SUMSQ || op == RP_OP_NORM2)
            return op == RP_OP_SUMSQ ? total : total.root();
        if (op == RP_OP_RMS)
            return mean_by.quotient(q[0], q[1], 0).root();
        return op == RP_OP_VAR ? variance(sum, q) : variance(sum, q).root(); // of the mean, too
    }
    // The variance where it lies midway between two doubles, or close to it, as is common if the divisor is a power of two and
    // elements are few: rounded correctly if nothing was rounded off before, else NaN. Out of line: rare.
    static __device__ __noinline__ double exact_variance(double n, double divisor, double sum, double q0, double q1)
    {
        double high, low;
        const bool exact = exact_spread(n, sum, q0, q1, high, low), power = (u64)__double_as_longlong(divisor) << 12 == 0;
        const double p = __dmul_rn(n, q0), s2 = __dmul_rn(sum, sum), top = __dadd_rn(high, low);
        const bool in = in_range(p) && in_range(top) && (sum == 0 || in_range(s2));
        return power && exact && in ? __dmul_rn(top, __drcp_rn(divisor)) : LineSums<2>::nan();
    }
    // ... rounded. False: it is not certain.
    __device__ __forceinline__ bool squares_value(int op, double sum, const double (&q)[2], double *v) const
    {
        if (of_squares(op, sum, q).round(v))
            return true;
        if (op == RP_OP_VAR)
            *v = exact_variance(n, spread_by.d, sum, q[0], q[1]);
        return op == RP_OP_VAR && *v == *v;
    }
};

} // namespace rk
