// Room for launches from the device.
#pragma once

#include "kernels/ladder/ladder.cuh"

namespace ladder {

// Launches that device code has made take a place in a pool of fixed size (2048 unless told otherwise); one more fails,
// and what it should have added is missing.
constexpr unsigned kPool = 16384;

// Streams whose work runs side by side, between what `main` has had and what it gets next.
class Lanes {
  public:
    static constexpr unsigned kCount = 8; // as many queues as a device has, unless CUDA_DEVICE_MAX_CONNECTIONS says more

    explicit Lanes(cudaStream_t main) : main(main), err(cudaEventCreateWithFlags(&event, cudaEventDisableTiming))
    {
        note(cudaEventRecord(event, main));
        for (cudaStream_t &s : stream) {
            note(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
            note(cudaStreamWaitEvent(s, event));
        }
    }
    ~Lanes()
    {
        for (cudaStream_t s : stream)
            if (s)
                cudaStreamDestroy(s); // what it still has to do is done
        cudaEventDestroy(event);
    }
    Lanes(const Lanes &) = delete;
    cudaStream_t of(unsigned slice) const { return stream[slice % kCount]; }
    cudaError_t join()
    {
        for (cudaStream_t s : stream) {
            note(cudaEventRecord(event, s));
            note(cudaStreamWaitEvent(main, event));
        }
        return err;
    }

  private:
    cudaStream_t main, stream[kCount] = {};
    cudaEvent_t event = nullptr;
    cudaError_t err; // the first one

    void note(cudaError_t e) { err = err == cudaSuccess ? e : err; }
};

// Cut the grid, so that the pool has `places` for each block of the slices that run at once:
// launch(data, n, blocks, number of the first block, stream) for each slice, the slices of a stream one after another.
template <class T, class F> cudaError_t in_slices(const Launch<T> &l, unsigned places, F launch)
{
    const unsigned slice = kPool / places / Lanes::kCount;
    size_t room = 0;
    cudaError_t err = cudaDeviceGetLimit(&room, cudaLimitDevRuntimePendingLaunchCount);
    if (err == cudaSuccess && room < kPool)
        err = cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, kPool);
    Lanes lanes(l.stream);
    for (unsigned number = 0, i = 0; err == cudaSuccess && number < l.grid; number += slice, i++) {
        size_t first = (size_t)number * l.block;
        unsigned grid = l.grid - number < slice ? l.grid - number : slice;
        size_t n = l.n - first < (size_t)grid * l.block ? l.n - first : (size_t)grid * l.block;
        launch(l.data + first, n, grid, number, lanes.of(i));
        err = cudaGetLastError();
    }
    const cudaError_t joined = lanes.join();
    return err == cudaSuccess ? joined : err;
}

} // namespace ladder
