#include "kernels/cuda/runtime/slot.cuh"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/pass/select_args.h"
#include "kernels/cuda/runtime/keyed_task.cuh"
#include "kernels/cuda/runtime/slot_room.cuh"
#include "kernels/exact/line.h"
#include "kernels/exact/order.h"
#include "kernels/exact/runs.h"
#include "kernels/exact/state.h"

namespace rk {
namespace {

// If the context is in order, a failure is taken as lack of memory, whatever CUDA calls it.
cudaError_t pinned(TaskSlot *s, void **p, size_t bytes)
{
    const cudaError_t err = cudaHostAlloc(p, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (err != cudaSuccess) {
        *p = NULL;
        return context_error() == cudaSuccess ? cudaErrorMemoryAllocation : err;
    }
    __atomic_fetch_add(&s->pinned_bytes, bytes, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t device_memory(TaskSlot *s, void **p, size_t bytes)
{
    TRY_CUDA(cudaMalloc(p, bytes));
    __atomic_fetch_add(&s->device_bytes, bytes, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t open_parts(TaskSlot *s)
{
    TRY_CUDA(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    TRY_CUDA(cudaStreamCreateWithFlags(&s->clock, cudaStreamNonBlocking));
    TRY_CUDA(cudaEventCreateWithFlags(&s->arrived, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreate(&s->begin));
    TRY_CUDA(cudaEventCreate(&s->copied));
    TRY_CUDA(cudaEventCreate(&s->done));
    TRY_CUDA(pinned(s, &s->staging, kSlotBytes));
    TRY_CUDA(pinned(s, &s->mapped, kMappedBytes));
    TRY_CUDA(device_memory(s, &s->input, kSlotBytes));
    TRY_CUDA(device_memory(s, &s->scratch, chain_scratch_bytes()));
    TRY_CUDA(chain_scratch_clear(s->scratch, s->stream));
    s->fault = (u32 *)((unsigned char *)s->mapped + kMappedCells);
    return cudaSuccess;
}

cudaError_t open_cells_host(TaskSlot *s)
{
    const cudaError_t err = pinned(s, &s->cells_host, RP_MAX_DATA);
    if (err != cudaErrorMemoryAllocation)
        return err;
    cudaGetLastError();
    s->cells_host = malloc(RP_MAX_DATA);
    s->cells_plain = s->cells_host != NULL;
    return s->cells_host ? cudaSuccess : err;
}

cudaError_t open_cells(TaskSlot *s)
{
    if (!s->cells_host)
        TRY_CUDA(open_cells_host(s));
    if (!s->cells_device)
        TRY_CUDA(device_memory(s, &s->cells_device, RP_MAX_DATA));
    return cudaSuccess;
}

constexpr size_t kMuch = 1 << 20; // bytes

size_t cells_bytes(const rk_task *t) { return t->fill ? 0 : rp_results(&t->spec) * rp_cell_size(&t->spec); }

bool needs_copy(const rk_task *t) { return t->fill || !t->memory; }

const void *in_memory(const rk_task *t) { return (const unsigned char *)t->memory->base + t->offset; }

// Where the copy's times are noted. Timed events keep the bus waiting: two beside each copy of 4 MiB take 7 % of its rate
// (H200). So those of large copies are on a stream of their own, some microseconds late.
cudaStream_t clock_of(const TaskSlot *s, const rk_task *t) { return slot_copies_much(t) ? s->clock : s->stream; }

// Weights that come with the data. On the device they begin where their type wants it: not behind a mask of any length.
struct Brought {
    const uint8_t *from;
    size_t to, bytes; // their place in `input`, and how many there are; 0: none
};

Brought brought_weights(const rk_task *t)
{
    if (t->fill || t->memory || !(t->spec.flags & RP_WEIGHTS))
        return {NULL, 0, 0};
    const uint8_t *from = rp_spec_parts(&t->spec, t->data, t->beside).weights;
    const size_t at = (size_t)(from - (const uint8_t *)t->data), size = rp_dtype_size(t->spec.weights);
    return {from, (at + size - 1) / size * size, rp_role_bytes(&t->spec, RP_ROLE_WEIGHTS)};
}

// Copy the task's data to the device, and note when that begins. `w`: of these, the weights may lie further on.
cudaError_t copy_data(TaskSlot *s, const rk_task *t, const Brought &w, bool pinned, void *to)
{
    const size_t bytes = w.bytes ? w.to + w.bytes : t->bytes,
                 before = w.bytes ? (size_t)(w.from - (const uint8_t *)t->data) : 0;
    const bool moved = w.bytes && w.to != before;
    if (moved) {
        memcpy(s->staging, t->data, before);
        memcpy((unsigned char *)s->staging + w.to, w.from, w.bytes);
    } else if (!pinned) {
        memcpy(s->staging, t->data, t->bytes);
    }
    TRY_CUDA(cudaEventRecord(s->begin, clock_of(s, t)));
    return cudaMemcpyAsync(to, pinned && !moved ? t->data : s->staging, moved ? bytes : t->bytes, cudaMemcpyHostToDevice,
                           s->stream);
}

// ... and when it is over.
cudaError_t note_arrival(TaskSlot *s, const rk_task *t)
{
    const cudaStream_t clock = clock_of(s, t);
    if (clock != s->stream) {
        TRY_CUDA(cudaEventRecord(s->arrived, s->stream));
        TRY_CUDA(cudaStreamWaitEvent(clock, s->arrived, 0));
    }
    return cudaEventRecord(s->copied, clock);
}

// Where the chain finds the task's data.
cudaError_t bring_data(TaskSlot *s, const rk_task *t, bool pinned, const void **where)
{
    *where = t->memory ? in_memory(t) : s->input;
    if (needs_copy(t))
        TRY_CUDA(copy_data(s, t, brought_weights(t), pinned, (void *)*where));
    return note_arrival(s, t);
}

// Bytes of weights on the device that do not lie as their type does. Kernels read a copy of them, in the slot's room.
u64 odd_weights(const rk_task *t)
{
    const bool are = !t->fill && t->memory && t->spec.flags & RP_WEIGHTS && t->beside &&
                     (uintptr_t)t->beside->weights % rp_dtype_size(t->spec.weights);
    return are ? rp_role_bytes(&t->spec, RP_ROLE_WEIGHTS) : 0;
}

// Where weights beside the task's data are.
const uint8_t *weights_beside(const TaskSlot *s, const rk_task *t)
{
    return odd_weights(t) ? (const uint8_t *)s->room : t->beside ? t->beside->weights : NULL;
}

cudaError_t copy_odd_weights(TaskSlot *s, const rk_task *t)
{
    const u64 bytes = odd_weights(t);
    if (!bytes)
        return cudaSuccess;
    TRY_CUDA(slot_open_room(s, bytes));
    return cudaMemcpyAsync(s->room, t->beside->weights, bytes, cudaMemcpyDeviceToDevice, s->stream);
}

bool in_mapped(const rk_task *t) { return cells_bytes(t) <= kMappedCells; }

ChainTask chain_of(const TaskSlot *s, const rk_task *t, const void *data)
{
    const Brought w = brought_weights(t);
    return {t->spec,
            data,
            t->memory ? NULL : rp_spec_parts(&t->spec, t->data, NULL).offsets,
            t->base,
            in_mapped(t) ? s->mapped : s->cells_device,
            s->fault,
            t->beside ? t->beside->mask : NULL,
            w.from ? (const uint8_t *)data + w.to : weights_beside(s, t),
            NULL,
            t->bounds};
}

cudaError_t reduce_data(TaskSlot *s, Device *d, rk_task *t, const void *data)
{
    const bool mapped = in_mapped(t);
    if (!mapped)
        TRY_CUDA(open_cells(s));
    *s->fault = kNoFault;
    if (t->spec.flags & RP_KEYS)
        TRY_CUDA(keyed_task_launch(s, d, t));
    TRY_CUDA(copy_odd_weights(s, t));
    if (!(t->spec.flags & RP_KEYS))
        TRY_CUDA(chain_launch(d, chain_of(s, t, data), s->scratch, chain_scratch_bytes(), s->stream, &t->route));
    if (!mapped && cells_bytes(t) <= RP_MAX_DATA)
        TRY_CUDA(cudaMemcpyAsync(s->cells_host, s->cells_device, cells_bytes(t), cudaMemcpyDeviceToHost, s->stream));
    return cudaSuccess;
}

// A line, or a part of one: `runs` runs of `run` elements, which begin `apart` elements one behind the other.
struct Runs {
    u64 first, run, apart, runs;
};

// Has each run of a row the same weights?
bool has_same_weights(const rp_spec &s) { return s.flags & RP_WEIGHTS && s.weights_extent == RP_EXTENT_ROW && rk_in_runs(&s); }

Runs runs_of(const rk_task *t, u64 line)
{
    const rp_spec &s = t->spec;
    const rk_line l = rk_line_of(&s, NULL, line);
    const u64 planes = rk_in_runs(&s) ? s.planes : 1;
    const Runs r = s.flags & RP_COLUMNS ? Runs{l.first, 1, l.stride, l.n} : Runs{l.first, l.n, s.rows * l.n, planes};
    return r.apart == r.run && !has_same_weights(s) ? Runs{r.first, r.run * r.runs, r.run * r.runs, 1} : r;
}

// The next part behind `done` elements of the line: as many runs as a slot has room for, or one if they are longer. What has a
// mask is copied, so it must fit.
Runs next_part(const rk_task *t, const Runs &r, u64 done)
{
    const rp_spec &s = t->spec;
    const u64 size = rp_dtype_size(s.dtype), i = done / r.run, from = done % r.run;
    const u64 first = r.first + i * r.apart + from, left = r.run - from;
    const u64 most = kSlotBytes / (size + 1 + (s.flags & RP_WEIGHTS ? sizeof(u64) + 1 : 0));
    if (r.runs > 1 && !has_same_weights(s) && r.run <= most && r.apart * size <= INT32_MAX) // what cudaMemcpy2D takes
        return {first, r.run, r.apart, std::min(most / r.run, r.runs - i)};
    const u64 n = s.flags & RP_MASK ? std::min(left, most) : left;
    return {first, n, n, 1};
}

// Runs of items of `size` bytes that begin at `from`, one behind the other.
cudaError_t gather(TaskSlot *s, const void *from, size_t size, const Runs &r, void *to)
{
    if (r.runs == 1)
        return cudaMemcpyAsync(to, from, r.run * size, cudaMemcpyDeviceToDevice, s->stream);
    return cudaMemcpy2DAsync(to, r.run * size, from, r.apart * size, r.run * size, r.runs, cudaMemcpyDeviceToDevice, s->stream);
}

// The weights of such a part, where they are: as many as it has elements, which lie like these or side by side, or one.
struct PartWeights {
    const uint8_t *from;
    rp_extent extent;
    bool apart;
};

PartWeights weights_of_part(const rp_spec &s, const uint8_t *weights, const Runs &r)
{
    const bool columns = s.flags & RP_COLUMNS, one = s.weights_extent == (columns ? RP_EXTENT_ROW : RP_EXTENT_COLUMN);
    const uint8_t *from = weights + rk_weight_of(&s, r.first) * rp_dtype_size(s.weights);
    return {from, one ? RP_EXTENT_COLUMN : RP_EXTENT_ELEMENTS, s.weights_extent == RP_EXTENT_ELEMENTS && r.runs > 1};
}

// ... to the chain; those that lie apart are gathered at `to`.
cudaError_t bring_weights(TaskSlot *s, const rp_spec &spec, const uint8_t *weights, const Runs &r, ChainTask *chain, void *to)
{
    const PartWeights w = weights_of_part(spec, weights, r);
    chain->spec.flags |= RP_WEIGHTS;
    chain->spec.weights_extent = (uint8_t)w.extent;
    chain->weights = w.apart ? (const uint8_t *)to : w.from;
    return w.apart ? gather(s, w.from, rp_dtype_size(spec.weights), r, to) : cudaSuccess;
}

// A part of a line of the task's memory to its state. `base`: the index of its first element. Waits for it.
cudaError_t reduce_part(TaskSlot *s, Device *d, const rk_task *t, const Runs &r, u64 base, rk_state *state)
{
    const size_t size = rp_dtype_size(t->spec.dtype);
    const rp_parts parts = rp_spec_parts(&t->spec, in_memory(t), t->beside);
    const u64 n = r.run * r.runs;
    ChainTask chain = {t->spec, parts.elements + r.first * size, NULL, base, s->mapped, s->fault, NULL, NULL, NULL, NULL};
    chain.spec.flags = RP_STATES_OUT | (t->spec.flags & RP_MASK);
    chain.spec.rows = 1;
    chain.spec.planes = 0;
    chain.spec.row_len = n;
    if (r.runs > 1 || parts.mask) {
        TRY_CUDA(gather(s, chain.data, size, r, s->input));
        if (parts.mask)
            TRY_CUDA(gather(s, parts.mask + r.first, 1, r, (unsigned char *)s->input + n * size));
        chain.data = s->input;
    }
    if (parts.weights)
        TRY_CUDA(bring_weights(s, t->spec, weights_beside(s, t), r, &chain,
                               (unsigned char *)s->input + (n * (size + 1) + sizeof(u64)) / sizeof(u64) * sizeof(u64)));
    const char *route; // the task's was noted when it was launched
    TRY_CUDA(chain_launch(d, chain, s->scratch, chain_scratch_bytes(), s->stream, &route));
    TRY_CUDA(cudaStreamSynchronize(s->stream));
    memcpy(state, s->mapped, rp_state_size(rp_spec_layout(&t->spec)));
    return cudaSuccess;
}

// The elements at the ranks of a line, of what is found of it.
void elements_at_ranks(const rp_spec &s, const u64 *found, uint64_t bits[RK_MAX_RANKS])
{
    uint64_t rank[RK_MAX_RANKS];
    const unsigned ranks = rk_order_ranks(&s, found[0], rank);
    for (unsigned i = 0; i < ranks; i++)
        for (unsigned v = 0; v < rk_order_values(&s); v++) {
            const rk_place p = rk_order_place(rk_order_rule_of(&s, v), found[0]);
            const u64 *key = found + kFoundHead + 2 * v;
            if (p.at == rank[i] || p.at + 1 == rank[i])
                bits[i] = bits_of_key(s.dtype, key[p.at != rank[i]]);
            if (p.at == rank[i])
                break;
        }
}

cudaError_t explain_selection(TaskSlot *s, Device *d, rk_task *t, u64 line)
{
    static_assert(sizeof(u64) * (kFoundHead + 2 * RP_MAX_QUANTILES) <= kMappedCells, "what is found of a line");
    const ChainTask chain = chain_of(s, t, in_memory(t));
    u64 *found = (u64 *)s->mapped;
    uint64_t bits[RK_MAX_RANKS];
    uint8_t cell[RP_MAX_QUANTILES * sizeof(u64)];
    if (t->spec.op == RP_OP_HISTOGRAM) { // there is but one reason
        rk_order_fault(&t->fault, &t->spec, line, RP_NAN, 0, bits);
        return cudaSuccess;
    }
    TRY_CUDA(select_one_line(d, chain, line, s->scratch, chain_scratch_bytes(), s->stream, found));
    TRY_CUDA(cudaStreamSynchronize(s->stream));
    if (rp_is_top(t->spec.op)) {
        rk_order_fault(&t->fault, &t->spec, line, rk_is_nan(t->spec.dtype, found[0]) ? RP_NAN : RP_OVERFLOW, 0,
                       (uint64_t *)found);
        return cudaSuccess;
    }
    elements_at_ranks(t->spec, found, bits);
    const rp_err err = rk_order_cell(&t->spec, found[0], found[1], bits, cell);
    rk_order_fault(&t->fault, &t->spec, line, err, found[0], bits);
    return cudaSuccess;
}

// Rare: line `line` has no result. The CPU finds out why: it reduces host data, which are few, or finishes the line's state of
// data on the device.
cudaError_t explain(TaskSlot *s, Device *d, rk_task *t, u64 line)
{
    if (!t->memory) {
        rk_cpu_run(t);
        return cudaSuccess;
    }
    if (rp_is_ranked(t->spec.op))
        return explain_selection(s, d, t, line);
    const Runs r = runs_of(t, line);
    rk_state all, of_part;
    rk_state_init(&all, rp_spec_layout(&t->spec), rp_spec_state_dtype(&t->spec));
    for (u64 done = 0, n; done < r.run * r.runs; done += n) {
        const Runs part = next_part(t, r, done);
        n = part.run * part.runs;
        TRY_CUDA(reduce_part(s, d, t, part, t->base + done, &of_part));
        rk_state_merge(&all, &of_part);
    }
    rk_explain(t, line, &all);
    return cudaSuccess;
}

// The copy is over, and its event some microseconds later.
cudaError_t await_copied(TaskSlot *s)
{
    cudaError_t err;
    while ((err = cudaEventQuery(s->copied)) == cudaErrorNotReady)
        cudaGetLastError(); // not an error that a later launch should find
    return err;
}

cudaError_t enqueue(TaskSlot *s, Device *d, rk_task *t, bool pinned)
{
    const void *data;
    TRY_CUDA(bring_data(s, t, pinned, &data));
    if (!t->fill)
        TRY_CUDA(reduce_data(s, d, t, data));
    return cudaEventRecord(s->done, s->stream);
}

} // namespace

cudaError_t slot_open(TaskSlot *s)
{
    *s = TaskSlot{};
    cudaError_t err = open_parts(s);
    if (err != cudaSuccess)
        slot_close(s);
    else
        s->open = true;
    return err;
}

void slot_close(TaskSlot *s)
{
    cudaFree(s->room);
    cudaFree(s->cells_device);
    cudaFree(s->scratch);
    cudaFree(s->input);
    if (s->cells_plain)
        free(s->cells_host);
    else
        cudaFreeHost(s->cells_host);
    cudaFreeHost(s->mapped);
    cudaFreeHost(s->staging);
    for (cudaEvent_t e : {s->begin, s->copied, s->done, s->arrived})
        if (e)
            cudaEventDestroy(e);
    for (cudaStream_t x : {s->stream, s->clock})
        if (x)
            cudaStreamDestroy(x);
    *s = TaskSlot{};
}

bool slot_holds(const rk_task *t)
{
    const Brought w = brought_weights(t);
    return !w.from || (!(t->beside && t->beside->weights) && w.to + w.bytes <= kSlotBytes);
}

bool slot_copies_much(const rk_task *t) { return needs_copy(t) && t->bytes >= kMuch; }

bool slot_only_launches(const TaskSlot *s, const rk_task *t)
{
    if (t->fill || !t->memory)
        return false;
    return t->spec.flags & RP_KEYS ? keyed_task_only_launches(s, t)
                                   : cells_bytes(t) <= kMappedCells && odd_weights(t) <= s->room_bytes;
}

u64 slot_room(const rk_task *t) { return t->spec.flags & RP_KEYS ? keyed_task_room(t) : odd_weights(t); }

cudaError_t slot_launch(TaskSlot *s, Device *d, rk_task *t, bool pinned)
{
    s->copies_much = slot_copies_much(t);
    cudaError_t err = enqueue(s, d, t, pinned);
    if (err != cudaSuccess)
        cudaStreamSynchronize(s->stream); // what was begun is over before the task and its memory go
    return err;
}

cudaError_t slot_finish(TaskSlot *s, Device *d)
{
    rk_task *t = s->task;
    float copy_ms = 0, compute_ms;
    TRY_CUDA(await_copied(s));
    if (needs_copy(t))
        TRY_CUDA(cudaEventElapsedTime(&copy_ms, s->begin, s->copied));
    TRY_CUDA(cudaEventElapsedTime(&compute_ms, s->copied, s->done));
    compute_ms = compute_ms > 0 ? compute_ms : 0;
    const u64 start = t->start_ns;
    const u32 fault = t->fill ? kNoFault : *(volatile u32 *)s->fault;
    rp_fail(&t->fault, RP_OK, "", 0, "%s", "");
    if (!t->fill && t->spec.flags & RP_KEYS)
        TRY_CUDA(keyed_task_finish(s, d, t));
    else if (fault != kNoFault)
        TRY_CUDA(explain(s, d, t, fault));
    else if (!t->fill)
        memcpy(t->cells, cells_bytes(t) <= kMappedCells ? s->mapped : s->cells_host, cells_bytes(t));
    t->backend = RP_BACKEND_CUDA;
    t->start_ns = start;
    t->copy_ns = (uint64_t)((double)copy_ms * 1e6);
    t->compute_ns = (uint64_t)((double)compute_ms * 1e6);
    return cudaSuccess;
}

} // namespace rk
