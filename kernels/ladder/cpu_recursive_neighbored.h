/* cpu-recursive-neighbored: pairs of neighbours, then pairs of their sums: stride 1, 2, 4, ...
 * (recursiveReduceNeighbored)
 *
 * The idea    a tree: log2 N levels, and within a level all additions are independent. That is what a GPU needs.
 * What is wrong  the stride grows: from the fifth level on each addition touches two cache lines of its own.
 *
 * Included once for each element type T. The recursion is at its end, 64 calls deep at most. */
#ifndef T /* read alone */
#define T int32_t
#define RUNG(name) name##_i32
#include <stddef.h>
#include <stdint.h>
#endif

static inline T RUNG(add_neighbors)(T *x, size_t n, size_t stride)
{
    if (stride >= n)
        return x[0];
    for (size_t i = 0; i + stride < n; i += 2 * stride)
        x[i] += x[i + stride];
    return RUNG(add_neighbors)(x, n, 2 * stride);
}

static inline T RUNG(recursive_neighbored)(T *x, size_t n) { return RUNG(add_neighbors)(x, n, 1); }
