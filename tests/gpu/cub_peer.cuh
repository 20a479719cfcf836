// CUB of the toolkit as a peer, in an object of its own (it compiles slowly). All on device memory; `temp` is CUB's
// temporary storage, allocated by the caller beforehand. cudaErrorNotSupported: this CUB does not have it; `make CCCL=`
// takes newer headers (Python's package nvidia-cuda-cccl has them).
#pragma once

#include <cuda_runtime.h>

namespace cub_peer {

struct Temp {
    void *data;
    size_t bytes;
};

const char *version();

// Of the element's own type, as CUB accumulates by default: i32, f32, f64. Run-to-run reproducible.
cudaError_t sum(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream);
cudaError_t max(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream);

// Accumulated in i64 (i8, i16, i32) or f32 (f16, bf16).
cudaError_t wide_sum(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream);

// The same bits on every GPU: f32, f64.
cudaError_t reproducible_sum(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream);

// f32, f64: all elements in order, to `out`. `temp` as large as the elements, and some MiB.
cudaError_t sort(int dtype, const void *in, size_t n, void *out, Temp temp, cudaStream_t stream);

// f32, f64: how many elements are in each of `bins` equal bins of [-4, 4), as int.
cudaError_t histogram(int dtype, const void *in, size_t n, int bins, void *out, Temp temp, cudaStream_t stream);

// f32: segment i is [offsets[i], offsets[i + 1]), or `length` elements long.
cudaError_t segmented_sum(const float *in, size_t segments, const long long *offsets, float *out, Temp temp,
                          cudaStream_t stream);
cudaError_t fixed_segmented_sum(const float *in, size_t segments, size_t length, float *out, Temp temp, cudaStream_t stream);

} // namespace cub_peer
