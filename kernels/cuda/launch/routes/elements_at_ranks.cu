// Order statistics: the elements at some ranks of each line are found (launch/select_lines.h), or the best ones (top_lines.h),
// or all are counted between edges (bins_lines.h), and finished on the device. Lines that are not in one piece are gathered
// before, as many at once as there is scratch for.
#include "kernels/exact/order.h"
#include "kernels/exact/runs.h"

#include "kernels/cuda/launch/bins_lines.h"
#include "kernels/cuda/launch/routes.h"
#include "kernels/cuda/launch/top_lines.h"

namespace rk {
namespace {

constexpr u64 kAlign = 256;

u64 aligned(u64 bytes) { return div_up(bytes, kAlign) * kAlign; }
u64 least(u64 a, u64 b) { return a < b ? a : b; }
bool is_gathered(const rp_spec &s) { return s.flags & RP_COLUMNS || rk_in_runs(&s); }
u64 elements_of_line(const rp_spec &s) { return s.flags & RP_COLUMNS ? s.rows : rk_row_elements(&s); }
u64 gathered_bytes(const rp_spec &s)
{
    return is_gathered(s) ? elements_of_line(s) * (u64)(rk_bytes(s.dtype) + (s.flags & RP_MASK ? 1 : 0)) : 0;
}

// Median, quantile or kth
bool is_ranks(const rp_spec &s) { return s.op != RP_OP_HISTOGRAM && !rp_is_top(s.op); }

// Scratch behind its head, which other routes want to find zero
struct Room {
    unsigned char *at;
    u64 bytes;
};

Room room_of(void *memory, size_t bytes)
{
    const u64 head = aligned(sizeof(ScratchHead));
    return {(unsigned char *)memory + head, (bytes - head) / kAlign * kAlign};
}

// What a selection of lines of a task is made of.
struct Selection {
    Device *d;
    cudaStream_t stream;
    const ChainTask *t;
    rk_order_rule rules[RP_MAX_QUANTILES];
    u32 values;
    LineSet lines; // in one piece: `first` of the task's lines, and as many as fit
    u64 words;     // of scratch of each: what is found or counted
};

Selection selection_of(Device *d, const ChainTask &t, cudaStream_t stream)
{
    Selection x = {};
    x.d = d;
    x.stream = stream;
    x.t = &t;
    x.values = rk_order_values(&t.spec);
    for (u32 i = 0; i < x.values && is_ranks(t.spec); i++)
        x.rules[i] = rk_order_rule_of(&t.spec, i);
    x.lines.dtype = t.spec.dtype;
    x.lines.n = elements_of_line(t.spec);
    x.words = is_ranks(t.spec) ? found_words(x.values) : rp_is_top(t.spec.op) ? 0 : bins_slots(t.spec);
    return x;
}

cudaError_t gather(const Selection &x, const void *from, void *to, int bytes, u64 first, u64 lines)
{
    const rp_spec &s = x.t->spec;
    const bool columns = s.flags & RP_COLUMNS;
    const GatherLines a = {(const unsigned char *)from, (unsigned char *)to, first, lines, x.lines.n, s.rows, s.row_len};
    const u64 most = 16 * (u64)x.d->sms;
    const dim3 grid = columns ? dim3((u32)least(div_up(lines, 32), 1u << 20), (u32)least(div_up(x.lines.n, 32), 64))
                              : dim3((u32)least(div_up(lines * x.lines.n, kGatherThreads), most));
    return gpu_launch(false, gather_kernel(bytes, columns), grid, kGatherThreads, 0, x.stream, a);
}

// Lines [first, first + lines) in one piece each: where they are, or in `room`, of which the rest is left.
cudaError_t bring_lines(Selection *x, u64 first, u64 lines, Room *room)
{
    const rp_spec &s = x->t->spec;
    const rp_parts parts = parts_of(*x->t);
    const u64 bytes = (u64)rk_bytes(s.dtype), n = x->lines.n;
    x->lines.lines = lines;
    if (!is_gathered(s)) {
        x->lines.data = parts.elements + first * n * bytes;
        x->lines.mask = parts.mask ? parts.mask + first * n : NULL;
        return cudaSuccess;
    }
    x->lines.data = room->at;
    TRY_CUDA(gather(*x, parts.elements, room->at, (int)bytes, first, lines));
    unsigned char *mask = room->at + lines * n * bytes;
    x->lines.mask = parts.mask ? mask : NULL;
    if (parts.mask)
        TRY_CUDA(gather(*x, parts.mask, mask, 1, first, lines));
    const u64 taken = aligned(lines * gathered_bytes(s));
    *room = {room->at + taken, room->bytes - taken};
    return cudaSuccess;
}

cudaError_t find(const Selection &x, const Room &room, u64 *found)
{
    SelectTask t = {};
    (LineSet &)t = x.lines;
    t.rules = x.rules;
    t.pairs = x.values;
    t.found = found;
    return select_launch(x.d, t, room.at, room.bytes, x.stream);
}

cudaError_t finish(const Selection &x, u64 first, u64 lines, const u64 *found)
{
    const rp_spec &s = x.t->spec;
    FinishSelected a = {};
    a.found = found;
    a.n = x.lines.n;
    a.lines = lines;
    a.first_line = first;
    a.found_words = found_words(x.values);
    a.values = x.values;
    a.bytes = (u32)rp_dtype_size(s.out);
    a.dtype = s.dtype;
    a.out = s.out;
    a.nan = s.nan;
    a.cells = x.t->cells;
    a.fault = x.t->fault;
    for (; a.first_pair < x.values; a.first_pair += kMostPairs) {
        a.pairs = (u32)least(x.values - a.first_pair, kMostPairs);
        for (u32 p = 0; p < a.pairs; p++) {
            a.rules[p] = x.rules[a.first_pair + p];
            a.all[p] = rk_order_place(a.rules[p], x.lines.n ? x.lines.n : 1);
        }
        const u64 blocks = least(div_up(lines * a.pairs, 128), 1u << 20);
        TRY_CUDA(gpu_launch(x.d->overlapped_launch, finish_selected_kernel(), (u32)blocks, 128, 0, x.stream, a));
    }
    return cudaSuccess;
}

// Lines whose results fit into half of the room, and which, gathered, do so, too
u64 lines_at_once(const Selection &x, u64 bytes)
{
    const u64 each = x.words * sizeof(u64) + gathered_bytes(x.t->spec);
    return each ? bytes / 2 / each : RP_MAX_COUNT;
}

cudaError_t top(const Selection &x, u64 first, const Room &room, u64 *bad)
{
    const TopTask t = {x.lines, &x.t->spec, first, x.t->cells, x.t->fault, bad};
    return top_launch(x.d, t, room.at, room.bytes, x.stream);
}

cudaError_t histogram(const Selection &x, u64 first, const Room &room, u64 *counts)
{
    const rp_spec &s = x.t->spec;
    TRY_CUDA(bins_launch(x.d, s, x.t->bounds, x.lines, counts, room.at, x.stream));
    return bins_finish(x.d, s, first, x.lines.lines, counts, (u64 *)x.t->cells, x.t->fault, x.stream);
}

// Lines from `first` on
cudaError_t launch_lines(Selection *x, u64 first, u64 lines, Room room)
{
    u64 *words = (u64 *)room.at;
    const u64 taken = aligned(lines * x->words * sizeof(u64));
    room = {room.at + taken, room.bytes - taken};
    TRY_CUDA(bring_lines(x, first, lines, &room));
    if (x->t->spec.op == RP_OP_HISTOGRAM)
        return histogram(*x, first, room, words);
    if (!is_ranks(x->t->spec))
        return top(*x, first, room, NULL);
    TRY_CUDA(find(*x, room, words));
    return finish(*x, first, lines, words);
}

} // namespace

bool selects_on_device(const rp_spec &spec)
{
    const rp_spec s = simplest(spec);
    return !(spec.flags & (RP_OFFSETS | RP_KEYS)) && gathered_bytes(s) <= chain_scratch_bytes() / 4;
}

bool fits_selection(const Asked &q, WalkFn *) { return rp_is_ranked(q.s.op); }

cudaError_t launch_selection(const Asked &q, WalkFn)
{
    if (!selects_on_device(q.s))
        return cudaErrorNotSupported; // engines ask selects_on_device before
    Selection x = selection_of(q.d, q.t, q.stream);
    const Room room = room_of(q.memory.base, q.memory.bytes);
    const u64 at_once = lines_at_once(x, room.bytes);
    for (u64 first = 0, lines; first < q.lines; first += lines) {
        lines = least(at_once, q.lines - first);
        TRY_CUDA(launch_lines(&x, first, lines, room));
    }
    return cudaSuccess;
}

cudaError_t select_one_line(Device *d, const ChainTask &task, u64 line, void *scratch, size_t bytes, cudaStream_t stream,
                            u64 *found)
{
    ChainTask t = task;
    t.spec = simplest(task.spec);
    Selection x = selection_of(d, t, stream);
    Room room = room_of(scratch, bytes);
    TRY_CUDA(bring_lines(&x, line, 1, &room));
    return rp_is_top(t.spec.op) ? top(x, line, room, found) : find(x, room, found);
}

} // namespace rk
