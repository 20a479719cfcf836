/* Inside kernels/: how the devices and the CPU of a hybrid engine share large data of the host. Each piece goes where it would
 * be done first: by the bytes under way there, and the rate that each had while it was busy. Any thread. */
#ifndef RK_SHARE_H
#define RK_SHARE_H

#include "kernels/engine/inflight.h"

/* Of `n` candidates the place of the one that would be done first with `bytes` more; of equal ones the first. NULL: one that
 * takes nothing. The last of them is the CPU. */
unsigned rk_share(rk_inflight *const *candidate, unsigned n, uint64_t bytes);

#endif
