// Whole rows of floats and their weights by near sums (near_sum.cuh). The last block of a row joins those of all blocks. A row
// whose value they leave in doubt is for the next launch.
//
// Between the two launches scratch has a word for each row, whether it is in doubt, then what the row's blocks have left.
#pragma once

#include "kernels/cuda/exact/near_moments.cuh"
#include "kernels/cuda/pass/last_block.cuh"
#include "kernels/cuda/pass/pair_rows.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {

// What a block leaves. In scratch
template <class All> struct alignas(16) LeftOfBlock {
    All sums;
    u64 flags;
};

// The sums and flags that the row's n blocks have left. Whole block.
template <int kThreads, class All> __device__ __forceinline__ All join_left(const LeftOfBlock<All> *left, u32 n, u32 &flags)
{
    using Left = LeftOfBlock<All>;
    All all;
    all.clear();
    for (u32 i = threadIdx.x; i < n; i += kThreads) {
        Left one;
        const ulonglong2 *from = (const ulonglong2 *)&left[i];
        ulonglong2 *to = (ulonglong2 *)&one;
#pragma unroll
        for (u32 k = 0; k < sizeof(Left) / sizeof *to; k++)
            to[k] = __ldcg(from + k);
        flags |= (u32)one.flags;
        all.join(one.sums);
    }
    return join_of_block<kThreads / kWarp>(all);
}

// The row's sums, and whether NaNs were left out of them. False: other blocks are still to come. Whole block.
template <class Pairs> __device__ __forceinline__ bool join_row(Pairs &pairs, const SegmentArgs &args, u64 *scratch, u64 row,
                                                                typename Pairs::All &sums, u32 &flags)
{
    sums = join_of_block<Pairs::kThreads / kWarp>(pairs.sums());
    flags = __syncthreads_or(pairs.skipped);
    if (gridDim.x == 1)
        return true;
    using Left = LeftOfBlock<typename Pairs::All>;
    Left *of_row = (Left *)(scratch + (args.rows + 1) / 2 * 2) + row * gridDim.x;
    if (threadIdx.x == 0)
        of_row[blockIdx.x] = {sums, flags};
    if (!last_of_row(args.totals + row))
        return false;
    flags = 0;
    sums = join_left<Pairs::kThreads>(of_row, gridDim.x, flags);
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
        typename Pairs::All sums;
        u32 flags;
        if (!join_row(pairs, args, scratch, row, sums, flags) || threadIdx.x)
            continue;
        u64 bits = 0;
        const bool refused = flags && args.nan_error;
        const bool certain = !refused && Pairs::value(sums, args.row_len, finish.spec, &bits);
        if (refused)
            set_fault(finish, args.first_row + row);
        write_bits(finish.cell_bytes, finish.cells, args.first_row + row, bits);
        scratch[row] = !certain && !refused;
    }
}

template <class Pairs> SegmentKernel near_pair_rows()
{
    SegmentKernel k = {};
    k.fn = near_pairs<Pairs>;
    k.threads = Pairs::kThreads;
    k.unroll = Pairs::kUnroll;
    k.max_per_thread = Pairs::kMaxPerThread;
    return k;
}

// One of its four kinds: `other` of two results, and elements that a mask or NaNs choose
template <template <bool kWide, bool kOther, bool kChoose> class Near, PairTypes kTypes>
SegmentKernel near_pair_rows(bool other, bool choose)
{
    constexpr int kX = element_of(kTypes), kW = weight_of(kTypes);
    constexpr bool kWide = kW == RP_F64;
    if (other)
        return choose ? near_pair_rows<PairRows<Near<kWide, true, true>, kX, kW, true>>()
                      : near_pair_rows<PairRows<Near<kWide, true, false>, kX, kW, false>>();
    return choose ? near_pair_rows<PairRows<Near<kWide, false, true>, kX, kW, true>>()
                  : near_pair_rows<PairRows<Near<kWide, false, false>, kX, kW, false>>();
}

} // namespace rk
