// Exact sums of f64 in private base-2^48 digit columns in shared memory, integers only.
//
// A thread owns 45 int64 digits that count units of 2^(48j - 1074). The field over 48 of an element, its exponent's but one,
// says which two digits it goes to. With the exponent lowered by as many digits it is a multiple of 2^-1074 below 2^-974,
// and is cut by additions of doubles. Adding a large number, the anchor, rounds it to a multiple of 2^(49-1074); the bits of
// the sum then hold the number of these units in two's complement. Adding another anchor does the same with the rest. So signs,
// hidden bits and subnormals need no instructions of their own. The rest is at most 2^48 units, the upper part 2^52: a digit
// has room for 1900 elements before it must carry, whatever the data. Narrower digits would leave less of an SM's memory to
// loads in flight, wider ones would have to carry more often. NaNs and infinities add garbage to the digits. The largest
// exponent of a tile shows them, and the digits are then discarded.
#pragma once

#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/segment.cuh"

namespace rk {

// The largest upper word of some f64, doubled; and the least such word of an infinity or NaN.
constexpr u32 kSpecialUpper = 0x7ffu << 21;
template <int kCount> __device__ __forceinline__ u32 most_of(const uint4 (&v)[kCount])
{
    u32 most = 0;
#pragma unroll
    for (int u = 0; u < kCount; u++)
        most = max(most, max(2 * v[u].y, 2 * v[u].w));
    return most;
}

// kAbs: perhaps of magnitudes
template <int kColumns, int kInFlight, bool kSkip, bool kAbs = false> struct DigitSum {
    static constexpr int kThreads = kColumns, kUnroll = kInFlight;
    static constexpr int kBits = 48;   // of a digit
    static constexpr int kColumn = 45; // 2046 + 53 + 1 bits, those of a count, and a sign
    static constexpr i64 kMask = ((i64)1 << kBits) - 1;
    static constexpr bool kPrepares = true, kTiles = true;
    static constexpr Filling kFilling = kPadded;
    static constexpr u64 kPadding = 1ull << 63; // -0.0
    static constexpr int kWords = kDigits64;
    static constexpr int kBlocksPerSm = 1;
    static constexpr u32 kMaxPerThread = 1u << 21;
    static size_t shared_bytes() { return sizeof(i64) * kColumn * kThreads; }

    i64 *column; // digit j of this thread: column[j * kThreads]
    u32 largest; // nonzero if an element's upper word, without its sign, was
    int signs;   // AND of all high words: negative if every element had the sign bit
    u32 flags, skipped;
    u32 keep; // all bits but, for sums of magnitudes, the sign
    int turn; // the digit that carries next

    __device__ __forceinline__ void init(void *shared, const SegmentArgs &args)
    {
        keep = args.keep;
        column = (i64 *)shared + threadIdx.x;
        largest = flags = skipped = 0;
        turn = 0;
        signs = -1;
#pragma unroll 5
        for (int j = 0; j < kColumn; j++)
            column[j * kThreads] = 0;
    }

    // Carries what digit j has beyond its 48 bits to the next digit.
    __device__ __forceinline__ void carry(int j)
    {
        i64 *d = column + j * kThreads;
        const i64 all = d[0];
        d[0] = all & kMask;
        d[kThreads] += all >> kBits;
    }

    // One digit carries after every tile, in turn; the top one need not.
    __device__ __forceinline__ bool prepare(const uint4 (&)[kUnroll])
    {
        static_assert((kColumn * kUnroll + 2) * 2 < 1900); // a row's head and tail count double
        carry(turn);
        turn = turn < kColumn - 2 ? turn + 1 : 0;
        return true;
    }

    // 1.5 times 2^52 units of each part
    static constexpr u32 kUpperAnchor = (52 + kBits + 1 + 1023 - 1074) << 20 | 0x80000, kLowerAnchor = 0x180000;

    // An element's two parts, and which digit the lower one goes to.
    struct Parts {
        u32 digit;
        u64 lower, upper; // with their anchors
    };
    static __device__ __forceinline__ Parts parts_of(u32 low, u32 high)
    {
        const u32 field = 2 * high >> 21, digit = field * 1365 >> 16; // (field - 1) / 48 of any field but 0, of which it is 0
        const double upper_anchor = __hiloint2double((int)kUpperAnchor, 0),
                     lower_anchor = __hiloint2double((int)kLowerAnchor, 0);
        const double x = __hiloint2double((int)(high - digit * ((u32)kBits << 20)), (int)low);
        const double upper = __dadd_rn(x, upper_anchor), rest = __dsub_rn(x, __dsub_rn(upper, upper_anchor));
        return {digit, (u64)__double_as_longlong(__dadd_rn(rest, lower_anchor)), (u64)__double_as_longlong(upper)};
    }
    __device__ __forceinline__ void add(const Parts &p)
    {
        u64 *d = (u64 *)column + p.digit * kThreads;
        const u64 a0 = d[0], a1 = d[kThreads] + 2 * p.upper; // a unit of the upper part is two of the digit's
        d[0] = a0 + p.lower - ((u64)kLowerAnchor << 32);
        d[kThreads] = (u64)((u32)(a1 >> 32) - 2 * kUpperAnchor) << 32 | (u32)a1;
    }

    __device__ __forceinline__ void classify(u32 low, u32 high)
    {
        if ((high & 0x7ff00000u) == 0x7ff00000u)
            flags |= (high & 0xfffffu) | low ? RK_NAN : high >> 31 ? RK_NINF : RK_PINF;
    }

    // An infinity or NaN, rare: the flags decide from here on. A NaN to be left out becomes -0.0.
    __device__ __forceinline__ void note_special(u32 &low, u32 &high)
    {
        if (kSkip && F64::nan((u64)high << 32 | low)) {
            skipped++;
            low = 0;
            high = 0x80000000u;
        }
        classify(low, kAbs ? high & keep : high);
    }

    template <int kCount> __device__ __forceinline__ void add_vectors(uint4 (&v)[kCount])
    {
        u32 most = most_of(v);
        if (most >= kSpecialUpper) {
#pragma unroll
            for (int u = 0; u < kCount; u++) {
                note_special(v[u].x, v[u].y);
                note_special(v[u].z, v[u].w);
            }
            most = most_of(v);
        }
        largest |= most;
#pragma unroll
        for (int u = 0; u < kCount; u++) {
            if (kAbs) {
                v[u].y &= keep;
                v[u].w &= keep;
            }
            signs &= (int)(v[u].y & v[u].w);
            const Parts first = parts_of(v[u].x, v[u].y), second = parts_of(v[u].z, v[u].w);
            add(first);
            add(second);
        }
    }
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        uint4 v[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            v[u] = tile[u];
        add_vectors(v);
    }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        uint4 one[1] = {v};
        add_vectors(one);
    }

