// Whole rows by blocks that share them, or by a block each.
#include "kernels/cuda/launch/routes.h"

#include <algorithm>

#include "kernels/cuda/launch/tuning.h"
#include "kernels/cuda/ops/registry.h"
#include "kernels/exact/line.h"

namespace rk {
namespace {

// The most tiles of `unroll` vectors that a thread may add, when part of another one follows.
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

// If a row has many tiles, its last ones are handed out by tickets, where blocks draw from every counter.
void give_tickets(const SegmentKernel &k, u64 blocks, u64 tiles, SegmentArgs *g)
{
    const u64 warps = k.threads / kWarp, rounds = g->rounds - div_up(g->rounds, kTuning.ticket_share),
              tickets = (tiles - rounds * blocks) * warps;
    const u64 fair = div_up(tickets, blocks * warps), room = most_tiles(k, 16u >> g->element_log2) - rounds;
    const u64 most = 4 * fair < room ? 4 * fair : room;
    if (blocks < kDrawers || g->rounds < kTuning.ticket_rounds || most <= fair || most > UINT16_MAX || tickets > UINT32_MAX)
        return;
    g->rounds = (u32)rounds;
    g->tickets = (u32)tickets;
    g->most_tickets = (u16)most;
}

// How `blocks` blocks share the vectors of a row. `tickets`: some of the tiles may be handed out by tickets.
void share_row(const SegmentKernel &k, u64 blocks, bool tickets, SegmentArgs *g)
{
    const u64 per_vector = 16u >> g->element_log2, tile = (u64)k.threads * k.unroll;
    u64 most = g->row_len / per_vector, least = most - (most > 0); // it depends on the row's first address
    if (g->rows == 1 || g->row_len % per_vector == 0) {            // ... which all rows have alike here
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

// A launch of rows, and what finishes those that its last blocks cannot finish.
cudaError_t launch_batch(const Asked &q, const RowKernel &by, const FinishArgs &finish, const SegmentArgs &g, u64 per_row)
{
    const SegmentKernel &k = by.k;
    const dim3 grid((u32)per_row, rows_of_grid(g.rows));
    const bool overlap = g.again && q.d->overlapped_launch; // mostly there is nothing to do
    TRY_CUDA(gpu_launch(overlap, k.fn, grid, k.threads, k.shared_bytes, q.stream, g, finish, q.scratch.a));
    if (by.redo) {
        // mostly there is nothing to do
        const dim3 few(q.paired ? (u32)per_row : std::min((u32)per_row, 2 * (u32)q.d->sms), grid.y);
        return gpu_launch(q.d->overlapped_launch, by.redo, few, k.threads, 0, q.stream, g, finish, q.scratch.a);
    }
    if (finish.light || finish.ends) // a row's last block finishes it
        return cudaSuccess;
    return merge_rows(q, finish, g.rows, per_row, g.first_row);
}

// How many blocks each row has, and whether its last one can finish it.
struct BlocksOfRows {
    u64 per_row;
    bool at_once, adds, ends;
};
cudaError_t blocks_of_rows(const Asked &q, const SegmentKernel &k, const SegmentArgs &all, const FinishArgs &a, BlocksOfRows *b)
{
    int blocks_per_sm;
    TRY_CUDA(device_blocks_per_sm(q.d, (const void *)k.fn, k.threads, k.shared_bytes, &blocks_per_sm));
    const u64 blocks = (u64)q.d->sms * blocks_per_sm;
    b->per_row = blocks_per_row(q.d, k, blocks_per_sm, all);
    b->at_once = b->per_row <= blocks;
    b->adds = !a.light && can_add(a.plan);
    b->ends = k.ends && b->adds && b->per_row * all.rows <= blocks;
    return cudaSuccess;
}

// The rows of `t`, which is the task of `q` or a part of it, to the cells of `a`.
cudaError_t reduce_rows(const Asked &q, const RowKernel &by, const ChainTask &t, const FinishArgs &a, bool again = false)
{
    const SegmentKernel &k = by.k;
    SegmentArgs all = segment_args(q, t);
    BlocksOfRows b;
    TRY_CUDA(blocks_of_rows(q, k, all, a, &b));
    const u64 per_row = b.per_row;
    const bool adds = b.adds, at_once = b.at_once;
    FinishArgs finish = a;
    finish.ends = by.finishes || b.ends; // else the next pass finishes all rows
    if (!by.finishes && !by.redo && adds && (per_row > 1 || finish.ends))
        finish.added = k.sums && !q.d->slow_doubles ? kAddedBesideSums : kAdded;
    share_row(k, per_row, k.tickets && all.rows == 1 && per_row > 1 && at_once && (a.light || by.finishes || finish.added),
              &all);
    // A block leaves no more than a partial. Rows in doubt have a word, too.
    const u64 room = q.scratch.words / (per_row * a.plan.all + (by.redo ? 2 : 0));
    all.meets = (a.light || finish.ends) && all.rows == 1 && per_row > 1 && per_row <= kSlots;
    all.totals = q.scratch.totals;
    all.again = again;
    const u64 batch = per_row > 1 && room > kRowTotals ? kRowTotals : room;
    if (batch == 0)
        return cudaErrorMemoryAllocation;
    for (u64 first = 0; first < all.rows; first += batch) {
        SegmentArgs g = all;
        g.rows = all.rows - first < batch ? all.rows - first : batch;
        g.first_row = first;
        g.data += (first * g.row_len) << g.element_log2;
        if (t.spec.flags & RP_MASK)
            g.mask = parts_of(t).mask + first * g.row_len;
        if (q.paired)
            g.weights += first * g.weights_each * (u64)rk_bytes(t.spec.weights);
        TRY_CUDA(launch_batch(q, by, finish, g, per_row));
    }
    return cudaSuccess;
}

// The length of the longest segment. One load a segment: with many of them the device must not wait for the host.
u64 longest_segment(const Asked &q)
{
    u64 most = 0, begin = rk_offset(q.t.offsets, 0);
    for (u64 i = 1; i <= q.s.rows; i++) {
        const u64 end = rk_offset(q.t.offsets, i), n = end - begin;
        most = n > most ? n : most;
        begin = end;
    }
    return most;
}

cudaError_t launch_long_segment(const Asked &q, u64 i, const rk_line &line)
{
    ChainTask one = q.t;
    FinishArgs finish = q.a;
    one.spec.flags = finish.spec.flags &= ~(uint32_t)RP_OFFSETS;
    one.spec.rows = 1;
    one.spec.row_len = line.n;
    const rp_parts parts = parts_of(q.t);
    one.data = parts.elements + line.first * q.bytes;
    one.mask = parts.mask ? parts.mask + line.first : NULL;
    one.weights = parts.weights ? parts.weights + line.first * (u64)rk_bytes(q.s.weights) : NULL;
    finish.cells = (unsigned char *)q.a.cells + i * q.a.cell_bytes;
    return reduce_rows(q, q.whole, one, finish);
}

// Sums of long masked rows of floats, both parts in whole words. fn is NULL if there is no such kernel.
SegmentKernel masked_kernel(const Asked &q)
{
    return is_long_masked(q) && q.floats && q.pairs ? masked_sum_kernel(q.layout, q.s.dtype, skips_nans(q.s)) : SegmentKernel{};
}

} // namespace

bool suits_blocks(const Asked &q, bool walked)
{
    if (q.lines < kTuning.short_rows_min || q.s.row_len > longest_shared_line(q))
        return true;
    if (!q.sum && walked) // a block's accumulators take long to begin and to end
        return false;
    if (q.s.row_len > kTuning.short_row && q.lines < (u64)q.d->sms * 8)
        return true;
    return !q.sum && q.s.row_len * q.bytes >= kTuning.block_row;
}

bool fits_blocks(const Asked &q, WalkFn *)
{
    if (q.paired)
        return !q.columns && !q.segments && q.whole.k.fn && q.s.row_len && suits_blocks(q, q.whole.redo != NULL);
    if (!q.rows || !q.whole.k.fn || !q.s.row_len)
        return false;
    const bool few = q.whole.finishes && q.lines <= (u64)q.d->sms && q.s.row_len * q.bytes >= kTuning.block_row;
    return few || suits_blocks(q, q.floats ? q.pairs : q.whole.redo != NULL);
}

cudaError_t launch_blocks(const Asked &q, WalkFn)
{
    FinishArgs a = q.a;
    if (!q.again.k.fn)
        return reduce_rows(q, q.whole, q.t, a);
    a.doubts = q.scratch.doubts;
    TRY_CUDA(reduce_rows(q, q.whole, q.t, a));
    return reduce_rows(q, q.again, q.t, a, true);
}

bool fits_masked_blocks(const Asked &q, WalkFn *) { return masked_kernel(q).fn; }

cudaError_t launch_masked_blocks(const Asked &q, WalkFn) { return reduce_rows(q, {masked_kernel(q), NULL, false}, q.t, q.a); }

cudaError_t launch_long_segments(const Asked &q)
{
    if (q.longest == kAnyLength || longest_segment(q) <= q.longest)
        return cudaSuccess;
    for (u64 i = 0; i < q.s.rows; i++) {
        const rk_line line = rk_line_of(&q.s, q.t.offsets, i);
        if (line.n > q.longest)
            TRY_CUDA(launch_long_segment(q, i, line));
    }
    return cudaSuccess;
}

} // namespace rk
