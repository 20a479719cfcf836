/* States as they travel in a message: of their sums only the limbs that some rank has something in. Most elements of a field
 * are of like size, so a sum of f64 takes 40 bytes rather than 288.
 *
 * A span is a range of limbs, with 32 bits to spare for what 2^32 ranks add. Spans join to the smallest that has both. As that
 * does not depend on an order, neither do the states, nor how many of them fit. Pure. */
#ifndef RC_PACKED_H
#define RC_PACKED_H

#include "kernels/exact/state.h"

/* Limbs [from, from + n) of the sum, and of the sum of squares or products; n = 0: it is 0. */
typedef struct rc_spans {
    uint8_t from[2], n[2];
} rc_spans;

rc_spans rc_spans_of(const rk_state *s);
rc_spans rc_spans_join(rc_spans a, rc_spans b);

/* Bytes of a state with these spans, a multiple of 8. */
size_t rc_packed_size(int layout, rc_spans spans);

void rc_pack(uint8_t *to, const rk_state *s, rc_spans spans);

/* Returns the bytes that the state took, of the `bytes` bytes at `from`. 0: they are not a packed state. */
size_t rc_unpack(rk_state *s, rc_spans *spans, const uint8_t *from, size_t bytes);

/* Pack the merge of two packed states, of left[0] bytes at `a` at most and left[1] at `b`, at `to`. Returns its bytes, and in
 * `left` those of the two. 0: they are not sums that this can add, or have no room; then unpack, merge and pack them. Whether a
 * sum is possible is not checked, as it is when it is finished. */
size_t rc_join_sums(uint8_t *to, size_t room, const uint8_t *a, const uint8_t *b, size_t left[2]);

#endif
