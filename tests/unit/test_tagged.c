/* Tagged parts: what is encoded comes back, and nothing else is accepted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/codec.h"

enum { ROUNDS = 2000, MAX_PARTS = 4096, MAX_VALUES = 5 };

static uint64_t seed = UINT64_C(0x20261128);

static uint64_t any(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % below;
}

/* The values of a parameter, and how they are given. */
static uint8_t values[RP_PARAMETER_END][MAX_VALUES * 16];

static rp_parameter some_parameter(int code, int form, uint32_t most)
{
    rp_parameter p = {(uint8_t)form, 1 + (uint32_t)any(most < MAX_VALUES ? most : MAX_VALUES), values[code]};
    size_t n = 0;
    for (uint32_t i = 0; i < p.n; i++) {
        const rp_value v = {
            .u64 = any(1000), .i64 = -(int64_t)any(1000), .f64 = 0.5 * (double)any(99), .exponent = (int64_t)any(801) - 400};
        n += rp_put_value(values[code] + n, form, &v);
    }
    return p;
}

static rp_companion some_companion(void)
{
    rp_companion c = {.where = (uint8_t)(1 + any(RP_WHERE_END - 1)),
                      .dtype = (uint8_t)any(256),
                      .extent = (uint8_t)(1 + any(RP_EXTENT_END - 1))};
    if (c.where == RP_WHERE_HANDLE) {
        c.handle = any(UINT32_MAX) << 20;
        c.offset = any(UINT32_MAX);
    }
    return c;
}

/* Each part is there half of the time. */
static rp_tagged some_tagged(void)
{
    rp_tagged t = {.apart = any(2), .stride = any(2) ? 1 + any(UINT32_MAX) : 0};
    for (int role = 1; role < RP_ROLE_END; role++)
        if (any(2))
            t.companion[role] = some_companion();
#define X(NAME, name, code, form, most) \
    if (any(2))                         \
        t.parameter[code] = some_parameter(code, RP_FORM_##form, most);
    RP_PARAMETERS(X)
#undef X
    if (any(2))
        t.claim = (rp_claim){1 + any(UINT32_MAX), any(UINT32_MAX) << 31};
    if (t.apart)
        t.result = (rp_at){any(UINT32_MAX), any(UINT32_MAX), any(UINT32_MAX), 0};
    return t;
}

static void assert_same(const rp_tagged *a, const rp_tagged *b)
{
    for (int role = 1; role < RP_ROLE_END; role++) {
        const rp_companion *x = &a->companion[role], *y = &b->companion[role];
        assert_true(x->where == y->where && x->dtype == y->dtype && x->extent == y->extent);
        assert_true(x->handle == y->handle && x->offset == y->offset);
    }
    for (int code = 1; code < RP_PARAMETER_END; code++) {
        const rp_parameter *x = &a->parameter[code], *y = &b->parameter[code];
        assert_int_equal(x->form, y->form);
        assert_int_equal(x->n, y->n);
        for (uint32_t i = 0; i < x->n; i++) {
            const rp_value v = rp_parameter_value(x, i), w = rp_parameter_value(y, i);
            assert_true(v.u64 == w.u64 && v.i64 == w.i64 && v.exponent == w.exponent);
            assert_memory_equal(&v.f64, &w.f64, sizeof v.f64);
        }
    }
    assert_int_equal(a->apart, b->apart);
    assert_true(a->result.handle == b->result.handle && a->result.offset == b->result.offset);
    assert_true(a->result.length == b->result.length && a->stride == b->stride);
    assert_true(a->claim.requests == b->claim.requests && a->claim.bytes == b->claim.bytes);
}

/* Where parts begin; returns their number. at[n] is their end. */
static int bounds_of(const uint8_t *parts, size_t n, size_t at[])
{
    int k = 0;
    for (size_t i = 0; i < n; k++) {
        at[k] = i;
        i += 8 + parts[i + 4] + 256u * parts[i + 5];
    }
    at[k] = n;
    return k;
}

/* The parts of a copy that ends where memory of its own ends. */
static rp_err get(const uint8_t *parts, size_t n, rp_tagged *t, rp_fault *f)
{
    uint8_t *copy = malloc(n + 1);
    assert_non_null(copy);
    memcpy(copy + 1, parts, n);
    const rp_err err = rp_get_tagged(copy + 1, n, (uint32_t)n, t, f);
    free(copy);
    return err;
}

/* Cut anywhere, they are those parts that are still whole, or refused. */
static void check_cuts(const uint8_t *parts, size_t n, const size_t at[], int k)
{
    rp_tagged t;
    rp_fault f;
    for (size_t len = 0, whole = 0; len < n; len++) {
        whole += whole < (size_t)k && len == at[whole];
        const bool between = len == 0 || (whole && len == at[whole - 1]);
        assert_int_equal(get(parts, len, &t, &f), between ? RP_OK : RP_BAD_MESSAGE);
    }
    assert_int_equal(rp_get_tagged(parts, n - 1, (uint32_t)n, &t, &f), RP_BAD_MESSAGE);
    assert_string_equal(f.field, "tagged_len");
    assert_int_equal(f.limit, n - 1);
}

/* A part twice, or two in the other order. */
static void check_order(const uint8_t *parts, const size_t at[], int k)
{
    uint8_t other[2 * MAX_PARTS];
    rp_tagged t;
    rp_fault f;
    for (int i = 0; i < k; i++) {
        const size_t n = at[i + 1] - at[i];
        memcpy(other, parts + at[i], n);
        memcpy(other + n, parts + at[i], n);
        assert_int_equal(get(other, 2 * n, &t, &f), RP_BAD_MESSAGE);
        assert_string_equal(f.field, "parts");
        if (i == 0)
            continue;
        memcpy(other + n, parts + at[i - 1], at[i] - at[i - 1]);
        assert_int_equal(get(other, n + at[i] - at[i - 1], &t, &f), RP_BAD_MESSAGE);
        assert_string_equal(f.field, "parts");
    }
}

static void what_is_encoded_comes_back(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t parts[MAX_PARTS];
        size_t at[16];
        const rp_tagged t = some_tagged();
        rp_tagged back;
        rp_fault f = {0};
        const size_t n = rp_put_tagged(parts, &t);
        assert_int_equal(n, rp_tagged_size(&t));
        assert_int_equal(n % 8, 0);
        assert_int_equal(rp_get_tagged(parts, n, (uint32_t)n, &back, &f), RP_OK);
        assert_same(&t, &back);
        const int k = bounds_of(parts, n, at);
        if (n)
            check_cuts(parts, n, at, k);
        check_order(parts, at, k);
    }
}

