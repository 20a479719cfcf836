// Walking along floats that are multiplied, in two doubles (kernels/exact/product_pair.h): a Walker of walk_near.cuh and
// walk_columns.cuh. Elements of two bytes come as f32, which hold their subnormals as normal numbers.
#pragma once

#include "kernels/cuda/exact/product_part.cuh"
#include "kernels/cuda/pass/float_walk.cuh"

namespace rk {

// A line's product, or that of a part of it.
struct ProductLine {
    ProductPart part;
    u64 count; // without NaNs that are left out

    __device__ __forceinline__ void join(const ProductLine &o)
    {
        part.join(o.part);
        count += o.count;
    }
    // Makes cell `line`. False: it is not certain, or a fault.
    __device__ __forceinline__ bool finish(const FinishArgs &a, const SegmentArgs &args, u64 line) const
    {
        u64 bits;
        if ((part.skipped && args.nan_error) || !part.value(a, count, &bits))
            return false;
        write_bits(a.cell_bytes, a.cells, line, bits);
        return true;
    }
};

template <int kDtype> struct ProductWalk {
    using Element = typename FloatElement<kDtype>::Type;
    using Bits = typename Element::Bits;
    using Line = ProductLine;
    static constexpr bool kValueAlone = true;
    static constexpr int kBlocksPerSm = 6;
    static constexpr int kBytes = Float<kDtype>::kBytes;
    static constexpr bool kWide = kDtype == RP_F64;
    using Elements = ProductElements<kWide ? RP_F64 : RP_F32>; // as they come
    static constexpr Bits kNothing = Elements::kOne;
    static constexpr u32 kSteps = kWide ? kGroup : kGroup / 2; // of a group
    static constexpr int kAbove = kWide ? 32 : 0;              // the lowest bit of an element's upper word

    double high, low; // normalised but for `steps` steps
    i64 exponent;
    u64 count;
    u32 special, skipped, sign, steps;
    bool skip;

    __device__ __forceinline__ void init(const WordPlan &, bool skip_nans)
    {
        high = 1;
        low = 0;
        exponent = 0;
        count = 0;
        special = skipped = sign = steps = 0;
        skip = skip_nans;
    }

    // As FloatWalk's; 1 stands in place of elements that are not there.
    template <int kRun> __device__ __forceinline__ void add(Bits (&x)[kGroup], u32 in, u64, u32, const Lanes &)
    {
        count += __popc(in);
        if (any_odd(x)) {
            if (only_zeros(x))
                special |= RK_ZERO; // what is multiplied for them does not matter
            else
                take_odd_out(x);
        }
        multiply(x);
        steps += kSteps;
        if (steps + kSteps > RK_PAIR_STEPS)
            normalise();
    }

    __device__ __forceinline__ void join(u32 lanes)
    {
        normalise();
        ProductPart all = part();
        for (u32 d = lanes / 2; d; d /= 2) {
            all.join_lane(kFullMask, (int)d);
            count += __shfl_xor_sync(kFullMask, count, d);
        }
        high = all.pair.high;
        low = all.pair.low;
        exponent = all.pair.exponent;
        special = all.special;
        skipped = all.skipped;
        sign = all.sign;
    }
    __device__ __forceinline__ Line line() const { return {part(), count}; }

  private:
    __device__ __forceinline__ ProductPart part() const { return {{high, low, exponent}, special, skipped, sign & 1u << 31}; }

    __device__ __forceinline__ void normalise()
    {
        exponent += rk_pair_normalise(&high, &low);
        steps = 0;
    }

    static __device__ __forceinline__ u32 upper(Bits x) { return (u32)(x >> kAbove); }

    // Is one of them no normal number?
    static __device__ __forceinline__ bool any_odd(const Bits (&x)[kGroup])
    {
        u32 most = 0, least = ~0u; // twice the magnitudes; of f64 their upper halves
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            most = max(most, 2 * upper(x[k]));
            least = min(least, 2 * upper(x[k]));
        }
        return most >= 2 * upper(Elements::kInf) || least < 2 * upper(Elements::kHidden);
    }

    // Are all others normal?
    static __device__ __forceinline__ bool only_zeros(const Bits (&x)[kGroup])
    {
        bool odd = false;
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            const Bits magnitude = x[k] & (Bits)(Elements::kSign - 1);
            odd |= magnitude >= Elements::kInf || (Bits)(magnitude - 1) < (Bits)(Elements::kHidden - 1);
        }
        return !odd;
    }

    // Notes zeros, infinities and NaNs, multiplies by subnormals, and puts 1 or -1 in their places. Out of line, and by value:
    // a walker whose address is taken would not stay in registers.
    struct Odd;
    static __device__ __noinline__ Odd without_odd(Odd o)
    {
        for (int k = 0; k < kGroup; k++) {
            const Bits magnitude = o.x[k] & (Bits)(Elements::kSign - 1);
            if ((Bits)(magnitude - Elements::kHidden) < (Bits)(Elements::kInf - Elements::kHidden))
                continue;
            o.walk.take_odd(magnitude);
            o.x[k] = magnitude > Elements::kInf ? Elements::kOne : Elements::kOne | (o.x[k] & Elements::kSign);
        }
        return o;
    }
    __device__ __forceinline__ void take_odd(Bits magnitude)
    {
        if (magnitude > Elements::kInf) {
            skipped |= skip;
            count -= skip;
            special |= skip ? 0 : RK_NAN;
        } else if (magnitude == Elements::kInf || magnitude == 0) {
            special |= magnitude ? RK_INF : RK_ZERO;
        } else {
            int above;
            normalise();
            rk_pair_times(&high, &low, rk_pair_factor(rk_format_of(kWide ? RP_F64 : RP_F32), magnitude, &above));
            exponent += above;
            normalise();
        }
    }

    __device__ __forceinline__ void take_odd_out(Bits (&x)[kGroup])
    {
        Odd o;
        o.walk = *this;
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            o.x[k] = x[k];
        o = without_odd(o);
        *this = o.walk;
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            x[k] = o.x[k];
    }

    // Normal numbers
    __device__ __forceinline__ void multiply(const Bits (&x)[kGroup])
    {
        int fields = 0;
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            fields += (int)(2 * upper(x[k]) >> (kWide ? 21 : 24));
            sign ^= upper(x[k]);
        }
        exponent += fields - kGroup * Elements::kBias;
#pragma unroll
        for (int k = 0; k < kGroup; k += kWide ? 1 : 2)
            rk_pair_times(&high, &low, factor(x, k));
    }
    // Significand k; of f32 the product of two
    static __device__ __forceinline__ double factor(const Bits (&x)[kGroup], int k)
    {
        if constexpr (kWide)
            return __longlong_as_double((i64)((x[k] & (Elements::kHidden - 1)) | Elements::kOne));
        else
            return Elements::template scaled<2 * Elements::kFraction>((u64)significand(x[k]) * significand(x[k + 1]));
    }
    static __device__ __forceinline__ u32 significand(Bits x)
    {
        return ((u32)x & (u32)(Elements::kHidden - 1)) | (u32)Elements::kHidden;
    }
};

template <int kDtype> struct ProductWalk<kDtype>::Odd {
    ProductWalk walk;
    Bits x[kGroup];
};

} // namespace rk
