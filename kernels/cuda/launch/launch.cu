// Enqueues what pick.cu picked: grids, shares, scratch.
#include "kernels/cuda/launch/launch.h"

#include "kernels/cuda/launch/pick.h"
#include "kernels/cuda/launch/registry.h"
#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/pass/merge.cuh"
#include "kernels/cuda/pass/run_states.cuh"
#include "kernels/cuda/pass/whole.h"
#include "kernels/exact/line.h"
#include "kernels/exact/runs.h"

namespace rk {
namespace {

u64 div_up(u64 a, u64 b) { return (a + b - 1) / b; }

// Blocks along a grid's y, or along x where a block a row will do: the kernels go on to further rows by themselves.
u32 rows_of_grid(u64 rows) { return (u32)(rows < 65535 ? rows : 65535); }

// Where partials go: pass 1 writes `a`; a middle pass leaves at most a 50th of them in `b` (a block joins at least half
// of fan_in_words / kMaxWords partials), and the next one comes back to `a`.
struct Scratch {
    RowTotal *totals; // kRowTotals, then slots
    u64 *list;        // of lines: their number, then, in `a`, which
    u64 *a, *b;
    u64 words; // of `a`
    u64 *wide; // kMostWide values in f64
};

constexpr u64 kScratchParts = 32;          // `b` is one of this many parts
constexpr u64 kMostWide = RP_MAX_DATA / 4; // lines: as many values of f32 as a reply holds

// What is zero before a launch and after it
struct ScratchHead {
    RowTotal totals[kRowTotals];
    Slot slots[kSlots];
    u64 done, listed; // blocks that have read the list, and its lines
};

Scratch scratch_of(void *memory, size_t bytes)
{
    ScratchHead *head = (ScratchHead *)memory;
    u64 *a = (u64 *)(head + 1);
    const u64 words = (bytes - sizeof *head) / sizeof(u64) - kMostWide, b = words / kScratchParts;
    return {head->totals, &head->listed, a, a + (words - b), words - b, a + words};
}

// Of elements that kernels go through
FinishArgs element_args(const rp_spec &spec, void *cells, u32 *fault)
{
    FinishArgs a = finish_args(spec, cells, fault);
    count_truths(&a);
    return a;
}

SegmentArgs segment_args(const Device *d, const ChainTask &t, const FinishArgs &a)
{
    const rp_spec &s = t.spec;
    SegmentArgs g = {};
    int bytes = rk_bytes(s.dtype);
    g.data = (const unsigned char *)t.data;
    g.rows = s.rows;
    g.row_len = s.row_len;
    g.first_index = s.index_base + t.base;
    g.element_log2 = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
    u64 sign = 1ull << (8 * bytes - 1);
    bool least = a.plan.layout == RP_STATE_MIN || a.plan.layout == RP_STATE_ARGMIN;
    g.rank_flip = (rk_is_signed(s.dtype) ? sign : 0) ^ (least ? rk_all_ones(s.dtype) : 0);
    g.decides = (u8)decides_truths(a);
    g.layout = a.plan.layout;
    g.dtype = s.dtype;
    g.skip = skips_nans(s);
    g.nan_error = s.nan == RP_NAN_ERROR;
    g.doubles = !d->slow_doubles;
    g.keep = rk_is_abs(a.plan.layout) ? 0x7fffffffu : ~0u;
    g.inf_bits = rk_is_float(s.dtype) ? rk_inf_bits(rk_format_of(s.dtype)) : 0;
    return g;
}

// Threads for joining n partials: enough that each takes about eight words, whole warps.
int merge_threads(u64 n, u32 words)
{
    u64 want = div_up(n * words / 8 + 1, kWarp) * kWarp, least = div_up(words, kWarp) * kWarp;
    return (int)(want < least ? least : want > kMergeThreads ? kMergeThreads : want);
}

// Relaunch on the partials until one block a row can take the rest, which it also finishes.
cudaError_t merge_rows(const Device *d, const FinishArgs &a, Scratch s, u64 rows, u64 per_row, u64 first_row,
                       cudaStream_t stream)
{
    const u64 fan_in = a.added ? per_row : kTuning.fan_in_words / a.plan.all;
    while (per_row > fan_in) {
        u64 blocks = div_up(per_row, fan_in), share = div_up(per_row, blocks);
        int threads = merge_threads(share, a.plan.all);
        TRY_CUDA(gpu_launch(d->overlapped_launch, merge_partials, dim3((u32)blocks, rows_of_grid(rows)), threads,
                            threads * sizeof(u64), stream, a, (const u64 *)s.a, rows, per_row, share, s.b));
        u64 *swap = s.a;
        s.a = s.b;
        s.b = swap;
        per_row = blocks;
    }
    const dim3 grid(rows_of_grid(rows));
    const u64 *in = s.a;
    if (a.plain && a.plan.sum == kDigits32)
        return gpu_launch(d->overlapped_launch, merge_sum<kDigits32, 32>, grid, MergeSum<kDigits32, 32>::kThreads, 0, stream, a,
                          in, rows, per_row, first_row);
    if (a.plain)
        return gpu_launch(d->overlapped_launch, merge_sum<kDigits64, 14>, grid, MergeSum<kDigits64, 14>::kThreads, 0, stream, a,
                          in, rows, per_row, first_row);
    int threads = a.added ? kAddedThreads : merge_threads(per_row, a.plan.all);
    return gpu_launch(d->overlapped_launch, a.light ? merge_and_finish<true> : merge_and_finish<false>, grid, threads,
                      threads * sizeof(u64), stream, a, s.totals, in, rows, per_row, first_row);
}

// ---- walking ----

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

// Blocks for `threads` threads, each of which may take several turns.
u32 walk_blocks(const Device *d, u64 threads, int per_block)
{
    u64 blocks = div_up(threads, per_block), most = (u64)d->sms * 64;
    return (u32)(blocks < most ? blocks : most);
}

// Neighbours of a warp for one line of this length: eight elements each, as far as a warp goes.
u32 walk_lanes(u64 length)
{
    u32 lanes = 1;
    while (lanes < kWarp && lanes * 16 <= length)
        lanes *= 2;
    return lanes;
}

// The same where a lane should have `share` elements, as joining takes as long as these: fewer lanes, if enough threads are
// left.
u32 fewer_lanes(const Device *d, u64 lines, u64 length, u64 share)
{
    u32 lanes = walk_lanes(length);
    const u64 threads = (u64)d->sms * kTuning.walkers_per_sm;
    while (lanes > 1 && lanes * share > length && lines * lanes / 2 >= threads)
        lanes /= 2;
    return lanes;
}

// Teams for each of `lines` lines. `fill` of them fill the device, each walker of a team has `least` elements or more, and the
// partials of all lines fit into scratch. A line has one team at least; the lines of a launch are fewer where these do not fit.
u32 teams_for(const FinishArgs &a, Scratch s, u64 lines, u32 team, u64 fill, u32 least)
{
    const u64 share = rp_elements(&a.spec) / lines / team / least, room = s.words / a.plan.all / lines;
    u64 teams = fill < share ? fill : share;
    teams = teams < room ? teams : room;
    return teams ? (u32)teams : 1;
}

u32 teams_per_line(const Device *d, const FinishArgs &a, Scratch s, u64 lines, u32 team)
{
    return teams_for(a, s, lines, team, (u64)d->sms * kTuning.walkers_per_sm / team / lines, kTuning.least_walk);
}

// The same of `across` blocks of vectors of columns side by side: as many blocks as run at once.
u32 teams_of_blocks(const Device *d, const FinishArgs &a, Scratch s, u64 lines, u64 across, u32 team, u32 of_sm)
{
    return teams_for(a, s, lines, team, (u64)d->sms * of_sm / across, kColumnRows);
}

// How many of the `columns` columns a block of walk_columns has: all if they are few, else at least `least` of them, and more
// where enough blocks are left.
u32 width_of_columns(const Device *d, u64 columns, u32 least)
{
    if (columns <= kColumnThreads / 4)
        return (u32)columns;
    u32 width = kWarp;
    while (width < kColumnThreads && columns / (2 * width) >= 2 * (u64)d->sms)
        width *= 2;
    while (width > least && columns / width < 4 * (u64)d->sms)
        width /= 2;
    return width;
}

// How many lanes do the work of a team of `team` walkers in the general way.
u32 lanes_of_team(u32 team)
{
    u32 lanes = 1;
    while (lanes < kWarp && 2 * lanes <= team)
        lanes *= 2;
    return lanes;
}

// Items of columns by a ring: all columns, times their teams
u32 ring_items(const WalkArgs &w) { return (u32)(div_up(w.lines / w.per, w.width) * (w.walkers / w.team)); }

cudaError_t launch_walker(const Device *d, const FinishArgs &a, const SegmentArgs &g, const WalkArgs &w, const Pick &p, u64 *to,
                          cudaStream_t stream)
{
    const WalkFn fn = p.kernel.walk;
    const u64 teams = w.lines * (w.walkers / w.team), threads = teams * w.lanes;
    if (p.ring) {
        const u32 items = ring_items(w), most = (u32)d->sms * p.blocks;
        return gpu_launch(false, fn, items < most ? items : most, kColumnThreads,
                          column_shared_bytes(a.plan.layout, a.spec.dtype), stream, a, g, w, to);
    }
    if (p.whole) {
        const u64 vectors = w.lines / kColumns, most = (u64)d->sms * kPlaneBlocks;
        const u64 all = div_up(vectors, p.planes ? kPlaneThreads : kWholeThreads);
        return gpu_launch(false, fn, (u32)(p.planes && all > most ? most : all), p.planes ? kPlaneThreads : kWholeThreads,
                          p.planes ? plane_shared_bytes(a.spec.rows) : 0, stream, a, g, w, to);
    }
    const u32 blocks = w.width                    ? (u32)(div_up(w.lines, w.width * w.per) * (w.walkers / w.team))
                       : w.team == kColumnThreads ? (u32)teams
                                                  : walk_blocks(d, div_up(threads, w.turns), kWalkThreads);
    return gpu_launch(false, fn, blocks, w.width || w.team == kColumnThreads ? kColumnThreads : kWalkThreads, 0, stream, a, g,
                      w, to);
}

// The values of the lines of this launch that are listed or marked, in the general way: mostly there are none. Columns that
// walkers share in another way have a team of lanes each.
cudaError_t walk_uncertain(const Device *d, const FinishArgs &a, const SegmentArgs &g, WalkArgs w, const Pick &p, Scratch s,
                           bool overlap, cudaStream_t stream)
{
    const u32 few = (u32)d->sms * 4, state_words = (u32)rp_state_size(a.plan.layout) / 8;
    if (p.ring)
        w.team = w.walkers = w.lanes = walk_lanes(a.spec.rows);
    const SharedStates state(state_words + scratch_words(a));
    const u32 blocks = min(walk_blocks(d, w.lines * w.lanes, state.threads), few);
    return gpu_launch(overlap, walk_listed_kernel(), blocks, state.threads, state.bytes, stream, a, g, w, s.list, state.words,
                      state_words);
}

// Partials of w.lines lines to scratch, or where a walker can make them (w.values), their values.
cudaError_t walk(const Device *d, const FinishArgs &a, const SegmentArgs &g, const WalkArgs &w, const Pick &p, Scratch s,
                 cudaStream_t stream)
{
    const u64 threads = w.lines * (w.walkers / w.team) * w.lanes;
    const bool floats = p.near || is_float_sum(a.spec, a.plan.layout), fast = p.kernel.walk,
               overlap = d->overlapped_launch && (p.ring || p.lanes || p.whole || p.near);
    const u32 state_words = (u32)rp_state_size(a.plan.layout) / 8;
    if (fast) {
        TRY_CUDA(launch_walker(d, a, g, w, p, floats && w.values ? s.list : s.a, stream));
        if (!floats || w.pair_words)
            return cudaSuccess;
    }
    if (fast && w.values)
        return walk_uncertain(d, a, g, w, p, s, overlap, stream);
    const SharedStates state(state_words);
    const u32 blocks = walk_blocks(d, threads, state.threads), few = (u32)d->sms * 4; // mostly nothing is lost
    return gpu_launch(overlap, walk_states_kernel(), p.ring ? min(blocks, few) : blocks, state.threads, state.bytes, stream, a,
                      g, w, s.a, state.words, fast);
}

// Values of columns of several teams that left pairs.
cudaError_t finish_columns(const Device *d, const FinishArgs &a, const SegmentArgs &g, WalkArgs w, const Pick &p, Scratch s,
                           cudaStream_t stream)
{
    w.width = (u32)(w.lines < kWarp ? w.lines : kWarp);
    TRY_CUDA(gpu_launch(d->overlapped_launch, column_finish_kernel(a.plan.layout, a.spec.dtype), (u32)div_up(w.lines, w.width),
                        kColumnThreads, 0, stream, a, g, w, s.a));
    w.marked = true;
    return walk_uncertain(d, a, g, w, p, s, d->overlapped_launch, stream);
}

cudaError_t finish_lines(const Device *d, const FinishArgs &a, const WalkArgs &w, const u64 *partials, cudaStream_t stream)
{
    const u32 scratch_at = (u32)max(rp_state_size(a.plan.layout), rp_state_size(a.plan.state)) / 8;
    const SharedStates state(scratch_at + scratch_words(a));
    return gpu_launch(false, finish_lines_kernel(), walk_blocks(d, w.lines, state.threads), state.threads, state.bytes, stream,
                      a, w, partials, state.words, scratch_at);
}

// How many batches of lines a warp of theirs collects, so that each lane has one to finish, if that leaves warps enough.
u32 turns_of(const Device *d, u64 lines, u32 lanes)
{
    const u64 most = lines * lanes / ((u64)d->sms * kTuning.walkers_per_sm);
    return most < 1 ? 1 : most < lanes ? (u32)most : lanes;
}

// Columns by vectors, in vectors side by side, a power of two: as narrow as leaves blocks for all SMs, but no more than these
// hold in some turns.
u32 width_of_vectors(const Device *d, u64 vectors)
{
    const u64 sms = (u64)d->sms;
    u32 width = 1;
    while (width < kColumnWidth && width < vectors)
        width *= 2;
    while (width < kColumnThreads &&
           (div_up(vectors, width) > sms * 32 || (width == kColumnWidth && div_up(vectors, 2 * width) >= sms * 3)))
        width *= 2;
    return width;
}

// By a ring: wide items, for memory likes long rows, which fill the device all the time. One block keeps an SM busy. Of several
// turns there are many, if each has rows enough, for blocks do not end together.
u32 width_of_ring(const Device *d, const Pick &p, u64 vectors, u64 rows)
{
    const u64 sms = (u64)d->sms, blocks = sms * p.blocks;
    u32 width = (u32)(vectors < kColumnThreads ? vectors : kColumnThreads);
    for (u64 items; width > kRingWidth; width = (width + 1) / 2) {
        items = div_up(vectors, width);
        const bool fills = fill_of(items, items <= sms ? sms : blocks) >= kTuning.column_fill;
        const bool turns = items <= blocks || items >= 8 * blocks || rows * width / kColumnThreads < 2 * kTuning.ring_share;
        if (fills && turns)
            break;
    }
    return width;
}

// Columns by a ring: teams only where items are too few.
void share_columns(const Device *d, const FinishArgs &a, const Pick &p, Scratch s, u64 lines, WalkArgs *w)
{
    const u64 vectors = lines / w->per, sms = (u64)d->sms;
    w->width = width_of_ring(d, p, vectors, a.spec.rows);
    w->team = kColumnThreads / w->width;
    w->pair_words = makes_values(a.spec) ? column_pair_words(a.plan.layout) : 0;
    const u64 items = div_up(vectors, w->width), few = (u64)((double)sms * kTuning.column_fill);
    const u64 share = a.spec.rows / w->team / (kRingRows * kRingTiles), room = s.words / (a.plan.all + w->pair_words) / lines;
    u64 teams = items < few ? sms / items : 1; // a block of an SM: more teams are more to join
    teams = teams < share ? teams : share;
    teams = teams < room ? teams : room;
    w->walkers = teams > 1 ? (u32)teams * w->team : w->team;
}

// How lines are shared among threads. `longest`: longer lines are another kernel's; then a line has one team, for those leave
// no partial to be merged.
WalkArgs walk_args(const Device *d, const ChainTask &t, const FinishArgs &a, const Pick &p, Scratch s)
{
    const SegmentKernel &k = p.kernel;
    const u64 longest = p.longest;
    const u64 lines = rp_results(&t.spec);
    const bool columns = t.spec.flags & RP_COLUMNS, floats = k.walk && (p.near || is_float_sum(t.spec, a.plan.layout));
    WalkArgs w = {};
    w.parts = parts_of(t);
    w.longest = longest;
    w.per = p.vectors ? 16 / rk_bytes(t.spec.dtype) : 1;
    w.width = p.vectors                       ? width_of_vectors(d, lines / w.per)
              : columns && floats && !p.whole ? width_of_columns(d, lines, p.redo ? kWarp / 2 : kWarp) // products: one team
                                              : 0;
    w.team = w.width   ? kColumnThreads / w.width
             : columns ? 1
             : p.near  ? fewer_lanes(d, lines, mean_length(t.spec), kTuning.near_share)
             : floats  ? walk_lanes(mean_length(t.spec))
                       : fewer_lanes(d, lines, mean_length(t.spec), kTuning.lane_bytes / rk_bytes(t.spec.dtype));
    if (p.lanes || p.whole) // whole columns: those that are listed have a team
        w.team = p.whole ? walk_lanes(t.spec.rows) : p.lanes;
    if (p.masked || p.blocks_each)
        w.team = kColumnThreads;
    if (p.ring)
        share_columns(d, a, p, s, lines, &w);
    w.run = p.lanes || (floats && walk_shape(t.spec) == kLongWalk) ? 16 / rk_bytes(t.spec.dtype) : 1;
    w.lanes = lanes_of_team(w.team);
    const u32 teams = p.ring                         ? w.walkers / w.team
                      : p.lanes || p.whole || p.near ? 1
                      : p.masked                     ? teams_of_blocks(d, a, s, lines, lines, w.team, kMaskedBlocks)
                      : p.vectors ? teams_of_blocks(d, a, s, lines, div_up(lines / w.per, w.width), w.team, kColumnBlocks)
                      : longest == kAnyLength ? teams_per_line(d, a, s, lines, w.team)
                                              : 1;
    w.walkers = teams * w.team;
    w.values = teams == 1 && k.walk && (p.near || (floats ? makes_values(t.spec) : a.light));
    w.pair_words = w.values || teams == 1 ? 0 : w.pair_words;
    w.turns = p.rows_each                                                     ? p.rows_each
              : (floats || p.lanes) && w.values && !columns && !p.blocks_each ? turns_of(d, lines, w.lanes)
                                                                              : 1;
    return w;
}

cudaError_t launch_walk(const Device *d, const ChainTask &t, const FinishArgs &a, const Pick &p, Scratch s, cudaStream_t stream)
{
    const u64 lines = rp_results(&t.spec);
    const SegmentArgs g = segment_args(d, t, a);
    WalkArgs w = walk_args(d, t, a, p, s);
    const u32 teams = w.walkers / w.team;
    const bool listed = w.values && (p.near || is_float_sum(t.spec, a.plan.layout)) && !p.ring && !p.whole;
    const u64 words = (u64)teams * (a.plan.all + w.pair_words);
    const u64 room = listed ? kMostListed : w.values ? lines : s.words / words;
    const u64 batch = room < lines ? room & ~15ull : lines;
    for (; w.first_line < lines; w.first_line += w.lines) { // a batch is whole vectors of columns
        const u64 left = lines - w.first_line;
        w.lines = left < batch ? left : batch;
        TRY_CUDA(walk(d, a, g, w, p, s, stream));
        if (w.pair_words)
            TRY_CUDA(finish_columns(d, a, g, w, p, s, stream));
        else if (teams > 1)
            TRY_CUDA(merge_rows(d, a, s, w.lines, teams, w.first_line, stream));
        else if (!w.values)
            TRY_CUDA(finish_lines(d, a, w, s.a, stream));
    }
    return cudaSuccess;
}

// ---- whole rows ----

// Tiles of `unroll` vectors that a thread may add, and less than another one
u64 most_tiles(const SegmentKernel &k, u64 per_vector) { return k.max_per_thread / (k.unroll * per_vector) - 2; }

// Blocks for one row: fill the device with all rows, no block without a tile, no thread beyond what it may add exactly.
u64 blocks_per_row(const Device *d, const SegmentKernel &k, int blocks_per_sm, const SegmentArgs &g)
{
    u64 per_vector = 16u >> g.element_log2, tile = (u64)k.threads * k.unroll * per_vector;
    u64 tiles = g.row_len / tile, fill = (u64)d->sms * blocks_per_sm * kTuning.waves / g.rows;
    const u64 parts = k.sums ? g.row_len / (2 * k.threads * per_vector) : tiles; // a part of a tile takes less time than a tile
    u64 blocks = fill < parts ? fill : parts;
    // a thread of the last block also gets the rest of the row: less than another tile, and two odd elements
    u64 need = div_up(tiles, most_tiles(k, per_vector));
    blocks = blocks > need ? blocks : need;
    return blocks ? blocks : 1;
}

// The last of a row's `tiles` tiles go by tickets, if they are many.
void give_tickets(const SegmentKernel &k, u64 blocks, u64 tiles, SegmentArgs *g)
{
    const u64 warps = k.threads / kWarp, rounds = g->rounds - div_up(g->rounds, kTuning.ticket_share),
              tickets = (tiles - rounds * blocks) * warps;
    const u64 fair = div_up(tickets, blocks * warps), room = most_tiles(k, 16u >> g->element_log2) - rounds;
    const u64 most = 4 * fair < room ? 4 * fair : room;
    if (g->rounds < kTuning.ticket_rounds || most <= fair || most > UINT16_MAX || tickets > UINT32_MAX)
        return;
    g->rounds = (u32)rounds;
    g->tickets = (u32)tickets;
    g->most_tickets = (u16)most;
}

// How `blocks` blocks share the vectors of a row. `tickets`: some of them that way.
void share_row(const SegmentKernel &k, u64 blocks, bool tickets, SegmentArgs *g)
{
    const u64 per_vector = 16u >> g->element_log2, tile = (u64)k.threads * k.unroll;
    u64 most = g->row_len / per_vector, least = most - (most > 0); // where a row begins decides
    if (g->rows == 1 || g->row_len % per_vector == 0) {            // as all of them do
        const u64 head = (16 - (uintptr_t)g->data % 16) % 16 >> g->element_log2;
        least = most = g->row_len > head ? (g->row_len - head) / per_vector : 0;
    }
    g->rounds = (u32)(least / (tile * blocks));
    if (tickets)
        give_tickets(k, blocks, most / tile, g);
    if (g->tickets)
        most %= tile;
    else
        most -= g->rounds * tile * blocks;
    g->share = (u32)(div_up(div_up(most, kWarp), blocks) * kWarp); // no block has much more than others
}

cudaError_t launch_segments(Device *d, const ChainTask &t, const FinishArgs &a, const Pick &p, Scratch s, cudaStream_t stream)
{
    const SegmentKernel &k = p.kernel;
    SegmentArgs all = segment_args(d, t, a);
    int blocks_per_sm;
    TRY_CUDA(device_blocks_per_sm(d, (const void *)k.fn, k.threads, k.shared_bytes, &blocks_per_sm));
    u64 per_row = blocks_per_row(d, k, blocks_per_sm, all);
    FinishArgs finish = a;
    const u64 blocks = (u64)d->sms * blocks_per_sm;
    finish.ends = k.ends && !a.light && can_add(a.plan) && per_row * all.rows <= blocks; // else the next pass finishes all rows
    finish.ends |= p.finishes;
    if (!p.finishes && !p.redo && !a.light && (per_row > 1 || finish.ends) && can_add(a.plan))
        finish.added = k.sums && !d->slow_doubles ? kAddedBesideSums : kAdded;
    const bool at_once = per_row <= blocks;
    share_row(k, per_row, k.tickets && all.rows == 1 && per_row > 1 && at_once && (a.light || finish.added), &all);
    const u64 room = s.words / (per_row * a.plan.all); // a block leaves no more than a partial
    all.meets = (a.light || finish.ends) && all.rows == 1 && per_row > 1 && per_row <= kSlots;
    u64 batch = per_row > 1 && room > kRowTotals ? kRowTotals : room;
    if (batch == 0)
        return cudaErrorMemoryAllocation;
    for (u64 first = 0; first < all.rows; first += batch) {
        SegmentArgs g = all;
        g.rows = all.rows - first < batch ? all.rows - first : batch;
        g.data += (first * g.row_len) << g.element_log2;
        if (t.spec.flags & RP_MASK)
            g.mask = parts_of(t).mask + first * g.row_len;
        dim3 grid((u32)per_row, rows_of_grid(g.rows));
        g.first_row = first;
        g.totals = s.totals;
        TRY_CUDA(gpu_launch(false, k.fn, grid, k.threads, k.shared_bytes, stream, g, finish, s.a));
        if (p.redo) {
            const dim3 few(min((u32)per_row, 2 * (u32)d->sms), grid.y); // mostly there is nothing to do
            TRY_CUDA(gpu_launch(d->overlapped_launch, p.redo, few, k.threads, 0, stream, g, finish, s.a));
        } else if (!a.light && !finish.ends) // else a row's last block finishes it
            TRY_CUDA(merge_rows(d, finish, s, g.rows, per_row, first, stream));
    }
    return cudaSuccess;
}

// ---- rows of a tile or less ----

constexpr u64 kTileRows = 65535;           // of a launch: blocks along a grid's y
constexpr size_t kPlainShared = 40u << 10; // bytes of dynamic shared memory that a block has without asking, beside its own

// A block a row. What the host does counts as much as what the kernel does here, so nothing is worked out that is not needed.
cudaError_t launch_tiles(Device *d, const ChainTask &t, const FinishArgs &a, const SegmentKernel &k, Scratch s,
                         cudaStream_t stream)
{
    SegmentArgs g = segment_args(d, t, a);
    g.share = k.threads * k.unroll; // a row that takes the general way has no more vectors
    int blocks;
    if (k.shared_bytes > kPlainShared)
        TRY_CUDA(device_blocks_per_sm(d, (const void *)k.tile, k.threads, k.shared_bytes, &blocks));
    for (; g.first_row < g.rows; g.first_row += kTileRows, g.data += (kTileRows * g.row_len) << g.element_log2) {
        const u64 left = g.rows - g.first_row;
        const dim3 grid(1, (u32)(left < kTileRows ? left : kTileRows));
        TRY_CUDA(gpu_launch(false, k.tile, grid, k.threads, k.shared_bytes, stream, g, a, s.a));
    }
    return cudaSuccess;
}

// Lanes for a line of `bytes` bytes: four vectors for each, a warp at most.
u32 lanes_for(u64 bytes)
{
    u32 lanes = 1;
    while (lanes < kWarp && lanes * 64 < bytes)
        lanes *= 2;
    return lanes;
}

// `bytes`: of a line, in the mean
RowShape row_shape(const Device *d, const RowArgs &r, u64 bytes, bool narrow)
{
    const bool whole = bytes % 16 == 0 && (uintptr_t)r.elements % 16 == 0, tile = bytes <= 64 * r.lanes;
    if (narrow && !r.offsets && bytes == 8 && (uintptr_t)r.elements % 8 == 0)
        return kPairs;
    if (narrow && !r.offsets && whole && bytes && bytes <= 16 * kStagedVectors)
        return kStaged;
    if (r.lanes == 1 && !r.offsets)
        return kTinyRows;
    return !r.offsets && whole && tile ? kWholeRows : bytes >= kTuning.long_row_bytes ? kLongRows : kOtherRows;
}

cudaError_t launch_sum_rows(Device *d, const ChainTask &t, const FinishArgs &a, u64 longest, cudaStream_t stream)
{
    const u64 lines = rp_results(&t.spec), bytes = rp_elements(&t.spec) / lines * rk_bytes(t.spec.dtype);
    rp_parts parts = parts_of(t);
    RowArgs r = {};
    r.offsets = parts.offsets;
    r.elements = parts.elements;
    r.lines = lines;
    r.longest = longest;
    r.lanes = lanes_for(bytes);
    r.state_words = (u32)(rp_state_size(a.plan.layout) / sizeof(u64)) | 1; // odd: threads meet in few banks
    r.skip = skips_nans(t.spec);
    const u32 sign = !rk_is_abs(a.plan.layout) ? 0 : rk_bytes(t.spec.dtype) == 2 ? 0x80008000u : 1u << 31;
    r.keep[0] = rk_bytes(t.spec.dtype) == 8 ? ~0u : ~sign;
    r.keep[1] = ~sign;
    const RowShape shape = row_shape(d, r, bytes, rk_bytes(t.spec.dtype) < 8);
    const bool by_thread = shape == kPairs || shape == kStaged; // a thread a row
    const int threads = shape == kLongRows ? kLineThreads : kRowThreads;
    const u64 each = shape == kTinyRows ? 4 : shape == kPairs ? kPairRows : shape == kStaged ? 16 * kStagedVectors / bytes : 1;
    if (by_thread)
        r.lanes = 1;
    const u64 blocks = div_up(lines * r.lanes, each * threads), limit = (1ull << 31) - 1; // of a grid
    const u64 most = by_thread || shape == kWholeRows ? blocks
                     : shape == kLongRows             ? limit
                                                      : (u64)d->sms * 64; // no loop in the first
    const size_t shared = by_thread ? 0 : threads * r.state_words * sizeof(u64);
    return gpu_launch(false, sum_rows_kernel(t.spec.dtype, shape, bytes / 16), (u32)(blocks < most ? blocks : most), threads,
                      shared, stream, a, r);
}

// One load a segment: with many of them the device must not wait for the host.
u64 longest_segment(const ChainTask &t)
{
    u64 most = 0, begin = rk_offset(t.offsets, 0);
    for (u64 i = 1; i <= t.spec.rows; i++) {
        const u64 end = rk_offset(t.offsets, i), n = end - begin;
        most = n > most ? n : most;
        begin = end;
    }
    return most;
}

// Segments above `longest`, which the kernels for many lines pass over: like rows, each by itself.
cudaError_t launch_long_segments(Device *d, const ChainTask &t, const FinishArgs &a, const Pick &p, Scratch s,
                                 cudaStream_t stream)
{
    const int bytes = rk_bytes(t.spec.dtype);
    const rp_parts parts = parts_of(t);
    if (longest_segment(t) <= p.longest)
        return cudaSuccess;
    for (u64 i = 0; i < t.spec.rows; i++) {
        rk_line line = rk_line_of(&t.spec, t.offsets, i);
        if (line.n <= p.longest)
            continue;
        ChainTask one = t;
        FinishArgs finish = a;
        one.spec.flags = finish.spec.flags &= ~(uint32_t)RP_OFFSETS;
        one.spec.rows = 1;
        one.spec.row_len = line.n;
        one.data = parts.elements + line.first * bytes;
        one.mask = parts.mask ? parts.mask + line.first : NULL;
        finish.cells = (unsigned char *)a.cells + i * a.cell_bytes;
        TRY_CUDA(launch_segments(d, one, finish, p, s, stream));
    }
    return cudaSuccess;
}

cudaError_t launch_lines(Device *d, const ChainTask &t, const FinishArgs &a, Scratch s, cudaStream_t stream)
{
    if (rp_results(&t.spec) == 0)
        return cudaSuccess;
    Pick p = pick_kernels(d, t, a);
    if (p.ring) {
        int blocks;
        TRY_CUDA(device_blocks_per_sm(d, (const void *)p.kernel.walk, kColumnThreads,
                                      column_shared_bytes(a.plan.layout, a.spec.dtype), &blocks));
        p.blocks = (u32)blocks;
    }
    switch (p.way) {
    case kTiles:
        return launch_tiles(d, t, a, p.kernel, s, stream);
    case kBlocks:
        return launch_segments(d, t, a, p, s, stream);
    case kShortSums:
        TRY_CUDA(launch_sum_rows(d, t, a, p.longest, stream));
        break;
    case kWalk:
        TRY_CUDA(launch_walk(d, t, a, p, s, stream));
        break;
    }
    return p.longest == kAnyLength ? cudaSuccess : launch_long_segments(d, t, a, p, s, stream);
}

// ---- narrow values ----

// The same request with values in f64
ChainTask wide_task(const ChainTask &t, Scratch s)
{
    ChainTask wide = t;
    wide.spec.out = RP_F64;
    wide.cells = s.wide;
    return wide;
}

// Many lines whose values kernels make only in f64?
bool goes_wide(const Device *d, const ChainTask &t, const FinishArgs &a)
{
    const rp_spec &spec = t.spec;
    const u64 lines = rp_results(&spec);
    return spec.out != RP_F64 && lines > 1 && lines <= kMostWide && is_float_sum(spec, a.plan.layout) &&
           !rk_is_stats(a.plan.layout) && !(spec.flags & (RP_STATES_OUT | RP_INITIAL)) && !d->slow_doubles && !d->long_sums;
}

// The lines that `narrow` has listed
cudaError_t walk_ties(const Device *d, const ChainTask &t, const FinishArgs &a, Scratch s, cudaStream_t stream)
{
    WalkArgs w = {};
    w.parts = parts_of(t);
    w.lines = rp_results(&t.spec);
    w.longest = kAnyLength;
    w.per = w.run = 1;
    w.team = w.walkers = w.lanes = walk_lanes(t.spec.flags & RP_COLUMNS ? t.spec.rows : mean_length(t.spec));
    return walk_uncertain(d, a, segment_args(d, t, a), w, Pick{}, s, d->overlapped_launch, stream);
}

cudaError_t launch_wide(Device *d, const ChainTask &t, const FinishArgs &a, Scratch s, cudaStream_t stream)
{
    constexpr int kThreads = 256;
    const ChainTask wide = wide_task(t, s);
    const u64 lines = rp_results(&t.spec);
    TRY_CUDA(launch_lines(d, wide, finish_args(wide.spec, wide.cells, wide.fault), s, stream));
    for (u64 first = 0, some; first < lines; first += some) {
        some = lines - first < kMostListed ? lines - first : kMostListed;
        TRY_CUDA(gpu_launch(d->overlapped_launch, narrow_kernel(), walk_blocks(d, some, kThreads), kThreads, 0, stream, a,
                            (const u64 *)s.wide, first, some, s.list));
        TRY_CUDA(walk_ties(d, t, a, s, stream));
    }
    return cudaSuccess;
}

cudaError_t launch_states(const Device *d, const ChainTask &t, const FinishArgs &a, Scratch s, cudaStream_t stream)
{
    const u32 state_words = (u32)rp_state_size(a.plan.layout) / 8;
    const u64 per_row = t.spec.row_len;
    u64 batch = per_row ? s.words / (per_row * a.plan.all) : t.spec.rows;
    if (batch == 0)
        return cudaErrorMemoryAllocation;
    for (u64 first = 0; first < t.spec.rows; first += batch) {
        u64 rows = t.spec.rows - first < batch ? t.spec.rows - first : batch, n = rows * per_row;
        const u64 *states = (const u64 *)t.data + first * per_row * state_words;
        if (n)
            TRY_CUDA(gpu_launch(false, unpack_states, (u32)div_up(n * a.plan.all, 256), 256, 0, stream, a, states, n,
                                state_words, s.a));
        TRY_CUDA(merge_rows(d, a, s, rows, per_row, first, stream));
    }
    return cudaSuccess;
}

// ---- rows in runs ----
//
// A first pass leaves states: of each run, or if there are fewer of these, of each column of the matrix whose rows are planes.
// Those of a row are joined. Where they do not fit all at once, those of some rows and planes are, from the first plane on.

constexpr size_t kRunBytes = RP_MAX_DATA / 2; // of these states, behind the rest of scratch

// The same task in one run, or by columns, if it is one.
rp_spec simplest(rp_spec s)
{
    if (rk_in_runs(&s) && (s.rows == 1 || s.row_len == 0)) {
        s.row_len *= s.planes;
        s.planes = 0;
    } else if (rk_in_runs(&s) && s.row_len == 1) {
        s.flags |= RP_COLUMNS;
        s.row_len = s.rows;
        s.rows = s.planes;
        s.planes = 0;
    }
    return s;
}

// What the states of `n` runs are made from, that follow one another from row `first` of plane `plane` on.
ChainTask first_pass(const ChainTask &t, u64 plane, u64 first, u64 n, void *states)
{
    const u64 before = (plane * t.spec.rows + first) * t.spec.row_len, size = rk_bytes(t.spec.dtype);
    const rp_parts parts = parts_of(t);
    ChainTask one = t;
    one.spec.flags = RP_STATES_OUT | (t.spec.flags & RP_MASK);
    one.spec.rows = n;
    one.spec.planes = 0;
    one.data = parts.elements + before * size;
    one.cells = states;
    if (parts.mask)
        one.mask = parts.mask + before;
    return one;
}

cudaError_t launch_states_of(Device *d, const ChainTask &t, Scratch s, cudaStream_t stream)
{
    return launch_lines(d, t, element_args(t.spec, t.cells, t.fault), s, stream);
}

// The states to the cells of `a`, from cell `first` on.
cudaError_t join_runs(const Device *d, const FinishArgs &a, const RunStates &r, const void *states, Scratch s, u64 first,
                      cudaStream_t stream)
{
    TRY_CUDA(gpu_launch(false, unpack_runs, (u32)div_up(r.rows * r.each * a.plan.all, 256), 256, 0, stream, a, r,
                        (const u64 *)states, s.a));
    return merge_rows(d, a, s, r.rows, r.each, first, stream);
}

cudaError_t launch_columns_of_runs(Device *d, const ChainTask &t, const FinishArgs &a, void *states, Scratch s,
                                   cudaStream_t stream)
{
    const rp_spec &spec = t.spec;
    const u64 run = spec.row_len;
    ChainTask columns = first_pass(t, 0, 0, spec.planes * spec.rows, states);
    columns.spec.flags |= RP_COLUMNS;
    columns.spec.rows = spec.planes;
    columns.spec.row_len = spec.rows * run;
    columns.spec.index_base = columns.base = 0;
    TRY_CUDA(launch_states_of(d, columns, s, stream));
    const RunStates r = {spec.rows, run, 0, 1, run, run, spec.index_base + t.base, 1, (u32)rp_state_size(a.plan.layout) / 8};
    return join_runs(d, a, r, states, s, 0, stream);
}

// Rows [first, first + n). `fit`: states at once.
cudaError_t launch_rows_of_runs(Device *d, const ChainTask &t, const FinishArgs &a, unsigned char *states, u64 fit, u64 first,
                                u64 n, Scratch s, cudaStream_t stream)
{
    const rp_spec &spec = t.spec;
    const size_t size = rp_state_size(a.plan.layout);
    const FinishArgs joined = finish_args(first_pass(t, 0, 0, n, states).spec, states, t.fault); // before the last planes
    const u64 most = fit / n, each = most < spec.planes ? most - 1 : spec.planes;
    for (u64 plane = 0, k, carried; plane < spec.planes; plane += k) {
        k = each < spec.planes - plane ? each : spec.planes - plane;
        carried = plane > 0;
        unsigned char *to = states + carried * n * size;
        for (u64 i = 0; n < spec.rows && i < k; i++)
            TRY_CUDA(launch_states_of(d, first_pass(t, plane + i, first, n, to + i * n * size), s, stream));
        if (n == spec.rows)
            TRY_CUDA(launch_states_of(d, first_pass(t, plane, 0, k * n, to), s, stream));
        const RunStates r = {n, carried + k, carried, n, 1, 1, plane * spec.row_len, spec.row_len, (u32)(size / sizeof(u64))};
        const bool last = plane + k == spec.planes;
        TRY_CUDA(join_runs(d, last ? a : joined, r, states, s, last ? first : 0, stream));
    }
    return cudaSuccess;
}

cudaError_t launch_runs(Device *d, const ChainTask &t, void *scratch, size_t scratch_bytes, cudaStream_t stream)
{
    rp_spec spec = t.spec;
    spec.flags = (spec.flags & ~(uint32_t)RP_MASK) | RP_STATES_IN;
    const FinishArgs a = finish_args(spec, t.cells, t.fault);
    const size_t rest = (scratch_bytes - kRunBytes) / 16 * 16;
    unsigned char *states = (unsigned char *)scratch + rest;
    const Scratch s = scratch_of(scratch, rest);
    const u64 fit = kRunBytes / rp_state_size(a.plan.layout), rows = spec.rows, half = fit / 2;
    if (spec.row_len < spec.planes && spec.row_len <= fit / rows)
        return launch_columns_of_runs(d, t, a, states, s, stream);
    for (u64 first = 0, n; first < rows; first += n) {
        n = rows - first < half ? rows - first : half;
        TRY_CUDA(launch_rows_of_runs(d, t, a, states, fit, first, n, s, stream));
    }
    return cudaSuccess;
}

} // namespace

// Bytes of one message's worth of states as partials. Worked out once: every launch asks.
static const u64 most_partials = [] {
    u64 most = 0;
    for (int layout = 0; layout < RP_LAYOUT_COUNT; layout++) {
        u64 bytes = RP_MAX_DATA / rp_state_size(layout) * (own_words(layout) + kTailWords) * sizeof(u64);
        most = bytes > most ? bytes : most;
    }
    return most;
}();

// Those in one row, or a list of lines, and a little more for the middle pass; then values in f64.
size_t chain_scratch_bytes()
{
    const u64 most = most_partials > kMostListed * sizeof(u64) ? most_partials : kMostListed * sizeof(u64);
    const u64 bytes = sizeof(ScratchHead) + most + most / (kScratchParts - 2);
    return (bytes + 15) / 16 * 16 + kMostWide * sizeof(u64); // values in f64 are aligned to 16
}

cudaError_t chain_scratch_clear(void *scratch, cudaStream_t stream) { return gpu_clear(scratch, sizeof(ScratchHead), stream); }

cudaError_t chain_launch(Device *d, const ChainTask &task, void *scratch, size_t scratch_bytes, cudaStream_t stream)
{
    ChainTask t = task;
    t.spec = simplest(task.spec);
    if (rk_in_runs(&t.spec))
        return launch_runs(d, t, scratch, scratch_bytes, stream);
    FinishArgs a = element_args(t.spec, t.cells, t.fault);
    Scratch s = scratch_of(scratch, scratch_bytes);
    if (t.spec.flags & RP_STATES_IN)
        return launch_states(d, t, a, s, stream);
    return goes_wide(d, t, a) ? launch_wide(d, t, a, s, stream) : launch_lines(d, t, a, s, stream);
}

} // namespace rk