static void every_unknown_code_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *field;
        size_t at; /* in a part */
        int end;
    } codes[] = {{"tag", 0, RP_TAG_END}, {"role", 1, RP_ROLE_END}, {"where", 2, RP_WHERE_END}, {"extent", 3, RP_EXTENT_END}};
    rp_tagged t = {.companion = {[RP_ROLE_MASK] = {.where = RP_WHERE_MESSAGE, .dtype = RP_U8, .extent = RP_EXTENT_ELEMENTS}}},
              back;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        for (int code = 0; code < 256; code++) {
            uint8_t parts[64];
            rp_fault f = {0};
            const size_t n = rp_put_tagged(parts, &t);
            parts[codes[i].at] = (uint8_t)code;
            const rp_err err = rp_get_tagged(parts, n, (uint32_t)n, &back, &f);
            if (code > 0 && code < codes[i].end)
                continue;
            assert_int_equal(err, RP_BAD_MESSAGE);
            assert_string_equal(f.field, codes[i].field);
            assert_int_equal(f.limit, codes[i].end - 1);
        }
}

/* Any byte may be wrong: what is accepted then is encoded in the same way. */
static void damaged_parts(void **state)
{
    (void)state;
    int accepted = 0, refused = 0;
    for (int round = 0; round < 20 * ROUNDS; round++) {
        uint8_t parts[MAX_PARTS], again[MAX_PARTS];
        const rp_tagged t = some_tagged();
        rp_tagged back;
        rp_fault f = {0};
        const size_t n = rp_put_tagged(parts, &t);
        if (!n)
            continue;
        parts[any(n)] ^= (uint8_t)(1u << any(8));
        if (get(parts, n, &back, &f)) {
            refused++;
            continue;
        }
        accepted++;
        rp_get_tagged(parts, n, (uint32_t)n, &back, NULL);
        assert_int_equal(rp_put_tagged(again, &back), n);
        assert_memory_equal(parts, again, n);
    }
    assert_true(accepted > ROUNDS && refused > ROUNDS);
}

