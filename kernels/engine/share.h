/* Inside kernels/: how the devices and the CPU beside them share large data of the host. Each piece goes where it would
 * be done first, computed from the bytes under way there and the rate measured while busy. Any thread. */
#ifndef RK_SHARE_H
#define RK_SHARE_H

#include "kernels/engine/inflight.h"

/* The index of the candidate, of `n`, that would be done first with `bytes` more; the first of equal ones. NULL entries take no
 * work. The last one is the CPU. */
unsigned rk_share(rk_inflight *const *candidate, unsigned n, uint64_t bytes);

/* Count a piece that one was passed over for, atomically. Is it its turn to be tried: after so many, with `trial` pieces? */
bool rk_is_due(unsigned *passed, unsigned after, unsigned trial);

#endif
