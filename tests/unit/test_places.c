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
#include "daemon/base/lock.h"
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

/* The daemon's own directory in /tmp, where any user may have made that name before. */
static bool prepares(const char *tmp)
{
    char socket[160], why[RD_MAX_WHY];
    snprintf(socket, sizeof socket, "%s/reduced.sock", tmp);
    assert_int_equal(seteuid(user), 0);
    bool right = rd_prepare_directory(socket, why, sizeof why);
    assert_int_equal(seteuid(0), 0);
    assert_true(right || strstr(why, "must be a directory of this user with mode 0700"));
    return right;
}

static void a_daemon_uses_no_directory_of_another_user(void **state)
{
    char tmp[64];
    (void)state;
    snprintf(tmp, sizeof tmp, "/tmp/reduced-%u", user);
    rmdir(tmp);
    assert_true(prepares(tmp)); /* it makes it */
    assert_true(prepares(tmp));
    assert_int_equal(chmod(tmp, 0750), 0);
    assert_false(prepares(tmp));
    assert_int_equal(chmod(tmp, 0700), 0);
    assert_int_equal(chown(tmp, other, other), 0);
    assert_false(prepares(tmp));
    assert_int_equal(rmdir(tmp), 0);
    set_runtime("target", 0700, user);
    assert_int_equal(symlink(getenv("XDG_RUNTIME_DIR"), tmp), 0);
    assert_false(prepares(tmp));
    assert_int_equal(unlink(tmp), 0);
}

/* Where the lock or the socket belongs. What the link leads to stays as it is. */
static void links_in_the_way_are_refused(void **state)
{
    char path[128], lock[160], aim[160], why[RD_MAX_WHY], text[8] = "";
    int fd;
    (void)state;
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(lock, sizeof lock, "%s.lock", path);
    snprintf(aim, sizeof aim, "%s/aim", dir);
    FILE *f = fopen(aim, "w");
    assert_non_null(f);
    fputs("mine", f);
    fclose(f);
    for (int i = 0; i < 2; i++) {
        const char *link = i ? path : lock;
        unlink(lock);
        assert_int_equal(symlink(aim, link), 0);
        assert_int_equal(rd_lock_socket(path, &fd, why, sizeof why), RD_LOCK_FAILED);
        assert_non_null(strstr(why, "is a symbolic link, refused"));
        assert_int_equal(fd, -1);
        assert_int_equal(unlink(link), 0);
    }
    f = fopen(aim, "r");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, sizeof text, f), 4);
    fclose(f);
    assert_string_equal(text, "mine");
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
        cmocka_unit_test(a_daemon_uses_no_directory_of_another_user),
        cmocka_unit_test(links_in_the_way_are_refused),
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
