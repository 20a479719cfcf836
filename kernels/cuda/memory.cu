#include "kernels/cuda/memory.cuh"

#include <cuda.h>

#include <cstring>

#include "kernels/cuda/device.cuh"

namespace rk {
namespace {

// Bytes from `base` to the end of its allocation: the driver knows, the runtime does not tell. (Small allocations share a
// larger one, so `base` need not be its start.) The function comes by name: nothing is linked against the driver's library.
cudaError_t bytes_behind(const void *base, size_t *bytes)
{
    void *function;
    cudaDriverEntryPointQueryResult found;
    TRY_CUDA(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess)
        return cudaErrorNotSupported;
    CUdeviceptr start, here = (CUdeviceptr)base;
    size_t size;
    if (((decltype(&cuMemGetAddressRange))function)(&start, &size, here) != CUDA_SUCCESS)
        return cudaErrorInvalidValue;
    *bytes = start + size - here;
    return cudaSuccess;
}

cudaError_t clear(void *base, size_t bytes)
{
    TRY_CUDA(cudaMemsetAsync(base, 0, bytes, cudaStreamPerThread));
    return cudaStreamSynchronize(cudaStreamPerThread);
}

} // namespace

cudaError_t memory_new(rk_memory *m)
{
    TRY_CUDA(cudaMalloc(&m->base, m->bytes ? m->bytes : 1));
    cudaError_t err = clear(m->base, m->bytes);
    if (err != cudaSuccess)
        cudaFree(m->base);
    return err;
}

cudaError_t memory_open(const uint8_t *handle, rk_memory *m)
{
    cudaIpcMemHandle_t h;
    static_assert(sizeof h == RP_DEVICE_HANDLE, "the interface's handle is CUDA's");
    memcpy(&h, handle, sizeof h);
    TRY_CUDA(cudaIpcOpenMemHandle(&m->base, h, cudaIpcMemLazyEnablePeerAccess));
    cudaPointerAttributes a;
    cudaError_t err = cudaPointerGetAttributes(&a, m->base);
    int current = -1;
    if (err == cudaSuccess)
        err = cudaGetDevice(&current);
    if (err == cudaSuccess && a.device != current)
        err = cudaErrorInvalidDevice;
    if (err == cudaSuccess)
        err = bytes_behind(m->base, &m->bytes);
    if (err != cudaSuccess)
        cudaIpcCloseMemHandle(m->base);
    return err;
}

cudaError_t memory_close(rk_memory *m)
{
    return m->imported ? cudaIpcCloseMemHandle(m->base) : cudaFree(m->base);
}

} // namespace rk
