// Rows of a tile or less: a block a row, nothing else. What the host does here counts as much as what the kernel does.
#include "kernels/cuda/launch/routes.h"

namespace rk {

constexpr u64 kTileRows = 65535;           // of a launch: blocks along a grid's y
constexpr size_t kPlainShared = 40u << 10; // bytes of dynamic shared memory that a block has without asking, beside its own

// Does each row begin with a whole vector, and is there a kernel for tiles?
bool fits_tiles(const Asked &q, WalkFn *)
{
    const SegmentKernel &k = q.tile;
    const u64 bytes = q.bytes * q.s.row_len;
    return q.rows && k.tile && bytes >= 16 && bytes <= k.threads * k.unroll * 16u && (uintptr_t)q.t.data % 16 == 0 &&
           (q.s.rows == 1 || bytes % 16 == 0) && suits_blocks(q, !q.a.light);
}

cudaError_t launch_tiles(const Asked &q, WalkFn)
{
    const SegmentKernel &k = q.tile;
    SegmentArgs g = segment_args(q, q.t);
    FinishArgs finish = q.a;
    finish.ends = !finish.light;    // the general way, too
    g.share = k.threads * k.unroll; // a row that takes the general way has no more vectors
    int blocks;
    if (k.shared_bytes > kPlainShared)
        TRY_CUDA(device_blocks_per_sm(q.d, (const void *)k.tile, k.threads, k.shared_bytes, &blocks));
    for (; g.first_row < g.rows; g.first_row += kTileRows, g.data += (kTileRows * g.row_len) << g.element_log2) {
        const u64 left = g.rows - g.first_row;
        const dim3 grid(1, (u32)(left < kTileRows ? left : kTileRows));
        TRY_CUDA(gpu_launch(false, k.tile, grid, k.threads, k.shared_bytes, q.stream, g, finish, q.scratch.a));
    }
    return cudaSuccess;
}

} // namespace rk
