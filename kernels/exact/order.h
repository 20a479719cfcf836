/* Order statistics, median, quantile and kth, from elements of given ranks. Engines find these elements. Which ranks a line
 * needs, and what follows from the elements, is here: exact, rounded once. Pure, thread-safe.
 *
 * The order is that of total_order.h: -0 < +0. A NaN has no rank: it is counted apart. */
#ifndef RK_ORDER_H
#define RK_ORDER_H

#include "kernels/exact/order_place.h"
#include "proto/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RK_MAX_RANKS = 2 * RP_MAX_QUANTILES }; /* each quantile needs two neighbours at most */

/* Values of a cell, and the rule of each. */
unsigned rk_order_values(const rp_spec *s);
rk_order_rule rk_order_rule_of(const rp_spec *s, unsigned i);

/* The ranks that decide the cell of a line with n elements, NaNs not counted: ascending, each once, all below n. Returns their
 * number: 0 if n is 0, or if `k` is not a rank of n elements. The spec is checked. */
unsigned rk_order_ranks(const rp_spec *s, uint64_t n, uint64_t rank[RK_MAX_RANKS]);

/* Write the cell of a line that has n elements and `nans` NaNs, by the policy of the spec. bits[i] is the element, zero-
 * extended to 64 bits, of the i-th of its ranks; not read if the line has none, or if NaNs decide. RP_OK, or why there is
 * no result: NAN, EMPTY (integers of a line without elements), SHAPE (k is not a rank), OVERFLOW. */
rp_err rk_order_cell(const rp_spec *s, uint64_t n, uint64_t nans, const uint64_t *bits, uint8_t *cell);

/* The fault of line `line`, whose cell gave `code`. */
void rk_order_fault(rp_fault *f, const rp_spec *s, uint64_t line, rp_err code, uint64_t n, const uint64_t *bits);

/* Turn a fault of this kind from a part of the lines into that of line `line` of the whole. */
void rk_order_fault_move(rp_fault *f, const rp_spec *s, uint64_t line);

#ifdef __cplusplus
}
#endif
#endif
