/* What a spec may ask for: every op with every pair of types and every flag, and sizes whose products overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/types.h"

static rp_spec good(void) { return (rp_spec){.op = RP_OP_SUM, .dtype = RP_F32, .rows = 1, .row_len = 3}; }

static void refused(rp_spec s, rp_err code, const char *field, uint64_t limit)
{
    rp_fault f = {0};
    assert_int_equal(rp_spec_check(&s, &f), code);
    assert_int_equal(f.code, code);
    assert_string_equal(f.field, field);
    assert_true(f.limit == limit);
    assert_true(f.index == RP_NO_INDEX);
}

static void accepted(rp_spec s) { assert_int_equal(rp_spec_check(&s, NULL), RP_OK); }

/* The contract, op by op: what comes out, and the code of its layout for f16, bf16, f32, for f64 and for integers. */
enum { VALUE, END, REAL, NUMBER, BITS, STATS, NONE = RP_STATE_NONE };
static const struct {
    int op, out, narrow, wide, integer;
} contract[] = {
    {RP_OP_SUM, VALUE, 0, 2, 4},
    {RP_OP_MIN, END, 5, 5, 5},
    {RP_OP_MAX, END, 6, 6, 6},
    {RP_OP_ARGMIN, NUMBER, 7, 7, 7},
    {RP_OP_ARGMAX, NUMBER, 8, 8, 8},
    {RP_OP_COUNT_NONZERO, NUMBER, 9, 9, 9},
    {RP_OP_PROD, VALUE, 23, 23, 24},
    {RP_OP_MINMAX, VALUE, 18, 18, 18},
    {RP_OP_RANGE, VALUE, 18, 18, 18},
    {RP_OP_MEAN, REAL, 0, 2, 4},
    {RP_OP_SUMSQ, VALUE, 1, 3, 10},
    {RP_OP_NORM1, VALUE, 14, 15, 16},
    {RP_OP_NORM2, REAL, 1, 3, 10},
    {RP_OP_NORMINF, VALUE, 17, 17, 17},
    {RP_OP_VAR, REAL, 11, 12, 13},
    {RP_OP_STD, REAL, 11, 12, 13},
    {RP_OP_ANY, NUMBER, 9, 9, 9},
    {RP_OP_ALL, NUMBER, 9, 9, 9},
    {RP_OP_COUNT, NUMBER, 9, 9, 9},
    {RP_OP_COUNT_NAN, NUMBER, 19, 19, 19},
    {RP_OP_AND, BITS, 20, 20, 20},
    {RP_OP_OR, BITS, 21, 21, 21},
    {RP_OP_XOR, BITS, 22, 22, 22},
    {RP_OP_STATS, STATS, 25, 26, 27},
    {RP_OP_RMS, REAL, 1, 3, 10},
    {RP_OP_SEM, REAL, 11, 12, 13},
    {RP_OP_MEDIAN, REAL, NONE, NONE, NONE},
    {RP_OP_QUANTILE, REAL, NONE, NONE, NONE},
    {RP_OP_KTH, VALUE, NONE, NONE, NONE},
    {RP_OP_LARGEST, VALUE, NONE, NONE, NONE},
    {RP_OP_SMALLEST, VALUE, NONE, NONE, NONE},
    {RP_OP_HISTOGRAM, NUMBER, NONE, NONE, NONE}, /* none */
    {RP_OP_DOT, VALUE, 28, 29, 30},
    {RP_OP_WSUM, VALUE, 28, 29, 30},
    {RP_OP_WMEAN, REAL, 31, 32, 33},
    {RP_OP_COV, REAL, 34, 35, 36},
    {RP_OP_CORR, REAL, 37, 38, 39},
};
enum { OPS = sizeof contract / sizeof contract[0] };

static bool is_float(int t) { return t >= RP_F16 && t <= RP_F64; }
static bool is_signed(int t) { return t == RP_I8 || t == RP_I16 || t == RP_I32 || t == RP_I64; }
static int widest(int t) { return is_float(t) ? RP_F64 : is_signed(t) ? RP_I64 : RP_U64; }

static int default_out(int kind, int dtype) { return kind == REAL ? RP_F64 : kind == NUMBER ? RP_U64 : widest(dtype); }

