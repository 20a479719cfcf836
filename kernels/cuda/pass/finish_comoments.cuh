// The last step of cov and corr: the words of a row become its state or its cell. Kernels of other operations do without this
// code.
#pragma once

#include "kernels/cuda/pass/finish.cuh"

namespace rk {

// Shared memory that this takes
struct ComomentRoom {
    u64 state[RP_MAX_STATE / sizeof(u64)];
    uint64_t scratch[RK_CO_SCRATCH];
};

// The row whose words are all in `words` (shared): its state, or its value. By the first warp of the block, all lanes.
static __device__ __noinline__ void finish_comoments(const FinishArgs &a, u64 row, const u64 *words, ComomentRoom &room)
{
    rk_state &s = *(rk_state *)room.state;
    const WordPlan &p = a.plan;
    const bool first = threadIdx.x % kWarp == 0;
    if (first)
        state_of_words(p, words, &s);
    __syncwarp();
    for (int k = 0; !s.special && k < rk_numbers(p.layout); k++) {
        const int at = rk_number_at(p.layout, k);
        carry_digits(words + 2 * at, 2 * rk_number_limbs(p.layout, k), s.limb + at);
    }
    __syncwarp();
    if (first && a.spec.flags & RP_STATES_OUT) {
        write_state(a, row, s);
    } else if (first) {
        uint64_t word;
        if (rk_comoments_finish(&s, &a.spec, room.scratch, &word) != RP_OK)
            set_fault(a, row);
        write_bits(a.cell_bytes, a.cells, row, word);
    }
    __syncwarp();
}

} // namespace rk
