/* Cells of a reply, from states: the bytes of a finished value, and the fault where there is none. Pure, thread-safe. */
#ifndef RK_CELL_H
#define RK_CELL_H

#include "kernels/exact/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write the cell, rp_cell_size bytes, of a complete state as the checked spec wants it; an initial element joins the state.
 * Returns RP_OK, EMPTY, NAN or OVERFLOW. */
int rk_cell_write(rk_state *s, const rp_spec *spec, uint8_t *cell);

/* The fault of a result of a part of the data as that of result `row` of the whole, whose spec this is: index, and the text of
 * EMPTY, NAN and OVERFLOW. */
void rk_cell_fault_move(rp_fault *f, const rp_spec *spec, uint64_t row);

/* Fill the fault of result `row`, whose cell gave `code` (EMPTY, NAN, OVERFLOW); `s` is its final state. */
void rk_cell_fault(rp_fault *f, const rk_state *s, const rp_spec *spec, uint64_t row, int code);

#ifdef __cplusplus
}
#endif
#endif
