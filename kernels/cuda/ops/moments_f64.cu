// Exact sums and sums of squares of f64 in one pass; for `stats` also the rest of it.
//
// A warp has a window: 2^K above all of its elements, and 22 binades. What is in it is cut into three pieces, each the
// multiple of 2^(K-24), 2^(K-49) and 2^(K-74) that is nearest to what the pieces before left (adding a large number, the
// anchor, and subtracting it again rounds so; AccSum of Rump, Ogita and Oishi). A piece has at most 2^24 of its units, so
// products of two are integers up to 2^48, of which a double takes 31 without rounding: no addition here needs a second one
// for its error. After some tiles the upper bits of a double are moved to another one.
//
// An element outside of the window, or beyond what squares can be, goes to the block's long accumulator in shared memory:
// right for any data, fast if all but a few elements of a warp lie within 20 binades or so. A warp whose elements leave its
// window empties it into the accumulator and begins another one.
#include "kernels/cuda/exact/extremes_tile.cuh"
#include "kernels/cuda/exact/far_sums.cuh"
#include "kernels/cuda/exact/long_digits.cuh"
#include "kernels/cuda/pass/bounded_rows.cuh"
#include "kernels/cuda/pass/list.cuh"
#include "kernels/cuda/pass/near_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

constexpr int kSumDigits = 2 * RK_LIMBS64, kSquareDigits = 2 * RK_SQUARE_LIMBS64;
constexpr int kMostK = 480, kLeastK = -400;
constexpr int kMargin = 3;      // binades above the largest element met when the window is chosen
constexpr int kFarAbove = 8;    // a window this many binades above the best choice is too high
constexpr int kStays = 1 << 16; // no other window
constexpr u32 kBinades = 22;
constexpr u32 kInfiniteUpper = 0x7ffu << 21; // upper word of an infinity, doubled

__device__ __forceinline__ double anchor(int e) { return __hiloint2double((e + 1023) << 20 | 0x80000, 0); } // 1.5 * 2^e

// Products of two pieces, i <= j, numbered as in a triangle. Those of unlike pieces count twice.
constexpr int kPieces = 3, kFirstBits = 24, kPieceBits = 25, kProducts = 6;
__host__ __device__ constexpr int later_piece(int product) { return product < 1 ? 0 : product < 3 ? 1 : 2; }
__host__ __device__ constexpr int earlier_piece(int product)
{
    return product - later_piece(product) * (later_piece(product) + 1) / 2;
}
constexpr int kLower = 26; // bits of a product's sum that are not given to the other double

// 2^-unit: unit of piece i as a power of two, and of product i
__device__ __forceinline__ int piece_unit(int i, int k) { return k - kFirstBits - kPieceBits * i; }
__device__ __forceinline__ int product_unit(int i, int k)
{
    return piece_unit(earlier_piece(i), k) + piece_unit(later_piece(i), k);
}

// How many units a double near anchor(unit + 52) is above it.
__device__ __forceinline__ i64 units_above(double x, int unit)
{
    return __double_as_longlong(x) - __double_as_longlong(anchor(unit + 52));
}
// The same of one near 0
__device__ __forceinline__ i64 units_in(double x, int unit) { return units_above(__dadd_rn(x, anchor(unit + 52)), unit); }

constexpr int kThreads64 = 256; // of a block

// What a thread has of its elements within the window below 2^k.
struct Window64 {
    double first_anchor, second_anchor; // round to pieces
    double sum[kPieces];                // of pieces: exact for 2^26 of them
    double lower[kProducts];            // of products

    // `upper`, in shared memory: for each product an anchor, and what `lower` had beyond its kLower bits.
    __device__ __forceinline__ void open(double (*upper)[kThreads64], int k)
    {
        first_anchor = anchor(piece_unit(0, k) + 52);
        second_anchor = anchor(piece_unit(1, k) + 52);
#pragma unroll
        for (int i = 0; i < kPieces; i++)
            sum[i] = 0;
#pragma unroll
        for (int i = 0; i < kProducts; i++) {
            lower[i] = 0;
            upper[i][threadIdx.x] = anchor(product_unit(i, k) + kLower + 52);
        }
    }

