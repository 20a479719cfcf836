// Exact sums, sums of squares and sums of magnitudes of integers, and the rest of `stats`: in registers, widened as they
// are read. A thread has its sum in 64 bits and a count of carries, its squares in 128 bits and carries where a square
// takes more than 64.
#include "kernels/cuda/exact/extremes_lane.cuh"
#include "kernels/cuda/ops/registry.h"
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/lines.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

template <class T, class U, class S> struct Integer { // T: the type, U and S: unsigned and signed of its width
    using Type = T;
    using Bits = U;
    using Key = S;
    static constexpr bool kSigned = (T)-1 < (T)0;
    static constexpr bool kAllKeys = true;
    static constexpr U kTurn = kSigned ? 0 : (U)((U)1 << (8 * sizeof(U) - 1));
    static __device__ __forceinline__ S key(U bits) { return (S)(U)(bits ^ kTurn); }
    static __device__ __forceinline__ U bits(S key) { return (U)((U)key ^ kTurn); }
    static __device__ __forceinline__ U load(const void *p) { return *(const U *)p; }
    static __device__ __forceinline__ u64 own(U bits) { return bits; }
    static __device__ __forceinline__ bool nan(U) { return false; }
    // |x|, and x < 0
    static __device__ __forceinline__ U magnitude(U bits) { return kSigned && (S)bits < 0 ? (U)(0 - bits) : bits; }
    static __device__ __forceinline__ bool negative(U bits) { return kSigned && (S)bits < 0; }
};

// For stats alone; their other results come from counts (plan.h).
struct Truth {
    using Type = uint8_t;
    using Bits = uint8_t;
    using Key = int8_t;
    static constexpr bool kSigned = false, kAllKeys = true;
    static __device__ __forceinline__ Key key(Bits bits) { return bits != 0; }
    static __device__ __forceinline__ Bits bits(Key key) { return (Bits)key; }
    static __device__ __forceinline__ Bits load(const void *p) { return *(const Bits *)p; }
    static __device__ __forceinline__ u64 own(Bits bits) { return bits; }
    static __device__ __forceinline__ bool nan(Bits) { return false; }
    static __device__ __forceinline__ Bits magnitude(Bits bits) { return bits != 0; }
    static __device__ __forceinline__ bool negative(Bits) { return false; }
};

} // namespace

template <> constexpr bool kTruths<Truth> = true;

namespace {

// What is wanted beside the sum.
enum Want { kMagnitudes, kSquares, kStatistics };

template <class Element, Want kWant> struct MomentsInt {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kUnfilled;
    static constexpr int kWords = kDigitsInt + 6 + 6;
    static constexpr int kBlocksPerSm = kWant == kStatistics ? 3 : 4;
    static constexpr u32 kMaxPerThread = 1u << 30;
    static constexpr bool kWide = sizeof(typename Element::Bits) == 8; // else 2^30 elements and their sum fit 64 bits
    static constexpr bool kWideSquare = sizeof(typename Element::Bits) >= 4;
    static size_t shared_bytes() { return 0; }
    using Bits = typename Element::Bits;

    u64 sum;       // two's complement
    int carries;   // of the sum, in units of 2^64
    u64 square[2]; // low and, of types from 32 bits on, high
    u32 square_carries;
    Extremes<Element, 1, 16 / sizeof(Bits), 0> extremes;

    __device__ __forceinline__ void init(void *, const SegmentArgs &)
    {
        sum = square[0] = square[1] = 0;
        carries = 0;
        square_carries = 0;
        extremes.init();
    }

    __device__ __forceinline__ void add_square(u64 m)
    {
        u64 low = m * m;
        square[0] += low;
        if (!kWideSquare)
            return;
        u64 carry = square[0] < low, high = (kWide ? __umul64hi(m, m) : 0) + carry; // high of a square is below 2^64 - 1
        square[1] += high;
        if (kWide)
            square_carries += square[1] < high;
    }

    __device__ __forceinline__ void add(Bits bits)
    {
        u64 m = Element::magnitude(bits);
        bool negative = kWant != kMagnitudes && Element::negative(bits);
        u64 x = negative ? 0 - m : m;
        sum += x;
        if (kWide) {
            carries += sum < x;
            carries -= negative;
        }
        if (kWant != kMagnitudes)
            add_square(m);
        if (kWant == kStatistics)
            extremes.zeros += bits == 0;
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64 first)
    {
        constexpr int kBytes = sizeof(Bits);
        if (kWant == kStatistics) {
            typename Element::Key low = extremes.kFirst, high = extremes.kLast;
            each_element<kBytes>(v, [&](Bits bits, int) {
                typename Element::Key key = Element::key(bits);
                low = key < low ? key : low;
                high = key > high ? key : high;
            });
            extremes.choose(low, high, first);
        }
        each_element<kBytes>(v, [&](Bits bits, int) { add(bits); });
    }

    __device__ __forceinline__ void add_element(const void *p, u64 index)
    {
        Bits bits = Element::load(p);
        if (kWant == kStatistics)
            extremes.choose_one(bits, index);
        add(bits);
    }

    // Walking
    __device__ __forceinline__ void add(Bits bits, u64) { add(bits); }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        u64 other = __shfl_xor_sync(mask, sum, distance);
        sum += other;
        if (kWide)
            carries += __shfl_xor_sync(mask, carries, distance) + (sum < other);
        if (kWant == kMagnitudes)
            return;
        u64 low = __shfl_xor_sync(mask, square[0], distance), high = __shfl_xor_sync(mask, square[1], distance);
        square_carries += __shfl_xor_sync(mask, square_carries, distance);
        square[0] += low;
        u64 carry = square[0] < low;
        square[1] += high;
        square_carries += square[1] < high;
        square[1] += carry;
        square_carries += square[1] < carry;
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &args, u32 j) const
    {
        const u32 sums = 2 * rk_sum_limbs(args.layout);
        return j >= sums ? square_digit(j - sums) : sum_digit(j);
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return 0; }

