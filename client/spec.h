/* What to reduce, as the user said it, checked. */
#ifndef RC_SPEC_H
#define RC_SPEC_H

#include "client/reduce.h"
#include "client/tiling.h"
#include "proto/types.h"

/* The spec that the user gave in this version, whatever is in it. 0, or the error, in `f`. */
int rc_take_spec(const reduce_spec *given, reduce_spec *mine, rp_fault *f);

/* Check the spec that the user gave (rows apart, which the library may split): *mine is it in this version, *s is ready for the
 * wire, with rows, row_len and the decimals of quantiles left to the caller. 0, or the error, in `f`. */
int rc_spec(const reduce_spec *given, reduce_spec *mine, rp_spec *s, rp_fault *f);

/* The same where weights may come with the pieces: then the spec has none, but may say their type. */
int rc_spec_in_pieces(const reduce_spec *given, reduce_spec *mine, rp_spec *s, rp_fault *f);

/* The same, and the number of results for `bytes` bytes of elements. */
int rc_results(const reduce_spec *given, size_t bytes, reduce_spec *mine, rp_spec *s, uint64_t *results, rp_fault *f);

/* Has the operation partial states? 0, or the reported error: an order statistic needs all elements at once. */
int rc_has_states(int op);

/* Has an operation on elements its second operand? 0, or the error. */
int rc_check_paired(const rp_spec *s, rp_fault *f);

/* The element type of the states of a spec. */
int rc_states_dtype(const reduce_spec *g);

/* Is there one result, of all elements? */
static inline bool rc_is_whole(const rc_level *l)
{
    return l->lines == 1 && !l->offsets && !(l->spec.flags & (RP_COLUMNS | RP_KEYS));
}

/* The lines of a job and how long they are, from the bytes of its data; l->spec and l->item are set. 0, or the error. */
int rc_shape(rc_level *l, const reduce_spec *g, size_t bytes, rp_fault *f);

#endif
