// Exact float sums of many rows or segments that are too short for a block each: a few lanes of a warp share a line.
//
// The sum is kept in two doubles (twosum.cuh): no long accumulator, and no rounding of one. Where that is not enough the lanes
// walk the line again, with a state each.
#include "kernels/cuda/exact/twosum.cuh"
#include "kernels/cuda/pass/short_lines.cuh"

namespace rk {
namespace {

template <int kDtype> struct Line {
    Pair sum;
    u64 skipped;
    bool skip;

    __device__ __forceinline__ void add(FloatBits<kDtype> bits) { add_float<kDtype>(sum, bits, skip, skipped); }
    __device__ __forceinline__ void add_vector(uint4 v)
    {
        each_element<Float<kDtype>::kBytes>(v, [&](FloatBits<kDtype> bits, int) { add(bits); });
    }
};

// limbs += v, a multiple of 2^e0
__device__ inline void add_double(uint64_t *limb, int n, int e0, double v)
{
    int offset;
    i64 m = units_of(v, e0, &offset);
    rk_add_shifted(limb, n, (u64)(m < 0 ? -m : m), offset, m < 0);
}

// The line whose sum is high + low. Out of line, with plain arguments: a pair that has an address lives in memory.
__device__ __noinline__ void finish_pair(const FinishArgs &a, u64 number, double high, double low, u64 n, u64 skipped,
                                         rk_state *s)
{
    rk_state_init(s, a.plan.layout, a.spec.dtype);
    s->count = n - skipped;
    s->skipped = skipped != 0;
    s->nz = s->count && (u64)__double_as_longlong(high) != 1ull << 63;
    const int limbs = rk_sum_limbs(a.plan.layout), e0 = rk_e0(a.spec.dtype);
    add_double(s->limb, limbs, e0, high);
    add_double(s->limb, limbs, e0, low);
    write_cell(a, number, *s, NULL);
}

// By all lanes of a line (`mask`; 0 if it is one): the general way. `first`: a state for each of them.
__device__ __noinline__ void walk_together(const FinishArgs &a, const RowArgs &r, u64 number, rk_line line, u32 lane, u32 mask,
                                           rk_state *first)
{
    rk_state *mine = (rk_state *)((u64 *)first + lane * r.state_words);
    walk_line(a, {NULL, r.elements, NULL}, 0, line, lane, r.lanes, mine);
    if (mask)
        __syncwarp(mask);
    if (lane)
        return;
    for (u32 k = 1; k < r.lanes; k++)
        rk_state_merge(mine, (const rk_state *)((u64 *)first + k * r.state_words));
    write_cell(a, number, *mine, NULL);
}

template <int kDtype> __global__ void __launch_bounds__(kRowThreads)
    sum_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    using Bits = FloatBits<kDtype>;
    constexpr u32 kPerVector = 16 / sizeof(Bits);
    extern __shared__ u64 states[];
    const u32 lanes = r.lanes, lane = threadIdx.x % lanes, mask = group_mask(lanes);
    rk_state *first = (rk_state *)(states + (threadIdx.x - lane) * r.state_words);
    const u64 stride = (u64)gridDim.x * (kRowThreads / lanes);
    const bool plain = a.plain && a.spec.out == RP_F64;
    for (u64 i = (u64)blockIdx.x * (kRowThreads / lanes) + threadIdx.x / lanes; i < r.lines; i += stride) {
        const rk_line line = rk_line_of(&a.spec, r.offsets, i);
        if (line.n > r.longest)
            continue; // another kernel's
        const Bits *p = (const Bits *)r.elements + line.first;
        Line<kDtype> l = {{-0.0, -0.0, false}, 0, r.skip};
        // elements up to the first 16-byte boundary, vectors, the rest
        u64 head = ((16 - ((uintptr_t)p & 15)) & 15) / sizeof(Bits);
        head = head < line.n ? head : line.n;
        const u64 nvec = (line.n - head) / kPerVector;
        const uint4 *v = (const uint4 *)(p + head);
        u64 k = lane;
        for (; k + 3 * lanes < nvec; k += 4 * lanes) { // four loads in flight
            uint4 x[4];
#pragma unroll
            for (int u = 0; u < 4; u++)
                x[u] = load_vector(v + k + u * lanes);
#pragma unroll
            for (int u = 0; u < 4; u++)
                l.add_vector(x[u]);
        }
        for (; k < nvec; k += lanes)
            l.add_vector(load_vector(v + k));
        for (u64 e = lane; e < head; e += lanes)
            l.add(p[e]);
        for (u64 e = head + nvec * kPerVector + lane; e < line.n; e += lanes)
            l.add(p[e]);
        for (u32 d = lanes / 2; d; d /= 2) {
            double s = __shfl_xor_sync(mask, l.sum.s, d), t = __shfl_xor_sync(mask, l.sum.t, d);
            l.skipped += __shfl_xor_sync(mask, l.skipped, d);
            l.sum.join(s, t);
        }
        if (__any_sync(mask, l.sum.lost)) {
            walk_together(a, r, i, line, lane, mask, first);
            __syncwarp(mask);
            continue;
        }
        if (lane)
            continue;
        if (plain && !(l.skipped && a.spec.nan == RP_NAN_ERROR))
            ((double *)a.cells)[i] = line.n > l.skipped ? l.sum.value() : 0.0;
        else
            finish_pair(a, i, l.sum.s, l.sum.t, line.n, l.skipped, first);
    }
}

// Equal rows of a few elements: a thread a row, and four rows at once, so that loads and additions of one row fill the
// gaps of the others.
template <int kDtype> __global__ void __launch_bounds__(kRowThreads)
    sum_tiny_rows(const __grid_constant__ FinishArgs a, const __grid_constant__ RowArgs r)
{
    using Bits = FloatBits<kDtype>;
    constexpr int kRows = 4;
    extern __shared__ u64 states[];
    rk_state *mine = (rk_state *)(states + threadIdx.x * r.state_words);
    const u64 step = (u64)gridDim.x * kRowThreads;
    const u32 n = (u32)a.spec.row_len;
    const bool value = a.plain && a.spec.out == RP_F64 && n;
    for (u64 first = (u64)blockIdx.x * kRowThreads + threadIdx.x; first < r.lines; first += kRows * step) {
        Line<kDtype> l[kRows];
        const Bits *p[kRows];
#pragma unroll
        for (int k = 0; k < kRows; k++) {
            u64 row = first + k * step;
            l[k] = {{-0.0, -0.0, false}, 0, r.skip};
            p[k] = (const Bits *)r.elements + (row < r.lines ? row : first) * n; // past the last row: any row, to no use
        }
        for (u32 e = 0; e < n; e++) {
            Bits x[kRows];
#pragma unroll
            for (int k = 0; k < kRows; k++)
                x[k] = p[k][e];
#pragma unroll
            for (int k = 0; k < kRows; k++)
                l[k].add(x[k]);
        }
#pragma unroll
        for (int k = 0; k < kRows; k++) {
            u64 row = first + k * step;
            if (row >= r.lines)
                break;
            if (value && !l[k].sum.lost && !l[k].skipped)
                ((double *)a.cells)[row] = l[k].sum.value();
            else if (l[k].sum.lost)
                walk_together(a, r, row, {row * n, 1, n}, 0, 0, mine);
            else
                finish_pair(a, row, l[k].sum.s, l[k].sum.t, n, l[k].skipped, mine);
        }
    }
}

} // namespace

RowsKernel sum_rows_kernel(int dtype, bool tiny)
{
    switch (dtype) {
    case RP_F16:
        return tiny ? sum_tiny_rows<RP_F16> : sum_rows<RP_F16>;
    case RP_BF16:
        return tiny ? sum_tiny_rows<RP_BF16> : sum_rows<RP_BF16>;
    case RP_F32:
        return tiny ? sum_tiny_rows<RP_F32> : sum_rows<RP_F32>;
    default:
        return tiny ? sum_tiny_rows<RP_F64> : sum_rows<RP_F64>;
    }
}

} // namespace rk
