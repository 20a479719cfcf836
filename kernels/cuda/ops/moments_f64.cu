// Exact sums and sums of squares of f64 in one pass; for `stats` also the rest of it.
//
// x^2 is p + q exactly: p = fl(x^2), q = fma(x, x, -p) (Dekker's TwoProduct). Sums are kept in levels: a double that holds
// a large power of two, the anchor, and on top of it the sum so far. Adding r rounds it to a multiple of the level's last
// place and leaves an exactly known rest (Fast2Sum; AccSum of Rump, Ogita and Oishi splits so), which goes to the next
// level. Since no level ever leaves its binade, bits(level) - bits(anchor) is its sum as an integer.
//
// With all |x| < 2^K and at most 2^12 elements a thread the anchors are 1.5 * 2^k for
//     x      K+13,  K-27                     last places 2^(K-39),  2^(K-79)
//     p, q   2K+13, 2K-26, 2K-65, 2K-104     last places 2^(2K-39), 2^(2K-78), 2^(2K-117), 2^(2K-156)
// q starts at the second level. A rest behind the last level, and an element beyond 2^K or so small that p and q would
// underflow, goes to the block's long accumulator in shared memory: right for any data, fast if all but a few elements
// lie within 26 binades. K comes from the first tile; should a later tile be larger, the block empties its levels into the
// accumulator and begins anew with a larger K.
#include "kernels/cuda/exact/extremes_tile.cuh"

