/* Names of users by their number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/login.h"

static char path[] = "/tmp/rd-login-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    FILE *f = fdopen(mkstemp(path), "w");
    assert_non_null(f);
    fputs("root:x:0:0:root:/root:/bin/bash\n"
          "\n# not a user\n"
          "alice:x:1000:1000:Alice,,,:/:/bin/sh\n"
          "+nis:x:1001:1001::/:/bin/sh\n"
          "also-alice:x:1000:1000::/:/bin/sh\n"
          "a123456789012345678901234567890123456789:x:1002:1002::/:/bin/sh\n"
          "half:x:\n"
          "bob:x:1003:1003::/:/bin/sh",
          f);
    return fclose(f);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static const char *name_of(const char *uid)
{
    static char out[RD_LOGIN];
    rd_login_of(path, uid, out);
    return out;
}

static void users_of_the_file_have_names(void **state)
{
    (void)state;
    assert_string_equal(name_of("0"), "root");
    assert_string_equal(name_of("1000"), "alice");
    assert_string_equal(name_of("1003"), "bob");
    assert_string_equal(name_of("1002"), "a1234567890123456789012345678901");
}

static void others_have_none(void **state)
{
    (void)state;
    assert_string_equal(name_of("1001"), "");
    assert_string_equal(name_of("4294967295"), "");
    assert_string_equal(name_of("other"), "");
    assert_string_equal(name_of("tls:alice"), "");
    assert_string_equal(name_of("0x"), "");
    assert_string_equal(name_of(""), "");
    char out[RD_LOGIN] = "x";
    rd_login_of("/nowhere", "0", out);
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(users_of_the_file_have_names),
        cmocka_unit_test(others_have_none),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
