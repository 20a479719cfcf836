/* One daemon per socket: a lock file beside it, held with flock while the daemon lives. */
#ifndef RD_LOCK_H
#define RD_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/access.h"

typedef enum { RD_LOCK_OK, RD_LOCK_HELD, RD_LOCK_FAILED } rd_lock_result;

/* Lock PATH.lock, then remove a socket that a dead daemon left at PATH. Symbolic links and anything that is not a socket are
 * refused, never followed or removed. The caller closes *fd, which unlocks. HELD, FAILED: `why` has the holder or the reason.
 * The lock file stays: removing it would let two daemons lock two files of one name. */
rd_lock_result rd_lock_socket(const char *path, int *fd, char *why, size_t cap);

/* The same for a socket that the service manager passed: it is not removed. */
rd_lock_result rd_lock_passed(const char *path, int *fd, char *why, size_t cap);

/* Is the file that *fd has locked still there? If it was removed, lock a new one, so that no other daemon serves `path`. False:
 * one does, or `why` has another reason. */
bool rd_lock_keep(const char *path, int *fd, char *why, size_t cap);

/* What the daemon that had the lock before kept in its file: the rates of its engine, in bytes a second. Both are 0 if it kept
 * none, or what is there is not two such numbers. */
typedef struct rd_kept_rates {
    uint64_t device, cpu;
} rd_kept_rates;

rd_kept_rates rd_lock_rates(int fd);

/* Keep them for the next one; 0: what is there stays. False: the file cannot be written. */
bool rd_lock_keep_rates(int fd, rd_kept_rates rates);

bool rd_is_missing(const char *path);

/* Which file lies at a path, so that a daemon that leaves removes its own socket alone. */
typedef struct rd_file_id {
    uint64_t device, inode; /* 0: none */
} rd_file_id;

rd_file_id rd_file_at(const char *path);
void rd_remove_own(const char *path, rd_file_id own);

/* Remove a socket that a dead daemon left at `path`, and nothing else. For paths that the lock of another path covers. */
rd_lock_result rd_clear_socket(const char *path, char *why, size_t cap);

/* Give a socket of the daemon its group, if configured, and then its mode. In this order no other user can use it at any
 * moment. A path that is no longer that socket, for example a link, is refused. */
bool rd_hand_socket(const char *path, unsigned mode, const rd_ids *group);

#endif
