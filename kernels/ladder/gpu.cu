// One timed run of a GPU rung: restore the input, cool the L2, launch, finish the partials, read the value.
//
// What is timed: from just before the first launch to the value, by CUDA events: every pass, the clearing of an
// accumulator, and with --finish host the copy of the partials and their sum on the host. The value stays in device
// memory otherwise, and allocations are made beforehand.
#include <cstdio>
#include <cstring>
#include <new>

#include "kernels/ladder/ladder.cuh"
#include "kernels/ladder/ladder.h"

using namespace ladder;

#define TRY(call)                  \
    do {                           \
        cudaError_t err_ = (call); \
        if (err_ != cudaSuccess)   \
            return err_;           \
    } while (0)

struct ladder_gpu {
    cudaStream_t stream;
    cudaEvent_t begin, end;
    unsigned *sink; // what reading the cooling memory adds up to
    uint4 *cool;    // several times the L2's size
    size_t cool_bytes;
    ladder_dtype dtype; // of the input
    size_t n;
    void *input, *work;    // the input, and what rungs may spend: n elements each
    void *partials, *next; // what the blocks of the first pass leave; of the second
    size_t partials_bytes;
    void *host_partials; // pinned
    void *scratch;
    size_t scratch_bytes;
};

namespace {

constexpr size_t kElement = 4;     // bytes of both element types
constexpr size_t kCoolings = 4;    // L2s read to cool one: it need not evict in the order of use
constexpr size_t kValueBytes = 64; // room of the smallest partials
constexpr size_t kAlign = 256;     // of the two parts of the scratch

size_t div_up(size_t a, size_t b) { return (a + b - 1) / b; }

// Read what nobody uses, so that the input's lines leave the L2; reading leaves no dirty lines to be written back later.
__global__ void cool_l2(const uint4 *p, size_t n, unsigned *sink)
{
    unsigned sum = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        uint4 v = p[i];
        sum += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (sum == 1) // the compiler cannot know that it never is: the memory is all zero
        *sink = sum;
}

// The launch functions in the order of rungs.def.
template <class T> struct Rungs {
    using Fn = cudaError_t (*)(const Launch<T> &);
    static const Fn launch[];
};
template <class T> const typename Rungs<T>::Fn Rungs<T>::launch[] = {
#define CPU(...) nullptr,
#define BLOCKS(ident, ...) launch_##ident<T>,
#define WHOLE(ident, ...) launch_##ident<T>,
#include "kernels/ladder/rungs.def"
};

template <class T> cudaError_t add_on_host(ladder_gpu *g, size_t count, T *value)
{
    TRY(cudaMemcpyAsync(g->host_partials, g->partials, count * sizeof(T), cudaMemcpyDeviceToHost, g->stream));
    TRY(cudaStreamSynchronize(g->stream));
    T sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += ((const T *)g->host_partials)[i];
    *value = sum;
    return cudaSuccess;
}

// The rung and its finish. *at is where in device memory the value will be, or null: then it is in *value.
template <class T> cudaError_t reduce(ladder_gpu *g, const ladder_rung *rung, unsigned block, ladder_finish finish,
                                      ladder_run *run, const T **at, T *value)
{
    const bool one = rung->kind == LADDER_WHOLE, atomic = one || finish == LADDER_ATOMIC;
    T *data = (T *)(rung->in_place ? g->work : g->input), *out = (T *)g->partials, *other = (T *)g->next;
    size_t n = g->n, grid;
    if (atomic && rung->per_thread) // the others store their value
        TRY(cudaMemsetAsync(out, 0, sizeof(T), g->stream));
    for (;;) {
        grid = rung->per_thread ? div_up(n, (size_t)block * rung->per_thread) : 0;
        Launch<T> l = {data, n, {out, atomic}, (unsigned)grid, block, g->scratch, g->scratch_bytes, g->stream};
        TRY(Rungs<T>::launch[rung->id](l));
        if (rung->per_thread && run->passes++ == 0)
            run->grid = grid;
        if (atomic || finish == LADDER_HOST || grid == 1)
            break;
        data = out; // again, on the partials
        n = grid;
        out = other;
        other = data;
    }
    *at = out;
    if (!atomic && finish == LADDER_HOST) {
        *at = nullptr;
        return add_on_host(g, grid, value);
    }
    return cudaSuccess;
}

template <class T>
cudaError_t timed_run(ladder_gpu *g, const ladder_rung *rung, unsigned block, ladder_finish finish, ladder_run *run)
{
    T value;
    const T *at;
    float ms;
    if (rung->in_place)
        TRY(cudaMemcpyAsync(g->work, g->input, g->n * sizeof(T), cudaMemcpyDeviceToDevice, g->stream));
    // No value of an earlier run may pass for this one's.
    TRY(cudaMemsetAsync(g->partials, 0xff, g->partials_bytes, g->stream));
    TRY(cudaMemsetAsync(g->next, 0xff, g->partials_bytes, g->stream));
    cool_l2<<<1024, 256, 0, g->stream>>>(g->cool, g->cool_bytes / sizeof(uint4), g->sink);
    TRY(cudaEventRecord(g->begin, g->stream));
    TRY(reduce(g, rung, block, finish, run, &at, &value));
    TRY(cudaEventRecord(g->end, g->stream));
    if (at)
        TRY(cudaMemcpyAsync(&value, at, sizeof value, cudaMemcpyDeviceToHost, g->stream));
    TRY(cudaStreamSynchronize(g->stream));
    TRY(cudaEventElapsedTime(&ms, g->begin, g->end));
    run->value = (double)value;
    run->ms = ms;
    return cudaSuccess;
}

cudaError_t describe(int number, ladder_card *card, size_t *l2)
{
    cudaDeviceProp p;
    int khz = 0, bits = 0;
    TRY(cudaGetDeviceProperties(&p, number));
    snprintf(card->name, sizeof card->name, "%.95s", p.name);
    *l2 = (size_t)p.l2CacheSize;
    bool known = cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, number) == cudaSuccess &&
                 cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, number) == cudaSuccess;
    card->peak_gbs = known ? 2e-6 * khz * bits / 8 : 0; // two transfers a clock
    return cudaSuccess;
}

