// Pass 1 of the chain: a block reduces a segment of a row to one partial. A row that one block can take is finished
// there.
//
// The loop is written once; what is accumulated, and how, is the Accumulator's business:
//
//   static constexpr int kThreads, kUnroll;   block size; 16-byte loads in flight per thread
//   static constexpr int kWords;              its words of a partial (common.cuh adds two)
//   static constexpr int kBlocksPerSm;        at least so many fit an SM: what registers may be used
//   static constexpr u32 kMaxPerThread;       elements a thread may add before its partial would stop being exact
//   static size_t shared_bytes()
//   void init(void *shared, const SegmentArgs &)
//   void add_vector(uint4 v, u64 first)       16 bytes of elements; index of the first one within the row
//   void add_element(const void *p, u64 index)
//   void flush(void *shared, u64 elements, u64 *partial)   whole block; ends with everything written
//
// A row is head + vectors + tail: `head` elements up to the first 16-byte boundary, then 16-byte vectors in tiles of
// kThreads x kUnroll, then what is left. Tiles go round-robin over the row's blocks; the last block takes the rest.
#pragma once

#include "kernels/cuda/finish.cuh"

namespace rk {

struct SegmentArgs {
    const unsigned char *data; // rows x row_len elements
    u64 rows, row_len;
    u64 first_row;             // number of the first of these rows in the request
    u64 first_index;           // index of element 0 of a row in the whole array (arg ops)
    u32 element_log2;          // log2 of the bytes of an element
    u64 rank_flip;             // min and max: see best.cu
    u64 inf_bits;              // floats: exponent field all ones, in the element's own width
};

using SegmentFn = void (*)(SegmentArgs, FinishArgs, u64 *partials);

// A kernel of this family with what its launcher must know.
struct SegmentKernel {
    SegmentFn fn;
    int threads, unroll, words; // words: kTailWords included
    size_t shared_bytes;
    u32 max_per_thread;
};

template <class Accumulator> __global__ void __launch_bounds__(Accumulator::kThreads, Accumulator::kBlocksPerSm)
segment_reduce(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll;
    constexpr int kWords = Accumulator::kWords + kTailWords;
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ u64 only_partial[kWords];
    let_next_pass_start();
    const u32 log2 = args.element_log2, per_vector = 16 >> log2;

    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
        const unsigned char *p = args.data + ((row * args.row_len) << log2);
        u64 head = ((16 - ((uintptr_t)p & 15)) & 15) >> log2;
        if (head > args.row_len)
            head = args.row_len;
        const uint4 *vectors = (const uint4 *)(p + (head << log2));
        const u64 nvec = (args.row_len - head) >> (4 - log2), tiles = nvec / (kThreads * kUnroll);

        Accumulator acc;
        uint4 now[kUnroll], next[kUnroll];
        u64 tile = blockIdx.x, taken = 0;
        const uint4 *at = vectors + tile * (kThreads * kUnroll) + threadIdx.x;
        if (tile < tiles) {
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                next[u] = load_vector(at + u * kThreads);
        }
        acc.init(shared, args);
        // The next tile is requested before this one is added, so loads are always in flight.
        while (tile < tiles) {
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                now[u] = next[u];
            u64 first = head + (tile * (kThreads * kUnroll) + threadIdx.x) * per_vector;
            tile += gridDim.x;
            at += (u64)gridDim.x * (kThreads * kUnroll);
            if (tile < tiles) {
#pragma unroll
                for (int u = 0; u < kUnroll; u++)
                    next[u] = load_vector(at + u * kThreads);
            }
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                acc.add_vector(now[u], first + u * (kThreads * per_vector));
            taken++;
        }
        u64 elements = taken * (kThreads * kUnroll) * per_vector;
        if (blockIdx.x == gridDim.x - 1) {
            for (u64 v = tiles * (kThreads * kUnroll) + threadIdx.x; v < nvec; v += kThreads)
                acc.add_vector(load_vector(vectors + v), head + v * per_vector);
            u64 tail = head + nvec * per_vector;
            if (threadIdx.x < head)
                acc.add_element(p + (threadIdx.x << log2), threadIdx.x);
            if (tail + threadIdx.x < args.row_len)
                acc.add_element(p + ((tail + threadIdx.x) << log2), tail + threadIdx.x);
            elements += args.row_len - tiles * (kThreads * kUnroll) * per_vector;
        }
        const bool whole = gridDim.x == 1;
        acc.flush(shared, elements, whole ? only_partial : partials + (row * gridDim.x + blockIdx.x) * kWords);
        __syncthreads(); // `shared` is free for the next row
        if (whole && threadIdx.x < kWarp)
            finish_row(finish, args.first_row + row, only_partial);
    }
}

template <class Accumulator> SegmentKernel segment_kernel()
{
    return {segment_reduce<Accumulator>,
            Accumulator::kThreads,
            Accumulator::kUnroll,
            Accumulator::kWords + kTailWords,
            Accumulator::shared_bytes(),
            Accumulator::kMaxPerThread};
}

// The kernel for an operation, element type and NaN policy (skip: NaNs are left out and counted). One function a
// family.
SegmentKernel sum_float_kernel(int dtype, bool skip); // sum_float.cu: f16 bf16 f32
SegmentKernel sum_f64_kernel(bool skip, size_t shared_per_block, bool long_row); // sum_f64.cu
SegmentKernel sum_int_kernel(int dtype);              // sum_int.cu
SegmentKernel best_kernel(int dtype, bool skip, bool index); // best.cu
SegmentKernel count_kernel(int dtype, bool skip);     // count.cu

} // namespace rk
