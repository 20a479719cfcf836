/* Programs beside this executable. Anybody can put a program into a folder of mode 1777, and members of a group into one that
 * the group may write. So each step of the way must belong to root or to this user, and nobody else may write it.
 *
 * The walk begins at the root and follows links itself. A step that passes can be changed by root and this user alone, so what
 * passes stays as it is until it is executed by the path without links. */
#include "client/program.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { MAX_LINKS = 40, ENTRY = 4096 };

typedef struct walk {
    char rest[RC_PROGRAM_PATH]; /* of the path that is asked for, after `at` */
    char *at;                   /* the caller's: how far it is, without links; "" is the root */
    char *why;
    bool shared; /* `at` is a folder like /tmp: others may add to it, and remove what is theirs */
    int links;
} walk;

/* ---- the owner of a step ---- */

/* The number after `format` of the first line; `none` without the file, 0 if it is empty. */
static long number_in(const char *path, const char *format, long none)
{
    FILE *f = fopen(path, "re");
    long n = none;
    if (f && fscanf(f, format, &n) != 1)
        n = 0;
    if (f)
        fclose(f);
    return n;
}

/* The number that a user namespace shows for files of root and of all others that it does not have; -1: it has all. */
static long nobody(void)
{
    const long all = 4294967295;
    if (number_in("/proc/self/uid_map", "%*d %*d %ld", all) == all)
        return -1;
    return number_in("/proc/sys/kernel/overflowuid", "%ld", 65534);
}

/* Among the files of a folder like /tmp `nobody` may be another user, too. */
static bool owned(const walk *w, uid_t uid)
{
    if ((long)uid == nobody())
        return !w->shared;
    return uid == 0 || uid == geteuid();
}

/* Is it a user's group of its own, which has the user's name and no other members? */
static bool group_of(gid_t gid, uid_t uid)
{
    char users[ENTRY], groups[ENTRY];
    struct passwd user, *u = NULL;
    struct group group, *g = NULL;
    if (getpwuid_r(uid, &user, users, sizeof users, &u) || !u || getgrgid_r(gid, &group, groups, sizeof groups, &g) || !g)
        return false;
    bool alone = !g->gr_mem[0] || (!strcmp(g->gr_mem[0], u->pw_name) && !g->gr_mem[1]);
    return alone && !strcmp(g->gr_name, u->pw_name);
}

/* The bits of the group are those of an access list, too, which may name anybody. */
static bool group_is_trusted(const char *path, gid_t gid)
{
    return (group_of(gid, geteuid()) || group_of(gid, 0)) && getxattr(path, "system.posix_acl_access", NULL, 0) <= 0;
}

/* ---- the walk ---- */

/* Of a long path the end. */
static int refuse(walk *w, const char *what)
{
    const char *at = w->at[0] ? w->at : "/";
    size_t n = strlen(at), room = RC_PROGRAM_WHY - 1 - strlen(what) - sizeof "... ";
    bool whole = n <= room;
    snprintf(w->why, RC_PROGRAM_WHY, "%s%s %s", whole ? "" : "...", at + (whole ? 0 : n - room), what);
    return EPERM;
}

/* `at` is a folder or a file now, in a folder that has passed. */
static int check(walk *w, const struct stat *st)
{
    bool folder = S_ISDIR(st->st_mode), others = st->st_mode & S_IWOTH;
    char owner[40];
    if (!owned(w, st->st_uid)) {
        snprintf(owner, sizeof owner, "belongs to user %u", st->st_uid);
        return refuse(w, owner);
    }
    if (S_ISLNK(st->st_mode))
        return w->shared ? refuse(w, "lies where others may write") : 0;
    if (others && !(folder && st->st_mode & S_ISVTX))
        return refuse(w, "may be written by others");
    if (st->st_mode & S_IWGRP && !(folder && st->st_mode & S_ISVTX) && !group_is_trusted(w->at[0] ? w->at : "/", st->st_gid))
        return refuse(w, "may be written by its group");
    if (!folder && w->shared)
        return refuse(w, "lies where others may write");
    w->shared = folder && st->st_mode & S_ISVTX && st->st_mode & (S_IWOTH | S_IWGRP);
    return 0;
}

/* What the link `at` names comes before the rest; it starts from the link's folder, or from the root. */
static int follow(walk *w, size_t folder)
{
    char target[RC_PROGRAM_PATH], rest[RC_PROGRAM_PATH];
    ssize_t n = readlink(w->at, target, sizeof target - 1);
    if (n < 0)
        return errno;
    target[n] = 0;
    if (++w->links > MAX_LINKS)
        return ELOOP;
    if ((size_t)snprintf(rest, sizeof rest, "%s/%s", target, w->rest) >= sizeof rest)
        return ENAMETOOLONG;
    strcpy(w->rest, rest);
    w->at[target[0] == '/' ? 0 : folder] = 0;
    return 0;
}

/* The folder `at` once more, after a link or "..". */
static int look_again(walk *w)
{
    struct stat st;
    w->shared = false;
    return stat(w->at[0] ? w->at : "/", &st) ? errno : check(w, &st);
}

static int step(walk *w, const char *name)
{
    size_t folder = strlen(w->at);
    struct stat st;
    if (!strcmp(name, "."))
        return 0;
    if (!strcmp(name, "..")) {
        char *slash = strrchr(w->at, '/');
        *(slash ? slash : w->at) = 0;
        return look_again(w);
    }
    if ((size_t)snprintf(w->at + folder, RC_PROGRAM_PATH - folder, "/%s", name) >= RC_PROGRAM_PATH - folder)
        return ENAMETOOLONG;
    if (lstat(w->at, &st))
        return errno;
    int err = check(w, &st);
    if (err || !S_ISLNK(st.st_mode))
        return err;
    err = follow(w, folder);
    return err ? err : look_again(w);
}

int rc_trust_path(const char *asked, char path[RC_PROGRAM_PATH], char why[RC_PROGRAM_WHY])
{
    walk w = {.at = path, .why = why};
    char name[NAME_MAX + 1];
    path[0] = 0;
    if ((size_t)snprintf(w.rest, sizeof w.rest, "%s", asked) >= sizeof w.rest)
        return ENAMETOOLONG;
    int err = look_again(&w);
    while (!err) {
        size_t slashes = strspn(w.rest, "/"), n = strcspn(w.rest + slashes, "/");
        if (!n)
            break;
        if (n > NAME_MAX)
            return ENAMETOOLONG;
        memcpy(name, w.rest + slashes, n);
        name[n] = 0;
        memmove(w.rest, w.rest + slashes + n, strlen(w.rest + slashes + n) + 1);
        err = step(&w, name);
    }
    return err;
}

/* ---- beside this executable ---- */

static bool beside(const char *name, char path[RC_PROGRAM_PATH])
{
    ssize_t n = readlink("/proc/self/exe", path, RC_PROGRAM_PATH - 1);
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    size_t room = slash ? RC_PROGRAM_PATH - (size_t)(slash + 1 - path) : 0;
    return slash && (size_t)snprintf(slash + 1, room, "%s", name) < room && access(path, X_OK) == 0;
}

int rc_find_program(const char *name, char path[RC_PROGRAM_PATH], char why[RC_PROGRAM_WHY])
{
    char asked[RC_PROGRAM_PATH];
    why[0] = 0;
    if (!beside(name, asked)) {
        snprintf(path, RC_PROGRAM_PATH, "%s", name);
        return 0;
    }
    int err = rc_trust_path(asked, path, why);
    if (err && !why[0])
        snprintf(why, RC_PROGRAM_WHY, "%s", strerror(err));
    return err;
}
