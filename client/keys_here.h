/* Reductions by key in this process by accumulators of all groups: of a file, of which a piece is in memory at a time, and
 * of memory with more groups than the CPU engine keeps at a time: it would read the keys several times. */
#ifndef RC_KEYS_HERE_H
#define RC_KEYS_HERE_H

#include "client/job.h"

/* Is it such a reduction of memory? */
bool rc_has_many_groups(const rc_ask *a);

/* Reads elements [at, at + n) of a file. False: *f says why. */
typedef bool rc_read_piece(const rc_ask *a, uint64_t at, uint64_t n, uint8_t *to, rp_fault *f);

/* Reduce it. `read`: of a file; NULL: the elements are in memory. 0, or the reported error. */
int rc_run_keys_here(const rc_ask *a, rc_read_piece *read, uint64_t until_ns);

#endif
