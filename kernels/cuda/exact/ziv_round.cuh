// Means, variances and norms in f64 from a few doubles that hold exact sums. They are rounded correctly, or not at all if
// neglected terms could decide the rounding (Ziv, "Fast evaluation of elementary mathematical functions with correctly rounded
// last bit", ACM TOMS 17 (1991)). The general way, by integers of up to 4288 bits (kernels/exact/finish.h), takes about fifty
// times as long, which dominates with many short lines.
//
// Error-free transforms: two_sum (twosum.cuh), and a product with its error by a fused multiply-add (Dekker 1971; Muller et
// al., "Handbook of Floating-Point Arithmetic", 5.1).
#pragma once

#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/exact/finish.h"

namespace rk {

// Certainty requires results and operands within this range, where no step over- or underflows.
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
    // What one term rounds off is added to the next one; what the last one rounds off is lost.
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
    // Normalises the terms: x[0] is the sum with a relative error of at most 2^-52, and x[1] is that error with a like one.
    // False if that failed.
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
    __device__ __forceinline__ void join(const Terms &o)
    {
#pragma unroll
        for (int k = kTerms - 1; k >= 0; k--)
            add(o.x[k]);
        lost |= o.lost;
    }
    // Join with another lane. Both must get the same terms, not just the same sum, so both add the upper lane's terms to the
    // lower lane's.
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        const bool upper = threadIdx.x & distance;
        double more[kTerms];
#pragma unroll
        for (int k = 0; k < kTerms; k++) {
            const double other = __shfl_xor_sync(mask, x[k], distance);
            more[k] = upper ? x[k] : other;
            x[k] = upper ? other : x[k];
        }
#pragma unroll
        for (int k = kTerms - 1; k >= 0; k--)
            add(more[k]);
        lost |= __shfl_xor_sync(mask, (int)lost, distance) != 0;
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

__device__ __forceinline__ Near quotient(Near v, double divisor) { return quotient(v.high, v.low, divisor); }

// The root of a positive value: one step of Newton's method from the root of its upper part. So is a root's remainder.
__device__ __forceinline__ Near root(Near v)
{
    const double r = __dsqrt_rn(v.high), rest = __fma_rn(-r, r, v.high);
    return {r, __ddiv_rn(__dadd_rn(rest, v.low), __dadd_rn(r, r))};
}

// (high + low) / n, where nothing was rounded off before: rounded, also if it lies midway between two doubles. high in range,
// |low| <= 2^-53 |high|, n an integer up to 2^53. Out of line: rare.
//
// The quotient is q + (r + tail) / n exactly. It rounds to q if |r + tail| is less than n times half the way to the next double
// on that side, which is exact, too. False: it is further away than that double.
static __device__ __noinline__ bool exact_quotient(double high, double low, double n, double *v)
{
    const double q = __ddiv_rn(high, n);
    double r, tail = two_sum(__fma_rn(-q, n, high), low, r);
    const i64 bits = __double_as_longlong(q), away = (r < 0) == (q < 0) ? 1 : -1;
    const double next = __longlong_as_double(bits + away), half = 0.5 * __dmul_rn(__dsub_rn(next, q), n);
    const double past = __dadd_rn(__dsub_rn(r, half), tail); // of the midpoint, or its sign: rounded only far from there
    const bool beyond = r < 0 ? past < 0 : past > 0;
    *v = r == 0 || !(beyond || (past == 0 && bits & 1)) ? q : next;
    return fabs(r) < 2 * fabs(half);
}

// n Q - S^2, Q being q0 + q1 and S `sum`, as high + low. False if that is not exact.
__device__ __forceinline__ bool exact_spread(double n, double sum, double q0, double q1, double &high, double &low)
{
    const double p = __dmul_rn(n, q0), s2 = __dmul_rn(sum, sum), more = __dmul_rn(n, q1);
    double a, b;
    const double e = two_sum(p, -s2, high), f = two_sum(__fma_rn(n, q0, -p), -__fma_rn(sum, sum, -s2), a);
    const double g = two_sum(a, e, b), h = two_sum(b, more, low);
    return f == 0 && g == 0 && h == 0 && __fma_rn(n, q1, -more) == 0;
}

// All that is known about a line of floats, except its extremes. The values below are f64; false: not certain.
template <int kTerms> struct LineSums {
    Pair sum;
    Terms<kTerms> squares;
    u64 count;
    u32 special; // rk_state.special: then both sums are void

    __device__ __forceinline__ void join(const LineSums &o)
    {
        sum.lost |= o.sum.lost;
        sum.join(o.sum.s, o.sum.t);
        squares.join(o.squares);
        count += o.count;
        special |= o.special;
    }

    static __device__ __forceinline__ double nan() { return __longlong_as_double((i64)rk_nan_bits(rk_format_of(RP_F64))); }

    template <bool kMany = false>
    __device__ __forceinline__ bool value(const rp_spec &spec, rk_finisher finisher, double *v) const
    {
        switch (finisher) {
        case RK_FINISH_MEAN:
            return mean(v);
        case RK_FINISH_SPREAD:
            return spread<kMany>(spec.ddof, spec.op == RP_OP_VAR ? v : NULL, spec.op == RP_OP_VAR ? NULL : v,
                                 spec.op == RP_OP_SEM);
        case RK_FINISH_SQUARES:
            return square_sum(spec.op, v);
        case RK_FINISH_TOTAL:
            return whole_sum(v);
        case RK_FINISH_CHOSEN: // uses no sums
        case RK_FINISH_INDEX:
        case RK_FINISH_ENDS:
        case RK_FINISH_RANGE:
        case RK_FINISH_COUNTED:
        case RK_FINISH_ELEMENTS:
        case RK_FINISH_SOME:
        case RK_FINISH_EVERY:
        case RK_FINISH_WORD:
        case RK_FINISH_PRODUCT:
        case RK_FINISH_SUMMARY:
        case RK_FINISH_RANKED:
            break;
        }
        return false;
    }

    __device__ __forceinline__ bool whole_sum(double *v) const
    {
        *v = special ? special_value() : count ? sum.value() : 0.0;
        return special || !sum.lost;
    }
    __device__ __forceinline__ double special_value() const
    {
        return __longlong_as_double((i64)rk_special_bits((int)special, rk_format_of(RP_F64)));
    }

    __device__ __forceinline__ bool mean(double *v) const
    {
        *v = count == 0 ? nan() : special ? special_value() : sum.value();
        if (count == 0 || special)
            return true;
        double high, low = two_sum(sum.s, sum.t, high);
        if (high == 0) // a zero with the sign of `high`
            return !sum.lost;
        const double n = (double)count;
        return !sum.lost && in_range(high) && count < 1ull << 53 &&
               (quotient(high, low, n).round(v) || exact_quotient(high, low, n, v));
    }

    __device__ __forceinline__ bool square_sum(int op, double *v) const
    {
        Terms<kTerms> q = squares;
        *v = op == RP_OP_RMS && count == 0 ? nan() : special_value();
        if (special || (op == RP_OP_RMS && count == 0))
            return true;
        if (!q.gather() || (op == RP_OP_RMS && count >= 1ull << 53))
            return false;
        *v = q.x[0];
        if (q.x[0] == 0) // then it is 0 exactly
            return true;
        const Near near = op == RP_OP_RMS ? quotient(q.x[0], q.x[1], (double)count) : Near{q.x[0], q.x[1]};
        return in_range(q.x[0]) && (op == RP_OP_SUMSQ ? near : root(near)).round(v);
    }

    // n Q - S^2 as high + low, an error of at most 2^-96 of it, where little of it cancels; low at most 2^-52 of high.
    //
    // Of p = n q and s^2, rounded, what is rounded off is known: of each and of their difference at most 2^-53 p. So is n times
    // the second term. Adding these rounds off at most 2^-102 p.
    __device__ __forceinline__ bool quick_top(double *high, double *low) const
    {
        const double n = (double)count, q = squares.x[0], p = __dmul_rn(n, q), s2 = __dmul_rn(sum.s, sum.s);
        double d;
        const double e = two_sum(p, -s2, d), rest = __dsub_rn(__fma_rn(n, q, -p), __fma_rn(sum.s, sum.s, -s2));
        *low = two_sum(d, __fma_rn(n, squares.x[1], __dadd_rn(rest, e)), *high);
        bool two = fabs(squares.x[1]) <= 0x1p-52 * q; // there are no further terms
#pragma unroll
        for (int k = 2; k < kTerms; k++)
            two &= squares.x[k] == 0;
        return two && !squares.lost && !sum.lost && sum.t == 0 && d >= 0x1p-6 * p && in_range(p) &&
               (sum.s == 0 || in_range(s2));
    }

    // Is the result of quick_top exactly n Q - S^2?
    __device__ __forceinline__ bool exact_top() const
    {
        double high, low;
        return exact_spread((double)count, sum.s, squares.x[0], squares.x[1], high, low);
    }

    // (n Q - S^2) / (n (n - ddof)), S the sum and Q that of the squares, and its root: those that have a place to go to.
    // `of_mean`: the same of that over n. kMany: any count, with one division after the other; of four terms out of line.
    template <bool kMany = false>
    __device__ __forceinline__ bool spread(u32 ddof, double *var, double *std, bool of_mean = false) const
    {
        if constexpr (kMany && kTerms > 3)
            return spread_of_many(*this, ddof, var, std, of_mean);
        else
            return spread_of<kMany>(ddof, var, std, of_mean);
    }
    static __device__ __noinline__ bool spread_of_many(const LineSums &of, u32 ddof, double *var, double *std, bool of_mean)
    {
        return of.template spread_of<true>(ddof, var, std, of_mean);
    }
    template <bool kMany> __device__ __forceinline__ bool spread_of(u32 ddof, double *var, double *std, bool of_mean) const
    {
        const bool none = special || count <= ddof;
        double zero = none ? nan() : 0;
        if (var)
            *var = zero;
        if (std)
            *std = zero;
        if (none)
            return true;
        const bool many = count >= (of_mean ? 1u << 17 : 1u << 26); // else n (n - ddof), and n times that, is a double
        double high, low;
        if (!of_mean && (kMany ? count < 1ull << 53 : !many) && quick_top(&high, &low)) {
            const u64 divisor = count * (count - ddof);
            const Near near = kMany && many ? quotient(quotient(high, low, (double)count), (double)(count - ddof))
                                            : quotient(high, low, (double)divisor);
            bool certain = !var || near.round(var);
            if (!certain && !many && (divisor & (divisor - 1)) == 0 && exact_top()) { // nothing was rounded off, so it may be a
                                                                                      // tie
                *var = near.high;
                certain = in_range(near.high);
            }
            if (certain && (!std || root(near).round(std)))
                return true;
        }
        Terms<kTerms> q = squares;
        if (sum.lost || !q.gather() || (many && !kMany) || count >= 1ull << 53)
            return false;
        Terms<4> top;
        top.clear();
#pragma unroll
        for (int k = 0; k < kTerms; k++)
            if (q.x[k] != 0)
                top.add_product(q.x[k], (double)count);
        top.add_product(sum.s, -sum.s);
        if (sum.t != 0) {
            top.add_product(sum.s, -2 * sum.t);
            top.add_product(sum.t, -sum.t);
        }
        if (!top.gather())
            return false;
        if (top.x[0] == 0)
            return true;
        const double n = (double)count, less = (double)(count - ddof);
        Near near;
        if (kMany && many) {
            near = quotient(quotient(top.x[0], top.x[1], n), less);
            if (of_mean)
                near = quotient(near, n);
        } else {
            near = quotient(top.x[0], top.x[1], (double)(count * (count - ddof) * (of_mean ? count : 1)));
        }
        return in_range(top.x[0]) && (!var || near.round(var)) && (!std || root(near).round(std));
    }
};

} // namespace rk
