/* Reductions by key of a file, of which a piece is in memory at a time: all groups have accumulators. */
#ifndef RC_FILE_KEYS_H
#define RC_FILE_KEYS_H

#include "client/job.h"

/* Reduce it. 0, or the reported error. */
int rc_run_file_keys(const rc_ask *a, uint64_t until_ns);

#endif
