// minmax and norminf: the least and the greatest element at once, without their places. The largest magnitude is that of
// one of the two.
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/lines.cuh"

namespace rk {
namespace {

enum Kind { kInteger, kFloat };

template <int kBytes, Kind kKind> struct MinMax {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kUnfilled;
    static constexpr int kWords = 4;
    static constexpr int kBlocksPerSm = 4;
    static constexpr u32 kMaxPerThread = 1u << 30;
    static size_t shared_bytes() { return 0; }
    using Bits = typename Width<kBytes>::Bits;
    using Key = typename Width<kBytes>::Key;
    static constexpr Bits kSign = (Bits)((Bits)1 << (8 * kBytes - 1));

    Key least, most;
    Bits turn, inf;
    u32 nans;
    bool some;

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        least = (Key)(Bits)~kSign;
        most = (Key)kSign;
        turn = rk_is_signed(args.dtype) ? 0 : kSign;
        inf = (Bits)args.inf_bits;
        nans = 0;
        some = false;
    }

    __device__ __forceinline__ Key key(Bits bits) const
    {
        if (kKind == kInteger)
            return (Key)(Bits)(bits ^ turn);
        return (Key)(Bits)(bits ^ ((Bits)((Key)bits >> (8 * kBytes - 1)) & (Bits)~kSign));
    }
    __device__ __forceinline__ Bits bits(Key k) const
    {
        return kKind == kInteger ? (Bits)((Bits)k ^ turn) : (Bits)key((Bits)k);
    }

    __device__ __forceinline__ void add(Bits b)
    {
        if (kKind == kFloat && (Bits)(b & (Bits)~kSign) > inf) {
            nans++;
            return;
        }
        Key k = key(b);
        least = k < least ? k : least;
        most = k > most ? k : most;
        some = true;
    }

    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        each_element<kBytes>(v, [&](Bits bits, int) { add(bits); });
    }
    __device__ __forceinline__ void add_element(const void *p, u64) { add(*(const Bits *)p); }
    __device__ __forceinline__ void add(Bits b, u64) { add(b); }

    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        Key low = (Key)__shfl_xor_sync(mask, (i64)least, distance), high = (Key)__shfl_xor_sync(mask, (i64)most, distance);
        least = low < least ? low : least;
        most = high > most ? high : most;
        nans += __shfl_xor_sync(mask, nans, distance);
        some |= __shfl_xor_sync(mask, (int)some, distance) != 0;
    }

    // minmax has two ranks, norminf one; there are no indexes.
    __device__ u64 word(const SegmentArgs &args, u32 j) const
    {
        if (j % 2)
            return RP_NO_INDEX;
        if (nans && !args.skip)
            return rk_all_ones(args.dtype);
        if (!some)
            return 0;
        if (args.layout != RP_STATE_NORMINF)
            return rk_rank(args.dtype, j == 0, j == 0 ? bits(least) : bits(most));
        return max(rk_rank_in(args.layout, args.dtype, rk_magnitude(args.dtype, bits(least))),
                   rk_rank_in(args.layout, args.dtype, rk_magnitude(args.dtype, bits(most))));
    }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &args) const { return args.skip ? nans : 0; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return 0; }

    __device__ void flush(const SegmentArgs &args, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        __shared__ Key lows[kThreads / kWarp], highs[kThreads / kWarp];
        __shared__ u32 nans_sum;
        if (threadIdx.x == 0)
            nans_sum = 0;
        some = __syncthreads_or(some);
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1)
            join_lane(kFullMask, d);
        if (threadIdx.x % kWarp == 0) {
            lows[threadIdx.x / kWarp] = least;
            highs[threadIdx.x / kWarp] = most;
            atomicAdd(&nans_sum, nans);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 0; w < kThreads / kWarp; w++) {
                least = lows[w] < least ? lows[w] : least;
                most = highs[w] > most ? highs[w] : most;
            }
            nans = nans_sum;
            const u32 words = own_words(args.layout);
            for (u32 j = 0; j < words; j++)
                partial[j] = word(args, j);
            write_tail(partial + words, elements, left_out(args), 0);
        }
    }
};

} // namespace

SegmentKernel minmax_kernel(int dtype)
{
    switch (rk_bytes(dtype)) {
    case 1:
        return row_and_walk_kernels<MinMax<1, kInteger>>();
    case 2:
        return rk_is_float(dtype) ? row_and_walk_kernels<MinMax<2, kFloat>>() : row_and_walk_kernels<MinMax<2, kInteger>>();
    case 4:
        return rk_is_float(dtype) ? row_and_walk_kernels<MinMax<4, kFloat>>() : row_and_walk_kernels<MinMax<4, kInteger>>();
    default:
        return rk_is_float(dtype) ? row_and_walk_kernels<MinMax<8, kFloat>>() : row_and_walk_kernels<MinMax<8, kInteger>>();
    }
}

} // namespace rk
