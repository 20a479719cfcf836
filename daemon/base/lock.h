/* One daemon per socket: a lock file beside it, held with flock while the daemon lives. */
#ifndef RD_LOCK_H
#define RD_LOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "daemon/base/access.h"

typedef enum { RD_LOCK_OK, RD_LOCK_HELD, RD_LOCK_FAILED } rd_lock_result;

/* Lock PATH.lock, then remove a socket that a dead daemon left at PATH. Symbolic links and anything that is not a socket are
 * refused, never followed or removed. The caller closes *fd, which unlocks. HELD, FAILED: `why` has the holder or the reason.
 * The lock file stays: removing it would let two daemons lock two files of one name. */
rd_lock_result rd_lock_socket(const char *path, int *fd, char *why, size_t cap);

/* The same for a socket that the service manager passed: it is not removed. */
rd_lock_result rd_lock_passed(const char *path, int *fd, char *why, size_t cap);

/* Remove a socket that a dead daemon left at `path`, and nothing else. For paths that the lock of another path covers. */
rd_lock_result rd_clear_socket(const char *path, char *why, size_t cap);

/* Give a socket of the daemon its group, if configured, and then its mode. In this order no other user can use it at any
 * moment. A path that is no longer that socket, for example a link, is refused. */
bool rd_hand_socket(const char *path, unsigned mode, const rd_ids *group);

#endif
