/* Partial states in this process, without a daemon: public names for kernels/exact, and the CPU engine's loops. No allocation,
 * no I/O. */
#include "client/state.h"

#include <string.h>

#include "client/error.h"
#include "client/spec.h"
#include "kernels/cpu/loops.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/check.h"

size_t reduce_state_size(int op, int dtype)
{
    if (rp_op_name(op)[0] == '?' || rp_dtype_size(dtype) == 0)
        return 0;
    return rp_state_size(rp_state_layout(op, dtype));
}

int rc_state_room(const void *state, size_t size, int op, int dtype)
{
    reduce_spec given = REDUCE_SPEC_INIT, mine;
    rp_spec spec;
    rp_fault f = {0};
    given.op = op;
    given.dtype = dtype;
    if (rc_has_states(op))
        return REDUCE_E_BAD_MESSAGE;
    if (rc_spec(&given, &mine, &spec, &f))
        return rc_report(&f);
    if (!state)
        return rc_error(REDUCE_E_ARGUMENT, "state", "the pointer to the state is NULL");
    if (size < reduce_state_size(op, dtype))
        return rc_error(REDUCE_E_ARGUMENT, "size", "%zu bytes are less than the %zu of a state of %s of %s", size,
                        reduce_state_size(op, dtype), rp_op_name(op), rp_dtype_name(dtype));
    return 0;
}

int rc_state_take(rk_state *s, const void *state, size_t size)
{
    rp_fault f; /* without a flaw nothing is in it */
    if (!state)
        return rc_error(REDUCE_E_ARGUMENT, "state", "the pointer to the state is NULL");
    return rk_state_take(s, state, size, &f) ? rc_report(&f) : 0;
}

void rc_state_give(void *state, const rk_state *s) { memcpy(state, s, rp_state_size(s->layout)); }

int reduce_state_init(void *state, size_t size, int op, int dtype)
{
    rk_state s;
    int err = rc_state_room(state, size, op, dtype);
    if (err)
        return err;
    rk_state_init(&s, rp_state_layout(op, dtype), dtype);
    rc_state_give(state, &s);
    return 0;
}

int reduce_state_check(const void *state, size_t size, int op, int dtype)
{
    rp_fault f = {0};
    int err = rc_state_room(state, SIZE_MAX, op, dtype);
    if (err)
        return err;
    return rk_state_check(op, dtype, state, size, &f) ? rc_report(&f) : 0;
}

/* ---- add --------------------------------------------------------------------------------------------------------- */

static int add(rk_state *s, const void *data, size_t count, int nan, uint64_t index)
{
    rp_fault f = {0};
    rk_state part;
    if (count && !data)
        return rc_error(REDUCE_E_ARGUMENT, "data", "the pointer to %zu elements is NULL", count);
    if (rp_nan_name(nan)[0] == '?')
        return rc_error(REDUCE_E_BAD_MESSAGE, "nan", "unknown NaN policy code %d", nan);
    if (index > RP_MAX_COUNT)
        return rc_error(REDUCE_E_TOO_LARGE, "index", "index above 2^60");
    if (count > RP_MAX_COUNT || rk_count_check(s->count + count, rk_nans_beside(s) + count, &f))
        return rc_error(REDUCE_E_TOO_LARGE, "count", "more than 2^60 elements in one state");
    if (rk_is_pairs(s->layout))
        return rc_error(REDUCE_E_BAD_MESSAGE, "layout", "a state of pairs, to which reduce_state_add_pairs adds");
    if (count == 0)
        return 0;
    rk_state_init(&part, s->layout, s->dtype);
    uint64_t saved = rk_fp_enter();
    rk_simd_best()->reduce[s->layout][s->dtype](&part, data, count, index, nan);
    rk_state_merge(s, &part);
    rk_fp_leave(saved);
    return 0;
}

int reduce_state_add_at(void *state, size_t size, const void *data, size_t count, int nan, uint64_t index)
{
    rk_state s;
    int err = rc_state_take(&s, state, size);
    if (!err)
        err = add(&s, data, count, nan, index);
    if (!err)
        rc_state_give(state, &s);
    return err;
}

int reduce_state_add(void *state, size_t size, const void *data, size_t count)
{
    rk_state s;
    int err = rc_state_take(&s, state, size);
    if (!err)
        err = add(&s, data, count, RP_NAN_PROPAGATE, s.count);
    if (!err)
        rc_state_give(state, &s);
    return err;
}

