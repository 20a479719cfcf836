// Tasks that begin or end in another form: partial states instead of elements; values narrower than f64.
#include "kernels/cuda/launch/routes.h"
#include "kernels/cuda/launch/routes/walk.h"
#include "kernels/cuda/ops/registry.h"

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

// ---- narrow values ----

// Are there many lines whose values the kernels make only in f64? Tiles and blocks make all.
bool fits_narrow(const Asked &q, WalkFn *fn)
{
    return !fits_tiles(q, fn) && !fits_blocks(q, fn) && q.s.out != RP_F64 && q.lines > 1 && q.lines <= kMostWide && q.floats &&
           !rk_is_stats(q.layout) && !(q.s.flags & (RP_STATES_OUT | RP_INITIAL)) && q.pairs;
}

// Finish the lines that the narrowing kernel has listed.
static cudaError_t walk_ties(const Asked &q)
{
    Walk x = walk_of(q, NULL, walk_lanes(q.length));
    x.w.lines = q.lines;
    x.w.longest = kAnyLength;
    return walk_uncertain(q, x.w, q.d->overlapped_launch);
}

// The same request with values in f64, then these to the format that is asked for.
cudaError_t launch_narrow(const Asked &q, WalkFn)
{
    constexpr int kThreads = 256;
    ChainTask wide = q.t;
    wide.spec.out = RP_F64;
    wide.cells = q.scratch.wide;
    TRY_CUDA(q.take(q.d, wide, q.memory, q.stream, q.route));
    for (u64 first = 0, some; first < q.lines; first += some) {
        some = q.lines - first < kMostListed ? q.lines - first : kMostListed;
        TRY_CUDA(gpu_launch(q.d->overlapped_launch, narrow_kernel(), walk_blocks(q.d, some, kThreads), kThreads, 0, q.stream,
                            q.a, (const u64 *)q.scratch.wide, first, some, q.scratch.list));
        TRY_CUDA(walk_ties(q));
    }
    return cudaSuccess;
}

} // namespace rk
