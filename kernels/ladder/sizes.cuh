// A block size known at run time as one known to the compiler.
#pragma once

#include <cuda_runtime.h>

namespace ladder {

template <unsigned kValue> struct BlockSize {
    static constexpr unsigned value = kValue;
};

// Call launch(BlockSize<block>()): the kernels for all six sizes exist, this picks one.
template <class F> cudaError_t with_block_size(unsigned block, F launch)
{
    switch (block) {
    case 32:
        launch(BlockSize<32>());
        break;
    case 64:
        launch(BlockSize<64>());
        break;
    case 128:
        launch(BlockSize<128>());
        break;
    case 256:
        launch(BlockSize<256>());
        break;
    case 512:
        launch(BlockSize<512>());
        break;
    case 1024:
        launch(BlockSize<1024>());
        break;
    default:
        return cudaErrorInvalidConfiguration;
    }
    return cudaGetLastError();
}

} // namespace ladder
