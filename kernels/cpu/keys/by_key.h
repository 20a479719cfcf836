/* Tasks by key (RP_KEYS) on the CPU, in pieces that any threads run at once. Keys are read when they are used, and may change
 * meanwhile: then results are arbitrary.
 *
 * Few groups: a piece has some elements, and adds them to a table of all groups that no other piece has at that time. The
 * tables are joined at the end. Many groups: a piece has some groups, and looks at all keys. So the memory of a thread is
 * bounded, whatever keys and values are. */
#ifndef RK_BY_KEY_H
#define RK_BY_KEY_H

#include "kernels/cpu/keys/keyed.h"
#include "kernels/engine/engine.h"

/* Should `threads` threads cut the task into pieces of elements? */
bool rk_by_key_shares(const rk_task *t, int threads);

/* The most groups that a piece should have. */
uint64_t rk_by_key_groups(const rk_task *t, int threads);

/* Of two faults of a task, the one that counts. They may be OK. */
bool rk_by_key_precedes(const rp_fault *a, const rp_fault *b);

/* Finish the cells of groups [first, first + n). RP_OK, or a fault in `f`. */
rp_err rk_by_key_run(const rk_task *t, uint64_t first, uint64_t n, rp_fault *f);

/* A slot for each group. */
typedef struct rk_table {
    struct rk_table *next;         /* the owner's */
    _Alignas(64) uint64_t slots[]; /* no window crosses a cache line */
} rk_table;

/* Add elements [from, to) to *table, which is made if it is NULL. */
rp_err rk_by_key_add(const rk_task *t, rk_table **table, uint64_t from, uint64_t to, rp_fault *f);

/* Finish the cells from all tables, unless the task has failed already, and free them. */
rp_err rk_by_key_end(const rk_task *t, rk_table *tables, rp_fault *f);

#endif
