/* The processors that a process may use: a container's quota is one of its group's, or of a group above. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/cpu/threads/here.h"

static char folder[64];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int cores_of(const char *membership)
{
    char path[256];
    put("self", membership);
    snprintf(path, sizeof path, "%s/self", folder);
    return rk_group_cores(path, folder);
}

static int set_up(void **state)
{
    (void)state;
    char path[256];
    strcpy(folder, "/tmp/test-cores-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    static const char *const groups[] = {"a", "a/b", "a/b/c", "free"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, groups[i]);
        if (mkdir(path, 0700))
            return -1;
    }
    put("a/cpu.max", "400000 100000\n");
    put("a/b/cpu.max", "max 100000\n");
    put("a/b/c/cpu.max", "250000 100000\n");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void the_least_of_all_groups_counts(void **state)
{
    (void)state;
    assert_int_equal(cores_of("0::/a/b/c\n"), 3);
    assert_int_equal(cores_of("0::/a/b\n"), 4);
    assert_int_equal(cores_of("0::/a\n"), 4);
    assert_int_equal(cores_of("0::/free\n"), INT_MAX);
    assert_int_equal(cores_of("12:cpu:/a\n0::/\n"), INT_MAX); /* groups of version 1 are not read */
    assert_int_equal(cores_of("12:cpu:/free\n0::/a/b/c\n"), 3);
    put("cpu.max", "150000 100000\n"); /* of a container: its group is the root that it sees */
    assert_int_equal(cores_of("0::/\n"), 2);
    assert_int_equal(cores_of("0::/a/b/c\n"), 2);
}

static void other_words_are_no_limit(void **state)
{
    (void)state;
    static const char *const words[] = {"", "max\n", "100000\n", "100000 0\n", "x y\n"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        put("cpu.max", words[i]);
        assert_int_equal(cores_of("0::/\n"), INT_MAX);
    }
    put("cpu.max", "1 100000\n");
    assert_int_equal(cores_of("0::/\n"), 1);
    put("cpu.max", "99999999999999999 1\n");
    assert_int_equal(cores_of("0::/\n"), INT_MAX);
    assert_int_equal(rk_group_cores("/nonexistent-file", folder), INT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_of_all_groups_counts),
                                       cmocka_unit_test(other_words_are_no_limit)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
