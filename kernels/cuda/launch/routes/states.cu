// Tasks that begin in another form: partial states instead of elements.
#include "kernels/cuda/launch/routes.h"

namespace rk {

bool fits_states(const Asked &q, WalkFn *) { return q.s.flags & RP_STATES_IN; }

cudaError_t launch_states(const Asked &q, WalkFn)
{
    const u64 per_row = q.s.row_len, state_words = rp_state_size(q.layout) / 8;
    const u64 batch = per_row ? q.scratch.words / (per_row * q.a.plan.all) : q.s.rows;
    if (batch == 0)
        return cudaErrorMemoryAllocation;
    for (u64 first = 0; first < q.s.rows; first += batch) {
        const u64 left = q.s.rows - first;
        TRY_CUDA(
            join_states(q, (const u64 *)q.t.data + first * per_row * state_words, left < batch ? left : batch, per_row, first));
    }
    return cudaSuccess;
}

} // namespace rk
