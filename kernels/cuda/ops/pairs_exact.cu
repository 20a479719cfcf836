// Exact sums of products of whole rows of floats, and of their weights: states, and rows that near sums leave in doubt
// (pairs_near.cu).
//
// A thread has three doubles for the products, and three for the weights, and tests that they hold what is added. Where they do
// not they are moved to the block's long accumulator, and if they still do not, the numbers themselves.
#include "kernels/cuda/exact/thread_sum.cuh"
#include "kernels/cuda/pass/finish_pairs.cuh"
#include "kernels/cuda/pass/last_block.cuh"
#include "kernels/cuda/pass/pair_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

constexpr int kWeightDigits = 2 * RK_LIMBS64, kProductDigits = 2 * RK_SQUARE_LIMBS64;

// The digits of the products lie behind those of the weights.
using Digits = LongDigits<kWeightDigits + kProductDigits>;
using Sum = ThreadSum<Digits>;

// kWide: a product is p + q, p being it rounded. Where that does not hold it, it is added as an integer.
template <bool kWide> struct ExactPairs {
    static constexpr int kBlocksPerSm = 2;

    Digits *digits;
    Sum products, weights;
    u64 left_out, skipped; // pairs; of these the NaNs
    u32 flags;
    u8 layout;
    bool skip, drops, mean;
    int e0; // of an element

    __device__ __forceinline__ void begin(const SegmentArgs &args)
    {
        layout = args.layout;
        e0 = kWide ? RK_E0_64 : RK_E0_32;
        mean = rk_sum_limbs(layout) != 0;
        skip = args.skip;
        drops = args.drops;
        products.terms.clear();
        weights.terms.clear();
        left_out = skipped = flags = 0;
    }
    static __device__ __forceinline__ bool is_finite(double x) { return fabs(x) < INFINITY; }

    // Takes out of the products what counts for itself: no pair, or one that is not finite. Returns its weight for the sum.
    __device__ __forceinline__ double take_out(double &x, double &w, bool in)
    {
        const bool out = !in || (drops && w == 0), nan = !out && (x != x || w != w);
        double weight = w;
        if (out || (nan && skip)) {
            left_out++;
            skipped += nan;
            weight = x = w = 0;
        } else if (!is_finite(x) || !is_finite(w)) {
            flags |= (u32)rk_pair_special(layout, rk_format_of(RP_F64), (u64)__double_as_longlong(x),
                                          (u64)__double_as_longlong(w));
            weight = is_finite(w) ? w : 0;
            x = w = 0;
        }
        return weight;
    }
    template <int kCount> __device__ __forceinline__ void add(double (&x)[kCount], double (&w)[kCount], u32 in)
    {
        double p[kCount], q[kCount], weight[kCount];
#pragma unroll
        for (int k = 0; k < kCount; k++) {
            weight[k] = take_out(x[k], w[k], in >> k & 1);
            p[k] = __dmul_rn(x[k], w[k]);
            q[k] = kWide ? __fma_rn(x[k], w[k], -p[k]) : 0;
            if (kWide && !Sum::two_hold(x[k], w[k], p[k])) {
                Sum::add_product(digits, kWeightDigits, e0, x[k], w[k]);
                p[k] = q[k] = 0;
            }
        }
        products.add(p, digits, kWeightDigits, 2 * e0);
        if (kWide)
            products.add(q, digits, kWeightDigits, 2 * e0);
        if (mean)
            weights.add(weight, digits, 0, e0);
    }

    // The block's words. Whole block.
    __device__ __forceinline__ void flush(const WordPlan &plan, u64 elements, u64 *words)
    {
        __shared__ u64 out_sum, skipped_sum;
        __shared__ u32 flags_sum;
        if (threadIdx.x == 0) {
            out_sum = skipped_sum = 0;
            flags_sum = 0;
        }
        products.move(digits, kWeightDigits, 2 * e0);
        weights.move(digits, 0, e0);
        __syncthreads();
        if (left_out)
            atomicAdd(&out_sum, left_out);
        if (skipped)
            atomicAdd(&skipped_sum, skipped);
        if (flags)
            atomicOr(&flags_sum, flags);
        const int sum = plan.sum, all = plan.digits;
        for (int j = threadIdx.x; j < all; j += blockDim.x)
            words[j] = j < sum ? digits->word(0, sum, j) : digits->word(kWeightDigits, all - sum, j - sum);
        __syncthreads();
        if (threadIdx.x == 0) {
            words[all + kWordCount] = elements - out_sum;
            words[all + kWordFlags] = flags_sum | (skipped_sum ? (u32)kFlagSkipped : 0u);
        }
        __syncthreads();
    }
};

// kRedo: only rows in doubt
template <class Pairs, bool kRedo> __global__ void __launch_bounds__(Pairs::kThreads, Pairs::kBlocksPerSm)
    exact_pairs(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *scratch)
{
    __shared__ Digits digits;
    __shared__ u64 words[kMaxWords];
    __shared__ FinishRoom room;
    static_assert(kMaxWords <= Pairs::kThreads); // add_words
    const WordPlan &plan = finish.plan;
    if (kRedo)
        wait_for_previous_pass();
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
        if (kRedo && !scratch[row])
            continue;
        const unsigned char *p = args.data + ((row * args.row_len) << args.element_log2);
        digits.clear();
        __syncthreads();
        Pairs pairs;
        pairs.digits = &digits;
        pairs.open(args, row, p);
        const u64 elements = add_part(pairs, args, p, NULL);
        pairs.flush(plan, elements, words);
        if (gridDim.x > 1) {
            add_words(plan, args.totals + row, words);
            if (!last_of_row(args.totals + row))
                continue;
            take_words(plan, args.totals + row, words);
        }
        if (threadIdx.x < kWarp)
            finish_pairs(finish, args.first_row + row, words, room);
        __syncthreads();
    }
}

template <int kX, int kW> using ExactRows = PairRows<ExactPairs<kW == RP_F64>, kX, kW, true>;

} // namespace

template <PairTypes kTypes> SegmentKernel exact_pairs_part()
{
    using Pairs = ExactRows<element_of(kTypes), weight_of(kTypes)>;
    SegmentKernel k = {};
    k.fn = exact_pairs<Pairs, false>;
    k.threads = Pairs::kThreads;
    k.unroll = Pairs::kUnroll;
    k.max_per_thread = Pairs::kMaxPerThread;
    return k;
}
template <PairTypes kTypes> SegmentFn redo_pairs_part()
{
    return exact_pairs<ExactRows<element_of(kTypes), weight_of(kTypes)>, true>;
}

#define PARTS(X) X(F16) X(Bf16) X(F32) X(F32F64) X(F64)
#define PART(of)                                              \
    template SegmentKernel exact_pairs_part<PairTypes::of>(); \
    template SegmentFn redo_pairs_part<PairTypes::of>();
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
