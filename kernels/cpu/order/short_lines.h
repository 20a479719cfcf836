/* Order statistics of many short lines side by side: each line is a lane of vectors, whose elements are sorted together. */
#ifndef RK_CPU_SHORT_LINES_H
#define RK_CPU_SHORT_LINES_H

#include "kernels/cpu/loops.h"
#include "kernels/engine/engine.h"

/* Does this way suit `lines` lines of the spec? */
bool rk_lines_are_short(const rp_spec *s, uint64_t lines);

/* As rk_ranked_lines. */
rp_err rk_short_lines(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, rp_fault *f);

#endif