static bool out_fine(int kind, int dtype, int out)
{
    switch (kind) {
    case REAL:
        return is_float(out);
    case NUMBER:
        return out == RP_U64;
    case STATS:
        return out == widest(dtype);
    case END:
        return out_fine(VALUE, dtype, out) || (out == dtype && dtype != RP_BOOL);
    default:
        return is_float(dtype) ? is_float(out) : out == RP_I64 || out == RP_U64;
    }
}

static void reply_types(void **state)
{
    (void)state;
    for (int i = 0; i < OPS; i++)
        for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
            for (int out = 0; out <= RP_DTYPE_COUNT + 1; out++) {
                int kind = contract[i].out;
                rp_spec s = {.op = (uint8_t)contract[i].op, .dtype = (uint8_t)dtype, .out = (uint8_t)out, .rows = 1};
                rp_fault f = {0};
                bool undefined = kind == BITS && is_float(dtype), fine = !undefined && (!out || out_fine(kind, dtype, out));
                assert_int_equal(rp_spec_check(&s, &f), fine ? RP_OK : RP_TYPE);
                if (fine)
                    assert_int_equal(s.out, out ? out : default_out(kind, dtype));
                else
                    assert_string_equal(f.field, undefined ? "dtype" : "out");
            }
}

static void bad_fields(void **state)
{
    (void)state;
    rp_spec s = good();
    s.op = 0, refused(s, RP_OP, "op", 0);
    s.op = RP_OP_END, refused(s, RP_OP, "op", 0);
    s.op = 255, refused(s, RP_OP, "op", 0);
    s = good();
    s.dtype = 0, refused(s, RP_TYPE, "dtype", 0);
    s.dtype = RP_DTYPE_COUNT + 1, refused(s, RP_TYPE, "dtype", 0);
    s = good();
    s.out = 200, refused(s, RP_TYPE, "out", 0);
    s = good();
    s.nan = 3, refused(s, RP_BAD_MESSAGE, "nan", 0);
    s = good();
    s.flags = RP_SPEC_FLAGS + 1, refused(s, RP_BAD_MESSAGE, "flags", 0);
    s.flags = UINT32_C(1) << 31, refused(s, RP_BAD_MESSAGE, "flags", 0);
    s = good();
    s.rows = 0, refused(s, RP_SHAPE, "rows", 1);
}

/* Order statistics have no states and take no initial element; what a quantile is depends on its method. */
static void order_statistics(void **state)
{
    (void)state;
    for (int op = RP_OP_MEDIAN; op <= RP_OP_HISTOGRAM; op++) {
        rp_spec s = {.op = (uint8_t)op, .dtype = RP_I32, .rows = 2, .row_len = 3};
        accepted(s);
        s.flags = RP_COLUMNS | RP_MASK, accepted(s);
        s.flags = RP_OFFSETS, accepted(s);
        s.flags = RP_STATES_IN, refused(s, RP_BAD_MESSAGE, "flags", 0);
        s.flags = RP_STATES_OUT, refused(s, RP_BAD_MESSAGE, "flags", 0);
        s.flags = RP_INITIAL, refused(s, RP_BAD_MESSAGE, "initial", 0);
        s.flags = RP_WRAP, refused(s, RP_BAD_MESSAGE, "flags", 0);
    }
    for (int method = 0; method < RP_METHOD_END; method++) {
        const bool picks = method == RP_METHOD_INVERTED_CDF || method == RP_METHOD_CLOSEST_OBSERVATION ||
                           method == RP_METHOD_LOWER || method == RP_METHOD_HIGHER || method == RP_METHOD_NEAREST;
        rp_spec s = {.op = RP_OP_QUANTILE, .dtype = RP_I32, .rows = 2, .row_len = 3, .quantiles = 5, .method = (uint8_t)method};
        assert_int_equal(rp_method_picks(method), picks);
        assert_int_equal(rp_spec_check(&s, NULL), RP_OK);
        assert_int_equal(s.out, picks ? RP_I64 : RP_F64);
        assert_int_equal(rp_cell_size(&s), 5 * 8);
        s.out = picks ? RP_F64 : RP_I64, refused(s, RP_TYPE, "out", 0);
    }
    assert_false(rp_method_picks(RP_METHOD_END));
    rp_spec s = {.op = RP_OP_LARGEST, .dtype = RP_F32, .out = RP_F32, .rows = 1, .row_len = 3, .k = 5};
    assert_int_equal(rp_cell_size(&s), 24 + 5 * 8);
    assert_int_equal(rp_indexes_at(&s), 24);
    s.k = RP_MAX_TOP, accepted(s);
    s = (rp_spec){.op = RP_OP_HISTOGRAM, .dtype = RP_F32, .out = RP_U64, .rows = 1, .row_len = 3, .n_edges = 11};
    assert_int_equal(rp_cell_size(&s), 13 * 8);
}

