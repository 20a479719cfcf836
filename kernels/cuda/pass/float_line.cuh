// The sums of a line of floats or of a part of it, and its value or partial: exact sums of elements, magnitudes and squares,
// and stats.
#pragma once

#include "kernels/cuda/exact/extremes_lane.cuh"
#include "kernels/cuda/exact/lane_sums.cuh"
#include "kernels/cuda/pass/lines.cuh"

namespace rk {

enum LineKind { kSum, kMoments, kStatistics };

struct NoPlaces {};

template <int kDtype, LineKind kKind, bool kNear = false> struct FloatLine;
template <int kDtype, LineKind kKind, bool kNear = false> struct FloatTypes {
    using Element = typename FloatElement<kDtype>::Type;
    using Bits = typename Element::Bits;
    static constexpr bool kWide = kDtype == RP_F64, kSquares = kKind != kSum;
    using WideSums = std::conditional_t<kNear, NearWideSums, rk::WideSums<kSquares>>;
    using Sums = std::conditional_t<kWide, WideSums, NarrowSums<kSquares>>;
    using Extras = std::conditional_t<kKind == kStatistics, Places<Element>, NoPlaces>;
};

// A team's result for its part of a line.
template <int kDtype, LineKind kKind> struct FloatLine<kDtype, kKind, false> {
    using Types = FloatTypes<kDtype, kKind>;

    LineSums<Types::Sums::kTerms> sums;
    u64 skipped;
    typename Types::Extras places;

    __device__ __forceinline__ void join(const FloatLine &o)
    {
        sums.join(o.sums);
        skipped += o.skipped;
        if constexpr (kKind == kStatistics)
            places.join(o.places);
    }

    // ---- as a partial ----

    __device__ __forceinline__ u64 word(const WordPlan &p, const SegmentArgs &args, u32 j) const
    {
        if (j == p.own + kWordCount)
            return sums.count;
        if (j == p.own + kWordFlags)
            return flags(p);
        if constexpr (kKind == kStatistics)
            if (j >= p.digits)
                return places.word(args, j - p.digits);
        if (sums.special)
            return 0;
        return j < p.sum ? digit_of_terms({sums.sum.s, sums.sum.t}, rk_e0(kDtype), j)
                         : digit_of_terms(sums.squares.x, 2 * rk_e0(kDtype), j - p.sum);
    }
    __device__ __forceinline__ u32 flags(const WordPlan &p) const
    {
        const bool lost = !sums.special && (sums.squares.lost || (sums.sum.lost && p.sum));
        const bool nz = sums.special || sums.sum.beyond_negative_zero();
        return sums.special | (nz ? (u32)kFlagNz : 0u) | (lost ? (u32)kFlagLost : 0u) | (skipped ? (u32)kFlagSkipped : 0u);
    }

    // ---- as a value ----

    // Makes cell `line`. False: it is not certain, or a fault. kMany: as in LineSums.
    template <bool kMany = false>
    __device__ __forceinline__ bool finish(const FinishArgs &a, const SegmentArgs &args, u64 line) const
    {
        if (skipped && args.nan_error)
            return false;
        if constexpr (kKind == kStatistics)
            return finish_stats(a, args, (u64 *)a.cells + line * RP_STATS_WORDS);
        double v;
        const bool exact = a.finisher == RK_FINISH_TOTAL && sums.sum.t == 0 && !sums.special; // often a tie of few elements
        return sums.template value<kMany>(a.spec, (rk_finisher)a.finisher, &v) && write_value(a, line, v, exact);
    }
    __device__ __forceinline__ bool finish_stats(const FinishArgs &a, const SegmentArgs &args, u64 *words) const
    {
        double *doubles = (double *)words;
        if (!sums.whole_sum(doubles + RP_STATS_SUM) || !sums.mean(doubles + RP_STATS_MEAN) ||
            !sums.spread(a.spec.ddof, doubles + RP_STATS_VAR, doubles + RP_STATS_STD))
            return false;
        words[RP_STATS_COUNT] = sums.count;
        words[RP_STATS_NANS] = places.nans;
        words[RP_STATS_ZEROS] = places.zeros;
        words[RP_STATS_ARGMIN] = places.place(false, args.first_index);
        words[RP_STATS_ARGMAX] = places.place(true, args.first_index);
        const u64 nan = rk_nan_bits(rk_format_of(RP_F64));
        words[RP_STATS_MIN] = sums.count ? rk_convert_float(kDtype, places.extreme(false, kDtype), RP_F64) : nan;
        words[RP_STATS_MAX] = sums.count ? rk_convert_float(kDtype, places.extreme(true, kDtype), RP_F64) : nan;
        words[RP_STATS_SUM_HIGH] = 0;
        return true;
    }
};

// The same of sums and moments as a value alone: also from sums that a few doubles hold but for a known error.
template <int kDtype, LineKind kKind> struct FloatLine<kDtype, kKind, true> {
    static_assert(kKind != kStatistics);
    using Types = FloatTypes<kDtype, kKind, true>;

    NearSum sum, squares;
    u64 count, skipped;
    u32 special;

    __device__ __forceinline__ void join(const FloatLine &o)
    {
        sum.join(o.sum);
        squares.join(o.squares);
        count += o.count;
        skipped += o.skipped;
        special |= o.special;
    }
    // Makes cell `line`. False: it is not certain, or a fault.
    __device__ __forceinline__ bool finish(const FinishArgs &a, const SegmentArgs &args, u64 line) const
    {
        if (skipped && args.nan_error)
            return false;
        double v;
        const bool certain = special || (sum.error == 0 && squares.error == 0)
                                 ? LineSums<2>{sum.pair(), {{squares.s, squares.t}, false}, count, special}
                                       .template value<true>(a.spec, (rk_finisher)a.finisher, &v)
                                 : value_near(a.spec.op, a.spec.ddof, (rk_finisher)a.finisher, count, sum, squares, &v);
        const bool exact = a.finisher == RK_FINISH_TOTAL && sum.t == 0 && sum.error == 0 && !special;
        return certain && write_value(a, line, v, exact);
    }
};

// Writes the line's value if the walker's sums decide it; else lists the line.
template <class Line>
__device__ __forceinline__ void finish_or_list(const Line &l, const FinishArgs &a, const SegmentArgs &g, u64 line, u64 *list)
{
    if (!l.finish(a, g, line))
        list[1 + atomicAdd(list, 1ull)] = line;
}

} // namespace rk
