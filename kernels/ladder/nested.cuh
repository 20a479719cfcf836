// Room for launches from the device.
#pragma once

#include "kernels/ladder/ladder.cuh"

namespace ladder {

// Launches that device code has made and that have not started wait in a pool of fixed size (2048 unless told
// otherwise); one more fails. Each block here has one at most, so a slice of the grid that is half of the pool is safe.
constexpr unsigned kSlice = 8192;

// Cut the grid: launch(data, n, blocks, number of the first block) for each slice, one after another in the stream.
template <class T, class F> cudaError_t in_slices(const Launch<T> &l, F launch)
{
    size_t room = 0;
    cudaError_t err = cudaDeviceGetLimit(&room, cudaLimitDevRuntimePendingLaunchCount);
    if (err == cudaSuccess && room < 2 * kSlice)
        err = cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 2 * kSlice);
    for (unsigned number = 0; err == cudaSuccess && number < l.grid; number += kSlice) {
        size_t first = (size_t)number * l.block;
        unsigned grid = l.grid - number < kSlice ? l.grid - number : kSlice;
        size_t n = l.n - first < (size_t)grid * l.block ? l.n - first : (size_t)grid * l.block;
        launch(l.data + first, n, grid, number);
        err = cudaGetLastError();
    }
    return err;
}

} // namespace ladder
