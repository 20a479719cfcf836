/* Shared by both ways of squaring a block in lanes: the exact sum of squares with its paces, and the anchor of a block. */
#ifndef RK_CPU_SQUARES_ACC_H
#define RK_CPU_SQUARES_ACC_H

#include "kernels/cpu/loops/sums/sum_f32.h"

enum { SQUARE_SUMS = 4 }; /* pairs of vectors of lanes for squares: as many as fit the registers */

typedef struct square_acc {
    acc a;
    pace lanes; /* of squares in lanes */
    pace p, q;  /* of squares as doubles; f64: as two doubles */
} square_acc;

/* 2^log2_share(n) elements of n go to a lane. */
static inline int log2_share(size_t n) { return log2_up(n / (SQUARE_SUMS * LANES64)); }

/* k of the anchor 1.5 * 2^k for the squares of n elements below 2^(guess - 126): per lane they sum to at most 2^(k-1). */
static inline int square_anchor(const square_acc *s, size_t n) { return 2 * (s->lanes.guess - 126) + log2_share(n) + 1; }

#endif
