/* Reductions by key in this process by accumulators of all groups: of a file, of which a piece is in memory at a time, and of
 * memory with so many groups that the CPU engine, whose memory is bounded, would read the keys several times. */
#ifndef RC_KEYS_HERE_H
#define RC_KEYS_HERE_H

#include "client/job.h"

/* Is it such a reduction of memory? */
bool rc_has_many_groups(const rc_ask *a);

/* Reduce it. 0, or the reported error. */
int rc_run_keys_here(const rc_ask *a, uint64_t until_ns);

#endif
