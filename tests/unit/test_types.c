/* The tables of types.def: names there and back, and PROTOCOL.md's tables say the same. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/reduce.h"
#include "kernels/exact/layout.h"
#include "kernels/exact/op.h"
#include "proto/types.h"

static void names_there_and_back(void **state)
{
    (void)state;
#define X(NAME, name, code, help, ...)                   \
    assert_string_equal(rp_op_name(RP_OP_##NAME), name); \
    assert_string_equal(rp_op_help(RP_OP_##NAME), help); \
    assert_int_equal(rp_op_parse(name), code);
    RP_OPS(X)
#undef X
#define X(NAME, name, code, bytes, cls)                  \
    assert_string_equal(rp_dtype_name(RP_##NAME), name); \
    assert_int_equal(rp_dtype_parse(name), code);        \
    assert_int_equal(rp_dtype_size(RP_##NAME), bytes);   \
    assert_int_equal(rp_dtype_class(RP_##NAME), RP_CLASS_##cls);
    RP_DTYPES(X)
#undef X
#define X(NAME, name, code, help)                          \
    assert_string_equal(rp_nan_name(RP_NAN_##NAME), name); \
    assert_int_equal(rp_nan_parse(name), code);
    RP_NANS(X)
#undef X
#define X(NAME, name, code) assert_string_equal(rp_msg_name(RP_MSG_##NAME), name);
    RP_MSGS(X)
#undef X
#define X(NAME, code, help)                             \
    assert_string_equal(rp_err_name(RP_##NAME), #NAME); \
    assert_string_equal(rp_err_help(RP_##NAME), help);
    RP_ERRORS(X)
#undef X
#define X(NAME, name, code) assert_string_equal(rp_backend_name(RP_BACKEND_##NAME), name);
    RP_BACKENDS(X)
#undef X
#define X(NAME, name, code) assert_string_equal(rp_path_name(RP_PATH_##NAME), name);
    RP_PATHS(X)
#undef X
#define X(NAME, name, code)                                          \
    assert_string_equal(rp_priority_name(RP_PRIORITY_##NAME), name); \
    assert_int_equal(rp_priority_parse(name), code);
    RP_PRIORITIES(X)
#undef X
}

static void numbers_are_those_of_the_rows(void **state)
{
    (void)state;
#define X(NAME, code, sum, squares, others, of, family, joins, specials, magnitudes) \
    assert_int_equal(rk_sum_limbs(code), sum);                                       \
    assert_int_equal(rk_square_limbs(code), squares);                                \
    assert_int_equal(rk_other_limbs(code), others);                                  \
    assert_int_equal(rk_family_of(code), RK_##family);                               \
    assert_int_equal(rk_special_bits_of(code), specials);
    RP_LAYOUTS(X)
#undef X
#define X(NAME, name, code, help, value, narrow, wide, integer, finish, ...) \
    assert_int_equal(rk_finisher_of(code), RK_FINISH_##finish);
    RP_OPS(X)
#undef X
}

static void unknown_codes_and_names(void **state)
{
    (void)state;
    const int codes[] = {-1, 99, 255, 256 + 1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        int c = codes[i];
        assert_string_equal(rp_op_name(c), "?");
        assert_string_equal(rp_op_help(c), "?");
        assert_string_equal(rp_dtype_name(c), "?");
        assert_string_equal(rp_nan_name(c), "?");
        assert_string_equal(rp_msg_name(c), "?");
        assert_string_equal(rp_err_name(c), "?");
        assert_string_equal(rp_backend_name(c), "?");
        assert_string_equal(rp_path_name(c), "?");
        assert_string_equal(rp_priority_name(c), "?");
        assert_int_equal(rp_dtype_size(c), 0);
        assert_int_equal(rp_dtype_class(c), RP_CLASS_NONE);
    }
    assert_string_equal(rp_op_name(0), "?");
    assert_string_equal(rp_dtype_name(0), "?");
    const char *names[] = {NULL, "", "Sum", "sum ", "su", "float32", "?"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(rp_op_parse(names[i]), 0);
        assert_int_equal(rp_dtype_parse(names[i]), 0);
        assert_int_equal(rp_nan_parse(names[i]), -1);
        assert_int_equal(rp_priority_parse(names[i]), -1);
    }
}

/* With UndefinedBehaviorSanitizer, too: INT_MIN has no negative. */
static void the_library_names_any_number(void **state)
{
    (void)state;
    static const int none[] = {INT_MIN, -1000, 1, INT_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_string_equal(reduce_errname(none[i]), "?");
        assert_string_equal(reduce_strerror(none[i]), "?");
    }
    assert_string_equal(reduce_errname(REDUCE_E_SHAPE), "SHAPE");
    assert_string_equal(reduce_errname(REDUCE_E_START), "START");
    assert_string_equal(reduce_errname(REDUCE_E_INTERRUPTED), "INTERRUPTED");
}

