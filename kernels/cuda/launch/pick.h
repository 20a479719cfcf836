// Which kernels reduce a task, and how its lines are shared among threads: pick.cu.
#pragma once

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/pass/args.h"

namespace rk {

// How the lines of a task are reduced: see the table in pick.cu
enum Way { kTiles, kBlocks, kShortSums, kWalk };

struct Pick {
    Way way;
    SegmentKernel kernel;
    bool vectors;     // kWalk: columns by vectors
    bool ring;        // ... ahead in shared memory (column_ring.cuh)
    u32 blocks;       // ... as many of an SM run at once
    bool whole;       // kWalk: columns by vectors, whole ones by a thread (columns_whole.cu)
    bool planes;      // ... by shared memory
    bool masked;      // kWalk: long rows with a mask by vectors
    bool near;        // kWalk: lines of one team, by near sums or products
    bool blocks_each; // ... which is a block
    u32 lanes;        // kWalk: that share a row, which stays in their registers; 0: rows go another way
    u32 rows_each;    // kWalk, 1 lane: rows of a thread; 0: as many as turn out
    SegmentFn redo;   // kBlocks: behind the kernel, for rows that are not certain; may be NULL
    u64 longest;      // lines up to this length go that way, longer ones by blocks; kAnyLength: all
    bool finishes;    // kBlocks: the kernel makes the values of all rows, from near sums (moments_f32.cu)
};
constexpr u64 kAnyLength = ~0ull;

Pick pick_kernels(const Device *d, const ChainTask &t, const FinishArgs &a);

// How well items that take one time fill blocks of which as many run at once
inline double fill_of(u64 items, u64 at_once) { return (double)items / (double)((items + at_once - 1) / at_once * at_once); }

bool skips_nans(const rp_spec &s);

// Sums of floats, of magnitudes and squares too, and stats
bool is_float_sum(const rp_spec &s, int layout);

u64 mean_length(const rp_spec &s);
WalkShape walk_shape(const rp_spec &s);

// Do the kernels of lines_float.cu make this value themselves?
bool makes_values(const rp_spec &s);

} // namespace rk
