// The least and the greatest element of a line with their places, zeros and NaNs: what `stats` knows beside the sums, of lines
// that threads walk along. In registers; a place is looked for when a group of elements has a new extreme.
#pragma once

#include "kernels/cuda/exact/extremes_tile.cuh"

namespace rk {

// Element: as in extremes_tile.cuh.
template <class Element> struct Places {
    using Bits = typename Element::Bits;
    using Key = typename Element::Key;

    Key least, most;
    u64 least_at, most_at, first_nan; // RP_NO_INDEX: none; within the line
    u64 zeros, nans;
    bool keep_nans; // a NaN is both extremes

    __device__ __forceinline__ void init(bool skip)
    {
        least = most = 0;
        least_at = most_at = first_nan = RP_NO_INDEX;
        zeros = nans = 0;
        keep_nans = !skip;
    }

    // Those of a group of elements that `in` has a bit for: runs of kRun neighbours, the first of which has this index; the
    // runs begin `step` apart. Groups come in ascending order.
    template <int kRun, int kGroup> __device__ __forceinline__ void add(const Bits (&x)[kGroup], u32 in, u64 index, u32 step)
    {
        Key low, high;
        extremes_of(x, in, low, high);
        u32 zero = 0;
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            zero += (in >> k & 1) && is_zero(x[k]);
        zeros += zero;
        if (!Element::kAllKeys && low <= high && (Element::nan(Element::bits(low)) || Element::nan(Element::bits(high)))) {
            const u32 numbers = in & ~nans_of(x, in);
            add_nans<kRun>(in & ~numbers, index, step);
            extremes_of(x, numbers, low, high);
        }
        if (low > high) // none
            return;
        if (low < least || least_at == RP_NO_INDEX) {
            least = low;
            least_at = index_of<kRun>(find(x, in, low), index, step);
        }
        if (high > most || most_at == RP_NO_INDEX) {
            most = high;
            most_at = index_of<kRun>(find(x, in, high), index, step);
        }
    }

    // Of element k of a group
    template <int kRun> static __device__ __forceinline__ u64 index_of(u32 k, u64 index, u32 step)
    {
        return index + (u64)(k / kRun) * step + k % kRun;
    }

    // NaNs beyond the infinities, where they are found.
    template <int kGroup>
    static __device__ __forceinline__ void extremes_of(const Bits (&x)[kGroup], u32 in, Key &low, Key &high)
    {
        constexpr Key kLast = (Key)((Bits)1 << (8 * sizeof(Bits) - 1)), kFirst = (Key)~kLast;
        low = kFirst;
        high = kLast;
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            const Key key = Element::key(x[k]), less = in >> k & 1 ? key : kFirst, more = in >> k & 1 ? key : kLast;
            low = less < low ? less : low;
            high = more > high ? more : high;
        }
    }

    static __device__ __forceinline__ bool is_zero(Bits bits)
    {
        return (Element::kAllKeys ? bits : (Bits)(bits << 1)) == 0; // of floats without the sign
    }

    // The first of a group's elements with this key.
    template <int kGroup> static __device__ __forceinline__ u32 find(const Bits (&x)[kGroup], u32 in, Key key)
    {
        u32 at = 0;
#pragma unroll
        for (int k = kGroup - 1; k >= 0; k--)
            at = (in >> k & 1) && Element::key(x[k]) == key ? k : at;
        return at;
    }

    template <int kGroup> static __device__ __forceinline__ u32 nans_of(const Bits (&x)[kGroup], u32 in)
    {
        u32 found = 0;
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            found |= Element::nan(x[k]) ? 1u << k : 0;
        return found & in;
    }

    template <int kRun> __device__ __forceinline__ void add_nans(u32 found, u64 index, u32 step)
    {
        nans += __popc(found);
        if (first_nan == RP_NO_INDEX)
            first_nan = index_of<kRun>((u32)__ffs((int)found) - 1, index, step);
    }

    // With another lane's.
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        Places other = *this;
        other.least = (Key)shuffle(mask, least, distance);
        other.most = (Key)shuffle(mask, most, distance);
        other.least_at = __shfl_xor_sync(mask, least_at, distance);
        other.most_at = __shfl_xor_sync(mask, most_at, distance);
        other.first_nan = __shfl_xor_sync(mask, first_nan, distance);
        other.zeros = __shfl_xor_sync(mask, zeros, distance);
        other.nans = __shfl_xor_sync(mask, nans, distance);
        join(other);
    }
    __device__ __forceinline__ void join(const Places &o)
    {
        if (o.least_at != RP_NO_INDEX && comes_before(o.least < least, o.least == least, o.least_at, least_at)) {
            least = o.least;
            least_at = o.least_at;
        }
        if (o.most_at != RP_NO_INDEX && comes_before(o.most > most, o.most == most, o.most_at, most_at)) {
            most = o.most;
            most_at = o.most_at;
        }
        first_nan = o.first_nan < first_nan ? o.first_nan : first_nan;
        zeros += o.zeros;
        nans += o.nans;
    }
    static __device__ __forceinline__ bool comes_before(bool better, bool equal, u64 at, u64 own_at)
    {
        return own_at == RP_NO_INDEX || better || (equal && at < own_at);
    }
    static __device__ __forceinline__ i64 shuffle(u32 mask, Key key, int distance)
    {
        if constexpr (sizeof(Key) == 8)
            return __shfl_xor_sync(mask, (i64)key, distance);
        else
            return __shfl_xor_sync(mask, (int)key, distance);
    }

    __device__ __forceinline__ bool nan_first() const { return nans && keep_nans; }
    __device__ __forceinline__ u64 place(bool greatest, u64 first_index) const
    {
        const u64 at = nan_first() ? first_nan : greatest ? most_at : least_at;
        return at == RP_NO_INDEX ? at : at + first_index;
    }
    // The element's own bits; of a NaN any.
    __device__ __forceinline__ u64 extreme(bool greatest, int dtype) const
    {
        return nan_first() ? rk_all_ones(dtype) >> 1 : Element::own(Element::bits(greatest ? most : least));
    }

    // Word j of the six that a partial of stats has beside its sums.
    __device__ __forceinline__ u64 word(const SegmentArgs &args, u32 j) const
    {
        if (j >= 4)
            return j == 4 ? zeros : nans;
        const bool greatest = j >= 2;
        const u64 at = place(greatest, args.first_index);
        if (j % 2)
            return at;
        if (at == RP_NO_INDEX)
            return 0;
        return nan_first() ? rk_all_ones(args.dtype) : rk_rank(args.dtype, !greatest, extreme(greatest, args.dtype));
    }
};

} // namespace rk
