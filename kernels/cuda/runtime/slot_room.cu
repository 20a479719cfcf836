#include "kernels/cuda/runtime/slot_room.cuh"

namespace rk {

cudaError_t slot_open_room(TaskSlot *s, u64 bytes)
{
    if (bytes <= s->room_bytes)
        return cudaSuccess;
    cudaFree(s->room); // after what other streams do: rare, because it only grows
    s->room = NULL;
    s->room_bytes = 0;
    TRY_CUDA(cudaMalloc(&s->room, bytes));
    s->room_bytes = bytes;
    return cudaSuccess;
}

} // namespace rk
