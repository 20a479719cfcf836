/* Predicts the cost of tasks in nanoseconds of the engine, from the times that the engine measured for tasks of the same kind.
 * A variance of short rows takes some twenty times as long as a sum of the same bytes; that is learnt from its first task, on
 * any device. */
#ifndef RD_PRICE_H
#define RD_PRICE_H

#include <stdint.h>

#include "kernels/kernels.h"

#define RD_ONE(...) +1
enum {
    RD_PRICE_OPS = RP_OP_END, /* code 0 is a copy (rk_task.fill) */
    RD_PRICE_DTYPES = 1 RP_DTYPES(RD_ONE),
    RD_PRICE_LENGTHS = 4, /* classes of input bytes for each result: up to 16, 256, 4096, more */
    RD_PRICE_KINDS = RD_PRICE_OPS * RD_PRICE_DTYPES * RD_PRICE_LENGTHS
};
#undef RD_ONE

/* Initialise with zeros. */
typedef struct rd_price {
    uint64_t rate[RD_PRICE_KINDS]; /* ps a byte of cost; 0: not known */
} rd_price;

/* A task's cost in bytes: of data, of results, and a constant for the task itself. */
uint64_t rd_price_cost(const rk_task *t);

/* The price of a task that is complete except for its results. The first task of a kind has the price of a whole window, so it
 * is alone in the engine. So nobody waits behind many tasks that turn out to be slow. */
uint64_t rd_price_ns(const rd_price *p, const rk_task *t);

/* Learn from a finished task and return its time. 0: the engine did no work for it, and nothing is learnt. */
uint64_t rd_price_learn(rd_price *p, const rk_task *t);

#endif
