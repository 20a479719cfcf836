// Exact sums and sums of squares of f32, bf16 and f16 in one pass; for `stats` also the rest of it.
//
// Elements that keep to a thread's window (exponent_window.cuh) are added as doubles. What is in the window
// moves to the rows when it
// is full, or must shift. Everything else, and all where doubles are slow, goes to the rows at once.
//
// A thread owns 32 rows of 128 bits in shared memory, one for each 8 binades of the f32 range. An element of row g is
// v * 2^(8g-149) with an integer |v| < 2^31, its square v^2 * 2^(16g-298) with v^2 < 2^62. One 128-bit addition takes both:
// the squares grow from bit 0, the signed elements from bit 80. 2^15 elements of a thread stay below 2^77 and 2^62: the
// fields never meet, whatever the data. The bank of an access depends on the lane alone.
//
// v comes out of a multiplication by a power of two and a conversion to integer. Whether that will do for all elements of
// a tile is found out at once; infinities, NaNs and very small elements take a slower way.
//
// This is also the way to sum f32 on devices where doubles are slow (tuning.cuh).
#include <type_traits>

#include "kernels/cuda/exact/exponent_window.cuh"
#include "kernels/cuda/exact/extremes_tile.cuh"
#include "kernels/cuda/pass/bounded_rows.cuh"
#include "kernels/cuda/pass/chosen.cuh"
#include "kernels/cuda/pass/list.cuh"
#include "kernels/cuda/pass/near_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"

#pragma nv_diag_suppress 177 // members that are not used where a kernel is left empty (kUsedHere)

