/* Inside kernels/cpu/: the loops over elements, one table for each instruction set, and who uses them. */
#ifndef RK_CPU_H
#define RK_CPU_H

#include "kernels/engine.h"
#include "kernels/finish.h"
#include "kernels/line.h"

/* Reduce n elements (any alignment) to a freshly initialised state. `index` is that of x[0]; only arg ops use it. */
typedef void rk_reduce_fn(rk_state *s, const void *x, uint64_t n, uint64_t index, int nan_policy);

typedef struct rk_simd {
    const char *name;
    rk_reduce_fn *reduce[RP_LAYOUT_COUNT][RP_F64 + 1]; /* by rp_layout and rp_dtype; NULL: one element at a time */
} rk_simd;

/* simd.c, compiled once for each */
extern const rk_simd rk_simd_baseline, rk_simd_avx2, rk_simd_avx512;

bool rk_simd_runs(const rk_simd *simd); /* does this processor have what the table needs? */
const rk_simd *rk_simd_best(void);

/* MXCSR for the arithmetic of CONTRACT: nearest-even, no flushing to zero, no traps. `leave` puts the caller's back. */
unsigned rk_fp_enter(void);
void rk_fp_leave(unsigned saved);

/* Reduce lines (rows, segments or columns) [first, first + rows) of a task to finished cells. Returns RP_OK or the code
 * of the first row that has no result; *bad_row and *bad_state then say which and why. `*t` is only read, its cells are
 * written. */
int rk_cpu_rows(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t rows, uint64_t *bad_row,
                rk_state *bad_state);

/* Reduce items [from, from + n) of one line to a state. */
void rk_cpu_segment(const rk_simd *simd, const rk_task *t, uint64_t row, uint64_t from, uint64_t n, rk_state *s);

/* Write the cell of a line whose state is complete; an initial element joins the state. Returns as rk_state_finish does. */
int rk_cpu_cell(const rk_task *t, uint64_t row, rk_state *s);

/* Subnormals, ties, cancellation and specials with known answers; `why` says which failed. */
bool rk_cpu_self_test(char *why, size_t why_cap);

#endif
