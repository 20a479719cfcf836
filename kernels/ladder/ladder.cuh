// What the pages of the GPU rungs share.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ladder {

constexpr unsigned kWarp = 32;
constexpr unsigned kFullMask = 0xffffffffu;

// Where a block leaves its result: to[block], or (--finish atomic, and rungs that always do so) added to *to.
template <class T> struct Out {
    T *to;
    bool atomic;

    __device__ void put(unsigned block, T value) const
    {
        if (atomic)
            atomicAdd(to, value);
        else
            to[block] = value;
    }
};

// One launch of a rung: add n elements. Rungs that are not marked IN_PLACE leave the data alone. `scratch` is for rungs
// that ask for some.
template <class T> struct Launch {
    T *data;
    size_t n;
    Out<T> out;
    unsigned grid, block;
    void *scratch;
    size_t scratch_bytes;
    cudaStream_t stream;
};

// launch_atomic, launch_neighbored, ...: one function a rung, in its page, for both element types.
#define CPU(...)
#define BLOCKS(ident, ...) template <class T> cudaError_t launch_##ident(const Launch<T> &l);
#define WHOLE(ident, ...) template <class T> cudaError_t launch_##ident(const Launch<T> &l);
#include "kernels/ladder/rungs.def"

// They are made here: for a rung that launches one kernel, with `shared` bytes of shared memory a block;
// and, by LADDER_TYPES, for one with a function of its own.
#define LADDER_TYPES(ident)                                   \
    template cudaError_t launch_##ident(const Launch<int> &); \
    template cudaError_t launch_##ident(const Launch<float> &);
#define LADDER_LAUNCH(ident, shared)                                      \
    template <class T> cudaError_t launch_##ident(const Launch<T> &l)     \
    {                                                                     \
        ident<<<l.grid, l.block, shared, l.stream>>>(l.data, l.n, l.out); \
        return cudaGetLastError();                                        \
    }                                                                     \
    LADDER_TYPES(ident)

// Scratch that these two want. The chain's is the end of it, zero at first, and nobody else's: it must find it as it left it.
size_t scratch_cub(size_t n);
size_t scratch_chain();

// The block's dynamic shared memory as elements: one for each thread.
template <class T> __device__ T *shared_elements()
{
    extern __shared__ double raw[]; // aligned for every T
    return reinterpret_cast<T *>(raw);
}

// How many of the `span` elements from `first` on exist: the last block may have fewer.
__device__ inline unsigned part_of(size_t n, size_t first, unsigned span)
{
    return n - first < span ? (unsigned)(n - first) : span;
}

// Where halving strides begin: the largest power of two below `size`, so that one step leaves a power of two. 0 for 1.
__device__ inline unsigned first_stride(unsigned size) { return size < 2 ? 0 : 1u << (31 - __clz(size - 1)); }

// Elements tid, tid + step, ... of the `left` that exist, kCount at most, added up; 0 if there are none. The loads do
// not depend on one another, so all of them are in flight at once: see unroll.cu.
template <unsigned kCount, class T> __device__ T sum_of_strided(const T *x, size_t left, unsigned tid, unsigned step)
{
    T v[kCount];
#pragma unroll
    for (unsigned k = 0; k < kCount; k++)
        v[k] = tid + k * step < left ? x[tid + k * step] : 0;
    T sum = v[0];
#pragma unroll
    for (unsigned k = 1; k < kCount; k++)
        sum += v[k];
    return sum;
}

// The sum over a warp, in lane 0. All 32 lanes must come here. See unroll8_warp.cu.
template <class T> __device__ T warp_sum(T v)
{
#pragma unroll
    for (unsigned d = kWarp / 2; d; d /= 2)
        v += __shfl_down_sync(kFullMask, v, d);
    return v;
}

} // namespace ladder
