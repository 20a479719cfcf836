// Pass 1 of the chain: a block reduces a segment of a row to one partial. A row that one block can take is finished
// there if that is simple.
//
// The loop is written once; what is accumulated, and how, is the Accumulator's business:
//
//   static constexpr int kThreads, kUnroll;   block size; 16-byte loads in flight per thread
//   static constexpr int kWords;              its words of a partial at most (words.cuh)
//   static constexpr int kBlocksPerSm;        at least so many fit an SM: what registers may be used
//   static constexpr u32 kMaxPerThread;       elements a thread may add before its partial would stop being exact
//   static size_t shared_bytes()
//   static constexpr bool kPrepares           if true: whole block, before a tile is added, and before the row's rest
//     bool prepare(const uint4 (&tile)[kUnroll])   false: it is no use, give up
//     void prepare_rest(const uint4 *vectors, u64 from, u64 to)
//   void init(void *shared, const SegmentArgs &)
//   void add_vector(uint4 v, u64 first)       16 bytes of elements; index of the first one within the row
//   static constexpr bool kTiles              if true there is, for a thread's vectors of a tile at once,
//     void add_tile(const uint4 (&tile)[kUnroll], u64 first)   kThreads vectors apart; add_vector then takes the rest
//   void add_element(const void *p, u64 index)
//   void flush(const SegmentArgs &, row, void *shared, u64 elements, u64 *partial)   whole block; ends with everything
//                                             written; `row` is where the row's elements begin
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
    u8 layout, dtype;          // rp_layout, rp_dtype
    bool skip;                 // NaNs are left out and counted
    bool nan_error;            // policy `error`
    bool doubles;              // the device is fast at them
    u32 keep;                  // of a float's upper 32 bits: all, or all but the sign
};

using SegmentFn = void (*)(SegmentArgs, FinishArgs, u64 *partials);

struct WalkArgs;
using WalkFn = void (*)(FinishArgs, SegmentArgs, WalkArgs, u64 *partials);

// A kernel of this family with what its launcher must know.
struct SegmentKernel {
    SegmentFn fn;
    int threads, unroll;
    size_t shared_bytes;
    u32 max_per_thread;
    bool pairs;  // it leaves pairs behind the partials (pair.cuh)
    WalkFn walk; // for what it cannot take (walk.cuh); may be NULL: there is no fast way
};

// The block's part of the row at `p`, added to a fresh accumulator. Returns how many elements that were. Whole block.
template <class Accumulator>
__device__ __forceinline__ u64 add_part(Accumulator &acc, const SegmentArgs &args, const unsigned char *p, void *shared)
{
    constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll;
    const u32 log2 = args.element_log2, per_vector = 16 >> log2;
    u64 head = ((16 - ((uintptr_t)p & 15)) & 15) >> log2;
    if (head > args.row_len)
        head = args.row_len;
    const uint4 *vectors = (const uint4 *)(p + (head << log2));
    const u64 nvec = (args.row_len - head) >> (4 - log2), tiles = nvec / (kThreads * kUnroll);

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
        if constexpr (Accumulator::kPrepares)
            if (!acc.prepare(now))
                return 0;
        if constexpr (Accumulator::kTiles) {
            acc.add_tile(now, first);
        } else {
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                acc.add_vector(now[u], first + u * (kThreads * per_vector));
        }
        taken++;
    }
    u64 elements = taken * (kThreads * kUnroll) * per_vector;
    if (blockIdx.x < gridDim.x - 1)
        return elements;
    if constexpr (Accumulator::kPrepares)
        acc.prepare_rest(vectors, tiles * (kThreads * kUnroll), nvec);
    for (u64 v = tiles * (kThreads * kUnroll) + threadIdx.x; v < nvec; v += kThreads)
        acc.add_vector(load_vector(vectors + v), head + v * per_vector);
    u64 tail = head + nvec * per_vector;
    if (threadIdx.x < head)
        acc.add_element(p + (threadIdx.x << log2), threadIdx.x);
    if (tail + threadIdx.x < args.row_len)
        acc.add_element(p + ((tail + threadIdx.x) << log2), tail + threadIdx.x);
    return elements + args.row_len - tiles * (kThreads * kUnroll) * per_vector;
}

// Accumulators of which one block fills an SM's shared memory come in two sizes. Which one a device gets is known when code
// is made for it (Device::large_shared), so the other one is left empty there: compiling takes minutes.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ / 100 == 9 || __CUDA_ARCH__ / 100 == 10)
constexpr bool kLargeShared = true;
#else
constexpr bool kLargeShared = false;
#endif
template <class Accumulator>
constexpr bool kUsedHere = Accumulator::kBlocksPerSm > 1 || (Accumulator::kThreads >= 384) == kLargeShared;

template <class Accumulator> __global__ void __launch_bounds__(Accumulator::kThreads, Accumulator::kBlocksPerSm)
segment_reduce(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    if constexpr (kUsedHere<Accumulator>) {
        extern __shared__ __align__(16) unsigned char shared[];
        __shared__ u64 only_partial[Accumulator::kWords + kTailWords];
        let_next_pass_start();
        const bool whole = gridDim.x == 1 && finish.light; // else the merging pass finishes it
        for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
            const unsigned char *p = args.data + ((row * args.row_len) << args.element_log2);
            Accumulator acc;
            u64 elements = add_part(acc, args, p, shared);
            acc.flush(args, p, shared, elements,
                      whole ? only_partial : partials + (row * gridDim.x + blockIdx.x) * finish.plan.all);
            __syncthreads(); // `shared` is free for the next row
            if (whole && threadIdx.x < kWarp)
                finish_light(finish, args.first_row + row, only_partial);
        }
    }
}

template <class Accumulator> SegmentKernel segment_kernel()
{
    return {segment_reduce<Accumulator>,
            Accumulator::kThreads,
            Accumulator::kUnroll,
            Accumulator::shared_bytes(),
            Accumulator::kMaxPerThread,
            false,
            NULL};
}

// The kernel for an operation, element type and NaN policy (skip: NaNs are left out and counted). One function a
// family.
SegmentKernel sum_float_kernel(int dtype, bool skip); // sum_float.cu: f16 bf16 f32
SegmentKernel sum_few_kernel(int dtype, bool skip, bool long_row); // sum_few.cu: f32 f64
SegmentKernel sum_f64_kernel(bool skip, bool large_shared); // sum_f64.cu
SegmentKernel sum_int_kernel(int dtype);              // sum_int.cu
SegmentKernel best_kernel(int dtype, bool skip, bool index); // best.cu
SegmentKernel count_kernel(int dtype, bool skip);     // count.cu
SegmentKernel moments_int_kernel(int layout, int dtype); // moments_int.cu
SegmentKernel minmax_kernel(int dtype);              // minmax.cu
SegmentKernel bits_kernel(int layout, int dtype);    // bits.cu
SegmentKernel moments_f64_kernel(bool stats);         // moments_f64.cu
SegmentKernel moments_f32_kernel(int dtype, bool stats, bool large_shared); // moments_f32.cu: f16 bf16 f32

} // namespace rk
