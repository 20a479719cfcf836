/* Tasks of order statistics on the CPU: short lines side by side (short_lines.h), others one after the other, a long line by
 * several threads together.
 *
 *     rk_selection_init -> { rk_selection_line -> rk_selection_open -> { rk_selection_pass over parts of the line,
 *     by any threads; rk_selection_next } ... -> rk_selection_cell } ... -> rk_selection_close */
#ifndef RK_CPU_RANKED_H
#define RK_CPU_RANKED_H

#include "kernels/cpu/order/best.h"
#include "kernels/cpu/order/bins.h"
#include "kernels/cpu/order/ranking.h"
#include "kernels/engine/engine.h"

/* The name of the only route. */
extern const char rk_ranked_route[];

/* Finish the cells of lines [first, first + lines) of a task on this thread. RP_OK, or the fault of the first line without a
 * result, or NO_MEMORY, in `f`. */
rp_err rk_ranked_lines(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, rp_fault *f);

/* What all lines of a spec share. */
void rk_ranking_of(const rk_simd *simd, const rp_spec *s, rk_ranking *r);

/* Is a line so long that several threads should share it? Then all lines of the task are. */
bool rk_ranked_shares(const rk_task *t, int threads);

/* A line of a task, whatever the operation is. */
typedef struct rk_selection { /* named in pieces.h, too */
    const rk_task *t;
    rk_reader *line; /* of that one of these which the operation uses */
    rk_ranking ranking;
    rk_best best;
    rk_bins bins;
} rk_selection;

/* *o is all zero. False: no memory. */
bool rk_selection_init(rk_selection *o, const rk_simd *simd, const rk_task *t);
void rk_selection_line(rk_selection *o, uint64_t line);
bool rk_selection_open(rk_selection *o); /* false: no memory */
void rk_selection_pass(rk_selection *o, uint64_t from, uint64_t to);
bool rk_selection_next(rk_selection *o, bool *again); /* false: no memory */
/* Finish the cell of the line. The fault as above. */
rp_err rk_selection_cell(rk_selection *o, uint64_t line, rp_fault *f);
void rk_selection_close(rk_selection *o);

#endif
