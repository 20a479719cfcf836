// Launching the kernels that walk along lines, rows, segments or columns, and what finishes their lines.
#pragma once

#include "kernels/cuda/launch/routes.h"

namespace rk {

// A walk, as a route plans it.
struct Walk {
    WalkFn fn;   // NULL: there is no faster way than by states (lines_any.cu)
    WalkArgs w;  // `lines`, `first_line` aside, which the launches fill in
    int threads; // of a block of fn
    size_t shared;
    u64 lines_each;    // lines that a block goes through; 0: its warps go through any number
    u32 most;          // blocks of fn at most
    bool doubts;       // fn leaves lines whose value is not certain: in the list, or marked as lost in their partials
    bool marks;        // ... or beyond the list's room marked in their cells, so that all lines go in one launch
    bool overlap;      // the launch for these may begin in fn's tail, where the device can
    u32 doubtful_team; // of walkers for each of these; 0: as in `w`
    u32 most_again;    // blocks that look for lost partials, at most
};

// Every line has one team of `team` walkers, each of which takes single elements.
Walk walk_of(const Asked &q, WalkFn fn, u32 team);

// The teams of a line, and what follows: whether the kernel makes values. `can`: it can, if a line has one team.
void set_teams(Walk *x, u32 teams, bool can);
inline u32 teams_of(const WalkArgs &w) { return w.walkers / w.team; }

// Blocks of kColumnThreads threads with `width` columns (or vectors of `per` columns) side by side, a team each.
void set_width(Walk *x, u32 width, u32 per);

cudaError_t walk(const Asked &q, Walk x);

// Threads of a block for a line of cov or corr by exact sums: some elements for each, and a warp at least.
int exact_threads(const Asked &q, const ComomentKernels &k);

// The lines of a launch that are listed or marked, in the general way: mostly there are none.
cudaError_t walk_uncertain(const Asked &q, const WalkArgs &w, bool overlap);

// Blocks for `threads` threads, each of which may take several turns.
u32 walk_blocks(const Device *d, u64 threads, int per_block);

// Neighbours of a warp for one line of this length: eight elements each, as far as a warp goes.
u32 walk_lanes(u64 length);

// The same where a lane should have `share` elements, as joining takes as long as these: fewer lanes, if enough threads are
// left.
u32 fewer_lanes(const Asked &q, u64 share);

// Teams for each line, so that together they fill the device: where a team is some lanes, and where it is a block or part of
// one, of which `across` lie side by side and `of_sm` run at once on an SM.
u32 teams_per_line(const Asked &q, u32 team);
u32 teams_of_blocks(const Asked &q, u64 across, u32 team, u32 of_sm);

// How many batches of lines a warp collects, so that each lane has one to finish, if that leaves warps enough.
u32 turns_of(const Asked &q, u32 lanes);

} // namespace rk
