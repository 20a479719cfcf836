/* Inside kernels/: small tasks that share launches. One for each engine that has `batch_bytes`. */
#ifndef RK_BATCH_H
#define RK_BATCH_H

#include "kernels/engine/engine.h"
#include "kernels/engine/utilisation.h"

typedef struct rk_batcher rk_batcher;

/* `cores`: of the machine. NULL: no memory or no thread. `impl` and `busy`, which runs while a batch is launched, stay
 * valid until rk_batch_stop. */
rk_batcher *rk_batch_open(const rk_batch_ops *ops, void *impl, rk_busy *busy, size_t max_bytes, long cores);

/* Wait for every task that was taken, `done` included, and end the threads. Nothing may be submitted any more; the counters
 * stay. May be repeated; NULL is allowed. */
void rk_batch_stop(rk_batcher *b);

/* rk_batch_stop, and free everything. NULL is fine. */
void rk_batch_close(rk_batcher *b);

/* RK_BATCHED */
bool rk_batch_submit(rk_batcher *b, rk_task *t, void (*done)(rk_task *t));

/* The approximate number of tasks that wait or are under way; 0 for NULL. Any thread. */
unsigned rk_batch_load(const rk_batcher *b);

/* Add to the counters: tasks, busy_ns, and those of batches. */
void rk_batch_stats(rk_batcher *b, rk_stats *s);

#endif
