#include "kernels/cuda/slot.cuh"

#include <cstring>

namespace rk {
namespace {

cudaError_t pinned(Slot *s, void **p, size_t bytes)
{
    TRY_CUDA(cudaHostAlloc(p, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    s->pinned_bytes += bytes;
    return cudaSuccess;
}

cudaError_t device_memory(Slot *s, void **p, size_t bytes)
{
    TRY_CUDA(cudaMalloc(p, bytes));
    s->device_bytes += bytes;
    return cudaSuccess;
}

cudaError_t open_parts(Slot *s)
{
    TRY_CUDA(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    TRY_CUDA(cudaEventCreate(&s->begin));
    TRY_CUDA(cudaEventCreate(&s->copied));
    TRY_CUDA(cudaEventCreate(&s->done));
    TRY_CUDA(pinned(s, &s->staging, s->chunk_bytes));
    TRY_CUDA(pinned(s, &s->mapped, kMappedCells + sizeof(u64)));
    TRY_CUDA(device_memory(s, &s->input, s->chunk_bytes));
    TRY_CUDA(device_memory(s, &s->scratch, chain_scratch_bytes()));
    s->fault = (u32 *)((unsigned char *)s->mapped + kMappedCells);
    return cudaSuccess;
}

cudaError_t open_cells(Slot *s)
{
    if (!s->cells_host)
        TRY_CUDA(pinned(s, &s->cells_host, RP_MAX_DATA));
    if (!s->cells_device)
        TRY_CUDA(device_memory(s, &s->cells_device, RP_MAX_DATA));
    return cudaSuccess;
}

size_t cells_bytes(const rk_task *t) { return rp_results(&t->spec) * rp_cell_size(&t->spec); }

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
    cudaFreeHost(s->cells_host);
    cudaFreeHost(s->mapped);
    cudaFreeHost(s->staging);
    for (cudaEvent_t e : {s->begin, s->copied, s->done})
        if (e)
            cudaEventDestroy(e);
    if (s->stream)
        cudaStreamDestroy(s->stream);
    *s = Slot{};
}

cudaError_t slot_launch(Slot *s, Device *d, rk_task *t)
{
    bool mapped = cells_bytes(t) <= kMappedCells;
    if (!mapped)
        TRY_CUDA(open_cells(s));
    *s->fault = 0;
    memcpy(s->staging, t->data, t->bytes);
    TRY_CUDA(cudaEventRecord(s->begin, s->stream));
    TRY_CUDA(cudaMemcpyAsync(s->input, s->staging, t->bytes, cudaMemcpyHostToDevice, s->stream));
    TRY_CUDA(cudaEventRecord(s->copied, s->stream));
    ChainTask chain = {t->spec, s->input, rp_spec_parts(&t->spec, t->data).offsets,
                       t->base, mapped ? s->mapped : s->cells_device, s->fault};
    TRY_CUDA(chain_launch(d, chain, s->scratch, chain_scratch_bytes(), s->stream));
    if (!mapped)
        TRY_CUDA(cudaMemcpyAsync(s->cells_host, s->cells_device, cells_bytes(t), cudaMemcpyDeviceToHost, s->stream));
    return cudaEventRecord(s->done, s->stream);
}

cudaError_t slot_finish(Slot *s)
{
    rk_task *t = s->task;
    float copy_ms, compute_ms;
    TRY_CUDA(cudaEventElapsedTime(&copy_ms, s->begin, s->copied));
    TRY_CUDA(cudaEventElapsedTime(&compute_ms, s->copied, s->done));
    u64 start = t->start_ns;
    if (*(volatile u32 *)s->fault) {
        rk_cpu_run(t); // rare: the CPU says which row it was, and why; the bits are the same
        t->start_ns = start;
    } else {
        memcpy(t->cells, cells_bytes(t) <= kMappedCells ? s->mapped : s->cells_host, cells_bytes(t));
        rp_fail(&t->fault, RP_OK, "", 0, "%s", "");
    }
    t->backend = RP_BACKEND_CUDA;
    t->copy_ns = (uint64_t)((double)copy_ms * 1e6);
    t->compute_ns = (uint64_t)((double)compute_ms * 1e6);
    return cudaSuccess;
}

} // namespace rk