static void faults_are_cut_and_null_is_fine(void **state)
{
    (void)state;
    char lengthy[400];
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = 0;
    rp_fault f;
    memset(&f, 0xff, sizeof f);
    assert_int_equal(rp_fail(&f, RP_BUSY, lengthy, 7, "%s", lengthy), RP_BUSY);
    assert_int_equal(strlen(f.field), RP_MAX_FIELD);
    assert_int_equal(strlen(f.text), RP_MAX_TEXT);
    assert_int_equal(f.limit, 7);
    assert_true(f.index == RP_NO_INDEX && f.value[0] == 0 && f.value[1] == 0 && f.retry_ms == 0);
    assert_int_equal(rp_fail(NULL, RP_IO, NULL, 0, "nobody looks"), RP_IO);
    assert_int_equal(rp_fail(&f, RP_IO, NULL, 0, "no field"), RP_IO);
    assert_string_equal(f.field, "");
}

/* ---- PROTOCOL.md ---- */
static char *page;

static int read_page(void **state)
{
    (void)state;
    FILE *in = fopen("proto/PROTOCOL.md", "rb");
    page = calloc(1, 1 << 17);
    if (!in || !page || fread(page, 1, (1 << 17) - 1, in) == 0)
        return -1;
    fclose(in);
    return 0;
}

static int drop_page(void **state)
{
    (void)state;
    free(page);
    return 0;
}

/* The table whose head line is `head`: the text after its rule. */
static const char *table(const char *head)
{
    const char *p = strstr(page, head);
    if (!p)
        fail_msg("PROTOCOL.md has no table '%s'", head);
    p = strchr(p + strlen(head), '\n') + 1; /* the rule */
    return p;
}

static int rows_of(const char *t)
{
    int n = 0;
    while (*t == '|') {
        n++;
        t = strchr(t, '\n') + 1;
    }
    return n;
}

