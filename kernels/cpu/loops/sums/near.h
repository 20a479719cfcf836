/* Lines whose sums (sum_near.h), or logarithms of products (near_products.h), may be near the exact ones, if both ends of what
 * they may be round alike. */
#ifndef RK_CPU_NEAR_H
#define RK_CPU_NEAR_H

#include "kernels/cpu/loops.h"
#include "kernels/engine/engine.h"

/* The loop for rows or segments of a task, or NULL: only exact states are of use. */
rk_near_fn *rk_cpu_near(const rk_simd *simd, const rp_spec *s);

/* The loop for pairs of a task; NULL: it has no weights. */
rk_pairs_fn *rk_cpu_pairs(const rk_simd *simd, const rp_spec *s);

/* Is there a loop whose sums may be near, of elements or of pairs? */
bool rk_cpu_is_near(const rk_simd *simd, const rp_spec *s);

/* Write the cell of a line whose state is complete, but for a sum that differs from the exact one by `neglected` at most.
 * False: the cell is not certain, or has an error; it is undefined. */
bool rk_cpu_near_cell(const rk_task *t, uint64_t line, const rk_state *s, double neglected);

#endif
