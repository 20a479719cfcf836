// Routes: the ways in which the elements of a task may be reduced. routes.cu has them in a table, in order; the first that fits
// the task is taken. So "which kernel runs for this shape?" is answered by reading down that table.
#pragma once

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/launch/scratch.h"

namespace rk {

// The kernel that reduces whole rows, for a route of its own and for the long segments that other routes leave.
struct RowKernel {
    SegmentKernel k; // .fn NULL: there is none
    SegmentFn redo;  // launched after it, for the rows whose rounding is not certain; may be NULL
    bool finishes;   // it makes the values of all rows, from near sums (moments_f32.cu)
};

struct Memory {
    void *base;
    size_t bytes;
};

// Launches a task by the first route that fits.
using TakeRoute = cudaError_t(Device *d, const ChainTask &t, Memory memory, cudaStream_t stream, const char **route);

// A task, and the facts about it that routes ask for.
struct Asked {
    Device *d;
    const ChainTask &t;
    const rp_spec &s; // of the task
    Memory memory;
    cudaStream_t stream;
    const char **route; // where the name of the route taken goes
    TakeRoute *take;    // for a task that this one is made of
    FinishArgs a = {};  // this and what follows `rows`: not of order statistics
    Scratch scratch = {};
    RowKernel whole = {};
    SegmentKernel tile = {}; // for rows of a tile or less, light ones or by bounds; .tile NULL: there is none
    RowKernel again = {};    // after it, for rows that it leaves in doubt (FinishArgs.doubts); .k.fn NULL: it leaves none
    int layout = 0;
    u64 lines = 0, length = 0;                            // results, at least one; elements of each in the mean
    u64 bytes = 0;                                        // of an element
    bool columns = false, segments = false, mask = false; // as the spec says
    bool rows = false;                                    // none of these
    bool floats = false;                                  // a float sum: of magnitudes or squares too, and stats
    bool paired = false;                                  // elements have weights
    bool comoments = false;                               // ... for cov or corr
    bool pairs = false;  // the device may add doubles in pairs: it is fast at them, and integers are not asked for
    bool values = false; // kernels that walk along float sums make these values themselves
    bool sum = false;    // a float sum with a kernel of its own for short lines (sum_short_lines.cu)
    u64 longest = 0;     // segments above this length are reduced by blocks, after the route; kAnyLength: none
};
constexpr u64 kAnyLength = ~0ull;

struct Route {
    const char *name;
    const char *takes, *kernels;              // in words, for .docs/routes.md
    bool (*fits)(const Asked &q, WalkFn *fn); // `fn`: the kernel found, by routes that walk along lines
    cudaError_t (*launch)(const Asked &q, WalkFn fn);
};

TakeRoute take_route; // by the table

// ---- what several routes ask (asked.cu) ----

Asked ask(Device *d, const ChainTask &t, Memory memory, cudaStream_t stream, const char **route, TakeRoute *take);

inline u64 div_up(u64 a, u64 b) { return (a + b - 1) / b; }

// Blocks along a grid's y, or along x where a block a row will do: the kernels go on to further rows by themselves.
inline u32 rows_of_grid(u64 rows) { return (u32)(rows < 65535 ? rows : 65535); }

// Fraction of block slots kept busy by `items` equal items, `at_once` of which run at the same time.
inline double fill_of(u64 items, u64 at_once) { return (double)items / (double)((items + at_once - 1) / at_once * at_once); }

inline bool skips_nans(const rp_spec &s) { return s.nan != RP_NAN_PROPAGATE; }

// The longest line that may be left to one warp or to a few walkers. Longer lines are few enough for a launch each.
u64 longest_shared_line(const Asked &q);

// The arguments of kernels for `t`, which is the task of `q` or a part of it.
SegmentArgs segment_args(const Asked &q, const ChainTask &t);

// A value that two bounds may tell: of f32 or less sums, means, norms and var of floats that are no wider; norms of f64
bool is_bounded(const Asked &q);

// Is this a long masked row of whole vectors, its mask in whole words too?
bool is_long_masked(const Asked &q);

// The kernel for near sums or products of lines that are many enough to have one team each. NULL: there is none. (lines.cu)
WalkFn near_kernel(const Asked &q, NearShape shape);

// ---- join.cu: partials become values ----

// Launch on the partials in `s.a` until each row has one, and finish the rows.
cudaError_t merge_rows(const Asked &q, const FinishArgs &a, u64 rows, u64 per_row, u64 first_row);

// The same of `n` states in each of `rows` rows.
cudaError_t join_states(const Asked &q, const u64 *states, u64 rows, u64 n, u64 first_row);

// The states of runs to the cells of `a`, from cell `first` on.
struct RunStates;
cudaError_t join_runs(const Asked &q, const FinishArgs &a, const RunStates &r, const void *states, u64 first);

// ---- routes/ ----

// The same task in one run, or by columns, if it is one. (runs.cu)
rp_spec simplest(rp_spec s);

// Are whole blocks, or blocks of several rows, better than what walks along lines? `walked`: the walk keeps its sums in
// registers. (row_blocks.cu)
bool suits_blocks(const Asked &q, bool walked);

// Segments above q.longest, if there are any, each like rows. (row_blocks.cu)
cudaError_t launch_long_segments(const Asked &q);

// Each route's condition and its launch
#define ROUTE(name)                               \
    bool fits_##name(const Asked &q, WalkFn *fn); \
    cudaError_t launch_##name(const Asked &q, WalkFn fn);
ROUTE(selection)
ROUTE(runs)
ROUTE(states)
ROUTE(few_rows)
ROUTE(tiles)
ROUTE(blocks)
ROUTE(short_sums)
ROUTE(thread_rows)
ROUTE(lane_rows)
ROUTE(masked_blocks)
ROUTE(masked_rows)
ROUTE(near_blocks)
ROUTE(rows_beside)
ROUTE(near_lines)
ROUTE(planes)
ROUTE(whole_columns)
ROUTE(ring)
ROUTE(near_columns)
ROUTE(vector_columns)
ROUTE(float_columns)
ROUTE(float_lines)
ROUTE(lines)
ROUTE(comoments)
ROUTE(any)
#undef ROUTE

} // namespace rk