/* A second operand is for operations that need one, which take no initial element. */
static void pairs(void **state)
{
    (void)state;
    for (int i = 0; i < OPS; i++) {
        const bool paired = contract[i].op >= RP_OP_DOT;
        rp_spec s = {.op = (uint8_t)contract[i].op, .dtype = RP_F32, .rows = 2, .row_len = 3, .flags = RP_WEIGHTS};
        assert_int_equal(rp_is_paired(s.op), paired);
        if (contract[i].out == BITS)
            continue;
        refused(s, RP_BAD_MESSAGE, paired ? "weights" : "flags", 0);
        if (!paired)
            continue;
        s.weights = RP_F32;
        accepted(s);
        assert_int_equal(rp_spec_state_dtype(&s), RP_F32);
        s.weights = RP_F64, accepted(s);
        assert_int_equal(rp_spec_state_dtype(&s), RP_F64);
        assert_int_equal(rp_spec_layout(&s), contract[i].wide);
        s.flags |= RP_INITIAL, refused(s, RP_BAD_MESSAGE, "initial", 0);
        s.flags = RP_WEIGHTS | RP_STATES_IN, refused(s, RP_BAD_MESSAGE, "flags", 0);
        s.flags = RP_STATES_IN, accepted(s);
    }
}

/* Weights in the data, or elsewhere, with their three extents. */
static void weights_match(void **state)
{
    (void)state;
    rp_spec s = {.op = RP_OP_DOT, .dtype = RP_F32, .out = RP_F64, .rows = 4, .row_len = 3, .planes = 2, .weights = RP_F64};
    rp_fault f;
    assert_int_equal(rp_spec_match(&s, 0, 96, &f), RP_BAD_MESSAGE);
    assert_string_equal(f.field, "weights");
    s.flags = RP_WEIGHTS | RP_MASK;
    for (int extent = RP_EXTENT_ELEMENTS; extent <= RP_EXTENT_COLUMN; extent++) {
        const uint64_t n = extent == RP_EXTENT_ELEMENTS ? 24 : extent == RP_EXTENT_ROW ? 3 : 4;
        const uint8_t *data = (const uint8_t *)&s;
        s.weights_extent = (uint8_t)extent;
        assert_int_equal(rp_role_bytes(&s, RP_ROLE_WEIGHTS), 8 * n);
        assert_int_equal(rp_spec_match(&s, 0, 24 * 5 + 8 * n, &f), RP_OK);
        assert_int_equal(rp_spec_match(&s, 0, 24 * 5 + 8 * n - 1, &f), RP_SHAPE);
        assert_int_equal(rp_spec_match(&s, 0, 8 * n - 1, &f), RP_SHAPE);
        assert_string_equal(f.field, "weights");
        assert_int_equal(rp_spec_match(&s, RP_WEIGHTS, 24 * 5, &f), RP_OK);
        assert_int_equal(rp_spec_match(&s, RP_WEIGHTS | RP_MASK, 24 * 4, &f), RP_OK);
        assert_ptr_equal(rp_spec_parts(&s, data, NULL).weights, data + 24 * 5);
        assert_ptr_equal(rp_spec_parts(&s, data, &(rp_parts){.mask = data}).weights, data + 24 * 4);
        assert_ptr_equal(rp_spec_parts(&s, data, &(rp_parts){.weights = data + 1}).weights, data + 1);
    }
    s.rows = s.row_len = RP_MAX_COUNT; /* their number is beyond 64 bits */
    s.weights_extent = RP_EXTENT_ELEMENTS;
    assert_int_equal(rp_spec_match(&s, 0, UINT64_MAX, &f), RP_SHAPE);
}

