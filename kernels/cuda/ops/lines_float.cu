// Walking along floats: exact sums, of magnitudes too, sums of squares, and stats, in registers (lane_sums.cuh). Where a few
// doubles do not hold the sums, kFlagLost or the list of such lines asks for the general way.
//
// Short rows are taken element by element, long ones by vectors, columns by the threads of a block that stand one above the
// other. In place of elements that are masked out or beyond the line's end come -0.0.
#include "kernels/cuda/exact/extremes_lane.cuh"
#include "kernels/cuda/exact/lane_sums.cuh"
#include "kernels/cuda/pass/lines.cuh"

namespace rk {
namespace {

enum Kind { kSum, kMoments, kStatistics };

constexpr u32 kAllIn = (1u << kGroup) - 1;

struct NoPlaces {};

template <int kDtype, Kind kKind> struct FloatTypes {
    using Element = typename FloatElement<kDtype>::Type;
    using Bits = typename Element::Bits;
    static constexpr bool kWide = kDtype == RP_F64, kSquares = kKind != kSum;
    using Sums = std::conditional_t<kWide, WideSums<kSquares>, NarrowSums<kSquares>>;
    using Extras = std::conditional_t<kKind == kStatistics, Places<Element>, NoPlaces>;
};

// What a team knows in the end of its part of a line.
template <int kDtype, Kind kKind> struct FloatLine {
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

    // Makes cell `line`. False: it is not certain, or a fault.
    __device__ __forceinline__ bool finish(const FinishArgs &a, const SegmentArgs &args, u64 line) const
    {
        if (skipped && args.nan_error)
            return false;
        if constexpr (kKind == kStatistics)
            return finish_stats(a, args, (u64 *)a.cells + line * RP_STATS_WORDS);
        return sums.value(a.spec, (rk_finisher)a.finisher, (double *)a.cells + line);
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

// What a thread accumulates of a line.
template <int kDtype, Kind kKind> struct FloatWalk : FloatTypes<kDtype, kKind> {
    using Line = FloatLine<kDtype, kKind>;
    using typename FloatTypes<kDtype, kKind>::Element;
    using typename FloatTypes<kDtype, kKind>::Bits;
    using FloatTypes<kDtype, kKind>::kWide;
    static constexpr int kBytes = Float<kDtype>::kBytes;
    static constexpr Bits kSign = (Bits)1 << (8 * sizeof(Bits) - 1); // also -0.0, which adds nothing

    typename FloatTypes<kDtype, kKind>::Sums sums;
    typename FloatTypes<kDtype, kKind>::Extras places;
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
        Line l;
        l.sums = {sums.sum, sums.squares, count, special};
        l.skipped = skipped;
        l.places = places;
        return l;
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
                bits[k] = k < (int)left ? Element::load(p + k * jump * bytes) : Walker::kSign;
                out[k] = parts.mask && k < (int)left && !parts.mask[at + k * jump];
            }
#pragma unroll
            for (int k = 0; k < kGroup; k++) {
                in &= ~(out[k] ? 1u << k : 0);
                bits[k] = out[k] ? Walker::kSign : bits[k];
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
            bits[k] = is ? bits[k] : Walker::kSign;
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
                    bits[u * kPer + k] = is ? Element::load(address_of(first + k)) : Walker::kSign;
                    in |= is ? 1u << (u * kPer + k) : 0;
                }
            }
        }
        if (mask) {
#pragma unroll
            for (int k = 0; k < kGroup; k++) {
                const u64 index = index_of(v + (u64)(k / kPer) * step) + k % kPer;
                const bool out = (in >> k & 1) && !mask[index];
                bits[k] = out ? Walker::kSign : bits[k];
                in &= ~(out ? 1u << k : 0);
            }
        }
        x.template add<kPer>(bits, in, index_of(v), step * kPer, lanes);
    }
};

// The line's value, if a walker can tell; else it is listed.
template <class Line>
__device__ __forceinline__ void finish_or_list(const Line &l, const FinishArgs &a, const SegmentArgs &g, u64 line, u64 *list)
{
    if (!l.finish(a, g, line))
        list[1 + atomicAdd(list, 1ull)] = line;
}

