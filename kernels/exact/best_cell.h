/* The best elements of a line, and the cell that they make. Pure, thread-safe. */
#ifndef RK_BEST_CELL_H
#define RK_BEST_CELL_H

#include "proto/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An element by its bits, as the type has them. */
typedef struct rk_placed {
    uint64_t bits, index;
} rk_placed;

/* Write the cell of largest or smallest: the n best elements, the best first, n <= k. RP_OK, or OVERFLOW: *bad has the bits of
 * the first element that does not fit. */
rp_err rk_top_cell(const rp_spec *s, const rk_placed *best, uint64_t n, uint8_t *cell, uint64_t *bad);

#ifdef __cplusplus
}
#endif
#endif