namespace rk {
namespace {

template <class Element, int kColumns, bool kStats> struct Moments32 {
    static constexpr int kThreads = kColumns, kUnroll = 8, kRows = 32;
    static constexpr bool kPrepares = false, kTiles = true;
    static constexpr bool kByTickets = !kStats; // of stats, the loop takes all registers, and drawing takes time
    static constexpr bool kEnds = true, kLongVector = kStats;
    static constexpr Filling kFilling = kStats ? kUnfilled : kPadded; // stats would count padding
    using Bits = std::conditional_t<Element::kPerWord == 1, u32, u16>;
    static constexpr Bits kPadding = (Bits)(1u << (8 * sizeof(Bits) - 1)); // -0.0
    static constexpr int kWords = 2 * (RK_LIMBS32 + RK_SQUARE_LIMBS32) + (kStats ? 6 : 0);
    static constexpr int kBlocksPerSm = 1;
    static constexpr u32 kMaxPerThread = 1u << 15;
    static constexpr int kPerVector = 4 * Element::kPerWord;
    static constexpr bool kByHalves = !kStats && Element::kPerWord == 1; // else the loop has no registers left for it
    static size_t shared_bytes() { return sizeof(ulonglong2) * kRows * kThreads; }

    static constexpr u32 kRowBytes = sizeof(ulonglong2) * kThreads;
    static constexpr u32 kFlagRows = 1u << 31; // of a thread's flags: its rows have something

    unsigned char *column; // row g of this thread: column + g * kRowBytes
    Window window;
    bool doubles; // there is a window
    u32 flags, skipped;
    bool skip, one_infinity; // NaNs are left out; squares of both infinities are alike
    Extremes<Element, kUnroll, kPerVector, kThreads * kPerVector> extremes; // stats

    __device__ __forceinline__ void init(void *shared, const SegmentArgs &args)
    {
        column = (unsigned char *)((ulonglong2 *)shared + threadIdx.x);
        flags = skipped = 0;
        window.open(1);
        doubles = args.doubles;
        skip = args.skip;
        one_infinity = rk_is_unsigned_sum(args.layout);
        extremes.init();
#pragma unroll 8
        for (int g = 0; g < kRows; g++)
            *(ulonglong2 *)(column + g * kRowBytes) = make_ulonglong2(0, 0);
    }

    // Adds squares (high * 2^64 + low) and elements to row g.
    __device__ __forceinline__ void add_to_row(u32 g, u64 low, u64 high, i64 elements)
    {
        ulonglong2 *row = (ulonglong2 *)(column + g * kRowBytes);
        ulonglong2 a = *row;
        u64 upper = a.y + (u64)(elements * 65536) + high;
        add_wide(a.x, upper, low);
        a.y = upper;
        *row = a;
    }
    __device__ __forceinline__ void add_to_row(u32 g, int v) { add_to_row(g, (u64)((i64)v * v), 0, v); }

    // To the rows: row g, in which the window begins, gets the lower bits, row g + 2 the others. Not called often.
    __device__ void empty_window()
    {
        flags |= kFlagRows;
        const int e = window.unit_exponent(), g = (int)(window.first - 1) / 8, shift = (int)(window.first - 1) % 8;
        const i64 sum = __double2ll_rn(window.sum * Window::power(-e)) * (1ll << shift);
        const i64 upper = __double2ll_rn(window.upper_squares() * Window::power(-40 - 2 * e));
        const i64 lower = __double2ll_rn(window.lower * Window::power(-2 * e));
        const unsigned __int128 squares = (unsigned __int128)(((__int128)upper << 40) + lower) << (2 * shift);
        const unsigned __int128 above = squares >> 32;
        add_to_row(g, (u32)squares, 0, sum & 0xffff);
        add_to_row(g + 2, (u64)above, (u64)(above >> 64), sum >> 16);
    }

    // Row of a normal element: its exponent field counts from 1. Zeros and subnormals get 31.
    static __device__ __forceinline__ u32 row_of(u32 bits) { return (2 * bits - (1u << 24)) >> 27; }
    // 2^e
    static __device__ __forceinline__ float power(int e) { return __uint_as_float((u32)(e + 127) << 23); }

    // A zero, or an element from kLeast on, that is finite. In smaller ones the power would be beyond f32.
    static constexpr u32 kLeast = (3 * 8 + 1) << 23; // row 3
    __device__ __forceinline__ void add_common(u32 bits)
    {
        const u32 g = row_of(bits);
        add_to_row(g, __float2int_rn(__uint_as_float(bits) * power(149 - 8 * (int)g)));
    }
    // Any that is finite: by two powers, which f32 has for all rows, or in two cases.
    __device__ __forceinline__ void add_finite(u32 bits)
    {
        if (kByHalves)
            add_by_halves(bits);
        else if ((bits & 0x7fffffffu) >= kLeast)
            add_common(bits);
        else if (bits & 0x7fffffffu)
            add_small(bits);
    }
    __device__ __forceinline__ void add_small(u32 bits)
    {
        const u32 g = (bits & 0x7fffffffu) < 1u << 23 ? 0 : row_of(bits); // row 0 begins with the subnormals
        add_to_row(g, __float2int_rn(__uint_as_float(bits) * power(75) * power(74 - 8 * (int)g)));
    }
    __device__ __forceinline__ void add_by_halves(u32 bits)
    {
        const u32 g = (max(bits & 0x7fffffffu, 1u << 23) - (1u << 23)) >> 26; // row 0 begins with the subnormals
        add_to_row(g, __float2int_rn(__uint_as_float(bits) * power(74 - 4 * (int)g) * power(75 - 4 * (int)g)));
    }

    static __device__ __forceinline__ u32 is_zero(u32 bits) { return (bits & 0x7fffffffu) == 0; }

    // Zeros are counted elsewhere.
    __device__ __forceinline__ void add(u32 bits, u64 index)
    {
        const u32 magnitude = bits & 0x7fffffffu;
        if (magnitude >= kInfinite) {
            note(bits, index);
            return;
        }
        flags |= kFlagRows | (bits != 0x80000000u ? (u32)kFlagNz : 0u);
        add_finite(bits);
    }

    // An infinity or NaN, which adds nothing but a note.
    __device__ __forceinline__ void note(u32 bits, u64 index)
    {
        if (Element::nan(bits)) {
            extremes.nans++;
            if (skip) {
                skipped++;
                return;
            }
            flags |= RK_NAN;
            extremes.note_nan(index);
        } else {
            flags |= (int)bits < 0 && !one_infinity ? RK_NINF : RK_PINF;
        }
        flags |= kFlagNz;
    }

    static __device__ __forceinline__ void elements_of(uint4 v, u32 (&x)[kPerVector])
    {
        const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < kPerVector; i++)
            x[i] = Element::get(w[i / Element::kPerWord], i % Element::kPerWord);
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64 first)
    {
        u32 x[kPerVector];
        elements_of(v, x);
        Magnitudes m;
#pragma unroll
        for (int i = 0; i < kPerVector; i++)
            extremes.zeros += m.note(x[i]);
        if (kStats) {
            float low = __uint_as_float(x[0]), high = low;
            extremes_of(x, low, high);
            choose(low, high, first);
        }
        const uint4 one[1] = {v};
        if (doubles && fit_window(m))
            add_to_window(one, m);
        else
            add_each(v, first);
    }

