// The facts about a task that routes ask for.
#include "kernels/cuda/launch/routes.h"

#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/ops/registry.h"
#include "kernels/exact/families/comoments.h"

namespace rk {
namespace {

// Moments whose values near sums may tell?
bool near_moments(const Asked &q)
{
    const rk_finisher finisher = rk_finisher_of(q.s.op);
    const bool wide = q.layout == RP_STATE_SQ64 || q.layout == RP_STATE_MOM64;
    return (wide || q.layout == RP_STATE_SQ32 || q.layout == RP_STATE_MOM32) && !(q.s.flags & (RP_STATES_OUT | RP_INITIAL)) &&
           !skips_nans(q.s) && q.pairs && (finisher == RK_FINISH_SPREAD || finisher == RK_FINISH_SQUARES) &&
           q.s.row_len <= (wide ? kTuning.near_f64_row : kTuning.near_row);
}

// Is a row so long that what two bounds leave in doubt has a launch of its own?
bool has_many(const Asked &q, rk_finisher finisher)
{
    if (finisher == RK_FINISH_SPREAD)
        return q.s.row_len * q.bytes > kTuning.bounded_spread[q.s.dtype == RP_F64];
    return q.s.row_len >= (q.s.dtype == RP_F64 ? kTuning.bounded_f64_row : kTuning.bounded_row);
}

// May two bounds tell the values of long rows, too? Sums and means only where their own kernels take longer.
bool is_bounded_long(const Asked &q)
{
    const rk_finisher finisher = rk_finisher_of(q.s.op);
    if (!is_bounded(q) || !q.rows)
        return false;
    if (finisher == RK_FINISH_SQUARES || (finisher == RK_FINISH_MEAN && q.s.dtype == RP_F16))
        return true;
    if (finisher == RK_FINISH_MEAN && q.s.dtype == RP_F32)
        return q.s.row_len >= kTuning.bounded_mean;
    return (finisher == RK_FINISH_SPREAD || q.s.dtype == RP_BF16) && has_many(q, finisher);
}

bool is_doubtful(const Asked &q) { return is_bounded_long(q) && has_many(q, rk_finisher_of(q.s.op)); }

// The kernel that reduces whole rows by two bounds; .fn NULL: there is none, or only for tiles.
SegmentKernel bounded_kernel(const Asked &q)
{
    const rk_finisher finisher = rk_finisher_of(q.s.op);
    const bool squares = finisher == RK_FINISH_SQUARES, own = q.s.op == RP_OP_SUM && q.s.dtype == RP_F32; // own: tile.cuh
    if (!q.rows || !q.s.row_len || !is_bounded(q) || own || (!squares && q.lines > (u64)q.d->sms))        // others begin faster
        return {};
    const BoundsOf of = squares ? BoundsOf::Squares : finisher == RK_FINISH_SPREAD ? BoundsOf::Spread : BoundsOf::Sum;
    return q.s.dtype == RP_F64 ? bounded_f64_kernel(of, is_doubtful(q))
                               : bounded_f32_kernel(q.s.dtype, of, is_doubtful(q), q.d->large_shared);
}

// The kernel that reduces whole rows by the layout of their states; fn is NULL if there is none.
SegmentKernel kernel_of_layout(const Asked &q)
{
    const int layout = q.layout, dtype = q.s.dtype;
    const bool skip = skips_nans(q.s);
    if (q.pairs && (layout == RP_STATE_SUM64 || (layout == RP_STATE_SUM32 && dtype != RP_F16)))
        return sum_few_kernel(dtype, skip, q.s.op == RP_OP_MEAN, q.s.row_len);
    if (q.pairs && rk_is_abs(layout) && (dtype == RP_F32 || dtype == RP_F64))
        return magnitudes_few_kernel(dtype, skip, q.s.row_len);
    switch ((rp_layout)layout) {
    case RP_STATE_SUM32:
    case RP_STATE_ABS32:
        if (q.d->slow_doubles && layout == RP_STATE_SUM32) // by integers
            return moments_f32_kernel(dtype, false, false, q.d->large_shared);
        return sum_float_kernel(dtype, skip);
    case RP_STATE_SUM64:
    case RP_STATE_ABS64:
        return sum_f64_kernel(skip, q.d->large_shared);
    case RP_STATE_INT:
        return sum_int_kernel(dtype);
    case RP_STATE_SQ32:
    case RP_STATE_MOM32:
    case RP_STATE_STATS32:
        return moments_f32_kernel(dtype, rk_is_stats(layout), near_moments(q), q.d->large_shared);
    case RP_STATE_SQ64:
    case RP_STATE_MOM64:
    case RP_STATE_STATS64:
        return moments_f64_kernel(rk_is_stats(layout), near_moments(q));
    case RP_STATE_ABSINT:
    case RP_STATE_SQINT:
    case RP_STATE_MOMINT:
    case RP_STATE_STATSINT:
        return moments_int_kernel(layout, dtype);
    case RP_STATE_MIN:
    case RP_STATE_MAX:
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
        return best_kernel(layout, dtype, skip);
    case RP_STATE_NORMINF:
        return is_largest(q.s) ? best_kernel(layout, dtype, false) : minmax_kernel(dtype);
    case RP_STATE_MINMAX:
        return minmax_kernel(dtype);
    case RP_STATE_COUNT:
        return count_kernel(dtype, skip);
    case RP_STATE_NANS:
        return count_kernel(dtype, true);
    case RP_STATE_AND:
    case RP_STATE_OR:
    case RP_STATE_XOR:
        return bits_kernel(layout, dtype);
    case RP_STATE_PROD:
    case RP_STATE_PRODINT:
        return prod_kernel(dtype);
    case RP_STATE_DOT32: // pairs: by states
    case RP_STATE_DOT64:
    case RP_STATE_DOTINT:
    case RP_STATE_WMEAN32:
    case RP_STATE_WMEAN64:
    case RP_STATE_WMEANINT:
    case RP_STATE_COV32:
    case RP_STATE_COV64:
    case RP_STATE_COVINT:
    case RP_STATE_CORR32:
    case RP_STATE_CORR64:
    case RP_STATE_CORRINT:
        break;
    }
    return {}; // there is no such layout
}

// Pairs of floats, which near sums decide mostly
RowKernel pair_kernel(const Asked &q)
{
    const int dtype = q.s.dtype, weights = q.s.weights;
    const bool mean = rk_sum_limbs(q.layout), choose = q.mask || skips_nans(q.s) || q.s.zero_drops;
    const bool near = q.pairs && !(q.s.flags & RP_STATES_OUT);
    if (q.comoments && near)
        return {near_comoments_kernel(dtype, weights, rk_has_squares(q.layout), choose), comoment_kernels(q.layout, dtype).redo,
                false};
    if (q.comoments)
        return {};
    if (!near)
        return {exact_pairs_kernel(dtype, weights), NULL, true};
    return {near_pairs_kernel(dtype, weights, mean, choose), redo_pairs_kernel(dtype, weights), false};
}

RowKernel row_kernel(const Asked &q)
{
    if (q.paired && rk_is_float(q.s.dtype))
        return pair_kernel(q);
    RowKernel r = {kernel_of_layout(q), NULL, near_moments(q)};
    const WalkFn walk = r.k.walk;
    if (const SegmentKernel bounded = bounded_kernel(q); bounded.fn && is_bounded_long(q)) {
        r = {bounded, NULL, true};
        r.k.walk = walk;
        return r;
    }
    if (q.layout != RP_STATE_PROD || q.d->slow_doubles || q.s.flags & (RP_STATES_OUT | RP_INITIAL))
        return r;
    r.k = product_kernel(q.s.dtype, skips_nans(q.s));
    r.k.walk = walk;
    r.redo = product_redo_kernel(q.s.dtype);
    return r;
}

// Of elements that kernels go through
FinishArgs element_args(const ChainTask &t)
{
    FinishArgs a = finish_args(t.spec, t.cells, t.fault);
    count_truths(&a);
    return a;
}

bool is_float_sum(const rp_spec &s, int layout)
{
    return rk_is_float(s.dtype) && (rk_sum_limbs(layout) || rk_square_limbs(layout)) && !rk_is_pairs(layout);
}

SegmentKernel tile_kernel(const Asked &q)
{
    const SegmentKernel bounded = bounded_kernel(q);
    const bool mean = q.s.op == RP_OP_MEAN && q.whole.k.ends && !(q.s.flags & (RP_STATES_OUT | RP_INITIAL)); // sum_twosum.cu
    return bounded.tile ? bounded : q.a.light || mean ? q.whole.k : SegmentKernel{};
}

// The exact kernel for long rows that bounds leave in doubt
RowKernel again_kernel(const Asked &q)
{
    if (!is_doubtful(q) || !bounded_kernel(q).fn)
        return {};
    return {q.s.dtype == RP_F64 ? moments_f64_kernel(false, false)
                                : moments_f32_kernel(q.s.dtype, false, false, q.d->large_shared),
            NULL, false};
}

} // namespace

bool is_bounded(const Asked &q)
{
    const bool narrow = q.s.out != RP_F64 && q.s.dtype != RP_F64;
    const bool sums = q.layout == RP_STATE_SUM32 || q.layout == RP_STATE_SQ32 || q.layout == RP_STATE_MOM32;
    return ((narrow && sums) || q.layout == RP_STATE_SQ64 || q.layout == RP_STATE_MOM64) && rk_is_float(q.s.dtype) &&
           rk_is_float(q.s.out) && q.pairs && !(q.s.flags & (RP_STATES_OUT | RP_INITIAL)) && !skips_nans(q.s);
}

Scratch scratch_of(void *memory, size_t bytes)
{
    ScratchHead *head = (ScratchHead *)memory;
    u64 *a = (u64 *)(head + 1);
    const u64 words = (bytes - sizeof *head) / sizeof(u64) - kMostDoubts, b = words / kScratchParts;
    return {head->totals, &head->listed, a, a + (words - b), words - b, a + words};
}

Asked ask(Device *d, const ChainTask &t, Memory memory, cudaStream_t stream, const char **route, TakeRoute *take)
{
    const rp_spec &s = t.spec;
    Asked q = {d, t, s, memory, stream, route, take};
    q.lines = rp_results(&s);
    q.length = q.lines ? rp_elements(&s) / q.lines : 0;
    q.bytes = (u64)rk_bytes(s.dtype);
    q.columns = s.flags & RP_COLUMNS;
    q.segments = s.flags & RP_OFFSETS;
    q.mask = s.flags & RP_MASK;
    q.rows = !q.columns && !q.segments && !q.mask;
    if (rp_is_ranked(s.op))
        return q; // it has no states
    q.a = element_args(t);
    q.scratch = scratch_of(memory.base, memory.bytes);
    q.layout = q.a.plan.layout;
    q.floats = is_float_sum(s, q.layout);
    q.paired = s.flags & RP_WEIGHTS;
    q.comoments = rk_is_comoments(q.layout);
    q.pairs = !d->slow_doubles && !d->long_sums;
    q.values = (rk_is_float(s.out) || s.op == RP_OP_STATS) && !(s.flags & (RP_STATES_OUT | RP_INITIAL));
    q.sum = q.layout == RP_STATE_SUM32 || q.layout == RP_STATE_SUM64 || (rk_is_abs(q.layout) && q.floats && q.values);
    q.whole = row_kernel(q);
    q.again = again_kernel(q);
    q.tile = tile_kernel(q);
    q.longest = q.whole.k.fn && q.segments && !t.segments && !q.mask && !q.columns ? longest_shared_line(q) : kAnyLength;
    return q;
}

u64 longest_shared_line(const Asked &q)
{
    const u64 share = rp_elements(&q.s) / ((u64)q.d->sms * 8), most = 1ull << 31; // what kernels count in 32 bits
    return share < kTuning.long_line ? kTuning.long_line : share < most ? share : most;
}

bool is_long_masked(const Asked &q)
{
    const u64 per = 16 / q.bytes;
    if (!q.mask || q.columns || q.segments || q.s.row_len * q.bytes < 4096 || q.s.row_len % per)
        return false;
    const rp_parts parts = parts_of(q.t);
    return (uintptr_t)parts.elements % 16 == 0 && (uintptr_t)parts.mask % per == 0;
}

SegmentArgs segment_args(const Asked &q, const ChainTask &t)
{
    const rp_spec &s = t.spec;
    const int bytes = (int)q.bytes;
    const bool least = q.layout == RP_STATE_MIN || q.layout == RP_STATE_ARGMIN;
    const u64 sign = 1ull << (8 * bytes - 1);
    SegmentArgs g = {};
    g.data = (const unsigned char *)t.data;
    g.rows = s.rows;
    g.row_len = s.row_len;
    g.first_index = s.index_base + t.base;
    g.element_log2 = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
    g.rank_flip = (rk_is_signed(s.dtype) ? sign : 0) ^ (least ? rk_all_ones(s.dtype) : 0);
    g.decides = (u8)decides_truths(q.a);
    g.layout = (u8)q.layout;
    g.dtype = s.dtype;
    g.skip = skips_nans(s);
    g.nan_error = s.nan == RP_NAN_ERROR;
    g.doubles = !q.d->slow_doubles;
    g.keep = rk_is_abs(q.layout) ? 0x7fffffffu : ~0u;
    g.inf_bits = rk_is_float(s.dtype) ? rk_inf_bits(rk_format_of(s.dtype)) : 0;
    if (q.paired) {
        const rp_parts parts = parts_of(t);
        g.mask = parts.mask;
        g.weights = parts.weights;
        g.weights_each = s.weights_extent == RP_EXTENT_ROW ? 0 : s.weights_extent == RP_EXTENT_COLUMN ? 1 : s.row_len;
        g.drops = s.zero_drops;
    }
    return g;
}

} // namespace rk