/* Every combination of flags: which exclude each other. */
static void flags(void **state)
{
    (void)state;
    for (uint32_t set = 0; set < RP_WEIGHTS; set++)
        for (int op = RP_OP_SUM; op <= RP_OP_PROD; op += RP_OP_PROD - RP_OP_SUM)
            for (int dtype = RP_I32; dtype <= RP_F32; dtype += RP_F32 - RP_I32) {
                rp_spec s = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .flags = set, .rows = 2, .row_len = 3};
                bool states = set & RP_STATES_IN, cut = set & (RP_MASK | RP_OFFSETS | RP_COLUMNS);
                bool both = (set & RP_OFFSETS) && (set & RP_COLUMNS);
                bool no_wrap = (set & RP_WRAP) && !(op == RP_OP_PROD && dtype == RP_I32);
                bool late = (set & RP_INITIAL) && (set & RP_STATES_OUT);
                if ((states && cut) || both || no_wrap)
                    refused(s, RP_BAD_MESSAGE, "flags", 0);
                else if (late)
                    refused(s, RP_BAD_MESSAGE, "initial", 0);
                else
                    accepted(s);
            }
}

/* Of keys: what they exclude, and how many groups there may be. */
static void keys(void **state)
{
    (void)state;
    for (uint32_t set = 0; set < RP_KEYS; set++) {
        rp_spec s = {
            .op = RP_OP_SUM, .dtype = RP_F32, .flags = set | RP_KEYS | RP_DROP_OUTSIDE, .rows = 2, .row_len = 3, .keys = RP_I8};
        if (set & (RP_STATES_IN | RP_WRAP | RP_OFFSETS | RP_COLUMNS | RP_WEIGHTS))
            refused(s, RP_BAD_MESSAGE, "flags", 0);
        else if (set & RP_INITIAL && set & RP_STATES_OUT)
            refused(s, RP_BAD_MESSAGE, "initial", 0);
        else
            accepted(s);
    }
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F32, .flags = RP_KEYS, .rows = 1, .row_len = 3, .keys = RP_U64};
    s.planes = 1, refused(s, RP_BAD_MESSAGE, "planes", 0), s.planes = 0;
    s.op = RP_OP_KTH, refused(s, RP_BAD_MESSAGE, "flags", 0), s.op = RP_OP_SUM;
    s.flags = RP_DROP_OUTSIDE, refused(s, RP_BAD_MESSAGE, "flags", 0), s.flags = RP_KEYS;
    s.keys = 0, refused(s, RP_BAD_MESSAGE, "keys", 0), s.keys = RP_U64;
    s.rows = RP_MAX_GROUPS_BYTES / (64 + 32) + 1, refused(s, RP_TOO_LARGE, "rows", RP_MAX_GROUPS_BYTES / (64 + 32));
}

static void parameters(void **state)
{
    (void)state;
    for (int i = 0; i < OPS; i++) {
        rp_spec s = {.op = (uint8_t)contract[i].op, .dtype = RP_U16, .ddof = 1, .rows = 1};
        if (s.op == RP_OP_VAR || s.op == RP_OP_STD || s.op == RP_OP_SEM || s.op == RP_OP_STATS || s.op == RP_OP_COV)
            accepted(s);
        else
            refused(s, RP_BAD_MESSAGE, "ddof", 0);
    }
    rp_spec s = good();
    s.initial = 1, refused(s, RP_BAD_MESSAGE, "initial", 0);
    s.flags = RP_INITIAL, accepted(s);
    s.initial = UINT32_MAX, accepted(s);
    s.initial++, refused(s, RP_BAD_MESSAGE, "initial", 32);
    s.dtype = RP_I8, s.initial = 256, refused(s, RP_BAD_MESSAGE, "initial", 8);
    s.dtype = RP_BF16, s.initial = 65536, refused(s, RP_BAD_MESSAGE, "initial", 16);
    s.dtype = RP_U64, s.initial = UINT64_MAX, accepted(s);
}