    // fminf and fmaxf: -0 < +0, and of a NaN and a number the number
    static __device__ __forceinline__ void extremes_of(const u32 (&x)[kPerVector], float &low, float &high)
    {
#pragma unroll
        for (int i = 0; i < kPerVector; i++) {
            low = fminf(low, __uint_as_float(x[i]));
            high = fmaxf(high, __uint_as_float(x[i]));
        }
    }
    __device__ __forceinline__ void choose(float low, float high, u64 at)
    {
        if (low == low) // else all are NaNs
            extremes.choose(Element::key(__float_as_uint(low)), Element::key(__float_as_uint(high)), at);
    }

    // Not all zero, all finite; none very small
    static __device__ __forceinline__ bool finite(const Magnitudes &m) { return m.most - 1 < kInfinite - 1; }
    static __device__ __forceinline__ bool common(const Magnitudes &m) { return finite(m) && m.least >= kLeast - 1; }

    // Does the window take elements like these? It follows the largest ones, leaving a binade of room above them.
    __device__ __forceinline__ bool fit_window(const Magnitudes &m)
    {
        const u32 top = m.most >> 23;
        if ((top == 0 && m.most) || m.most >= kInfinite)
            return false;
        if ((top && (window.too_low(top) || window.too_high(top))) || window.count == Window::kFull) {
            if (kStats || window.count)
                empty_window();
            window.open_for(top);
        }
        return window.holds(m);
    }

