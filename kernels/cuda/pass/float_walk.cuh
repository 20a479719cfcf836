// Walking along floats: exact sums, also of magnitudes and of squares, and stats, in registers (lane_sums.cuh). Where a few
// doubles cannot hold the sums, the line is marked (kFlagLost) or listed, and another kernel does it in the general way.
//
// Short rows are read element by element, long rows by vectors. The threads of a block that share a column read it together.
// Elements that are masked out or beyond the line's end count as -0.0.
#pragma once

#include "kernels/cuda/pass/float_line.cuh"

namespace rk {

constexpr u32 kAllIn = (1u << kGroup) - 1;

// What a thread accumulates of a line.
template <int kDtype, LineKind kKind, bool kNear = false> struct FloatWalk : FloatTypes<kDtype, kKind, kNear> {
    using Types = FloatTypes<kDtype, kKind, kNear>;
    using Line = FloatLine<kDtype, kKind, kNear>;
    using typename Types::Bits;
    using typename Types::Element;
    using Types::kWide;
    static constexpr bool kValueAlone = kNear; // w.values
    static constexpr int kBlocksPerSm = 1;
    static constexpr int kBytes = Float<kDtype>::kBytes;
    static constexpr Bits kSign = (Bits)1 << (8 * sizeof(Bits) - 1), kNothing = kSign; // -0.0 adds nothing

    typename Types::Sums sums;
    typename Types::Extras places;
    u64 count, skipped;
    u32 special;
    Bits keep; // of an element: all, or its magnitude
    bool skip, one_infinity;

    __device__ __forceinline__ void init(const WordPlan &p, bool skip_nans)
    {
        sums.init();
        if constexpr (kKind == kStatistics)
            places.init(skip_nans);
        count = skipped = 0;
        special = 0;
        const bool magnitudes = kKind == kSum && rk_is_abs(p.layout);
        keep = magnitudes ? (Bits)~kSign : (Bits) ~(Bits)0;
        skip = skip_nans;
        one_infinity = magnitudes || p.sum == 0;
    }

    // A group of the line: elements that `in` has a bit for, -0.0 in place of the others. They are runs of kRun neighbours,
    // the first of which has this index; the runs begin `step` apart. Whole warp.
    template <int kRun> __device__ __forceinline__ void add(Bits (&x)[kGroup], u32 in, u64 index, u32 step, const Lanes &lanes)
    {
        if constexpr (kKind == kStatistics)
            places.template add<kRun>(x, in, index, step);
        if (kKind == kSum) {
#pragma unroll
            for (int k = 0; k < kGroup; k++)
                x[k] &= keep;
        }
        count += __popc(in);
        if constexpr (kWide) {
            if (skip)
                leave_nans_out(x);
            sums.add(x);
        } else {
            Magnitudes m = magnitudes_of(x);
            if (__any_sync(kFullMask, m.most >= kInfinite)) {
                if (skip)
                    leave_nans_out(x);
                note_specials(x);
                m = magnitudes_of(x);
            }
            sums.add(x, m, lanes);
        }
    }

    static __device__ __forceinline__ Magnitudes magnitudes_of(const u32 (&x)[kGroup])
    {
        Magnitudes m;
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            m.note(x[k]);
        return m;
    }

    __device__ __forceinline__ void leave_nans_out(Bits (&x)[kGroup])
    {
        u32 found = 0;
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            const bool nan = Element::nan(x[k]);
            found += nan;
            x[k] = nan ? kSign : x[k];
        }
        skipped += found;
        count -= found;
    }

