/* Lines of a task as the files of this folder share them: lines.c (table of routes; rows), column_lines.c, gathered.c. */
#ifndef RK_CPU_VIEW_H
#define RK_CPU_VIEW_H

#include "kernels/cpu/cpu.h"

/* Values that all lines of a task share. */
typedef struct rk_view {
    const rp_spec *spec;
    rp_parts p;
    int layout;
    int dtype;     /* of its states */
    size_t size;   /* bytes of an element or state */
    uint64_t base; /* index of a line's first element */
    rk_reduce_fn *reduce;
    rk_columns_fn *sums; /* of columns without a mask, as the next three; NULL: not usable for this task */
    rk_column_squares_fn *squares;
    rk_column_ends_fn *ends;
    rk_column_places_fn *places;
    rk_row_product_fn *product; /* of rows; NULL, too */
    rk_near_fn *near;           /* likewise, and products of columns */
    double *neglected;          /* what states of columns lack at most is added to it; NULL: they lack nothing */
    rk_pairs_fn *pairs;         /* of elements with weights; else NULL */
    bool pairs_near;            /* whose rows' sums may be near at first */
    bool first_decides;         /* any, all */
    const rk_simd *simd;
} rk_view;

static inline bool rk_is_arg(int layout) { return layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX; }

enum { RK_GATHER_BYTES = 16 << 10 }; /* kept elements of a masked line: stays in L1 */

/* gathered.c. Join s with n gathered elements. They are elements [index, index + of) of the line, or those of them that the
 * mask keeps, which begins there. */
void rk_add_gathered(const rk_view *v, rk_state *s, const void *x, uint64_t n, uint64_t index, uint64_t of,
                     const uint8_t *mask);

/* pair_lines.c. Join s with the n elements from element `place` of the data on, which are of one row or segment, and their
 * weights. `neglected`: NULL for exact sums, else what these lack is added to it. */
void rk_add_pairs(const rk_view *v, rk_state *s, uint64_t place, uint64_t n, double *neglected);

/* Join the states with rows [from, from + n) of the columns [first, first + columns), which are in one plane. */
void rk_add_pair_columns(const rk_view *v, uint64_t first, uint64_t columns, uint64_t from, uint64_t n, rk_state *states);

/* The same for elements [from, from + n) of a contiguous line with a mask. x and mask begin at `from`. */
void rk_add_masked(const rk_view *v, rk_state *s, const uint8_t *x, const uint8_t *mask, uint64_t from, uint64_t n);

#endif
