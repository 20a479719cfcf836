/* Programs that are started: none that another user can have put there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "client/program.h"

enum { STRANGER = 60901, USER = 60902, OWN = 60903, SHARED = 60904 };

/* ---- the database: instead of libc's ---- */
static struct passwd users[] = {{.pw_name = (char *)"root", .pw_uid = 0}, {.pw_name = (char *)"user", .pw_uid = USER}};
static char *nobody[] = {NULL}, *strangers[] = {(char *)"stranger", NULL};
static struct group groups[] = {{.gr_name = (char *)"root", .gr_gid = 0, .gr_mem = nobody},
                                {.gr_name = (char *)"user", .gr_gid = OWN, .gr_mem = nobody},
                                {.gr_name = (char *)"users", .gr_gid = SHARED, .gr_mem = strangers}};

int getpwuid_r(uid_t uid, struct passwd *space, char *text, size_t size, struct passwd **found)
{
    (void)space, (void)text, (void)size;
    *found = uid == 0 ? &users[0] : uid == USER ? &users[1] : NULL;
    return 0;
}

int getgrgid_r(gid_t gid, struct group *space, char *text, size_t size, struct group **found)
{
    (void)space, (void)text, (void)size;
    *found = NULL;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (groups[i].gr_gid == gid)
            *found = &groups[i];
    return 0;
}

/* ---- the folder ---- */
static char base[64], program[128], sub[128];

