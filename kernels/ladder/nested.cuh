// Room for launches from the device.
#pragma once

#include "kernels/ladder/ladder.cuh"

namespace ladder {

// Launches that device code has made take a place in a pool of fixed size (2048 unless told otherwise); one more fails,
// and what it should have added is missing.
constexpr unsigned kPool = 16384;

// Cut the grid, so that the pool has `places` for each block: launch(data, n, blocks, number of the first block) for each
// slice, one after another in the stream.
template <class T, class F> cudaError_t in_slices(const Launch<T> &l, unsigned places, F launch)
{
    const unsigned slice = kPool / places;
    size_t room = 0;
    cudaError_t err = cudaDeviceGetLimit(&room, cudaLimitDevRuntimePendingLaunchCount);
    if (err == cudaSuccess && room < kPool)
        err = cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, kPool);
    for (unsigned number = 0; err == cudaSuccess && number < l.grid; number += slice) {
        size_t first = (size_t)number * l.block;
        unsigned grid = l.grid - number < slice ? l.grid - number : slice;
        size_t n = l.n - first < (size_t)grid * l.block ? l.n - first : (size_t)grid * l.block;
        launch(l.data + first, n, grid, number);
        err = cudaGetLastError();
    }
    return err;
}

} // namespace ladder
