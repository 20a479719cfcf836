// Exact sums of integers: widened in registers, 128 bits in a partial (four base-2^32 digits).
//
// 8-bit elements are added four at a time (dp4a with ones) and 16-bit ones two at a time, into 32 bits for one vector
// and then into 64. 64-bit elements go into 64 bits and a count of carries minus the count of negative elements.
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/tile.cuh"

namespace rk {
namespace {

// The sum of the elements in one 32-bit word of a vector.
template <class T> struct WordSum;
template <> struct WordSum<int8_t> {
    static __device__ __forceinline__ i64 of(u32 w, i64 s) { return s + __dp4a((int)w, 0x01010101, 0); }
};
template <> struct WordSum<uint8_t> {
    static __device__ __forceinline__ i64 of(u32 w, i64 s) { return s + (i64)__dp4a(w, 0x01010101u, 0u); }
};
template <> struct WordSum<int16_t> {
    static __device__ __forceinline__ i64 of(u32 w, i64 s) { return s + ((int)(w << 16) >> 16) + ((int)w >> 16); }
};
template <> struct WordSum<uint16_t> {
    static __device__ __forceinline__ i64 of(u32 w, i64 s) { return s + (w & 0xffffu) + (w >> 16); }
};
template <> struct WordSum<int32_t> {
    static __device__ __forceinline__ i64 of(u32 w, i64 s) { return s + (int)w; }
};
template <> struct WordSum<uint32_t> {
    static __device__ __forceinline__ i64 of(u32 w, i64 s) { return s + (i64)(u64)w; }
};

// A value of each warp to its digit of the block's total, kDigitsInt digits. Whole block.
template <int kWarps> struct WarpDigits {
    i64 of[kDigitsInt][kWarps];

    __device__ __forceinline__ void set(int digit, i64 v) { of[digit][threadIdx.x / kWarp] = v; }
    __device__ __forceinline__ void write(u64 elements, u64 *partial) const
    {
        __syncthreads();
        if (threadIdx.x < kDigitsInt) {
            i64 sum = 0;
#pragma unroll
            for (int w = 0; w < kWarps; w++)
                sum += of[threadIdx.x][w];
            partial[threadIdx.x] = (u64)sum;
        } else if (threadIdx.x == kDigitsInt) {
            write_tail(partial + kDigitsInt, elements, 0, 0);
        }
    }
};

// Digit j of low + high * 2^64
__device__ __forceinline__ u64 digit_of_int(u64 low, i64 high, u32 j)
{
    return j == 0 ? (u32)low : j == 1 ? low >> 32 : j == 2 ? (u64)high : 0;
}

template <class T> struct NarrowSum {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kPadded;
    static constexpr int kWords = kDigitsInt;
    using Bits = typename Width<sizeof(T)>::Bits;
    static constexpr Bits kPadding = 0;
    static constexpr int kBlocksPerSm = 4;
    static constexpr u32 kMaxPerThread = 1u << 22; // so that a block's sum fits 64 bits
    static size_t shared_bytes() { return 0; }

    i64 sum;

    __device__ __forceinline__ void init(void *, const SegmentArgs &) { sum = 0; }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        sum = WordSum<T>::of(v.x, sum);
        sum = WordSum<T>::of(v.y, sum);
        sum = WordSum<T>::of(v.z, sum);
        sum = WordSum<T>::of(v.w, sum);
    }
    __device__ __forceinline__ void add_element(const void *p, u64) { sum += *(const T *)p; }
    __device__ __forceinline__ void add(Bits bits, u64) { sum += (T)bits; }
    __device__ __forceinline__ void join_lane(u32 mask, int distance) { sum += __shfl_xor_sync(mask, sum, distance); }
    __device__ __forceinline__ void join_warp() { sum = warp_sum(sum); }
    __device__ __forceinline__ void join(const NarrowSum &o) { sum += o.sum; }
    __device__ __forceinline__ u64 word(const SegmentArgs &, u32 j) const { return digit_of_int((u64)sum, sum >> 63, j); }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ int value(const FinishArgs &a, u64, u64 *value) const
    {
        return sum_value(a, (u64)sum, sum >> 63, value);
    }
    __device__ void flush(const SegmentArgs &, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        __shared__ WarpDigits<kThreads / kWarp> digits;
        const i64 all = warp_sum(sum);
        if (threadIdx.x % kWarp < kDigitsInt)
            digits.set(threadIdx.x % kWarp, (i64)digit_of_int((u64)all, all >> 63, threadIdx.x % kWarp));
        digits.write(elements, partial);
    }
};

template <bool kSigned> struct WideSum {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kPadded;
    static constexpr int kWords = kDigitsInt;
    using Bits = u64;
    static constexpr Bits kPadding = 0;
    static constexpr int kBlocksPerSm = 4;
    static constexpr u32 kMaxPerThread = 1u << 30;
    static size_t shared_bytes() { return 0; }

    u64 low;
    int high;

    __device__ __forceinline__ void init(void *, const SegmentArgs &)
    {
        low = 0;
        high = 0;
    }
    __device__ __forceinline__ void add(u64 x)
    {
        low += x;
        high += low < x;
        if (kSigned)
            high += (int)((i64)x >> 63);
    }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        add((u64)v.y << 32 | v.x);
        add((u64)v.w << 32 | v.z);
    }
    __device__ __forceinline__ void add_element(const void *p, u64) { add(*(const u64 *)p); }
    __device__ __forceinline__ void add(Bits bits, u64) { add(bits); }
    __device__ __forceinline__ void join(const WideSum &o)
    {
        low += o.low;
        high += o.high + (low < o.low);
    }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        join({__shfl_xor_sync(mask, low, distance), __shfl_xor_sync(mask, high, distance)});
    }
    __device__ __forceinline__ void join_warp()
    {
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1)
            join_lane(kFullMask, d);
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &, u32 j) const { return digit_of_int(low, high, j); }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ int value(const FinishArgs &a, u64, u64 *value) const { return sum_value(a, low, high, value); }
    __device__ void flush(const SegmentArgs &, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        __shared__ WarpDigits<kThreads / kWarp> digits;
        const i64 d0 = warp_sum((i64)(u32)low), d1 = warp_sum((i64)(low >> 32));
        const i64 d2 = warp_sum((i64)high); // |high| < 2^32: one for each element at most
        const u32 j = threadIdx.x % kWarp;
        if (j < kDigitsInt)
            digits.set(j, j == 0 ? d0 : j == 1 ? d1 : j == 2 ? d2 : 0);
        digits.write(elements, partial);
    }
};

} // namespace

SegmentKernel sum_int_kernel(int dtype)
{
    switch (dtype) {
    case RP_I8:
        return light_kernels<NarrowSum<int8_t>>();
    case RP_U8:
        return light_kernels<NarrowSum<uint8_t>>();
    case RP_I16:
        return light_kernels<NarrowSum<int16_t>>();
    case RP_U16:
        return light_kernels<NarrowSum<uint16_t>>();
    case RP_I32:
        return light_kernels<NarrowSum<int32_t>>();
    case RP_U32:
        return light_kernels<NarrowSum<uint32_t>>();
    case RP_I64:
        return light_kernels<WideSum<true>>();
    default:
        return light_kernels<WideSum<false>>();
    }
}

} // namespace rk