static void caps(void **state)
{
    (void)state;
    rp_spec s = good();
    s.row_len = RP_MAX_COUNT, accepted(s);
    s.row_len = RP_MAX_COUNT + 1, refused(s, RP_TOO_LARGE, "row_len", RP_MAX_COUNT);
    s.row_len = UINT64_MAX, refused(s, RP_TOO_LARGE, "row_len", RP_MAX_COUNT);
    s = good();
    s.rows = RP_MAX_COUNT + 1, refused(s, RP_TOO_LARGE, "rows", RP_MAX_COUNT);
    s = good();
    s.index_base = RP_MAX_COUNT, accepted(s);
    s.index_base++, refused(s, RP_TOO_LARGE, "index_base", RP_MAX_COUNT);

    static const struct {
        uint8_t op, dtype, out;
        uint32_t flags;
        uint64_t cell;
    } cells[] = {
        {RP_OP_SUM, RP_F32, 0, 0, 8},
        {RP_OP_SUM, RP_F32, RP_F16, 0, 2},
        {RP_OP_SUM, RP_F32, 0, RP_STATES_OUT, 64},
        {RP_OP_SUM, RP_F64, 0, RP_STATES_OUT, 288},
        {RP_OP_SUM, RP_I8, 0, RP_STATES_OUT, 32},
        {RP_OP_VAR, RP_F64, RP_F32, 0, 4},
        {RP_OP_VAR, RP_F64, 0, RP_STATES_OUT, 16 + 8 * 101},
        {RP_OP_SUMSQ, RP_BF16, 0, RP_STATES_OUT, 96},
        {RP_OP_MINMAX, RP_F64, RP_BF16, 0, 4},
        {RP_OP_MINMAX, RP_I8, 0, 0, 16},
        {RP_OP_RANGE, RP_I8, 0, 0, 8},
        {RP_OP_STATS, RP_I8, 0, 0, 96},
        {RP_OP_STATS, RP_F64, 0, RP_STATES_OUT, 872},
        {RP_OP_PROD, RP_F16, 0, RP_STATES_OUT, 48},
        {RP_OP_PROD, RP_I16, 0, RP_STATES_OUT, 40},
    };
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        uint64_t most = RP_MAX_DATA / cells[i].cell;
        s = (rp_spec){.op = cells[i].op, .dtype = cells[i].dtype, .out = cells[i].out, .flags = cells[i].flags, .rows = most};
        assert_int_equal(rp_spec_check(&s, NULL), RP_OK);
        assert_int_equal(rp_cell_size(&s), cells[i].cell);
        s.rows++, refused(s, RP_TOO_LARGE, "rows", most);
        s.rows = 1, s.row_len = most + 1, accepted(s);
        if (!(s.flags & RP_STATES_IN))
            s.flags |= RP_COLUMNS, refused(s, RP_TOO_LARGE, "row_len", most);
    }
}

static void planes(void **state)
{
    (void)state;
    rp_spec s = good();
    s.planes = 1, s.flags = RP_STATES_IN, refused(s, RP_BAD_MESSAGE, "planes", 0);
    s.flags = RP_OFFSETS | RP_INITIAL, refused(s, RP_BAD_MESSAGE, "planes", 0);
    s = good(); /* rows in runs: as many results as rows, however many planes */
    s.flags = RP_MASK, s.rows = RP_MAX_DATA / 8, s.row_len = 3, s.planes = RP_MAX_COUNT;
    accepted(s);
    assert_int_equal(rp_results(&s), RP_MAX_DATA / 8);
    s.planes++, refused(s, RP_TOO_LARGE, "planes", RP_MAX_COUNT);
    s.planes = 5, s.rows = RP_MAX_DATA / 8 + 1, refused(s, RP_TOO_LARGE, "rows", RP_MAX_DATA / 8);
    s.rows = 7;
    assert_int_equal(rp_elements(&s), 5 * 7 * 3);
    s = good();
    s.flags = RP_COLUMNS, s.row_len = 3, s.planes = 5;
    accepted(s);
    assert_int_equal(rp_results(&s), 15);
    assert_int_equal(rp_elements(&s), 15 * s.rows);
    s.planes = RP_MAX_COUNT + 1, refused(s, RP_TOO_LARGE, "planes", RP_MAX_COUNT);
    s.planes = RP_MAX_DATA / 8 / 3, accepted(s);
    s.planes++, refused(s, RP_TOO_LARGE, "planes", RP_MAX_DATA / 8 / 3);
    s.row_len = RP_MAX_DATA / 8 + 1, refused(s, RP_TOO_LARGE, "row_len", RP_MAX_DATA / 8);
    s.row_len = 16, s.planes = UINT64_C(1) << 60, refused(s, RP_TOO_LARGE, "planes", RP_MAX_DATA / 8 / 16); /* 2^64 results */
    s.row_len = 0, accepted(s);
}

