// The last step of pairs: their state becomes a cell. Kernels of other operations do without this code.
#pragma once

#include "kernels/cuda/pass/finish.cuh"

namespace rk {

// As write_cell. One thread.
__device__ inline void write_pairs(const FinishArgs &a, u64 line, const rk_state &s, uint64_t *scratch)
{
    uint64_t word;
    if (a.spec.flags & RP_STATES_OUT) {
        write_state(a, line, s);
        return;
    }
    if (rk_pairs_finish(&s, &a.spec, scratch, &word) != RP_OK)
        set_fault(a, line);
    write_bits(a.cell_bytes, a.cells, line, word);
}

// As finish_row. By the first warp of the block, all lanes.
__device__ inline void finish_pairs(const FinishArgs &a, u64 row, const u64 *words, FinishRoom &room)
{
    rk_state &s = room.s.get();
    const WordPlan &p = a.plan;
    const bool first = threadIdx.x % kWarp == 0;
    if (first)
        state_of_words(p, words, &s);
    __syncwarp();
    if (has_sum(p, s.special))
        carry_digits(words, p.sum, s.limb);
    if (!s.special)
        carry_digits(words + p.sum, p.digits - p.sum, s.limb + p.sum / 2);
    __syncwarp();
    if (first)
        write_pairs(a, row, s, room.scratch);
    __syncwarp();
}

} // namespace rk
