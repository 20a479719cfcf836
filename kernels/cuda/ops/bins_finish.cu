// Histograms, before and after counting: bounds to the device, counts to cells.
#include "kernels/cuda/pass/bins_args.h"
#include "kernels/cuda/pass/finish.cuh"

namespace rk {
namespace {

__global__ void put_bounds(const __grid_constant__ PutBounds a)
{
    for (u32 i = threadIdx.x; i < a.n; i += blockDim.x)
        if (a.wide)
            ((u64 *)a.to)[i] = a.key[i];
        else
            ((u32 *)a.to)[i] = (u32)a.key[i];
}

__global__ void finish_bins(const __grid_constant__ FinishBins a)
{
    wait_for_previous_pass();
    const u32 bins = a.edges - 1, words = bins + RP_APART;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.lines * words; i += (u64)gridDim.x * blockDim.x) {
        const u64 line = i / words;
        const u32 word = (u32)(i % words);
        const u64 *counts = a.counts + line * words;
        const u32 slot = word < bins ? word + 1 : word - bins == RP_BELOW ? 0 : word - bins == RP_ABOVE ? a.edges : a.edges + 1;
        const u64 n = counts[slot];
        a.cells[(a.first_line + line) * words + word] = n;
        if (a.nan_error && slot == a.edges + 1 && n)
            lower_fault(a.fault, a.first_line + line);
    }
}

} // namespace

BinsEnds bins_ends() { return {put_bounds, finish_bins}; }

} // namespace rk