static void has_row(const char *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void has_row(const char *t, const char *fmt, ...)
{
    char row[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(row, sizeof row, fmt, ap);
    va_end(ap);
    for (; *t == '|'; t = strchr(t, '\n') + 1)
        if (strncmp(t, row, strlen(row)) == 0)
            return;
    fail_msg("PROTOCOL.md lacks the row '%s'", row);
}

static void protocol_page_has_the_codes(void **state)
{
    (void)state;
    const char *t = table("| message | code |\n");
    int n = 0;
#define X(NAME, name, code) has_row(t, "| %s | %d |\n", name, code), n++;
    RP_MSGS(X)
    assert_int_equal(rows_of(t), n);
    t = table("| backend | code |\n"), n = 0;
    RP_BACKENDS(X)
    assert_int_equal(rows_of(t), n);
    t = table("| path | code |\n"), n = 0;
    RP_PATHS(X)
    assert_int_equal(rows_of(t), n);
    t = table("| priority | code |\n"), n = 0;
    RP_PRIORITIES(X)
    assert_int_equal(rows_of(t), n);
#undef X
#define X(NAME, name, code, help, ...) has_row(t, "| %s | %d | %s |\n", name, code, help), n++;
    t = table("| op | code | value |\n"), n = 0;
    RP_OPS(X)
    assert_int_equal(rows_of(t), n);
    t = table("| nan policy | code | meaning |\n"), n = 0;
    RP_NANS(X)
    assert_int_equal(rows_of(t), n);
#undef X
#define X(NAME, code, help) has_row(t, "| %s | %d | %s |\n", #NAME, code, help), n++;
    t = table("| error | code | meaning |\n"), n = 0;
    RP_ERRORS(X)
    assert_int_equal(rows_of(t), n);
#undef X
#define SIGNED "signed"
#define UNSIGNED "unsigned"
#define FLOAT "float"
#define X(NAME, name, code, bytes, cls) has_row(t, "| %s | %d | %d | %s |\n", name, code, bytes, cls), n++;
    t = table("| dtype | code | bytes | class |\n"), n = 0;
    RP_DTYPES(X)
    assert_int_equal(rows_of(t), n);
#undef X
}

static void protocol_page_has_the_layouts_and_limits(void **state)
{
    (void)state;
    const char *t = table("| layout | code | of | L | bytes | limbs |\n");
    int n = 0;
#define X(NAME, code, sum, squares, others, of, ...) \
    has_row(t, "| %s | %d | %s | %d | %zu |", #NAME, code, of, sum + squares + others, rp_state_size(code)), n++;
    RP_LAYOUTS(X)
#undef X
    assert_int_equal(rows_of(t), n);
    t = table("| flag | value | meaning |\n");
    assert_int_equal(rows_of(t), __builtin_popcount(RP_SPEC_FLAGS));
    has_row(t, "| STATES_IN | %d |", RP_STATES_IN);
    has_row(t, "| STATES_OUT | %d |", RP_STATES_OUT);
    has_row(t, "| WRAP | %d |", RP_WRAP);
    has_row(t, "| INITIAL | %d |", RP_INITIAL);
    has_row(t, "| MASK | %d |", RP_MASK);
    has_row(t, "| OFFSETS | %d |", RP_OFFSETS);
    has_row(t, "| COLUMNS | %d |", RP_COLUMNS);
    has_row(t, "| KEYS | %d |", RP_KEYS);
    has_row(t, "| DROP_OUTSIDE | %d |", RP_DROP_OUTSIDE);
    t = table("| what | value | why |\n");
    has_row(t, "| element bytes in one message, and cells of one reply (`max_data`) | %u |", RP_MAX_DATA);
    has_row(t, "| body | %u |", RP_MAX_BODY);
    has_row(t, "| states of the groups of one request by key | %u |", RP_MAX_GROUPS_BYTES);
    has_row(t, "| states of the groups of a stream | %u |", RP_MAX_STREAM_GROUPS_BYTES);
    has_row(t, "| frame | %u |", RP_MAX_BODY + 40 + 4);
    has_row(t, "| chunk hint | %u |", RP_CHUNK_HINT);
    has_row(t, "| name, server name | %u |", RP_MAX_NAME);
    has_row(t, "| name of resident data | %u |", RP_MAX_NAME);
    has_row(t, "| resident arrays of one user; of all | %u; %u |", RP_MAX_USER_RESIDENTS, RP_MAX_RESIDENTS);
    has_row(t, "| time to live | %u ms |", RP_MAX_TTL_MS);
    has_row(t, "| ping | %u |", RP_MAX_PING);
    has_row(t, "| error field; text | %u; %u |", RP_MAX_FIELD, RP_MAX_TEXT);
    has_row(t, "| entries of a query; key; value | %u; %u; %u |", RP_MAX_ENTRIES, RP_MAX_KEY, RP_MAX_VALUE);
    has_row(t, "| requests of a session in flight | %u |", RP_MAX_INFLIGHT);
    has_row(t, "| streams of a session | %u |", RP_MAX_STREAMS);
    has_row(t, "| separate pieces of a stream | %u |", RP_MAX_EXTENTS);
    has_row(t, "| sessions | %u |", RP_MAX_SESSIONS);
    has_row(t, "| deadline | %u ms |", RP_MAX_DEADLINE_MS);
    assert_true(RP_MAX_COUNT == UINT64_C(1) << 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_there_and_back),
        cmocka_unit_test(numbers_are_those_of_the_rows),
        cmocka_unit_test(unknown_codes_and_names),
        cmocka_unit_test(the_library_names_any_number),
        cmocka_unit_test(faults_are_cut_and_null_is_fine),
        cmocka_unit_test(protocol_page_has_the_codes),
        cmocka_unit_test(protocol_page_has_the_layouts_and_limits),
    };
    return cmocka_run_group_tests(tests, read_page, drop_page);
}