    // An element in the window, or a zero.
    __device__ __forceinline__ void add(double x)
    {
        const double a = __dsub_rn(__dadd_rn(x, first_anchor), first_anchor), rest = __dsub_rn(x, a);
        const double b = __dsub_rn(__dadd_rn(rest, second_anchor), second_anchor);
        const double piece[kPieces] = {a, b, __dsub_rn(rest, b)};
#pragma unroll
        for (int i = 0; i < kPieces; i++)
            sum[i] = __dadd_rn(sum[i], piece[i]);
#pragma unroll
        for (int i = 0; i < kProducts; i++)
            lower[i] = __fma_rn(piece[earlier_piece(i)], piece[later_piece(i)], lower[i]);
    }

    // After at most kMost elements: 31 * 2^48, and 2^25 that are left, are below 2^53.
    static constexpr int kMost = 31;
    __device__ __forceinline__ void give_up(double (*upper)[kThreads64])
    {
#pragma unroll
        for (int i = 0; i < kProducts; i++) {
            const double before = upper[i][threadIdx.x], with = __dadd_rn(before, lower[i]);
            lower[i] = __dsub_rn(lower[i], __dsub_rn(with, before));
            upper[i][threadIdx.x] = with;
        }
    }
};

// What a block shares: its long accumulator, with the digits of the sum first; and its threads' own.
struct Long : LongDigits<kSumDigits + kSquareDigits> {
    double upper[kProducts][kThreads64];
};

