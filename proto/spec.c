/* What a spec may ask for: one place, used by clients (early errors) and by the daemon (the judge). */
#include <inttypes.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/types.h"

/* ---- types ---- */

enum { NONE, CLASS, OWN }; /* which other types a reply may have: types.def */

/* What a value may be: the default by rp_class, and which others. */
typedef struct {
    uint8_t by_class[RP_CLASS_FLOAT + 1], others;
} value_rule;
#define X(NAME, floats, signed, unsigned, others) \
    static const value_rule NAME = {              \
        {[RP_CLASS_SIGNED] = RP_##signed, [RP_CLASS_UNSIGNED] = RP_##unsigned, [RP_CLASS_FLOAT] = RP_##floats}, others};
RP_VALUES(X)
#undef X

/* Which parameters an op may and must have. */
typedef struct {
    uint32_t may, must;
} take_rule;
#define X(NAME, may, must) static const take_rule TAKES_##NAME = {may, must};
RP_TAKES(X)
#undef X

/* Of an op: its value, its parameters, and its layouts by type_form */
typedef struct {
    const value_rule *value;
    const take_rule *takes;
    uint8_t layout[3];
} op_rule;
enum type_form { NARROW, WIDE, INTEGER };
static const op_rule rules[] = {
#define X(NAME, name, code, help, value, narrow, wide, integer, finish, nothing, takes) \
    [code] = {&value, &TAKES_##takes, {RP_STATE_##narrow, RP_STATE_##wide, RP_STATE_##integer}},
    RP_OPS(X)
#undef X
};

static const op_rule *rule_of(int op)
{
    static const op_rule unknown = {&SAME, &TAKES_NONE, {RP_STATE_SUM32, RP_STATE_SUM64, RP_STATE_INT}};
    const bool known = op > 0 && (size_t)op < sizeof rules / sizeof rules[0] && rules[op].value;
    return known ? &rules[op] : &unknown;
}

bool rp_is_ranked(int op) { return rule_of(op)->layout[NARROW] == RP_STATE_NONE; }

bool rp_is_paired(int op)
{
    const int layout = rule_of(op)->layout[NARROW];
    return layout == RP_STATE_DOT32 || layout == RP_STATE_WMEAN32 || rp_is_comoments(op);
}

bool rp_method_picks(int method)
{
    enum { BETWEEN, HALF, STEP, DOWN, UP, EVEN, ODD };
    static const uint8_t how[] = {
#define X(NAME, name, code, times, more, plus, how) [code] = how,
        RP_METHODS(X)
#undef X
    };
    return method < RP_METHOD_END && how[method] >= DOWN;
}

/* What the method of a quantile picks is an element, as min. */
static const value_rule *value_of(const rp_spec *s)
{
    return s->op == RP_OP_QUANTILE && rp_method_picks(s->method) ? &SAME : rule_of(s->op)->value;
}

static bool out_allowed(const value_rule *v, int dtype, int out)
{
    const int usual = v->by_class[rp_dtype_class(dtype)];
    if (out == usual || v->others == NONE)
        return out == usual;
    if (v->others == OWN && out == dtype && dtype != RP_BOOL)
        return true;
    return usual == RP_F64 ? rp_dtype_class(out) == RP_CLASS_FLOAT : out == RP_I64 || out == RP_U64;
}

static rp_err check_types(rp_spec *s, rp_fault *f)
{
    if (rp_op_name(s->op)[0] == '?')
        return rp_fail(f, RP_OP, "op", 0, "unknown operation code %u", s->op);
    rp_class cls = rp_dtype_class(s->dtype);
    if (cls == RP_CLASS_NONE)
        return rp_fail(f, RP_TYPE, "dtype", 0, "unknown element type code %u", s->dtype);
    const value_rule *value = value_of(s);
    if (value->by_class[cls] == RP_NO_DTYPE)
        return rp_fail(f, RP_TYPE, "dtype", 0, "bitwise %s is for integers, not for %s", rp_op_name(s->op),
                       rp_dtype_name(s->dtype));
    if (s->out == 0)
        s->out = value->by_class[cls];
    if (!out_allowed(value, s->dtype, s->out))
        return rp_fail(f, RP_TYPE, "out", 0, "%s of %s: result type %s is not possible", rp_op_name(s->op),
                       rp_dtype_name(s->dtype), rp_dtype_name(s->out));
    return RP_OK;
}

/* ---- states ---- */

int rp_state_layout(int op, int dtype)
{
    const bool is_float = rp_dtype_class(dtype) == RP_CLASS_FLOAT;
    return rule_of(op)->layout[!is_float ? INTEGER : dtype == RP_F64 ? WIDE : NARROW];
}

int rp_spec_state_dtype(const rp_spec *s)
{
    return s->flags & RP_WEIGHTS && s->dtype == RP_F32 && s->weights == RP_F64 ? RP_F64 : s->dtype;
}

int rp_spec_layout(const rp_spec *s) { return rp_state_layout(s->op, rp_spec_state_dtype(s)); }

size_t rp_state_size(int layout)
{
    static const uint16_t limbs[] = {
#define X(NAME, code, sum, squares, others, ...) [code] = sum + squares + others,
        RP_LAYOUTS(X)
#undef X
    };
    return layout >= 0 && layout < RP_LAYOUT_COUNT ? 16 + 8 * (size_t)limbs[layout] : 0;
}

/* ---- shapes ---- */

/* Not every spec is checked so far. */
static size_t top_of(const rp_spec *s) { return s->k > 0 && s->k <= (int64_t)RP_MAX_TOP ? (size_t)s->k : 1; }

size_t rp_indexes_at(const rp_spec *s) { return (top_of(s) * rp_dtype_size(s->out) + 7) / 8 * 8; }

size_t rp_cell_size(const rp_spec *s)
{
    if (s->flags & RP_STATES_OUT)
        return rp_state_size(rp_spec_layout(s));
    if (s->op == RP_OP_STATS)
        return 8 * RP_STATS_WORDS;
    if (rp_is_top(s->op))
        return rp_indexes_at(s) + 8 * top_of(s);
    if (s->op == RP_OP_HISTOGRAM)
        return 8 * ((s->n_edges ? s->n_edges - 1 : 0) + (size_t)RP_APART);
    const size_t values = s->op == RP_OP_MINMAX ? 2 : s->op == RP_OP_QUANTILE && s->quantiles ? s->quantiles : 1;
    return rp_dtype_size(s->out) * values;
}

uint64_t rp_results(const rp_spec *s) { return s->flags & RP_COLUMNS ? rp_planes(s) * s->row_len : s->rows; }

/* Does `row_len` count all elements? */
static bool counts_all(const rp_spec *s) { return s->flags & (RP_OFFSETS | RP_KEYS); }

uint64_t rp_elements(const rp_spec *s) { return counts_all(s) ? s->row_len : rp_planes(s) * s->rows * s->row_len; }

static rp_err check_keys(const rp_spec *s, rp_fault *f)
{
    if (s->flags & RP_DROP_OUTSIDE && !(s->flags & RP_KEYS))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "keys are dropped, and there are none");
    if (!(s->flags & RP_KEYS))
        return RP_OK;
    if (rp_is_ranked(s->op) || rp_is_paired(s->op))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "%s takes no keys", rp_op_name(s->op));
    if (s->flags & (RP_STATES_IN | RP_OFFSETS | RP_COLUMNS))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "keys exclude partial states, offsets and columns");
    return s->keys ? RP_OK : rp_fail(f, RP_BAD_MESSAGE, "keys", 0, "no part says what the keys are");
}

