/* Lines to finished cells without states, where there are many short ones. */
#ifndef RK_CPU_STATELESS_LINES_H
#define RK_CPU_STATELESS_LINES_H

#include "kernels/cpu/loops.h"
#include "kernels/engine/engine.h"

/* What to do with lines [first, first + lines), which cannot be finished so. They come in ascending order. */
typedef void rk_rest_fn(void *arg, uint64_t first, uint64_t lines);

/* Can `lines` neighbouring lines of a task be finished so, and is this the best way? */
bool rk_cpu_is_direct(const rk_simd *simd, const rp_spec *s, uint64_t lines);

/* Finishes lines [first, first + lines) of such a task. */
void rk_cpu_direct(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, rk_rest_fn *rest, void *arg);

#endif
