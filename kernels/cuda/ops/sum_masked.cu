// Sums of long rows of f32 with a mask, by vectors (masked.cuh), in two doubles a thread (twosum.cuh). Lines that do not fit
// are walked again (lines_any.cu).
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/chosen.cuh"
#include "kernels/cuda/pass/float_line.cuh"
#include "kernels/cuda/pass/masked.cuh"

namespace rk {
namespace {

constexpr int kMaskedVectors = 4, kMaskedWarps = kColumnThreads / kWarp;

// What a thread has of a row.
struct MaskedSum {
    Pair sum;
    u32 count, skipped, special;

    // Kept elements whose sum no double holds are added one by one.
    static __device__ __noinline__ MaskedSum added(MaskedSum to, uint4 v, bool skip)
    {
        each_element<4>(v, [&](u32 bits, int) {
            const u32 magnitude = bits & 0x7fffffffu;
            if (magnitude < kInfinite)
                to.sum.add((double)__uint_as_float(bits));
            else if (magnitude == kInfinite)
                to.special |= bits >> 31 ? RK_NINF : RK_PINF;
            else if (skip)
                to.skipped++;
            else
                to.special |= RK_NAN;
        });
        return to;
    }
    // In place of elements that are masked out comes -0.0, which adds nothing.
    __device__ __forceinline__ void add(const MaskedVectors<4, kMaskedVectors> &now, bool skip)
    {
        uint4 tile[kMaskedVectors];
#pragma unroll
        for (int u = 0; u < kMaskedVectors; u++) {
            auto kept = [&](u32 bits, int k) { return now.has(u, k) ? bits : 1u << 31; };
            const uint4 v = now.data[u];
            tile[u] = make_uint4(kept(v.x, 0), kept(v.y, 1), kept(v.z, 2), kept(v.w, 3));
            const u32 in = now.in[u];
            count += __popc((((in & 0x7f7f7f7fu) + 0x7f7f7f7fu) | in) & 0x80808080u);
        }
        const Between all = between<RP_F32>(tile);
        if (all.low == all.high && fabs(all.high) < INFINITY) {
            sum.add(all.high);
        } else {
#pragma unroll 1
            for (int u = 0; u < kMaskedVectors; u++)
                *this = added(*this, chosen(tile, u), skip);
        }
    }
    // The line of all threads of the block. Whole block.
    __device__ __forceinline__ FloatLine<RP_F32, kSum> line_of_block() const
    {
        __shared__ u64 counts[3]; // elements that are not masked out, NaNs that are skipped, special
        if (threadIdx.x < 3)
            counts[threadIdx.x] = 0;
        __syncthreads();
        const u32 of_warp = warp_add(count), skipped_of_warp = warp_add(skipped), special_of_warp = warp_or(special);
        if (threadIdx.x % kWarp == 0) {
            atomicAdd(&counts[0], (u64)of_warp);
            atomicAdd(&counts[1], (u64)skipped_of_warp);
            atomicOr(&counts[2], (u64)special_of_warp);
        }
        FloatLine<RP_F32, kSum> l;
        l.sums.sum = join_block<kMaskedWarps>(sum);
        l.sums.squares.clear();
        __syncthreads();
        l.sums.count = counts[0] - counts[1];
        l.skipped = counts[1];
        l.sums.special = (u32)counts[2];
        return l;
    }
};

__global__ void __launch_bounds__(kColumnThreads, kMaskedBlocks)
    sum_masked(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
               u64 *out)
{
    const Share s = share_of(a, w, blockIdx.x);
    MaskedSum x = {{-0.0, -0.0, false}, 0, 0, 0};
    each_masked<4, kMaskedVectors>(w, s.line, (u64)s.team * w.team + threadIdx.x,
                                   [&](const auto &now, u64) { x.add(now, g.skip); });
    const FloatLine<RP_F32, kSum> l = x.line_of_block();
    if (!w.values) {
        if (threadIdx.x < a.plan.all)
            partial_of(a, w, out, s)[threadIdx.x] = l.word(a.plan, g, threadIdx.x);
    } else if (threadIdx.x == 0) {
        finish_or_list(l, a, g, w.first_line + s.number, out);
    }
}

} // namespace

WalkFn masked_sum_kernel(int layout, int dtype) { return dtype == RP_F32 && layout == RP_STATE_SUM32 ? sum_masked : NULL; }

} // namespace rk
