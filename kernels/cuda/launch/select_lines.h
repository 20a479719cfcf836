// Selection of elements at ranks: pass/select_args.h says how.
#pragma once

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/pass/select_args.h"

namespace rk {

constexpr u64 kSelectLeastRoom = 4096;

// Lines in one piece each. Pointers are the device's.
struct LineSet {
    int dtype;
    const void *data; // lines x n elements, n at least 1, aligned to their size
    const void *mask; // a byte for each, or NULL
    u64 lines, n;
};

struct SelectTask : LineSet {
    const rk_order_rule *rules; // a pair of ranks each
    u32 pairs;                  // any number
    u64 *found;                 // found_words(pairs) of each line
    // Of one kth among long lines, for those of some lines (SelectArgs)
    const u32 *asked;
    u32 asked_step;
    bool nans_first, falling;
};

// Bytes of scratch that suffice, with room for kSelectLeastRoom keys, and those with which no element needs to be read twice
// as a rule.
u64 select_least_scratch(const SelectTask &t);
u64 select_good_scratch(const SelectTask &t);

// Enqueue all of it: no host round trip in between. Scratch is aligned to 256, and need not be zero.
cudaError_t select_launch(Device *d, const SelectTask &t, void *scratch, u64 bytes, cudaStream_t stream);

} // namespace rk
