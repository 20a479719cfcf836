/* Properties of operations, from types.def. Pure. */
#ifndef RK_OP_H
#define RK_OP_H

#include "kernels/exact/format.h"
#include "kernels/exact/row_numbers.h"

typedef enum {
    RK_FINISH_TOTAL,    /* the sum */
    RK_FINISH_MEAN,     /* ... over the count */
    RK_FINISH_SQUARES,  /* the sum of squares, or its root */
    RK_FINISH_SPREAD,   /* the variance, or its root */
    RK_FINISH_CHOSEN,   /* an element */
    RK_FINISH_INDEX,    /* ... and only its place */
    RK_FINISH_ENDS,     /* two elements */
    RK_FINISH_RANGE,    /* their difference */
    RK_FINISH_COUNTED,  /* a number */
    RK_FINISH_ELEMENTS, /* the count itself */
    RK_FINISH_SOME,     /* is the number not 0? */
    RK_FINISH_EVERY,    /* is it the count? */
    RK_FINISH_WORD,     /* bits */
    RK_FINISH_PRODUCT,
    RK_FINISH_SUMMARY, /* a cell of several words */
    RK_FINISH_DOT,     /* the sum of products */
    RK_FINISH_WMEAN,   /* ... over that of the weights */
    RK_FINISH_COV,
    RK_FINISH_CORR,
    RK_FINISH_RANKED /* not from a state: order.h */
} rk_finisher;

#define COLUMN(NAME, name, code, help, value, narrow, wide, integer, finish, ...) RK_FINISH_##finish, code
RK_FN rk_finisher rk_finisher_of(int op) { return (rk_finisher)RK_NUMBER(RP_OPS, op); }
#undef COLUMN

/* Is the value that of an element, so that an empty array has none? A bit for each operation */
#define X(NAME, name, code, help, value, narrow, wide, integer, finish, nothing, takes) \
    | (uint64_t)(RP_##nothing == RP_EMPTY) << code
RK_FN int rk_needs_element(int op) { return (int)(((uint64_t)0 RP_OPS(X)) >> op & 1); }
#undef X

#endif