    __device__ __forceinline__ void add_element(const void *p, u64)
    {
        uint2 v = *(const uint2 *)p;
        add_vector(make_uint4(v.x, v.y, 0, 0x80000000u), 0); // with -0.0 as the second element
    }

    __device__ __forceinline__ void note(u32 more_skipped, u32 more_flags)
    {
        skipped += more_skipped;
        flags |= more_flags;
    }

    __device__ void flush(const SegmentArgs &, const unsigned char *, void *shared, u64 elements, u64 *partial)
    {
        // Of each digit the sum over all threads: of the lower 48 bits, and of what it carries. So no digit waits for another's
        // carry.
        __shared__ i64 sums[kColumn];
        __shared__ int carries[kColumn];
        __shared__ u32 flags_sum, skipped_sum;
        static_assert(kThreads <= 448); // 57 bits for a digit below
        if (threadIdx.x == 0)
            flags_sum = skipped_sum = 0;
        __syncthreads();
        int lane = threadIdx.x % kWarp;
        for (int j = threadIdx.x / kWarp; j < kColumn; j += kThreads / kWarp) {
            const i64 *row = (const i64 *)shared + j * kThreads;
            u64 s = 0;
            int carried = 0;
#pragma unroll
            for (int k = 0; k < kThreads; k += kWarp) {
                const i64 d = row[k + lane];
                s += (u64)(d & kMask);
                carried += (int)(d >> kBits);
            }
            if (s || carried)
                flags |= kFlagNz; // subnormals below 2^-1042 have a zero high word: their digits tell
            constexpr int kLow = 26;
            const u32 low = warp_add((u32)s & ((1u << kLow) - 1)), high = warp_add((u32)(s >> kLow));
            carried = (int)warp_add((u32)carried);
            if (lane == 0) {
                sums[j] = (i64)(((u64)high << kLow) + low);
                carries[j] = carried;
            }
        }
        if (signs >= 0 || largest)
            flags |= kFlagNz;
        u32 f = warp_or(flags);
        if (lane == 0 && f)
            atomicOr(&flags_sum, f);
        if (kSkip && skipped)
            atomicAdd(&skipped_sum, skipped);
        __syncthreads();
        constexpr int kOffset = -1074 - RK_E0_64; // of the first digit's units
        // Each digit borrows one from the next, for a carry may be negative. The top one carries nothing.
        auto digit = [&](int k) {
            return sums[k] + (k ? carries[k - 1] - 1 : 0) + (i64)((u64)(k < kColumn - 1 ? 1 : carries[k]) << kBits);
        };
        for (int j = threadIdx.x; j < kWords; j += kThreads) { // a sum has 57 bits: two reach a word at most
            const int to = min((32 * j + 31 - kOffset) / kBits, kColumn - 1);
            i64 word = 0;
            for (int k = (32 * j - 57 - kOffset + kBits) / kBits; k <= to; k++)
                word += digit_of(digit(k), kBits * k + kOffset, j);
            partial[j] = (u64)word;
        }
        if (threadIdx.x == 0)
            write_tail(partial + kWords, elements, skipped_sum, flags_sum);
    }
};

} // namespace rk
