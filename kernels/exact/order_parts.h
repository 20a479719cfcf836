/* Cells of parts of a line that add up to the cell of the whole: counts of a histogram, and the best elements. A part's cell
 * has what the line's needs, whatever the reply's type and policy are. Pure, thread-safe.
 *
 *     rk_part_spec -> rk_part_none -> { rk_part_add of the cell of each part, in any order } -> rk_part_cell */
#ifndef RK_ORDER_PARTS_H
#define RK_ORDER_PARTS_H

#include "proto/types.h"

/* Of a histogram, largest or smallest: the spec of parts whose first element is element `first` of its line. */
rp_spec rk_part_spec(const rp_spec *s, uint64_t first);

/* Bytes of `room` below. */
size_t rk_part_room(const rp_spec *part);

/* The cell of no elements. Cells are aligned to 8. */
void rk_part_none(const rp_spec *part, void *all);
void rk_part_add(const rp_spec *part, void *all, const void *more, void *room);

/* Write the cell of line `line` of the whole. RP_OK, or NAN, OVERFLOW and the fault. */
rp_err rk_part_cell(const rp_spec *s, const void *all, uint64_t line, void *room, uint8_t *cell, rp_fault *f);

#endif
