#include "kernels/cuda/runtime/slot.cuh"

#include <cstdlib>
#include <cstring>

#include "kernels/exact/line.h"
#include "kernels/exact/runs.h"
#include "kernels/exact/state.h"

namespace rk {
namespace {

// Where the context is in order, whatever the reason is, it is a want of memory.
cudaError_t pinned(Slot *s, void **p, size_t bytes)
{
    const cudaError_t err = cudaHostAlloc(p, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (err != cudaSuccess) {
        *p = NULL;
        return context_error() == cudaSuccess ? cudaErrorMemoryAllocation : err;
    }
    __atomic_fetch_add(&s->pinned_bytes, bytes, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t device_memory(Slot *s, void **p, size_t bytes)
{
    TRY_CUDA(cudaMalloc(p, bytes));
    __atomic_fetch_add(&s->device_bytes, bytes, __ATOMIC_RELAXED);
    return cudaSuccess;
}

cudaError_t open_parts(Slot *s)
{
    TRY_CUDA(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    TRY_CUDA(cudaStreamCreateWithFlags(&s->clock, cudaStreamNonBlocking));
    TRY_CUDA(cudaEventCreateWithFlags(&s->arrived, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreate(&s->begin));
    TRY_CUDA(cudaEventCreate(&s->copied));
    TRY_CUDA(cudaEventCreate(&s->done));
    TRY_CUDA(pinned(s, &s->staging, s->chunk_bytes));
    TRY_CUDA(pinned(s, &s->mapped, kMappedCells + sizeof(u64)));
    TRY_CUDA(device_memory(s, &s->input, s->chunk_bytes));
    TRY_CUDA(device_memory(s, &s->scratch, chain_scratch_bytes()));
    TRY_CUDA(chain_scratch_clear(s->scratch, s->stream));
    s->fault = (u32 *)((unsigned char *)s->mapped + kMappedCells);
    return cudaSuccess;
}

cudaError_t open_cells_host(Slot *s)
{
    const cudaError_t err = pinned(s, &s->cells_host, RP_MAX_DATA);
    if (err != cudaErrorMemoryAllocation)
        return err;
    cudaGetLastError();
    s->cells_host = malloc(RP_MAX_DATA);
    s->cells_plain = s->cells_host != NULL;
    return s->cells_host ? cudaSuccess : err;
}

cudaError_t open_cells(Slot *s)
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
cudaStream_t clock_of(const Slot *s, const rk_task *t) { return slot_copies_much(t) ? s->clock : s->stream; }

// Copy the task's data to the device, and note when that begins.
cudaError_t copy_data(Slot *s, const rk_task *t, bool pinned, void *to)
{
    if (!pinned)
        memcpy(s->staging, t->data, t->bytes);
    TRY_CUDA(cudaEventRecord(s->begin, clock_of(s, t)));
    return cudaMemcpyAsync(to, pinned ? t->data : s->staging, t->bytes, cudaMemcpyHostToDevice, s->stream);
}

// ... and when it is over.
cudaError_t note_arrival(Slot *s, const rk_task *t)
{
    const cudaStream_t clock = clock_of(s, t);
    if (clock != s->stream) {
        TRY_CUDA(cudaEventRecord(s->arrived, s->stream));
        TRY_CUDA(cudaStreamWaitEvent(clock, s->arrived, 0));
    }
    return cudaEventRecord(s->copied, clock);
}

// Where the chain finds the task's data.
cudaError_t bring_data(Slot *s, const rk_task *t, bool pinned, const void **where)
{
    *where = t->memory ? in_memory(t) : s->input;
    if (needs_copy(t))
        TRY_CUDA(copy_data(s, t, pinned, (void *)*where));
    return note_arrival(s, t);
}

cudaError_t reduce_data(Slot *s, Device *d, const rk_task *t, const void *data)
{
    const bool mapped = cells_bytes(t) <= kMappedCells;
    if (!mapped)
        TRY_CUDA(open_cells(s));
    *s->fault = kNoFault;
    ChainTask chain = {t->spec,
                       data,
                       t->memory ? NULL : rp_spec_parts(&t->spec, t->data).offsets,
                       t->base,
                       mapped ? s->mapped : s->cells_device,
                       s->fault};
    TRY_CUDA(chain_launch(d, chain, s->scratch, chain_scratch_bytes(), s->stream));
    if (!mapped)
        TRY_CUDA(cudaMemcpyAsync(s->cells_host, s->cells_device, cells_bytes(t), cudaMemcpyDeviceToHost, s->stream));
    return cudaSuccess;
}

// Is a line, with its mask, in several places?
bool is_scattered(const rk_task *t, const rk_line &l) { return l.stride > 1 || t->spec.flags & RP_MASK; }

// `n` items of `size` bytes, each `stride` items behind the one before it.
cudaError_t gather(Slot *s, const void *from, size_t size, u64 stride, u64 n, void *to)
{
    if (stride == 1)
        return cudaMemcpyAsync(to, from, n * size, cudaMemcpyDeviceToDevice, s->stream);
    return cudaMemcpy2DAsync(to, size, from, stride * size, size, n, cudaMemcpyDeviceToDevice, s->stream);
}

// One line of the task's memory, or a run of one, `n` elements from element `from` on, to its state. `base`: the index of its
// first element. Waits for it.
cudaError_t reduce_part(Slot *s, Device *d, const rk_task *t, const rk_line &l, u64 base, u64 from, u64 n, rk_state *state)
{
    const size_t size = rp_dtype_size(t->spec.dtype);
    const rp_parts parts = rp_spec_parts(&t->spec, in_memory(t));
    const u64 first = l.first + from * l.stride;
    ChainTask chain = {t->spec, parts.elements + first * size, NULL, base + from, s->mapped, s->fault};
    chain.spec.flags = RP_STATES_OUT | (t->spec.flags & RP_MASK);
    chain.spec.rows = 1;
    chain.spec.planes = 0;
    chain.spec.row_len = n;
    if (is_scattered(t, l)) {
        TRY_CUDA(gather(s, chain.data, size, l.stride, n, s->input));
        if (parts.mask)
            TRY_CUDA(gather(s, parts.mask + first, 1, l.stride, n, (unsigned char *)s->input + n * size));
        chain.data = s->input;
        chain.spec.mask_shift = 0;
    }
    TRY_CUDA(chain_launch(d, chain, s->scratch, chain_scratch_bytes(), s->stream));
    TRY_CUDA(cudaStreamSynchronize(s->stream));
    memcpy(state, s->mapped, rp_state_size(rp_state_layout(t->spec.op, t->spec.dtype)));
    return cudaSuccess;
}

// Joins a line, or a run of one, to its state.
cudaError_t join_line(Slot *s, Device *d, const rk_task *t, const rk_line &l, u64 base, rk_state *all)
{
    const u64 most = is_scattered(t, l) ? s->chunk_bytes / (rp_dtype_size(t->spec.dtype) + 1) : l.n;
    rk_state part;
    for (u64 from = 0; from < l.n; from += most) {
        TRY_CUDA(reduce_part(s, d, t, l, base, from, l.n - from < most ? l.n - from : most, &part));
        rk_state_merge(all, &part);
    }
    return cudaSuccess;
}

// Rare: line `line` has no result. The CPU finds out why: it reduces host data, which are few, or finishes the line's state of
// data on the device.
cudaError_t explain(Slot *s, Device *d, rk_task *t, u64 line)
{
    if (!t->memory) {
        rk_cpu_run(t);
        return cudaSuccess;
    }
    const u64 run = t->spec.row_len, runs = rk_in_runs(&t->spec) && run ? t->spec.planes : 1;
    rk_line l = rk_line_of(&t->spec, NULL, line);
    rk_state all;
    rk_state_init(&all, rp_state_layout(t->spec.op, t->spec.dtype), t->spec.dtype);
    for (u64 i = 0; i < runs; i++, l.first += t->spec.rows * run)
        TRY_CUDA(join_line(s, d, t, l, t->base + i * run, &all));
    rk_explain(t, line, &all);
    return cudaSuccess;
}

// The copy is over, and its event some microseconds later.
cudaError_t await_copied(Slot *s)
{
    cudaError_t err;
    while ((err = cudaEventQuery(s->copied)) == cudaErrorNotReady)
        cudaGetLastError(); // not an error that a later launch should find
    return err;
}

cudaError_t enqueue(Slot *s, Device *d, const rk_task *t, bool pinned)
{
    const void *data;
    TRY_CUDA(bring_data(s, t, pinned, &data));
    if (!t->fill)
        TRY_CUDA(reduce_data(s, d, t, data));
    return cudaEventRecord(s->done, s->stream);
}

} // namespace

cudaError_t slot_open(Slot *s, size_t chunk_bytes)
{
    *s = Slot{};
    s->chunk_bytes = chunk_bytes;
    cudaError_t err = open_parts(s);
    if (err != cudaSuccess)
        slot_close(s);
    else
        s->open = true;
    return err;
}

void slot_close(Slot *s)
{
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
    *s = Slot{};
}

bool slot_copies_much(const rk_task *t) { return needs_copy(t) && t->bytes >= kMuch; }

bool slot_only_launches(const rk_task *t) { return !needs_copy(t) && cells_bytes(t) <= kMappedCells; }

cudaError_t slot_launch(Slot *s, Device *d, rk_task *t, bool pinned)
{
    s->copies_much = slot_copies_much(t);
    cudaError_t err = enqueue(s, d, t, pinned);
    if (err != cudaSuccess)
        cudaStreamSynchronize(s->stream); // what was begun is over before the task and its memory go
    return err;
}

cudaError_t slot_finish(Slot *s, Device *d)
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
    if (fault != kNoFault)
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
