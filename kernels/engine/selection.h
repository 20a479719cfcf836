/* Selection: the elements at given ranks of each line (row, segment, column) of a task, the one thing that median,
 * quantile and kth ask of a backend. The front (selection.c) says which ranks, and finishes cells from the elements by
 * exact/order.h, so all backends give the same bits.
 *
 * A rank counts from 0 in ascending order: of n elements, 0 is the smallest and n - 1 the largest. The order is that of
 * exact/total_order.h, -0 < +0. Elements that the mask leaves out do not exist. NaNs have no rank, whatever their sign:
 * they are counted in `nans` and not in `n`. An element of bool is 1 if its byte is not 0. */
#ifndef RK_SELECTION_H
#define RK_SELECTION_H

#include "kernels/exact/order.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rk_line_count {
    uint64_t n;    /* elements that have a rank */
    uint64_t nans; /* others; 0 of integers */
} rk_line_count;

/* What is asked of a backend at once, and its answers. */
typedef struct rk_selection {
    /* in */
    const rk_task *task; /* spec (dtype; shape: rows, row_len, planes, flags MASK, OFFSETS, COLUMNS), and where the data are */
    uint64_t first;      /* results [first, first + lines) of the task: rk_line_of says where the elements of each are */
    uint64_t lines;
    unsigned ranks;       /* ranks of a line, 0 to RK_MAX_RANKS; 0: only count */
    bool own;             /* each line has ranks of its own; else all have the same ones, */
    uint64_t of;          /* ... which are meant for lines with n = of; the elements of other lines are not asked for */
    const uint64_t *rank; /* host memory: own ? lines x ranks : ranks numbers, each line's ascending and below its n. A line of
                             `own` that needs fewer repeats its last one; one that needs none has n in its first place */
    /* out: host memory of the caller, written before `select` returns */
    rk_line_count *count; /* [lines]; always all of them */
    uint64_t *bits;       /* [lines x ranks]: bits of the element at each rank, zero-extended to 64 bits; a bool is 0 or 1 */
} rk_selection;

/* Answer: RP_OK, or the backend's fault (NO_MEMORY, DEVICE_LOST ...). May be called by any of the backend's threads. `impl`:
 * the caller's. */
typedef rp_err rk_select_fn(void *impl, rk_selection *s, rp_fault *f);

/* Run a task of an order statistic by `select`: counts, ranks, cells, t->fault. Rounds: one for lines that all have row_len
 * (or `rows`) elements without a NaN; with a mask, offsets, or NaNs that policy omit skips, one to count and one to
 * select. Memory: 64 KiB lines at a time, at most 128 MiB. */
void rk_select_task(rk_task *t, rk_select_fn *select, void *impl);

#ifdef __cplusplus
}
#endif
#endif
