// Which kernel is taken when.
//
//   shape of the task                                      way         kernels
//   -----------------------------------------------------  ----------  ------------------------------------------------------
//   rows of 16 bytes to a tile, aligned; light values      kTiles      kernel.tile: a block a row, nothing else
//   rows that are long, few, or many tiles together        kBlocks     kernel.fn: blocks share a row; its last block finishes
//                                                                      light values, and moments and means if rows are few;
//                                                                      else merge.cuh: merge_sum (float sums),
//                                                                      merge_and_finish, before it merge_partials if many
//   var, norms, rows of up to 2^24 (f64: 2^21) elements    kBlocks     near_moments (near_rows.cuh): ends rows itself
//   products of floats, such rows                          kBlocks     kernel.fn: the last block of a row finishes it, and
//                                                                      product_redo_kernel those whose rounding is not certain
//   sums of long masked rows of f32                        kBlocks     the same, of sum_twosum.cu
//   sum, mean, norm 1: short rows, segments                kShortSums  sum_short_lines.cu: lanes of a warp a line, or one
//   all others: columns, masks, segments, many short rows  kWalk       below
//   segments above `longest`, whose others go either way   kBlocks     kernel.fn for each
//   partial states                                         -           merge.cuh: unpack_states, then as after kernel.fn
//
// Lines walked along, by what is summed (kernel.walk); then merge.cuh if a line has several teams, else finish_lines:
//
//   floats, columns of whole vectors       columns_float.cu, but for stats; finish_float_columns if there are several teams
//   f32, rows of 8 to 128 bytes            rows_thread.cu: var, norms, stats
//   f32, rows of whole vectors to 4 KiB    rows_float.cu: the same; with a mask sums, too
//   32 bits, rows of either kind           rows_best.cu: min, max, argmin, argmax
//   f32, columns of few rows               columns_whole.cu: sums, norms, var, min, max, if there are many columns or planes
//   floats, many rows, segments, columns   lines_near.cu: var, norms; products_near.cu: products; a block a line if they are
//                                          long, but for columns
//   other floats: sums, norms, var, stats  lines_float.cu: walk_columns for columns, walk_floats with vectors for long lines,
//                                          walk_floats for short ones; what their doubles do not hold walk_states or, if
//                                          values were made, walk_listed (lines_any.cu) does again
//   ... on devices with slow doubles       walk_states (lines_any.cu)
//   light values, columns of vectors       column_vectors.cuh: walk_vector_columns of the operation
//   min, max, long masked rows             masked.cuh: walk_masked
//   everything else                        lines.cuh: walk_lines of the operation
//
// Whole rows by layout: pick_row_kernel.
#include "kernels/cuda/launch/pick.h"

#include "kernels/cuda/launch/registry.h"
#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/pass/whole.h"
#include "kernels/exact/line.h"