static void put(const char *path, mode_t mode, uid_t uid, gid_t gid)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(chown(path, uid, gid), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void set(const char *path, mode_t mode, uid_t uid, gid_t gid)
{
    assert_int_equal(chown(path, uid, gid), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int make(void **state)
{
    (void)state;
    strcpy(base, "/tmp/reduced-program-XXXXXX");
    if (!mkdtemp(base))
        return -1;
    snprintf(sub, sizeof sub, "%s/bin", base);
    snprintf(program, sizeof program, "%s/bin/reduced", base);
    if (mkdir(sub, 0755))
        return -1;
    set(base, 0755, 0, 0);
    set(sub, 0755, 0, 0);
    put(program, 0755, 0, 0);
    return 0;
}

static int clear(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command);
}

static char path[RC_PROGRAM_PATH], why[RC_PROGRAM_WHY];

static void trusted(const char *asked)
{
    int err = rc_trust_path(asked, path, why);
    if (err)
        print_message("%s: %s\n", asked, why);
    assert_int_equal(err, 0);
    assert_string_equal(path, program);
}

static void refused(const char *asked, const char *reason)
{
    why[0] = 0;
    assert_int_equal(rc_trust_path(asked, path, why), EPERM);
    if (!strstr(why, reason))
        print_message("%s, not: %s\n", why, reason);
    assert_non_null(strstr(why, reason));
}

/* ---- tests ---- */
static void roots_and_the_users_are_started(void **state)
{
    (void)state;
    trusted(program);
    assert_int_equal(seteuid(USER), 0);
    trusted(program);
    assert_int_equal(seteuid(0), 0);
    set(sub, 0755, USER, OWN);
    refused(program, "/bin belongs to user 60902");
    assert_int_equal(seteuid(USER), 0);
    trusted(program);
    assert_int_equal(seteuid(0), 0);
}

static void another_users_are_not(void **state)
{
    (void)state;
    set(program, 0755, STRANGER, STRANGER);
    refused(program, "/bin/reduced belongs to user 60901");
    set(program, 0757, 0, 0);
    refused(program, "/bin/reduced may be written by others");
}

static void each_folder_above_counts(void **state)
{
    (void)state;
    set(base, 0755, STRANGER, STRANGER);
    refused(program, "belongs to user 60901");
    set(base, 0777, 0, 0);
    refused(program, "may be written by others");
    set(base, 01777, 0, 0); /* as /tmp is, which is above it: what belongs to root stays there */
    trusted(program);
    set(sub, 0755, STRANGER, STRANGER);
    refused(program, "/bin belongs to user 60901");
}

static void nothing_is_started_where_all_may_put_files(void **state)
{
    (void)state;
    set(sub, 01777, 0, 0);
    refused(program, "lies where others may write");
    set(program, 0755, STRANGER, STRANGER);
    refused(program, "belongs to user 60901");
}

static void a_group_may_write_if_it_is_the_users_own(void **state)
{
    (void)state;
    set(sub, 0775, USER, OWN);
    set(program, 0775, USER, OWN);
    assert_int_equal(seteuid(USER), 0);
    trusted(program);
    assert_int_equal(seteuid(0), 0);
    set(program, 0775, 0, 0); /* root's own */
    assert_int_equal(seteuid(USER), 0);
    trusted(program);
    assert_int_equal(seteuid(0), 0);
    set(sub, 0775, USER, SHARED);
    assert_int_equal(seteuid(USER), 0);
    refused(program, "/bin may be written by its group");
    assert_int_equal(seteuid(0), 0);
    set(sub, 02775, 0, 60905); /* a group that the database does not have */
    refused(program, "/bin may be written by its group");
}

/* With an access list the bits of the group are those of all that it names. */
static void an_access_list_is_not_the_users_own_group(void **state)
{
    /* version 2; tag, rights, id: the owner, user STRANGER, the group, the mask, others */
    static const unsigned char list[] = {2,
                                         0,
                                         0,
                                         0,
                                         1,
                                         0,
                                         7,
                                         0,
                                         255,
                                         255,
                                         255,
                                         255,
                                         2,
                                         0,
                                         7,
                                         0,
                                         STRANGER & 255,
                                         STRANGER >> 8,
                                         0,
                                         0,
                                         4,
                                         0,
                                         5,
                                         0,
                                         255,
                                         255,
                                         255,
                                         255,
                                         16,
                                         0,
                                         7,
                                         0,
                                         255,
                                         255,
                                         255,
                                         255,
                                         32,
                                         0,
                                         5,
                                         0,
                                         255,
                                         255,
                                         255,
                                         255};
    (void)state;
    if (setxattr(sub, "system.posix_acl_access", list, sizeof list, 0)) {
        assert_int_equal(errno, EOPNOTSUPP);
        skip();
    }
    refused(program, "/bin may be written by its group");
}

static void links_are_followed_through_trusted_folders(void **state)
{
    char name[160], target[160];
    (void)state;
    snprintf(name, sizeof name, "%s/reduced", base);
    assert_int_equal(symlink("./bin//../bin/reduced", name), 0);
    trusted(name);
    assert_int_equal(lchown(name, STRANGER, STRANGER), 0);
    refused(name, "/reduced belongs to user 60901");
    snprintf(target, sizeof target, "%s/open", base);
    assert_int_equal(mkdir(target, 0755), 0);
    set(target, 0777, 0, 0);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(symlink("open/../bin/reduced", name), 0);
    refused(name, "/open may be written by others");
    set(target, 01777, 0, 0);
    snprintf(target, sizeof target, "%s/open/reduced", base);
    assert_int_equal(symlink(program, target), 0);
    refused(target, "lies where others may write");
    snprintf(target, sizeof target, "%s/loop", base);
    assert_int_equal(symlink("loop", target), 0);
    assert_int_equal(rc_trust_path(target, path, why), ELOOP);
}

/* A child whose user namespace has this user alone, as bubblewrap makes them: root's files belong to nobody. 0: the path is
 * trusted; 1: it is not; 2: there are no such namespaces. */
static int in_a_namespace(const char *asked)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (setegid(OWN) || seteuid(USER) || unshare(CLONE_NEWUSER))
            _exit(2);
        _exit(rc_trust_path(asked, path, why) != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void in_a_user_namespace_nobody_is_root(void **state)
{
    (void)state;
    int code = in_a_namespace("/usr/bin/env");
    if (code == 2)
        skip();
    assert_int_equal(code, 0);
    assert_int_equal(in_a_namespace(program), 1); /* below /tmp nobody may be a stranger */
    set(program, 0757, 0, 0);
    assert_int_equal(in_a_namespace(program), 1);
}

static void nobody_is_a_stranger_elsewhere(void **state)
{
    (void)state;
    set(program, 0755, 65534, 65534);
    refused(program, "belongs to user 65534");
}

static void the_end_of_a_long_path_is_named(void **state)
{
    char name[RC_PROGRAM_PATH];
    (void)state;
    int n = snprintf(name, sizeof name, "%s", base);
    for (int i = 0; i < 3; i++) {
        n += snprintf(name + n, sizeof name - (size_t)n, "/%0100d", i);
        assert_int_equal(mkdir(name, 0755), 0);
    }
    assert_int_equal(chmod(name, 0777), 0);
    assert_int_equal(rc_trust_path(name, path, why), EPERM);
    assert_int_equal(strlen(why), RC_PROGRAM_WHY - 2);
    assert_int_equal(strncmp(why, "...000", 6), 0);
    assert_non_null(strstr(why, "0002 may be written by others"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, make, clear)
    const struct CMUnitTest tests[] = {T(roots_and_the_users_are_started),
                                       T(another_users_are_not),
                                       T(each_folder_above_counts),
                                       T(nothing_is_started_where_all_may_put_files),
                                       T(a_group_may_write_if_it_is_the_users_own),
                                       T(an_access_list_is_not_the_users_own_group),
                                       T(links_are_followed_through_trusted_folders),
                                       T(in_a_user_namespace_nobody_is_root),
                                       T(nobody_is_a_stranger_elsewhere),
                                       T(the_end_of_a_long_path_is_named)};
    if (geteuid() != 0) {
        puts("needs root to become another user");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
