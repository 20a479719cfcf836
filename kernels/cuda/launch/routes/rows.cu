// Rows that fit the registers of a thread or of some lanes of a warp, and long masked rows by vectors.
#include "kernels/cuda/launch/routes/walk.h"
#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/ops/registry.h"

namespace rk {
namespace {

// May rows stay in registers: equal ones of whole vectors, or of 8 bytes, whose values the kernels make?
bool fits_registers(const Asked &q)
{
    const u64 bytes = q.s.row_len * q.bytes;
    if (q.columns || q.segments || bytes == 0 || bytes > 4096 || q.s.row_len > 1024)
        return false;
    if (!(q.floats ? q.values && q.pairs : q.a.light && !skips_nans(q.s)))
        return false;
    const rp_parts parts = parts_of(q.t);
    if (bytes == 8)
        return !q.mask && (uintptr_t)parts.elements % 8 == 0;
    return bytes % 16 == 0 && (uintptr_t)parts.elements % 16 == 0 && (uintptr_t)parts.mask % 8 == 0;
}

// How `lanes` lanes have a row: `vectors` vectors each, of which 0 is half of one; `full`: all have as many.
struct LaneRow {
    u32 lanes, vectors;
    bool full;
};

LaneRow lane_row(const Asked &q)
{
    const u32 n = (u32)(q.s.row_len * q.bytes / 16), vectors = n == 0 ? 0 : n > 4 * kWarp ? 8 : 4;
    u32 lanes = 1;
    while (lanes * vectors < n)
        lanes *= 2;
    return {lanes, vectors, vectors == 0 || lanes * vectors == n};
}

Walk walk_in_registers(const Asked &q, WalkFn fn, u32 lanes)
{
    Walk x = walk_of(q, fn, lanes);
    x.w.run = (u32)(16 / q.bytes);
    set_teams(&x, 1, true);
    x.doubts = q.floats;
    x.overlap = q.d->overlapped_launch;
    return x;
}

} // namespace

bool fits_thread_rows(const Asked &q, WalkFn *fn)
{
    if (q.mask || !fits_registers(q) || (q.floats && q.lines < kTuning.thread_rows))
        return false;
    *fn = q.floats ? thread_row_kernel(q.layout, q.s.dtype, q.s.row_len)
                   : best_thread_row_kernel(q.layout, q.s.dtype, q.s.row_len);
    return *fn;
}

cudaError_t launch_thread_rows(const Asked &q, WalkFn fn)
{
    const u64 bytes = q.s.row_len * q.bytes;
    Walk x = walk_in_registers(q, fn, 1);
    x.w.turns = bytes == 8 ? kPairRows : (u32)(16 * kStagedVectors / bytes);
    return walk(q, x);
}

bool fits_lane_rows(const Asked &q, WalkFn *fn)
{
    if (!fits_registers(q))
        return false;
    const LaneRow r = lane_row(q);
    *fn = q.floats ? row_float_kernel(q.layout, q.s.dtype, r.vectors, r.full, q.mask)
                   : best_row_kernel(q.layout, q.s.dtype, r.vectors, q.mask);
    return *fn;
}

cudaError_t launch_lane_rows(const Asked &q, WalkFn fn)
{
    Walk x = walk_in_registers(q, fn, lane_row(q).lanes);
    x.w.turns = turns_of(q, x.w.lanes);
    return walk(q, x);
}

bool fits_masked_rows(const Asked &q, WalkFn *fn)
{
    *fn = is_long_masked(q) && !q.floats ? masked_best_kernel(q.layout, q.s.dtype, skips_nans(q.s)) : NULL;
    return *fn;
}

cudaError_t launch_masked_rows(const Asked &q, WalkFn fn)
{
    Walk x = walk_of(q, fn, kColumnThreads);
    x.threads = kColumnThreads;
    x.lines_each = 1;
    x.most = ~0u;
    set_teams(&x, teams_of_blocks(q, q.lines, x.w.team, kMaskedBlocks), q.a.light);
    return walk(q, x);
}

} // namespace rk
