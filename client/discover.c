/* Where a daemon may listen: the same places as in the daemon's own defaults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/discover.h"
#include "client/error.h"

#define SYSTEM_URL "ipc:///run/reduced/reduced.sock"

static int add(rc_urls *u, const char *url, const char *field, rp_fault *f)
{
    if (strlen(url) >= RC_MAX_URL)
        return rc_fail(f, REDUCE_E_ARGUMENT, field, "the URL has %zu bytes; the limit is %d", strlen(url), RC_MAX_URL - 1);
    if (strncmp(url, "ipc://", 6) && strncmp(url, "tls+tcp://", 10) && strncmp(url, "tcp://", 6))
        return rc_fail(f, REDUCE_E_ARGUMENT, field, "'%.60s' is not ipc:///PATH, tls+tcp://HOST:PORT or tcp://HOST:PORT", url);
    strcpy(u->url[u->n++], url);
    return 0;
}

/* Any user can create names in /tmp, and after `su` the runtime directory is the former user's. A daemon of another user could
 * listen there and receive data and descriptors. So a directory counts only if this user owns it and no other has access. */
static bool ours(const char *dir)
{
    struct stat st;
    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

/* The user's own socket. False: no safe place for one. */
static bool user_url(char *out, size_t cap)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    char dir[64];
    bool absolute = runtime && runtime[0] == '/';
    bool whole = absolute && (size_t)snprintf(out, cap, "ipc://%s/reduced.sock", runtime) < cap;
    if (absolute && (!whole || ours(runtime)))
        return whole;
    snprintf(dir, sizeof dir, "/tmp/reduced-%lu", (unsigned long)geteuid());
    snprintf(out, cap, "ipc://%s/reduced.sock", dir);
    return mkdir(dir, 0700) == 0 || ours(dir);
}

int rc_discover(rc_urls *u, const char *given, rp_fault *f)
{
    *u = (rc_urls){.named = true};
    if (given)
        return add(u, given, "url", f);
    const char *env = getenv("REDUCED_URL");
    if (env && env[0])
        return add(u, env, "REDUCED_URL", f);
    char own[sizeof "ipc://" - 1 + sizeof((struct sockaddr_un){0}.sun_path)]; /* no socket has a longer path */
    u->named = false;
    u->own = user_url(own, sizeof own);
    if (u->own)
        add(u, own, "XDG_RUNTIME_DIR", f);
    return add(u, SYSTEM_URL, "url", f);
}
