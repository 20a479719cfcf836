/* The elements of one line, read in blocks of contiguous ones: those that a mask leaves out are gone, and those that a stride
 * parts are gathered. */
#ifndef RK_CPU_READER_H
#define RK_CPU_READER_H

#include "kernels/cpu/loops.h"

typedef struct rk_reader {
    const uint8_t *x, *mask; /* of the line's first element; mask: NULL, or a byte for each element */
    uint64_t before;         /* of a line in one run, which is never together: elements before those at `x` and `mask` */
    size_t size;             /* bytes of an element: 1, 2, 4, 8 */
    uint64_t n;              /* elements, with those that the mask leaves out */
    uint64_t run, stride;    /* `run` elements lie together; their starts are `stride` elements apart */
    rk_keep_fn *keep;        /* for this size */
} rk_reader;

/* Calls take(arg, block, n), with RK_KEYS_AT_ONCE elements at most, for elements [from, to) in order. */
void rk_read_blocks(const rk_reader *r, uint64_t from, uint64_t to, void (*take)(void *arg, const void *x, size_t n),
                    void *arg);

/* Where element i is, in elements from the first. */
uint64_t rk_read_place(const rk_reader *r, uint64_t i);

/* The bits of element i, zero-extended; false: the mask leaves it out. */
bool rk_read_one(const rk_reader *r, uint64_t i, uint64_t *bits);

#endif
