/* Counts of the elements of one line between edges, in one pass over it. Edges become keys: an element is not below an edge if
 * its key is not below that of the edge, whatever their types are.
 *
 *     rk_bins_init -> { rk_bins_open -> rk_bins_pass over parts of the line, by any threads -> rk_bins_cell } ... ->
 *     rk_bins_close */
#ifndef RK_CPU_BINS_H
#define RK_CPU_BINS_H

#include "kernels/cpu/order/sample.h"

typedef struct rk_bins {
    const rk_simd *simd;
    rk_reader line;
    rk_keys keys;
    const rp_spec *spec;
    rk_edge_keys slots;
    uint64_t *bound; /* slots.bound, and the memory of all */
    uint64_t *counts;
    uint32_t *table; /* slots.table */
    uint64_t *turns; /* room for the pass of one thread */
    bool failed;     /* no memory */
} rk_bins;

/* The spec, `simd` and the reader's size are set. False: no memory. */
bool rk_bins_init(rk_bins *b);
/* The same for bounds that are keys of the line, ascending. The spec has the number of edges, the length, and a type: u64 if
 * elements are keys themselves. */
bool rk_bins_of_keys(rk_bins *b, const rk_keys *keys, const uint64_t *bound);
void rk_bins_open(rk_bins *b);
/* Elements [from, to) of the line; each once. Any thread. */
void rk_bins_pass(rk_bins *b, uint64_t from, uint64_t to);
/* RP_OK, or NAN, NO_MEMORY. */
rp_err rk_bins_cell(const rk_bins *b, uint8_t *cell);
void rk_bins_close(rk_bins *b);

#endif
