/* Tasks seen from outside: how large are they, are their partial states possible, and how does a row's error read? */
#include <inttypes.h>
#include <string.h>

#include "kernels/engine/engine.h"
#include "kernels/exact/finish.h"

size_t rk_task_size(const rk_task *t)
{
    const size_t state = rp_state_size(rp_state_layout(t->spec.op, t->spec.dtype)), cell = rp_cell_size(&t->spec);
    return t->bytes + rp_results(&t->spec) * (state > cell ? state : cell);
}

/* ---- states ---- */

/* NaNs that a state counts beside its elements. */
static uint64_t nans_of(const rk_state *s)
{
    return rk_is_stats(s->layout) ? s->limb[rk_sum_limbs(s->layout) + rk_square_limbs(s->layout) + RK_STATS_NANS] : 0;
}

static rp_err check_row(rk_task *t, uint64_t row, size_t size)
{
    const uint8_t *p = (const uint8_t *)t->data + row * t->spec.row_len * size;
    uint64_t count = 0, nans = 0;
    for (uint64_t i = 0; i < t->spec.row_len; i++, p += size) {
        rk_state s;
        rp_err err = rk_state_check(t->spec.op, t->spec.dtype, p, size, &t->fault);
        if (err)
            return err;
        memcpy(&s, p, size);
        count += s.count; /* all at most 2^60 */
        nans += nans_of(&s);
        if (count > RP_MAX_COUNT || nans > RP_MAX_COUNT)
            return rp_fail(&t->fault, RP_TOO_LARGE, "count", RP_MAX_COUNT,
                           "partial states of more than 2^60 elements in one row");
    }
    return RP_OK;
}

rp_err rk_check_states(rk_task *t)
{
    size_t size = rp_state_size(rp_state_layout(t->spec.op, t->spec.dtype));
    for (uint64_t row = 0; row < t->spec.rows && t->spec.row_len; row++) {
        rp_err err = check_row(t, row, size);
        if (err) {
            t->fault.index = row;
            return err;
        }
    }
    return RP_OK;
}

/* ---- faults ---- */

/* The exact integer that did not fit the reply type, as 128-bit two's complement; the largest one if it is larger. */
static void exact_value(const rk_state *s, const rp_spec *spec, uint64_t value[2])
{
    uint64_t v[3], sign;
    if (s->layout == RP_STATE_MINMAX && spec->op == RP_OP_MINMAX) { /* one of two values: the one that does not fit */
        rk_state max = *s;
        max.limb[0] = s->limb[1];
        if (rk_element_out(s->dtype, s->limb[0], spec->out, v) == RP_OK)
            s = &max;
        rk_exact_integer(s, spec->op, v);
    } else if (!rk_exact_integer(s, spec->op, v)) {
        v[2] = 1;
    }
    sign = (uint64_t)((int64_t)v[1] >> 63);
    value[0] = v[2] == sign ? v[0] : UINT64_MAX;
    value[1] = v[2] == sign ? v[1] : INT64_MAX;
}

void rk_row_fault(rk_task *t, uint64_t row, int code, const void *s)
{
    rp_fault *f = &t->fault;
    const uint32_t flags = t->spec.flags;
    const char *line = flags & RP_OFFSETS ? "segment" : flags & RP_COLUMNS ? "column" : "row";
    const char *op = rp_op_name(t->spec.op);
    switch (code) {
    case RP_EMPTY:
        rp_fail(f, RP_EMPTY, "row_len", 0, "%s %" PRIu64 ": %s of no elements", line, row, op);
        break;
    case RP_NAN:
        rp_fail(f, RP_NAN, "data", 0, "%s %" PRIu64 " holds a NaN", line, row);
        break;
    case RP_OVERFLOW:
        rp_fail(f, RP_OVERFLOW, "out", 0, "%s %" PRIu64 ": the exact %s does not fit %s", line, row, op,
                rp_dtype_name(t->spec.out));
        exact_value(s, &t->spec, f->value);
        break;
    default:
        rp_fail(f, RP_INTERNAL, "code", 0, "%s %" PRIu64 ": unexpected code %d", line, row, code);
    }
    f->index = row;
}
