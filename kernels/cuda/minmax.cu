// minmax and norminf: the least and the greatest element at once, without their places. The largest magnitude is that of
// one of the two.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/segment.cuh"

namespace rk {
namespace {

enum Kind { kInteger, kFloat };

template <int kBytes, Kind kKind> struct MinMax {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = false;
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

    // The pairs of a partial: of minmax two, of norminf one.
    __device__ static void write(const SegmentArgs &args, Bits low, Bits high, bool any, bool nan, u64 *words)
    {
        const bool norm = args.layout == RP_STATE_NORMINF;
        u64 rank[2] = {0, 0};
        if (nan) {
            rank[0] = rank[1] = rk_all_ones(args.dtype);
        } else if (any && norm) {
            rank[0] = rk_rank_in(args.layout, args.dtype, rk_magnitude(args.dtype, low));
            rank[1] = rk_rank_in(args.layout, args.dtype, rk_magnitude(args.dtype, high));
            rank[0] = max(rank[0], rank[1]);
        } else if (any) {
            rank[0] = rk_rank(args.dtype, 1, low);
            rank[1] = rk_rank(args.dtype, 0, high);
        }
        for (int i = 0; i < (norm ? 1 : 2); i++) {
            words[2 * i] = rank[i];
            words[2 * i + 1] = RP_NO_INDEX;
        }
    }

    __device__ void flush(const SegmentArgs &args, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        __shared__ Key lows[kThreads / kWarp], highs[kThreads / kWarp];
        __shared__ u32 nans_sum;
        if (threadIdx.x == 0)
            nans_sum = 0;
        bool any = __syncthreads_or(some);
        i64 low = least, high = most;
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1) {
            low = min(low, __shfl_xor_sync(kFullMask, low, d));
            high = max(high, __shfl_xor_sync(kFullMask, high, d));
        }
        if (threadIdx.x % kWarp == 0) {
            lows[threadIdx.x / kWarp] = (Key)low;
            highs[threadIdx.x / kWarp] = (Key)high;
        }
        if (nans)
            atomicAdd(&nans_sum, nans);
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 0; w < kThreads / kWarp; w++) {
                least = lows[w] < least ? lows[w] : least;
                most = highs[w] > most ? highs[w] : most;
            }
            write(args, bits(least), bits(most), any, nans_sum && !args.skip, partial);
            write_tail(partial + own_words(args.layout), elements, args.skip ? nans_sum : 0, 0);
        }
    }
};

} // namespace

SegmentKernel minmax_kernel(int dtype)
{
    switch (rk_bytes(dtype)) {
    case 1:
        return segment_kernel<MinMax<1, kInteger>>();
    case 2:
        return rk_is_float(dtype) ? segment_kernel<MinMax<2, kFloat>>() : segment_kernel<MinMax<2, kInteger>>();
    case 4:
        return rk_is_float(dtype) ? segment_kernel<MinMax<4, kFloat>>() : segment_kernel<MinMax<4, kInteger>>();
    default:
        return rk_is_float(dtype) ? segment_kernel<MinMax<8, kFloat>>() : segment_kernel<MinMax<8, kInteger>>();
    }
}

} // namespace rk
