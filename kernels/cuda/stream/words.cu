// States as words that integer sums join, and back: a thread a state.
#include "kernels/cuda/launch/launch.h"
#include "kernels/exact/words.h"
#include "kernels/stream.h"

namespace rk {
namespace {

constexpr int kThreads = 128;

__global__ void to_words(const unsigned char *states, u64 n, u32 bytes, u32 words, int64_t *to)
{
    for (u64 i = (u64)blockIdx.x * kThreads + threadIdx.x; i < n; i += (u64)gridDim.x * kThreads)
        rk_words_of_state((const rk_state *)(states + i * bytes), to + i * words);
}

// One block, so that it can say which is the first one that cannot be made.
__global__ void to_states(const int64_t *words, u64 n, int layout, int dtype, u32 each, u32 bytes, unsigned char *states,
                          rk_stream_status *status, int failure)
{
    if (threadIdx.x == 0 && status)
        *status = {0, 0, RP_NO_INDEX};
    __syncthreads();
    for (u64 i = threadIdx.x; i < n; i += kThreads) {
        rk_state *s = (rk_state *)(states + i * bytes);
        rk_state_init(s, layout, dtype);
        if (rk_state_of_sums(s, words + i * each) == RK_WORDS_FINE || !status)
            continue;
        status->code = failure;
        atomicMin((u64 *)&status->index, i);
    }
}

} // namespace
} // namespace rk

using namespace rk;

extern "C" size_t rk_stream_words(const rp_spec *s)
{
    const int layout = rp_spec_layout(s);
    return rk_words_add(layout) ? rk_words(layout, rp_spec_state_dtype(s)) : 0;
}

extern "C" int rk_stream_to_words(const rp_spec *s, const uint8_t *states, uint64_t n, int64_t *words, void *stream)
{
    const u64 blocks = (n + kThreads - 1) / kThreads, most = 4096;
    return gpu_launch(false, to_words, (u32)(blocks < most ? blocks : most), kThreads, 0, (cudaStream_t)stream, states, n,
                      (u32)rp_state_size(rp_spec_layout(s)), (u32)rk_stream_words(s), words);
}

extern "C" int rk_stream_to_states(const rp_spec *s, const int64_t *words, uint64_t n, uint8_t *states,
                                   rk_stream_status *status, int failure, void *stream)
{
    const int layout = rp_spec_layout(s);
    return gpu_launch(false, to_states, 1, kThreads, 0, (cudaStream_t)stream, words, n, layout, (int)rp_spec_state_dtype(s),
                      (u32)rk_stream_words(s), (u32)rp_state_size(layout), states, status, failure);
}
