/* Work of one call in parts, which the calling thread and helpers run together. */
#ifndef RK_PARTS_H
#define RK_PARTS_H

/* How many of `wanted` parts can run at the same time, as things stand, and are worth their threads (crowd.h): at least 1. */
unsigned rk_parts_at_once(unsigned wanted);

typedef void rk_part_fn(void *arg, unsigned part);

/* Run run(arg, 0) to run(arg, parts - 1), each once, and return when all have ended. The calling thread runs parts, too, and
 * all of them if no helper can be had. All calls of the process together have fewer helpers than rk_cpu_cores. A helper that
 * starts when no part is left, as on a busy machine, ends soon after the call. */
void rk_run_parts(unsigned parts, rk_part_fn *run, void *arg);

#endif
