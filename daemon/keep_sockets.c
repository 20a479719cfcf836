/* Cleaners of folders such as /tmp remove sockets that look old. The daemon looks for its own once a second, and binds anew
 * what is missing. */
#include "daemon/keep_sockets.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/lock.h"
#include "daemon/base/log.h"
#include "daemon/base/paths.h"

/* True: the socket is there (again). It had no mode for others until now. */
static bool keep_messages(rd_server *s, uint64_t i, const char *path, char *why, size_t cap)
{
    if (!rd_is_missing(path))
        return true;
    int err = rd_transport_bind_again(s->transport, (unsigned)i);
    if (!err && !rd_hand_socket(path, (unsigned)s->config.socket_mode, &s->config.socket_group))
        err = errno;
    if (err) {
        char left[RD_MAX_WHY];
        snprintf(why, cap, "%s was removed and cannot be bound again: %s", path, strerror(err));
        rd_clear_socket(path, left, sizeof left); /* bound, but without its mode: the next turn tries again */
        return false;
    }
    rd_log(RD_LOG_WARN, "%s was removed: it is bound again", path);
    return true;
}

static void keep(rd_server *s, uint64_t i, const char *path, int *lock)
{
    char why[RD_MAX_WHY + RD_MAX_URL];
    const bool kept = rd_lock_keep(path, lock, why, sizeof why) && keep_messages(s, i, path, why, sizeof why) &&
                      rd_fdpass_keep(&s->fdpass, path, &s->config, why, sizeof why);
    if (!kept && !s->lost[i])
        rd_log(RD_LOG_ERROR, "%s", why);
    s->lost[i] = !kept;
}

void rd_keep_sockets(rd_server *s)
{
    int *lock = s->locks;
    for (uint64_t i = 0; i < s->config.listens; i++) {
        const char *path = rd_ipc_path(s->config.listen[i]);
        if (path && s->bound[i])
            keep(s, i, path, lock);
        lock += path != NULL;
    }
}
