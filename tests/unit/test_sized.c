/* Structs with a `size` between versions of the library: shorter ones of the past, longer ones of the future. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/reduce.h"
#include "client/sized.h"

/* As three versions have it: the second is this library's. */
typedef struct first {
    uint32_t size, a;
} first;
typedef struct second {
    uint32_t size, a;
    uint64_t b;
} second;
typedef struct third {
    uint32_t size, a;
    uint64_t b, c;
} third;

static int take(second *to, const void *given, rp_fault *f)
{
    memset(to, 0xa5, sizeof *to);
    return rc_take_sized(to, sizeof *to, _Alignof(first), given, sizeof(first), "given", f);
}

static void test_what_an_older_struct_lacks_is_0(void **state)
{
    (void)state;
    second got;
    rp_fault f;
    assert_int_equal(take(&got, &(first){sizeof(first), 7}, &f), 0);
    assert_true(got.a == 7 && got.b == 0);
    assert_int_equal(take(&got, &(second){sizeof(second), 7, 8}, &f), 0);
    assert_true(got.a == 7 && got.b == 8);
}

static void test_what_a_newer_struct_has_more_must_be_0(void **state)
{
    (void)state;
    second got;
    rp_fault f;
    third given = {sizeof given, 7, 8, 0};
    assert_int_equal(take(&got, &given, &f), 0);
    assert_true(got.a == 7 && got.b == 8);
    for (int bit = 0; bit < 64; bit++) {
        given.c = UINT64_C(1) << bit;
        assert_int_equal(take(&got, &given, &f), REDUCE_E_ARGUMENT);
        assert_string_equal(f.field, "given");
    }
}

static void test_other_sizes_are_refused(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 4, sizeof(first) - 1, RC_MAX_SIZED + 1, UINT32_MAX};
    second got;
    rp_fault f;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(take(&got, &(second){.size = sizes[i]}, &f), REDUCE_E_ARGUMENT);
        assert_string_equal(f.field, "given");
        assert_int_equal(rc_check_sized(&(second){.size = sizes[i]}, sizeof(first), "given", NULL), REDUCE_E_ARGUMENT);
    }
    for (uint32_t inside = 1; inside < _Alignof(first); inside++) /* of a field */
        assert_int_equal(take(&got, &(second){.size = sizeof(first) + inside}, &f), REDUCE_E_ARGUMENT);
    assert_int_equal(take(&got, NULL, &f), REDUCE_E_ARGUMENT);
    assert_int_equal(take(&got, &(second){.size = sizeof(first) + 4}, &f), 0); /* of a version between */
}

static void test_no_more_is_written_than_the_caller_has(void **state)
{
    (void)state;
    static const second mine = {sizeof mine, 7, 8};
    second older = {sizeof(first), 1, 2};
    third newer = {sizeof newer, 1, 2, 3};
    rc_give_sized(&older, &mine, sizeof mine);
    assert_true(older.size == sizeof(first) && older.a == 7 && older.b == 2);
    rc_give_sized(&newer, &mine, sizeof mine);
    assert_true(newer.size == sizeof newer && newer.a == 7 && newer.b == 8 && newer.c == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_an_older_struct_lacks_is_0),
        cmocka_unit_test(test_what_a_newer_struct_has_more_must_be_0),
        cmocka_unit_test(test_other_sizes_are_refused),
        cmocka_unit_test(test_no_more_is_written_than_the_caller_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
