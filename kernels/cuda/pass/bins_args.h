// Histograms: how many elements of a line are between edges. What the launcher and the kernels share.
//
// Edges become keys (select_args.h): a bound is the first key that is not below its edge. An element's slot is the number of
// bounds that its key reaches, so slot 0 has what is below all edges, and NaNs have a slot behind the others. If bounds have
// equal distances, the slot is guessed by one multiplication. The guess is a monotone function of the element, which is
// evaluated at every bound and at the element before it, so it is known how near a bound it may be wrong. Elements that are
// not further away, and those of other edges, are searched for among the bounds of a range: the keys from the first bound to
// the last one are cut into kBinRanges at most, and a table has the slot of each one's first key.
//
// Each lane of a block's warps counts in a column of its own, as many of the columns as fit into shared memory.
#pragma once

#include <cmath>

#include "kernels/cuda/pass/select_args.h"

namespace rk {

constexpr int kBinsThreads = 512; // of a block that reads a line
constexpr u32 kBinRanges = 1 << 11;

// The guess of an element x: x * scale + shift rounded to an integer is its slot less one, if no further than `certain` from
// that integer.
struct BinGuess {
    double scale, shift;
    float most;    // integers are from -1 to this
    float certain; // negative: nothing is
};

// The number that is guessed from, of elements of up to 32 bits
RK_FN float guess_at(const BinGuess &g, float x)
{
    const float t = fmaf(x, (float)g.scale, (float)g.shift);
    return fminf(fmaxf(t, -1), g.most);
}
RK_FN float guess_at(const BinGuess &g, double x)
{
    const float t = (float)fma(x, g.scale, g.shift);
    return fminf(fmaxf(t, -1), g.most);
}

struct BinsArgs {
    const unsigned char *data, *mask; // as of SelectArgs
    u64 n;
    KeyRule key;
    BinGuess guess;
    const unsigned char *keys; // the bounds, ascending: of 8 bytes, of smaller elements of 4
    u32 bounds;
    bool shared_keys;     // they are copied to shared memory
    u32 shift;            // of a key behind the first bound to its range
    u32 slots;            // of a line: those of its edges, and NaNs
    u32 first_slot, some; // that this launch counts
    u32 columns_log2;     // of counts
    u64 *counts;          // of each line
};
using BinsFn = void (*)(BinsArgs);
template <int kBytes> BinsFn bins_part(int dtype); // ops/bins_count.cu: elements of a byte are looked up, whatever they are

// Bounds to the device, some at once
constexpr u32 kBoundsAtOnce = 400;
struct PutBounds {
    u64 key[kBoundsAtOnce];
    unsigned char *to;
    u32 n;
    bool wide;
};
using PutBoundsFn = void (*)(PutBounds);

// From counts to cells
struct FinishBins {
    const u64 *counts;
    u64 lines, first_line;
    u32 edges;
    bool nan_error;
    u64 *cells;
    u32 *fault;
};
using FinishBinsFn = void (*)(FinishBins);
struct BinsEnds {
    PutBoundsFn put_bounds;
    FinishBinsFn finish;
};
BinsEnds bins_ends(); // ops/bins_finish.cu

} // namespace rk
