// Selection: the elements at some ranks of a line, without sorting it. What the launcher and the kernels share.
//
// A long line takes these launches, none of which the host waits for (ops/select_long.cu):
//
//   clear      states and bins are zero
//   brackets   blocks take a sample each and find the keys that enclose a rank with near certainty
//   count      reads the line: counts what lies below brackets and inside, and keeps the keys inside. If many elements are
//              equal to an end of a bracket, these are not kept, but counted apart. A bracket is cut into kBins, by which kept
//              keys are counted, and a rank's bin is its interval. Several brackets of floats are counted by a table
//              (select_cells.cuh), or by comparisons if many elements of a sample are near them
//   digits     again and again: the interval of keys that holds a rank is cut into kBins, whose elements are counted, and the
//              rank's bin is its next interval, until it has few elements, which are collected, or one key. It reads what was
//              kept. It reads the line only if a bracket has missed its rank, or too much was kept
//   last       a block for each interval with few elements selects among them
//
// If brackets by a sample would hold more than there is room for, count is launched before for every kSkip-th tile of the line
// alone, for two ranks beside each pair's: from the bin of the one to that of the other is its bracket then.
//
// Each launch finds in SelectState what the one before it left, and does nothing if nothing is left to do. So a line is read
// once as a rule, and of any data 1 + digit_rounds times.
#pragma once

#include "kernels/cuda/pass/plan.h"
#include "kernels/exact/order_place.h"
#include "kernels/exact/total_order.h"

