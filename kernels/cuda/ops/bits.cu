// Bitwise and, or, xor: a vector at a time, cut down to the element's width at the end.
#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/lines.cuh"

namespace rk {
namespace {

template <WordKind kKind> struct Bitwise {
    static constexpr int kThreads = 256, kUnroll = 4;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr Filling kFilling = kUnfilled;
    static constexpr int kWords = 1;
    static constexpr int kBlocksPerSm = 4;
    static constexpr u32 kMaxPerThread = 1u << 30;
    static size_t shared_bytes() { return 0; }

    u64 even, odd; // the vector's lower and upper half
    u32 bytes;

    __device__ __forceinline__ static u64 join(u64 a, u64 b) { return join_words(kKind, a, b); }

    __device__ __forceinline__ void init(void *, const SegmentArgs &args)
    {
        even = odd = word_identity(kKind);
        bytes = 1u << args.element_log2;
    }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        even = join(even, (u64)v.y << 32 | v.x);
        odd = join(odd, (u64)v.w << 32 | v.z);
    }
    __device__ __forceinline__ void add_element(const void *p, u64)
    {
        u64 rest = bytes == 8 ? 0 : ~0ull << (8 * bytes);
        u64 x = rk_load((const uint8_t *)p, (int)bytes);
        even = join(even, x | (word_identity(kKind) & rest));
    }
    __device__ void flush(const SegmentArgs &, const unsigned char *, void *, u64 elements, u64 *partial)
    {
        __shared__ u64 warps[kThreads / kWarp];
        u64 all = join(even, odd);
        for (u32 shift = 32; shift >= 8 * bytes; shift /= 2)
            all = join(all, all >> shift | (word_identity(kKind) & ~(~0ull >> shift)));
        for (int d = kWarp / 2; d; d >>= 1)
            all = join(all, __shfl_xor_sync(kFullMask, all, d));
        if (threadIdx.x % kWarp == 0)
            warps[threadIdx.x / kWarp] = all;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < kThreads / kWarp; w++)
                all = join(all, warps[w]);
            partial[0] = bytes == 8 ? all : all & ~(~0ull << (8 * bytes));
            write_tail(partial + kWords, elements, 0, 0);
        }
    }
};

template <int kBytes, WordKind kKind> struct BitsWalk {
    using Bits = typename Width<kBytes>::Bits;

    u64 all; // the element's bits count

    __device__ __forceinline__ void init(void *, const SegmentArgs &) { all = word_identity(kKind); }
    __device__ __forceinline__ void add(Bits bits, u64) { all = join_words(kKind, all, bits); }
    __device__ __forceinline__ void join_lane(u32 mask, int distance)
    {
        all = join_words(kKind, all, __shfl_xor_sync(mask, all, distance));
    }
    __device__ __forceinline__ u64 word(const SegmentArgs &, u32) const { return all & (Bits) ~(Bits)0; }
    __device__ __forceinline__ u64 left_out(const SegmentArgs &) const { return 0; }
    __device__ __forceinline__ u32 flags(const SegmentArgs &) const { return 0; }
};

template <WordKind kKind> SegmentKernel pick(int dtype)
{
    switch (rk_bytes(dtype)) {
    case 1:
        return row_and_walk_kernels<Bitwise<kKind>, BitsWalk<1, kKind>>();
    case 2:
        return row_and_walk_kernels<Bitwise<kKind>, BitsWalk<2, kKind>>();
    case 4:
        return row_and_walk_kernels<Bitwise<kKind>, BitsWalk<4, kKind>>();
    default:
        return row_and_walk_kernels<Bitwise<kKind>, BitsWalk<8, kKind>>();
    }
}

} // namespace

SegmentKernel bits_kernel(int layout, int dtype)
{
    return layout == RP_STATE_AND  ? pick<kWordAnd>(dtype)
           : layout == RP_STATE_OR ? pick<kWordOr>(dtype)
                                   : pick<kWordXor>(dtype);
}

} // namespace rk
