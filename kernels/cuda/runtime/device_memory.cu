#include "kernels/cuda/runtime/backend.cuh"

#include "kernels/cuda/runtime/memory.cuh"

namespace rk {
namespace {

rp_err memory_fault(Backend *b, cudaError_t err, rp_fault *f)
{
    cudaGetLastError();
    if (err == cudaErrorMemoryAllocation)
        return rp_fail(f, RP_NO_MEMORY, "device", 0, "out of device memory");
    device_lost(b, err, "allocating memory");
    return rp_fail(f, RP_DEVICE_LOST, "device", 0, "the device failed; repeat the request");
}

// Another process's memory could not be mapped. The fault is that of its handle or descriptor (`field`), unless the context
// has failed. The driver keeps what it has open of a block of small allocations; another one that overlaps it, in the place of
// those that were freed, is "already mapped".
rp_err import_fault(Backend *b, cudaError_t err, const char *field, rp_fault *f)
{
    cudaError_t alive = context_error();
    if (err == cudaErrorMemoryAllocation || alive != cudaSuccess)
        return memory_fault(b, alive == cudaSuccess ? err : alive, f);
    const rp_err code = err == cudaErrorAlreadyMapped ? RP_BUSY : RP_BAD_HANDLE;
    return rp_fail(f, code, field, 0, "the device's driver refuses the %s: %s", field, cudaGetErrorString(err));
}

} // namespace

bool cuda_pin(void *impl, const void *base, size_t bytes)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    return pins_add(&b->pins, base, bytes);
}

void cuda_unpin(void *impl, const void *base)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    pins_remove(&b->pins, base);
}

rp_err cuda_memory_new(void *impl, rk_memory *m, rp_fault *f)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_new(m);
    if (err != cudaSuccess && context_error() == cudaSuccess)
        err = cudaErrorMemoryAllocation;
    return err == cudaSuccess ? RP_OK : memory_fault(b, err, f);
}

rp_err cuda_memory_open(void *impl, const uint8_t *handle, rk_memory *m, rp_fault *f)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_open(handle, m);
    return err == cudaSuccess ? RP_OK : import_fault(b, err, "handle", f);
}

rp_err cuda_memory_import(void *impl, int fd, rk_memory *m, rp_fault *f)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_import(fd, m);
    return err == cudaSuccess ? RP_OK : import_fault(b, err, "descriptor", f);
}

rp_err cuda_memory_copy(void *impl, const rk_memory *m, void *host, bool out, rp_fault *f)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_copy(m, host, out);
    return err == cudaSuccess ? RP_OK : memory_fault(b, err, f);
}

void cuda_memory_close(void *impl, rk_memory *m)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_close(m);
    if (err == cudaSuccess)
        return;
    cudaError_t alive = context_error();
    if (alive != cudaSuccess)
        device_lost(b, alive, "releasing memory");
    else
        rk_log(b->options, RK_LOG_WARN, "device memory cannot be released: %s", cudaGetErrorString(err));
}

} // namespace rk
