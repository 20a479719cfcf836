/* What a spec may ask for: every op with every pair of types, and sizes whose products overflow. */
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

static bool is_int(int t) { return t >= RP_I8 && t <= RP_U64; }
static bool is_float(int t) { return t >= RP_F16 && t <= RP_F64; }

static void reply_types(void **state)
{
    (void)state;
    for (int op = RP_OP_SUM; op <= RP_OP_COUNT_NONZERO; op++)
        for (int dtype = RP_I8; dtype <= RP_F64; dtype++)
            for (int out = 0; out <= RP_F64 + 1; out++) {
                bool indexes = op >= RP_OP_ARGMIN;
                bool fine = out == 0 || (indexes         ? out == RP_U64
                                         : is_int(dtype) ? out == RP_I64 || out == RP_U64
                                                         : is_float(out));
                bool is_signed = dtype == RP_I8 || dtype == RP_I16 || dtype == RP_I32 || dtype == RP_I64;
                int deflt = indexes ? RP_U64 : is_float(dtype) ? RP_F64 : is_signed ? RP_I64 : RP_U64;
                rp_spec s = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .out = (uint8_t)out, .rows = 1};
                rp_fault f = {0};
                assert_int_equal(rp_spec_check(&s, &f), fine ? RP_OK : RP_TYPE);
                if (fine)
                    assert_int_equal(s.out, out ? out : deflt);
                else
                    assert_string_equal(f.field, "out");
            }
}

static void bad_fields(void **state)
{
    (void)state;
    rp_spec s = good();
    s.op = 0, refused(s, RP_OP, "op", 0);
    s.op = 7, refused(s, RP_OP, "op", 0);
    s.op = 255, refused(s, RP_OP, "op", 0);
    s = good();
    s.dtype = 0, refused(s, RP_TYPE, "dtype", 0);
    s.dtype = 13, refused(s, RP_TYPE, "dtype", 0);
    s = good();
    s.out = 200, refused(s, RP_TYPE, "out", 0);
    s = good();
    s.nan = 3, refused(s, RP_BAD_MESSAGE, "nan", 0);
    s = good();
    s.flags = 4, refused(s, RP_BAD_MESSAGE, "flags", 0);
    s.flags = UINT32_C(1) << 31, refused(s, RP_BAD_MESSAGE, "flags", 0);
    s = good();
    s.rows = 0, refused(s, RP_SHAPE, "rows", 1);
}

static void caps(void **state)
{
    (void)state;
    rp_spec s = good();
    s.row_len = RP_MAX_COUNT;
    assert_int_equal(rp_spec_check(&s, NULL), RP_OK);
    s.row_len = RP_MAX_COUNT + 1, refused(s, RP_TOO_LARGE, "row_len", RP_MAX_COUNT);
    s.row_len = UINT64_MAX, refused(s, RP_TOO_LARGE, "row_len", RP_MAX_COUNT);
    s = good();
    s.rows = RP_MAX_COUNT + 1, refused(s, RP_TOO_LARGE, "rows", RP_MAX_COUNT);
    s = good();
    s.index_base = RP_MAX_COUNT;
    assert_int_equal(rp_spec_check(&s, NULL), RP_OK);
    s.index_base++, refused(s, RP_TOO_LARGE, "index_base", RP_MAX_COUNT);

    /* the reply's cells: f64 by default, f16, states of 64 and 288 bytes */
    static const struct {
        uint8_t dtype, out;
        uint32_t flags;
        uint64_t cell;
    } cells[] = {{RP_F32, 0, 0, 8}, {RP_F32, RP_F16, 0, 2}, {RP_F32, 0, RP_STATES_OUT, 64},
                 {RP_F64, 0, RP_STATES_OUT, 288}, {RP_I8, 0, RP_STATES_OUT, 32}};
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        uint64_t most = RP_MAX_DATA / cells[i].cell;
        s = (rp_spec){.op = RP_OP_SUM, .dtype = cells[i].dtype, .out = cells[i].out, .flags = cells[i].flags, .rows = most};
        assert_int_equal(rp_spec_check(&s, NULL), RP_OK);
        assert_int_equal(rp_cell_size(&s), cells[i].cell);
        s.rows++, refused(s, RP_TOO_LARGE, "rows", most);
    }
}

static void match(uint32_t flags, uint64_t rows, uint64_t row_len, uint64_t bytes, rp_err code, const char *field)
{
    rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .flags = flags, .rows = rows, .row_len = row_len};
    rp_fault f = {0};
    assert_int_equal(rp_spec_match(&s, bytes, &f), code);
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
    /* rows x row_len = 2^64 + 0 and + 8: looks like 0 or 8 elements if it wraps */
    match(0, UINT64_C(1) << 32, UINT64_C(1) << 32, 0, RP_SHAPE, "row_len");
    match(0, UINT64_C(1) << 19, (UINT64_C(1) << 45) + 1, UINT64_C(1) << 22, RP_SHAPE, "row_len");
    /* rows x row_len x 8 wraps to 8 bytes */
    match(0, 1, (UINT64_C(1) << 61) + 1, 8, RP_SHAPE, "row_len");
    match(0, UINT64_MAX, UINT64_MAX, 8, RP_SHAPE, "row_len");
}

static void state_layouts(void **state)
{
    (void)state;
    for (int dtype = RP_I8; dtype <= RP_F64; dtype++) {
        int sum = dtype == RP_F64 ? RP_STATE_SUM64 : is_float(dtype) ? RP_STATE_SUM32 : RP_STATE_INT;
        assert_int_equal(rp_state_layout(RP_OP_SUM, dtype), sum);
        assert_int_equal(rp_state_layout(RP_OP_MIN, dtype), RP_STATE_MIN);
        assert_int_equal(rp_state_layout(RP_OP_MAX, dtype), RP_STATE_MAX);
        assert_int_equal(rp_state_layout(RP_OP_ARGMIN, dtype), RP_STATE_ARGMIN);
        assert_int_equal(rp_state_layout(RP_OP_ARGMAX, dtype), RP_STATE_ARGMAX);
        assert_int_equal(rp_state_layout(RP_OP_COUNT_NONZERO, dtype), RP_STATE_COUNT);
    }
    size_t most = 0;
    for (int layout = -2; layout < 300; layout++)
        most = rp_state_size(layout) > most ? rp_state_size(layout) : most;
    assert_int_equal(most, RP_MAX_STATE);
    assert_int_equal(rp_state_size(1), 0);
    assert_int_equal(rp_state_size(3), 0);
    assert_int_equal(rp_state_size(10), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reply_types), cmocka_unit_test(bad_fields),    cmocka_unit_test(caps),
        cmocka_unit_test(data_match),  cmocka_unit_test(state_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
