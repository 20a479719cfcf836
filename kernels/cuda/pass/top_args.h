// The k best elements of a line and their places. What the launcher and the kernels share.
//
// An element's score is its key (select_args.h), for `smallest` one by which elements go down: the best has the highest. That
// of a NaN is above all. Items are a score and a place: of equal scores the lower place is better, so no two are equal.
//
//   sample    many groups of elements, spread over the line, leave their best items. One of these, chosen by its rank among
//             them, is the bound: k items are at least as good with near certainty, and not many more
//   gather    reads the line: keeps the items that are at least as good as the bound
//   select    if these are not k, or too many: the score of the k-th best, by selection (select_args.h)
//   ties      ... and the place of the last element with this score that belongs to the k best
//   gather    ... again, with this bound
//   sort      tiles of items in shared memory, of which the best k stay
//   merge     runs, until one is left
//   finish    to cells
//
// Short lines, from registers, leave k items, and go on with sort.
#pragma once

#include "kernels/cuda/pass/select_args.h"

namespace rk {

constexpr u32 kTopGroupsLog2 = 12, kTopGroups = 1 << kTopGroupsLog2; // of a sample
constexpr u32 kTopGroup = 256;                                       // elements of one, at most
constexpr u32 kTopNearLog2 = 1, kTopNear = 1 << kTopNearLog2;        // groups that have neighbours of each other
constexpr int kTopThreads = 256;                                     // of a block that reads the line
constexpr u32 kTopTile = 1024;                                       // items that a block sorts, at most
constexpr u32 kTopSmallTile = 256;                                   // ... sooner, where one merge follows
constexpr u32 kTopFan = 32;                                          // runs that are merged at once, at most
constexpr u32 kTopStretches = 1024;                                  // of a line, whose ties are counted

struct alignas(16) TopItem {
    u64 score, place;
};

RK_FN bool is_better(TopItem a, TopItem b) { return a.score > b.score || (a.score == b.score && a.place < b.place); }

struct TopState {
    u64 score, place; // the bound
    u64 kept;         // items
    u64 better;       // elements that have more than its score
    u32 arrived;      // blocks of a launch
    u32 failed;       // the bound is not good
};

struct TopArgs {
    const unsigned char *data, *mask; // as of SelectArgs
    u64 n, lines;
    KeyRule key;
    bool nans;        // they take part
    bool all;         // all elements are kept: there is room for them
    bool again;       // after `ties`
    u64 k, room;      // items wanted, not more than n; items there is room for, of each line
    u32 group_log2;   // elements of a sample's group
    u32 rank;         // of the bound among the groups' best
    TopState *states; // of each line, zero before
    TopItem *items;   // ... room of them
    TopItem *sample;  // ... kTopGroups of them
    u64 *ties;        // ... a number for each stretch
    const u64 *found; // ... what was found by selection
    u32 found_words;
};
using TopFn = void (*)(TopArgs);

struct TopRuns {
    TopItem *from, *to;
    const TopState *states;
    u64 k, room;
    u64 length; // of a run, but for the last one: `merge` makes one of `fan`
    u32 fan;
};
using TopRunsFn = void (*)(TopRuns);

struct FinishTop {
    const TopItem *items;
    const TopState *states;
    u64 k, room; // k: of the cell
    u64 lines, first_line, index_base;
    KeyRule key; // of the type, not falling
    bool falling;
    u8 dtype, out, nan;
    u32 bytes;            // of a value
    u64 cell, indexes_at; // bytes
    unsigned char *cells;
    u32 *fault;
    u64 *bad; // explain: the bits of the first element of the first line that does not fit, or of a NaN
};
using FinishTopFn = void (*)(FinishTop);

struct TopKernels {
    TopFn sample, gather, ties; // by an element's size
    TopFn warp_rows[4], block_rows;
};
template <int kBytes> void top_long_part(TopKernels *k); // ops/top_long.cu
template <int kBytes>
void top_rows_part(TopKernels *k); // ops/top_rows.cu: their keys go the other way, from the best element on

struct TopEnds {
    TopRunsFn sort, merge;
    FinishTopFn finish, explain;
};
TopEnds top_ends(); // ops/top_sort.cu

} // namespace rk