/* The loop for elements of this type; NULL: there is none. */
static rk_pairs_fn *pairs_of(const rk_state *s, int dtype)
{
    const rk_simd *simd = rk_simd_best();
    if (rk_is_comoments(s->layout) && (dtype == s->dtype || (dtype == RP_F32 && s->dtype == RP_F64)))
        return rk_comoments_loop(dtype == s->dtype);
    return dtype == s->dtype ? simd->pairs[dtype] : dtype == RP_F32 && s->dtype == RP_F64 ? simd->pairs_f32_f64 : NULL;
}

static int add_pairs(rk_state *s, const void *data, int dtype, const void *weights, size_t count, int nan, uint32_t flags)
{
    rp_fault f = {0};
    rk_state part;
    rk_pairs_fn *run = pairs_of(s, dtype);
    if (!rk_is_pairs(s->layout))
        return rc_error(REDUCE_E_BAD_MESSAGE, "layout", "not a state of pairs: reduce_state_add adds to it");
    if (!run)
        return rc_error(REDUCE_E_TYPE, "dtype", "elements of %s in a state of %s", rp_dtype_name(dtype),
                        rp_dtype_name(s->dtype));
    if (count && !(data && weights))
        return rc_error(REDUCE_E_ARGUMENT, data ? "weights" : "data", "the pointer to %zu elements is NULL", count);
    if (rp_nan_name(nan)[0] == '?' || flags & ~(uint32_t)REDUCE_DROP_ZERO_WEIGHTS)
        return rc_error(REDUCE_E_BAD_MESSAGE, rp_nan_name(nan)[0] == '?' ? "nan" : "flags", "an unknown code");
    if (count > RP_MAX_COUNT || rk_count_check(s->count + count, 0, &f))
        return rc_error(REDUCE_E_TOO_LARGE, "count", "more than 2^60 elements in one state");
    if (rk_is_comoments(s->layout) && flags)
        return rc_error(REDUCE_E_BAD_MESSAGE, "flags", "zero_weights_drop does not apply to cov and corr");
    rk_state_init(&part, s->layout, s->dtype);
    uint64_t saved = rk_fp_enter();
    run(&part, data, weights, count, nan, flags & REDUCE_DROP_ZERO_WEIGHTS, NULL);
    rk_state_merge(s, &part);
    rk_fp_leave(saved);
    return 0;
}

int reduce_state_add_pairs(void *state, size_t size, const void *data, int dtype, const void *weights, size_t count, int nan,
                           uint32_t flags)
{
    rk_state s;
    int err = rc_state_take(&s, state, size);
    if (!err)
        err = add_pairs(&s, data, dtype, weights, count, nan, flags);
    if (!err)
        rc_state_give(state, &s);
    return err;
}

int reduce_state_add_missing(void *state, size_t size, uint64_t count)
{
    rk_state s;
    rp_fault f = {0};
    int err = rc_state_take(&s, state, size);
    if (err)
        return err;
    if (count > RP_MAX_COUNT || rk_count_check(s.count + count, rk_nans_beside(&s) + count, &f))
        return rc_error(REDUCE_E_TOO_LARGE, "count", "more than 2^60 elements in one state");
    rk_state_missing(&s, count);
    rc_state_give(state, &s);
    return 0;
}

/* ---- merge ------------------------------------------------------------------------------------------------------- */

rp_err rc_state_pair(const rk_state *a, const rk_state *b, rp_fault *f)
{
    if (a->layout != b->layout)
        return rp_fail(f, RP_BAD_MESSAGE, "layout", 0, "states of different operations: layouts %u and %u", a->layout,
                       b->layout);
    if (a->dtype != b->dtype)
        return rp_fail(f, RP_BAD_MESSAGE, "dtype", 0, "states of different element types: %s and %s", rp_dtype_name(a->dtype),
                       rp_dtype_name(b->dtype));
    return rk_count_check(a->count + b->count, rk_nans_beside(a) + rk_nans_beside(b), f);
}

/* False: a state cannot have such a place. */
static bool move_place(uint64_t *place, uint64_t by)
{
    *place += by;
    return *place < RK_MAX_PLACE;
}

/* Count the places in a state from `by` on. False: one would be too large. */
static bool move_places(rk_state *s, uint64_t by)
{
    uint64_t *other = rk_summary_others(s);
    if (s->count && (s->layout == RP_STATE_ARGMIN || s->layout == RP_STATE_ARGMAX))
        return move_place(&s->limb[1], by);
    if (s->count && rk_is_stats(s->layout))
        return move_place(&other[RK_STATS_MIN_INDEX], by) && move_place(&other[RK_STATS_MAX_INDEX], by);
    return true;
}