    // Infinities and NaNs to `special`.
    __device__ __forceinline__ void note_specials(Bits (&x)[kGroup])
    {
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            const bool negative = (x[k] & kSign) != 0 && !one_infinity;
            const bool finite = (x[k] & ~kSign) < kInfinite;
            special |= finite ? 0u : Element::nan(x[k]) ? RK_NAN : negative ? RK_NINF : RK_PINF;
            x[k] = finite ? x[k] : kSign;
        }
    }

    // What the line's lanes have, for each of them. Whole warp.
    __device__ __forceinline__ void join(u32 lanes)
    {
        sums.join(lanes);
        for (u32 d = lanes / 2; d; d /= 2) {
            if constexpr (kKind == kStatistics)
                places.join_lane(kFullMask, (int)d);
            count += __shfl_xor_sync(kFullMask, count, d);
        }
        if (!__any_sync(kFullMask, special || skipped))
            return;
        for (u32 d = lanes / 2; d; d /= 2) {
            special |= __shfl_xor_sync(kFullMask, special, d);
            skipped += __shfl_xor_sync(kFullMask, skipped, d);
        }
    }
    __device__ __forceinline__ Line line() const
    {
        if constexpr (kNear)
            return {sums.sum, sums.squares, count, skipped, special};
        else
            return {{sums.exact_sum(), sums.exact_squares(), count, special}, skipped, places};
    }
};

// Element k of a vector
template <class Walker> __device__ __forceinline__ typename Walker::Bits element(uint4 v, int k)
{
    const u32 w[4] = {v.x, v.y, v.z, v.w};
    if constexpr (Walker::kBytes == 8)
        return (u64)w[2 * k + 1] << 32 | w[2 * k];
    else
        return Walker::Element::get(w[k / Walker::Element::kPerWord], k % Walker::Element::kPerWord);
}

// Before a line is walked. Walkers of pairs have one of their own.
template <class Walker> __device__ __forceinline__ void open_line(Walker &, const rp_spec &, const rp_parts &, const rk_line &)
{
}

// Adds elements from, from + step, ... of the line that are not masked out. Whole warp; a line may be empty.
template <class Walker> __device__ __forceinline__ void walk_groups(Walker &x, const rp_parts &parts, const rk_line &line,
                                                                    u64 from, u32 step, const Lanes &lanes)
{
    using Element = typename Walker::Element;
    const u64 bytes = Walker::kBytes, jump = step * line.stride, many = (u64)kGroup * step;
    u64 at = line.first + from * line.stride;
    for (u64 i = from; __any_sync(kFullMask, i < line.n); i += many, at += kGroup * jump) {
        const uint8_t *p = parts.elements + at * bytes;
        typename Walker::Bits bits[kGroup];
        u32 in = kAllIn;
        if (__all_sync(kFullMask, i + (many - step) < line.n) && !parts.mask) {
#pragma unroll
            for (int k = 0; k < kGroup; k++)
                bits[k] = Element::load(p + k * jump * bytes);
        } else {
            u32 left = 0;
            for (u64 k = i; k < line.n && left < kGroup; k += step)
                left++;
            in = (1u << left) - 1;
            bool out[kGroup];
#pragma unroll
            for (int k = 0; k < kGroup; k++) {
                bits[k] = k < (int)left ? Element::load(p + k * jump * bytes) : Walker::kNothing;
                out[k] = parts.mask && k < (int)left && !parts.mask[at + k * jump];
            }
#pragma unroll
            for (int k = 0; k < kGroup; k++) {
                in &= ~(out[k] ? 1u << k : 0);
                bits[k] = out[k] ? Walker::kNothing : bits[k];
            }
        }
        x.template add<1>(bits, in, i, step, lanes);
    }
}