// Rows and segments: a team is some lanes of a warp. kVectors: w.run is not 1; takes registers, which pays for long lines.
template <class Walker, bool kVectors> __global__ void __launch_bounds__(kWalkThreads)
    walk_floats(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
                u64 *out)
{
    const Lanes team = {w.lanes, group_mask(w.lanes)};
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, lines = kWarp / lanes; // of a warp at once
    const u64 shares = w.lines * (w.walkers / lanes), turn = (u64)lines * w.turns;
    const u64 warp = ((u64)blockIdx.x * kWalkThreads + threadIdx.x) / kWarp, warps = (u64)gridDim.x * (kWalkThreads / kWarp);
    for (u64 first = warp * turn; first < shares; first += warps * turn) {
        typename Walker::Line mine;
        u64 number = RP_NO_INDEX; // of the line in `mine`
        for (u32 t = 0; t < w.turns; t++) {
            const u64 i = first + t * lines + threadIdx.x % kWarp / lanes;
            Share s = share_of(a, w, i < shares ? i : shares - 1);
            const bool own = i < shares && s.line.n <= w.longest;
            s.line.n = own ? s.line.n : 0;
            Walker x;
            x.init(a.plan, g.skip);
            if constexpr (kVectors)
                VectorWalk<Walker>(w.parts, s.line, w.walkers, team).add_all(x, s.team * lanes + lane);
            else
                walk_groups(x, w.parts, s.line, s.team * lanes + lane, w.walkers, team);
            x.join(lanes);
            const typename Walker::Line l = x.line();
            if (own && !w.values)
                for (u32 j = lane; j < a.plan.all; j += lanes)
                    partial_of(a, w, out, s)[j] = l.word(a.plan, g, j);
            if (own && lane == t) {
                mine = l;
                number = w.first_line + s.number;
            }
        }
        // Each lane has a line: what takes longest is done for all of them at once.
        if (w.values && number != RP_NO_INDEX)
            finish_or_list(mine, a, g, number, out);
    }
}

// Columns: a block has w.width of them, side by side, and a team of its threads for each, one above the other. Blocks go
// through all columns, then to the next team of each.
template <class Walker> __global__ void __launch_bounds__(kColumnThreads)
    walk_columns(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g,
                 const __grid_constant__ WalkArgs w, u64 *out)
{
    using Line = typename Walker::Line;
    __shared__ __align__(16) unsigned char space[kColumnThreads * sizeof(Line)]; // a Line has no constructor to run
    Line *lines = (Line *)space, *mine = lines + threadIdx.x;
    const u32 column = threadIdx.x % w.width, row = threadIdx.x / w.width;
    const u64 across = (w.lines + w.width - 1) / w.width;
    Share s = {blockIdx.x % across * w.width + column, (u32)(blockIdx.x / across), {0, 1, 0}};
    const bool own = s.number < w.lines && row < w.team;
    if (own)
        s.line = rk_line_of(&a.spec, w.parts.offsets, w.first_line + s.number);
    Walker x;
    x.init(a.plan, g.skip);
    walk_groups(x, w.parts, s.line, s.team * w.team + row, w.walkers, {1, 1u << threadIdx.x % kWarp});
    x.join(1);
    *mine = x.line();
    for (u32 left = w.team, half; left > 1; left = half) {
        half = (left + 1) / 2;
        __syncthreads();
        if (row + half < left)
            mine->join(mine[half * w.width]);
    }
    __syncthreads();
    if (!own)
        return;
    if (w.values) {
        if (row == 0)
            finish_or_list(*mine, a, g, w.first_line + s.number, out);
        return;
    }
    for (u32 j = row; j < a.plan.all; j += w.team)
        partial_of(a, w, out, s)[j] = lines[column].word(a.plan, g, j);
}

template <class Walker> WalkFn kernel_of(WalkShape shape)
{
    return shape == kColumnWalk ? walk_columns<Walker>
           : shape == kLongWalk ? walk_floats<Walker, true>
                                : walk_floats<Walker, false>;
}

template <Kind kKind> WalkFn pick(int dtype, WalkShape shape)
{
    switch (dtype) {
    case RP_F16:
        return kernel_of<FloatWalk<RP_F16, kKind>>(shape);
    case RP_BF16:
        return kernel_of<FloatWalk<RP_BF16, kKind>>(shape);
    case RP_F32:
        return kernel_of<FloatWalk<RP_F32, kKind>>(shape);
    default:
        return kernel_of<FloatWalk<RP_F64, kKind>>(shape);
    }
}

} // namespace

WalkFn walk_float_kernel(int layout, int dtype, WalkShape shape)
{
    if (rk_is_stats(layout))
        return pick<kStatistics>(dtype, shape);
    return rk_square_limbs(layout) ? pick<kMoments>(dtype, shape) : pick<kSum>(dtype, shape);
}

} // namespace rk