namespace rk {

bool skips_nans(const rp_spec &s) { return s.nan != RP_NAN_PROPAGATE; }

bool is_float_sum(const rp_spec &s, int layout)
{
    return rk_is_float(s.dtype) && (rk_sum_limbs(layout) || rk_square_limbs(layout));
}

u64 mean_length(const rp_spec &s) { return rp_elements(&s) / rp_results(&s); }

WalkShape walk_shape(const rp_spec &s)
{
    return s.flags & RP_COLUMNS ? kColumnWalk : mean_length(s) >= kTuning.long_walk ? kLongWalk : kShortWalk;
}

bool makes_values(const rp_spec &s)
{
    return (s.out == RP_F64 || s.op == RP_OP_STATS) && !(s.flags & (RP_STATES_OUT | RP_INITIAL));
}

namespace {

// Moments whose values near sums may tell?
bool near_moments(const Device *d, const rp_spec &s, int layout)
{
    const rk_finisher finisher = rk_finisher_of(s.op);
    const bool wide = layout == RP_STATE_SQ64 || layout == RP_STATE_MOM64;
    return (wide || layout == RP_STATE_SQ32 || layout == RP_STATE_MOM32) && makes_values(s) && !skips_nans(s) &&
           !d->slow_doubles && (finisher == RK_FINISH_SPREAD || finisher == RK_FINISH_SQUARES) && !d->long_sums &&
           s.row_len <= (wide ? kTuning.near_f64_row : kTuning.near_row);
}

// The kernel that reduces whole rows of this task; fn is NULL if there is none.
SegmentKernel pick_row_kernel(const Device *d, const rp_spec &s, int layout)
{
    bool skip = skips_nans(s);
    const bool pairs = !d->slow_doubles && !d->long_sums;
    if (pairs && (layout == RP_STATE_SUM64 || (layout == RP_STATE_SUM32 && s.dtype != RP_F16)))
        return sum_few_kernel(s.dtype, skip, s.row_len);
    if (pairs && rk_is_abs(layout) && (s.dtype == RP_F32 || s.dtype == RP_F64))
        return magnitudes_few_kernel(s.dtype, skip, s.row_len);
    switch ((rp_layout)layout) {
    case RP_STATE_SUM32:
    case RP_STATE_ABS32:
        if (d->slow_doubles && layout == RP_STATE_SUM32) // by integers
            return moments_f32_kernel(s.dtype, false, false, d->large_shared);
        return sum_float_kernel(s.dtype, skip);
    case RP_STATE_SUM64:
    case RP_STATE_ABS64:
        return sum_f64_kernel(skip, d->large_shared);
    case RP_STATE_INT:
        return sum_int_kernel(s.dtype);
    case RP_STATE_SQ32:
    case RP_STATE_MOM32:
    case RP_STATE_STATS32:
        return moments_f32_kernel(s.dtype, rk_is_stats(layout), near_moments(d, s, layout), d->large_shared);
    case RP_STATE_SQ64:
    case RP_STATE_MOM64:
    case RP_STATE_STATS64:
        return moments_f64_kernel(rk_is_stats(layout), near_moments(d, s, layout));
    case RP_STATE_ABSINT:
    case RP_STATE_SQINT:
    case RP_STATE_MOMINT:
    case RP_STATE_STATSINT:
        return moments_int_kernel(layout, s.dtype);
    case RP_STATE_MIN:
    case RP_STATE_MAX:
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
        return best_kernel(layout, s.dtype, skip);
    case RP_STATE_NORMINF:
        return is_largest(s) ? best_kernel(layout, s.dtype, false) : minmax_kernel(s.dtype);
    case RP_STATE_MINMAX:
        return minmax_kernel(s.dtype);
    case RP_STATE_COUNT:
        return count_kernel(s.dtype, skip);
    case RP_STATE_NANS:
        return count_kernel(s.dtype, true);
    case RP_STATE_AND:
    case RP_STATE_OR:
    case RP_STATE_XOR:
        return bits_kernel(layout, s.dtype);
    case RP_STATE_PROD:
    case RP_STATE_PRODINT:
        return prod_kernel(s.dtype);
    }
    return {}; // there is no such layout
}

// How to walk, if there is a faster way than the general one.
WalkFn pick_walk(const Device *d, const rp_spec &s, int layout, const SegmentKernel &k)
{
    if (is_float_sum(s, layout) && !d->slow_doubles && !d->long_sums)
        return walk_float_kernel(layout, s.dtype, walk_shape(s));
    return k.walk;
}

// Columns that go by whole vectors?
WalkFn pick_columns(const Device *d, const ChainTask &t, int layout, const SegmentKernel &k)
{
    const rp_spec &s = t.spec;
    const bool whole = s.row_len * rk_bytes(s.dtype) % 16 == 0 && (uintptr_t)t.data % 16 == 0;
    if (!(s.flags & RP_COLUMNS) || (s.flags & RP_MASK) || !whole)
        return NULL;
    if (!is_float_sum(s, layout))
        return k.columns;
    const bool squares = rk_square_limbs(layout);
    const u64 rows = s.dtype != RP_F32 ? kTuning.ring_rows_of_others
                     : squares         ? kTuning.ring_rows_of_squares
                                       : kTuning.ring_rows;
    const bool slow = d->slow_doubles || d->long_sums || d->major < 8 || s.rows < rows || rp_results(&s) > kTuning.ring_columns;
    return slow ? NULL : column_float_kernel(layout, s.dtype, makes_values(s));
}

// Columns of few rows?
void pick_whole(const Device *d, const ChainTask &t, int layout, Pick *p)
{
    const rp_spec &s = t.spec;
    const u64 vectors = s.row_len / kColumns, all = rp_results(&s) / kColumns;
    const bool slow = d->major < 8 || (is_float_sum(s, layout) && (d->slow_doubles || d->long_sums));
    if (!(s.flags & RP_COLUMNS) || (s.flags & RP_MASK) || !makes_values(s) || slow || s.row_len % kColumns ||
        (uintptr_t)t.data % 16 || (uintptr_t)t.cells % 16 || s.rows == 0 || s.rows > kMostWholeRows ||
        all > kTuning.ring_columns / kColumns)
        return;
    const bool planes = s.planes > 1 && s.rows <= kPlaneRows && vectors <= kPlaneVectors && (vectors & (vectors - 1)) == 0;
    const u64 at_once = (u64)d->sms * kWholeBlocks * kWholeThreads;
    const bool sum = layout == RP_STATE_SUM32 && s.op == RP_OP_SUM; // these are quick by the ring
    const bool fills = (all >= kTuning.whole_turns * at_once && fill_of(all, at_once) >= kTuning.column_fill) ||
                       (!sum && all >= (u64)d->sms * kWholeThreads / 2);
    if (!planes && s.rows >= kTuning.ring_rows && !fills)
        return;
    const WalkFn fn = whole_columns_kernel(layout, s.dtype, skips_nans(s), planes);
    if (!fn)
        return;
    p->kernel.walk = fn;
    p->vectors = p->ring = false;
    p->whole = true;
    p->planes = planes;
}

// Rows that fit the registers of some lanes of a warp?
void pick_rows(const Device *d, const ChainTask &t, const FinishArgs &a, Pick *p)
{
    const rp_spec &s = t.spec;
    const int layout = a.plan.layout;
    const u64 bytes = s.row_len * rk_bytes(s.dtype);
    const bool floats = is_float_sum(s, layout), mask = s.flags & RP_MASK;
    const bool makes = floats ? makes_values(s) && !d->slow_doubles && !d->long_sums : a.light && !skips_nans(s);
    const rp_parts parts = parts_of(t);
    const bool aligned = bytes == 8 ? !mask && (uintptr_t)parts.elements % 8 == 0
                                    : bytes % 16 == 0 && (uintptr_t)parts.elements % 16 == 0 && (uintptr_t)parts.mask % 8 == 0;
    if (!makes || (s.flags & (RP_COLUMNS | RP_OFFSETS)) || !aligned || bytes == 0 || bytes > 4096 || s.row_len > 1024)
        return;
    const WalkFn thread = mask     ? NULL
                          : floats ? thread_row_kernel(layout, s.dtype, s.row_len)
                                   : best_thread_row_kernel(layout, s.dtype, s.row_len);
    if (thread) {
        p->kernel.walk = thread;
        p->lanes = 1;
        p->rows_each = bytes == 8 ? kPairRows : (u32)(16 * kStagedVectors / bytes);
        return;
    }
    const u32 n = (u32)(bytes / 16), vectors = n == 0 ? 0 : n > 4 * kWarp ? 8 : 4;
    u32 lanes = 1;
    while (lanes * vectors < n)
        lanes *= 2;
    const WalkFn fn = floats ? row_float_kernel(layout, s.dtype, vectors, vectors == 0 || lanes * vectors == n, mask)
                             : best_row_kernel(layout, s.dtype, vectors, mask);
    if (!fn)
        return;
    p->kernel.walk = fn;
    p->lanes = lanes;
}

// Values of products of floats?
void pick_products(const Device *d, const rp_spec &s, int layout, Pick *p)
{
    if (layout != RP_STATE_PROD || d->slow_doubles || s.flags & (RP_STATES_OUT | RP_INITIAL))
        return;
    const WalkFn walk = p->kernel.walk;
    p->kernel = product_kernel(s.dtype, skips_nans(s));
    p->kernel.walk = walk;
    p->redo = product_redo_kernel(s.dtype);
}

// Long rows with a mask, both in whole words?
void pick_masked(const Device *d, const ChainTask &t, int layout, Pick *p)
{
    const rp_spec &s = t.spec;
    const u32 bytes = (u32)rk_bytes(s.dtype), per = 16 / bytes;
    const rp_parts parts = parts_of(t);
    const bool aligned = s.row_len % per == 0 && (uintptr_t)parts.elements % 16 == 0 && (uintptr_t)parts.mask % per == 0;
    if (!(s.flags & RP_MASK) || (s.flags & (RP_COLUMNS | RP_OFFSETS)) || !aligned || s.row_len * bytes < 4096)
        return;
    const bool doubles = !d->slow_doubles && !d->long_sums;
    if (is_float_sum(s, layout)) {
        const SegmentKernel k = doubles ? masked_sum_kernel(layout, s.dtype, skips_nans(s)) : SegmentKernel{};
        if (k.fn) {
            p->kernel = k;
            p->way = kBlocks;
        }
        return;
    }
    const WalkFn fn = masked_best_kernel(layout, s.dtype, skips_nans(s));
    if (!fn)
        return;
    p->kernel.walk = fn;
    p->masked = true;
}

// Rows that each begin with a whole vector and are no more than a tile, for values that kernels for tiles make?
bool in_tiles(const SegmentKernel &k, const FinishArgs &a, const ChainTask &t)
{
    const u64 bytes = rk_bytes(t.spec.dtype) * t.spec.row_len;
    return k.tile && a.light && (!a.plain || a.spec.out == RP_F64) && bytes >= 16 && bytes <= k.threads * k.unroll * 16u &&
           (uintptr_t)t.data % 16 == 0 && (t.spec.rows == 1 || bytes % 16 == 0);
}

// How long a line may be, that is left to one warp or to few walkers. Beyond, there are few enough for a launch each.
u64 longest_shared_line(const Device *d, const rp_spec &s)
{
    const u64 share = rp_elements(&s) / ((u64)d->sms * 8), most = 1ull << 31; // what kernels count in 32 bits
    return share < kTuning.long_line ? kTuning.long_line : share < most ? share : most;
}

// Lines that are many enough to have one team each, of squares or of products?
void pick_near(const Device *d, const rp_spec &s, int layout, Pick *p)
{
    const u64 length = mean_length(s);
    const bool product = p->redo, one_team = rp_results(&s) >= kTuning.short_rows_min && length <= longest_shared_line(d, s);
    const bool squares = is_float_sum(s, layout) && makes_values(s) && !d->slow_doubles && !d->long_sums;
    if (!one_team || !(product || (squares && length >= kTuning.near_line)))
        return;
    const bool columns = s.flags & RP_COLUMNS, block = !columns && length * rk_bytes(s.dtype) >= kTuning.near_block_line;
    const u64 few = (u64)d->sms * kWarp / (product ? 4 : 1); // blocks: logarithms take longer than states
    if (columns && (p->ring || p->whole || rp_results(&s) < few))
        return;
    const NearShape shape = columns ? kNearColumns : block ? kNearBlock : kNearLanes;
    const WalkFn fn = product ? near_product_kernel(s.dtype, shape) : near_line_kernel(layout, s.dtype, shape);
    if (!fn)
        return;
    p->kernel.walk = fn;
    p->near = true;
    p->blocks_each = block;
}

// Do whole blocks suit these rows, or several rows a block? `sum`: a sum of floats, whose short rows have a kernel of
// their own (sum_short_lines.cu). `walked`: floats whose lines are walked along in registers.
bool suit_blocks(const Device *d, const rp_spec &s, u64 rows, bool sum, bool walked)
{
    if (rows < kTuning.short_rows_min || s.row_len > longest_shared_line(d, s))
        return true;
    if (!sum && walked) // a block's accumulators take long to begin and to end
        return false;
    if (s.row_len > kTuning.short_row && rows < (u64)d->sms * 8)
        return true;
    return !sum && s.row_len * rk_bytes(s.dtype) >= kTuning.block_row;
}

} // namespace

Pick pick_kernels(const Device *d, const ChainTask &t, const FinishArgs &a)
{
    const rp_spec &spec = t.spec;
    const u64 lines = rp_results(&spec);
    const bool magnitudes = rk_is_abs(a.plan.layout) && is_float_sum(spec, a.plan.layout) && makes_values(spec);
    const bool sum = a.plan.layout == RP_STATE_SUM32 || a.plan.layout == RP_STATE_SUM64 || magnitudes;
    const bool masked = spec.flags & (RP_MASK | RP_COLUMNS), segments = spec.flags & RP_OFFSETS, rows = !masked && !segments;
    Pick p = {};
    p.way = kWalk;
    p.kernel = pick_row_kernel(d, spec, a.plan.layout);
    p.longest = kAnyLength;
    SegmentKernel &k = p.kernel;
    p.finishes = near_moments(d, spec, a.plan.layout);
    if (rows && in_tiles(k, a, t) && suit_blocks(d, spec, lines, sum, false)) {
        p.way = kTiles;
        return p;
    }
    k.walk = pick_walk(d, spec, a.plan.layout, k);
    if (WalkFn columns = pick_columns(d, t, a.plan.layout, k)) {
        k.walk = columns;
        p.vectors = true;
        p.ring = is_float_sum(spec, a.plan.layout);
    }
    pick_products(d, spec, a.plan.layout, &p);
    pick_whole(d, t, a.plan.layout, &p);
    pick_rows(d, t, a, &p);
    if (!p.lanes)
        pick_masked(d, t, a.plan.layout, &p);
    if (p.way == kBlocks)
        return p;
    if (!p.lanes && !p.masked)
        pick_near(d, spec, a.plan.layout, &p);
    const bool walked = k.walk && (p.near || is_float_sum(spec, a.plan.layout));
    const bool few = p.finishes && !p.lanes && lines <= (u64)d->sms && spec.row_len * rk_bytes(spec.dtype) >= kTuning.block_row;
    if (rows && k.fn && spec.row_len && (few || suit_blocks(d, spec, lines, sum, walked))) {
        p.way = kBlocks;
        return p;
    }
    if (k.fn && segments && !masked)
        p.longest = longest_shared_line(d, spec);
    if (sum && !masked && !d->long_sums)
        p.way = kShortSums;
    return p;
}

} // namespace rk