int reduce_state_merge_at(void *into, size_t size, const void *from, size_t from_size, uint64_t index)
{
    rk_state a, b;
    rp_fault f = {0};
    int err = rc_state_take(&a, into, size);
    if (!err)
        err = rc_state_take(&b, from, from_size);
    if (!err && (index > RP_MAX_COUNT || !move_places(&b, index)))
        err = rc_error(REDUCE_E_TOO_LARGE, "index", "index above 2^60");
    if (err)
        return err;
    if (rc_state_pair(&a, &b, &f))
        return rc_report(&f);
    rk_state_merge(&a, &b);
    rc_state_give(into, &a);
    return 0;
}

int reduce_state_merge(void *into, size_t size, const void *from, size_t from_size)
{
    return reduce_state_merge_at(into, size, from, from_size, 0);
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

/* The spec of one finished value, checked; 0, or the reported error. */
static int take_spec(const reduce_spec *given, rp_spec *spec)
{
    reduce_spec mine;
    rp_fault f = {0};
    if (rc_spec(given, &mine, spec, &f))
        return rc_report(&f);
    if (rc_has_states(spec->op))
        return REDUCE_E_BAD_MESSAGE;
    if (mine.rows != 1 || mine.mask || mine.offsets || mine.weights || mine.keys_dtype || mine.flags & ~(uint32_t)REDUCE_WRAP)
        return rc_error(REDUCE_E_ARGUMENT, "spec",
                        "a state finishes to one value: no rows, mask, offsets, keys, columns or states");
    return 0;
}

int rc_state_value(rk_state *s, size_t i, size_t n, const rp_spec *spec, size_t size, void *result)
{
    rp_fault f;
    if (s->layout != rp_state_layout(spec->op, spec->dtype) || s->dtype != spec->dtype)
        return rc_error(REDUCE_E_BAD_MESSAGE, s->dtype == spec->dtype ? "layout" : "dtype",
                        "a state of layout %u of %s is not one of %s of %s", s->layout, rp_dtype_name(s->dtype),
                        rp_op_name(spec->op), rp_dtype_name(spec->dtype));
    uint8_t cell[8 * RP_MAX_CELL_WORDS];
    int code = rk_cell_write(s, spec, cell);
    if (code) {
        rk_cell_fault(&f, s, spec, i, code);
        rc_drop_row(&f); /* reduce_errmsg names it, unless there is one alone */
        return rc_report_of(&f, n == 1);
    }
    memcpy(result, cell, size);
    return 0;
}

int rc_state_spec(const reduce_spec *spec, rp_spec *checked, const void *results, size_t n, size_t room)
{
    int err = take_spec(spec, checked);
    if (!err && n && !results)
        err = rc_error(REDUCE_E_ARGUMENT, "result", "the pointer for the value is NULL");
    if (!err && n && room / n < rp_cell_size(checked))
        err = rc_error(REDUCE_E_ARGUMENT, "room", "%zu bytes are less than the %zu of each value", room, rp_cell_size(checked));
    return err;
}

static int finish(const void *state, size_t size, size_t i, size_t n, const rp_spec *spec, void *result)
{
    rk_state s;
    int err = rc_state_take(&s, state, size);
    return err ? err : rc_state_value(&s, i, n, spec, rp_cell_size(spec), result);
}

int reduce_state_finish(const void *state, size_t size, const reduce_spec *spec, void *result, size_t room)
{
    rp_spec checked;
    int err = rc_state_spec(spec, &checked, result, 1, room);
    return err ? err : finish(state, size, 0, 1, &checked, result);
}

int reduce_states_finish(const void *states, size_t bytes, const reduce_spec *spec, void *results, size_t room)
{
    rp_spec checked;
    int err = take_spec(spec, &checked);
    if (err)
        return err;
    const size_t size = reduce_state_size(checked.op, checked.dtype), n = bytes / size;
    if (bytes % size || (bytes && !states))
        return rc_error(REDUCE_E_ARGUMENT, "states", "%zu bytes are not states of %zu", bytes, size);
    err = rc_state_spec(spec, &checked, results, n, room);
    for (size_t i = 0; !err && i < n; i++)
        err = finish((const uint8_t *)states + i * size, size, i, n, &checked, (uint8_t *)results + i * rp_cell_size(&checked));
    return err;
}
