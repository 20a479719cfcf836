/* Inside kernels/: cuts a task of elements at any of them. A range of its elements becomes pieces, each of which is a matrix or
 * several, with a spec of its own. A piece of whole rows has their results. The others leave a state for each line (row or
 * column) that they touch; states are exact, so a line's result does not depend on the cut. */
#ifndef RK_CUT_H
#define RK_CUT_H

#include "proto/types.h"

typedef struct rk_cut_piece {
    rp_spec spec;
    uint64_t from; /* its first element among the task's */
    uint64_t base; /* index of that element within its row or column */
    uint64_t line; /* the first result that the piece has, or has a part of */
    bool whole;    /* it gives results; else states */
} rk_cut_piece;

/* Of a range of planes: a part of a row, rows, planes, rows, a part of a row */
enum { RK_CUT_PIECES = 5 };

/* Elements [from, to) of a spec without offsets and states, in order. Returns the number of pieces. */
unsigned rk_cut_range(const rp_spec *s, uint64_t from, uint64_t to, rk_cut_piece out[RK_CUT_PIECES]);

/* Has each line elements in many places, so that a range may touch all lines? Else it cuts two rows at most. */
bool rk_cut_scatters(const rp_spec *s);

#endif