    __device__ __forceinline__ u64 sum_digit(u32 j) const
    {
        i64 high = kWide ? carries : Element::kSigned && kWant != kMagnitudes ? (i64)sum >> 63 : 0;
        return j == 0 ? (u32)sum : j == 1 ? sum >> 32 : j == 2 ? (u64)high : 0;
    }
    __device__ __forceinline__ u64 square_digit(u32 j) const
    {
        return j < 4 ? (u32)(square[j / 2] >> (32 * (j % 2))) : j == 4 ? square_carries : 0;
    }

    __device__ void flush(const SegmentArgs &args, const unsigned char *row, void *, u64 elements, u64 *partial)
    {
        __shared__ i64 digits[kDigitsInt + 6];
        const u32 sums = 2 * rk_sum_limbs(args.layout), squares = 2 * rk_square_limbs(args.layout);
        if (threadIdx.x < kDigitsInt + 6)
            digits[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            u64 s = warp_sum(i < 3 ? sum_digit(i) : square_digit(i - 3));
            if (threadIdx.x % kWarp == 0)
                atomicAdd((u64 *)&digits[i < 3 ? i : kDigitsInt + i - 3], s);
        }
        __syncthreads();
        if (threadIdx.x < sums + squares)
            partial[threadIdx.x] = (u64)digits[threadIdx.x < sums ? threadIdx.x : kDigitsInt + threadIdx.x - sums];
        if (kWant == kStatistics)
            extremes.template write<kThreads>(args, row, partial + sums + squares);
        if (threadIdx.x == 0)
            write_tail(partial + own_words(args.layout), elements, 0, 0);
    }
};

// Stats of lines that threads walk along
template <class Element> struct StatsWalk {
    using Bits = typename Element::Bits;

    MomentsInt<Element, kSquares> moments;
    Places<Element> places;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        moments.init(NULL, args);
        places.init(false);
    }
    __device__ __forceinline__ void add(Bits bits, u64 index)
    {
        const Bits one[1] = {bits};
        moments.add(bits);
        places.template add<1>(one, 1, index, 1);
    }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        moments.join_lane(mask, distance);
        places.join_lane(mask, distance);
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &args, u32 j) const
    {
        const u32 digits = digit_words(args.layout);
        return j < digits ? moments.word(args, j) : places.word(args, j - digits);
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return 0; }
};

template <class Element, Want kWant> SegmentKernel pick()
{
    if constexpr (kWant == kStatistics)
        return row_and_walk_kernels<MomentsInt<Element, kWant>, StatsWalk<Element>>();
    else
        return row_and_walk_kernels<MomentsInt<Element, kWant>>();
}

template <class Element> SegmentKernel pick(int layout)
{
    if constexpr (Element::kSigned)
        if (layout == RP_STATE_ABSINT)
            return pick<Element, kMagnitudes>();
    return rk_is_stats(layout) ? pick<Element, kStatistics>() : pick<Element, kSquares>();
}

} // namespace

template <IntPart kPart> SegmentKernel moments_int_part(int layout, int dtype)
{
    if constexpr (kPart == IntPart::OneByte)
        return dtype == RP_BOOL ? pick<Truth, kStatistics>()
               : dtype == RP_I8 ? pick<Integer<int8_t, uint8_t, int8_t>>(layout)
                                : pick<Integer<uint8_t, uint8_t, int8_t>>(layout);
    else if constexpr (kPart == IntPart::TwoBytes)
        return dtype == RP_I16 ? pick<Integer<int16_t, uint16_t, int16_t>>(layout)
                               : pick<Integer<uint16_t, uint16_t, int16_t>>(layout);
    else if constexpr (kPart == IntPart::FourBytes)
        return dtype == RP_I32 ? pick<Integer<int32_t, u32, int32_t>>(layout) : pick<Integer<u32, u32, int32_t>>(layout);
    else
        return dtype == RP_I64 ? pick<Integer<i64, u64, i64>>(layout) : pick<Integer<u64, u64, i64>>(layout);
}

#define PARTS(X) X(OneByte) X(TwoBytes) X(FourBytes) X(EightBytes)
#define PART(of) template SegmentKernel moments_int_part<IntPart::of>(int layout, int dtype);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
