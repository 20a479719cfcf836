// Many short rows or segments of float sums: sum_short_lines.cu.
#include "kernels/cuda/launch/routes.h"
#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/ops/registry.h"

namespace rk {
namespace {

// Lanes for a line of `bytes` bytes: four vectors for each, a warp at most.
u32 lanes_for(u64 bytes)
{
    u32 lanes = 1;
    while (lanes < kWarp && lanes * 64 < bytes)
        lanes *= 2;
    return lanes;
}

// `bytes`: of a line, in the mean
RowShape row_shape(const RowArgs &r, u64 bytes, bool narrow)
{
    const bool whole = bytes % 16 == 0 && (uintptr_t)r.elements % 16 == 0, tile = bytes <= 64 * r.lanes;
    if (narrow && !r.offsets && bytes == 8 && (uintptr_t)r.elements % 8 == 0)
        return kPairs;
    if (narrow && !r.offsets && whole && bytes && bytes <= 16 * kStagedVectors)
        return kStaged;
    if (r.lanes == 1 && !r.offsets)
        return kTinyRows;
    if (!r.offsets && whole && tile)
        return kWholeRows;
    return bytes >= kTuning.long_row_bytes ? kLongRows : kOtherRows;
}

RowArgs row_args(const Asked &q, u64 bytes)
{
    const rp_parts parts = parts_of(q.t);
    const u32 sign = !rk_is_abs(q.layout) ? 0 : q.bytes == 2 ? 0x80008000u : 1u << 31;
    RowArgs r = {};
    r.offsets = parts.offsets;
    r.elements = parts.elements;
    r.lines = q.lines;
    r.longest = q.longest;
    r.lanes = lanes_for(bytes);
    r.state_words = (u32)(rp_state_size(q.layout) / sizeof(u64)) | 1; // odd: threads meet in few banks
    r.skip = skips_nans(q.s);
    r.keep[0] = q.bytes == 8 ? ~0u : ~sign;
    r.keep[1] = ~sign;
    return r;
}

// How a shape's rows are shared: rows of a thread, if it has whole ones; else 0.
u64 rows_of_thread(RowShape shape, u64 bytes)
{
    return shape == kPairs ? kPairRows : shape == kStaged ? 16 * kStagedVectors / bytes : 0;
}

// The most blocks of a launch: as many as there are for kernels without a loop over rows.
u64 most_blocks(const Device *d, RowShape shape, u64 blocks)
{
    switch (shape) {
    case kPairs:
    case kStaged:
    case kWholeRows:
        return blocks;
    case kLongRows:
        return (1ull << 31) - 1; // of a grid
    case kTinyRows:
    case kOtherRows:
        break;
    }
    return (u64)d->sms * 64;
}

} // namespace

bool fits_short_sums(const Asked &q, WalkFn *) { return q.sum && !q.mask && !q.columns && !q.d->long_sums; }

cudaError_t launch_short_sums(const Asked &q, WalkFn)
{
    const u64 bytes = q.length * q.bytes;
    RowArgs r = row_args(q, bytes);
    const RowShape shape = row_shape(r, bytes, q.bytes < 8);
    const u64 of_thread = rows_of_thread(shape, bytes), each = of_thread ? of_thread : shape == kTinyRows ? 4 : 1;
    const int threads = shape == kLongRows ? kLineThreads : kRowThreads;
    if (of_thread)
        r.lanes = 1;
    const u64 blocks = div_up(q.lines * r.lanes, each * threads), most = most_blocks(q.d, shape, blocks);
    const size_t shared = of_thread ? 0 : threads * r.state_words * sizeof(u64);
    TRY_CUDA(gpu_launch(false, sum_rows_kernel(q.s.dtype, shape, bytes / 16), (u32)(blocks < most ? blocks : most), threads,
                        shared, q.stream, q.a, r));
    return launch_long_segments(q);
}

} // namespace rk
