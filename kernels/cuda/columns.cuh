// Exact sums of f64 in private base-2^32 digit columns in shared memory, integers only.
//
// A thread owns 66 int64 digits that count units of 2^(32j - 1075). A signed 54-bit significand, shifted by the low
// five bits of its exponent field, spans three digits; the field's upper bits say which. The two lower parts are
// unsigned below 2^32, the upper one is signed: no carry is needed for 2^24 elements per thread, whatever the data.
// NaNs and infinities add rubbish to the digits, are noticed by the largest exponent seen in a tile, and void them.
#pragma once

#include "kernels/cuda/segment.cuh"

namespace rk {

template <int kColumns, int kInFlight, bool kSkip> struct DigitSum {
    static constexpr int kThreads = kColumns, kUnroll = kInFlight;
    static constexpr int kColumn = 66; // 2046 + 53 + 1 bits and a sign
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kUnfilled;
    static constexpr int kWords = kDigits64;
    static constexpr int kBlocksPerSm = 1;
    static constexpr u32 kMaxPerThread = 1u << 21;
    static size_t shared_bytes() { return sizeof(i64) * kColumn * kThreads; }

    i64 *column; // digit j of this thread: column[j * kThreads]
    u32 largest; // largest |high word| seen, exponents of infinity excluded
    int signs;   // AND of all high words: negative if every element had the sign bit
    u32 flags, skipped;
    u32 keep; // all bits but, for sums of magnitudes, the sign

    __device__ __forceinline__ void init(void *shared, const SegmentArgs &args)
    {
        keep = args.keep;
        column = (i64 *)shared + threadIdx.x;
        largest = flags = skipped = 0;
        signs = -1;
#pragma unroll 6
        for (int j = 0; j < kColumn; j++)
            column[j * kThreads] = 0;
    }

    __device__ __forceinline__ void add(u32 low, u32 high)
    {
        u32 magnitude = high & 0x7fffffffu;
        if (kSkip && (magnitude > 0x7ff00000u || (magnitude == 0x7ff00000u && low))) {
            skipped++;
            low = 0;
            high = 0x80000000u; // -0.0: adds nothing, not even to the sign rule
            magnitude = 0;
        }
        largest = max(largest, magnitude);
        signs &= (int)high;
        bool normal = magnitude >= 0x100000u;
        u32 sign = (u32)((int)high >> 31);
        u32 shift = normal ? high >> 20 : 1u; // funnel shifts use its low five bits; a subnormal has exponent field 1
        u64 m = (u64)((high & 0xfffffu) | (normal ? 0x100000u : 0u)) << 32 | low;
        m = (m ^ ((u64)sign << 32 | sign)) + (sign & 1); // negate if negative
        u32 m0 = (u32)m, m1 = (u32)(m >> 32), m2 = (u32)((int)m1 >> 31);
        u32 d0 = m0 << (shift & 31), d1 = __funnelshift_l(m0, m1, shift), d2 = __funnelshift_l(m1, m2, shift);
        i64 *d = column + ((high >> 25) & 63u) * kThreads;
        i64 a0 = d[0], a1 = d[kThreads], a2 = d[2 * kThreads];
        d[0] = a0 + (i64)(u64)d0;
        d[kThreads] = a1 + (i64)(u64)d1;
        d[2 * kThreads] = a2 + (i64)((u64)m2 << 32 | d2);
    }

    __device__ __forceinline__ void classify(u32 low, u32 high)
    {
        if ((high & 0x7ff00000u) == 0x7ff00000u)
            flags |= (high & 0xfffffu) | low ? RK_NAN : high >> 31 ? RK_NINF : RK_PINF;
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        v.y &= keep;
        v.w &= keep;
        add(v.x, v.y);
        add(v.z, v.w);
        if (largest >= 0x7ff00000u) { // rare: the flags decide from here on
            if (!kSkip || (v.x | (v.y & 0xfffffu)) == 0)
                classify(v.x, v.y);
            if (!kSkip || (v.z | (v.w & 0xfffffu)) == 0)
                classify(v.z, v.w);
            largest = 1;
        }
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
        __syncthreads();
        int lane = threadIdx.x % kWarp;
        for (int j = threadIdx.x / kWarp; j < kColumn; j += kThreads / kWarp) {
            const i64 *row = (const i64 *)shared + j * kThreads;
            i64 s = 0; // 2^21 elements x 2^33 x 384 threads fit
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
        // Hand each digit's upper half to the next one, so that 2^30 partials can be added before they carry.
        for (int j = threadIdx.x; j < kWords; j += kThreads) {
            i64 low = j < kColumn ? (i64)(u32)sums[j] : 0;
            i64 carry = j > 0 && j <= kColumn ? sums[j - 1] >> 32 : 0;
            partial[j] = (u64)(low + carry);
        }
        if (threadIdx.x == 0)
            write_tail(partial + kWords, elements, skipped_sum, flags_sum);
    }
};

} // namespace rk