/* Columns, and rows in runs. */
static void match_planes(uint64_t planes, uint64_t rows, uint64_t row_len, uint64_t bytes, rp_err code)
{
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .flags = RP_COLUMNS, .rows = rows, .row_len = row_len};
    for (int i = 0; i < 2; i++, s.flags = 0) {
        rp_fault f = {0};
        s.planes = planes;
        assert_int_equal(rp_spec_match(&s, 0, bytes, &f), code);
        assert_string_equal(f.field, code ? "row_len" : "");
    }
}

static void planes_match(void **state)
{
    (void)state;
    match_planes(0, 2, 5, 80, RP_OK);
    match_planes(1, 2, 5, 80, RP_OK);
    match_planes(3, 2, 5, 240, RP_OK);
    match_planes(3, 2, 5, 80, RP_SHAPE);
    match_planes(3, 2, 5, 248, RP_SHAPE);
    match_planes(3, 2, 0, 0, RP_OK);
    match_planes(UINT64_C(1) << 32, UINT64_C(1) << 30, 4, 0, RP_SHAPE); /* 2^64 elements look like none */
    match_planes(UINT64_C(1) << 60, 1, 16, 0, RP_SHAPE);
}

static void match(uint32_t set, uint64_t rows, uint64_t row_len, uint64_t bytes, rp_err code, const char *field)
{
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .flags = set, .rows = rows, .row_len = row_len};
    rp_fault f = {0};
    assert_int_equal(rp_spec_match(&s, 0, bytes, &f), code);
    assert_string_equal(f.field, field);
}

static void data_match(void **state)
{
    (void)state;
    match(0, 3, 5, 120, RP_OK, "");
    match(0, 1, 0, 0, RP_OK, "");
    match(0, 1000, 0, 0, RP_OK, "");
    match(0, 3, 5, 119, RP_SHAPE, "data");
    match(0, 3, 5, 128, RP_SHAPE, "row_len");
    match(0, 3, 5, 112, RP_SHAPE, "row_len");
    match(0, 1, 1, 0, RP_SHAPE, "row_len");
    match(RP_STATES_IN, 2, 2, 4 * 288, RP_OK, "");
    match(RP_STATES_IN, 2, 2, 4 * 288 - 8, RP_SHAPE, "data");
    match(RP_STATES_IN, 2, 3, 4 * 288, RP_SHAPE, "row_len");
    match(RP_MASK, 2, 5, 90, RP_OK, "");
    match(RP_MASK, 2, 5, 80, RP_SHAPE, "data");
    match(RP_MASK, 2, 5, 99, RP_SHAPE, "row_len");
    match(RP_COLUMNS, 2, 5, 80, RP_OK, "");
    match(RP_OFFSETS, 3, 5, 32 + 40, RP_OK, "");
    match(RP_OFFSETS, 3, 5, 31, RP_SHAPE, "offsets");
    match(RP_OFFSETS, 3, 5, 32 + 48, RP_SHAPE, "row_len");
    match(RP_OFFSETS | RP_MASK, 3, 5, 32 + 45, RP_OK, "");
    match(RP_OFFSETS | RP_MASK, 3, 5, 32 + 44, RP_SHAPE, "data");
    match(RP_OFFSETS, RP_MAX_COUNT, 0, 8, RP_SHAPE, "offsets");
    /* rows x row_len = 2^64 + 0 and + 8: looks like 0 or 8 elements if it wraps */
    match(0, UINT64_C(1) << 32, UINT64_C(1) << 32, 0, RP_SHAPE, "row_len");
    match(0, UINT64_C(1) << 19, (UINT64_C(1) << 45) + 1, UINT64_C(1) << 22, RP_SHAPE, "row_len");
    /* rows x row_len x 8 wraps to 8 bytes */
    match(0, 1, (UINT64_C(1) << 61) + 1, 8, RP_SHAPE, "row_len");
    match(0, UINT64_MAX, UINT64_MAX, 8, RP_SHAPE, "row_len");
}

