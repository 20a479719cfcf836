// Exact sums of short f32 and f64 arrays: in two doubles a thread (pair.cuh), which cost nothing to begin and little to
// join. A block whose part does not fit takes it again with bins or columns, by then out of the L2 cache.
#include "kernels/cuda/bins.cuh"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/pair.cuh"

namespace rk {
namespace {

template <int kDtype, int kBlock, int kLoads, bool kSkip> struct PairSum {
    static constexpr int kThreads = kBlock, kUnroll = kLoads;
    static constexpr bool kPrepares = false, kTiles = false;
    static constexpr int kWords = kDtype == RP_F64 ? kDigits64 : kDigits32;

    Pair sum;
    u32 skipped;

    __device__ __forceinline__ void init(void *, const SegmentArgs &)
    {
        sum = {-0.0, -0.0, false};
        skipped = 0;
    }
    __device__ __forceinline__ void add(typename Float<kDtype>::Bits bits)
    {
        double x = Float<kDtype>::value(bits);
        if (kSkip && x != x) {
            skipped++;
            x = -0.0;
        }
        sum.add(x);
    }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        if constexpr (kDtype == RP_F64) {
            add((u64)v.y << 32 | v.x);
            add((u64)v.w << 32 | v.z);
        } else {
            add(v.x);
            add(v.y);
            add(v.z);
            add(v.w);
        }
    }
    __device__ __forceinline__ void add_element(const void *p, u64) { add(*(const typename Float<kDtype>::Bits *)p); }

    __device__ __forceinline__ void join_lanes(int lanes)
    {
        for (int d = lanes / 2; d; d >>= 1) {
            double s = __shfl_xor_sync(kFullMask, sum.s, d), t = __shfl_xor_sync(kFullMask, sum.t, d);
            sum.join(s, t);
        }
    }

    // Whole block: the block's pair to everyone. False if it was lost.
    __device__ bool join_block()
    {
        constexpr int kWarps = kThreads / kWarp;
        __shared__ double pairs[kWarps][2];
        __shared__ u32 skipped_sum;
        const int lane = threadIdx.x % kWarp;
        if (threadIdx.x == 0)
            skipped_sum = 0;
        join_lanes(kWarp);
        if (lane == 0) {
            pairs[threadIdx.x / kWarp][0] = sum.s;
            pairs[threadIdx.x / kWarp][1] = sum.t;
        }
        __syncthreads();
        if (skipped)
            atomicAdd(&skipped_sum, skipped);
        bool lost = sum.lost;
        sum = {pairs[lane % kWarps][0], pairs[lane % kWarps][1], false};
        join_lanes(kWarps); // every warp the same
        lost = __syncthreads_or(lost || sum.lost);
        skipped = skipped_sum;
        return !lost;
    }

    __device__ void write(u64 elements, u64 *partial) const
    {
        constexpr int e0 = kDtype == RP_F64 ? RK_E0_64 : RK_E0_32;
        if (threadIdx.x < kWords) {
            int at_s, at_t;
            i64 s = units_of(sum.s, e0, &at_s), t = units_of(sum.t, e0, &at_t);
            partial[threadIdx.x] = (u64)(digit_of(s, at_s, threadIdx.x) + digit_of(t, at_t, threadIdx.x));
        } else if (threadIdx.x == kWords) {
            bool nz = (u64)__double_as_longlong(sum.s) != 1ull << 63; // elements, not all of them -0.0
            write_tail(partial + kWords, elements, skipped, nz ? (u32)kFlagNz : 0u);
        }
    }
};

// The value of the reply, if it is the pair's sum and nothing else.
__device__ __forceinline__ bool is_value(const FinishArgs &a, u32 skipped)
{
    return a.plain && a.spec.out == RP_F64 && !(skipped && a.spec.nan == RP_NAN_ERROR);
}

template <class Few, class Any> __global__ void __launch_bounds__(Few::kThreads, 3)
sum_few(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ u64 only_partial[Few::kWords + kTailWords];
    let_next_pass_start();
    const bool whole = gridDim.x == 1 && finish.light; // else the merging pass finishes it
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
        const unsigned char *p = args.data + ((row * args.row_len) << args.element_log2);
        u64 *partial = whole ? only_partial : partials + (row * gridDim.x + blockIdx.x) * finish.plan.all;
        Few few;
        u64 elements = add_part(few, args, p, shared);
        if (few.join_block()) {
            if (whole && is_value(finish, few.skipped)) {
                if (threadIdx.x == 0)
                    ((double *)finish.cells)[args.first_row + row] = elements > few.skipped ? few.sum.value() : 0.0;
                __syncthreads();
                continue;
            }
            few.write(elements, partial);
        } else {
            Any any;
            add_part(any, args, p, shared);
            any.flush(args, p, shared, elements, partial);
        }
        __syncthreads(); // `shared` is free for the next row
        if (whole && threadIdx.x < kWarp)
            finish_light(finish, args.first_row + row, only_partial);
    }
}

template <class Few, class Any> SegmentKernel pick()
{
    static_assert(Few::kThreads == Any::kThreads && Few::kWords == Any::kWords);
    return {sum_few<Few, Any>, Few::kThreads, Few::kUnroll, Any::shared_bytes(), Any::kMaxPerThread};
}

template <bool kSkip> SegmentKernel pick(int dtype)
{
    if (dtype == RP_F64)
        return pick<PairSum<RP_F64, 128, 4, kSkip>, DigitSum<128, 4, kSkip>>();
    return pick<PairSum<RP_F32, 256, 4, kSkip>, BinSum<F32Words, kSkip>>();
}

} // namespace

SegmentKernel sum_few_kernel(int dtype, bool skip) { return skip ? pick<true>(dtype) : pick<false>(dtype); }

} // namespace rk
