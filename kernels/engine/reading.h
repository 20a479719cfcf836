/* Inside kernels/: beside GPUs, whether the threads that read data also reduce them, or leave them to a GPU. Many of them
 * together may be faster than the way to it, on which what one of them read is copied, and read again over the bus. Any
 * thread. */
#ifndef RK_READING_H
#define RK_READING_H

#include "kernels/kernels.h"
#include "proto/types.h"

/* All 0 at first. */
typedef struct rk_reading {
    unsigned threads;                          /* that read now; atomic */
    float usual;                               /* ... when parts were asked for lately, on average; atomic */
    unsigned reduced;                          /* parts, since GPUs were tried; atomic */
    unsigned passed;                           /* parts left to GPUs since one was reduced; atomic */
    float rate[RP_OP_END][RP_DTYPE_COUNT + 1]; /* bytes a ns that a thread reduces; 0: not known so far; atomic */
} rk_reading;

void rk_reading_begin(rk_reading *r);
void rk_reading_end(rk_reading *r);

/* Does the thread that reads a part of `t` reduce it? `gpus`: bytes a ns that reach them and are reduced there; 0: not known so
 * far. */
bool rk_reading_reduces(rk_reading *r, const rk_task *t, double gpus);

/* A thread reduced a part of `t` in so many ns. */
void rk_reading_note(rk_reading *r, const rk_task *t, uint64_t ns);

#endif
