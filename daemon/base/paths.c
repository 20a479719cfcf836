#include "daemon/base/paths.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_DIR "/run/reduced"

enum { FIRST_USER = 1000 };

static bool fits(int n, size_t cap) { return n > 0 && (size_t)n < cap; }

/* An environment variable that must be an absolute path to count (XDG base directory specification). */
static const char *absolute(const char *name)
{
    const char *dir = getenv(name);
    return dir && dir[0] == '/' ? dir : NULL;
}

/* Is it a directory of this user (not a link to one) without access for others? Clients make the same check. */
static bool ours(const char *dir)
{
    struct stat st;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

static bool private_dir(char *out, size_t cap)
{
    return fits(snprintf(out, cap, "/tmp/reduced-%lu", (unsigned long)geteuid()), cap);
}

/* The system's daemon runs as root or as a system user (uid below 1000). */
static bool is_system(void) { return geteuid() < FIRST_USER; }

bool rd_default_url(char *out, size_t cap)
{
    const char *runtime = absolute("XDG_RUNTIME_DIR");
    char dir[64];
    if (is_system())
        return fits(snprintf(out, cap, "ipc://" SYSTEM_DIR "/reduced.sock"), cap);
    bool whole = runtime && fits(snprintf(out, cap, "ipc://%s/reduced.sock", runtime), cap);
    if (runtime && (!whole || ours(runtime)))
        return whole;
    return private_dir(dir, sizeof dir) && fits(snprintf(out, cap, "ipc://%s/reduced.sock", dir), cap);
}

bool rd_default_config(char *out, size_t cap)
{
    const char *config = absolute("XDG_CONFIG_HOME"), *home = absolute("HOME");
    if (is_system())
        return fits(snprintf(out, cap, "/etc/reduced/reduced.conf"), cap);
    if (config)
        return fits(snprintf(out, cap, "%s/reduced/reduced.conf", config), cap);
    return home && fits(snprintf(out, cap, "%s/.config/reduced/reduced.conf", home), cap);
}

static bool begins(const char *url, const char *scheme) { return strncmp(url, scheme, strlen(scheme)) == 0; }

const char *rd_ipc_path(const char *url) { return begins(url, "ipc://") ? url + 6 : NULL; }

const char *rd_folder_of(const char *path, char *out)
{
    const char *end = path ? strrchr(path, '/') : NULL;
    size_t n = end ? (size_t)(end - path) : 0;
    if (end && n == 0) /* in the root */
        n = 1;
    memcpy(out, n ? path : "", n);
    out[n] = '\0';
    return out;
}

bool rd_is_tls(const char *url) { return begins(url, "tls+tcp://"); }
bool rd_is_plain_tcp(const char *url) { return begins(url, "tcp://"); }

/* Is `path` a name directly inside `dir`? */
static bool inside(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' && !strchr(path + n + 1, '/');
}

static bool make(const char *dir, mode_t mode, char *why, size_t cap)
{
    if (mkdir(dir, mode) == 0 || errno == EEXIST)
        return true;
    snprintf(why, cap, "cannot create %s: %s", dir, strerror(errno));
    return false;
}

/* The unit makes it, and root may where there is no systemd. */
static bool make_system(char *why, size_t cap)
{
    if (geteuid() != 0)
        return true;
    if (!make(SYSTEM_DIR, 0755, why, cap))
        return false;
    if (chmod(SYSTEM_DIR, 0755) == 0)
        return true;
    snprintf(why, cap, "cannot set the mode of " SYSTEM_DIR ": %s", strerror(errno));
    return false;
}

bool rd_prepare_directory(const char *socket_path, char *why, size_t cap)
{
    char dir[64];
    if (inside(socket_path, SYSTEM_DIR))
        return make_system(why, cap);
    if (!private_dir(dir, sizeof dir) || !inside(socket_path, dir))
        return true;
    if (!make(dir, 0700, why, cap))
        return false;
    if (ours(dir))
        return true;
    snprintf(why, cap, "%s must be a directory of this user with mode 0700: another user may have created it", dir);
    return false;
}

static bool is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool rd_is_http(const char *url, bool *loopback)
{
    char address[64], port[6];
    int end = 0;
    if (sscanf(url, "http://[%63[0-9A-Fa-f:.]]:%5[0-9]%n", address, port, &end) != 2 &&
        sscanf(url, "http://%63[0-9A-Za-z.-]:%5[0-9]%n", address, port, &end) != 2)
        return false;
    *loopback = is_loopback(address);
    return url[end] == '\0' && strtoul(port, NULL, 10) <= UINT16_MAX;
}
