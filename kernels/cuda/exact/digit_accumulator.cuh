// Exact sums of f64 in private base-2^48 digit columns in shared memory, integers only.
//
// A thread owns 45 int64 digits that count units of 2^(48j - 1075). A signed 54-bit significand, shifted by its exponent
// field modulo 48, spans two digits; the field over 48 says which. The lower part is unsigned below 2^48, the upper one
// signed and at most 2^52: a digit has room for 1900 elements before it must carry, whatever the data. Narrower digits
// would leave less of an SM's memory to loads in flight, wider ones would have to carry more often.
// NaNs and infinities add rubbish to the digits, are noticed by the largest exponent seen in a tile, and void them.
#pragma once

#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/segment.cuh"

namespace rk {

template <int kColumns, int kInFlight, bool kSkip> struct DigitSum {
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
    u32 largest; // not zero: an element's upper word was not, but for its sign
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

    // What digit j has beyond its 48 bits goes to the next one.
    __device__ __forceinline__ void carry(int j)
    {
        i64 *d = column + j * kThreads;
        const i64 all = d[0];
        d[0] = all & kMask;
        d[kThreads] += all >> kBits;
    }

    // With every tile one digit carries, in turn. The top one need not.
    __device__ __forceinline__ bool prepare(const uint4 (&)[kUnroll])
    {
        static_assert((kColumn * kUnroll + 2) * 2 < 1900); // a row's head and tail count double
        carry(turn);
        turn = turn < kColumn - 2 ? turn + 1 : 0;
        return true;
    }

    __device__ __forceinline__ void add(u32 low, u32 high)
    {
        const u32 upper = high & 0x7fffffffu;
        const bool normal = upper >= 0x100000u;
        const u32 sign = (u32)((int)high >> 31);
        const u32 field = normal ? upper >> 20 : 1u; // a subnormal counts units of the least normal number's
        const u32 digit = field * 1366 >> 16, shift = field - digit * kBits; // field / 48 of any field
        u64 m = (u64)((high & 0xfffffu) | (normal ? 0x100000u : 0u)) << 32 | low;
        m = (m ^ ((u64)sign << 32 | sign)) + (sign & 1); // negate if negative
        i64 *d = column + digit * kThreads;
        const i64 a0 = d[0], a1 = d[kThreads];
        d[0] = a0 + ((i64)(m << shift) & kMask);
        d[kThreads] = a1 + ((i64)m >> (kBits - shift));
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
        classify(low, high & keep);
    }

    // The largest upper word, doubled
    template <int kCount> static __device__ __forceinline__ u32 most_of(const uint4 (&v)[kCount])
    {
        u32 most = 0;
#pragma unroll
        for (int u = 0; u < kCount; u++)
            most = max(most, max(2 * v[u].y, 2 * v[u].w));
        return most;
    }

    template <int kCount> __device__ __forceinline__ void add_vectors(uint4 (&v)[kCount])
    {
        u32 most = most_of(v);
        if (most >= 0x7ffu << 21) {
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
            v[u].y &= keep;
            v[u].w &= keep;
            signs &= (int)(v[u].y & v[u].w);
            add(v[u].x, v[u].y);
            add(v[u].z, v[u].w);
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
        add_vector(make_uint4(v.x, v.y, 0, 0x80000000u), 0); // beside it a -0.0
    }

    __device__ void flush(const SegmentArgs &, const unsigned char *, void *shared, u64 elements, u64 *partial)
    {
        __shared__ i64 sums[kColumn];
        __shared__ u32 flags_sum, skipped_sum;
        if (threadIdx.x == 0)
            flags_sum = skipped_sum = 0;
#pragma unroll 4
        for (int j = 0; j < kColumn - 1; j++)
            carry(j);
        __syncthreads();
        int lane = threadIdx.x % kWarp;
        for (int j = threadIdx.x / kWarp; j < kColumn; j += kThreads / kWarp) {
            const i64 *row = (const i64 *)shared + j * kThreads;
            i64 s = 0;
#pragma unroll
            for (int k = 0; k < kThreads; k += kWarp)
                s += row[k + lane];
            if (s)
                flags |= kFlagNz; // subnormals below 2^-1042 have a zero high word: their digits tell
            s = warp_sum(s);
            if (lane == 0)
                sums[j] = s;
        }
        if (signs >= 0 || largest)
            flags |= kFlagNz;
        u32 f = warp_or(flags);
        if (lane == 0 && f)
            atomicOr(&flags_sum, f);
        if (kSkip && skipped)
            atomicAdd(&skipped_sum, skipped);
        __syncthreads();
        for (int j = threadIdx.x; j < kWords; j += kThreads) { // a sum has 57 bits: two reach a word at most
            const int to = min((32 * j + 31) / kBits, kColumn - 1);
            i64 word = 0;
            for (int k = (32 * j - 57 + kBits) / kBits; k <= to; k++)
                word += digit_of(sums[k], kBits * k, j);
            partial[j] = (u64)word;
        }
        if (threadIdx.x == 0)
            write_tail(partial + kWords, elements, skipped_sum, flags_sum);
    }
};

} // namespace rk
