#include "kernels/cuda/device/cuda_device.h"

#include <cstdio>

namespace rk {

static thread_local struct {
    cudaError_t err;
    const char *call;
} failed = {cudaSuccess, ""};

void note_failed(cudaError_t err, const char *call)
{
    if (failed.err != err)
        failed = {err, call};
}

const char *failed_call(cudaError_t err)
{
    const char *call = failed.err == err ? failed.call : "";
    failed = {cudaSuccess, ""};
    return call;
}

cudaError_t device_open(Device *d, int id)
{
    cudaDeviceProp p;
    TRY_CUDA(cudaGetDeviceProperties(&p, id));
    *d = Device{};
    d->lock = PTHREAD_MUTEX_INITIALIZER;
    d->id = id;
    snprintf(d->name, sizeof d->name, "%.63s", p.name);
    d->bytes = p.totalGlobalMem;
    d->sms = p.multiProcessorCount;
    d->major = p.major;
    d->minor = p.minor;
    d->large_shared = p.major == 9 || p.major == 10;
    d->overlapped_launch = p.major >= 9;
    int ratio = 2; // of FP32 to FP64 speed: 2 on the data centre's cards, 32 and 64 on others
    TRY_CUDA(cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, id));
    d->slow_doubles = ratio > 4;
    int khz = 0, bits = 0; // of the memory
    TRY_CUDA(cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, id));
    TRY_CUDA(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, id));
    d->peak = 2000 * (u64)khz * (u64)bits / 8; // two transfers a cycle
    return cudaSuccess;
}

cudaError_t context_error()
{
    size_t idle, total;
    cudaGetLastError();
    TRY_CUDA(cudaMemGetInfo(&idle, &total));
    const cudaError_t err = cudaStreamQuery(cudaStreamPerThread);
    cudaGetLastError(); // not an error that a later call should find
    return err == cudaErrorNotReady ? cudaSuccess : err;
}

static cudaError_t look_up(Device *d, const void *fn, int threads, size_t shared_bytes, int *blocks)
{
    for (int i = 0; i < d->known_count; i++)
        if (d->known[i].fn == fn) {
            *blocks = d->known[i].blocks_per_sm;
            return cudaSuccess;
        }
    TRY_CUDA(cudaFuncSetAttribute(fn, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes));
    TRY_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, fn, threads, shared_bytes));
    if (*blocks < 1)
        *blocks = 1; // the launch itself will fail
    if (d->known_count < (int)(sizeof d->known / sizeof d->known[0]))
        d->known[d->known_count++] = {fn, *blocks};
    return cudaSuccess;
}

cudaError_t device_blocks_per_sm(Device *d, const void *fn, int threads, size_t shared_bytes, int *blocks)
{
    pthread_mutex_lock(&d->lock);
    cudaError_t err = look_up(d, fn, threads, shared_bytes, blocks);
    pthread_mutex_unlock(&d->lock);
    return err;
}

} // namespace rk
