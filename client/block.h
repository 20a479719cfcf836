/* Blocks of arrays with several dimensions, reduced in this process. */
#ifndef RC_BLOCK_H
#define RC_BLOCK_H

#include "client/reduce.h"

/* The state of the elements of a block of the `bytes` bytes at `data`, at `state`; `spec` is that of states. 0, or the reported
 * error. */
int rc_run_block(const reduce_spec *spec, const reduce_block *block, const void *data, size_t bytes, void *state);

#endif
