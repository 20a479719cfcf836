// Device memory that the launches of a task share.
#pragma once

#include "kernels/cuda/pass/args.h"
#include "kernels/cuda/pass/whole.h"

namespace rk {

// Where partials go: pass 1 writes `a`; a middle pass leaves at most a 36th of them in `b` (a block joins at least half
// of fan_in_words / kMostWords partials), and the next one comes back to `a`.
struct Scratch {
    RowTotal *totals; // kRowTotals of them, then the slots
    u64 *list;        // of lines: their number, then, in `a`, which
    u64 *a, *b;
    u64 words;   // of `a`
    u64 *doubts; // FinishArgs.doubts: kMostDoubts words
};

constexpr u64 kScratchParts = 32;       // `b` is one of this many parts
constexpr u64 kMostDoubts = 1ull << 17; // of rows of 2^22 elements or more, or of what the blocks of a list leave

// What is zero before a launch and after it.
struct ScratchHead {
    RowTotal totals[kRowTotals];
    Slot slots[kSlots];
    u64 done, listed; // blocks that have read the list, and its lines
};

// Its parts, in memory of a task
Scratch scratch_of(void *memory, size_t bytes);

} // namespace rk
