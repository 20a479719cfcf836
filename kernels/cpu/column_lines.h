/* Columns, joined to the states of each: row by row where that is exact, else turned to contiguous elements. */
#ifndef RK_CPU_COLUMN_LINES_H
#define RK_CPU_COLUMN_LINES_H

#include "kernels/cpu/view.h"

/* The number of columns from `first` on that are reduced together. Column numbers run through all planes, but columns of a tile
 * lie in one plane. */
uint64_t rk_columns_together(const rk_view *v, uint64_t first, uint64_t columns);

/* Joins rows to as many of the first columns as can be taken row by row; returns how many those are. */
typedef size_t rk_add_rows_fn(const rk_view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states);
rk_add_rows_fn rk_add_stats, rk_add_places, rk_add_squares, rk_add_ends, rk_add_sums;

/* Joins rows [from, from + n) of the columns [first, first + columns), at most RK_COLUMNS_TOGETHER, to their states. `add`:
 * NULL: all are turned. */
void rk_add_columns(const rk_view *v, rk_add_rows_fn *add, uint64_t first, size_t columns, uint64_t from, uint64_t n,
                    rk_state *states);

#endif
