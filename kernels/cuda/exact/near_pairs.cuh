// Sums of products of floats, and of their weights, in a few doubles with a bound on what these do not hold.
//
// A product is p + q, p being it rounded: of f32 and less p alone. What an underflow of q rounds off is at most 2^-1075.
// Infinities and NaNs leave nothing certain.
#pragma once

#include "kernels/cuda/exact/near_moments.cuh"
#include "kernels/cuda/exact/pair_values.cuh"

namespace rk {

// kWide: a product may need two doubles. kMean: weights are summed, too. kChoose: pairs may be left out.
template <bool kWide, bool kMean, bool kChoose> struct NearPairs {
    static constexpr int kBlocksPerSm = kChoose ? 2 : 3;
    using All = NearSums;

    Enclosed products, weights;
    u32 skipped; // not 0: NaNs were left out
    bool skip, drops;

    __device__ __forceinline__ void clear(bool skip_nans, bool zero_drops)
    {
        products.clear();
        weights.clear();
        skipped = 0;
        skip = skip_nans;
        drops = zero_drops;
    }
    __device__ __forceinline__ void begin(const SegmentArgs &args) { clear(args.skip, args.drops); }
    template <int kCount> __device__ __forceinline__ void choose(double (&x)[kCount], double (&w)[kCount], u32 in)
    {
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            const bool out = !(in >> k & 1) || (drops && w[k] == 0), nan = !out && skip && (x[k] != x[k] || w[k] != w[k]);
            skipped |= nan;
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
    // kWeights: also what is of the weights alone
    template <bool kWeights = true, int kCount>
    __device__ __forceinline__ void add_all(const double (&x)[kCount], const double (&w)[kCount])
    {
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            const double p = __dmul_rn(x[k], w[k]);
            products.add(p);
            if (kWide) {
                const double q = __fma_rn(x[k], w[k], -p);
                products.rest.join({q, q});
            }
            if (kMean && kWeights)
                weights.add(w[k]);
        }
    }
    __device__ __forceinline__ void take_weights(const NearPairs &o) { weights = o.weights; }
    __device__ __forceinline__ NearSums sums() const { return {weights, products}; }

    // What follows from the sums of n pairs or fewer. False: it is not certain.
    static __device__ __forceinline__ bool value(const NearSums &all, u64 n, const rp_spec &spec, u64 *bits)
    {
        NearSum p = all.squares.sum();
        if (kWide)
            p.error = __dadd_ru(p.error, 0x1p-1074 * (double)n);
        return pair_value(kMean, p, all.sum.sum(), spec.out, bits);
    }
};

} // namespace rk
