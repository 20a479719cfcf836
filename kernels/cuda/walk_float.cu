// Walking along floats: exact sums, of magnitudes too, sums of squares, and stats, in registers. Where a few doubles do not
// hold the sums, kFlagLost or the list of such lines asks for the general way.
//
// A warp goes in step: elements are taken in groups of kWalkLoads for each lane, and in place of those that are masked out or
// beyond the line's end come -0.0, which add nothing. So the usual way of a group has no branch for an element.
#include "kernels/cuda/certain.cuh"
#include "kernels/cuda/places.cuh"
#include "kernels/cuda/walk.cuh"
#include "kernels/cuda/window.cuh"

namespace rk {
namespace {

enum Kind { kSum, kMoments, kStatistics };

constexpr int kGroup = kWalkLoads;
constexpr u32 kAllIn = (1u << kGroup) - 1;

// The neighbouring lanes of a warp that have one line, the calling one among them.
struct Lanes {
    u32 count, mask;
};

// The elements of a line as the bits of f32: most in a window (window.cuh), the others and what leaves the window in doubles.
template <bool kSquares> struct NarrowSums {
    static constexpr int kTerms = 2;

    Window window;
    Pair sum;
    Terms<kTerms> squares;
    bool apart; // something is in the doubles

    __device__ __forceinline__ void init()
    {
        window.open(1);
        sum = {-0.0, -0.0, false};
        squares.clear();
        apart = false;
    }

    // Finite elements. Whole warp; so many neighbouring lanes have one line, and one place for their windows.
    __device__ __forceinline__ void add(u32 (&x)[kGroup], const Magnitudes &m, const Lanes &lanes)
    {
        follow(m.most, lanes);
        if (!window.holds(m))
            add_small(x);
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            window.add<kSquares>(x[k]);
        window.count += kGroup;
    }

    // The window follows the largest elements of the line's lanes.
    __device__ __forceinline__ void follow(u32 most, const Lanes &lanes)
    {
        const u32 top = most >> 23;
        const u32 low = __ballot_sync(kFullMask, window.too_low(top) || window.count == Window::kFull);
        const u32 right = __ballot_sync(kFullMask, !window.too_high(top));
        const bool shift = (low & lanes.mask) || !(right & lanes.mask);
        if (!__any_sync(kFullMask, shift))
            return;
        for (u32 d = lanes.count / 2; d; d /= 2)
            most = max(most, __shfl_xor_sync(kFullMask, most, d));
        if (!shift || (most == 0 && window.count < Window::kFull)) // zeros fit anywhere
            return;
        empty_window();
        window.open_for(most >> 23);
    }

    __device__ __forceinline__ void empty_window()
    {
        if (window.count == 0)
            return;
        sum.add(window.sum);
        if (kSquares) {
            squares.add(window.lower);
            squares.add(window.upper_squares());
        }
        apart = true;
    }

    // Those below the window are added, and replaced by zeros. Not unrolled: it is not done often.
    __device__ __forceinline__ void add_small(u32 (&x)[kGroup])
    {
        const u32 least = window.first << 23;
#pragma unroll 1
        for (int i = 0; i < kGroup; i++) {
            u32 bits = x[0];
#pragma unroll
            for (int k = 1; k < kGroup; k++)
                bits = k == i ? x[k] : bits;
            const double v = (double)__uint_as_float(bits);
            if (v == 0 || (bits & 0x7fffffffu) >= least)
                continue;
            sum.add(v);
            if (kSquares)
                squares.add(__dmul_rn(v, v));
            apart = true;
        }
#pragma unroll
        for (int k = 0; k < kGroup; k++)
            x[k] = (x[k] & 0x7fffffffu) < least ? 0x80000000u : x[k];
    }

    // The sums of all the line's lanes to `sum` and `squares`. Whole warp.
    __device__ __forceinline__ void join(u32 lanes)
    {
        if (!__all_sync(kFullMask, !apart && window.count * lanes <= Window::kFull)) {
            empty_window();
            for (u32 d = lanes / 2; d; d /= 2) {
                join_pair(d);
                if (kSquares)
                    squares.join_lane(kFullMask, (int)d);
            }
            return;
        }
        double total = window.sum, upper = window.upper_squares(), lower = window.lower; // no addition of these rounds
        for (u32 d = lanes / 2; d; d /= 2) {
            total = __dadd_rn(total, __shfl_xor_sync(kFullMask, total, d));
            if (kSquares) {
                upper = __dadd_rn(upper, __shfl_xor_sync(kFullMask, upper, d));
                lower = __dadd_rn(lower, __shfl_xor_sync(kFullMask, lower, d));
            }
        }
        sum.s = total;
        if (kSquares)
            squares.x[1] = two_sum(upper, lower, squares.x[0]);
    }
    __device__ __forceinline__ void join_pair(u32 distance)
    {
        sum.join_lane(kFullMask, (int)distance);
        sum.lost |= __shfl_xor_sync(kFullMask, (int)sum.lost, (int)distance) != 0;
    }
};

// A double x times itself, exactly high + low. False if that is not so: near underflow, or for infinities and NaNs.
__device__ __forceinline__ bool square_of(double x, double *high, double *low)
{
    *high = __dmul_rn(x, x);
    *low = __fma_rn(x, x, -*high);
    return x == 0 || (*high > 0x1p-900 && *high < INFINITY);
}

// f64: a square is two doubles, and the sum of many takes three.
template <bool kSquares> struct WideSums {
    static constexpr int kTerms = 3;

    Pair sum;
    Terms<kTerms> squares;

    __device__ __forceinline__ void init()
    {
        sum = {-0.0, -0.0, false};
        squares.clear();
    }
    __device__ __forceinline__ void add(const u64 (&bits)[kGroup])
    {
#pragma unroll
        for (int k = 0; k < kGroup; k++) {
            const double x = __longlong_as_double((i64)bits[k]);
            double high, low;
            sum.add(x);
            if (!kSquares)
                continue;
            squares.lost |= !square_of(x, &high, &low);
            squares.add(low);
            squares.add(high);
        }
    }
    __device__ __forceinline__ void join(u32 lanes)
    {
        for (u32 d = lanes / 2; d; d /= 2) {
            sum.join_lane(kFullMask, (int)d);
            sum.lost |= __shfl_xor_sync(kFullMask, (int)sum.lost, d) != 0;
            if (kSquares)
                squares.join_lane(kFullMask, (int)d);
        }
    }
};

template <int kDtype, Kind kKind> struct FloatWalk {
    using Element = typename FloatElement<kDtype>::Type;
    using Bits = typename Element::Bits;
    static constexpr int kBytes = Float<kDtype>::kBytes;
    static constexpr bool kWide = kDtype == RP_F64, kSquares = kKind != kSum;
    using Sums = std::conditional_t<kWide, WideSums<kSquares>, NarrowSums<kSquares>>;
    static constexpr Bits kSign = (Bits)1 << (8 * sizeof(Bits) - 1); // also -0.0, which adds nothing

    Sums sums;
    Places<Element> places;
    u64 count, skipped;
    u32 special;
    Bits keep; // of an element: all, or its magnitude
    bool skip, one_infinity, squares_only;

    __device__ __forceinline__ void init(const WordPlan &p, bool skip_nans)
    {
        sums.init();
        if (kKind == kStatistics)
            places.init(skip_nans);
        count = skipped = 0;
        special = 0;
        const bool magnitudes = kKind == kSum && rk_is_abs(p.layout);
        keep = magnitudes ? (Bits)~kSign : (Bits)~(Bits)0;
        skip = skip_nans;
        squares_only = p.sum == 0;
        one_infinity = magnitudes || squares_only;
    }

    // A group of the line: elements that `in` has a bit for, -0.0 in place of the others; their indexes begin with `index` and
    // are `step` apart. Whole warp.
    __device__ __forceinline__ void add(Bits (&x)[kGroup], u32 in, u64 index, u32 step, const Lanes &lanes)
    {
        if (kKind == kStatistics)
            places.add(x, in, index, step);
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
            if (kKind == kStatistics)
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

    // ---- the joined line as a partial ----

    __device__ __forceinline__ u64 word(const WordPlan &p, const SegmentArgs &args, u32 j) const
    {
        if (j == p.own + kWordCount)
            return count;
        if (j == p.own + kWordFlags)
            return flags();
        if (j >= p.digits)
            return kKind == kStatistics ? places.word(args, j - p.digits) : 0;
        if (special)
            return 0;
        return j < p.sum ? digit_of_terms({sums.sum.s, sums.sum.t}, rk_e0(kDtype), j)
                         : digit_of_terms(sums.squares.x, 2 * rk_e0(kDtype), j - p.sum);
    }
    __device__ __forceinline__ u32 flags() const
    {
        const bool lost = !special && (sums.squares.lost || (sums.sum.lost && !squares_only));
        return special | (special || sums.sum.beyond_negative_zero() ? (u32)kFlagNz : 0u) | (lost ? (u32)kFlagLost : 0u) |
               (skipped ? (u32)kFlagSkipped : 0u);
    }

    // ---- and as a value ----

    // Makes cell `line`. False: it is not certain, or a fault.
    __device__ __forceinline__ bool finish(const FinishArgs &a, const SegmentArgs &args, u64 line) const
    {
        const LineSums<Sums::kTerms> all = {sums.sum, sums.squares, count, special};
        if (skipped && args.nan_error)
            return false;
        if (kKind == kStatistics)
            return finish_stats(a, args, all, (u64 *)a.cells + line * RP_STATS_WORDS);
        return all.value(a.spec, (double *)a.cells + line);
    }
    __device__ __forceinline__ bool finish_stats(const FinishArgs &a, const SegmentArgs &args,
                                                 const LineSums<Sums::kTerms> &all, u64 *words) const
    {
        double *doubles = (double *)words;
        if (!all.whole_sum(doubles + RP_STATS_SUM) || !all.mean(doubles + RP_STATS_MEAN) ||
            !all.spread(a.spec.ddof, doubles + RP_STATS_VAR, doubles + RP_STATS_STD))
            return false;
        words[RP_STATS_COUNT] = count;
        words[RP_STATS_NANS] = places.nans;
        words[RP_STATS_ZEROS] = places.zeros;
        words[RP_STATS_ARGMIN] = places.place(false, args.first_index);
        words[RP_STATS_ARGMAX] = places.place(true, args.first_index);
        const u64 nan = rk_nan_bits(rk_format_of(RP_F64));
        words[RP_STATS_MIN] = count ? rk_convert_float(kDtype, places.extreme(false, kDtype), RP_F64) : nan;
        words[RP_STATS_MAX] = count ? rk_convert_float(kDtype, places.extreme(true, kDtype), RP_F64) : nan;
        words[RP_STATS_SUM_HIGH] = 0;
        return true;
    }
};

// Adds elements from, from + step, ... of the line that are not masked out. Whole warp; a line may be empty.
template <class Walker>
__device__ __forceinline__ void walk_groups(Walker &x, const rp_parts &parts, const rk_line &line, u64 from, u32 step,
                                            const Lanes &lanes)
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
                bits[k] = k < (int)left ? Element::load(p + k * jump * bytes) : Walker::kSign;
                out[k] = parts.mask && k < (int)left && !parts.mask[at + k * jump];
            }
#pragma unroll
            for (int k = 0; k < kGroup; k++) {
                in &= ~(out[k] ? 1u << k : 0);
                bits[k] = out[k] ? Walker::kSign : bits[k];
            }
        }
        x.add(bits, in, i, step, lanes);
    }
}

