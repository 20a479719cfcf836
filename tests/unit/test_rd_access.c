/* Permission to use a socket: lists of the config, and members of groups from a database of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/access.h"

/* ---- the database: instead of libc's ---- */
static struct passwd users[] = {{.pw_name = (char *)"alice", .pw_uid = 1001}, {.pw_name = (char *)"bob", .pw_uid = 1002}};
static char *members[] = {(char *)"bob", (char *)"gone", NULL}, *nobody[] = {NULL};
static struct group groups[] = {{.gr_name = (char *)"gpu", .gr_gid = 70, .gr_mem = members},
                                {.gr_name = (char *)"empty", .gr_gid = 71, .gr_mem = nobody}};

struct passwd *getpwnam(const char *name)
{
    for (size_t i = 0; i < 2; i++)
        if (strcmp(users[i].pw_name, name) == 0)
            return &users[i];
    return NULL;
}

struct group *getgrnam(const char *name)
{
    for (size_t i = 0; i < 2; i++)
        if (strcmp(groups[i].gr_name, name) == 0)
            return &groups[i];
    return NULL;
}

struct group *getgrgid(gid_t gid) { return gid == 70 || gid == 71 ? &groups[gid - 70] : NULL; }

/* ---- tests ---- */
static void ids_are_names_or_numbers(void **state)
{
    (void)state;
    rd_ids ids = {.n = 0};
    assert_null(rd_ids_add(&ids, RD_USER_ID, "alice"));
    assert_null(rd_ids_add(&ids, RD_USER_ID, "0"));
    assert_null(rd_ids_add(&ids, RD_USER_ID, "4294967294"));
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.id[0], 1001);
    assert_int_equal(ids.id[2], 4294967294u);
    static const char *const bad[] = {"", "4294967295", "99999999999999999999", "12x", "-1", "carol", "gpu"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_non_null(rd_ids_add(&ids, RD_USER_ID, bad[i]));
    assert_non_null(rd_ids_add(&ids, RD_GROUP_ID, "alice"));
    assert_null(rd_ids_add(&ids, RD_GROUP_ID, "gpu"));
    while (ids.n < RD_MAX_IDS)
        assert_null(rd_ids_add(&ids, RD_USER_ID, "1"));
    assert_string_equal(rd_ids_add(&ids, RD_USER_ID, "1"), "at most 32 are allowed");
}

static void an_empty_list_lets_everybody_in(void **state)
{
    (void)state;
    rd_gate g;
    assert_true(rd_gate_init(&g, &(rd_allow){.users.n = 0}));
    assert_true(rd_gate_open(&g));
    assert_true(rd_gate_lets(&g, 0, 0));
    assert_true(rd_gate_lets(&g, 12345, 12345));
    rd_gate_fini(&g);
}

static void a_list_lets_in_whom_it_names_alone(void **state)
{
    (void)state;
    rd_gate g;
    assert_true(rd_gate_init(&g, &(rd_allow){.users = {.id = {1001, 5}, .n = 2}}));
    assert_false(rd_gate_open(&g));
    assert_true(rd_gate_lets(&g, 1001, 9));
    assert_true(rd_gate_lets(&g, 5, 9));
    assert_false(rd_gate_lets(&g, 0, 0));
    assert_false(rd_gate_lets(&g, 9, 1001)); /* a group with the number of a user */
    rd_gate_fini(&g);
}

static void a_group_lets_in_its_members(void **state)
{
    (void)state;
    rd_gate g;
    assert_true(rd_gate_init(&g, &(rd_allow){.groups = {.id = {70, 71, 99}, .n = 3}}));
    assert_true(rd_gate_lets(&g, 5, 70));    /* its primary group */
    assert_true(rd_gate_lets(&g, 1002, 9));  /* bob, by the database */
    assert_false(rd_gate_lets(&g, 1001, 9)); /* alice is in none */
    assert_true(rd_gate_lets(&g, 1001, 99)); /* a group that the database does not know */
    assert_false(rd_gate_lets(&g, 70, 9));
    rd_gate_fini(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_names_or_numbers),
        cmocka_unit_test(an_empty_list_lets_everybody_in),
        cmocka_unit_test(a_list_lets_in_whom_it_names_alone),
        cmocka_unit_test(a_group_lets_in_its_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
