#include "client/cuda/checked.h"

#include <inttypes.h>

#include "client/error.h"
#include "client/spec.h"
#include "kernels/exact/cell.h"
#include "kernels/stream.h"

/* What a line of no elements gives: RP_OK or EMPTY. */
static int code_of_none(const rp_spec *s)
{
    uint8_t cell[sizeof(rk_state)];
    rk_state none;
    if (s->op == RP_OP_HISTOGRAM)
        return RP_OK;
    if (rp_is_ranked(s->op)) /* a quantile is NaN, where there is one */
        return s->op == RP_OP_KTH || rp_dtype_class(s->out) != RP_CLASS_FLOAT ? RP_EMPTY : RP_OK;
    if (rp_cell_size(s) > sizeof cell)
        return RP_OK;
    rk_state_init(&none, rp_spec_layout(s), rp_spec_state_dtype(s));
    return rk_cell_write(&none, s, cell);
}

/* The device tells which result is missing, not why: so it must be clear from the spec. `any`: there are elements; `grouped`:
 * some results may have none. */
static int find_failure(rc_cuda_checked *a, bool any, bool grouped, rp_fault *f)
{
    const rp_spec *s = &a->spec;
    const bool floats = rp_dtype_class(s->dtype) == RP_CLASS_FLOAT;
    const bool nans = floats && s->nan == RP_NAN_ERROR, too_large = !floats && s->op == RP_OP_RANGE;
    const bool none = !any || grouped || a->mask || a->offsets || (floats && s->nan == RP_NAN_OMIT) || s->flags & RP_STATES_IN;
    const bool empty = none && code_of_none(s) == RP_EMPTY;
    if (s->flags & RP_STATES_OUT)
        return 0;
    if (empty && any && (nans || too_large))
        return rc_fail(f, REDUCE_E_BAD_MESSAGE, nans ? "nan" : "mask",
                       "%s with a mask, segments or keys may fail for two reasons here: take nan propagate or omit, or floats",
                       rp_op_name(s->op));
    a->failure = empty ? REDUCE_E_EMPTY : nans ? REDUCE_E_NAN : floats ? 0 : REDUCE_E_OVERFLOW;
    return 0;
}

static int shape(rc_cuda_checked *a, uint64_t rows, uint64_t count, rp_fault *f)
{
    uint64_t lines = 1;
    if ((!a->offsets && __builtin_mul_overflow(rows, rp_planes(&a->spec), &lines)) || count % lines)
        return rc_fail(f, REDUCE_E_SHAPE, "count",
                       "%" PRIu64 " elements cannot be cut into %" PRIu64 " x %" PRIu64 " equal rows", count,
                       rp_planes(&a->spec), rows);
    if (count > RP_MAX_COUNT)
        return rc_fail(f, REDUCE_E_TOO_LARGE, "count", "%" PRIu64 " elements", count);
    a->spec.rows = rows;
    a->spec.row_len = count / lines;
    return 0;
}

static int shape_of_list(rc_cuda_checked *a, uint64_t rows, uint64_t arrays, uint64_t count, rp_fault *f)
{
    if (arrays == 0)
        return rc_fail(f, REDUCE_E_SHAPE, "n", "a list of no arrays");
    if (rows != 1 && rows != arrays)
        return rc_fail(f, REDUCE_E_SHAPE, "rows",
                       "%" PRIu64 " rows of %" PRIu64 " arrays: take 1, for one result, or as many as there are arrays", rows,
                       arrays);
    if (arrays > RK_MOST_ARRAYS || count > RP_MAX_COUNT)
        return rc_fail(f, REDUCE_E_TOO_LARGE, arrays > RK_MOST_ARRAYS ? "n" : "count",
                       "%" PRIu64 " arrays, %" PRIu64 " elements", arrays, count);
    a->spec.rows = rows;
    return 0;
}

static int refuse(const rp_spec *s, bool list, rp_fault *f)
{
    const char *why = list ? rk_stream_list_refusal(s) : rk_stream_refusal(s);
    return why ? rc_fail(f, REDUCE_E_OP, s->flags & RP_OFFSETS ? "offsets" : "op", "%s: %s", rp_op_name(s->op), why) : 0;
}