namespace rk {

constexpr u32 kMostPairs = 5;            // pairs of neighbouring ranks that are looked for at once
constexpr u32 kRanks = 2 * kMostPairs;   // ... and their ranks
constexpr u32 kBounds = 15;              // ends of brackets, then keys that are above all: binary search in four steps
constexpr u32 kPlaces = 2 * kBounds + 1; // below, at and between them
constexpr u32 kBinsLog2 = 11, kBins = 1 << kBinsLog2;
constexpr u32 kSharedIntervals = 5;  // whose bins are in shared memory; others are rare
constexpr u32 kCollected = 1 << 14;  // elements of an interval that one block selects among
constexpr int kSelectThreads = 256;  // of a block that reads the line
constexpr int kRowsThreads = 128;    // of a block whose warps have a short line each
constexpr int kSampleThreads = 1024; // of a block that has a short line, collected keys or a sample of the best
constexpr int kBracketThreads = 512; // of a block that takes a sample: two are on a multiprocessor at once
constexpr int kSampleKeys = 16;      // of a thread. More samples take less time than larger ones
constexpr u32 kMostSamples = 63;     // of a pair: an odd number, at most two a lane
constexpr u32 kSkip = 16;            // tiles of the line, of which one is read to narrow brackets

constexpr u32 digit_rounds(u32 key_bits) { return (key_bits + kBinsLog2 - 1) / kBinsLog2; }

// Keys in a thread's registers, of elements of kBytes bytes
template <int kBytes> constexpr int kKeysOfThread = kBytes == 8 ? 16 : 32;

// Two neighbouring ranks, or one twice, by the number of elements that count.
struct RankPair {
    u64 first, second;
};

RK_FN RankPair ranks_of(const rk_order_rule &r, u64 n)
{
    const rk_place p = rk_order_place(r, n);
    const RankPair pair = {p.at, p.at + (p.part != 0)};
    return pair;
}

struct PairRule {
    rk_order_rule rule;
    RankPair all;    // if all elements of the line count
    double share[2]; // ... which of them are before these ranks
};

inline PairRule pair_rule(const rk_order_rule &r, u64 n)
{
    const RankPair all = ranks_of(r, n);
    return {r, all, {(double)all.first / (double)n, (double)all.second / (double)n}};
}

// How an element's bits become its key: (bits ^ (negative ? turn : 0) ^ flip) - least, which counts from the smallest element
// on. Beyond `range` are NaNs. With `least` it is the element's rk_rank. Of bools (`truths`) the bits are one first.
struct KeyRule {
    u64 turn, flip, least, range;
    bool truths;
};

inline KeyRule key_rule(int dtype)
{
    const u64 sign = 1ull << (8 * rk_bytes(dtype) - 1), all = sign | (sign - 1);
    if (!rk_is_float(dtype))
        return {0, rk_is_signed(dtype) ? sign : 0, 0, dtype == RP_BOOL ? 1 : all, dtype == RP_BOOL};
    const u64 inf = rk_inf_bits(rk_format_of(dtype));
    return {sign - 1, sign, all ^ (sign | inf), (sign | inf) - (all ^ (sign | inf)), false};
}

// The same by which elements go down: from the largest element on. NaNs are beyond `range` again.
inline KeyRule falling_rule(int dtype)
{
    const u64 sign = 1ull << (8 * rk_bytes(dtype) - 1), all = sign | (sign - 1);
    KeyRule r = key_rule(dtype);
    r.least = all - r.range - r.least;
    r.flip ^= all;
    return r;
}

// The bits of the element that has a key.
RK_FN u64 bits_of_key(int dtype, u64 key) { return dtype == RP_BOOL ? key != 0 : rk_unrank(dtype, 0, key); }

// What is found of a line: words. How many elements count, how many others are NaNs; then two keys of each pair, which are not
// set if no element counts.
constexpr u32 kFoundHead = 2;
inline u32 found_words(u32 pairs) { return kFoundHead + 2 * pairs; }

struct SelectState;

struct SelectArgs {
    const unsigned char *data; // lines x n elements, aligned to their size
    const unsigned char *mask; // a byte for each, or NULL: a zero leaves its element out
    u64 n, lines;
    KeyRule key;
    PairRule rules[kMostPairs];
    u32 pairs, first_pair; // ... of all pairs of the lines
    u32 samples;           // of each pair
    u32 skip;              // kSkip: brackets are made narrow; else 1
    u32 most;              // elements of an interval that are collected: at most kCollected
    u32 found_words;       // ... of a line
    u64 room;              // kept keys of a line
    u64 *found;            // of each line
    const u32 *asked;      // NULL, or of each line, asked_step words further: zero leaves a long line alone
    u32 asked_step;
    bool nans_first; // the ranks, which are from the end, count NaNs as the last elements of all
    // Scratch of lines that are longer than a block takes
    SelectState *states;      // of each line; clear_lines makes them zero, and
    u64 *counts;              // ... 2 x pairs x kBins
    unsigned char *collected; // ... 2 x pairs x most keys
    unsigned char *kept;      // ... room keys
};

struct SelectInterval {
    u64 low, width; // keys low .. low + width
    u64 before, n;  // elements below it, and in it
    u32 shift;      // of the width to kBins
    u32 collected;  // its elements are collected: their number so far
    u32 state;
    u32 room; // of counts or of collected keys
};
enum { kCounts, kCollects, kComplete }; // states of an interval

struct SelectState {
    u64 bounds[kRanks]; // ends of brackets: two of each pair
    u64 counts[kPlaces];
    u64 nans, left_out;
    u64 kept;
    u64 n;               // elements that count
    u32 arrived;         // blocks of a launch
    u32 heavy;           // the end of a bracket is the key of many elements
    u32 whole;           // the rounds read the line, not what was kept
    u32 ends;            // bit 2 p: nothing is below the bracket of pair p; 2 p + 1: nothing above
    u32 intervals, open; // ... of which some are not complete
    SelectInterval interval[kRanks];
    u64 rank[kRanks];
    u32 of[kRanks];   // a rank's interval, or kFound
    u32 bins[kRanks]; // after `count`: which bins count a rank's interval, or kNoBins
};
constexpr u32 kFound = ~0u, kNoBins = ~0u;

using SelectFn = void (*)(SelectArgs);

// From what is found of lines to their cells: a value of each pair.
struct FinishSelected {
    const u64 *found;
    u64 n, lines, first_line;
    rk_order_rule rules[kMostPairs];
    rk_place all[kMostPairs]; // if all n elements of the line count
    u32 pairs, first_pair, found_words;
    u32 values, bytes; // values of a cell; bytes of one
    u8 dtype, out, nan;
    void *cells; // of the request, whose line first_line is the first of these
    u32 *fault;
};
using FinishSelectedFn = void (*)(FinishSelected);
FinishSelectedFn finish_selected_kernel(); // ops/select_finish.cu

// Lines that are not in one piece, gathered: result first + i becomes the n elements from `to` + i * n on.
struct GatherLines {
    const unsigned char *from;
    unsigned char *to;
    u64 first, lines, n;
    u64 rows, row_len; // of a plane
};
using GatherFn = void (*)(GatherLines);
constexpr int kGatherThreads = 256;
GatherFn gather_kernel(int bytes, bool columns); // ops/select_gather.cu: columns, or rows in runs

// The kernels for elements of a size
struct SelectKernels {
    SelectFn clear, brackets, count_one, count_all, digits, last; // of long lines; count_one: of one pair
    SelectFn warp_rows[4]; // short lines: a warp has 4, 8, 16 or 32 keys a lane, and a line
    SelectFn block_rows;   // ... a block
};
template <int kBytes> void select_long_part(SelectKernels *k); // ops/select_long.cu
template <int kBytes> void select_rows_part(SelectKernels *k); // ops/select_rows.cu

} // namespace rk
