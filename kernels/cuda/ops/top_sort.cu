// The items kept of a line (top_args.h): sorted, merged, and made a cell.
#include "kernels/exact/families/choice.h"

#include "kernels/cuda/pass/finish.cuh"
#include "kernels/cuda/pass/top_args.h"

namespace rk {
namespace {

__device__ __forceinline__ u64 kept_of(const TopState &s, u64 room) { return s.kept < room ? s.kept : room; }

// A block has a tile of a line's items, and at least half as many threads.
__global__ void __launch_bounds__(kTopTile / 2) sort_tile(const __grid_constant__ TopRuns a)
{
    __shared__ TopItem tile[kTopTile];
    wait_for_previous_pass();
    let_next_pass_start();
    const u64 kept = kept_of(a.states[blockIdx.y], a.room), start = blockIdx.x * a.length;
    if (start >= kept)
        return;
    TopItem *items = a.from + blockIdx.y * a.room + start;
    const u32 n = (u32)(kept - start < a.length ? kept - start : a.length);
    u32 size = 2;
    while (size < n)
        size *= 2;
    for (u32 i = threadIdx.x; i < size; i += blockDim.x)
        tile[i] = i < n ? items[i] : TopItem{0, ~0ull};
    for (u32 run = 2; run <= size; run *= 2)
        for (u32 apart = run / 2; apart; apart /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < size / 2; i += blockDim.x) {
                const u32 low = 2 * i - (i & (apart - 1)), high = low + apart;
                const TopItem x = tile[low], y = tile[high];
                if (is_better(y, x) == ((low & run) == 0)) {
                    tile[low] = y;
                    tile[high] = x;
                }
            }
        }
    __syncthreads();
    for (u32 i = threadIdx.x; i < n && i < a.k; i += blockDim.x)
        items[i] = tile[i];
}

// Items of a run that may be among the k best
__device__ __forceinline__ u64 run_items(const TopRuns &a, u64 run, u64 kept)
{
    const u64 left = kept - run * a.length, n = left < a.length ? left : a.length;
    return n < a.k ? n : a.k;
}

// How many of n sorted items are better
__device__ __forceinline__ u64 better_among(const TopItem *items, u64 n, TopItem x)
{
    u64 low = 0;
    while (low < n) {
        const u64 middle = (low + n) / 2;
        if (is_better(items[middle], x))
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

__global__ void merge_runs(const __grid_constant__ TopRuns a)
{
    wait_for_previous_pass();
    let_next_pass_start();
    const u64 kept = kept_of(a.states[blockIdx.y], a.room), i = (u64)blockIdx.x * blockDim.x + threadIdx.x, own = i / a.length;
    if (i >= kept || i % a.length >= run_items(a, own, kept))
        return;
    const TopItem *line = a.from + blockIdx.y * a.room;
    const TopItem x = line[i];
    const u64 first = own / a.fan * a.fan;
    u64 before = i % a.length;
    for (u64 run = first; run < first + a.fan && run * a.length < kept; run++)
        if (run != own)
            before += better_among(line + run * a.length, run_items(a, run, kept), x);
    if (before < a.k)
        a.to[blockIdx.y * a.room + first * a.length + before] = x;
}

__device__ __forceinline__ bool is_nan(const FinishTop &a, TopItem x) { return x.score > a.key.range; }

__device__ __forceinline__ u64 bits_of_item(const FinishTop &a, TopItem x)
{
    if (is_nan(a, x))
        return rk_nan_bits(rk_format_of(a.dtype));
    return bits_of_key(a.dtype, (a.falling ? a.key.range - x.score : x.score) + a.key.least);
}

__global__ void finish_top(const __grid_constant__ FinishTop a)
{
    wait_for_previous_pass();
    const u64 nothing = rk_is_float(a.out) ? rk_nan_bits(rk_format_of(a.out)) : 0;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < a.lines * a.k; at += (u64)gridDim.x * blockDim.x) {
        const u64 line = at / a.k, i = at % a.k, kept = kept_of(a.states[line], a.room);
        unsigned char *cell = a.cells + (a.first_line + line) * a.cell;
        uint64_t word = nothing, index = RP_NO_INDEX;
        if (i < kept) {
            const TopItem x = a.items[line * a.room + i];
            index = x.place + a.index_base;
            if (rk_element_out(a.dtype, bits_of_item(a, x), a.out, &word) || (a.nan == RP_NAN_ERROR && is_nan(a, x)))
                lower_fault(a.fault, a.first_line + line);
        }
        write_bits(a.bytes, cell, i, word);
        ((u64 *)(cell + a.indexes_at))[i] = index;
        if (i == 0)
            for (u64 pad = a.k; pad * a.bytes < a.indexes_at; pad++)
                write_bits(a.bytes, cell, pad, 0);
    }
}

__global__ void explain_top(const __grid_constant__ FinishTop a)
{
    uint64_t word;
    const u64 kept = kept_of(a.states[0], a.room);
    for (u64 i = 0; i < a.k && i < kept; i++) {
        *a.bad = bits_of_item(a, a.items[i]);
        if (is_nan(a, a.items[i]) || rk_element_out(a.dtype, *a.bad, a.out, &word))
            return;
    }
}

} // namespace

TopEnds top_ends() { return {sort_tile, merge_runs, finish_top, explain_top}; }

} // namespace rk
