// The arguments of each family of kernels, and what a launcher must know about a kernel.
#pragma once

#include "kernels/cuda/pass/plan.h"

namespace rk {

// ---- whole rows: segment.cuh, tile.cuh ----

// Where the blocks of a row meet: last_block.cuh
struct RowTotal {
    u64 words[kMaxWords]; // of a partial: what blocks have added
    u32 arrived;          // light reductions: blocks that have arrived
    u32 drawn;            // tickets, of one part of the blocks
};

constexpr u64 kRowTotals = 1024; // rows of a launch, where several blocks share each
constexpr u32 kDrawers = 8;      // counters of tickets (segment.cuh), each for some of the blocks
constexpr u64 kSlots = 4096;     // blocks of a row, where one of them waits for the others

// What a block leaves of its part of a row, where one block waits for the others: sum_twosum.cu. Slots lie behind the totals.
struct alignas(16) Slot {
    u64 words[4]; // zero: not there
};

// What two bounds may tell the value of: value_bounds.cuh
enum class BoundsOf { Sum, Squares, Spread };

struct SegmentArgs {
    u64 rows;
    union {
        u64 first_index; // index of element 0 of a row in the whole array (arg ops)
        const u8 *mask;  // a byte for each element of these rows (masked sums, pairs); of pairs perhaps NULL
    };
    u8 layout, dtype;  // rp_layout, rp_dtype
    bool skip;         // NaNs are left out and counted
    bool nan_error;    // policy `error`
    bool doubles;      // the device is fast at them
    u8 decides;        // the bool that decides the result: RK_DECIDES_*
    bool meets;        // there is one row, of several blocks, of which one waits for the others
    bool drops;        // pairs: a weight of 0 leaves its element out
    u16 most_tickets;  // of a warp
    bool again;        // for rows that the launch before has left in doubt (FinishArgs.doubts)
    u32 keep;          // of a float's upper 32 bits: all, or all but the sign
    u32 tickets;       // segment.cuh; of whole tiles. Not 0 only if there is one row, of several blocks
    RowTotal *totals;  // of these rows; kRowTotals, then kSlots slots
    u32 rounds, share; // tiles for each block; vectors of the rest for each, a multiple of a warp's, at most a tile
    // Kernels for tiles read only these fields and the first ones of FinishArgs. They wait for every 64-byte line of arguments
    // that they read; with arguments from 0x210 on (H100) these are in one line.
    const unsigned char *data; // rows x row_len elements
    u64 row_len;
    u64 first_row;    // number of the first of these rows in the request
    u32 element_log2; // log2 of the bytes of an element. Not before row_len: ptxas 13.0 spilled then, in argmax
    union {
        u64 rank_flip;     // min and max: see minmax_arg.cu
        const u8 *weights; // pairs: of these rows
    };
    union {
        u64 inf_bits;     // floats: exponent field all ones, in the element's own width
        u64 weights_each; // pairs: weights from a row to the next; 1: one for all elements of a row
    };
};

// ---- lines: lines.cuh, ops/lines_*.cu ----

constexpr int kWalkThreads = 128;   // of a block
constexpr int kColumnThreads = 256; // of a block of walk_columns
constexpr u32 kColumnWidth = 16;    // columns by vectors: the least number of vectors side by side, unless there are fewer
constexpr u32 kColumnBlocks = 2;    // ... and blocks of an SM
constexpr u32 kColumnRows = 8;      // ... rows of a thread at once
constexpr u32 kRingWidth = 8;       // column_ring.cuh: vectors side by side, unless there are fewer
constexpr u32 kRingRows = 8;        // ... rows of a thread at once
constexpr u32 kRingTiles = 2;       // ... and how often they are in shared memory
constexpr size_t kRingBytes = kRingTiles * kRingRows * kColumnThreads * 16;

constexpr u32 kMaskedBlocks = 3; // of an SM, for long rows with a mask: masked.cuh

struct WalkArgs {
    rp_parts parts;
    u64 first_line; // the lines of this launch: first_line .. first_line + lines
    u64 lines;
    u64 longest; // longer lines are passed over
    u32 walkers; // of a line: whole teams
    u32 team;    // of walkers, each of which leaves a partial
    u32 lanes;   // neighbours in a warp that do a team's work, a power of two; 1 for columns, of which each lane has its own
    u32 run;     // of neighbouring elements that a walker takes together: one, or a vector of 16 bytes
    u32 width;   // walk_columns: columns side by side, for each of which a block has a team; of the kernels by vectors: vectors
    u32 per;     // ... columns of such a vector; otherwise 1
    u32 turns;   // batches of lines that a warp goes through before it finishes them, at most `lanes`: lines_float.cu
    u32 pair_words; // words of a partial in a few doubles (columns_float.cu); 0: partials are as in partial.cuh
    bool values;    // lines have one team, and the value is one that walkers may make: else partials are left
    bool marked;    // walk_listed: lines to be walked are marked in their cells, none is listed
};

// How lines of float sums are walked
enum WalkShape { kShortWalk, kLongWalk, kColumnWalk };

// ... of one team, by near sums: rows and segments by some lanes each, by a block each; columns; rows with the same weights,
// kRowsBeside of which some lanes take together
enum NearShape { kNearLanes, kNearBlock, kNearColumns, kNearBeside };
constexpr u32 kRowsBeside = 4;

// ---- short rows, a thread each: thread_rows.cuh ----

constexpr u32 kPairRows = 4;      // of 8 bytes: rows of a thread
constexpr u32 kStagedVectors = 8; // of longer ones: vectors that a thread reads at once, and of a row at most

// ---- short lines of float sums: sum_short_lines.cu ----

constexpr int kRowThreads = 128;
constexpr int kLineThreads = 32; // of long lines: no warp of a block waits for the longest line of the others

// Equal rows, of elements narrower than f64 and aligned, a thread each (thread_rows.cuh): of 8 bytes; of a few whole vectors.
// Equal rows of a few elements, with one lane each; of whole vectors, aligned, at most 4 for each lane; lines of many vectors
// for each lane; others
enum RowShape { kPairs, kStaged, kTinyRows, kWholeRows, kLongRows, kOtherRows };

struct RowArgs {
    const uint8_t *offsets, *elements; // as in rp_parts
    u64 lines;
    u64 longest;     // longer lines are passed over
    u32 lanes;       // of a line: a power of two up to a warp
    u32 state_words; // of shared memory for each thread
    u32 keep[2];     // of the words of two: all bits or, for magnitudes, all but the elements' signs
    bool skip;       // NaNs are left out and counted
};

// ---- kernels ----

using SegmentFn = void (*)(SegmentArgs, FinishArgs, u64 *partials);
using WalkFn = void (*)(FinishArgs, SegmentArgs, WalkArgs, u64 *partials);
struct ListArgs;
using ListFn = void (*)(SegmentArgs, FinishArgs, ListArgs); // list.cuh
using RowsKernel = void (*)(FinishArgs, RowArgs);
using StatesFn = void (*)(FinishArgs, SegmentArgs, WalkArgs, u64 *partials, u32 state_words, bool again);
using ListedFn = void (*)(FinishArgs, SegmentArgs, WalkArgs, u64 *list, u32 state_words, u32 scratch_at);
using FinishFn = void (*)(FinishArgs, WalkArgs, const u64 *partials, u32 state_words, u32 scratch_at);
using DoubtsFn = void (*)(FinishArgs, WalkArgs, u64 *list);

// A kernel of whole rows with what its launcher must know.
struct SegmentKernel {
    SegmentFn fn;
    int threads, unroll;
    size_t shared_bytes;
    u32 max_per_thread;
    WalkFn walk;          // for shapes that it cannot take (lines.cuh); NULL: there is no fast way
    WalkFn columns;       // for columns by vectors (column_vectors.cuh); may be NULL
    SegmentFn tile;       // for light reductions of rows of a tile or less (tile.cuh); may be NULL
    bool sums = false;    // it knows kAddedBesideSums
    bool tickets = false; // some of its tiles may go by tickets
    bool ends = false;    // it knows FinishArgs.ends
    ListFn list = NULL;   // for many arrays; may be NULL
};

// The kernels of cov and corr by exact sums, of `threads` threads a block, or for short lines fewer warps.
struct ComomentKernels {
    WalkFn lines;    // a line has the blocks of the grid's x; their partials, of each line together, are behind `partials`
    DoubtsFn listed; // lines that near sums have listed; NULL: of integers there are none
    SegmentFn redo;  // whole rows that near sums leave in doubt; NULL, too
    int threads;
};

} // namespace rk
