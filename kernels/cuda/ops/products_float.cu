// Products of whole rows of floats, in two doubles a thread (product_part.cuh). The last block of a row joins the parts of all
// blocks and rounds. Where the rounding is not certain, the next launch adds up logarithms, which are the definition: ties, and
// of 2^28 random elements one row of 2^18.
//
// Between the two, scratch has a word for each row, whether it is not certain, then the parts of its blocks.
#include "kernels/cuda/exact/log_walker.cuh"
#include "kernels/cuda/exact/product_part.cuh"
#include "kernels/cuda/pass/lines.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

// Where block `block` of a row leaves its part
__device__ __forceinline__ ulonglong2 *part_of_block(const SegmentArgs &args, u64 *scratch, u64 row, u32 block)
{
    return (ulonglong2 *)(scratch + (args.rows + 1) / 2 * 2) + 2 * (row * gridDim.x + block);
}

// The row's part from those of its blocks, to the first thread. False: other blocks are still to come. Whole block.
template <int kThreads>
__device__ __forceinline__ bool join_row(ProductPart &part, const SegmentArgs &args, u64 *scratch, u64 row)
{
    part.join_block<kThreads / kWarp>();
    if (gridDim.x == 1)
        return true;
    if (threadIdx.x == 0)
        part.leave(part_of_block(args, scratch, row, blockIdx.x));
    if (!last_of_row(args.totals + row))
        return false;
    part.init();
    for (u32 i = threadIdx.x; i < gridDim.x; i += kThreads) {
        ProductPart other;
        other.take(part_of_block(args, scratch, row, i));
        part.join(other);
    }
    part.join_block<kThreads / kWarp>();
    return true;
}

template <class Sum> __global__ void __launch_bounds__(Sum::kThreads, Sum::kBlocksPerSm)
    multiply_rows(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *scratch)
{
    let_next_pass_start();
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
        Sum sum;
        add_part(sum, args, args.data + ((row * args.row_len) << args.element_log2), NULL);
        ProductPart part = sum.part();
        if (!join_row<Sum::kThreads>(part, args, scratch, row) || threadIdx.x)
            continue;
        u64 bits;
        const bool refused = part.skipped && args.nan_error, certain = part.value(finish, args.row_len, &bits);
        if (refused)
            set_fault(finish, args.first_row + row);
        write_bits(finish.cell_bytes, finish.cells, args.first_row + row, bits);
        scratch[row] = !certain;
    }
}

// Rows that are not certain, by logarithms.
template <class Walker> __global__ void __launch_bounds__(kProductThreads)
    redo_rows(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *scratch)
{
    __shared__ u64 words[kMaxWords];
    const WordPlan &plan = finish.plan;
    wait_for_previous_pass();
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
        if (!scratch[row])
            continue;
        rp_parts parts = {};
        parts.elements = args.data;
        clear_words(plan, words);
        Walker x;
        x.init(NULL, args);
        const rk_line line = {row * args.row_len, 1, args.row_len};
        u64 taken = walk(x, parts, line, (u64)blockIdx.x * kProductThreads + threadIdx.x, gridDim.x * kProductThreads);
        for (int d = kWarp / 2; d; d /= 2) {
            x.join_lane(kFullMask, d);
            taken += __shfl_xor_sync(kFullMask, taken, d);
        }
        for (u32 j = threadIdx.x % kWarp; j < plan.all; j += kWarp) {
            const u64 word = word_of(x, args, plan.own, taken, j);
            if (word_kind(plan, j) == kWordOr)
                atomicOr(&words[j], word);
            else
                atomicAdd(&words[j], word);
        }
        __syncthreads();
        if (gridDim.x > 1) {
            add_words(plan, args.totals + row, words);
            if (!last_of_row(args.totals + row))
                continue;
            take_words(plan, args.totals + row, words);
        }
        if (threadIdx.x < kWarp)
            finish_row(finish, args.first_row + row, words);
        __syncthreads();
    }
}

template <int kDtype, bool kSkip> SegmentKernel pick()
{
    using Sum = ProductSum<kDtype, kSkip>;
    SegmentKernel k = {};
    k.fn = multiply_rows<Sum>;
    k.threads = Sum::kThreads;
    k.unroll = Sum::kUnroll;
    k.max_per_thread = Sum::kMaxPerThread;
    return k;
}

} // namespace

template <int kDtype> SegmentKernel product_part(bool skip) { return skip ? pick<kDtype, true>() : pick<kDtype, false>(); }
template <int kDtype> SegmentFn product_redo_part() { return redo_rows<FloatProd<kDtype>>; }

#define PARTS(X) X(RP_F16) X(RP_BF16) X(RP_F32) X(RP_F64)
#define PART(of)                                        \
    template SegmentKernel product_part<of>(bool skip); \
    template SegmentFn product_redo_part<of>();
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