    // The warp decides together, since it would run through several ways else.
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64 first)
    {
        float low = 0, high = 0;
        Magnitudes m;
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            u32 x[kPerVector];
            elements_of(tile[u], x);
            if (kStats && u == 0)
                low = high = __uint_as_float(x[0]);
            if (kStats)
                extremes_of(x, low, high);
#pragma unroll
            for (int i = 0; i < kPerVector; i++)
                extremes.zeros += m.note(x[i]);
        }
        if (kStats)
            choose(low, high, first);
        if (doubles && __all_sync(kFullMask, fit_window(m)))
            add_to_window(tile, m);
        else if (__all_sync(kFullMask, common(m)))
            add_rows<true>(tile);
        else if (kByHalves && __all_sync(kFullMask, finite(m)))
            add_rows<false>(tile);
        else
            add_any(tile, first);
    }

    // Of zeros: are there others than -0.0?
    template <int kVectors> static __device__ __forceinline__ bool other_zeros(const uint4 (&tile)[kVectors])
    {
        u32 other = 0;
#pragma unroll
        for (int u = 0; u < kVectors; u++) {
            u32 x[kPerVector];
            elements_of(tile[u], x);
#pragma unroll
            for (int i = 0; i < kPerVector; i++)
                other |= ~x[i] >> 31;
        }
        return other;
    }
    template <int kVectors> __device__ __forceinline__ void add_to_window(const uint4 (&tile)[kVectors], const Magnitudes &m)
    {
        flags |= m.most || other_zeros(tile) ? (u32)kFlagNz : 0u;
        window.count += kVectors * kPerVector;
#pragma unroll
        for (int u = 0; u < kVectors; u++) {
            u32 x[kPerVector];
            elements_of(tile[u], x);
#pragma unroll
            for (int i = 0; i < kPerVector; i++)
                window.add<true>(x[i]);
        }
    }

    // Finite elements, not all zero; kCommon: none very small.
    template <bool kCommon> __device__ __forceinline__ void add_rows(const uint4 (&tile)[kUnroll])
    {
        flags |= kFlagRows | kFlagNz;
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            u32 x[kPerVector];
            elements_of(tile[u], x);
#pragma unroll
            for (int i = 0; i < kPerVector; i++)
                if (kCommon)
                    add_common(x[i]);
                else
                    add_finite(x[i]);
        }
    }

    // Not unrolled: this is much code, and the way of tiles above is to stay in the instruction cache.
    __device__ __forceinline__ void add_any(const uint4 (&tile)[kUnroll], u64 first)
    {
#pragma unroll 1
        for (int u = 0; u < kUnroll; u++)
            add_each(chosen(tile, u), first + u * (kThreads * kPerVector));
    }

    __device__ __forceinline__ void add_each(uint4 v, u64 first)
    {
        u32 x[kPerVector];
        elements_of(v, x);
#pragma unroll
        for (int i = 0; i < kPerVector; i++)
            add(x[i], first + i);
    }

    __device__ __forceinline__ void add_element(const void *p, u64 index)
    {
        u32 bits = Element::load(p);
        if (kStats && !Element::nan(bits))
            extremes.choose_one(bits, index);
        extremes.zeros += is_zero(bits);
        add(bits, index);
    }

    // ---- flush ----

    // Shared memory of both ways to end, one after the other. A block has 3 KiB beside its rows: with more, L1 shrinks from
    // 60 to 28 KiB (H100, H200), and loads in flight take 48.
    struct Ending {
        i64 sums[kRows][4];
        u32 flags, skipped;
    };
    static __device__ __forceinline__ Ending &ending()
    {
        __shared__ Ending shared;
        return shared;
    }

    // What all threads have in row g, by a warp: the squares in 32-bit pieces, the elements.
    __device__ void sum_row(int g, i64 *sums) const
    {
        const int lane = threadIdx.x % kWarp;
        const ulonglong2 *row = (const ulonglong2 *)(column + g * kRowBytes) - threadIdx.x;
        i64 low = 0, middle = 0, high = 0, elements = 0;
        bool some = false;
#pragma unroll 4
        for (int k = lane; k < kThreads; k += kWarp) {
            ulonglong2 a = row[k];
            some |= (a.x | a.y) != 0;
            low += (u32)a.x;
            middle += (i64)(a.x >> 32);
            high += (i64)(a.y & 0xffff);
            elements += (i64)a.y >> 16;
        }
        if (__any_sync(kFullMask, some)) {
            low = warp_sum(low);
            middle = warp_sum(middle);
            high = warp_sum(high);
            elements = warp_sum(elements);
        }
        if (lane == 0) {
            sums[0] = low;
            sums[1] = middle;
            sums[2] = high;
            sums[3] = elements;
        }
    }

    // Digit j of the sum of squares: row g counts from bit 16g + 2. And of the sum: from bit 8g + 1.
    static __device__ u64 square_digit(const i64 (*sums)[4], int j)
    {
        i64 d = 0;
        for (int g = max(2 * j - 8, 0); g <= min(2 * j + 1, kRows - 1); g++)
            for (int k = 0; k < 3; k++)
                d += digit_of(sums[g][k], 16 * g + 2 + 32 * k, j);
        return (u64)d;
    }
    static __device__ u64 sum_digit(const i64 (*sums)[4], int j)
    {
        i64 d = 0;
        for (int g = max(4 * j - 8, 0); g <= min(4 * j + 3, kRows - 1); g++)
            d += digit_of(sums[g][3], 8 * g + 1, j);
        return (u64)d;
    }

    // Row g as joined by sum_row, to a thread's sums.
    static __device__ __forceinline__ void add_row(MomentSums &to, const i64 (&row)[4], int g)
    {
        const double unit = Window::power(8 * g - 149), unit_of_squares = Window::power(16 * g - 298);
        to.sum.add((double)(u32)row[3] * unit);
        to.sum.add((double)(int)(row[3] >> 32) * 0x1p32 * unit);
#pragma unroll
        for (int k = 0; k < 3; k++)
            to.squares.add((double)row[k] * Window::power(32 * k) * unit_of_squares);
    }

    // As flush, but the sums are left in a few doubles. False if these do not hold them: then none are left, nor words. Whole
    // block.
    __device__ bool flush_sums(const SegmentArgs &args, const unsigned char *row, u64 elements, u64 *words,
                               SumsPartial *partial)
    {
        auto &sums = ending().sums;
        u32 &flags_sum = ending().flags, &skipped_sum = ending().skipped;
        const int warp = threadIdx.x / kWarp;
        const u32 others = own_words(args.layout) - (kStats ? 6 : 0), f = warp_or(flags);
        MomentSums all = window.sums();
        if (threadIdx.x == 0)
            flags_sum = skipped_sum = 0;
        const bool rows = __syncthreads_or(f & kFlagRows);
        if (rows) {
            for (int g = warp; g < kRows; g += kThreads / kWarp)
                sum_row(g, sums[g]);
            __syncthreads();
            if (threadIdx.x < kRows)
                add_row(all, sums[threadIdx.x], (int)threadIdx.x);
        }
        if (threadIdx.x % kWarp == 0)
            atomicOr(&flags_sum, f & ~kFlagRows);
        if (skipped)
            atomicAdd(&skipped_sum, skipped);
        const bool fits = join_block<kThreads / kWarp>(all);
        if (threadIdx.x == 0)
            *partial = SumsPartial(fits ? all : MomentSums{});
        if (!fits)
            return false;
        if (threadIdx.x < others)
            words[threadIdx.x] = 0;
        if (kStats)
            extremes.template write<kThreads>(args, row, words + others);
        if (threadIdx.x == 0)
            write_tail(words + own_words(args.layout), elements, skipped_sum, flags_sum);
        return true;
    }

    __device__ void flush(const SegmentArgs &args, const unsigned char *row, void *, u64 elements, u64 *partial)
    {
        auto &sums = ending().sums;
        u32 &flags_sum = ending().flags, &skipped_sum = ending().skipped;
        __syncthreads(); // flush_sums has read them
        if (threadIdx.x == 0)
            flags_sum = skipped_sum = 0;
        empty_window();
        __syncthreads();
        for (int g = threadIdx.x / kWarp; g < kRows; g += kThreads / kWarp)
            sum_row(g, sums[g]);
        u32 f = warp_or(flags);
        if (threadIdx.x % kWarp == 0)
            atomicOr(&flags_sum, f);
        if (skipped)
            atomicAdd(&skipped_sum, skipped);
        __syncthreads();
        const u32 sum = 2 * rk_sum_limbs(args.layout), squares = 2 * rk_square_limbs(args.layout), j = threadIdx.x;
        if (j < sum)
            partial[j] = sum_digit(sums, (int)j);
        else if (j < sum + squares)
            partial[j] = square_digit(sums, (int)(j - sum));
        if (kStats)
            extremes.template write<kThreads>(args, row, partial + sum + squares);
        if (j == 0)
            write_tail(partial + own_words(args.layout), elements, skipped_sum, flags_sum & ~kFlagRows);
    }
};

