/* Elements with a key each, which are added to the slots of their groups. Keys are dense: 0 to groups - 1. */
#ifndef RK_KEYED_H
#define RK_KEYED_H

#include "kernels/cpu/keys/slots.h"

typedef struct rk_keyed {
    const void *keys;                 /* at any alignment, as the values; NULL: all elements are of group 0 */
    const void *values;               /* of the slots' type */
    const uint8_t *mask;              /* a byte for each element, 0 leaves it out; NULL: none */
    uint64_t n, first;                /* elements, and the place of the first one */
    int key_dtype;                    /* an integer type */
    bool drop_outside, drop_negative; /* leave out elements whose key is not a group; whose key is below 0 */
} rk_keyed;

/* Groups [first, first + n). */
typedef struct rk_groups {
    const rk_slots *kind;
    uint8_t *slots; /* n x kind->bytes */
    uint64_t first, n;
} rk_groups;

/* The first of elements [from, to) whose key is not one of 0 to groups - 1, unless it is left out; `to`: there is none. */
uint64_t rk_keyed_find(const rk_keyed *b, uint64_t groups, uint64_t from, uint64_t to, uint64_t *key);

/* Add those of elements [from, to) whose keys are among the groups, and to *added their number (NULL: nobody asks). `to`, or
 * the first one for which there was no memory. Keys that change meanwhile give arbitrary sums, and no more. */
uint64_t rk_keyed_add_range(const rk_keyed *b, const rk_groups *g, uint64_t from, uint64_t to, uint64_t *added);

/* The first element whose key is not a group, unless it is left out, and its key (below 0: a large one); b->n: there is none.
 * Several threads look for it, if that is worth it. */
uint64_t rk_keyed_wrong(const rk_keyed *b, uint64_t groups, uint64_t *key);

/* Add the elements whose key is a group, by several threads if that is worth it; `g` has all groups. b->n, or an element for
 * which there was no memory; then some of the others were added. */
uint64_t rk_keyed_add(const rk_keyed *b, const rk_groups *g);

#endif
