// What rk_stream_open opens, and what all launches in a stream share.
#pragma once

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/stream.h"

struct rk_stream {
    rk::Device device;
};

namespace rk {

// Load the kernels of a launch, and run none: it is captured into a graph, which is dropped.
template <class Launch> cudaError_t rehearse_in(cudaStream_t stream, Launch launch)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    TRY_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    cudaError_t err = launch(stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    err = err == cudaSuccess ? ended : err;
    if (err == cudaSuccess)
        err = cudaGraphInstantiate(&made, graph, 0);
    if (made)
        cudaGraphExecDestroy(made);
    if (graph)
        cudaGraphDestroy(graph);
    return err;
}

template <class Launch> cudaError_t rehearse(Launch launch)
{
    cudaStream_t stream;
    TRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const cudaError_t err = rehearse_in(stream, launch);
    cudaStreamDestroy(stream);
    return err;
}

} // namespace rk
