/* .npy headers: what numpy writes is read, everything else is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/ctl/ctl.h"
#include "proto/limits.h"

_Static_assert(CTL_MAX_COUNT == RP_MAX_COUNT, "reducectl, which knows the public header alone, repeats the protocol's cap");

/* A header of `version` around a dict; returns its length. */
static size_t wrap(uint8_t *out, int version, const char *dict)
{
    size_t n = strlen(dict), fixed = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (uint8_t)version;
    out[7] = 0;
    for (size_t i = 8; i < fixed; i++)
        out[i] = (uint8_t)(n >> 8 * (i - 8));
    memcpy(out + fixed, dict, n);
    return fixed + n;
}

static int parse(const char *dict, int dtype, ctl_npy *npy)
{
    uint8_t header[2048];
    char why[CTL_WHY] = "";
    int err = ctl_npy_parse(header, wrap(header, 1, dict), dtype, npy, why);
    assert_int_equal(err != 0, why[0] != 0 && err != 0);
    return err;
}

static void reads_what_numpy_writes(void **state)
{
    (void)state;
    ctl_npy npy;
    assert_int_equal(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n", 0, &npy), 0);
    assert_int_equal(npy.dtype, REDUCE_F32);
    assert_int_equal(npy.count, 12);
    assert_int_equal(npy.dims, 2);
    assert_int_equal(npy.shape[0], 3);
    assert_int_equal(npy.shape[1], 4);
    assert_false(npy.fortran);
    assert_int_equal(parse("{'descr': '|i1', 'fortran_order': True, 'shape': (7,), }\n", 0, &npy), 0);
    assert_int_equal(npy.dtype, REDUCE_I8);
    assert_int_equal(npy.count, 7);
    assert_true(npy.fortran);
    assert_int_equal(parse("{'descr': '<u8', 'fortran_order': False, 'shape': (), }\n", 0, &npy), 0);
    assert_int_equal(npy.count, 1);
    assert_int_equal(npy.dims, 0);
    assert_int_equal(parse("{'shape': (0, 18446744073709551615, 5), 'descr': '|b1', 'fortran_order': False}", 0, &npy), 0);
    assert_int_equal(npy.count, 0);
    assert_int_equal(npy.dtype, REDUCE_BOOL);
    assert_int_equal(parse("{'descr': '|V2', 'fortran_order': False, 'shape': (2,), }", REDUCE_BF16, &npy), 0);
    assert_int_equal(npy.dtype, REDUCE_BF16);
}

static void versions(void **state)
{
    (void)state;
    uint8_t header[256];
    char why[CTL_WHY];
    ctl_npy npy;
    const char *dict = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}\n";
    for (int v = 1; v <= 3; v++) {
        size_t n = wrap(header, v, dict);
        assert_int_equal(ctl_npy_data_offset(header, n, why), n);
        assert_int_equal(ctl_npy_parse(header, n, 0, &npy, why), 0);
        for (size_t cut = 0; cut < n; cut++)
            assert_int_equal(ctl_npy_parse(header, cut, 0, &npy, why), REDUCE_E_BAD_MESSAGE);
    }
    wrap(header, 4, dict);
    assert_int_equal(ctl_npy_data_offset(header, sizeof header, why), 0);
    memset(header + 8, 0xff, 4);
    header[6] = 2;
    assert_int_equal(ctl_npy_data_offset(header, 12, why), 0);
    assert_non_null(strstr(why, "limit"));
}

static void malformed(void **state)
{
    (void)state;
    static const char *const dicts[] = {
        "",
        "{}",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
        "{'descr': '<f4\\', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<fffffffffffffffffffffffffffffffffffffffffffffffff4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr' '<f4', 'fortran_order': False, 'shape': (3,)}",
        "['descr']"};
    ctl_npy npy;
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++)
        assert_int_equal(parse(dicts[i], 0, &npy), REDUCE_E_BAD_MESSAGE);
}

static void types(void **state)
{
    (void)state;
    uint8_t header[256];
    char why[CTL_WHY], dict[128];
    ctl_npy npy;
    static const char *const refused[] = {"<c8", "<c16", "<f16", "<U5", "|S3", "|O", "<M8[ns]", "|V2", ">c8", "f4", ""};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (2,)}", refused[i]);
        assert_int_equal(ctl_npy_parse(header, wrap(header, 1, dict), 0, &npy, why), REDUCE_E_TYPE);
    }
    const char *structured = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}";
    assert_int_equal(ctl_npy_parse(header, wrap(header, 1, structured), 0, &npy, why), REDUCE_E_TYPE);
    assert_int_equal(parse("{'descr': '>u1', 'fortran_order': False, 'shape': (2,)}", 0, &npy), 0);
    assert_false(npy.swapped); /* one byte has no order */
    assert_int_equal(parse("{'descr': '>i2', 'fortran_order': False, 'shape': (2,)}", 0, &npy), 0);
    assert_true(npy.swapped && npy.dtype == REDUCE_I16);
    assert_int_equal(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", REDUCE_F32, &npy), 0);
    assert_int_equal(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", REDUCE_F64, &npy), REDUCE_E_TYPE);
}

/* What comes after a header that is fine finds `why` empty. */
static void success_says_nothing(void **state)
{
    (void)state;
    uint8_t header[256];
    char why[CTL_WHY] = "";
    ctl_npy npy;
    const char *dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    assert_int_equal(ctl_npy_parse(header, wrap(header, 1, dict), 0, &npy, why), 0);
    assert_string_equal(why, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_what_numpy_writes), cmocka_unit_test(versions),
                                       cmocka_unit_test(malformed), cmocka_unit_test(types),
                                       cmocka_unit_test(success_says_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
