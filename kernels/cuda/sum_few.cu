// Exact sums of short f32 arrays and of f64: in two doubles a thread (pair.cuh), which cost nothing to begin and little to
// join. A block whose part does not fit takes it again with bins or columns; it looks after every tile, so that is soon.
#include "kernels/cuda/bins.cuh"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/pair.cuh"

namespace rk {
namespace {

template <int kDtype, int kBlock, int kBlocks, int kLoads, bool kSkip> struct PairSum {
    static constexpr int kThreads = kBlock, kBlocksPerSm = kBlocks, kUnroll = kLoads;
    static constexpr bool kPrepares = true, kTiles = false;
    static constexpr int kWords = kDtype == RP_F64 ? kDigits64 : kDigits32;

    Pair sum;
    u32 skipped;

    __device__ __forceinline__ void init(void *, const SegmentArgs &)
    {
        sum = {-0.0, -0.0, false};
        skipped = 0;
    }
    // Wide data are found out early, and cost little more than the other way from the start.
    __device__ __forceinline__ bool prepare(const uint4 (&)[kUnroll]) const { return !__syncthreads_or(sum.lost); }
    __device__ __forceinline__ void prepare_rest(const uint4 *, u64, u64) const {}

    __device__ __forceinline__ void add(FloatBits<kDtype> bits) { add_float<kDtype>(sum, bits, kSkip, skipped); }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        each_element<Float<kDtype>::kBytes>(v, [&](FloatBits<kDtype> bits, int) { add(bits); });
    }
    __device__ __forceinline__ void add_element(const void *p, u64) { add(*(const FloatBits<kDtype> *)p); }

    // Whole block: the block's pair and count of NaNs to everyone. False if the pair was lost.
    __device__ __forceinline__ bool join()
    {
        __shared__ u32 skipped_sum;
        if (threadIdx.x == 0)
            skipped_sum = 0;
        __syncthreads();
        if (skipped)
            atomicAdd(&skipped_sum, skipped);
        bool kept = join_block<kThreads / kWarp>(sum);
        skipped = skipped_sum;
        return kept;
    }

    __device__ void write(u64 elements, u64 *partial) const
    {
        constexpr int e0 = kDtype == RP_F64 ? RK_E0_64 : RK_E0_32;
        if (threadIdx.x < kWords) {
            partial[threadIdx.x] = digit_of_terms({sum.s, sum.t}, e0, threadIdx.x);
        } else if (threadIdx.x == kWords) {
            write_tail(partial + kWords, elements, skipped, sum.beyond_negative_zero() ? (u32)kFlagNz : 0u);
        }
    }
};

// The value of the reply, if it is the pair's sum and nothing else.
__device__ __forceinline__ bool is_value(const FinishArgs &a, u32 skipped)
{
    return a.plain && a.spec.out == RP_F64 && !(skipped && a.spec.nan == RP_NAN_ERROR);
}

// `pairs`: a PairPartial for each partial.
template <class Few, class Any> __global__ void __launch_bounds__(Few::kThreads, Few::kBlocksPerSm)
sum_few(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ u64 only_partial[Few::kWords + kTailWords];
    let_next_pass_start();
    const bool whole = gridDim.x == 1 && finish.light; // else the merging pass finishes it
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
        const unsigned char *p = args.data + ((row * args.row_len) << args.element_log2);
        const u64 number = row * gridDim.x + blockIdx.x;
        u64 *partial = whole ? only_partial : partials + number * finish.plan.all;
        PairPartial *pair = (PairPartial *)(partials + args.rows * gridDim.x * finish.plan.all) + number;
        Few few;
        u64 elements = add_part(few, args, p, shared);
        if (few.join()) {
            if (whole && is_value(finish, few.skipped)) {
                if (threadIdx.x == 0)
                    ((double *)finish.cells)[args.first_row + row] = elements > few.skipped ? few.sum.value() : 0.0;
                __syncthreads();
                continue;
            }
            few.write(elements, partial);
            if (!whole && threadIdx.x == 0)
                *pair = {few.sum.s, few.sum.t, elements - few.skipped, is_value(finish, few.skipped)};
        } else {
            if (!whole && threadIdx.x == 0)
                pair->usable = 0;
            Any any;
            elements = add_part(any, args, p, shared);
            any.flush(args, p, shared, elements, partial);
        }
        __syncthreads(); // `shared` is free for the next row
        if (whole && threadIdx.x < kWarp)
            finish_light(finish, args.first_row + row, only_partial);
    }
}

template <class Few, class Any> SegmentKernel pick()
{
    // the same tiles, for a block may change its way while others do not
    static_assert(Few::kThreads == Any::kThreads && Few::kUnroll == Any::kUnroll && Few::kWords == Any::kWords);
    return {sum_few<Few, Any>, Few::kThreads, Few::kUnroll, Any::shared_bytes(), Any::kMaxPerThread, true, NULL};
}

template <bool kSkip> SegmentKernel pick(int dtype, bool long_row)
{
    if (dtype == RP_F32)
        return pick<PairSum<RP_F32, 256, 3, 4, kSkip>, BinSum<F32Element, kSkip>>();
    return long_row ? pick<PairSum<RP_F64, 128, 3, 8, kSkip>, DigitSum<128, 8, kSkip>>()
                    : pick<PairSum<RP_F64, 128, 3, 4, kSkip>, DigitSum<128, 4, kSkip>>();
}

} // namespace

SegmentKernel sum_few_kernel(int dtype, bool skip, bool long_row)
{
    return skip ? pick<true>(dtype, long_row) : pick<false>(dtype, long_row);
}

} // namespace rk