static void parameters_by_operation(void **state)
{
    (void)state;
    const uint32_t q = RP_TAKE_Q, lo = RP_TAKE_LO;
    rp_fault f;
    assert_int_equal(rp_takes_compare("x", 0, 0, 0, &f), RP_OK);
    assert_int_equal(rp_takes_compare("x", q, q | lo, q, &f), RP_OK);
    assert_int_equal(rp_takes_compare("x", q | lo, q | lo, q, &f), RP_OK);
    assert_int_equal(rp_takes_compare("x", lo, q | lo, q, &f), RP_BAD_MESSAGE);
    assert_string_equal(f.field, "q");
    assert_string_equal(f.text, "q is missing, which x needs");
    assert_int_equal(rp_takes_compare("x", q | lo, q, q, &f), RP_BAD_MESSAGE);
    assert_string_equal(f.field, "lo");
    assert_string_equal(f.text, "lo does not apply to x");
    assert_int_equal(rp_takes_compare("x", RP_TAKE_DDOF, q, 0, &f), RP_BAD_MESSAGE);
    assert_string_equal(f.field, "ddof");
    for (int op = 1; rp_op_name(op)[0] != '?'; op++) {
        const bool quantile = op == RP_OP_QUANTILE, kth = op == RP_OP_KTH || rp_is_top(op), edges = op == RP_OP_HISTOGRAM;
        assert_int_equal(rp_takes_check(op, 0, NULL), quantile || kth || edges ? RP_BAD_MESSAGE : RP_OK);
        const bool spread = op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM || op == RP_OP_STATS || op == RP_OP_COV;
        assert_int_equal(rp_takes_check(op, RP_TAKE_DDOF, NULL), spread ? RP_OK : RP_BAD_MESSAGE);
        assert_int_equal(rp_takes_check(op, q, NULL), quantile ? RP_OK : RP_BAD_MESSAGE);
        assert_int_equal(rp_takes_check(op, q | RP_TAKE_METHOD, NULL), quantile ? RP_OK : RP_BAD_MESSAGE);
        assert_int_equal(rp_takes_check(op, RP_TAKE_K, NULL), kth ? RP_OK : RP_BAD_MESSAGE);
        assert_int_equal(rp_takes_check(op, RP_TAKE_EDGES, NULL), edges ? RP_OK : RP_BAD_MESSAGE);
    }
}

/* The parameters of order statistics: what they may be, and that the spec gets them. */
static rp_err order_of(rp_spec *s, int64_t digits, int64_t exponent, uint64_t method, rp_fault *f)
{
    static uint8_t q[2 * 16], word[8]; /* the spec points to them */
    rp_tagged t = {.parameter = {[RP_PARAMETER_Q] = {RP_FORM_DECIMAL, 2, q}, [RP_PARAMETER_METHOD] = {RP_FORM_U64, 1, word}}};
    rp_put_value(q, RP_FORM_DECIMAL, &(rp_value){.i64 = 5, .exponent = -1});
    rp_put_value(q + 16, RP_FORM_DECIMAL, &(rp_value){.i64 = digits, .exponent = exponent});
    rp_put_value(word, RP_FORM_U64, &(rp_value){.u64 = method});
    *s = (rp_spec){.op = RP_OP_QUANTILE, .dtype = RP_F32, .rows = 1, .row_len = 3};
    rp_tagged_take(s, &t);
    assert_int_equal(s->quantiles, 2);
    assert_ptr_equal(s->q, q);
    const rp_err err = rp_spec_check(s, f);
    return err ? err : rp_tagged_check(s, &t, false, f);
}

