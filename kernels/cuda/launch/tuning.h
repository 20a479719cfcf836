// Numbers that decide which kernel is taken when, and how large.
#pragma once

#include "kernels/cuda/pass/plan.h"

namespace rk {

// Numbers that come from measuring, not from the hardware's description.
struct Tuning {
    u32 short_row;      // rows up to this many elements share blocks
    u32 short_rows_min; // ... if there are at least this many rows
    u64 long_line;      // lines up to this many elements may be left to one warp
    u32 fan_in_words;   // what one block joins of partials, in words
    u64 middle_f64_row; // f64 sums of rows from this length on have larger blocks
    u64 long_f64_row;   // ... and from this one on more loads in flight
    u64 walkers_per_sm; // the general way: threads that keep an SM busy
    u64 long_walk;      // sums of floats: mean length of lines from which walkers take vectors
    u64 least_walk;     // ... and elements below which another walker on a line is not worth its partial
    size_t walk_shared; // bytes of shared memory of a block of walkers with a state each
    u64 long_rows;      // float sums: mean bytes of lines from which a lane has more loads in flight
    u64 block_row;      // bytes of a row from which a block of its own is worth while
    u32 waves;          // blocks an SM gets over the run, as a multiple of what it holds at once
};

constexpr Tuning kTuning = {
    64, // a serial walk of 64 elements takes about as long as a block's prologue and epilogue
    32, // fewer rows than a warp leave it idle
    1ull << 15,
    40000,      // 570 partials of a f64 sum: more take longer than one more launch
    1ull << 18, // 2 MiB: 1 to 4 % faster from there on, 1 to 2 % slower below (H100, 2026-11-21)
    1ull << 24, // 128 MiB: 1 % faster from there on, 3 % slower at 32 MiB
    1024,       2048, 16,
    48u << 10, // what every device gives a block without asking
    4u << 10,  // a lane's 8 vectors: 898 instead of 962 us of 10^6 rows of 1024 f32 (H200, 2026-11-22); 32 elements 82, not 60
    16u << 10, // a tile of a block's threads
    1,         // persistent blocks: the tiles are handed out round-robin
};

} // namespace rk