static rp_err check_flags(const rp_spec *s, rp_fault *f)
{
    uint32_t shaped = s->flags & (RP_MASK | RP_OFFSETS | RP_COLUMNS | RP_WEIGHTS);
    if (s->flags & ~(uint32_t)RP_SPEC_FLAGS)
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "unknown spec flags 0x%" PRIx32, s->flags);
    if (rp_is_ranked(s->op) && s->flags & (RP_STATES_IN | RP_STATES_OUT))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "%s has no partial states: it needs all elements at once",
                       rp_op_name(s->op));
    if ((s->flags & RP_STATES_IN) && shaped)
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "partial states have no mask, offsets, columns or weights");
    if ((s->flags & RP_WEIGHTS) && !rp_is_paired(s->op))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "%s takes no weights", rp_op_name(s->op));
    if ((s->flags & RP_OFFSETS) && (s->flags & RP_COLUMNS))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "offsets and columns exclude each other");
    if ((s->flags & RP_WRAP) && (s->op != RP_OP_PROD || rp_dtype_class(s->dtype) == RP_CLASS_FLOAT))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "wrap is for prod of integers");
    if ((s->flags & RP_WEIGHTS) && !s->weights)
        return rp_fail(f, RP_BAD_MESSAGE, "weights", 0, "no part says what the weights are");
    return check_keys(s, f);
}

