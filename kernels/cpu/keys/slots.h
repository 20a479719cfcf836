/* Light accumulators: one slot a group, to which elements are added one at a time, in any order of groups, without a daemon.
 *
 *     rk_slots k;  rk_slots_of(&k, layout, dtype, nan);
 *     each slot: k.bytes of memory, aligned to RK_SLOT_ALIGN;  rk_slot_init
 *     rk_slots_add ...  rk_slot_merge ...  rk_slot_state  -> rk_state, to merge and finish as any other
 *     rk_slot_drop
 *
 * Slots of float sums, of their squares and of products are windows (window.h) and own what they allocate. The others are the
 * state itself. A slot may be moved, with memcpy, as long as one copy is used. States do not depend on the order of additions.
 *
 * Any thread; a slot by one at a time. */
#ifndef RK_SLOTS_H
#define RK_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/exact/state.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RK_SLOT_ALIGN = 8 };
#define RK_SLOT_MOST ((uint64_t)1 << 47) /* elements that a slot takes before rk_slot_settle: windows count to 2^48 */

typedef enum { RK_SLOT_SUM, RK_SLOT_SQUARES, RK_SLOT_PRODUCTS, RK_SLOT_STATE } rk_slot_form; /* products: dot of floats */

typedef struct rk_slots {
    int layout, dtype, nan; /* rp_layout, rp_dtype of the elements, rp_nan */
    rk_slot_form form;
    size_t bytes;   /* of a slot: 32, 64, or those of the state */
    uint64_t *room; /* bytes that whole states of windows may take, as if there were no more memory; NULL: any number */
} rk_slots;

void rk_slots_of(rk_slots *k, int layout, int dtype, int nan);

/* Memory for n slots, to be freed, which are not initialized. NULL: there is none. */
void *rk_slots_room(const rk_slots *k, uint64_t n);

void rk_slot_init(const rk_slots *k, void *slot);

/* Add value element[i], of k->dtype at any alignment, to *slot[i]; its place is first + element[i]. `element` NULL: value i. A
 * slot may be there several times. Returns how many were added: less than n if memory for a sum beyond its window was not
 * there. */
size_t rk_slots_add(const rk_slots *k, void *const *slot, const void *values, uint64_t first, const uint16_t *element,
                    size_t n);

/* The same of pairs (x[i], y[i]), for dot. */
size_t rk_slots_add_pairs(const rk_slots *k, void *const *slot, const void *x, const void *y, size_t n);

/* Add n values to one slot by the loops over elements, which are faster. False: no memory. */
bool rk_slot_add_all(const rk_slots *k, void *slot, const void *values, uint64_t first, size_t n);

/* Elements that a slot has, without skipped NaNs. */
uint64_t rk_slot_count(const rk_slots *k, const void *slot);

/* Merge a checked state of the same layout and type into a slot, or another slot. The counts must fit in sum
 * (rk_count_check). False: no memory; then nothing changed. */
bool rk_slot_merge(const rk_slots *k, void *slot, const rk_state *from);
bool rk_slot_join(const rk_slots *k, void *slot, const void *from);

/* Write the value of a slot, if that is a sum of floats in its window alone, or of nothing: it takes no state. False: it is
 * not. */
bool rk_slot_write_sum(const rk_slots *k, const void *slot, const rp_spec *spec, uint8_t *cell);

/* The state of a slot, canonical. */
void rk_slot_state(const rk_slots *k, const void *slot, rk_state *s);

/* Move all into the slot's whole state, so that it takes RK_SLOT_MOST more. False: no memory; then nothing changed. */
bool rk_slot_settle(const rk_slots *k, void *slot);

/* Free what the slot owns. */
void rk_slot_drop(const rk_slots *k, void *slot);

#ifdef __cplusplus
}
#endif
#endif
