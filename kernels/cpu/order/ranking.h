/* The elements at some ranks of one line, in passes over it.
 *
 * A sample gives brackets that hold the ranks, probably. One pass counts the keys below each bracket and keeps the few
 * inside, and the ranks are found among these in the same way. Where a bracket misses, or holds too many, further passes
 * count digits: each makes the range of keys that holds a rank 2048 times smaller, so any data end after 7 passes. Keys
 * that equal a bound are counted and not kept, so lines of few different values end after one.
 *
 *     rk_ranking_open -> { rk_ranking_pass over parts of the line, by any threads; rk_ranking_next } ... -> rk_ranking_close
 *
 * A line that is not in memory when this begins (line.x is NULL) has no sample: its first pass counts digits.
 *
 * A line may change meanwhile, because clients share memory: then the result is arbitrary, and nothing else happens. */
#ifndef RK_CPU_RANKING_H
#define RK_CPU_RANKING_H

#include "kernels/cpu/order/rank_slots.h"
#include "kernels/exact/order.h"

/* What decides which ranks are wanted of n elements: rk_order_ranks, or given ones. */
typedef unsigned rk_wanted_fn(const void *arg, uint64_t n, uint64_t rank[RK_MAX_RANKS]);

/* A rank, and the range of keys that its element is known to be in. */
typedef struct rk_wanted {
    uint64_t rank;
    uint64_t lo, hi;        /* both included; equal: found */
    uint64_t below, inside; /* elements below the range, and in it */
    bool found;
} rk_wanted;

/* A range of keys that a pass looks at. */
typedef struct rk_bracket {
    uint64_t lo, hi;
    bool digits;     /* count digits; else keep the keys between lo and hi */
    int shift;       /* of digits */
    uint64_t *bins;  /* [RK_DIGITS] */
    rk_between seen; /* of all elements so far */
    uint64_t between;
    uint64_t room; /* keys that `kept` has room for */
    uint8_t *kept;
} rk_bracket;

enum { RK_BRACKETS = RK_RANGES }; /* of one pass: each costs instructions for every element */

typedef struct rk_ranking { /* named in pieces.h, too */
    const rk_simd *simd;
    rk_reader line;
    rk_keys keys;
    bool truths; /* bool: all keys above 0 are 1 */
    rk_wanted_fn *want;
    const void *want_arg;
    uint64_t all, n, nans; /* elements that the mask keeps; of these, ranked ones and NaNs: after the first pass */
    unsigned passes;
    unsigned ranks, brackets;
    rk_wanted wanted[RK_MAX_RANKS];
    rk_bracket bracket[RK_BRACKETS];
    rk_rank_slots *slots; /* of many ranks, in the first two passes; NULL: none */
    uint64_t memory;      /* bytes of kept keys of all brackets, at most; 0: as usual */
    bool want_all;        /* elements are needed; else only counts */
    bool in_parts;        /* the line is never together: digits alone, whose counts are added */
} rk_ranking;

/* Begin: choose the first brackets. The line's `keys` and reader are set in *r, as are `simd`, `truths` and `want`. False: no
 * memory. */
bool rk_ranking_open(rk_ranking *r);

/* Elements [from, to) of the line; each once in a pass. Any thread. */
void rk_ranking_pass(rk_ranking *r, uint64_t from, uint64_t to);

/* The pass is over. *again: another one is needed. Else r->wanted[0 .. ranks) have the keys, as `lo`, and n and nans are
 * known. False: no memory. */
bool rk_ranking_next(rk_ranking *r, bool *again);

void rk_ranking_close(rk_ranking *r);

#endif