template <class Element, int kColumns> SegmentKernel near_kernel()
{
    using Any = Moments32<Element, kColumns, false>;
    return near_rows<NearMoments32<Element, Any::kThreads, Any::kUnroll>, Any>();
}

template <class Element, int kColumns> SegmentKernel bounded(BoundsOf of, bool is_long)
{
    using Any = Moments32<Element, kColumns, false>;
    if (is_long)
        return of == BoundsOf::Sum       ? bounded_long_kernel<BoundedRow<BoundsOf::Sum, Element, 256, 4>>()
               : of == BoundsOf::Squares ? bounded_long_kernel<BoundedRow<BoundsOf::Squares, Element, 256, 4>>()
                                         : bounded_long_kernel<BoundedRow<BoundsOf::Spread, Element, 256, 4>>();
    constexpr bool kF16 = std::is_same_v<Element, F16>; // others have a kernel for sums that finishes means
    return of == BoundsOf::Sum       ? bounded_kernel<BoundsOf::Sum, kF16, Element, Any>()
           : of == BoundsOf::Squares ? bounded_kernel<BoundsOf::Squares, true, Element, Any>()
                                     : bounded_kernel<BoundsOf::Spread, false, Element, Any>();
}

// The columns of a block are its shared memory: one large block an SM where the device allows it, else 48 KiB.
template <class Element, bool kStats> SegmentKernel pick(bool large_shared)
{
    using Large = Moments32<Element, 384, kStats>;
    using Small = Moments32<Element, 96, kStats>;
    if constexpr (kStats)
        return large_shared ? segment_kernel<Large>() : segment_kernel<Small>();
    else
        return large_shared ? list_kernels<Large>() : list_kernels<Small>();
}

} // namespace

template <Moments32Part kPart> SegmentKernel moments_f32_part(BoundsOf of, bool is_long, bool large_shared)
{
    using Part = Moments32Part;
    constexpr bool kBounded = kPart >= Part::BoundedF16, kStats = !kBounded && kPart >= Part::StatsF16,
                   kNear = !kBounded && !kStats && kPart >= Part::NearF16;
    constexpr bool kF16 = kPart == Part::F16 || kPart == Part::NearF16 || kPart == Part::StatsF16 || kPart == Part::BoundedF16;
    constexpr bool kF32 = kPart == Part::F32 || kPart == Part::NearF32 || kPart == Part::StatsF32 || kPart == Part::BoundedF32;
    using Element = std::conditional_t<kF16, F16, std::conditional_t<kF32, F32, Bf16>>;
    if constexpr (kBounded)
        return large_shared ? bounded<Element, 384>(of, is_long) : bounded<Element, 96>(of, is_long);
    else if constexpr (kNear)
        return large_shared ? near_kernel<Element, 384>() : near_kernel<Element, 96>();
    else
        return pick<Element, kStats>(large_shared);
}

#define PARTS(X) \
    X(F16)       \
    X(Bf16)      \
    X(F32) X(NearF16) X(NearBf16) X(NearF32) X(StatsF16) X(StatsBf16) X(StatsF32) X(BoundedF16) X(BoundedBf16) X(BoundedF32)
#define PART(of) template SegmentKernel moments_f32_part<Moments32Part::of>(BoundsOf, bool, bool);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