namespace rk {
namespace {

constexpr int kSumDigits = 2 * RK_LIMBS64, kSquareDigits = 2 * RK_SQUARE_LIMBS64, kLevels = 6;
constexpr int kMostK = 480, kLeastK = -400, kMargin = 5; // binades above the first tile's largest element
constexpr u32 kLeastHigh = (u32)(1023 - 480) << 20;      // high word of 2^-480: below it q could underflow

// The exponent of level l's anchor: two for x, four for p and q.
__device__ __forceinline__ int anchor_of(int l, int k) { return l < 2 ? k + 13 - 40 * l : 2 * k + 13 - 39 * (l - 2); }
__device__ __forceinline__ double anchor(int e) { return __hiloint2double((e + 1023) << 20 | 0x80000, 0); } // 1.5 * 2^e

// level += r, rounded to the level's last place; r becomes the rest
__device__ __forceinline__ void put(double &level, double &r)
{
    double t = __dadd_rn(level, r);
    r = __dsub_rn(r, __dsub_rn(t, level));
    level = t;
}

// What a block shares: its long accumulator in carry-save digits, and K.
struct Long {
    i64 digits[kSumDigits + kSquareDigits];
    i64 levels[kLevels];
    u32 largest; // high word of the largest element so far
};

template <bool kStats> struct Moments64 {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr int kWords = kSumDigits + kSquareDigits + (kStats ? 6 : 0);
    static constexpr int kBlocksPerSm = 2;
    static constexpr u32 kMaxPerThread = 1u << 12;
    static size_t shared_bytes() { return sizeof(Long); }

    Long *block;
    double level[kLevels];
    u32 limit; // high word of 2^K; 0: no K yet
    u32 flags, skipped;
    bool skip, one_infinity;
    Extremes<F64, 1, 0> extremes; // stats

    __device__ __forceinline__ void init(void *shared, const SegmentArgs &args)
    {
        block = (Long *)shared;
        for (int j = threadIdx.x; j < kSumDigits + kSquareDigits; j += kThreads)
            block->digits[j] = 0;
        if (threadIdx.x == 0)
            block->largest = 0;
        limit = flags = skipped = 0;
        skip = args.skip;
        one_infinity = rk_is_unsigned_sum(args.layout);
        extremes.init();
        __syncthreads();
    }

    // ---- the long accumulator ----

    // += or -= m * 2^offset in units of the digits' first one
    static __device__ void add_digits(i64 *digits, u64 m, int offset, bool negative)
    {
        u64 low = (m & 0xffffffffu) << (offset & 31), high = ((m >> 32) << (offset & 31)) + (low >> 32);
        u64 part[3] = {(u32)low, (u32)high, high >> 32};
        for (int k = 0; k < 3; k++)
            if (part[k])
                atomicAdd((u64 *)&digits[(offset >> 5) + k], negative ? 0 - part[k] : part[k]);
    }

    // A finite double, into the sum or the sum of squares (unit 2^e0).
    static __device__ void add_double(i64 *digits, int e0, double v)
    {
        rk_number x = rk_number_of(rk_format_of(RP_F64), (u64)__double_as_longlong(v));
        add_digits(digits, x.mantissa, x.unit - e0, x.negative);
    }

    // An element that the levels do not take. Infinities and NaNs end here.
    __device__ __noinline__ static u32 add_outside(Long *block, double v, bool one_infinity)
    {
        u64 bits = (u64)__double_as_longlong(v);
        if (bits << 1 >= 0xffe0000000000000ull)
            return F64::nan(bits) ? RK_NAN : bits >> 63 && !one_infinity ? RK_NINF : RK_PINF;
        rk_number x = rk_number_of(rk_format_of(RP_F64), bits);
        unsigned __int128 square = (unsigned __int128)x.mantissa * x.mantissa;
        int offset = 2 * (x.unit - RK_E0_64);
        add_digits(block->digits, x.mantissa, x.unit - RK_E0_64, x.negative);
        add_digits(block->digits + kSumDigits, (u64)square, offset, false);
        add_digits(block->digits + kSumDigits, (u64)(square >> 64), offset + 64, false);
        return 0;
    }

    __device__ __noinline__ static void add_rests(Long *block, double x, double p, double q)
    {
        add_double(block->digits, RK_E0_64, x);
        add_double(block->digits + kSumDigits, 2 * RK_E0_64, p);
        add_double(block->digits + kSumDigits, 2 * RK_E0_64, q);
    }

    // Whole block: the levels' sums into the accumulator. They are in units of their anchors' last places.
    __device__ __forceinline__ void empty_levels()
    {
        if (limit == 0)
            return;
        const int k = (int)(limit >> 20) - 1023;
        __syncthreads();
        if (threadIdx.x < kLevels)
            block->levels[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll
        for (int l = 0; l < kLevels; l++) { // 2^51 x 256 threads fit
            i64 v = warp_sum(__double_as_longlong(level[l]) - __double_as_longlong(anchor(anchor_of(l, k))));
            if (threadIdx.x % kWarp == 0)
                atomicAdd((u64 *)&block->levels[l], (u64)v);
        }
        __syncthreads();
        for (int j = threadIdx.x; j < kSumDigits + kSquareDigits; j += kThreads) {
            const bool sum = j < kSumDigits;
            i64 d = 0;
            for (int l = sum ? 0 : 2; l < (sum ? 2 : kLevels); l++)
                d += digit_of(block->levels[l], anchor_of(l, k) - 52 - (sum ? RK_E0_64 : 2 * RK_E0_64),
                              sum ? j : j - kSumDigits);
            block->digits[j] += d;
        }
        __syncthreads();
    }

    // The larger magnitude of two elements, by their high words; infinities and NaNs do not count.
    static __device__ __forceinline__ u32 top_of(uint4 v)
    {
        u32 a = v.y & 0x7fffffffu, b = v.w & 0x7fffffffu;
        return max(a < 0x7ff00000u ? a : 0, b < 0x7ff00000u ? b : 0);
    }

    // Is there an element beyond K in the block's next tile, or in the rest of the row? Then begin anew with a larger one.
    static constexpr bool kPrepares = true, kTiles = false;
    static constexpr Filling kFilling = kUnfilled;
    __device__ __forceinline__ bool prepare(const uint4 (&tile)[kUnroll])
    {
        u32 top = 0;
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            top = max(top, top_of(tile[u]));
        if (__syncthreads_or(top >= limit))
            begin(top);
        return true;
    }
    __device__ __forceinline__ void prepare_rest(const uint4 *vectors, u64 from, u64 to)
    {
        u32 top = 0;
        for (u64 v = from + threadIdx.x; v < to; v += kThreads)
            top = max(top, top_of(vectors[v]));
        if (__syncthreads_or(top >= limit))
            begin(top);
    }

    __device__ __forceinline__ void begin(u32 top)
    {
        empty_levels();
        atomicMax(&block->largest, top);
        __syncthreads();
        int k = (int)(block->largest >> 20) - 1022 + kMargin;
        k = k > kMostK ? kMostK : k < kLeastK ? kLeastK : k;
        u32 next = (u32)(k + 1023) << 20;
        limit = next > limit ? next : limit; // at the most already: what is larger goes outside, one by one
#pragma unroll
        for (int l = 0; l < kLevels; l++)
            level[l] = anchor(anchor_of(l, (int)(limit >> 20) - 1023));
        __syncthreads();
    }

    // ---- elements ----

    __device__ __forceinline__ void add(u32 low, u32 high, u64 index)
    {
        u32 magnitude = high & 0x7fffffffu;
        double x = __hiloint2double((int)high, (int)low);
        if (magnitude - kLeastHigh < limit - kLeastHigh) {
            flags |= kFlagNz;
        } else { // below or beyond, or zero
            outside(x, index);
            x = 0;
        }
        double p = __dmul_rn(x, x), q = __fma_rn(x, x, -p);
        put(level[0], x);
        put(level[1], x);
        put(level[2], p);
        put(level[3], p);
        put(level[4], p);
        put(level[5], p);
        put(level[3], q);
        put(level[4], q);
        put(level[5], q);
        long long rest = __double_as_longlong(x) | __double_as_longlong(p) | __double_as_longlong(q);
        if (rest << 1)
            add_rests(block, x, p, q);
    }

    __device__ __forceinline__ void outside(double x, u64 index)
    {
        if (x == 0) {
            flags |= __double_as_longlong(x) ? 0u : (u32)kFlagNz;
            extremes.zeros++;
            return;
        }
        bool nan = x != x;
        extremes.nans += nan;
        if (nan && skip) {
            skipped++;
            return;
        }
        if (nan)
            extremes.note_nan(index);
        flags |= kFlagNz | add_outside(block, x, one_infinity);
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64 first)
    {
        if (kStats) {
            u64 a = (u64)v.y << 32 | v.x, b = (u64)v.w << 32 | v.z;
            i64 low = extremes.kFirst, high = extremes.kLast;
            if (!F64::nan(a))
                low = high = F64::key(a);
            if (!F64::nan(b)) {
                low = min(low, F64::key(b));
                high = max(high, F64::key(b));
            }
            extremes.choose(low, high, first);
        }
        add(v.x, v.y, first);
        add(v.z, v.w, first + 1);
    }

    __device__ __forceinline__ void add_element(const void *p, u64 index)
    {
        u64 bits = F64::load(p);
        if (kStats && !F64::nan(bits))
            extremes.choose_one(bits, index);
        add((u32)bits, (u32)(bits >> 32), index);
    }

    __device__ void flush(const SegmentArgs &args, const unsigned char *row, void *, u64 elements, u64 *partial)
    {
        __shared__ u32 flags_sum, skipped_sum;
        __syncthreads();
        empty_levels();
        if (threadIdx.x == 0)
            flags_sum = skipped_sum = 0;
        __syncthreads();
        u32 f = warp_or(flags);
        if (threadIdx.x % kWarp == 0)
            atomicOr(&flags_sum, f);
        if (skipped)
            atomicAdd(&skipped_sum, skipped);
        const int sum = 2 * rk_sum_limbs(args.layout), squares = 2 * rk_square_limbs(args.layout);
        for (int j = threadIdx.x; j < sum + squares; j += kThreads) {
            // Hand each digit's upper half to the next one, so that 2^30 partials can be added before they carry.
            const i64 *d = block->digits + (j < sum ? j : kSumDigits + j - sum);
            const bool first = j == 0 || j == sum, last = j == sum - 1 || j == sum + squares - 1;
            partial[j] = (u64)((last ? d[0] : (i64)(u32)d[0]) + (first ? 0 : d[-1] >> 32));
        }
        if (kStats)
            extremes.template write<kThreads>(args, row, partial + sum + squares);
        __syncthreads();
        if (threadIdx.x == 0)
            write_tail(partial + own_words(args.layout), elements, skipped_sum, flags_sum);
    }
};

} // namespace

SegmentKernel moments_f64_kernel(bool stats)
{
    return stats ? segment_kernel<Moments64<true>>() : segment_kernel<Moments64<false>>();
}

} // namespace rk
