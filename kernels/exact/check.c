/* Which partial states are possible: those that some set of elements has, as far as that can be decided. A state that passes is
 * canonical, merges without overflow and finishes to a value. A merge of such states passes again if their counts sum to at
 * most 2^60.
 *
 * Canonical form: fields that a layout does not use are 0, and so are the sums if `special` is set. A state without elements is
 * what rk_state_init makes; only `skipped` and the number of NaNs of stats may differ. */
#include "kernels/exact/check.h"

#include <inttypes.h>
#include <string.h>

/* The error for a flaw; RP_OK without one. */
static rp_err refused(rk_flaw flaw, rp_fault *f)
{
    return flaw.why ? rp_fail(f, RP_BAD_MESSAGE, flaw.field, 0, "partial state: %s", flaw.why) : RP_OK;
}

static rp_err check_head(const rk_state *s, int layout, int dtype, rp_fault *f)
{
    if (s->layout != layout)
        return rp_fail(f, RP_BAD_MESSAGE, "layout", 0, "partial state: layout %u instead of %d", s->layout, layout);
    if (s->dtype != dtype)
        return rp_fail(f, RP_BAD_MESSAGE, "dtype", 0, "partial state: of %s (code %u) instead of %s", rp_dtype_name(s->dtype),
                       s->dtype, rp_dtype_name(dtype));
    if (s->special & ~rk_special_bits_of(layout))
        return refused(rk_bad("special", "unknown bits"), f);
    if (s->nz > (rk_has_nz(layout, dtype) ? 1 : 0))
        return refused(rk_bad("nz", "neither 0 nor 1, or set where no float sum is"), f);
    if (s->skipped > (rk_has_skipped(layout, dtype) ? 1 : 0))
        return refused(rk_bad("skipped", "neither 0 nor 1, or set where integers have no NaNs"), f);
    if (s->zero[0] | s->zero[1] | s->zero[2])
        return refused(rk_bad("zero", "reserved bytes are not zero"), f);
    if (s->count > RP_MAX_COUNT)
        return rp_fail(f, RP_BAD_MESSAGE, "count", RP_MAX_COUNT, "partial state: more than 2^60 elements");
    return RP_OK;
}

static rk_flaw check_body(const rk_state *s)
{
    switch (rk_family_of(s->layout)) {
    case RK_SUMS:
        return rk_check_sums(s);
    case RK_CHOICE:
        return rk_choice_check(s);
    case RK_COUNTS:
        return rk_counts_check(s);
    case RK_BITS:
        return rk_bits_check(s);
    case RK_PRODUCTS:
        return rk_products_check(s);
    case RK_SUMMARY:
        return rk_summary_check(s);
    case RK_PAIRS:
        return rk_pairs_check(s);
    case RK_COMOMENTS:
        return rk_comoments_check(s);
    }
    return rk_fine();
}

static rp_err wrong_length(size_t bytes, size_t want, rp_fault *f)
{
    return rp_fail(f, RP_BAD_MESSAGE, "state", want, "partial state of %zu bytes instead of %zu", bytes, want);
}

rp_err rk_state_check(int op, int dtype, const void *state, size_t bytes, rp_fault *f)
{
    int layout = rp_state_layout(op, dtype);
    if (layout == RP_STATE_NONE)
        return rp_fail(f, RP_BAD_MESSAGE, "op", 0, "%s has no partial states", rp_op_name(op));
    if (bytes != rp_state_size(layout))
        return wrong_length(bytes, rp_state_size(layout), f);
    rk_state s;
    memcpy(&s, state, bytes);
    rp_err err = check_head(&s, layout, dtype, f);
    return err ? err : refused(check_body(&s), f);
}

/* The layouts of floats but f64, of f64, of integers: a bit for each */
#define X(NAME, name, code, help, value, narrow, wide, integer, ...) | (uint64_t)1 << RP_STATE_##narrow
static const uint64_t narrow_layouts = 0 RP_OPS(X);
#undef X
#define X(NAME, name, code, help, value, narrow, wide, integer, ...) | (uint64_t)1 << RP_STATE_##wide
static const uint64_t wide_layouts = 0 RP_OPS(X);
#undef X
#define X(NAME, name, code, help, value, narrow, wide, integer, ...) | (uint64_t)1 << RP_STATE_##integer
static const uint64_t integer_layouts = 0 RP_OPS(X);
#undef X

/* Does some operation on elements of this type have states of this layout? */
static bool layout_suits(int layout, int dtype)
{
    if (!rk_is_float(dtype))
        return integer_layouts >> layout & 1;
    return rk_family_of(layout) != RK_BITS && (dtype == RP_F64 ? wide_layouts : narrow_layouts) >> layout & 1;
}

rp_err rk_state_take(rk_state *s, const void *state, size_t bytes, rp_fault *f)
{
    if (bytes < RK_STATE_HEAD)
        return wrong_length(bytes, RK_STATE_HEAD, f);
    memcpy(s, state, RK_STATE_HEAD);
    if (s->layout >= RP_LAYOUT_COUNT)
        return rp_fail(f, RP_BAD_MESSAGE, "layout", RP_LAYOUT_COUNT - 1, "partial state: unknown layout %u", s->layout);
    if (rp_dtype_size(s->dtype) == 0 || !layout_suits(s->layout, s->dtype))
        return rp_fail(f, RP_BAD_MESSAGE, "dtype", 0, "partial state: layout %u of %s (code %u)", s->layout,
                       rp_dtype_name(s->dtype), s->dtype);
    if (bytes < rp_state_size(s->layout))
        return wrong_length(bytes, rp_state_size(s->layout), f);
    memcpy(s, state, rp_state_size(s->layout));
    rp_err err = check_head(s, s->layout, s->dtype, f);
    return err ? err : refused(check_body(s), f);
}

uint64_t rk_nans_beside(const rk_state *s)
{
    return rk_is_stats(s->layout) ? s->limb[rk_others_at(s->layout) + RK_STATS_NANS] : 0;
}

rp_err rk_count_check(uint64_t count, uint64_t nans, rp_fault *f)
{
    if (count > RP_MAX_COUNT || nans > RP_MAX_COUNT)
        return rp_fail(f, RP_TOO_LARGE, "count", RP_MAX_COUNT, "partial states of more than 2^60 elements in one row");
    return RP_OK;
}
