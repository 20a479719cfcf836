/* Tasks of order statistics on the CPU: short lines one after the other, a long line by several threads together. */
#ifndef RK_CPU_RANKED_H
#define RK_CPU_RANKED_H

#include "kernels/cpu/order/ranking.h"
#include "kernels/engine/engine.h"

/* The name of the only route. */
extern const char rk_ranked_route[];

/* Finish the cells of lines [first, first + lines) of a task on this thread. RP_OK, or the fault of the first line without a
 * result, or NO_MEMORY, in `f`. */
rp_err rk_ranked_lines(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, rp_fault *f);

/* Is a line so long that several threads should share it? Then all lines of the task are. */
bool rk_ranked_shares(const rk_task *t, int threads);

/* A line that threads share: make *r ready to be opened. */
void rk_ranked_line(const rk_simd *simd, const rk_task *t, uint64_t line, rk_ranking *r);

/* Finish its cell, when all passes are over. The fault as above. */
rp_err rk_ranked_finish(const rk_task *t, uint64_t line, const rk_ranking *r, rp_fault *f);

#endif