/* `arrays`: of a list; else NULL */
static int check(const reduce_spec *given, const uint64_t *arrays, uint64_t count, rc_cuda_checked *a)
{
    reduce_spec mine;
    rp_fault f = {0};
    *a = (rc_cuda_checked){.failure = 0};
    int err = rc_spec(given, &mine, &a->spec, &f);
    if (!err && mine.keys_dtype)
        err = rc_fail(&f, REDUCE_E_ARGUMENT, "keys_dtype", "the keys of data on the device are a reduce_cuda_keys");
    if (!err) {
        a->mask = mine.mask;
        a->offsets = (const uint8_t *)mine.offsets;
        a->weights = mine.weights;
        rc_put_decimals(a->q, mine.q, mine.quantiles);
        a->spec.q = a->q;
        err = arrays ? shape_of_list(a, mine.rows, *arrays, count, &f) : shape(a, mine.rows, count, &f);
    }
    if (!err)
        err = rc_check_paired(&a->spec, &f);
    if (!err)
        err = refuse(&a->spec, arrays, &f);
    if (!err)
        err = find_failure(a, rp_elements(&a->spec) > 0, false, &f);
    return err ? rc_report(&f) : 0;
}

int rc_cuda_check(const reduce_spec *given, uint64_t count, rc_cuda_checked *a) { return check(given, NULL, count, a); }

int rc_cuda_check_list(const reduce_spec *given, uint64_t arrays, uint64_t count, rc_cuda_checked *a)
{
    return check(given, &arrays, count, a);
}

static int shape_of_keys(rc_cuda_checked *a, const reduce_spec *given, const reduce_cuda_keys *k, uint64_t count, rp_fault *f)
{
    if (given->keys_dtype)
        return rc_fail(f, REDUCE_E_ARGUMENT, "keys_dtype", "the keys are those of reduce_cuda_keys, not of the spec");
    if (given->rows > 1 || given->planes > 1 || given->offsets || a->spec.flags & (RP_COLUMNS | RP_STATES_IN))
        return rc_fail(f, REDUCE_E_SHAPE, "rows",
                       "a reduction by key has no rows, columns, planes, segments or states of its own");
    if (!rp_dtype_size(k->dtype) || rp_dtype_class((uint8_t)k->dtype) == RP_CLASS_FLOAT)
        return rc_fail(f, REDUCE_E_TYPE, "keys", "keys are of an integer type");
    if (count > RK_MOST_KEYED || k->groups > (uint64_t)1 << 32)
        return rc_fail(f, REDUCE_E_TOO_LARGE, count > RK_MOST_KEYED ? "count" : "groups",
                       "%" PRIu64 " elements, %" PRIu64 " groups; the caps are %d and 2^32", count, k->groups, RK_MOST_KEYED);
    if (k->initial && a->spec.flags & (RP_INITIAL | RP_STATES_OUT))
        return rc_fail(f, REDUCE_E_BAD_MESSAGE, "initial", "elements of the groups beside %s",
                       a->spec.flags & RP_INITIAL ? "one of the spec" : "states");
    a->spec.rows = k->groups;
    a->spec.row_len = 0;
    return 0;
}

int rc_cuda_check_keyed(const reduce_spec *given, const reduce_cuda_keys *keys, uint64_t count, rc_cuda_checked *a)
{
    reduce_spec mine;
    rp_fault f = {0};
    *a = (rc_cuda_checked){.failure = 0};
    int err = rc_spec(given, &mine, &a->spec, &f);
    a->mask = err ? NULL : mine.mask;
    if (!err)
        err = shape_of_keys(a, &mine, keys, count, &f);
    if (!err && !rk_stream_has_keyed(&a->spec))
        err = rc_fail(
            &f, REDUCE_E_OP, "op",
            "%s%s: by key there are sum, mean, var, std, sem, sumsq, norm2, rms, min, max, argmin, argmax, and count without "
            "states",
            rp_op_name(a->spec.op), a->spec.flags & RP_STATES_OUT ? " with states" : "");
    if (!err)
        err = find_failure(a, true, !keys->initial, &f);
    return err ? rc_report(&f) : 0;
}
