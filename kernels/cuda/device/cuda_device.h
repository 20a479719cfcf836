// A device as launch planning sees it, and the calls of CUDA that launching takes. All others are in runtime/, too.
#pragma once

#include <cuda_runtime.h>
#include <pthread.h>

#include "kernels/cuda/pass/plan.h"

// Give a CUDA error to the caller.
#define TRY_CUDA(call)                      \
    do {                                    \
        cudaError_t err_ = (call);          \
        if (err_ != cudaSuccess) {          \
            ::rk::note_failed(err_, #call); \
            return err_;                    \
        }                                   \
    } while (0)

namespace rk {

// For log lines: the call of this thread that failed with `err` (of several in each other the innermost), which is then
// forgotten. "": none is known.
void note_failed(cudaError_t err, const char *call);
const char *failed_call(cudaError_t err);

struct Device {
    int id;
    char name[64];
    u64 bytes; // of memory
    u64 peak;  // bytes a second that the memory can move at most
    int sms;
    int major, minor;       // compute capability
    bool large_shared;      // a block may have 227 KiB of shared memory: compute capability 9 and 10
    bool overlapped_launch; // programmatic dependent launch: compute capability 9.0 and later
    bool long_sums;         // no sums in two doubles
    bool slow_doubles;      // FP64 at a small fraction of FP32's speed: sum f32 by integers
    // Kernels met so far, with how many of their blocks an SM holds. Filled on first use, under `lock`.
    pthread_mutex_t lock;
    struct Known {
        const void *fn;
        int blocks_per_sm;
    } known[256];
    int known_count;
};

// Read the properties of device `id`. Returns a CUDA error.
cudaError_t device_open(Device *d, int id);

// What is wrong with the current device's context; cudaSuccess: nothing. Page-locked memory and memory that other devices map
// are the whole process's: a call on these may fail for the broken context of another device.
cudaError_t context_error();

// How many blocks of this kernel an SM of the device holds; allows its shared memory on the way. Any thread.
cudaError_t device_blocks_per_sm(Device *d, const void *fn, int threads, size_t shared_bytes, int *blocks);

// Launch. `overlap`: it may begin during the tail of the kernel before it, where the device can (Device::overlapped_launch).
template <class... Params, class... Args> cudaError_t gpu_launch(bool overlap, void (*fn)(Params...), dim3 grid, int threads,
                                                                 size_t shared, cudaStream_t stream, Args... args)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    return cudaLaunchKernelEx(&config, fn, args...);
}

inline cudaError_t gpu_clear(void *memory, size_t bytes, cudaStream_t stream)
{
    return cudaMemsetAsync(memory, 0, bytes, stream);
}

} // namespace rk