rp_err rp_takes_compare(const char *op, uint32_t given, uint32_t may, uint32_t must, rp_fault *f)
{
    const uint32_t wrong = (given & ~may) | (must & ~given);
    const int first = __builtin_ctz(wrong | RP_TAKE_END);
    const char *name = first ? rp_parameter_name(first) : "ddof";
    if (!wrong)
        return RP_OK;
    return rp_fail(f, RP_BAD_MESSAGE, name, 0, given >> first & 1 ? "%s does not apply to %s" : "%s is missing, which %s needs",
                   name, op);
}

rp_err rp_takes_check(int op, uint32_t given, rp_fault *f)
{
    const take_rule *takes = rule_of(op)->takes;
    return rp_takes_compare(rp_op_name(op), given, takes->may, takes->must, f);
}

static rp_err check_parameters(const rp_spec *s, rp_fault *f)
{
    size_t size = rp_dtype_size(s->dtype);
    if (rp_nan_name(s->nan)[0] == '?')
        return rp_fail(f, RP_BAD_MESSAGE, "nan", 0, "unknown NaN policy code %u", s->nan);
    rp_err err = check_flags(s, f);
    if (err)
        return err;
    if (s->ddof && !(rule_of(s->op)->takes->may & RP_TAKE_DDOF))
        return rp_fail(f, RP_BAD_MESSAGE, "ddof", 0, "ddof does not apply to %s", rp_op_name(s->op));
    if (!(s->flags & RP_INITIAL) && s->initial)
        return rp_fail(f, RP_BAD_MESSAGE, "initial", 0, "an initial element without its flag");
    if ((s->flags & RP_INITIAL) && (rp_is_ranked(s->op) || rp_is_paired(s->op)))
        return rp_fail(f, RP_BAD_MESSAGE, "initial", 0, "%s takes no initial element", rp_op_name(s->op));
    if ((s->flags & RP_INITIAL) && (s->flags & RP_STATES_OUT))
        return rp_fail(f, RP_BAD_MESSAGE, "initial", 0, "an initial element goes in when the value is finished");
    if (size < 8 && s->initial >> 8 * size)
        return rp_fail(f, RP_BAD_MESSAGE, "initial", 8 * size, "an initial element wider than %s", rp_dtype_name(s->dtype));
    if (s->planes && (s->flags & RP_STATES_IN || counts_all(s)))
        return rp_fail(f, RP_BAD_MESSAGE, "planes", 0, "planes of partial states, of segments or of groups");
    return RP_OK;
}

/* No more than `bytes` bytes of cells? Their number may be beyond 64 bits. */
static rp_err check_results(const rp_spec *s, uint64_t bytes, rp_fault *f)
{
    const bool columns = s->flags & RP_COLUMNS;
    const uint64_t most = bytes / rp_cell_size(s), planes = columns ? rp_planes(s) : 1, each = columns ? s->row_len : s->rows;
    if (each > most)
        return rp_fail(f, RP_TOO_LARGE, columns ? "row_len" : "rows", most,
                       "a reply of %" PRIu64 " results is over %" PRIu64 " bytes", each, bytes);
    if (each && planes > most / each)
        return rp_fail(f, RP_TOO_LARGE, "planes", most / each,
                       "a reply of %" PRIu64 " x %" PRIu64 " results is over %" PRIu64 " bytes", planes, each, bytes);
    return RP_OK;
}