static void parts(void **state)
{
    (void)state;
    uint8_t data[100] = {0};
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F32, .rows = 2, .row_len = 6};
    rp_parts p = rp_spec_parts(&s, data, NULL);
    assert_null(p.offsets);
    assert_ptr_equal(p.elements, data);
    assert_null(p.mask);
    s.flags = RP_MASK | RP_COLUMNS;
    p = rp_spec_parts(&s, data, NULL);
    assert_ptr_equal(p.mask, data + 48);
    assert_int_equal(rp_results(&s), 6);
    assert_int_equal(rp_elements(&s), 12);
    s.flags = RP_MASK | RP_OFFSETS;
    p = rp_spec_parts(&s, data, NULL);
    assert_ptr_equal(p.offsets, data);
    assert_ptr_equal(p.elements, data + 24);
    assert_ptr_equal(p.mask, data + 48);
    assert_int_equal(rp_results(&s), 2);
    assert_int_equal(rp_elements(&s), 6);
}

static void offsets(void **state)
{
    (void)state;
    static const struct {
        uint64_t at[4], wrong; /* RP_NO_INDEX: fine */
    } cases[] = {
        {{0, 0, 0, 0}, RP_NO_INDEX}, {{0, 2, 5, 9}, RP_NO_INDEX}, {{3, 3, 8, 8}, RP_NO_INDEX},
        {{9, 9, 9, 9}, RP_NO_INDEX}, {{0, 3, 2, 9}, 2},           {{10, 10, 10, 10}, 0},
        {{0, 1, 2, 10}, 3},          {{0, UINT64_MAX, 0, 0}, 1},  {{5, 4, 3, 20}, 1},
    };
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F32, .flags = RP_OFFSETS, .rows = 3, .row_len = 9};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t unaligned[33];
        rp_fault f = {0};
        memcpy(unaligned + 1, cases[i].at, 32);
        bool fine = cases[i].wrong == RP_NO_INDEX;
        assert_int_equal(rp_offsets_check(&s, unaligned + 1, &f), fine ? RP_OK : RP_SHAPE);
        assert_int_equal(rp_offsets_check(&s, unaligned + 1, NULL), fine ? RP_OK : RP_SHAPE);
        if (fine)
            continue;
        assert_string_equal(f.field, "offsets");
        assert_int_equal(f.index, cases[i].wrong);
        assert_int_equal(f.limit, 9);
    }
}

static void state_layouts(void **state)
{
    (void)state;
    for (int i = 0; i < OPS; i++)
        for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
            assert_int_equal(rp_state_layout(contract[i].op, dtype), !is_float(dtype)  ? contract[i].integer
                                                                     : dtype == RP_F64 ? contract[i].wide
                                                                                       : contract[i].narrow);
    size_t most = 0, plain = 0;
    for (int layout = -2; layout < 300; layout++) {
        const size_t size = rp_state_size(layout);
        const bool long_one = layout >= RP_STATE_COV32 && layout <= RP_STATE_CORRINT;
        assert_int_equal(size == 0, layout < 0 || layout > 39);
        most = size > most ? size : most;
        plain = size > plain && !long_one ? size : plain;
    }
    assert_int_equal(most, RP_MAX_STATE);
    assert_int_equal(plain, RP_PLAIN_STATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reply_types),  cmocka_unit_test(bad_fields),    cmocka_unit_test(flags),
        cmocka_unit_test(parameters),   cmocka_unit_test(caps),          cmocka_unit_test(planes),
        cmocka_unit_test(planes_match), cmocka_unit_test(data_match),    cmocka_unit_test(parts),
        cmocka_unit_test(offsets),      cmocka_unit_test(state_layouts), cmocka_unit_test(order_statistics),
        cmocka_unit_test(pairs),        cmocka_unit_test(weights_match), cmocka_unit_test(keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
