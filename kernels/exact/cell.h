/* From states to the cells of a reply: the bytes of a finished value, or a fault if there is none. Pure, thread-safe. */
#ifndef RK_CELL_H
#define RK_CELL_H

#include "kernels/exact/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Write the cell, rp_cell_size bytes, of a complete state for the checked spec; joins an initial element to the state.
 * Returns RP_OK, EMPTY, NAN or OVERFLOW. */
int rk_cell_write(rk_state *s, const rp_spec *spec, uint8_t *cell);

/* Turn a fault from a part of the data into that of result `row` of the whole, whose spec this is: sets the index, and the text
 * of EMPTY, NAN and OVERFLOW. */
void rk_cell_fault_move(rp_fault *f, const rp_spec *spec, uint64_t row);

/* Fill the fault of result `row`, whose cell gave `code` (EMPTY, NAN, OVERFLOW); `s` is its final state. */
void rk_cell_fault(rp_fault *f, const rk_state *s, const rp_spec *spec, uint64_t row, int code);

#ifdef __cplusplus
}
#endif
#endif
