// How many launches the best elements of lines take, and how large they are.
#include "kernels/cuda/launch/top_lines.h"

#include <cmath>

#include "kernels/cuda/launch/routes.h"
#include "kernels/cuda/pass/top_args.h"

namespace rk {
namespace {

constexpr u64 kLinesAtOnce = 65535; // blocks along a grid's y
constexpr u64 kAlign = 256;
constexpr u64 kSelectRoom = 1 << 20; // bytes that a selection has, at least: some lines of it

u64 least(u64 a, u64 b) { return a < b ? a : b; }
u64 most(u64 a, u64 b) { return a < b ? b : a; }
u64 room_of(u64 k) { return k + k / 3 + 4096; } // items
u64 aligned(u64 bytes) { return div_up(bytes, kAlign) * kAlign; }

TopKernels kernels_of(int dtype)
{
    TopKernels k = {};
    switch (rk_bytes(dtype)) {
    case 1:
        top_long_part<1>(&k), top_rows_part<1>(&k);
        break;
    case 2:
        top_long_part<2>(&k), top_rows_part<2>(&k);
        break;
    case 4:
        top_long_part<4>(&k), top_rows_part<4>(&k);
        break;
    default:
        top_long_part<8>(&k), top_rows_part<8>(&k);
    }
    return k;
}

// What a task's lines are given, and where.
struct Top {
    Device *d;
    cudaStream_t stream;
    const TopTask *t;
    TopKernels k;
    TopArgs a;
    u64 lines; // at once
    TopItem *other;
    u64 *found;
    unsigned char *rest;
    u64 rest_bytes;
};

// Groups of a sample have so many elements that a fifth of them hold one of the k best. As many as hold one, and 4.5 standard
// deviations more, are at least as good as the bound.
void choose_bound(TopArgs *a)
{
    const double share = (double)a->k / (double)a->n, group = fmin(fmin(0.2 / share, kTopGroup), (double)(a->n / kTopGroups));
    a->group_log2 = group > 1 ? (u32)ilogb(group) : 0;
    const double hold = -expm1((double)(1u << a->group_log2) * log1p(-share)), groups = kTopGroups * hold;
    const double rank = groups + 4.5 * sqrt(groups * (1 - hold)) + 4;
    a->rank = (u32)fmin(rank, kTopGroups - 1);
}

// Items that are at least as good as the bound, and 4.5 standard deviations more. Of few items of a long line these are many
// times k: a sample of 2^30 elements has one in 1024.
u64 most_kept(const TopArgs &a)
{
    const double rank = a.rank + 1, held = fmin((rank + 4.5 * sqrt(rank)) / kTopGroups, 0.9);
    return (u64)(-log1p(-held) / (double)(1u << a.group_log2) * (double)a.n);
}

TopArgs args_of(const TopTask &t)
{
    const rp_spec &s = *t.spec;
    const bool is_rows = is_short(t.lines);
    TopArgs a = {};
    a.data = (const unsigned char *)t.lines.data;
    a.mask = (const unsigned char *)t.lines.mask;
    a.n = t.lines.n;
    a.key = (s.op == RP_OP_LARGEST) != is_rows ? key_rule(s.dtype) : falling_rule(s.dtype);
    a.nans = rk_is_float(s.dtype) && s.nan != RP_NAN_OMIT;
    a.k = least((u64)s.k, a.n);
    a.room = is_rows ? most(a.k, 1) : room_of(a.k);
    a.all = is_rows || a.n <= a.room;
    if (!a.all) {
        choose_bound(&a);
        a.room = most(a.room, least(most_kept(a), room_of(RP_MAX_TOP)));
    }
    a.found_words = found_words(1);
    return a;
}

// Where everything is, for as many lines as there is scratch for
void lay_out(Top *x, unsigned char *at, u64 bytes)
{
    TopArgs &a = x->a;
    const u64 apart = a.all ? 0 : kTopGroups * sizeof(TopItem) + (kTopStretches + a.found_words) * sizeof(u64);
    const u64 line = sizeof(TopState) + apart + 2 * a.room * sizeof(TopItem);
    const u64 room = bytes - 8 * kAlign - (a.all ? 0 : kSelectRoom);
    const u64 lines = x->lines = least(least(room / line, kLinesAtOnce), x->t->lines.lines);
    auto take = [&](u64 n) {
        unsigned char *p = at;
        at += aligned(n);
        bytes -= aligned(n);
        return p;
    };
    a.states = (TopState *)take(lines * sizeof(TopState));
    a.items = (TopItem *)take(lines * a.room * sizeof(TopItem));
    x->other = (TopItem *)take(lines * a.room * sizeof(TopItem));
    if (!a.all) {
        a.sample = (TopItem *)take(lines * kTopGroups * sizeof(TopItem));
        a.ties = (u64 *)take(lines * kTopStretches * sizeof(u64));
        a.found = x->found = (u64 *)take(lines * a.found_words * sizeof(u64));
    }
    x->rest = at;
    x->rest_bytes = bytes;
}

cudaError_t gather(const Top &x, TopArgs a, u64 lines)
{
    int blocks;
    TRY_CUDA(device_blocks_per_sm(x.d, (const void *)x.k.gather, kTopThreads, 0, &blocks));
    const u64 tiles = div_up(a.n * (u64)rk_bytes(x.t->spec->dtype), 16384), share = (u64)blocks * (u64)x.d->sms / lines;
    const dim3 grid((u32)most(1, least(tiles, share)), (u32)lines);
    return gpu_launch(x.d->overlapped_launch, x.k.gather, grid, kTopThreads, 0, x.stream, a);
}

// For lines whose bound has failed: others are left alone by each launch.
cudaError_t bound_exactly(const Top &x, const TopArgs &a, u64 lines)
{
    const rk_order_rule rule = {-(i64)a.k, 0, 1, 0, 0, RK_RANK};
    SelectTask s = {};
    (LineSet &)s = x.t->lines;
    s.data = a.data;
    s.mask = a.mask;
    s.lines = lines;
    s.rules = &rule;
    s.pairs = 1;
    s.found = x.found;
    s.asked = &a.states->failed;
    s.asked_step = sizeof(TopState) / sizeof(u32);
    s.nans_first = a.nans;
    s.falling = x.t->spec->op == RP_OP_SMALLEST;
    TRY_CUDA(select_launch(x.d, s, x.rest, x.rest_bytes, x.stream));
    TRY_CUDA(gpu_launch(x.d->overlapped_launch, x.k.ties, dim3((u32)least(kTopStretches, div_up(a.n, 4096)), (u32)lines),
                        kTopThreads, 0, x.stream, a));
    TopArgs again = a;
    again.again = true;
    return gather(x, again, lines);
}

cudaError_t keep_items(const Top &x, TopArgs a, u64 lines)
{
    if (is_short(x.t->lines)) {
        LineSet s = x.t->lines;
        s.lines = a.lines = lines;
        return launch_short(x.d, s, x.k.warp_rows, x.k.block_rows, a, x.stream);
    }
    TRY_CUDA(gpu_clear(a.states, lines * sizeof(TopState), x.stream));
    if (!a.all)
        TRY_CUDA(gpu_launch(false, x.k.sample, dim3((u32)least(kTopGroups / 32, div_up((u64)x.d->sms * 2, lines)), (u32)lines),
                            kSampleThreads, 0, x.stream, a));
    TRY_CUDA(gather(x, a, lines));
    return a.all ? cudaSuccess : bound_exactly(x, a, lines);
}

// Returns where the sorted items are.
cudaError_t sort_items(const Top &x, const TopArgs &a, u64 lines, const TopItem **sorted)
{
    const TopEnds ends = top_ends();
    const bool small = a.room > kTopTile && a.room <= kTopSmallTile * kTopFan;
    TopRuns r = {a.items, x.other, a.states, a.k, a.room, small ? kTopSmallTile : kTopTile, small ? kTopFan : kTopFan / 2};
    u32 threads = kWarp;
    while (2 * threads < a.room && threads < r.length / 2)
        threads *= 2;
    TRY_CUDA(gpu_launch(x.d->overlapped_launch, ends.sort, dim3((u32)div_up(a.room, r.length), (u32)lines), (int)threads, 0,
                        x.stream, r));
    for (; r.length < a.room; r.length *= r.fan) {
        TRY_CUDA(
            gpu_launch(x.d->overlapped_launch, ends.merge, dim3((u32)div_up(a.room, 256), (u32)lines), 256, 0, x.stream, r));
        TopItem *from = r.from;
        r.from = r.to;
        r.to = from;
    }
    *sorted = r.from;
    return cudaSuccess;
}

cudaError_t finish(const Top &x, const TopArgs &a, u64 first, u64 lines, const TopItem *sorted)
{
    const rp_spec &s = *x.t->spec;
    FinishTop f = {};
    f.items = sorted;
    f.states = a.states;
    f.k = (u64)s.k;
    f.room = a.room;
    f.lines = lines;
    f.first_line = x.t->first + first;
    f.index_base = s.index_base;
    f.key = key_rule(s.dtype);
    f.falling = s.op == RP_OP_SMALLEST;
    f.dtype = s.dtype;
    f.out = s.out;
    f.nan = s.nan;
    f.bytes = (u32)rp_dtype_size(s.out);
    f.cell = rp_cell_size(&s);
    f.indexes_at = rp_indexes_at(&s);
    f.cells = (unsigned char *)x.t->cells;
    f.fault = x.t->fault;
    f.bad = x.t->bad;
    if (f.bad)
        return gpu_launch(false, top_ends().explain, 1, 1, 0, x.stream, f);
    return gpu_launch(x.d->overlapped_launch, top_ends().finish, (u32)least(div_up(lines * f.k, 128), 1u << 20), 128, 0,
                      x.stream, f);
}

} // namespace

cudaError_t top_launch(Device *d, const TopTask &t, void *scratch, u64 bytes, cudaStream_t stream)
{
    Top x = {};
    x.d = d;
    x.stream = stream;
    x.t = &t;
    x.k = kernels_of(t.lines.dtype);
    x.a = args_of(t);
    lay_out(&x, (unsigned char *)scratch, bytes);
    TopArgs a = x.a;
    const u64 of_line = a.n * (u64)rk_bytes(t.lines.dtype);
    for (u64 first = 0, lines; first < t.lines.lines; first += lines) {
        const TopItem *sorted;
        lines = least(x.lines, t.lines.lines - first);
        TRY_CUDA(keep_items(x, a, lines));
        TRY_CUDA(sort_items(x, a, lines, &sorted));
        TRY_CUDA(finish(x, a, first, lines, sorted));
        a.data += lines * of_line;
        a.mask += a.mask ? lines * a.n : 0;
    }
    return cudaSuccess;
}

} // namespace rk
