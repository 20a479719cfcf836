#include "kernels/exact/cell.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/exact/finish.h"

int rk_cell_write(rk_state *s, const rp_spec *spec, uint8_t *cell)
{
    size_t size = rp_cell_size(spec), value = spec->op == RP_OP_STATS ? 8 : rp_dtype_size(spec->out);
    if (spec->flags & RP_STATES_OUT) {
        memcpy(cell, s, size);
        return RP_OK;
    }
    if (spec->flags & RP_INITIAL)
        rk_state_add(s, spec->initial, RP_NO_INDEX, spec->nan);
    uint64_t words[RP_MAX_CELL_WORDS], scratch[RK_FINISH_SCRATCH];
    int code = rk_state_finish(s, spec, scratch, words);
    for (size_t i = 0; i * value < size; i++)
        memcpy(cell + i * value, &words[i], value); /* little-endian: the low bytes are the first ones */
    return code;
}

/* The exact integer that does not fit the reply type, as 128-bit two's complement, clamped to that range. */
static void exact_value(const rk_state *s, const rp_spec *spec, uint64_t value[2])
{
    uint64_t v[3], sign;
    if (s->layout == RP_STATE_MINMAX && spec->op == RP_OP_MINMAX) { /* of the two values, the one that does not fit */
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

/* All fields but the value. */
static void describe(rp_fault *f, const rp_spec *spec, uint64_t row, int code)
{
    const uint32_t flags = spec->flags;
    const char *line = flags & RP_KEYS ? "group" : flags & RP_OFFSETS ? "segment" : flags & RP_COLUMNS ? "column" : "row";
    const char *op = rp_op_name(spec->op);
    switch (code) {
    case RP_EMPTY:
        rp_fail(f, RP_EMPTY, "row_len", 0, "%s %" PRIu64 ": %s of no elements", line, row, op);
        break;
    case RP_NAN:
        rp_fail(f, RP_NAN, "data", 0, "%s %" PRIu64 " holds a NaN", line, row);
        break;
    case RP_OVERFLOW:
        rp_fail(f, RP_OVERFLOW, "out", 0, "%s %" PRIu64 ": the exact %s does not fit %s", line, row, op,
                rp_dtype_name(spec->out));
        break;
    default:
        rp_fail(f, RP_INTERNAL, "code", 0, "%s %" PRIu64 ": unexpected code %d", line, row, code);
    }
    f->index = row;
}

void rk_cell_fault(rp_fault *f, const rk_state *s, const rp_spec *spec, uint64_t row, int code)
{
    describe(f, spec, row, code);
    if (code == RP_OVERFLOW)
        exact_value(s, spec, f->value);
}

void rk_cell_fault_move(rp_fault *f, const rp_spec *spec, uint64_t row)
{
    const uint64_t value[2] = {f->value[0], f->value[1]};
    f->index = row;
    if (f->code != RP_EMPTY && f->code != RP_NAN && f->code != RP_OVERFLOW)
        return;
    describe(f, spec, row, f->code);
    f->value[0] = value[0];
    f->value[1] = value[1];
}
