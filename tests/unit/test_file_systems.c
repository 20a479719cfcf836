/* Which file systems are read for clients, by the setting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "daemon/base/file_systems.h"

static void expect(uint64_t number, const char *name, int most)
{
    for (int from = RD_FILES_LOCAL; from <= RD_FILES_ANY; from++) {
        rp_fault f;
        rp_err err = rd_file_system_check(number, (rd_files_from)from, &f);
        assert_int_equal(err, from >= most ? RP_OK : RP_IO);
        if (!err)
            continue;
        assert_string_equal(f.field, "file");
        assert_int_equal(f.limit, number);
        assert_non_null(strstr(f.text, name));
    }
}

static void disks_and_memory_are_always_read(void **state)
{
    (void)state;
    expect(0xef53, "ext4", RD_FILES_LOCAL);
    expect(0x01021994, "tmpfs", RD_FILES_LOCAL);
}

static void networks_and_users_only_if_the_setting_says_so(void **state)
{
    (void)state;
    expect(0x6969, "nfs", RD_FILES_NETWORK);
    expect(0x65735546, "fuse", RD_FILES_ANY);
    expect(0x12345678, "unknown", RD_FILES_ANY);
}

static void the_kernels_own_never(void **state)
{
    (void)state;
    expect(0x9fa0, "proc", RD_FILES_ANY + 1);
    expect(0x62656572, "sysfs", RD_FILES_ANY + 1);
    expect(0x63677270, "cgroup2", RD_FILES_ANY + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(disks_and_memory_are_always_read),
                                       cmocka_unit_test(networks_and_users_only_if_the_setting_says_so),
                                       cmocka_unit_test(the_kernels_own_never)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
