/* Reductions in the caller's process, without an engine: libreduce uses them for small arrays. */
#ifndef RK_HERE_H
#define RK_HERE_H

#include <stddef.h>

#include "kernels/exact/state.h"
#include "proto/types.h"

/* Of a reduction for each thread: a core sums them in some 200 us, and to start and join one takes 50. */
enum { RK_THREAD_BYTES = 2 << 20 };

/* Processors that this process may use: its affinity, and the time that its control groups allow (cgroup 2, rounded up). */
int rk_cpu_cores(void);

/* What the groups allow, from files like /proc/self/cgroup and a tree like /sys/fs/cgroup; INT_MAX: any. */
int rk_group_cores(const char *membership, const char *groups);

/* What earlier calls saw of the machine's load is forgotten: the next one has as many threads as on an idle machine. */
void rk_forget_load(void);

/* Reduce data, as rp_spec_parts cuts them, to rp_results cells; with the companions they have `bytes` bytes. rp_spec_check,
 * rp_spec_match and rp_offsets_check have passed. The calling thread reduces. For large data it starts helpers, at most
 * `threads` including itself. They end with the call or, on a busy machine, soon after it. All calls of the process together
 * have fewer helpers than rk_cpu_cores. `until_ns` is that of rk_task.
 * RP_OK, or the fault, like an engine's; RP_NO_MEMORY if room.h has none. */
rp_err rk_reduce_here(const rp_spec *s, const void *data, const rp_parts *beside, size_t bytes, int threads, uint64_t until_ns,
                      void *cells, rp_fault *f);

/* Reduce `arrays` arrays of n elements to a state each, on the calling thread: rows of one spec without offsets or keys. All
 * have the same mask and the same weights, one for each element, which are read once. RP_OK, or RP_NO_MEMORY as above. */
rp_err rk_states_here(const rp_spec *s, const uint8_t *const *x, size_t arrays, const rp_parts *beside, uint64_t n,
                      rk_state *states, rp_fault *f);

#endif
