// Numbers that decide which kernel is taken when, and how large, on any card. Those that differ: tuning_table.h.
#pragma once

#include "kernels/cuda/pass/plan.h"

namespace rk {

// Numbers that come from measuring, not from the hardware's description.
struct Tuning {
    u32 short_row;            // rows up to this many elements share blocks
    u32 short_rows_min;       // ... if there are at least this many rows
    u64 long_line;            // lines up to this many elements may be left to one warp
    u32 fan_in_words;         // what one block joins of partials, in words
    u64 long_walk;            // sums of floats: mean length of lines from which walkers take vectors
    u64 near_line;            // squares: mean length of lines from which near sums pay
    u64 near_share;           // ... elements of a lane that are worth joining it with others
    u64 lane_bytes;           // of other values: bytes of a lane, the same
    u64 near_block_line;      // squares: bytes of a line that keep a block busy
    u64 least_walk;           // ... and elements below which another walker on a line is not worth its partial
    size_t walk_shared;       // bytes of shared memory of a block of walkers with a state each
    u64 block_row;            // bytes of a row from which a block of its own is worth while
    u64 ring_rows;            // sums of columns by a ring: rows from which this pays
    u64 ring_rows_of_squares; // ... the same of squares
    u64 ring_rows_of_others;  // ... the same of other floats than f32
    u64 ring_columns;         // ... columns at most: their vectors are counted by 32 bits
    u64 ring_share;           // ... rows of a thread that are worth the end of an item
    u64 whole_turns;          // turns of threads from which they have whole columns
    double column_fill;       // ... share of blocks that do something while any does: items are wide if they keep it
    u64 ticket_rounds;        // tiles that each block has at least, if some go by tickets (segment.cuh)
    u64 ticket_share;         // ... one tile of this number goes by a ticket then: SMs do not read at the same speed
    u64 near_row;             // moments: elements of a row up to which near sums pay
    u64 near_f64_row;         // ... of f64; some far data are summed again by one block
    u32 waves;                // blocks an SM gets over the run, as a multiple of what it holds at once
};

constexpr Tuning kTuning = {
    64, // a serial walk of 64 elements takes about as long as a block's prologue and epilogue
    32, // fewer rows than a warp leave it idle
    1ull << 15,
    40000,                       // 570 partials of a f64 sum: more take longer than one more launch
    2048,       16,         128, // of 32 f64 var of 16384 rows of 1024 takes 68 us instead of 63
    64,                          // four vectors
    32u << 10,                   // a tile of each of 256 threads
    16,
    48u << 10, // what every device gives a block without asking
    16u << 10, // a tile of a block's threads
    32,        // of 16 rows an H200 takes 710 us for a sum instead of 640, 1393 for var instead of 882
    96,        // of 64 rows 534 us for var instead of 483
    8,         // a tile
    1ull << 32, 64,         2,   0.9, 16, 16, // of 8: sums 0.2 to 0.4 % slower, for drawing takes time
    1ull << 24, 1ull << 21,
    1, // persistent blocks: the tiles are handed out round-robin
};

} // namespace rk
