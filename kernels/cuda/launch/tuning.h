// Numbers that decide which kernel is taken when, and how large, on any card.
#pragma once

#include "kernels/cuda/pass/plan.h"

namespace rk {

// Numbers that come from measuring, not from the hardware's description.
struct Tuning {
    u32 short_row = 64;      // rows up to this many elements share blocks: a walk of them takes as long as a block's two ends
    u32 short_rows_min = 32; // ... if there are at least this many rows: fewer than a warp leave it idle
    u64 long_line = 1 << 15; // lines up to this many elements may be left to one warp
    u64 long_row_bytes = 4 << 10;   // sums of floats: mean bytes of lines from which a lane has more loads in flight (H200:
                                    // 10^6 rows of 1024 f32 take 898 us instead of 962; rows of 32 elements 82, not 60)
    u64 walkers_per_sm = 1024;      // the general way: threads that keep an SM busy
    u32 fan_in_words = 40000;       // what one block joins of partials: 570 of a f64 sum, more take longer than one more launch
    u64 long_walk = 2048;           // sums of floats: mean length of lines from which walkers take vectors
    u64 near_line = 16;             // squares: mean length of lines from which near sums pay
    u64 thread_rows = 1 << 14;      // rows of a few f32 from which a thread goes through several of them: var, norms
    u64 near_column = 4096;         // products, pairs: length of columns up to which few of them are not left to states
    u64 near_share = 128;           // ... elements of a lane that are worth joining it with others: of 32, f64 var of 16384
                                    // rows of 1024 takes 68 us instead of 63
    u64 lane_bytes = 64;            // of other values: bytes of a lane, the same: four vectors
    u64 near_block_line = 32 << 10; // squares: bytes of a line that keep a block busy: a tile of each of 256 threads
    u64 least_walk = 16;            // ... and elements below which another walker on a line is not worth its partial
    size_t walk_shared = 48 << 10;  // of a block of walkers with a state each: what every device gives without asking
    u64 block_row = 16 << 10;       // bytes of a row from which a block of its own is worth while: a tile of its threads
    u64 ring_rows = 32;             // sums of columns by a ring: rows from which this pays (H200: of 16 rows a sum takes
                                    // 710 us instead of 640, var 1393 instead of 882)
    u64 ring_rows_of_squares = 96;  // ... the same of squares (of 64 rows var takes 534 us instead of 483)
    u64 ring_rows_of_others = 8;    // ... the same of other floats than f32: a tile
    u64 ring_columns = 1ull << 32;  // ... columns at most: their vectors are counted by 32 bits
    u64 ring_share = 64;            // ... rows of a thread that are worth the end of an item
    u64 whole_turns = 2;            // turns of threads from which they have whole columns
    double column_fill = 0.9;       // ... share of blocks that do something while any does: items are wide if they keep it
    u64 ticket_rounds = 16;         // tiles that each block has at least, if some go by tickets (segment.cuh)
    u64 ticket_share = 16;          // ... one tile of this number goes by a ticket then: SMs do not read at the same speed (of
                                    // 8: sums 0.2 to 0.4 % slower, for drawing takes time)
    u64 near_row = 1 << 24;         // moments: elements of a row up to which near sums pay
    u64 near_f64_row = 1 << 21;     // ... of f64; some far data are summed again by one block
    u64 bounded_row = 1 << 22;      // elements of a row from which what two bounds leave in doubt has a launch of its own
    u64 bounded_f64_row = (1 << 22) + 1;          // ... of f64: 2^22 in one launch take 10.0 us, in two 12.3 (H200)
    u64 bounded_spread[2] = {48 << 10, 24 << 10}; // ... bytes of one whose variance is asked for, of f64: more than a tile
    u64 bounded_mean = 1 << 24;                   // ... from which a mean of f32 has no kernel that finishes it
    u32 waves = 1; // blocks an SM gets over the run, as a multiple of what it holds at once: persistent
                   // blocks, to which the tiles are handed out round-robin
};

constexpr Tuning kTuning = {};

} // namespace rk
