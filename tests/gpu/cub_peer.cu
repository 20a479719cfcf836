#include "tests/gpu/cub_peer.cuh"

#include <cub/cub.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>

#include "proto/types.h"

namespace cub_peer {
namespace {

// CUB accumulates in the type that this returns.
template <class Wide> struct Add {
    __host__ __device__ Wide operator()(Wide a, Wide b) const { return a + b; }
};

template <class Wide, class T>
cudaError_t wide_sum_of(const void *in, size_t n, void *out, Temp temp, cudaStream_t stream)
{
    return cub::DeviceReduce::Reduce(temp.data, temp.bytes, (const T *)in, (Wide *)out, n, Add<Wide>(), (Wide)0,
                                     stream);
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

cudaError_t reproducible_sum(int, const void *, size_t, void *, Temp, cudaStream_t) { return cudaErrorNotSupported; }

cudaError_t segmented_sum(const float *in, size_t segments, const long long *offsets, float *out, Temp temp,
                          cudaStream_t stream)
{
    return cub::DeviceSegmentedReduce::Sum(temp.data, temp.bytes, in, out, (int64_t)segments, offsets, offsets + 1,
                                           stream);
}

cudaError_t fixed_segmented_sum(const float *, size_t, size_t, float *, Temp, cudaStream_t)
{
    return cudaErrorNotSupported;
}

} // namespace cub_peer
