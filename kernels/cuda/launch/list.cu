// Many arrays in a few launches: sums, means, variances and norms of floats, of all of them together or of each.
#include "kernels/cuda/launch/list.h"

#include "kernels/cuda/launch/routes.h"
#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/ops/registry.h"
#include "kernels/cuda/pass/list.h"

namespace rk {
namespace {

// Some entries, from the parameters to scratch. A thread each.
__global__ void store_entries(const __grid_constant__ ListPart part, ListEntry *to, u32 n)
{
    if (threadIdx.x < n)
        to[threadIdx.x] = part.entry[threadIdx.x];
}

SegmentKernel list_kernel(const Asked &q)
{
    return q.s.dtype == RP_F64 ? moments_f64_kernel(false, false)
                               : moments_f32_kernel(q.s.dtype, false, false, q.d->large_shared);
}

// The entries to scratch, by as many launches as it takes. *tiles: of all arrays.
cudaError_t store_list(const Asked &q, const SegmentKernel &k, u32 log2, const rk_array *arrays, u64 n, u64 *tiles)
{
    ListEntry *to = (ListEntry *)q.scratch.a;
    ListPart part;
    u32 stored = 0;
    *tiles = 0;
    for (u64 i = 0; i <= n; i++) {
        part.entry[stored++] = {i < n ? arrays[i].data : NULL, i < n ? arrays[i].count : 0, *tiles};
        if (i < n)
            *tiles += tiles_of_array(arrays[i].data, arrays[i].count, log2, (u64)k.threads * k.unroll);
        if (stored < kListPart && i < n)
            continue;
        TRY_CUDA(gpu_launch(false, store_entries, 1, kListPart, 0, q.stream, part, to, stored));
        to += stored;
        stored = 0;
    }
    return cudaSuccess;
}

// Blocks that fill the device, and as many more as keep sums exact: a tile goes with two odd elements.
u64 blocks_of_list(const Device *d, const SegmentKernel &k, int blocks_per_sm, u32 log2, u64 tiles)
{
    const u64 most = k.max_per_thread / (k.unroll * (16u >> log2) + 2) - 1, need = div_up(tiles, most),
              fill = (u64)d->sms * blocks_per_sm;
    const u64 blocks = need > fill ? need : fill;
    return blocks < tiles ? blocks : tiles ? tiles : 1;
}

// `n` arrays to the results from `first` on.
cudaError_t reduce_arrays(const Asked &q, const SegmentKernel &k, const rk_array *arrays, u64 n, bool each, u64 first)
{
    FinishArgs finish = q.a;
    SegmentArgs g = segment_args(q, q.t);
    u64 tiles;
    int blocks_per_sm;
    finish.light = false;
    finish.added = kAdded;
    g.totals = q.scratch.totals;
    TRY_CUDA(device_blocks_per_sm(q.d, (const void *)k.list, k.threads, k.shared_bytes, &blocks_per_sm));
    TRY_CUDA(store_list(q, k, g.element_log2, arrays, n, &tiles));
    const u64 blocks = blocks_of_list(q.d, k, blocks_per_sm, g.element_log2, tiles);
    const ListArgs list = {(const ListEntry *)q.scratch.a, (u32)n, each};
    TRY_CUDA(gpu_launch(q.d->overlapped_launch, k.list, (u32)blocks, k.threads, k.shared_bytes, q.stream, g, finish, list));
    return merge_rows(q, finish, each ? n : 1, 1, first);
}

} // namespace

bool lists_on_device(const rp_spec &s)
{
    const int layout = rp_spec_layout(&s);
    return rk_is_float(s.dtype) && (rk_sum_limbs(layout) || rk_square_limbs(layout)) && !rk_is_pairs(layout) &&
           !rk_is_stats(layout) && !rk_is_abs(layout) && !(s.flags & (RP_STATES_IN | RP_MASK | RP_COLUMNS | RP_OFFSETS)) &&
           s.planes <= 1;
}

cudaError_t list_launch(Device *d, const ChainTask &t, const rk_array *arrays, u64 n, void *scratch, size_t bytes,
                        cudaStream_t stream)
{
    const char *route;
    const Asked q = ask(d, t, {scratch, bytes}, stream, &route, take_route);
    const SegmentKernel k = list_kernel(q);
    const bool each = t.spec.rows != 1;
    if ((n + 1) * sizeof(ListEntry) > q.scratch.words * sizeof(u64))
        return cudaErrorMemoryAllocation; // not reached: kMostArrays
    for (u64 first = 0, some; first < n; first += some) {
        some = !each || n - first < kRowTotals ? n - first : kRowTotals;
        TRY_CUDA(reduce_arrays(q, k, arrays + first, some, each, first));
    }
    return cudaSuccess;
}

} // namespace rk