cudaError_t open(ladder_gpu *g, int number, ladder_card *card)
{
    size_t l2;
    TRY(cudaSetDevice(number));
    TRY(describe(number, card, &l2));
    g->cool_bytes = kCoolings * l2 + 4096;
    TRY(cudaStreamCreate(&g->stream));
    TRY(cudaEventCreate(&g->begin));
    TRY(cudaEventCreate(&g->end));
    TRY(cudaMalloc((void **)&g->sink, sizeof *g->sink));
    TRY(cudaMalloc((void **)&g->cool, g->cool_bytes));
    TRY(cudaMemset(g->cool, 0, g->cool_bytes));
    return cudaSuccess;
}

void unload(ladder_gpu *g)
{
    cudaFree(g->input);
    cudaFree(g->work);
    cudaFree(g->partials);
    cudaFree(g->next);
    cudaFree(g->scratch);
    cudaFreeHost(g->host_partials);
    g->input = g->work = g->partials = g->next = g->scratch = g->host_partials = nullptr;
}

cudaError_t load(ladder_gpu *g, const void *data)
{
    const size_t bytes = g->n * kElement, cub = scratch_cub(g->n), chain = scratch_chain();
    g->partials_bytes = div_up(g->n, LADDER_BLOCK_MIN) * kElement + kValueBytes;
    g->scratch_bytes = div_up(cub, kAlign) * kAlign + chain;
    TRY(cudaMalloc(&g->input, bytes));
    TRY(cudaMalloc(&g->work, bytes));
    TRY(cudaMalloc(&g->partials, g->partials_bytes));
    TRY(cudaMalloc(&g->next, g->partials_bytes));
    TRY(cudaMalloc(&g->scratch, g->scratch_bytes));
    TRY(cudaMallocHost(&g->host_partials, g->partials_bytes));
    TRY(cudaMemset(g->scratch, 0, g->scratch_bytes));
    return cudaMemcpy(g->input, data, bytes, cudaMemcpyHostToDevice);
}

bool told(cudaError_t err, char *why)
{
    if (err != cudaSuccess) {
        snprintf(why, LADDER_WHY, "%s", cudaGetErrorString(err));
        cudaGetLastError(); // or the next call would report it again
    }
    return err == cudaSuccess;
}

} // namespace

ladder_gpu *ladder_gpu_open(int number, ladder_card *card, char why[LADDER_WHY])
{
    ladder_gpu *g = new (std::nothrow) ladder_gpu();
    if (!g) {
        snprintf(why, LADDER_WHY, "no memory");
        return nullptr;
    }
    if (!told(open(g, number, card), why)) {
        ladder_gpu_close(g);
        return nullptr;
    }
    return g;
}

void ladder_gpu_close(ladder_gpu *g)
{
    if (!g)
        return;
    unload(g);
    cudaFree(g->sink);
    cudaFree(g->cool);
    if (g->begin)
        cudaEventDestroy(g->begin);
    if (g->end)
        cudaEventDestroy(g->end);
    if (g->stream)
        cudaStreamDestroy(g->stream);
    delete g;
}

bool ladder_gpu_load(ladder_gpu *g, ladder_dtype dtype, const void *data, size_t n, char why[LADDER_WHY])
{
    unload(g);
    g->dtype = dtype;
    g->n = n;
    return told(load(g, data), why);
}

bool ladder_gpu_run(ladder_gpu *g, const ladder_rung *rung, unsigned block, ladder_finish finish, ladder_run *out,
                    char why[LADDER_WHY])
{
    *out = {};
    return told(g->dtype == LADDER_I32 ? timed_run<int>(g, rung, block, finish, out)
                                       : timed_run<float>(g, rung, block, finish, out),
                why);
}
