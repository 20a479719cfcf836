/* Inside kernels/cpu/: functions on top of the loops over elements. */
#ifndef RK_CPU_H
#define RK_CPU_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/threads/here.h"
#include "kernels/engine/engine.h"
#include "kernels/exact/finish.h"
#include "kernels/exact/line.h"
#include "kernels/exact/runs.h"

/* The processor's name, or the architecture's if it reports none. */
void rk_cpu_name(char *out, size_t cap);

/* lines.c. Reduce whole lines (rows, segments or columns) [first, first + lines) of a task to finished cells. Returns RP_OK
 * or the code of the first line without a result; *bad_row and *bad_state then say which and why. `*t` is only read; its cells
 * are written. */
int rk_cpu_lines(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, uint64_t *bad_row, rk_state *bad_state);

/* The same for all lines; sets the route. */
int rk_cpu_all_lines(const rk_simd *simd, rk_task *t, uint64_t *bad_row, rk_state *bad_state);

/* Elements of each line that is a row or column, not a segment. */
static inline uint64_t rk_cpu_elements(const rp_spec *s) { return s->flags & RP_COLUMNS ? s->rows : rk_row_elements(s); }

/* The name of the route (the table in lines.c) that all lines of a task take together. Only the spec is looked at, and where
 * `data` is. */
const char *rk_cpu_route(const rk_simd *simd, const rk_task *t);

/* Reduce elements [from, from + n) of one row or segment to a state. */
void rk_cpu_segment(const rk_simd *simd, const rk_task *t, uint64_t row, uint64_t from, uint64_t n, rk_state *s);

/* Reduce rows of n elements, each at a place of its own, to a state each. All have the same companions. */
void rk_cpu_arrays(const rk_simd *simd, const rp_spec *s, const uint8_t *const *x, size_t arrays, const rp_parts *beside,
                   uint64_t n, rk_state *states);

/* Can the state of some elements of a row decide its result? Most operations need all of them. */
bool rk_cpu_may_settle(const rp_spec *s);

/* Does the state of some elements decide the row's result, whatever those from `from` on are? Then it need only count these,
 * which are not looked at. Only if rk_cpu_may_settle. */
bool rk_cpu_settled(const rk_task *t, const rk_state *x, uint64_t from);

/* As rk_cpu_segment, for a task that rk_cpu_near has a loop for: the state's sum lacks as much as is returned, at most. */
double rk_cpu_near_segment(const rk_simd *simd, const rk_task *t, uint64_t row, uint64_t from, uint64_t n, rk_state *s);

/* Reduce rows [from, from + n) of columns to a state each. `neglected`: NULL, or for a task that rk_cpu_near has a loop for:
 * what the states lack at most is added to it. */
void rk_cpu_columns(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t columns, uint64_t from, uint64_t n,
                    rk_state *states, double *neglected);

/* The same, joined to states that are there, which lack nothing. */
void rk_cpu_join_columns(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t columns, uint64_t from, uint64_t n,
                         rk_state *states);
uint64_t rk_cpu_tile(const rp_spec *s); /* the best number of columns to reduce together */

/* pair_lines.c. Join each state with the n pairs of its array and the weights that the mask keeps. All have the same ones. */
void rk_add_pairs_together(const rk_simd *simd, const rp_spec *s, const uint8_t *const *x, size_t arrays,
                           const rp_parts *beside, uint64_t n, rk_state *states);

/* Write the cell of a line whose state is complete; joins an initial element. Returns what rk_state_finish returns. */
int rk_cpu_cell(const rk_task *t, uint64_t row, rk_state *s);

/* Subnormals, ties, cancellation and specials with known answers; `why` says which failed. */
bool rk_cpu_self_test(char *why, size_t why_cap);

#endif
