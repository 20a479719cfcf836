/* What a spec may ask for: one place, used by clients (early errors) and by the daemon (the judge). */
#include <inttypes.h>

#include "proto/types.h"

/* Reductions whose value is a count or an index: an unsigned 64-bit reply whatever the elements are. */
static bool gives_index(int op) { return op == RP_OP_ARGMIN || op == RP_OP_ARGMAX || op == RP_OP_COUNT_NONZERO; }

static int default_out(int op, rp_class cls)
{
    if (gives_index(op))
        return RP_U64;
    if (cls == RP_CLASS_FLOAT)
        return RP_F64;
    return cls == RP_CLASS_SIGNED ? RP_I64 : RP_U64;
}

static bool out_allowed(int op, rp_class cls, int out)
{
    if (gives_index(op))
        return out == RP_U64;
    if (cls == RP_CLASS_FLOAT)
        return rp_dtype_class(out) == RP_CLASS_FLOAT;
    return out == RP_I64 || out == RP_U64;
}

int rp_state_layout(int op, int dtype)
{
    switch (op) {
    case RP_OP_MIN:
        return RP_STATE_MIN;
    case RP_OP_MAX:
        return RP_STATE_MAX;
    case RP_OP_ARGMIN:
        return RP_STATE_ARGMIN;
    case RP_OP_ARGMAX:
        return RP_STATE_ARGMAX;
    case RP_OP_COUNT_NONZERO:
        return RP_STATE_COUNT;
    default:
        if (rp_dtype_class(dtype) != RP_CLASS_FLOAT)
            return RP_STATE_INT;
        return dtype == RP_F64 ? RP_STATE_SUM64 : RP_STATE_SUM32;
    }
}

size_t rp_state_size(int layout)
{
    switch (layout) {
    case RP_STATE_SUM32:
        return 16 + 8 * 6;
    case RP_STATE_SUM64:
        return 16 + 8 * 34;
    case RP_STATE_INT:
    case RP_STATE_MIN:
    case RP_STATE_MAX:
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
    case RP_STATE_COUNT:
        return 32;
    default:
        return 0;
    }
}

size_t rp_cell_size(const rp_spec *s)
{
    if (s->flags & RP_STATES_OUT)
        return rp_state_size(rp_state_layout(s->op, s->dtype));
    return rp_dtype_size(s->out);
}

rp_err rp_spec_check(rp_spec *s, rp_fault *f)
{
    if (rp_op_name(s->op)[0] == '?')
        return rp_fail(f, RP_OP, "op", 0, "unknown operation code %u", s->op);
    rp_class cls = rp_dtype_class(s->dtype);
    if (cls == RP_CLASS_NONE)
        return rp_fail(f, RP_TYPE, "dtype", 0, "unknown element type code %u", s->dtype);
    if (s->out == 0)
        s->out = (uint8_t)default_out(s->op, cls);
    if (!out_allowed(s->op, cls, s->out))
        return rp_fail(f, RP_TYPE, "out", 0, "%s of %s cannot be replied as %s (code %u)",
                       rp_op_name(s->op),
                       rp_dtype_name(s->dtype), rp_dtype_name(s->out), s->out);
    if (rp_nan_name(s->nan)[0] == '?')
        return rp_fail(f, RP_BAD_MESSAGE, "nan", 0, "unknown NaN policy code %u", s->nan);
    if (s->flags & ~(uint32_t)RP_SPEC_FLAGS)
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "unknown spec flags 0x%" PRIx32, s->flags);
    if (s->rows == 0)
        return rp_fail(f, RP_SHAPE, "rows", 1, "rows must be at least 1");
    if (s->row_len > RP_MAX_COUNT || s->rows > RP_MAX_COUNT)
        return rp_fail(f, RP_TOO_LARGE, s->rows > RP_MAX_COUNT ? "rows" : "row_len", RP_MAX_COUNT,
                       "more than 2^60 rows or elements in a row");
    if (s->index_base > RP_MAX_COUNT)
        return rp_fail(f, RP_TOO_LARGE, "index_base", RP_MAX_COUNT, "index base above 2^60");
    uint64_t max_rows = RP_MAX_DATA / rp_cell_size(s);
    if (s->rows > max_rows)
        return rp_fail(f, RP_TOO_LARGE, "rows", max_rows, "a reply of %" PRIu64 " rows is over %u bytes", s->rows,
                       RP_MAX_DATA);
    return RP_OK;
}

rp_err rp_spec_match(const rp_spec *s, uint64_t bytes, rp_fault *f)
{
    uint64_t item = s->flags & RP_STATES_IN ? rp_state_size(rp_state_layout(s->op, s->dtype)) : rp_dtype_size(s->dtype);
    if (bytes % item)
        return rp_fail(f, RP_SHAPE, "data", item, "%" PRIu64 " bytes are no multiple of the %" PRIu64 "-byte %s", bytes,
                       item, s->flags & RP_STATES_IN ? "state" : "element");
    uint64_t want;
    if (__builtin_mul_overflow(s->rows, s->row_len, &want) || want != bytes / item)
        return rp_fail(f, RP_SHAPE, "row_len", 0, "%" PRIu64 " rows of %" PRIu64 " do not make the %" PRIu64 " given",
                       s->rows, s->row_len, bytes / item);
    return RP_OK;
}