static rp_err check_shape(const rp_spec *s, uint64_t reply, rp_fault *f)
{
    if (s->rows == 0)
        return rp_fail(f, RP_SHAPE, "rows", 1, "rows must be at least 1");
    if (s->row_len > RP_MAX_COUNT || s->rows > RP_MAX_COUNT)
        return rp_fail(f, RP_TOO_LARGE, s->rows > RP_MAX_COUNT ? "rows" : "row_len", RP_MAX_COUNT,
                       "more than 2^60 rows or elements in a row");
    if (s->index_base > RP_MAX_COUNT)
        return rp_fail(f, RP_TOO_LARGE, "index_base", RP_MAX_COUNT, "index base above 2^60");
    if (s->planes > RP_MAX_COUNT)
        return rp_fail(f, RP_TOO_LARGE, "planes", RP_MAX_COUNT, "more than 2^60 planes");
    const uint64_t most = RP_MAX_GROUPS_BYTES / (rp_state_size(rp_spec_layout(s)) + RP_GROUP_SIZE);
    if (s->flags & RP_KEYS && s->rows > most)
        return rp_fail(f, RP_TOO_LARGE, "rows", most, "the states of %" PRIu64 " groups are over %u bytes", s->rows,
                       RP_MAX_GROUPS_BYTES);
    return check_results(s, reply, f);
}

static rp_err check_all(rp_spec *s, uint64_t reply, rp_fault *f)
{
    rp_err err = check_types(s, f);
    if (!err)
        err = check_parameters(s, f);
    return err ? err : check_shape(s, reply, f);
}

rp_err rp_spec_check(rp_spec *s, rp_fault *f) { return check_all(s, RP_MAX_DATA, f); }

rp_err rp_spec_check_large(rp_spec *s, rp_fault *f) { return check_all(s, RP_MAX_COUNT, f); }

size_t rp_item_size(const rp_spec *s)
{
    return s->flags & RP_STATES_IN ? rp_state_size(rp_spec_layout(s)) : rp_dtype_size(s->dtype);
}

rp_decimal rp_spec_quantile(const rp_spec *s, unsigned i)
{
    const uint8_t *at = s->q + 16 * i;
    return (rp_decimal){(int64_t)get64(at), (int64_t)get64(at + 8)};
}

double rp_spec_edge(const rp_spec *s, uint32_t i)
{
    double edge;
    memcpy(&edge, s->edges + 8 * (size_t)i, sizeof edge);
    return edge;
}

/* Take the bytes of the keys from those of the data. */
static rp_err take_keys(const rp_spec *s, uint64_t *bytes, rp_fault *f)
{
    const uint64_t want = rp_role_bytes(s, RP_ROLE_KEYS);
    if (want > *bytes)
        return rp_fail(f, RP_SHAPE, "keys", want, "%" PRIu64 " bytes do not hold the keys", *bytes);
    *bytes -= want;
    return RP_OK;
}

/* Take the bytes of the weights from those of the data. Their number may be beyond 64 bits. */
static rp_err take_weights(const rp_spec *s, uint64_t *bytes, rp_fault *f)
{
    const bool row = s->weights_extent == RP_EXTENT_ROW, column = s->weights_extent == RP_EXTENT_COLUMN;
    uint64_t want = row ? s->row_len : s->rows;
    bool beyond = !row && !column && __builtin_mul_overflow(s->flags & RP_OFFSETS ? 1 : want, s->row_len, &want);
    beyond |= !row && !column && __builtin_mul_overflow(want, rp_planes(s), &want);
    beyond |= __builtin_mul_overflow(want, (uint64_t)rp_dtype_size(s->weights), &want);
    if (beyond || want > *bytes)
        return rp_fail(f, RP_SHAPE, "weights", beyond ? UINT64_MAX : want, "%" PRIu64 " bytes do not hold the weights", *bytes);
    *bytes -= want;
    return RP_OK;
}

