/* What tasks will cost: nanoseconds of the engine, from what tasks of the same kind took. No clock of its own: the engine has
 * measured. A variance of short rows takes some twenty times as long as a sum of as many bytes; that is known after its first
 * task, on any device. */
#ifndef RD_PRICE_H
#define RD_PRICE_H

#include <stdint.h>

#include "kernels/kernels.h"

#define RD_ONE(...) +1
enum {
    RD_PRICE_OPS = 1 RP_OPS(RD_ONE), /* code 0 is that of a copy (rk_task.fill) */
    RD_PRICE_DTYPES = 1 RP_DTYPES(RD_ONE),
    RD_PRICE_LENGTHS = 4, /* of data for a result: up to 16 bytes, 256, 4096, more */
    RD_PRICE_KINDS = RD_PRICE_OPS * RD_PRICE_DTYPES * RD_PRICE_LENGTHS
};
#undef RD_ONE

/* All zero to begin with. */
typedef struct rd_price {
    uint64_t rate[RD_PRICE_KINDS]; /* ps a byte of cost; 0: not known */
} rd_price;

/* Bytes of cost: of data, results, and of a task as such. */
uint64_t rd_price_cost(const rk_task *t);

/* Of a task that is complete but for its results. The first of a kind has the price of a window, so it is in the engine alone:
 * nobody waits for many tasks that turn out to be slow. */
uint64_t rd_price_ns(const rd_price *p, const rk_task *t);

/* A task came back: what it took. 0: the engine did not work for it, and nothing is learnt. */
uint64_t rd_price_learn(rd_price *p, const rk_task *t);

#endif
