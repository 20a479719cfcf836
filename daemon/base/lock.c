#include "daemon/base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static rd_lock_result fail(char *why, size_t cap, const char *path, const char *problem)
{
    snprintf(why, cap, "%s: %s", path, problem);
    return RD_LOCK_FAILED;
}

/* The file has a line of LINE bytes for each number. */
enum { LINE = 21, PID_AT = 0, DEVICE_AT = LINE, CPU_AT = 2 * LINE };

static bool write_line(int fd, off_t at, uint64_t number)
{
    char line[LINE + 1];
    snprintf(line, sizeof line, "%-20llu\n", (unsigned long long)number);
    return pwrite(fd, line, LINE, at) == LINE;
}

/* 1 MB/s to 10 TB/s: other numbers are not rates. */
static uint64_t read_rate(int fd, off_t at)
{
    char line[LINE + 1] = "";
    if (pread(fd, line, LINE, at) != LINE)
        return 0;
    const size_t digits = strspn(line, "0123456789");
    const unsigned long long rate = strtoull(line, NULL, 10);
    return rate >= 1000000 && rate <= 10000000000000 && strspn(line + digits, " \n") == LINE - digits ? rate : 0;
}

rd_kept_rates rd_lock_rates(int fd) { return (rd_kept_rates){read_rate(fd, DEVICE_AT), read_rate(fd, CPU_AT)}; }

/* Without room on the disk the next daemon begins anew. */
bool rd_lock_keep_rates(int fd, rd_kept_rates rates)
{
    return (!rates.device || write_line(fd, DEVICE_AT, rates.device)) && (!rates.cpu || write_line(fd, CPU_AT, rates.cpu));
}

static rd_lock_result held(int fd, const char *path, char *why, size_t cap)
{
    char pid[16] = "?";
    ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    if (n > 0)
        pid[strspn(pid, "0123456789")] = '\0';
    snprintf(why, cap, "%s: another daemon, pid %s, already serves it", path, pid);
    return RD_LOCK_HELD;
}

rd_lock_result rd_clear_socket(const char *path, char *why, size_t cap)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? RD_LOCK_OK : fail(why, cap, path, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return fail(why, cap, path, S_ISLNK(st.st_mode) ? "is a symbolic link, refused" : "exists and is not a socket");
    return unlink(path) == 0 ? RD_LOCK_OK : fail(why, cap, path, strerror(errno));
}

static bool hand_over(int fd, unsigned mode, const rd_ids *group)
{
    struct stat st;
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd); /* names the open socket itself, whatever lies at its path now */
    if (fstat(fd, &st) != 0)
        return false;
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid()) {
        errno = ENOTSOCK;
        return false;
    }
    return (!group->n || fchownat(fd, "", (uid_t)-1, group->id[0], AT_EMPTY_PATH) == 0) && chmod(name, mode) == 0;
}

bool rd_hand_socket(const char *path, unsigned mode, const rd_ids *group)
{
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bool right = fd >= 0 && hand_over(fd, mode, group);
    int err = errno;
    if (fd >= 0)
        close(fd);
    errno = err;
    return right;
}

typedef struct lock_name {
    char text[256];
} lock_name;

/* False: it is too long. */
static bool name_lock(const char *path, lock_name *name)
{
    return (size_t)snprintf(name->text, sizeof name->text, "%s.lock", path) < sizeof name->text;
}

bool rd_is_missing(const char *path)
{
    struct stat st;
    return lstat(path, &st) != 0 && errno == ENOENT;
}

rd_file_id rd_file_at(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? (rd_file_id){st.st_dev, st.st_ino} : (rd_file_id){0, 0};
}

void rd_remove_own(const char *path, rd_file_id own)
{
    const rd_file_id there = rd_file_at(path);
    if (there.inode == own.inode && there.device == own.device)
        unlink(path);
}

bool rd_lock_keep(const char *path, int *fd, char *why, size_t cap)
{
    struct stat own;
    lock_name name;
    int fresh;
    if (name_lock(path, &name) && fstat(*fd, &own) == 0) {
        const rd_file_id there = rd_file_at(name.text);
        if (own.st_dev == there.device && own.st_ino == there.inode)
            return true;
    }
    if (rd_lock_passed(path, &fresh, why, cap) != RD_LOCK_OK)
        return false;
    close(*fd);
    *fd = fresh;
    return true;
}

rd_lock_result rd_lock_passed(const char *path, int *fd, char *why, size_t cap)
{
    lock_name lock;
    const char *name = lock.text;
    if (!name_lock(path, &lock))
        return fail(why, cap, path, "path too long");
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0)
        return fail(why, cap, name, errno == ELOOP ? "is a symbolic link, refused" : strerror(errno));
    rd_lock_result result = RD_LOCK_OK;
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
        result = errno == EWOULDBLOCK ? held(*fd, path, why, cap) : fail(why, cap, name, strerror(errno));
    else if (!write_line(*fd, PID_AT, (uint64_t)getpid()))
        result = fail(why, cap, name, strerror(errno));
    if (result != RD_LOCK_OK) {
        close(*fd);
        *fd = -1;
    }
    return result;
}

rd_lock_result rd_lock_socket(const char *path, int *fd, char *why, size_t cap)
{
    rd_lock_result result = rd_lock_passed(path, fd, why, cap);
    if (result != RD_LOCK_OK)
        return result;
    result = rd_clear_socket(path, why, cap);
    if (result != RD_LOCK_OK) {
        close(*fd);
        *fd = -1;
    }
    return result;
}