rp_err rp_spec_match(const rp_spec *s, uint32_t apart, uint64_t bytes, rp_fault *f)
{
    const uint32_t with = s->flags & ~apart;
    uint64_t item = rp_item_size(s) + (with & RP_MASK ? 1 : 0), want, head = 0;
    if (rp_is_paired(s->op) && !(s->flags & (RP_WEIGHTS | RP_STATES_IN)))
        return rp_fail(f, RP_BAD_MESSAGE, "weights", 0, "%s needs a second operand", rp_op_name(s->op));
    if (with & RP_WEIGHTS)
        TRY(take_weights(s, &bytes, f));
    if (with & RP_KEYS)
        TRY(take_keys(s, &bytes, f));
    if (with & RP_OFFSETS) {
        head = rp_role_bytes(s, RP_ROLE_OFFSETS);
        if (bytes < head)
            return rp_fail(f, RP_SHAPE, "offsets", head, "%" PRIu64 " bytes do not hold %" PRIu64 " offsets", bytes,
                           s->rows + 1);
    }
    if ((bytes - head) % item)
        return rp_fail(f, RP_SHAPE, "data", item, "%" PRIu64 " bytes are not a multiple of the %" PRIu64 "-byte %s",
                       bytes - head, item,
                       s->flags & RP_STATES_IN ? "state"
                       : with & RP_MASK        ? "element and mask"
                                               : "element");
    uint64_t rows = counts_all(s) ? 1 : s->rows;
    if (!__builtin_mul_overflow(rows, s->row_len, &want) && !__builtin_mul_overflow(want, rp_planes(s), &want) &&
        want == (bytes - head) / item)
        return RP_OK;
    if (s->planes > 1)
        return rp_fail(f, RP_SHAPE, "row_len", 0,
                       "%" PRIu64 " planes of %" PRIu64 " rows of %" PRIu64 " do not make the %" PRIu64 " given", s->planes,
                       rows, s->row_len, (bytes - head) / item);
    return rp_fail(f, RP_SHAPE, "row_len", 0, "%" PRIu64 " rows of %" PRIu64 " do not make the %" PRIu64 " given", rows,
                   s->row_len, (bytes - head) / item);
}

/* Elements of the second operand: at most 2^60 unless it has one for each element. */
static uint64_t weights_of(const rp_spec *s)
{
    return s->weights_extent == RP_EXTENT_ROW ? s->row_len : s->weights_extent == RP_EXTENT_COLUMN ? s->rows : rp_elements(s);
}

/* Rows are at most 2^60. */
uint64_t rp_role_bytes(const rp_spec *s, rp_role role)
{
    return role == RP_ROLE_OFFSETS   ? 8 * (s->rows + 1)
           : role == RP_ROLE_WEIGHTS ? weights_of(s) * rp_dtype_size(s->weights)
           : role == RP_ROLE_KEYS    ? rp_elements(s) * rp_dtype_size(s->keys)
                                     : rp_elements(s);
}

/* What follows the elements, and their mask if that is not elsewhere. */
static const uint8_t *behind(const rp_spec *s, const rp_parts *p, bool mask_apart)
{
    const uint64_t n = rp_elements(s);
    return p->elements + n * rp_item_size(s) + (s->flags & RP_MASK && !mask_apart ? n : 0);
}

rp_parts rp_spec_parts(const rp_spec *s, const void *data, const rp_parts *beside)
{
    rp_parts p = {.elements = data};
    if (s->flags & RP_OFFSETS && beside && beside->offsets) {
        p.offsets = beside->offsets;
    } else if (s->flags & RP_OFFSETS) {
        p.offsets = data;
        p.elements += rp_role_bytes(s, RP_ROLE_OFFSETS);
    }
    if (s->flags & RP_MASK)
        p.mask = beside && beside->mask ? beside->mask : p.elements + rp_elements(s) * rp_item_size(s);
    if (s->flags & RP_WEIGHTS)
        p.weights = beside && beside->weights ? beside->weights : behind(s, &p, beside && beside->mask);
    if (s->flags & RP_KEYS)
        p.keys = beside && beside->keys ? beside->keys : behind(s, &p, beside && beside->mask);
    return p;
}

rp_err rp_offsets_check(const rp_spec *s, const uint8_t *offsets, rp_fault *f)
{
    uint64_t before = 0, at;
    for (uint64_t i = 0; i <= s->rows; i++, before = at) {
        memcpy(&at, offsets + 8 * i, sizeof at);
        if (at >= before && at <= s->row_len)
            continue;
        rp_fail(f, RP_SHAPE, "offsets", s->row_len,
                at < before ? "offset %" PRIu64 " is %" PRIu64 ", below the one before it"
                            : "offset %" PRIu64 " is %" PRIu64 ", after the last element",
                i, at);
        if (f)
            f->index = i;
        return RP_SHAPE;
    }
    return RP_OK;
}
