/* Inside kernels/: how the devices and the CPU beside them share large data of the host. Each piece goes where it would
 * be done first, computed from the bytes under way there and the rate measured while busy. Any thread. */
#ifndef RK_SHARE_H
#define RK_SHARE_H

#include "kernels/engine/inflight.h"

/* A rate measured at a bad moment would keep work away for ever, and would never be measured again. So after so many pieces
 * for others the CPU gets one (with pieces of 4 MiB, one in each GiB), for it may be slow; and a GPU some at once, because it
 * copies one while it reduces another. */
enum { RK_TRIED_AFTER = 256, RK_GPU_TRIAL = 8 };

/* The index of the candidate, of `n`, that would be done first with `bytes` more; the first of equal ones. NULL entries take no
 * work. The last one is the CPU. */
unsigned rk_share(rk_inflight *const *candidate, unsigned n, uint64_t bytes);

/* Count a piece that another one got, atomically. Is this one's trial of `trial` pieces due, after that number of them? */
bool rk_is_due(unsigned *passed, unsigned after, unsigned trial);

#endif