template <bool kIsStats> struct Moments64 {
    static constexpr bool kStats = kIsStats;
    static constexpr int kThreads = kThreads64, kUnroll = 6;
    static constexpr int kWords = kSumDigits + kSquareDigits + (kStats ? 6 : 0);
    static constexpr int kBlocksPerSm = 2;
    static constexpr bool kEnds = !kStats; // stats took 20 to 36 us more
    static constexpr u32 kMaxPerThread = 1u << 16;
    static size_t shared_bytes() { return sizeof(Long); }

    Long *block;
    Window64 window;
    u32 lowest;              // twice the upper word of the window's least number, or 0: no window. The same in all lanes
    bool clean;              // the thread's tile is all in it, but for zeros
    u32 waiting;             // elements since the last give_up
    u32 zeros;               // of a clean tile: stats
    bool all_zero;           // a clean tile
    int warp_low, warp_high; // upper words of the keys of the warp's extremes: stats
    bool strict;             // no element with such an upper word and a lower one of zero is better
    u32 flags, skipped;
    bool skip, one_infinity;
    Extremes<F64, kUnroll, 2, kThreads * 2> extremes; // stats

    __device__ __forceinline__ void init(void *shared, const SegmentArgs &args)
    {
        block = (Long *)shared;
        block->clear();
        lowest = 0;
        flags = skipped = 0;
        skip = args.skip;
        one_infinity = rk_is_unsigned_sum(args.layout);
        extremes.init();
        note_warp(extremes.kFirst, extremes.kLast);
        __syncthreads();
    }

    // ---- the long accumulator ----

    // A finite element that no window takes. A call waits for the loads of the next tile, so it is made for such ones alone.
    __device__ __noinline__ static void add_outside(Long *block, double v)
    {
        const rk_number x = rk_number_of(rk_format_of(RP_F64), (u64)__double_as_longlong(v));
        const int offset = x.unit - RK_E0_64;
        block->add(0, offset, (u64)x.mantissa, x.negative);
        block->add(kSumDigits, 2 * offset, (unsigned __int128)x.mantissa * x.mantissa, false);
    }

    // Whole warp: the window's sums into the accumulator. A lane does one of them.
    __device__ __noinline__ static void empty(Long *block, Window64 window, int k)
    {
        const int lane = threadIdx.x % kWarp;
        window.give_up(block->upper);
        i64 units = 0;
        int unit = 0;
        auto take = [&](int by, i64 of_lane, int its_unit) { // 2^51 of each lane fit
            const i64 all = warp_sum(of_lane);
            if (lane == by) {
                units = all;
                unit = its_unit;
            }
        };
#pragma unroll
        for (int i = 0; i < kProducts; i++) {
            const int one = product_unit(i, k), twice = earlier_piece(i) != later_piece(i);
            take(2 * i, units_in(window.lower[i], one), one + twice);
            take(2 * i + 1, units_above(block->upper[i][threadIdx.x], one + kLower), one + kLower + twice);
        }
#pragma unroll
        for (int i = 0; i < kPieces; i++)
            take(2 * kProducts + i, units_in(window.sum[i], piece_unit(i, k)), piece_unit(i, k));
        const bool square = lane < 2 * kProducts;
        const int offset = unit - (square ? 2 * RK_E0_64 : RK_E0_64);
        for (int j = offset / 32; units && j < offset / 32 + 3; j++)
            if (i64 d = digit_of(units, offset, j))
                block->add((square ? kSumDigits : 0) + j, {(u64)d});
    }

    // ---- the window ----

    static constexpr bool kPrepares = true, kTiles = true, kByPointer = !kStats;
    static constexpr Filling kFilling = kUnfilled;
    using Bits = u64;

    // K of the window
    static __device__ __forceinline__ u32 lowest_of(int k) { return (u32)(k + 1023 - (int)kBinades) << 21; }
    __device__ __forceinline__ int k() const { return (int)(lowest >> 21) - 1023 + (int)kBinades; }

    __device__ __forceinline__ bool holds(u32 high) const { return 2 * high - lowest < kBinades << 21; }
    __device__ __forceinline__ bool holds_all(const uint4 (&v)[kUnroll]) const
    {
        u32 worst = 0;
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            worst = max(worst, max(2 * v[u].y - lowest, 2 * v[u].w - lowest));
        return worst < kBinades << 21;
    }
    // The same but for zeros, which `zeros` counts for stats.
    __device__ __forceinline__ bool holds_all_but(const uint4 (&v)[kUnroll]) { return holds_all_but(v, lowest); }
    __device__ __forceinline__ bool holds_all_but(const uint4 (&v)[kUnroll], u32 lowest)
    {
        u32 most = 0, least_1 = ~0u, others = 0; // least_1: of those that are not zero, less 1
        auto note = [&](u32 high, u32 low) {
            const u32 upper = 2 * high + one_if_any(low); // zero of zeros alone
            most = max(most, upper);
            least_1 = min(least_1, upper - 1);
            if (kStats)
                others += one_if_any(upper);
        };
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            note(v[u].y, v[u].x);
            note(v[u].w, v[u].z);
        }
        zeros = 2 * kUnroll - others;
        all_zero = most == 0;
        return least_1 >= lowest - 1 && (all_zero || most - lowest < kBinades << 21);
    }

    // The larger magnitude of two elements, by their high words; infinities and NaNs do not count.
    static __device__ __forceinline__ u32 top_of(uint4 v)
    {
        u32 a = v.y & 0x7fffffffu, b = v.w & 0x7fffffffu;
        return max(a < 0x7ff00000u ? a : 0, b < 0x7ff00000u ? b : 0);
    }
    static __device__ __forceinline__ u32 top_of_warp(const uint4 (&tile)[kUnroll])
    {
        u32 top = 0;
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            top = max(top, top_of(tile[u]));
        return warp_max(top);
    }
    // Whole warp, before its next tile, and before the rest of the row.
    __device__ __forceinline__ bool prepare(const uint4 (&tile)[kUnroll])
    {
        clean = lowest && holds_all(tile);
        zeros = 0;
        all_zero = false;
        if (__all_sync(kFullMask, clean))
            return true;
        clean = lowest && holds_all_but(tile);
        if (__all_sync(kFullMask, clean))
            return true;
        const u32 top = top_of_warp(tile);
        const int next = followed(top);
        if (next != kStays)
            clean = holds_all_but(tile, lowest_of(next));
        if (next != kStays)
            move(next);
        return true;
    }
    __device__ __forceinline__ void prepare_rest(const uint4 *vectors, u64 from, u64 to)
    {
        u32 top = 0;
        for (u64 v = from + threadIdx.x; v < to; v += kThreads)
            top = max(top, top_of(vectors[v]));
        const int next = followed(warp_max(top));
        if (next != kStays)
            move(next);
    }

    // K of another window if the warp's next elements, of which `top` is the largest, do not fit this one.
    __device__ __forceinline__ int followed(u32 top) const
    {
        int next = (int)(top >> 20) - 1022 + kMargin;
        next = next > kMostK ? kMostK : next < kLeastK ? kLeastK : next; // what is larger goes outside, one by one
        if (lowest) {
            const bool above = top >= (u32)(k() + 1023) << 20 && k() < kMostK;
            if (!above && !(top && next + kFarAbove < k()))
                return kStays;
        }
        return next;
    }
    // Begins another window.
    __device__ __forceinline__ void move(int next)
    {
        if (lowest)
            empty(block, window, k());
        lowest = lowest_of(next);
        window.open(block->upper, next);
        waiting = 0;
    }

    // ---- elements ----

    // Takes those out that the window has no room for; index of element e: at(e).
    template <int kCount, class At> __device__ __forceinline__ void take_out(double *x, At at)
    {
#pragma unroll
        for (int e = 0; e < kCount; e++) {
            if (holds((u32)__double2hiint(x[e]))) {
                flags |= kFlagNz;
            } else {
                outside(x[e], at(e));
                x[e] = 0;
            }
        }
    }

    __device__ __forceinline__ void outside(double x, u64 index)
    {
        const u32 high = (u32)__double2hiint(x), upper = 2 * high + one_if_any((u32)__double2loint(x));
        if (upper == 0) {
            flags |= high ? 0u : (u32)kFlagNz;
            extremes.zeros++;
            return;
        }
        if (upper >= kInfiniteUpper) {
            note_special(x, index);
        } else {
            flags |= kFlagNz;
            add_outside(block, x);
        }
    }
    // An infinity or NaN
    __device__ __forceinline__ void note_special(double x, u64 index)
    {
        const u32 high = (u32)__double2hiint(x), upper = 2 * high + one_if_any((u32)__double2loint(x));
        const bool nan = upper > kInfiniteUpper;
        extremes.nans += nan;
        if (nan && skip) {
            skipped++;
            return;
        }
        if (nan)
            extremes.note_nan(index);
        flags |= kFlagNz | (nan ? RK_NAN : (int)high < 0 && !one_infinity ? RK_NINF : RK_PINF);
    }

    // The extremes of some vectors, the first of which has this index.
    template <int kCount> __device__ __forceinline__ void choose(const uint4 (&v)[kCount], u64 first)
    {
        i64 low = extremes.kFirst, high = extremes.kLast;
#pragma unroll
        for (int u = 0; u < kCount; u++)
            each_element<8>(v[u], [&](u64 bits, int) {
                if (F64::nan(bits))
                    return;
                low = min(low, F64::key(bits));
                high = max(high, F64::key(bits));
            });
        extremes.choose(low, high, first);
    }

    // May a clean tile have a better one than the warp? By the upper words, which as f32 are zero or finite and normal, and in
    // the same order; where all lower words are zero they are the elements themselves.
    __device__ __forceinline__ bool may_choose(const uint4 (&tile)[kUnroll]) const
    {
        float low = __uint_as_float(tile[0].y), high = low;
        u32 lower = 0;
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            const float a = __uint_as_float(tile[u].y), b = __uint_as_float(tile[u].w);
            low = fminf(fminf(low, a), b);
            high = fmaxf(fmaxf(high, a), b);
            lower |= tile[u].x | tile[u].z;
        }
        const int least = AsF32::key(__float_as_uint(low)), most = AsF32::key(__float_as_uint(high));
        if (strict && lower == 0)
            return least < warp_low || most > warp_high;
        return least <= warp_low || most >= warp_high;
    }

    // The warp's extremes are these. A key's lower word is zero where a positive element's is, and all ones where a negative
    // one's is zero.
    __device__ __forceinline__ void note_warp(i64 low, i64 high)
    {
        warp_low = (int)(low >> 32);
        warp_high = (int)(high >> 32);
        strict = (low < 0 || (u32)low == 0) && (high >= 0 || (u32)high == ~0u);
    }

    // Whole warp. Earlier tiles of the warp come before this one, so a tile without a better element is passed over.
    __device__ __forceinline__ void choose_of_tile(const uint4 (&tile)[kUnroll], u64 first)
    {
        const bool may = !clean || may_choose(tile);
        if (!__any_sync(kFullMask, may))
            return;
        if (may)
            choose(tile, first);
        i64 low = extremes.least, high = extremes.most;
        for (int d = kWarp / 2; d; d >>= 1) {
            low = min(low, __shfl_xor_sync(kFullMask, low, d));
            high = max(high, __shfl_xor_sync(kFullMask, high, d));
        }
        note_warp(low, high);
    }

    static __device__ __forceinline__ double low_of(uint4 v) { return __hiloint2double((int)v.y, (int)v.x); }
    static __device__ __forceinline__ double high_of(uint4 v) { return __hiloint2double((int)v.w, (int)v.z); }

    static __device__ __forceinline__ void elements_of(const uint4 (&tile)[kUnroll], double (&x)[2 * kUnroll])
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            x[2 * u] = low_of(tile[u]);
            x[2 * u + 1] = high_of(tile[u]);
        }
    }

    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64 first)
    {
        double x[2 * kUnroll];
        elements_of(tile, x);
        if (kStats)
            choose_of_tile(tile, first);
        if (clean)
            note_clean(tile);
        else
            take_out<2 * kUnroll>(x, [&](int e) { return first + e / 2 * (2 * kThreads) + e % 2; });
        __syncwarp(); // else lanes that took none out go on by themselves, for good
        add_all(x);
        __syncwarp(); // else the compiler waits for the next tile before this one is added
    }
    __device__ __forceinline__ void note_clean(const uint4 (&tile)[kUnroll])
    {
        u32 other = !all_zero; // than -0.0
        if (all_zero) {
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                other |= ~tile[u].y | ~tile[u].w;
            other &= 1u << 31;
        }
        flags |= other ? (u32)kFlagNz : 0u;
        extremes.zeros += zeros;
    }
    template <int kCount> __device__ __forceinline__ void add_all(const double (&x)[kCount])
    {
        if (waiting + kCount > Window64::kMost) {
            window.give_up(block->upper);
            waiting = 0;
        }
        waiting += kCount;
#pragma unroll
        for (int e = 0; e < kCount; e++)
            window.add(x[e]);
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64 first)
    {
        const uint4 one[1] = {v};
        if (kStats)
            choose(one, first);
        double x[2] = {low_of(v), high_of(v)};
        take_out<2>(x, [&](int e) { return first + e; });
        add_all(x);
    }

    __device__ __forceinline__ void add_element(const void *p, u64 index)
    {
        const u64 bits = F64::load(p);
        if (kStats && !F64::nan(bits))
            extremes.choose_one(bits, index);
        double x[1] = {__longlong_as_double((i64)bits)};
        if (!lowest) { // a number that is small enough would seem to be in it
            outside(x[0], index);
            return;
        }
        take_out<1>(x, [&](int) { return index; });
        add_all(x);
    }

    __device__ void flush(const SegmentArgs &args, const unsigned char *row, void *, u64 elements, u64 *partial)
    {
        __shared__ u32 flags_sum, skipped_sum;
        // Lanes that took elements out may still be apart: then shuffles go a slow way, in code of their own. By ptxas 13.0
        // __syncwarp() leaves them apart after a call that yields.
        __syncthreads();
        if (lowest)
            empty(block, window, k());
        if (threadIdx.x == 0)
            flags_sum = skipped_sum = 0;
        __syncthreads();
        u32 f = warp_or(flags);
        if (threadIdx.x % kWarp == 0)
            atomicOr(&flags_sum, f);
        if (skipped)
            atomicAdd(&skipped_sum, skipped);
        const int sum = 2 * rk_sum_limbs(args.layout), squares = 2 * rk_square_limbs(args.layout);
        for (int j = threadIdx.x; j < sum + squares; j += kThreads)
            partial[j] = j < sum ? block->word(0, sum, j) : block->word(kSumDigits, squares, j - sum);
        if (kStats)
            extremes.template write<kThreads>(args, row, partial + sum + squares);
        __syncthreads();
        if (threadIdx.x == 0)
            write_tail(partial + own_words(args.layout), elements, skipped_sum, flags_sum);
    }
};

} // namespace

