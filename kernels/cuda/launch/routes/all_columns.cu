// Columns: whole ones by a thread, by vectors ahead in shared memory, by vectors, and one by one.
#include "kernels/cuda/launch/routes/walk.h"
#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/ops/registry.h"

namespace rk {
namespace {

bool has_whole_vectors(const Asked &q)
{
    return q.columns && !q.mask && q.s.row_len * q.bytes % 16 == 0 && (uintptr_t)q.t.data % 16 == 0;
}

// ---- columns of few rows: a thread has whole ones ----

bool are_narrow_planes(const Asked &q)
{
    const u64 vectors = q.s.row_len / kColumns;
    return q.s.planes > 1 && q.s.rows <= kPlaneRows && vectors <= kPlaneVectors && (vectors & (vectors - 1)) == 0;
}

// Columns of vectors of f32, which go to vectors of values
WalkFn whole_kernel(const Asked &q, bool planes)
{
    const bool slow = q.d->major < 8 || (q.floats && !q.pairs);
    if (!q.columns || q.mask || q.paired || !q.values || slow || q.s.row_len % kColumns || (uintptr_t)q.t.data % 16 ||
        (uintptr_t)q.t.cells % 16 || q.s.rows == 0 || q.s.rows > kMostWholeRows ||
        q.lines / kColumns > kTuning.ring_columns / kColumns)
        return NULL;
    return whole_columns_kernel(q.layout, q.s.dtype, skips_nans(q.s), planes);
}

// Do threads that have whole columns fill the device?
bool whole_columns_fill(const Asked &q)
{
    const u64 all = q.lines / kColumns, at_once = (u64)q.d->sms * kWholeBlocks * kWholeThreads;
    const bool sum = q.layout == RP_STATE_SUM32 && q.s.op == RP_OP_SUM; // these are quick by the ring
    return (all >= kTuning.whole_turns * at_once && fill_of(all, at_once) >= kTuning.column_fill) ||
           (!sum && all >= (u64)q.d->sms * kWholeThreads / 2);
}

// Columns of `threads` threads a block. The lines in doubt have a team.
Walk walk_whole(const Asked &q, WalkFn fn, int threads)
{
    Walk x = walk_of(q, fn, walk_lanes(q.s.rows));
    x.threads = threads;
    x.lines_each = (u64)kColumns * threads;
    x.most = ~0u;
    set_teams(&x, 1, true);
    x.doubts = q.floats;
    x.marks = true;
    x.overlap = q.d->overlapped_launch;
    return x;
}

// ---- by a ring ----

// How many vectors of columns an item is wide: much, for memory likes long rows, if items fill the device all the time. One
// block keeps an SM busy. Of several turns there are many, if each has rows enough, for blocks do not end together.
u32 width_of_ring(const Asked &q, int blocks_per_sm, u64 vectors)
{
    const u64 sms = (u64)q.d->sms, blocks = sms * blocks_per_sm;
    u32 width = (u32)(vectors < kColumnThreads ? vectors : kColumnThreads);
    for (u64 items; width > kRingWidth; width = (width + 1) / 2) {
        items = div_up(vectors, width);
        const bool fills = fill_of(items, items <= sms ? sms : blocks) >= kTuning.column_fill;
        const bool turns = items <= blocks || items >= 8 * blocks || q.s.rows * width / kColumnThreads < 2 * kTuning.ring_share;
        if (fills && turns)
            break;
    }
    return width;
}

// Teams for each column, only where items are too few. `words`: of a partial.
u32 teams_of_ring(const Asked &q, u64 items, u32 team, u64 words)
{
    const u64 sms = (u64)q.d->sms, few = (u64)((double)sms * kTuning.column_fill);
    const u64 share = q.s.rows / team / (kRingRows * kRingTiles), room = q.scratch.words / words / q.lines;
    u64 teams = items < few ? sms / items : 1; // a block of an SM: more teams are more to join
    teams = teams < share ? teams : share;
    teams = teams < room ? teams : room;
    return teams > 1 ? (u32)teams : 1;
}

// ---- by vectors, and one by one ----

// How many vectors lie side by side in a block, a power of two: as few as leave blocks for all SMs, but no more blocks than
// these hold in some turns.
u32 width_of_vectors(const Asked &q, u64 vectors)
{
    const u64 sms = (u64)q.d->sms;
    u32 width = 1;
    while (width < kColumnWidth && width < vectors)
        width *= 2;
    while (width < kColumnThreads &&
           (div_up(vectors, width) > sms * 32 || (width == kColumnWidth && div_up(vectors, 2 * width) >= sms * 3)))
        width *= 2;
    while (width < kColumnThreads && width < vectors && q.s.rows < 2 * kColumnThreads / width) // as width_of_columns
        width *= 2;
    return width;
}

// How many columns a block of walk_columns has: all if they are few, else at least `least` of them, and more where enough
// blocks are left.
u32 width_of_columns(const Asked &q, u32 least)
{
    const Device *d = q.d;
    const u64 columns = q.lines;
    if (columns <= kColumnThreads / 4)
        return (u32)columns;
    u32 width = kWarp;
    while (width < kColumnThreads && columns / (2 * width) >= 2 * (u64)d->sms)
        width *= 2;
    while (width > least && columns / width < 4 * (u64)d->sms)
        width /= 2;
    while (width < kColumnThreads && q.s.rows < 2 * kColumnThreads / width) // each thread has two rows, if a column has
        width *= 2;
    return width;
}

Walk walk_of_width(const Asked &q, WalkFn fn, u32 width, u32 per)
{
    Walk x = walk_of(q, fn, kColumnThreads / width);
    set_width(&x, width, per);
    return x;
}

} // namespace

bool fits_few_rows(const Asked &q, WalkFn *) { return has_few_rows(q.s); }

cudaError_t launch_few_rows(const Asked &q, WalkFn)
{
    const bool vectors = has_whole_vectors(q) && (uintptr_t)q.a.cells % 16 == 0;
    const FewRowsKernel k = few_rows_kernel(q.s.dtype, vectors, q.s.rows);
    return gpu_launch(false, k.fn, walk_blocks(q.d, div_up(q.lines, k.per), kFewThreads), kFewThreads, 0, q.stream, q.a,
                      (const u8 *)q.t.data);
}

bool fits_planes(const Asked &q, WalkFn *fn)
{
    *fn = are_narrow_planes(q) ? whole_kernel(q, true) : NULL;
    return *fn;
}

cudaError_t launch_planes(const Asked &q, WalkFn fn)
{
    Walk x = walk_whole(q, fn, kPlaneThreads);
    x.most = (u32)q.d->sms * kPlaneBlocks;
    x.shared = plane_shared_bytes(q.s.rows);
    return walk(q, x);
}

bool fits_whole_columns(const Asked &q, WalkFn *fn)
{
    *fn = q.s.rows < kTuning.ring_rows || whole_columns_fill(q) ? whole_kernel(q, false) : NULL;
    return *fn;
}

cudaError_t launch_whole_columns(const Asked &q, WalkFn fn) { return walk(q, walk_whole(q, fn, kWholeThreads)); }

bool fits_ring(const Asked &q, WalkFn *fn)
{
    if (!q.floats || !has_whole_vectors(q))
        return false;
    const u64 rows = q.s.dtype != RP_F32         ? kTuning.ring_rows_of_others
                     : rk_square_limbs(q.layout) ? kTuning.ring_rows_of_squares
                                                 : kTuning.ring_rows;
    if (!q.pairs || q.d->major < 8 || q.s.rows < rows || q.lines > kTuning.ring_columns)
        return false;
    *fn = column_float_kernel(q.layout, q.s.dtype, q.values);
    return *fn;
}

cudaError_t launch_ring(const Asked &q, WalkFn fn)
{
    const size_t shared = column_shared_bytes(q.layout, q.s.dtype);
    int blocks_per_sm;
    TRY_CUDA(device_blocks_per_sm(q.d, (const void *)fn, kColumnThreads, shared, &blocks_per_sm));
    const u32 per = (u32)(16 / q.bytes), pair_words = q.values ? column_pair_words(q.layout) : 0;
    const u64 vectors = q.lines / per;
    Walk x = walk_of_width(q, fn, width_of_ring(q, blocks_per_sm, vectors), per);
    set_teams(&x, teams_of_ring(q, div_up(vectors, x.w.width), x.w.team, q.a.plan.all + pair_words), q.values);
    x.w.pair_words = teams_of(x.w) == 1 ? 0 : pair_words;
    x.shared = shared;
    x.most = (u32)q.d->sms * blocks_per_sm;
    x.doubts = x.marks = true;
    x.overlap = q.d->overlapped_launch;
    x.doubtful_team = walk_lanes(q.s.rows);
    x.most_again = (u32)q.d->sms * 4; // mostly nothing is lost
    return walk(q, x);
}

bool fits_near_columns(const Asked &q, WalkFn *fn)
{
    const u64 few = (u64)q.d->sms * kWarp / (q.whole.redo ? 4 : 1); // blocks: logarithms take longer than states
    const bool are_short = q.whole.redo && q.length <= kTuning.near_column;
    *fn = q.columns && (q.lines >= few || are_short) ? near_kernel(q, kNearColumns) : NULL;
    return *fn;
}

cudaError_t launch_near_columns(const Asked &q, WalkFn fn)
{
    Walk x = walk_of_width(q, fn, width_of_columns(q, q.whole.redo ? kWarp / 2 : kWarp), 1);
    set_teams(&x, 1, true);
    x.doubts = true;
    x.overlap = q.d->overlapped_launch;
    return walk(q, x);
}

bool fits_vector_columns(const Asked &q, WalkFn *fn)
{
    *fn = !q.floats && has_whole_vectors(q) ? q.whole.k.columns : NULL;
    return *fn;
}

cudaError_t launch_vector_columns(const Asked &q, WalkFn fn)
{
    const u32 per = (u32)(16 / q.bytes);
    Walk x = walk_of_width(q, fn, width_of_vectors(q, q.lines / per), per);
    set_teams(&x, teams_of_blocks(q, div_up(q.lines / per, x.w.width), x.w.team, kColumnBlocks), q.a.light);
    return walk(q, x);
}

bool fits_float_columns(const Asked &q, WalkFn *fn)
{
    *fn = q.columns && q.floats && q.pairs ? walk_float_kernel(q.layout, q.s.dtype, kColumnWalk) : NULL;
    return *fn;
}

cudaError_t launch_float_columns(const Asked &q, WalkFn fn)
{
    Walk x = walk_of_width(q, fn, width_of_columns(q, kWarp), 1);
    set_teams(&x, teams_per_line(q, x.w.team), q.values);
    x.doubts = true;
    x.overlap = q.d->overlapped_launch;
    return walk(q, x);
}

} // namespace rk
