// Sums of products of whole rows of floats, and weighted means, by near sums (near_sum.cuh). The last block of a row joins
// those of all blocks. A row whose value they leave in doubt is for the next launch: pairs_exact.cu.
//
// Between the two launches scratch has a word for each row, whether it is in doubt, then what the row's blocks have left.
#include "kernels/cuda/exact/near_pairs.cuh"
#include "kernels/cuda/pass/near_rows.cuh"
#include "kernels/cuda/pass/pair_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

// The row's sums, and whether NaNs were left out of them. False: other blocks are still to come. Whole block.
template <class Pairs> __device__ __forceinline__ bool join_row(Pairs &pairs, const SegmentArgs &args, u64 *scratch, u64 row,
                                                                NearSums &sums, u32 &flags)
{
    sums = join_block<Pairs::kThreads / kWarp>(pairs.sums());
    flags = __syncthreads_or(pairs.skipped);
    if (gridDim.x == 1)
        return true;
    NearPartial *of_row = (NearPartial *)(scratch + (args.rows + 1) / 2 * 2) + row * gridDim.x;
    if (threadIdx.x == 0)
        of_row[blockIdx.x] = {sums, flags};
    if (!last_of_row(args.totals + row))
        return false;
    flags = 0;
    sums = join_partials<Pairs::kThreads>(of_row, gridDim.x, flags);
    flags = __syncthreads_or(flags);
    return true;
}

template <class Pairs> __global__ void __launch_bounds__(Pairs::kThreads, Pairs::kBlocksPerSm)
    near_pairs(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *scratch)
{
    let_next_pass_start();
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y, __syncthreads()) {
        const unsigned char *p = args.data + ((row * args.row_len) << args.element_log2);
        Pairs pairs;
        pairs.open(args, row, p);
        add_part(pairs, args, p, NULL);
        NearSums sums;
        u32 flags;
        if (!join_row(pairs, args, scratch, row, sums, flags) || threadIdx.x)
            continue;
        u64 bits = 0;
        const bool refused = flags && args.nan_error;
        const bool certain = !refused && Pairs::value(sums, args.row_len, finish.spec.out, &bits);
        if (refused)
            set_fault(finish, args.first_row + row);
        write_bits(finish.cell_bytes, finish.cells, args.first_row + row, bits);
        scratch[row] = !certain && !refused;
    }
}

template <int kX, int kW, bool kMean, bool kChoose> SegmentKernel pick()
{
    using Pairs = PairRows<NearPairs<kW == RP_F64, kMean, kChoose>, kX, kW, kChoose>;
    SegmentKernel k = {};
    k.fn = near_pairs<Pairs>;
    k.threads = Pairs::kThreads;
    k.unroll = Pairs::kUnroll;
    k.max_per_thread = Pairs::kMaxPerThread;
    return k;
}

template <int kX, int kW> SegmentKernel pick(bool mean, bool choose)
{
    return mean     ? choose ? pick<kX, kW, true, true>() : pick<kX, kW, true, false>()
               : choose ? pick<kX, kW, false, true>()
                    : pick<kX, kW, false, false>();
}

} // namespace

template <PairTypes kTypes> SegmentKernel near_pairs_part(bool mean, bool choose)
{
    return pick<element_of(kTypes), weight_of(kTypes)>(mean, choose);
}

#define PARTS(X) X(F16) X(Bf16) X(F32) X(F32F64) X(F64)
#define PART(of) template SegmentKernel near_pairs_part<PairTypes::of>(bool mean, bool choose);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
