/* The places of a user's own daemon: client and daemon use the same ones, and none that other users may write to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/discover.h"
#include "daemon/base/config.h"
#include "daemon/base/paths.h"

/* Users of this process: other runs of this test make and remove directories of theirs in /tmp at the same time. Nobody else
 * uses these numbers (systemd's list of ranges). */
enum { FIRST_USER = 60578, PAIRS = 303 };
static uid_t user, other;

static char dir[64], own[RC_MAX_URL], fallback[RC_MAX_URL];

static int make_directory(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/reduced-places-XXXXXX");
    return mkdtemp(dir) && chmod(dir, 0711) == 0 ? 0 : -1;
}

static int remove_directory(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s /tmp/reduced-%u", dir, user);
    return system(command);
}

/* The runtime directory of the test of that name; `own` is the socket in it, `fallback` the one in /tmp. */
static void set_runtime(const char *name, mode_t mode, uid_t owner)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
    assert_int_equal(chown(path, owner, owner), 0);
    snprintf(own, sizeof own, "ipc://%s/reduced.sock", path);
    snprintf(fallback, sizeof fallback, "ipc:///tmp/reduced-%u/reduced.sock", user);
    setenv("XDG_RUNTIME_DIR", path, 1);
}

static void both_look_in(const char *url)
{
    rp_fault f;
    rc_urls u;
    char daemons[RD_MAX_URL];
    assert_int_equal(seteuid(user), 0);
    int found = rc_discover(&u, NULL, &f);
    bool fits = rd_default_url(daemons, sizeof daemons);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(found, 0);
    assert_true(u.own && fits);
    assert_string_equal(u.url[0], url);
    assert_string_equal(daemons, url);
}

static void a_runtime_directory_of_ones_own_is_taken(void **state)
{
    (void)state;
    set_runtime("own", 0700, user);
    both_look_in(own);
}

static void that_of_another_user_is_not(void **state)
{
    (void)state;
    set_runtime("other", 0700, other);
    both_look_in(fallback);
}

static void one_that_others_may_enter_is_not(void **state)
{
    (void)state;
    set_runtime("wide", 0710, user);
    both_look_in(fallback);
}

static void a_link_is_not(void **state)
{
    char from[128];
    (void)state;
    set_runtime("linked", 0700, user);
    snprintf(from, sizeof from, "%s/link", dir);
    assert_int_equal(symlink("linked", from), 0);
    setenv("XDG_RUNTIME_DIR", from, 1);
    both_look_in(fallback);
}

static void one_that_is_missing_is_not(void **state)
{
    (void)state;
    set_runtime("gone", 0700, user);
    assert_int_equal(rmdir(getenv("XDG_RUNTIME_DIR")), 0);
    both_look_in(fallback);
}

static void a_relative_one_is_not(void **state)
{
    (void)state;
    set_runtime("relative", 0700, user);
    assert_int_equal(chdir(dir), 0);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    both_look_in(fallback);
}

/* A URL that was given, or is in the environment, is what its giver says. */
static void a_given_url_is_taken_alone(void **state)
{
    rp_fault f;
    rc_urls u;
    (void)state;
    set_runtime("given", 0777, other);
    assert_int_equal(rc_discover(&u, "ipc:///nonexistent/s", &f), 0);
    assert_int_equal(u.n, 1);
    assert_string_equal(u.url[0], "ipc:///nonexistent/s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_runtime_directory_of_ones_own_is_taken),
        cmocka_unit_test(that_of_another_user_is_not),
        cmocka_unit_test(one_that_others_may_enter_is_not),
        cmocka_unit_test(a_link_is_not),
        cmocka_unit_test(one_that_is_missing_is_not),
        cmocka_unit_test(a_relative_one_is_not),
        cmocka_unit_test(a_given_url_is_taken_alone),
    };
    unsetenv("REDUCED_URL");
    if (geteuid() != 0) {
        puts("needs root to become another user");
        return 77;
    }
    user = FIRST_USER + (uid_t)getpid() % PAIRS * 2;
    other = user + 1;
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
