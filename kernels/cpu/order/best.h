/* The k best elements of one line, with their places, in a pass over it.
 *
 * A sample gives a bound that probably has k elements above it. What is not above the bound, or not better than the worst of
 * the k best so far, is passed over by vectors; the others go into a heap. If the sample misled, a second pass has no bound.
 * Threads have heaps of their own for parts of the line, which they join.
 *
 *     rk_best_open -> { rk_best_pass over parts of the line, by any threads; rk_best_next } ... -> rk_best_cell
 *
 * A line may change meanwhile, as for ranking.h. */
#ifndef RK_CPU_BEST_H
#define RK_CPU_BEST_H

#include <pthread.h>

#include "kernels/cpu/order/sample.h"
#include "kernels/exact/best_cell.h"

/* An element by its score: the better one has more. A NaN has more than all others. */
typedef struct rk_scored {
    uint64_t score, index;
} rk_scored;

/* The best so far; the worst of them is at the root. */
typedef struct rk_heap {
    rk_scored *at;
    uint64_t n, room;
    uint64_t least; /* scores below are of no use */
    bool closed;    /* none is of use */
} rk_heap;

typedef struct rk_best {
    const rk_simd *simd;
    rk_reader line;
    rk_keys keys;
    const rp_spec *spec;
    bool truths; /* bool: all keys above 0 are 1 */
    bool nans;   /* they take part */
    uint64_t k;  /* at most as many as the line has elements */
    unsigned passes;
    uint64_t bound; /* of the first pass */
    rk_heap heap;
    bool failed; /* no memory */
    pthread_mutex_t lock;
} rk_best;

/* The spec, `simd` and the reader's size are set; the heap is empty or has the room of another line of this spec. */
void rk_best_init(rk_best *b);
/* Begin. False: no memory. */
bool rk_best_open(rk_best *b);
/* Elements [from, to) of the line; each once in a pass. Any thread. */
void rk_best_pass(rk_best *b, uint64_t from, uint64_t to);
/* The pass is over. *again: another one is needed. False: no memory. */
bool rk_best_next(rk_best *b, bool *again);
/* RP_OK, or NAN, OVERFLOW (*bad: the element), NO_MEMORY. */
rp_err rk_best_cell(rk_best *b, uint8_t *cell, uint64_t *bad);
void rk_best_close(rk_best *b);

#endif
