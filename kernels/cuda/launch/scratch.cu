// How much device memory a task's launches share, and what is zero in it.
#include "kernels/cuda/launch/scratch.h"

#include <algorithm>

#include "kernels/cuda/launch/launch.h"

namespace rk {

// Bytes of one message's worth of states as partials. Worked out once: every launch asks.
static const u64 most_partials = [] {
    u64 most = 0;
    for (int layout = 0; layout < RP_LAYOUT_COUNT; layout++) {
        u64 bytes = RP_MAX_DATA / rp_state_size(layout) * (own_words(layout) + kTailWords) * sizeof(u64);
        most = bytes > most ? bytes : most;
    }
    return most;
}();

// Of order statistics: what does not fit goes in several launches (of 19 MB, 4096 rows of 65536 took half as many again).
constexpr u64 kLeastScratch = 25u << 20;

// Those in one row, or a list of lines, and a little more for the middle pass; then doubts.
size_t chain_scratch_bytes()
{
    const u64 most = std::max({most_partials, kMostListed * sizeof(u64), kLeastScratch});
    const u64 bytes = sizeof(ScratchHead) + most + most / (kScratchParts - 2);
    return (bytes + 15) / 16 * 16 + kMostDoubts * sizeof(u64); // partials of a list are aligned to 16
}

cudaError_t chain_scratch_clear(void *scratch, cudaStream_t stream) { return gpu_clear(scratch, sizeof(ScratchHead), stream); }

} // namespace rk
