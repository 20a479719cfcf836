// Covariances and correlations from sums in a few doubles, with a bound on what these do not hold: the sums of two operands x
// and w, of their products and, for correlations, of their squares.
//
// A product is p + q, p being it rounded: of f32 and less p alone. What an underflow of q rounds off is at most 2^-1075.
// Infinities and NaNs leave nothing certain.
#pragma once

#include "kernels/cuda/exact/near_moments.cuh"
#include "kernels/cuda/exact/pair_values.cuh"

namespace rk {

// The sums of kNumbers numbers, as RK_CO_* has them, and how many pairs were left out.
template <int kNumbers> struct NearNumbers {
    Enclosed of[kNumbers];
    u64 left_out;

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int k = 0; k < kNumbers; k++)
            of[k].clear();
        left_out = 0;
    }
    __device__ __forceinline__ void join(const NearNumbers &o)
    {
#pragma unroll
        for (int k = 0; k < kNumbers; k++)
            of[k].join(o.of[k]);
        left_out += o.left_out;
    }
    __device__ __forceinline__ void join_lanes(int lanes)
    {
#pragma unroll 1
        for (int d = lanes / 2; d; d >>= 1) {
            NearNumbers other;
#pragma unroll
            for (int k = 0; k < kNumbers; k++)
                other.of[k] = of[k].of_lane(d);
            other.left_out = __shfl_xor_sync(kFullMask, left_out, d);
            join(other);
        }
    }
};

// n Q - A B. Each is a double and a second one, of at most 2^-53 of it: q, a, b. Let m be |n q| + |a b|. What the rounding of
// n q, of a b and of their difference takes off is known: at most 2^-53 m each. So is n times the second term of q.
// The products with the second terms of a and b are at most 2^-51 m. Adding all of these rounds off at most 2^-102 m. Without
// second terms and errors a difference of 0 is exact.
__device__ __forceinline__ NearSum cross_of(double n, const NearSum &products, const NearSum &x, const NearSum &w)
{
    const NearSum a = x.gathered(), b = w.gathered(), q = products.gathered();
    const double p = __dmul_rn(n, q.s), s = __dmul_rn(a.s, b.s);
    const double cross = __fma_rn(a.s, b.t, __fma_rn(a.t, b.s, __dmul_rn(a.t, b.t)));
    NearSum all;
    double d;
    const double of_p = __fma_rn(n, q.s, -p), of_s = __fma_rn(a.s, b.s, -s);
    const double e = two_sum(p, -s, d), rest = __dsub_rn(of_p, of_s);
    all.t = two_sum(d, __dsub_rn(__fma_rn(n, q.t, __dadd_rn(rest, e)), cross), all.s);
    const double of_sums = __fma_rn(fabs(a.s), b.error, __fma_rn(fabs(b.s), a.error, __dmul_rn(a.error, b.error)));
    const bool in = (q.s == 0 || in_range(p)) && (a.s == 0 || b.s == 0 || in_range(s));
    all.error = __fma_rn(1.25, __fma_rn(n, q.error, of_sums), 0x1p-100 * __dadd_rn(fabs(p), fabs(s)));
    all.error = in && (all.s == 0 || in_range(all.s)) ? all.error : (double)INFINITY;
    if (in && p == s && of_p == of_s && fabs(a.t) + fabs(b.t) + fabs(q.t) + a.error + b.error + q.error == 0)
        all.s = all.t = all.error = 0;
    return all;
}

// The root of n Q - S^2, if little of it is in doubt: else nothing is certain, because its error is that of a slope.
__device__ __forceinline__ NearSum root_of_spread(double n, const NearSum &sum, const NearSum &squares)
{
    const Within x = spread_of(n, sum, squares), r = x.root();
    return {r.high, r.low, x.high > 0 && x.error <= 0x1p-30 * x.high ? 1.25 * r.error : (double)INFINITY};
}

// u v, neither negative. Both are within their errors, and their second terms are at most 2^-50 of their first ones: what is
// rounded off, and the product of the second terms, are at most 2^-99 of it.
__device__ __forceinline__ NearSum product_of(const NearSum &u, const NearSum &v)
{
    const double p = __dmul_rn(u.s, v.s), e = __fma_rn(u.s, v.s, -p);
    NearSum all;
    all.t = two_sum(p, __fma_rn(u.s, v.t, __fma_rn(u.t, v.s, e)), all.s);
    const double errors = __fma_rn(u.s, v.error, __fma_rn(v.s, u.error, __dmul_rn(u.error, v.error)));
    all.error = in_range(p) ? __fma_rn(1.25, errors, 0x1p-98 * p) : (double)INFINITY;
    return all;
}

