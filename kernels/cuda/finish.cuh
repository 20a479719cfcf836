// The last steps of the chain: join partials, and turn what is left of a row into its state and its cell.
#pragma once

#include "kernels/cuda/common.cuh"

namespace rk {

// What the finish needs of the request.
struct FinishArgs {
    u8 layout, dtype, nan, out;
    bool states_out, least;
    u32 words;      // of a partial
    u32 cell_bytes;
    void *cells;
    u32 *fault;
};

// Write the finished row: its state, or its value.
__device__ inline void write_cell(const FinishArgs &a, u64 row, const rk_state &s)
{
    if (a.states_out) {
        u64 *cell = (u64 *)((unsigned char *)a.cells + row * a.cell_bytes);
        const u64 *words = (const u64 *)&s;
        for (u32 i = 0; i < a.cell_bytes / 8; i++)
            cell[i] = words[i];
        return;
    }
    uint64_t bits;
    if (rk_state_finish(&s, a.nan, a.out, &bits) != RP_OK)
        *a.fault = 1;
    if (a.cell_bytes == 8)
        ((u64 *)a.cells)[row] = bits;
    else if (a.cell_bytes == 4)
        ((u32 *)a.cells)[row] = (u32)bits;
    else
        ((uint16_t *)a.cells)[row] = (uint16_t)bits;
}

// The canonical state that the words of a partial stand for.
__device__ inline void state_of_words(const FinishArgs &a, const u64 *words, rk_state *s)
{
    rk_state_init(s, a.layout, a.dtype);
    u32 own = a.words - kTailWords;
    u32 flags = (u32)words[own + kWordFlags];
    s->count = words[own + kWordCount];
    s->special = flags & kFlagSpecial;
    s->nz = (flags & kFlagNz) != 0;
    s->skipped = (flags & kFlagSkipped) != 0;
    switch (a.layout) {
    case RP_STATE_SUM32:
    case RP_STATE_SUM64:
    case RP_STATE_INT:
        if (!s->special)
            rk_limbs_of_digits((const int64_t *)words, s->limb, rk_limbs(a.layout));
        break;
    case RP_STATE_COUNT:
        s->limb[0] = words[0];
        break;
    default:
        if (s->count == 0)
            break;
        s->limb[0] = rk_unrank(a.dtype, a.least, words[0]);
        if (a.layout == RP_STATE_ARGMIN || a.layout == RP_STATE_ARGMAX)
            s->limb[1] = words[1];
    }
}

// The row that `words` are all of: its state, finished. One thread; kept out of line, since it is no part of the loops.
static __device__ __noinline__ void finish_row(const FinishArgs &a, u64 row, const u64 *words)
{
    rk_state s;
    state_of_words(a, words, &s);
    write_cell(a, row, s);
}

} // namespace rk
