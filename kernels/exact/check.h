/* Checks of partial states from outside: could any elements have them? Pure, thread-safe. */
#ifndef RK_CHECK_H
#define RK_CHECK_H

#include "kernels/exact/state.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RK_STATE_HEAD = 16 }; /* bytes before the limbs */

/* Is a partial state from outside well formed for this op and element type? Errors: BAD_MESSAGE with the field. Engines check
 * every state of a RP_STATES_IN task with it. */
rp_err rk_state_check(int op, int dtype, const void *state, size_t bytes, rp_fault *f);

/* Copy the state at the front of `bytes` bytes, whose head says how many of them it has, if it is well formed for its layout
 * and element type. Errors: as rk_state_check. */
rp_err rk_state_take(rk_state *s, const void *state, size_t bytes, rp_fault *f);

/* NaNs that a state counts beside its elements. */
uint64_t rk_nans_beside(const rk_state *s);

/* May states be merged if their elements and NaNs add up to these counts? Errors: TOO_LARGE. */
rp_err rk_count_check(uint64_t count, uint64_t nans, rp_fault *f);

#ifdef __cplusplus
}
#endif
#endif
