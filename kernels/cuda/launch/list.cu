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

// A list of the device
struct ListSource {
    const rk_array *arrays;
    u64 n, most, tile; // most: elements; tile: vectors
    u32 log2, first;   // of an element's bytes; number of the first array in the whole list
    u32 *too_many;
};

constexpr u32 kReadThreads = 1024;
constexpr u64 kMostOfDevice = 1ull << 46; // elements: more than any device has, so that sums of RK_MOST_ARRAYS fit 64 bits

// The sum of this thread's and those before. `room`: kReadThreads. Whole block.
__device__ u64 sum_upto(u64 v, u64 *room)
{
    for (u32 d = 1; d < kReadThreads; d *= 2) {
        room[threadIdx.x] = v;
        __syncthreads();
        v += threadIdx.x >= d ? room[threadIdx.x - d] : 0;
        __syncthreads();
    }
    return v;
}

// The entries of such a list, to scratch. One block.
__global__ void __launch_bounds__(kReadThreads) read_entries(const __grid_constant__ ListSource from, ListEntry *to)
{
    __shared__ u64 room[kReadThreads], tiles_before, count_before;
    const auto some_of = [&](const rk_array &a) { return a.count < from.most ? a.count : from.most + 1; };
    u64 earlier = 0; // elements of the list's arrays before these
    for (u32 i = threadIdx.x; i < from.first; i += kReadThreads)
        earlier += some_of((from.arrays - from.first)[i]);
    earlier = sum_upto(earlier, room);
    if (threadIdx.x == kReadThreads - 1) {
        tiles_before = 0;
        count_before = earlier;
    }
    __syncthreads();
    bool too_many = false;
    for (u64 first = 0; first < from.n; first += kReadThreads) {
        const u64 i = first + threadIdx.x;
        const rk_array a = i < from.n ? from.arrays[i] : rk_array{NULL, 0};
        const u64 tiles = tiles_of_array(a.data, a.count, from.log2, from.tile), some = some_of(a);
        const u64 tiles_upto = sum_upto(tiles, room), count = count_before + sum_upto(some, room);
        if (i < from.n)
            to[i] = {a.data, a.count, tiles_before + tiles_upto - tiles};
        const bool here = count > from.most;
        if (here && count - some <= from.most)
            atomicMin(from.too_many, from.first + (u32)i);
        too_many = __syncthreads_or(here);
        if (threadIdx.x == kReadThreads - 1) {
            tiles_before += tiles_upto;
            count_before = count;
        }
        __syncthreads();
        if (too_many)
            break;
    }
    for (u64 i = threadIdx.x; too_many && i < from.n; i += kReadThreads)
        to[i] = {NULL, 0, 0};
    if (threadIdx.x == 0)
        to[from.n] = {NULL, 0, too_many ? 0 : tiles_before};
}

SegmentKernel list_kernel(const Asked &q)
{
    return q.s.dtype == RP_F64 ? moments_f64_kernel(false, false)
                               : moments_f32_kernel(q.s.dtype, false, false, q.d->large_shared);
}

// The kernel for all arrays together that two bounds may decide, before the exact one; .list NULL: there is none. Its tiles are
// as large.
SegmentKernel bounded_list_kernel(const Asked &q, bool each)
{
    const bool norm = q.s.op == RP_OP_NORM2 || q.s.op == RP_OP_SUMSQ;
    return norm && !each && q.s.dtype != RP_F64 && is_bounded(q)
               ? bounded_f32_kernel(q.s.dtype, BoundsOf::Squares, false, q.d->large_shared)
               : SegmentKernel{};
}

// The entries to scratch, in one launch. *tiles: of all arrays, at most.
cudaError_t read_list(const Asked &q, const SegmentKernel &k, u32 log2, const List &list, u64 first, u64 *tiles)
{
    const u64 tile = (u64)k.threads * k.unroll;
    const ListSource from = {list.arrays, list.n,       list.most < kMostOfDevice ? list.most : kMostOfDevice, tile, log2,
                             (u32)first,  list.too_many};
    *tiles = (list.most >> (4 - log2)) / tile + list.n;
    return gpu_launch(false, read_entries, 1, kReadThreads, 0, q.stream, from, (ListEntry *)q.scratch.a);
}

// The same of a list of the host, by as many launches as it takes. *tiles: of all arrays.
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

// Arrays to the results from `first` on.
cudaError_t reduce_arrays(const Asked &q, const SegmentKernel &k, const List &arrays, bool each, u64 first)
{
    FinishArgs finish = q.a;
    SegmentArgs g = segment_args(q, q.t);
    u64 tiles;
    int blocks_per_sm;
    finish.light = false;
    finish.added = kAdded;
    g.totals = q.scratch.totals;
    TRY_CUDA(device_blocks_per_sm(q.d, (const void *)k.list, k.threads, k.shared_bytes, &blocks_per_sm));
    if (arrays.too_many)
        TRY_CUDA(read_list(q, k, g.element_log2, arrays, first, &tiles));
    else
        TRY_CUDA(store_list(q, k, g.element_log2, arrays.arrays, arrays.n, &tiles));
    const u64 blocks = blocks_of_list(q.d, k, blocks_per_sm, g.element_log2, tiles);
    const ListArgs list = {(const ListEntry *)q.scratch.a, (u32)arrays.n, each};
    if (const SegmentKernel bounded = bounded_list_kernel(q, each); bounded.list) {
        finish.doubts = q.scratch.doubts;
        TRY_CUDA(gpu_launch(q.d->overlapped_launch, bounded.list, (u32)blocks, k.threads, 0, q.stream, g, finish, list));
    }
    TRY_CUDA(gpu_launch(q.d->overlapped_launch, k.list, (u32)blocks, k.threads, k.shared_bytes, q.stream, g, finish, list));
    return merge_rows(q, finish, each ? arrays.n : 1, 1, first);
}

} // namespace

bool lists_on_device(const rp_spec &s)
{
    const int layout = rp_spec_layout(&s);
    return rk_is_float(s.dtype) && (rk_sum_limbs(layout) || rk_square_limbs(layout)) && !rk_is_pairs(layout) &&
           !rk_is_stats(layout) && !rk_is_abs(layout) && !(s.flags & (RP_STATES_IN | RP_MASK | RP_COLUMNS | RP_OFFSETS)) &&
           s.planes <= 1;
}

cudaError_t list_launch(Device *d, const ChainTask &t, const List &list, void *scratch, size_t bytes, cudaStream_t stream)
{
    const char *route;
    const Asked q = ask(d, t, {scratch, bytes}, stream, &route, take_route);
    const SegmentKernel k = list_kernel(q);
    const bool each = t.spec.rows != 1;
    if ((list.n + 1) * sizeof(ListEntry) > q.scratch.words * sizeof(u64))
        return cudaErrorMemoryAllocation; // not reached: kMostArrays
    List some = list;
    for (u64 first = 0; first < list.n; first += some.n, some.arrays += some.n) {
        some.n = !each || list.n - first < kRowTotals ? list.n - first : kRowTotals;
        TRY_CUDA(reduce_arrays(q, k, some, each, first));
    }
    return cudaSuccess;
}

} // namespace rk
