/* Many ranks of one line: two passes, whatever their number. The first counts keys in a thousand slots between keys of the
 * sample; the second keeps the keys of those slots that hold a rank.
 *
 *     rk_rank_slots_open -> rk_rank_slots_pass over parts of the line, by any threads -> rk_rank_slots_find, for each
 *     rank; `wanted` and `inside` are set -> rk_rank_slots_keep -> rk_rank_slots_pass again -> `kept`, `keys` ->
 *     rk_rank_slots_close */
#ifndef RK_CPU_RANK_SLOTS_H
#define RK_CPU_RANK_SLOTS_H

#include "kernels/cpu/order/bins.h"

enum { RK_RANK_SLOTS = 1024 };

typedef struct rk_rank_slots {
    rk_bins bins;
    rp_spec spec;
    bool keeping;
    bool wanted[2 * RK_RANK_SLOTS + 2];
    uint64_t inside, kept; /* keys of wanted slots; those that the second pass has found */
    uint8_t *keys;         /* room for `inside` */
} rk_rank_slots;

/* For keys of `line`, by its sorted sample of k. NULL: no memory. */
rk_rank_slots *rk_rank_slots_open(const rk_simd *simd, const rk_reader *line, const rk_keys *keys, const uint64_t *sample,
                                  size_t k);
void rk_rank_slots_pass(rk_rank_slots *s, const rk_reader *line, uint64_t from, uint64_t to);

/* The first pass is over: the slot of a rank. Its keys are lo to hi; `below` keys of the line are less, `inside` are there. */
typedef struct rk_slot_found {
    uint64_t lo, hi, below, inside;
} rk_slot_found;
uint32_t rk_rank_slots_find(const rk_rank_slots *s, uint64_t rank, rk_slot_found *f);
uint64_t rk_rank_slots_nans(const rk_rank_slots *s);
uint64_t rk_rank_slots_all(const rk_rank_slots *s);

/* Keep the wanted slots in the next pass. False: no memory. */
bool rk_rank_slots_keep(rk_rank_slots *s);
void rk_rank_slots_close(rk_rank_slots *s);

#endif
