/* One daemon per socket: a lock file beside it, held with flock while the daemon lives. */
#ifndef RD_LOCK_H
#define RD_LOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/access.h"

typedef enum { RD_LOCK_OK, RD_LOCK_HELD, RD_LOCK_FAILED } rd_lock_result;

/* Lock PATH.lock, then remove a socket that a dead daemon left at PATH. Symbolic links and anything that is not a socket are
 * refused, never followed or removed. *fd is the caller's to close, which unlocks. HELD, FAILED: `why` tells who or
 * what. The lock file stays: removing it would let two daemons lock two files of one name. */
rd_lock_result rd_lock_socket(const char *path, int *fd, char *why, size_t cap);

/* Remove a socket that a dead daemon left at `path`, and nothing else. For paths that the lock of another one covers. */
rd_lock_result rd_clear_socket(const char *path, char *why, size_t cap);

/* Give a socket of ours its group, if there is one, and then its mode, so that at no moment somebody else may use it. What else
 * has the name by now, a link first of all, is refused. */
bool rd_hand_socket(const char *path, unsigned mode, const rd_ids *group);

#endif
