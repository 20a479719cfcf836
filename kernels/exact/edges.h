/* Edges of a histogram, which are doubles, beside elements of any type: exact, by integer arithmetic. Pure, thread-safe. */
#ifndef RK_EDGES_H
#define RK_EDGES_H

#include "kernels/exact/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The bits of the first element, in the order of total_order.h, that is not less than the edge; `beyond`: that is greater. The
 * edge is not a NaN. False: there is none. */
bool rk_from_edge(int dtype, double edge, bool beyond, uint64_t *bits);

#ifdef __cplusplus
}
#endif

#endif