template <class Walker> __global__ void __launch_bounds__(kWalkThreads)
walk_floats(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
            u64 *out)
{
    const Lanes team = {w.lanes, group_mask(w.lanes)};
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, lines = kWarp / lanes; // of a warp at once
    const u64 shares = w.lines * (w.walkers / lanes), turn = (u64)lines * w.turns;
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    for (u64 first = warp * turn; first < shares; first += warps * turn) {
        Walker mine;
        u64 number = RP_NO_INDEX; // of the line in `mine`
        for (u32 t = 0; t < w.turns; t++) {
            const u64 i = first + t * lines + threadIdx.x % kWarp / lanes;
            Share s = share_of(a, w, i < shares ? i : shares - 1);
            const bool own = i < shares && s.line.n <= w.longest;
            s.line.n = own ? s.line.n : 0;
            Walker x;
            x.init(a.plan, g.skip);
            walk_groups(x, w.parts, s.line, s.group * lanes + lane, w.walkers, team);
            x.join(lanes);
            if (own && !w.values)
                for (u32 j = lane; j < a.plan.all; j += lanes)
                    partial_of(a, w, out, s)[j] = x.word(a.plan, g, j);
            if (own && lane == t) {
                mine = x;
                number = w.first_line + s.number;
            }
        }
        // Each lane has a line: what takes longest is done for all of them at once.
        if (w.values && number != RP_NO_INDEX && !mine.finish(a, g, number))
            out[1 + atomicAdd(out, 1ull)] = number;
    }
}

template <Kind kKind> WalkFn pick(int dtype)
{
    switch (dtype) {
    case RP_F16:
        return walk_floats<FloatWalk<RP_F16, kKind>>;
    case RP_BF16:
        return walk_floats<FloatWalk<RP_BF16, kKind>>;
    case RP_F32:
        return walk_floats<FloatWalk<RP_F32, kKind>>;
    default:
        return walk_floats<FloatWalk<RP_F64, kKind>>;
    }
}

} // namespace

WalkFn walk_float_kernel(int layout, int dtype)
{
    if (rk_is_stats(layout))
        return pick<kStatistics>(dtype);
    return rk_square_limbs(layout) ? pick<kMoments>(dtype) : pick<kSum>(dtype);
}

} // namespace rk
