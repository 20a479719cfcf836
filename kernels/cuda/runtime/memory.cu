#include "kernels/cuda/runtime/memory.cuh"

#include <cuda.h>

#include <cstring>

#include "kernels/cuda/device/cuda_device.h"

namespace rk {
namespace {

// CUDA 12.4 has the call that 12.5 gave a version to.
#if CUDART_VERSION < 12050
cudaError_t entry_point(const char *name, void **function, cudaDriverEntryPointQueryResult *found)
{
    return cudaGetDriverEntryPoint(name, function, cudaEnableDefault, found);
}
#else
cudaError_t entry_point(const char *name, void **function, cudaDriverEntryPointQueryResult *found)
{
    return cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, found);
}
#endif

// A function of the driver comes by name: nothing is linked against its library.
template <class Function> cudaError_t find(const char *name, Function *function)
{
    cudaDriverEntryPointQueryResult found;
    TRY_CUDA(entry_point(name, (void **)function, &found));
    return found == cudaDriverEntryPointSuccess ? cudaSuccess : cudaErrorNotSupported;
}

// Bytes from `base` to the end of its allocation, which the driver reports and the runtime does not. (Small allocations share a
// larger one, so `base` need not be its start.)
cudaError_t bytes_behind(const void *base, size_t *bytes)
{
    decltype(&cuMemGetAddressRange) range;
    TRY_CUDA(find("cuMemGetAddressRange", &range));
    CUdeviceptr start, here = (CUdeviceptr)base;
    size_t size;
    if (range(&start, &size, here) != CUDA_SUCCESS)
        return cudaErrorInvalidValue;
    *bytes = start + size - here;
    return cudaSuccess;
}

// What maps and unmaps the allocations of cuMemCreate.
struct Mapper {
    decltype(&cuMemImportFromShareableHandle) import;
    decltype(&cuMemGetAllocationPropertiesFromHandle) properties;
    decltype(&cuMemAddressReserve) reserve;
    decltype(&cuMemMap) map;
    decltype(&cuMemSetAccess) set_access;
    decltype(&cuMemUnmap) unmap;
    decltype(&cuMemAddressFree) free;
    decltype(&cuMemRelease) release;
};

cudaError_t find_mapper(Mapper *d)
{
    TRY_CUDA(find("cuMemImportFromShareableHandle", &d->import));
    TRY_CUDA(find("cuMemGetAllocationPropertiesFromHandle", &d->properties));
    TRY_CUDA(find("cuMemAddressReserve", &d->reserve));
    TRY_CUDA(find("cuMemMap", &d->map));
    TRY_CUDA(find("cuMemSetAccess", &d->set_access));
    TRY_CUDA(find("cuMemUnmap", &d->unmap));
    TRY_CUDA(find("cuMemAddressFree", &d->free));
    return find("cuMemRelease", &d->release);
}

bool is_here(const Mapper &d, CUmemGenericAllocationHandle h, CUmemLocation *where)
{
    CUmemAllocationProp p;
    if (d.properties(&p, h) != CUDA_SUCCESS)
        return false;
    int device;
    *where = p.location;
    return p.location.type == CU_MEM_LOCATION_TYPE_DEVICE && cudaGetDevice(&device) == cudaSuccess && p.location.id == device;
}

// Its `bytes` bytes for reading at an address of this process; 0: they cannot be had, for there are more or fewer.
CUdeviceptr map(const Mapper &d, CUmemGenericAllocationHandle h, size_t bytes)
{
    CUmemAccessDesc access = {{}, CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUdeviceptr at = 0;
    if (!is_here(d, h, &access.location) || d.reserve(&at, bytes, 0, 0, 0) != CUDA_SUCCESS)
        return 0;
    if (d.map(at, bytes, 0, h, 0) == CUDA_SUCCESS) {
        if (d.set_access(at, bytes, &access, 1) == CUDA_SUCCESS)
            return at;
        d.unmap(at, bytes);
    }
    d.free(at, bytes);
    return 0;
}

cudaError_t unmap(rk_memory *m)
{
    Mapper d;
    TRY_CUDA(find_mapper(&d));
    const CUdeviceptr at = (CUdeviceptr)m->base;
    return d.unmap(at, m->bytes) == CUDA_SUCCESS && d.free(at, m->bytes) == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
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

cudaError_t memory_import(int fd, rk_memory *m)
{
    Mapper d;
    CUmemGenericAllocationHandle h;
    TRY_CUDA(find_mapper(&d));
    if (d.import(&h, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS)
        return cudaErrorInvalidResourceHandle;
    m->base = (void *)map(d, h, m->bytes);
    d.release(h); // what is mapped stays
    return m->base ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t memory_copy(const rk_memory *m, void *host, bool out)
{
    void *to = out ? host : m->base;
    const void *from = out ? m->base : host;
    TRY_CUDA(cudaMemcpyAsync(to, from, m->bytes, out ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, cudaStreamPerThread));
    return cudaStreamSynchronize(cudaStreamPerThread);
}

cudaError_t memory_close(rk_memory *m)
{
    switch (m->kind) {
    case RK_MEMORY_OPENED:
        return cudaIpcCloseMemHandle(m->base);
    case RK_MEMORY_IMPORTED:
        return unmap(m);
    default:
        return cudaFree(m->base);
    }
}

} // namespace rk
