/* Start a daemon of this user. */
#ifndef RC_AUTOSTART_H
#define RC_AUTOSTART_H

#include <stdbool.h>

#include "client/discover.h"
#include "client/reduce.h"

typedef struct rc_child {
    int pidfd;            /* readable once the daemon is gone; -1 if the kernel has no pidfds */
    char log[RC_MAX_URL]; /* where it writes, "" if nowhere, */
    int no_log;           /* because of this errno */
} rc_child;

/* Start a daemon of this user that listens on `url`, one of ipc:///PATH, detached from this process. Close child->pidfd. */
int rc_start_daemon(const char *url, const reduce_open_opts *o, rc_child *child, rp_fault *f);
bool rc_child_gone(int pidfd);

#endif
