#include "kernels/cuda/launch/routes/walk.h"

#include <algorithm>

#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/ops/registry.h"

namespace rk {
namespace {

// A kernel whose threads each have `words` words in shared memory: an odd number, so that few threads share a bank.
struct SharedStates {
    u32 words;
    int threads;
    size_t bytes;

    explicit SharedStates(u32 least) : words(least | 1), threads(kWalkThreads)
    {
        while (threads * words * sizeof(u64) > kTuning.walk_shared)
            threads /= 2;
        bytes = threads * words * sizeof(u64);
    }
};

// How many lanes do the work of a team of `team` walkers in the general way.
u32 lanes_of_team(u32 team)
{
    u32 lanes = 1;
    while (lanes < kWarp && 2 * lanes <= team)
        lanes *= 2;
    return lanes;
}

// Teams for each line. `fill` of them fill the device, each walker of a team has `least` elements or more, and the partials of
// all lines fit into scratch. A line has one team at least; the lines of a launch are fewer where these do not fit.
u32 teams_for(const Asked &q, u32 team, u64 fill, u32 least)
{
    const u64 share = rp_elements(&q.s) / q.lines / team / least, room = q.scratch.words / q.a.plan.all / q.lines;
    u64 teams = fill < share ? fill : share;
    teams = teams < room ? teams : room;
    return teams ? (u32)teams : 1;
}

u32 state_words(const Asked &q) { return (u32)rp_state_size(q.layout) / 8; }

cudaError_t launch_fn(const Asked &q, const Walk &x)
{
    const u64 blocks = x.lines_each ? div_up(x.w.lines, x.lines_each) * teams_of(x.w)
                                    : div_up(div_up(x.w.lines * teams_of(x.w) * x.w.lanes, x.w.turns), x.threads);
    return gpu_launch(false, x.fn, (u32)(blocks < x.most ? blocks : x.most), x.threads, x.shared, q.stream, q.a,
                      segment_args(q, q.t), x.w, x.doubts && x.w.values ? q.scratch.list : q.scratch.a);
}

// All lines by states, or those alone whose partials fn has marked as lost.
cudaError_t walk_states(const Asked &q, const Walk &x)
{
    const SharedStates state(state_words(q));
    const u32 blocks = walk_blocks(q.d, x.w.lines * teams_of(x.w) * x.w.lanes, state.threads);
    return gpu_launch(x.overlap, walk_states_kernel(q.paired), std::min(blocks, x.most_again), state.threads, state.bytes,
                      q.stream, q.a, segment_args(q, q.t), x.w, q.scratch.a, state.words, x.fn != NULL);
}

// Lines in doubt have a team of `doubtful_team` lanes.
WalkArgs uncertain_args(const Walk &x)
{
    WalkArgs w = x.w;
    if (x.doubtful_team)
        w.team = w.walkers = w.lanes = x.doubtful_team;
    return w;
}

// Partials of x.w.lines lines to scratch, or where a walker can make them (w.values), their values.
cudaError_t walk_batch(const Asked &q, const Walk &x)
{
    if (x.fn)
        TRY_CUDA(launch_fn(q, x));
    if (x.fn && (!x.doubts || x.w.pair_words))
        return cudaSuccess;
    return x.fn && x.w.values ? walk_uncertain(q, uncertain_args(x), x.overlap) : walk_states(q, x);
}

// Values of columns of several teams that left pairs.
cudaError_t finish_columns(const Asked &q, const Walk &x)
{
    WalkArgs w = x.w;
    w.width = (u32)(w.lines < kWarp ? w.lines : kWarp);
    TRY_CUDA(gpu_launch(q.d->overlapped_launch, column_finish_kernel(q.layout, q.s.dtype), (u32)div_up(w.lines, w.width),
                        kColumnThreads, 0, q.stream, q.a, segment_args(q, q.t), w, q.scratch.a));
    w = uncertain_args(x);
    w.width = (u32)(w.lines < kWarp ? w.lines : kWarp);
    w.marked = true;
    return walk_uncertain(q, w, q.d->overlapped_launch);
}

// The one partial of each line becomes its value.
cudaError_t finish_lines(const Asked &q, const WalkArgs &w)
{
    const u32 scratch_at = (u32)std::max(rp_state_size(q.layout), rp_state_size(q.a.plan.state)) / 8;
    const SharedStates state(scratch_at + scratch_words(q.a));
    return gpu_launch(false, finish_lines_kernel(q.paired), walk_blocks(q.d, w.lines, state.threads), state.threads,
                      state.bytes, q.stream, q.a, w, (const u64 *)q.scratch.a, state.words, scratch_at);
}

cudaError_t finish_batch(const Asked &q, const Walk &x)
{
    if (x.w.pair_words)
        return finish_columns(q, x);
    if (teams_of(x.w) > 1)
        return merge_rows(q, q.a, x.w.lines, teams_of(x.w), x.w.first_line);
    return x.w.values ? cudaSuccess : finish_lines(q, x.w);
}

// Lines of a launch: as many as the list or scratch have room for.
u64 lines_at_once(const Asked &q, const Walk &x)
{
    const u64 partial = (u64)teams_of(x.w) * (q.a.plan.all + x.w.pair_words);
    const u64 room = !x.w.values ? q.scratch.words / partial : x.doubts && !x.marks ? kMostListed : q.lines;
    return room < q.lines ? room & ~15ull : q.lines; // a batch is whole vectors of columns
}

} // namespace

u32 walk_blocks(const Device *d, u64 threads, int per_block)
{
    u64 blocks = div_up(threads, per_block), most = (u64)d->sms * 64;
    return (u32)(blocks < most ? blocks : most);
}

u32 walk_lanes(u64 length)
{
    u32 lanes = 1;
    while (lanes < kWarp && lanes * 16 <= length)
        lanes *= 2;
    return lanes;
}

u32 fewer_lanes(const Asked &q, u64 share)
{
    u32 lanes = walk_lanes(q.length);
    const u64 threads = (u64)q.d->sms * kTuning.walkers_per_sm;
    while (lanes > 1 && lanes * share > q.length && q.lines * lanes / 2 >= threads)
        lanes /= 2;
    return lanes;
}

u32 teams_per_line(const Asked &q, u32 team)
{
    return teams_for(q, team, (u64)q.d->sms * kTuning.walkers_per_sm / team / q.lines, kTuning.least_walk);
}

u32 teams_of_blocks(const Asked &q, u64 across, u32 team, u32 of_sm)
{
    return teams_for(q, team, (u64)q.d->sms * of_sm / across, kColumnRows);
}

u32 turns_of(const Asked &q, u32 lanes)
{
    const u64 most = q.lines * lanes / ((u64)q.d->sms * kTuning.walkers_per_sm);
    return most < 1 ? 1 : most < lanes ? (u32)most : lanes;
}

Walk walk_of(const Asked &q, WalkFn fn, u32 team)
{
    Walk x = {};
    x.fn = fn;
    x.threads = kWalkThreads;
    x.most = (u32)q.d->sms * 64;
    x.most_again = ~0u;
    x.w.parts = parts_of(q.t);
    x.w.longest = q.longest;
    x.w.per = x.w.run = x.w.turns = 1;
    x.w.team = x.w.walkers = team;
    x.w.lanes = lanes_of_team(team);
    return x;
}

void set_teams(Walk *x, u32 teams, bool can)
{
    x->w.walkers = teams * x->w.team;
    x->w.values = teams == 1 && can;
}

void set_width(Walk *x, u32 width, u32 per)
{
    x->threads = kColumnThreads;
    x->most = ~0u;
    x->w.width = width;
    x->w.per = per;
    x->lines_each = (u64)width * per;
}

int exact_threads(const Asked &q, const ComomentKernels &k)
{
    int threads = k.threads;
    while (threads > kWarp && threads * kTuning.least_walk / 2 >= q.length)
        threads /= 2;
    return threads;
}

cudaError_t walk_uncertain(const Asked &q, const WalkArgs &w, bool overlap)
{
    const u32 few = (u32)q.d->sms * 4, words = state_words(q);
    if (q.comoments) {
        const ComomentKernels k = comoment_kernels(q.layout, q.s.dtype);
        const dim3 grid(1, (u32)std::min(w.lines, (u64)q.d->sms * 8));
        return gpu_launch(overlap, k.listed, grid, exact_threads(q, k), 0, q.stream, q.a, w, q.scratch.list);
    }
    const SharedStates state(words + scratch_words(q.a));
    const u32 blocks = std::min(walk_blocks(q.d, w.lines * w.lanes, state.threads), few);
    return gpu_launch(overlap, walk_listed_kernel(q.paired), blocks, state.threads, state.bytes, q.stream, q.a,
                      segment_args(q, q.t), w, q.scratch.list, state.words, words);
}

cudaError_t walk(const Asked &q, Walk x)
{
    const u64 batch = lines_at_once(q, x);
    for (; x.w.first_line < q.lines; x.w.first_line += x.w.lines) {
        const u64 left = q.lines - x.w.first_line;
        x.w.lines = left < batch ? left : batch;
        TRY_CUDA(walk_batch(q, x));
        TRY_CUDA(finish_batch(q, x));
    }
    return launch_long_segments(q);
}

} // namespace rk
