/* Strings of .npy headers at the edge of what is kept of them: for a sanitizer to see a byte too many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "client/ctl/ctl.h"

/* Parse the header of version 1 around a dict that names `descr` and has `key` besides. */
static int parse(const char *descr, const char *key, char why[CTL_WHY])
{
    uint8_t header[1024] = "\x93NUMPY\1";
    ctl_npy npy;
    int n = snprintf((char *)header + 10, sizeof header - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), %s}",
                     descr, key);
    header[8] = (uint8_t)n;
    header[9] = (uint8_t)(n >> 8);
    why[0] = 0;
    return ctl_npy_parse(header, (size_t)n + 10, 0, &npy, why);
}

static void strings_of_every_length(void **state)
{
    (void)state;
    char text[200], key[220], why[CTL_WHY];
    for (size_t n = 0; n < sizeof text; n++) {
        memset(text, 'x', n);
        text[n] = 0;
        assert_int_not_equal(parse(text, "", why), 0);
        assert_true(why[0] != 0);
        snprintf(key, sizeof key, "'%s': True", text);
        assert_int_not_equal(parse("<f4", key, why), 0);
        assert_true(why[0] != 0);
    }
    assert_int_equal(parse("<f4", "", why), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strings_of_every_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