// Rows and segments, whose elements are neighbours: the same by vectors of 16 bytes, every `step`-th from vector `from` on.
template <class Walker> struct VectorWalk {
    using Element = typename Walker::Element;
    using Bits = typename Walker::Bits;
    using Mask = typename Width<16 / Walker::kBytes>::Bits;   // of a vector's elements: a byte each
    static constexpr int kPer = 16 / Walker::kBytes;          // elements of a vector
    static constexpr int kVectors = kGroup / kPer, kTile = 8; // vectors of a group; and in flight

    const uint8_t *elements, *mask; // of the line; mask may be NULL
    u64 n, lead;                    // elements; and bytes before them in the first vector, in elements
    u32 step;
    Lanes lanes;

    __device__ __forceinline__ VectorWalk(const rp_parts &parts, const rk_line &line, u32 walkers, const Lanes &team)
        : elements(parts.elements + line.first * Walker::kBytes), mask(parts.mask ? parts.mask + line.first : NULL), n(line.n),
          lead(((uintptr_t)elements & 15) / Walker::kBytes), step(walkers), lanes(team)
    {
    }

    __device__ __forceinline__ void add_all(Walker &x, u64 from) const
    {
        const u64 end = n ? (lead + n + kPer - 1) / kPer : 0;
        u64 v = from;
        if (__any_sync(kFullMask, lead != 0)) {
            add_group(x, v);
            v += (u64)kVectors * step;
        }
        for (; __all_sync(kFullMask, whole(v)); v += (u64)kTile * step)
            add_tile(x, v);
        for (; __any_sync(kFullMask, v < end); v += (u64)kVectors * step)
            add_group(x, v);
    }

    // Index of the first element of vector v; before the line's first one it wraps.
    __device__ __forceinline__ u64 index_of(u64 v) const { return v * kPer - lead; }
    __device__ __forceinline__ const uint8_t *address_of(u64 index) const { return elements + index * Walker::kBytes; }

    // Is a tile from vector v on in the line, and has it a mask that can be read like it?
    __device__ __forceinline__ bool whole(u64 v) const
    {
        const u64 last = v + (u64)(kTile - 1) * step;
        return (v > 0 || lead == 0) && (last + 1) * kPer <= lead + n && ((uintptr_t)(mask + index_of(v)) % kPer == 0 || !mask);
    }

    __device__ __forceinline__ void add_tile(Walker &x, u64 v) const
    {
        uint4 data[kTile];
        Mask in[kTile];
#pragma unroll
        for (int u = 0; u < kTile; u++) {
            data[u] = load_vector((const uint4 *)address_of(index_of(v + (u64)u * step)));
            in[u] = mask ? *(const Mask *)(mask + index_of(v + (u64)u * step)) : (Mask) ~(Mask)0;
        }
#pragma unroll
        for (int u = 0; u < kTile; u += kVectors) {
            Bits bits[kGroup];
            u32 left = kAllIn;
#pragma unroll
            for (int k = 0; k < kGroup; k++)
                bits[k] = element<Walker>(data[u + k / kPer], k % kPer);
            if (mask)
                left = take_masked_out(bits, in + u);
            x.template add<kPer>(bits, left, index_of(v + (u64)u * step), step * kPer, lanes);
        }
    }

    static __device__ __forceinline__ u32 take_masked_out(Bits (&bits)[kGroup], const Mask *in)
    {
        u32 left = 0;
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            const bool is = (in[k / kPer] >> (8 * (k % kPer)) & 255) != 0;
            bits[k] = is ? bits[k] : Walker::kNothing;
            left |= is ? 1u << k : 0;
        }
        return left;
    }

    // A group that may not be whole.
    __device__ __forceinline__ void add_group(Walker &x, u64 v) const
    {
        Bits bits[kGroup];
        u32 in = 0;
#pragma unroll
        for (int u = 0; u < kVectors; u++) {
            const u64 first = index_of(v + (u64)u * step);
            if (first < n && n - first >= kPer) { // nor wrapped
                const uint4 data = load_vector((const uint4 *)address_of(first));
#pragma unroll
                for (int k = 0; k < kPer; k++)
                    bits[u * kPer + k] = element<Walker>(data, k);
                in |= ((1u << kPer) - 1) << u * kPer;
            } else {
#pragma unroll
                for (int k = 0; k < kPer; k++) {
                    const bool is = first + k < n;
                    bits[u * kPer + k] = is ? Element::load(address_of(first + k)) : Walker::kNothing;
                    in |= is ? 1u << (u * kPer + k) : 0;
                }
            }
        }
        if (mask) {
#pragma unroll
            for (int k = 0; k < kGroup; k++) {
                const u64 index = index_of(v + (u64)(k / kPer) * step) + k % kPer;
                const bool out = (in >> k & 1) && !mask[index];
                bits[k] = out ? Walker::kNothing : bits[k];
                in &= ~(out ? 1u << k : 0);
            }
        }
        x.template add<kPer>(bits, in, index_of(v), step * kPer, lanes);
    }
};

} // namespace rk