// The value that follows from the sums of `count` pairs. False: it is not certain. Out of line: once a line.
template <bool kSquares>
static __device__ __noinline__ bool comoments_value(const NearSum *of, u64 count, u32 ddof, int out, u64 *bits)
{
    const double n = (double)count;
    if (count <= ddof) {
        *bits = rk_nan_bits(rk_format_of(out));
        return true;
    }
    if (count >= 1ull << 53)
        return false;
    const NearSum top = cross_of(n, of[RK_CO_XW], of[RK_CO_X], of[RK_CO_W]);
    NearSum by;
    if (kSquares) {
        by = product_of(root_of_spread(n, of[RK_CO_X], of[RK_CO_XX]), root_of_spread(n, of[RK_CO_W], of[RK_CO_WW]));
    } else {
        const double less = (double)(count - ddof);
        by.s = __dmul_rn(n, less);
        by.t = __fma_rn(n, less, -by.s);
        by.error = 0;
    }
    return mean_within(top, by, out, bits);
}

// kWide: a product may need two doubles. kSquares: squares are summed, too. kChoose: pairs may be left out.
template <bool kWide, bool kSquares, bool kChoose> struct NearComoments {
    static constexpr int kBlocksPerSm = kWide && !kChoose && !kSquares ? 3 : 2, kNumbers = kSquares ? RK_CO_NUMBERS : RK_CO_XX;
    using All = NearNumbers<kNumbers>;

    All numbers;
    u32 skipped; // not 0: NaNs were left out
    bool skip, drops;

    __device__ __forceinline__ void clear(bool skip_nans, bool)
    {
        numbers.clear();
        skipped = 0;
        skip = skip_nans;
    }
    __device__ __forceinline__ void begin(const SegmentArgs &args) { clear(args.skip, false); }
    template <int kCount> __device__ __forceinline__ void choose(double (&x)[kCount], double (&w)[kCount], u32 in)
    {
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            const bool out = !(in >> k & 1), nan = !out && skip && (x[k] != x[k] || w[k] != w[k]);
            skipped |= nan;
            numbers.left_out += out || nan;
            x[k] = out || nan ? 0 : x[k];
            w[k] = out || nan ? 0 : w[k];
        }
    }
    template <int kCount> __device__ __forceinline__ void add(double (&x)[kCount], double (&w)[kCount], u32 in)
    {
        if (kChoose)
            choose(x, w, in);
        add_all(x, w);
    }
    // Some elements of f32 and less mostly have a sum that is a double.
    template <int kCount> static __device__ __forceinline__ void add_some(Enclosed &sum, const double (&v)[kCount])
    {
        if (!kWide && kCount > 1) {
            Between some = {v[0], v[0]};
#pragma unroll
            for (int k = 1; k < kCount; k++)
                some.join({v[k], v[k]});
            if (some.low == some.high) {
                sum.add(some.high);
                return;
            }
        }
#pragma unroll
        for (int k = 0; k < kCount; k++)
            sum.add(v[k]);
    }
    static __device__ __forceinline__ void add_product(Enclosed &sum, double x, double w)
    {
        const double p = __dmul_rn(x, w);
        sum.add(p);
        if (kWide) {
            const double q = __fma_rn(x, w, -p);
            sum.rest.join({q, q});
        }
    }
    // kWeights: also what is of the second operand alone
    template <bool kWeights = true, int kCount>
    __device__ __forceinline__ void add_all(const double (&x)[kCount], const double (&w)[kCount])
    {
        add_some(numbers.of[RK_CO_X], x);
        if (kWeights)
            add_some(numbers.of[RK_CO_W], w);
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            add_product(numbers.of[RK_CO_XW], x[k], w[k]);
            if constexpr (kSquares) {
                add_product(numbers.of[RK_CO_XX], x[k], x[k]);
                if (kWeights)
                    add_product(numbers.of[RK_CO_WW], w[k], w[k]);
            }
        }
    }
    __device__ __forceinline__ void take_weights(const NearComoments &o)
    {
        numbers.of[RK_CO_W] = o.numbers.of[RK_CO_W];
        if constexpr (kSquares)
            numbers.of[RK_CO_WW] = o.numbers.of[RK_CO_WW];
    }
    __device__ __forceinline__ All sums() const { return numbers; }

    // What follows from the sums of n pairs, those left out among them. False: it is not certain.
    static __device__ __forceinline__ bool value(const All &all, u64 n, const rp_spec &spec, u64 *bits)
    {
        NearSum of[kNumbers];
        for (int k = 0; k < kNumbers; k++) {
            of[k] = all.of[k].sum();
            if (kWide && k != RK_CO_X && k != RK_CO_W)
                of[k].error = __dadd_ru(of[k].error, 0x1p-1074 * (double)n);
        }
        return comoments_value<kSquares>(of, n - all.left_out, spec.ddof, spec.out, bits);
    }
};

} // namespace rk
