// How much device memory a task's launches share, and what is zero in it.
#include "kernels/cuda/launch/scratch.h"

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

// Those in one row, or a list of lines, and a little more for the middle pass; then values in f64.
size_t chain_scratch_bytes()
{
    const u64 most = most_partials > kMostListed * sizeof(u64) ? most_partials : kMostListed * sizeof(u64);
    const u64 bytes = sizeof(ScratchHead) + most + most / (kScratchParts - 2);
    return (bytes + 15) / 16 * 16 + kMostWide * sizeof(u64); // values in f64 are aligned to 16
}

cudaError_t chain_scratch_clear(void *scratch, cudaStream_t stream) { return gpu_clear(scratch, sizeof(ScratchHead), stream); }

} // namespace rk
