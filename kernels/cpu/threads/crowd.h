/* How many threads help a call, by how much processor time those of earlier calls got. On a loaded machine threads only take
 * the processors from one another: 16 processes on 16 cores read 1,749 arrays of 64 MiB a second with a thread each and 1,405
 * with up to 16 each (H200, Xeon, 2026-11-28). */
#ifndef RK_CROWD_H
#define RK_CROWD_H

#include <stdatomic.h>
#include <stdint.h>

/* All zero: nothing is known. Any thread; a count that is lost between two of them does no harm. */
typedef struct rk_crowd {
    atomic_int most;     /* helpers, less one; 0: no limit so far */
    atomic_uint without; /* calls since the last that had any */
    atomic_uint patience;
    _Atomic uint64_t helped_ns; /* when the last that had any began */
} rk_crowd;

/* Of `wanted` helpers, those that are worth their start. Where none is, one is tried again after 8 calls, then after twice as
 * many, up to 256; and after 200 ms: meanwhile the process may have rested, or its calls may have become longer. */
int rk_crowd_helpers(rk_crowd *c, int wanted, uint64_t now_ns);

/* Nothing is known again: the next call has all that it wants. */
void rk_crowd_forget(rk_crowd *c);

/* A call had n > 0 helpers. It took wall_ns, in which it and they had used_ns of processors. */
void rk_crowd_note(rk_crowd *c, int n, uint64_t used_ns, uint64_t wall_ns);

#endif
