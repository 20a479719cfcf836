/* Inside the library: what the calls on states share. */
#ifndef RC_STATE_H
#define RC_STATE_H

#include <stddef.h>

#include "client/reduce.h"
#include "kernels/exact/state.h"

/* Is there a state of (op, dtype), and room for it at `state`? 0, or the reported error. */
int rc_state_room(const void *state, size_t size, int op, int dtype);

/* Copy the caller's state of at most `size` bytes, if it is well formed. 0, or the reported error. */
int rc_state_take(rk_state *s, const void *state, size_t size);
/* Copy it to the caller's memory, which is large enough. */
void rc_state_give(void *state, const rk_state *s);

/* May the two be merged? The fault is filled. */
rp_err rc_state_pair(const rk_state *a, const rk_state *b, rp_fault *f);

/* The spec of `n` values at `results`, checked; the value of the i-th of `n` states, which is used up, and has `size` bytes. 0,
 * or the reported error. */
int rc_state_spec(const reduce_spec *spec, rp_spec *checked, const void *results, size_t n, size_t room);
int rc_state_value(rk_state *s, size_t i, size_t n, const rp_spec *spec, size_t size, void *result);

#endif
