// Lines in one piece each, for selection: columns are turned by tiles in shared memory, runs of a row are copied.
#include "kernels/exact/runs.h"

#include "kernels/cuda/pass/elements.cuh"
#include "kernels/cuda/pass/select_args.h"

namespace rk {
namespace {

constexpr u32 kTile = 32;

// A block has kTile columns and goes down all rows that its grid leaves it.
template <class Bits> __global__ void __launch_bounds__(kGatherThreads) gather_columns(const __grid_constant__ GatherLines a)
{
    __shared__ Bits tile[kTile][kTile + 1];
    const u32 x = threadIdx.x % kTile, y = threadIdx.x / kTile, step = blockDim.x / kTile;
    for (u64 left = (u64)blockIdx.x * kTile; left < a.lines; left += (u64)gridDim.x * kTile) {
        const u64 column = a.first + left + x, plane = column / a.row_len;
        const Bits *from = (const Bits *)a.from + plane * a.rows * a.row_len + column % a.row_len;
        for (u64 top = (u64)blockIdx.y * kTile; top < a.n; top += (u64)gridDim.y * kTile) {
            for (u32 i = y; i < kTile; i += step)
                if (left + x < a.lines && top + i < a.n)
                    tile[i][x] = from[(top + i) * a.row_len];
            __syncthreads();
            for (u32 i = y; i < kTile; i += step)
                if (left + i < a.lines && top + x < a.n)
                    ((Bits *)a.to)[(left + i) * a.n + top + x] = tile[x][i];
            __syncthreads();
        }
    }
}

template <class Bits> __global__ void __launch_bounds__(kGatherThreads) gather_runs(const __grid_constant__ GatherLines a)
{
    rp_spec s = {};
    s.rows = a.rows;
    s.row_len = a.row_len;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.lines * a.n; i += (u64)gridDim.x * blockDim.x)
        ((Bits *)a.to)[i] = ((const Bits *)a.from)[rk_place_in_runs(&s, a.first + i / a.n, i % a.n)];
}

template <class Bits> GatherFn of_bits(bool columns) { return columns ? gather_columns<Bits> : gather_runs<Bits>; }

} // namespace

GatherFn gather_kernel(int bytes, bool columns)
{
    return bytes == 1   ? of_bits<unsigned char>(columns)
           : bytes == 2 ? of_bits<unsigned short>(columns)
           : bytes == 4 ? of_bits<u32>(columns)
                        : of_bits<u64>(columns);
}

} // namespace rk
