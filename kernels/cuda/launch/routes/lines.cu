// Rows and segments, and columns that no route of all_columns.cu takes, by walking along them: by near sums and products, by
// sums of floats in a few doubles, by the operation's own walker, by states.
#include "kernels/cuda/launch/routes/walk.h"

#include <algorithm>

#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/ops/registry.h"
#include "kernels/exact/families/comoments.h"

namespace rk {
namespace {

bool is_long(const Asked &q) { return q.length >= kTuning.long_walk; }

// Lines that are long enough to keep a block busy
bool suits_block(const Asked &q) { return q.length * q.bytes >= kTuning.near_block_line; }

Walk walk_near(const Asked &q, WalkFn fn, u32 team)
{
    Walk x = walk_of(q, fn, team);
    x.w.run = is_long(q) ? (u32)(16 / q.bytes) : 1;
    set_teams(&x, 1, true);
    x.doubts = true;
    x.overlap = q.d->overlapped_launch;
    return x;
}

// Lanes for rows that have the same weights, if these are enough to fill the device; else 0
u32 lanes_beside(const Asked &q)
{
    const u64 threads = (u64)q.d->sms * kTuning.walkers_per_sm / 2, batches = q.lines / kRowsBeside;
    u32 lanes = walk_lanes(q.length);
    while (lanes > kRowsBeside && lanes * kTuning.near_share > q.length && batches * lanes / 2 >= threads)
        lanes /= 2;
    return batches * lanes >= threads ? lanes : 0;
}

// Teams where no segment is left to another kernel; such segments leave no partial to be merged, so lines have one team.
u32 teams_unless_left(const Asked &q, u32 team) { return q.longest == kAnyLength ? teams_per_line(q, team) : 1; }

} // namespace

WalkFn near_kernel(const Asked &q, NearShape shape)
{
    const bool one_team = (q.lines >= kTuning.short_rows_min || (q.columns && q.length <= kTuning.near_column)) &&
                          q.length <= longest_shared_line(q);
    if (q.comoments)
        return one_team && q.whole.redo ? near_comoment_kernel(q.s.dtype, q.s.weights, rk_has_squares(q.layout), shape) : NULL;
    if (q.paired)
        return one_team && q.whole.redo ? near_pair_kernel(q.s.dtype, q.s.weights, rk_sum_limbs(q.layout), shape) : NULL;
    if (one_team && q.whole.redo)
        return near_product_kernel(q.s.dtype, shape);
    return one_team && q.floats && q.values && q.pairs && q.length >= kTuning.near_line
               ? near_line_kernel(q.layout, q.s.dtype, shape)
               : NULL;
}

bool fits_near_blocks(const Asked &q, WalkFn *fn)
{
    *fn = !q.columns && suits_block(q) ? near_kernel(q, kNearBlock) : NULL;
    return *fn;
}

cudaError_t launch_near_blocks(const Asked &q, WalkFn fn)
{
    Walk x = walk_near(q, fn, kColumnThreads);
    x.threads = kColumnThreads;
    x.lines_each = 1;
    x.most = ~0u;
    return walk(q, x);
}

// A pair may be left out if it is masked, a NaN or of a weight of zero: these rows go line by line.
bool fits_rows_beside(const Asked &q, WalkFn *fn)
{
    const bool whole = q.paired && !q.columns && !q.segments && q.s.weights_extent == RP_EXTENT_ROW &&
                       q.length * q.bytes % 16 == 0;
    const rp_parts parts = parts_of(q.t);
    const bool all = whole && ((uintptr_t)parts.elements | (uintptr_t)parts.weights) % 16 == 0 && !q.mask && !skips_nans(q.s) &&
                     !q.s.zero_drops;
    *fn = all && lanes_beside(q) >= kRowsBeside ? near_kernel(q, kNearBeside) : NULL;
    return *fn;
}

cudaError_t launch_rows_beside(const Asked &q, WalkFn fn)
{
    Walk x = walk_near(q, fn, lanes_beside(q));
    x.w.turns = kRowsBeside;
    return walk(q, x);
}

bool fits_near_lines(const Asked &q, WalkFn *fn)
{
    *fn = !q.columns ? near_kernel(q, kNearLanes) : NULL;
    return *fn;
}

cudaError_t launch_near_lines(const Asked &q, WalkFn fn)
{
    Walk x = walk_near(q, fn, fewer_lanes(q, kTuning.near_share));
    x.w.turns = turns_of(q, x.w.lanes);
    return walk(q, x);
}

bool fits_float_lines(const Asked &q, WalkFn *fn)
{
    const WalkShape shape = is_long(q) ? kLongWalk : kShortWalk;
    *fn = !q.columns && q.floats && q.pairs ? walk_float_kernel(q.layout, q.s.dtype, shape) : NULL;
    return *fn;
}

cudaError_t launch_float_lines(const Asked &q, WalkFn fn)
{
    Walk x = walk_of(q, fn, walk_lanes(q.length));
    x.w.run = is_long(q) ? (u32)(16 / q.bytes) : 1;
    set_teams(&x, teams_unless_left(q, x.w.team), q.values);
    x.w.turns = x.w.values ? turns_of(q, x.w.lanes) : 1;
    x.doubts = true;
    x.overlap = q.d->overlapped_launch;
    return walk(q, x);
}

bool fits_lines(const Asked &q, WalkFn *fn)
{
    *fn = q.whole.k.walk;
    return *fn;
}

// By the walker `fn` or, where it is NULL, by states.
cudaError_t launch_lines(const Asked &q, WalkFn fn)
{
    Walk x = walk_of(q, fn, q.columns ? 1 : fewer_lanes(q, kTuning.lane_bytes / q.bytes));
    set_teams(&x, teams_unless_left(q, x.w.team), fn && q.a.light);
    return walk(q, x);
}

// ---- cov and corr by exact sums ----

bool fits_comoments(const Asked &q, WalkFn *) { return q.comoments; }

// Blocks share lines that are few.
cudaError_t launch_comoments(const Asked &q, WalkFn)
{
    const ComomentKernels k = comoment_kernels(q.layout, q.s.dtype);
    const u64 at_once = (u64)q.d->sms * 2, room = q.scratch.words / q.a.plan.all / q.lines;
    const u64 few = std::min(at_once / q.lines, q.length / (kTuning.least_walk * k.threads));
    const u64 blocks = std::max(q.lines <= kRowTotals ? std::min(few, room) : 0, (u64)1);
    SegmentArgs g = segment_args(q, q.t);
    g.totals = q.scratch.totals;
    Walk x = walk_of(q, k.lines, k.threads);
    x.w.lines = q.lines;
    const dim3 grid((u32)blocks, rows_of_grid(q.lines));
    return gpu_launch(false, k.lines, grid, exact_threads(q, k), 0, q.stream, q.a, g, x.w, q.scratch.a);
}

bool fits_any(const Asked &, WalkFn *) { return true; }
cudaError_t launch_any(const Asked &q, WalkFn) { return launch_lines(q, NULL); }

} // namespace rk
