/* Rows in runs: with planes and without COLUMNS, row i is the run of row_len elements that is row i of each plane, one run
 * after the other. Its elements' indexes count on from run to run. So a row of one plane is a line of line.h, and such a row
 * is several of those. */
#ifndef RK_RUNS_H
#define RK_RUNS_H

#include "kernels/exact/format.h"

/* Has each row of the spec several runs? */
RK_FN bool rk_in_runs(const rp_spec *s) { return s->planes > 1 && !(s->flags & RP_COLUMNS); }

/* Elements of a row of a spec without offsets and columns: of all its runs. */
RK_FN uint64_t rk_row_elements(const rp_spec *s) { return rk_in_runs(s) ? s->planes * s->row_len : s->row_len; }

/* Where element `i` of row `row` is in the data. */
RK_FN uint64_t rk_place_in_runs(const rp_spec *s, uint64_t row, uint64_t i)
{
    return (i / s->row_len * s->rows + row) * s->row_len + i % s->row_len;
}

#endif