template <Moments64Part kPart> SegmentKernel moments_f64_part(BoundsOf of, bool is_long)
{
    using Any = Moments64<kPart == Moments64Part::Stats>;
    using Squares = BoundedRow64<BoundsOf::Squares, Any::kThreads, 4, true>;
    using Spread = BoundedRow64<BoundsOf::Spread, Any::kThreads, Any::kUnroll, true>;
    using SquaresOfTile = BoundedRow64<BoundsOf::Squares, Any::kThreads, 4, false>;
    using SpreadOfTile = BoundedRow64<BoundsOf::Spread, Any::kThreads, Any::kUnroll, false>;
    if constexpr (kPart == Moments64Part::Bounded) {
        if (of == BoundsOf::Squares)
            return is_long ? bounded_long_kernel<ByTickets<Squares>>() : bounded_kernel_of<Squares, SquaresOfTile, Any, true>();
        return is_long ? bounded_long_kernel<ByTickets<Spread>>() : bounded_kernel_of<Spread, SpreadOfTile, Any, false>();
    } else if constexpr (kPart == Moments64Part::Near) {
        return near_rows<NearMoments64<Any::kThreads, Any::kUnroll>, Any>();
    } else if constexpr (kPart == Moments64Part::Stats) {
        return segment_kernel<Any>();
    } else {
        return list_kernels<Any>();
    }
}

#define PARTS(X) X(Moments) X(Near) X(Stats) X(Bounded)
#define PART(of) template SegmentKernel moments_f64_part<Moments64Part::of>(BoundsOf, bool);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