static void order_parameters(void **state)
{
    (void)state;
    static const struct {
        int64_t digits, exponent;
        uint64_t method;
        const char *field; /* NULL: right */
    } cases[] = {{0, 0, 0, NULL},
                 {0, 400, 1, NULL},
                 {1, 0, 12, NULL},
                 {10, -1, 0, NULL},
                 {100, -2, 0, NULL},
                 {1, -400, 0, NULL},
                 {INT64_MAX, -19, 0, NULL},
                 {INT64_MAX, -400, 0, NULL},
                 {1000000000000000000, -18, 0, NULL},
                 {1, 1, 0, "q"},
                 {11, -1, 0, "q"},
                 {2, 0, 0, "q"},
                 {-1, -5, 0, "q"},
                 {INT64_MIN, -19, 0, "q"},
                 {INT64_MAX, -18, 0, "q"},
                 {1000000000000000001, -18, 0, "q"},
                 {5, -1, 13, "method"},
                 {5, -1, UINT64_MAX, "method"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_spec s;
        rp_fault f = {0};
        const rp_err err = order_of(&s, cases[i].digits, cases[i].exponent, cases[i].method, &f);
        assert_int_equal(err, cases[i].field ? RP_BAD_MESSAGE : RP_OK);
        if (cases[i].field)
            assert_string_equal(f.field, cases[i].field);
        else
            assert_int_equal(s.method, cases[i].method);
    }
    uint8_t word[8];
    rp_put_value(word, RP_FORM_I64, &(rp_value){.i64 = -7});
    rp_spec s = {.op = RP_OP_KTH, .dtype = RP_F32, .rows = 1, .row_len = 3};
    const rp_tagged t = {.parameter = {[RP_PARAMETER_K] = {RP_FORM_I64, 1, word}}};
    rp_tagged_take(&s, &t);
    assert_int_equal(s.k, -7);
    assert_int_equal(rp_tagged_check(&s, &t, false, NULL), RP_OK);
    s.op = RP_OP_LARGEST;
    assert_int_equal(rp_tagged_check(&s, &t, false, NULL), RP_BAD_MESSAGE);
    rp_put_value(word, RP_FORM_I64, &(rp_value){.i64 = RP_MAX_TOP + 1});
    rp_tagged_take(&s, &t);
    assert_int_equal(rp_tagged_check(&s, &t, false, NULL), RP_TOO_LARGE);
}

static void companions_in_the_message(void **state)
{
    (void)state;
    const uint8_t data[64] = {0};
    const rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F32, .flags = RP_MASK | RP_OFFSETS, .rows = 2, .row_len = 7};
    rp_tagged t = {
        .companion = {[RP_ROLE_MASK] = {.where = RP_WHERE_MESSAGE}, [RP_ROLE_OFFSETS] = {.where = RP_WHERE_MESSAGE}}};
    rp_parts beside = {0};
    rp_fault f;
    assert_int_equal(rp_tagged_flags(&t), RP_MASK | RP_OFFSETS);
    assert_int_equal(rp_tagged_data(&s, &t, data, 31, &beside, &f), RP_OK);
    assert_ptr_equal(beside.mask, data);
    assert_ptr_equal(beside.offsets, data + 7);
    for (size_t n = 0; n < sizeof data; n++) {
        const rp_err err = rp_tagged_data(&s, &t, data, n, &beside, &f);
        assert_int_equal(err, n == 31 ? RP_OK : RP_SHAPE);
        if (err)
            assert_string_equal(f.field, n < 7 ? "mask" : n < 31 ? "offsets" : "data");
    }
    const rp_parts p = rp_spec_parts(&s, data + 40, &beside);
    assert_ptr_equal(p.elements, data + 40);
    assert_ptr_equal(p.mask, beside.mask);
    assert_ptr_equal(p.offsets, beside.offsets);
    assert_int_equal(rp_spec_match(&s, RP_MASK | RP_OFFSETS, 28, &f), RP_OK);
    assert_int_equal(rp_spec_match(&s, RP_OFFSETS, 35, &f), RP_OK);
    assert_int_equal(rp_spec_match(&s, RP_MASK, 52, &f), RP_OK);
    assert_int_equal(rp_spec_match(&s, 0, 59, &f), RP_OK);
    assert_int_equal(rp_spec_match(&s, RP_MASK | RP_OFFSETS, 35, &f), RP_SHAPE);
    t.companion[RP_ROLE_MASK].where = 0;
    assert_int_equal(rp_tagged_flags(&t), RP_OFFSETS);
}

static void large_results(void **state)
{
    (void)state;
    rp_spec s = {.op = RP_OP_STATS, .dtype = RP_U8, .rows = RP_MAX_COUNT / 96, .row_len = 1}, columns = s;
    rp_fault f;
    assert_int_equal(rp_spec_check_large(&s, &f), RP_OK);
    assert_int_equal(rp_spec_check(&s, &f), RP_TOO_LARGE);
    s.rows++;
    assert_int_equal(rp_spec_check_large(&s, &f), RP_TOO_LARGE);
    assert_int_equal(f.limit, RP_MAX_COUNT / 96);
    columns.flags = RP_COLUMNS;
    columns.planes = columns.row_len = UINT64_C(1) << 40;
    assert_int_equal(rp_spec_check_large(&columns, &f), RP_TOO_LARGE);
    assert_string_equal(f.field, "planes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_encoded_comes_back),
        cmocka_unit_test(every_unknown_code_is_named),
        cmocka_unit_test(damaged_parts),
        cmocka_unit_test(order_parameters),
        cmocka_unit_test(parameters_by_operation),
        cmocka_unit_test(companions_in_the_message),
        cmocka_unit_test(large_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
