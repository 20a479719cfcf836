#include "tests/gpu/cub_peer.cuh"

#include <cub/cub.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define NEWER_CUB (CUB_VERSION >= 300200) // determinism to ask for, segments of one length: CUDA 13.2
#if NEWER_CUB
#include <cuda/memory_resource>
#include <cuda/stream>
#endif

#include <cstdint>
#include <cstdio>

#include "proto/types.h"

namespace cub_peer {
namespace {

// CUB accumulates in the type that this returns.
template <class Wide> struct Add {
    __host__ __device__ Wide operator()(Wide a, Wide b) const { return a + b; }
};

template <class Wide, class T> cudaError_t wide_sum_of(const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    return cub::DeviceReduce::Reduce(temp.data, temp.bytes, (const T *)in, (Wide *)out, n, Add<Wide>(), (Wide)0, stream);
}

template <class T> cudaError_t sum_of(const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    return cub::DeviceReduce::Sum(temp.data, temp.bytes, (const T *)in, (T *)out, n, stream);
}

} // namespace

const char *version()
{
    static char text[32];
    snprintf(text, sizeof text, "CUB %d.%d.%d", CUB_MAJOR_VERSION, CUB_MINOR_VERSION, CUB_SUBMINOR_VERSION);
    return text;
}

cudaError_t sum(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    return dtype == RP_I32   ? sum_of<int32_t>(in, n, out, temp, stream)
           : dtype == RP_F32 ? sum_of<float>(in, n, out, temp, stream)
           : dtype == RP_F64 ? sum_of<double>(in, n, out, temp, stream)
                             : cudaErrorNotSupported;
}

cudaError_t max(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    if (dtype != RP_F32)
        return cudaErrorNotSupported;
    return cub::DeviceReduce::Max(temp.data, temp.bytes, (const float *)in, (float *)out, n, stream);
}

cudaError_t wide_sum(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    return dtype == RP_I8     ? wide_sum_of<long long, int8_t>(in, n, out, temp, stream)
           : dtype == RP_I16  ? wide_sum_of<long long, int16_t>(in, n, out, temp, stream)
           : dtype == RP_I32  ? wide_sum_of<long long, int32_t>(in, n, out, temp, stream)
           : dtype == RP_F16  ? wide_sum_of<float, __half>(in, n, out, temp, stream)
           : dtype == RP_BF16 ? wide_sum_of<float, __nv_bfloat16>(in, n, out, temp, stream)
                              : cudaErrorNotSupported;
}

#if NEWER_CUB
namespace {

// Hands out `temp`, so that the calls that allocate for themselves cost no allocation.
struct Preallocated {
    Temp temp;

    void *allocate_sync(size_t bytes, size_t) { return take(bytes); }
    void deallocate_sync(void *, size_t, size_t) noexcept {}
    void *allocate(cuda::stream_ref, size_t bytes, size_t) { return take(bytes); }
    void deallocate(cuda::stream_ref, void *, size_t, size_t) noexcept {}
    bool operator==(const Preallocated &o) const { return temp.data == o.temp.data; }
    bool operator!=(const Preallocated &o) const { return !(*this == o); }

  private:
    void *take(size_t bytes)
    {
        if (bytes > temp.bytes)
            throw std::bad_alloc();
        return temp.data;
    }
};

template <class T> cudaError_t reproducible_sum_of(const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    namespace ex = cuda::execution;
    auto memory = cuda::std::execution::prop{cuda::mr::get_memory_resource_t{}, Preallocated{temp}};
    auto env = cuda::std::execution::env{cuda::stream_ref{stream}, memory, ex::require(ex::determinism::gpu_to_gpu)};
    return cub::DeviceReduce::Sum((const T *)in, (T *)out, n, env);
}

} // namespace

cudaError_t reproducible_sum(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    return dtype == RP_F32   ? reproducible_sum_of<float>(in, n, out, temp, stream)
           : dtype == RP_F64 ? reproducible_sum_of<double>(in, n, out, temp, stream)
                             : cudaErrorNotSupported;
}

cudaError_t fixed_segmented_sum(const float *in, size_t segments, size_t length, float *out, Temp temp, cudaStream_t stream)
{
    return cub::DeviceSegmentedReduce::Sum(temp.data, temp.bytes, in, out, (int64_t)segments, (int)length, stream);
}
#else
cudaError_t reproducible_sum(int, const void *, size_t, void *, Temp, cudaStream_t) { return cudaErrorNotSupported; }

cudaError_t fixed_segmented_sum(const float *, size_t, size_t, float *, Temp, cudaStream_t) { return cudaErrorNotSupported; }
#endif

namespace {

template <class T> cudaError_t sort_of(const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    return cub::DeviceRadixSort::SortKeys(temp.data, temp.bytes, (const T *)in, (T *)out, n, 0, 8 * sizeof(T), stream);
}

template <class T> cudaError_t histogram_of(const void *in, size_t n, int bins, void *out, Temp temp, cudaStream_t stream)
{
    return cub::DeviceHistogram::HistogramEven(temp.data, temp.bytes, (const T *)in, (int *)out, bins + 1, (T)-4, (T)4,
                                               (long long)n, stream);
}

} // namespace

cudaError_t sort(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    return dtype == RP_F32   ? sort_of<float>(in, n, out, temp, stream)
           : dtype == RP_F64 ? sort_of<double>(in, n, out, temp, stream)
                             : cudaErrorNotSupported;
}

cudaError_t histogram(int dtype, const void *in, size_t n, int bins, void *out, Temp temp, cudaStream_t stream)
{
    return dtype == RP_F32   ? histogram_of<float>(in, n, bins, out, temp, stream)
           : dtype == RP_F64 ? histogram_of<double>(in, n, bins, out, temp, stream)
                             : cudaErrorNotSupported;
}

cudaError_t segmented_sum(const float *in, size_t segments, const long long *offsets, float *out, Temp temp,
                          cudaStream_t stream)
{
    return cub::DeviceSegmentedReduce::Sum(temp.data, temp.bytes, in, out, (int64_t)segments, offsets, offsets + 1, stream);
}

} // namespace cub_peer
