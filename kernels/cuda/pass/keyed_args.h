// Reductions by key: what the launcher and the kernels share.
//
// An element of a float sum is an integer of units of 2^(base + rk_e0), if it is not too small or too large for the window of
// its group: one 64-bit integer, of f64 two, of which the lower one takes `split` bits of each element. Then an addition is one
// atomic addition (two) without carries, in any order. A sample says where the windows begin. All other elements go to whole
// accumulators in digits of 32 bits, which are as wide as those of states. Integers have windows alone.
//
//   window   groups x words: sums, or the best rank (min, max)
//   digits   groups x digits of 32 bits in 64, carried at the end
//   counts   groups: elements, or of min and max whether there is one
//   flags    groups: kFlag... of what was rare
#pragma once

#include "kernels/cuda/pass/plan.h"

namespace rk {

enum KeyedKind : u8 { kKeyedFloat, kKeyedDouble, kKeyedInt, kKeyedLong, kKeyedBest, kKeyedCount };

__host__ __device__ constexpr int keyed_words(KeyedKind k)
{
    return k == kKeyedDouble || k == kKeyedLong ? 2 : k == kKeyedCount ? 0 : 1;
}

// Whose floats the kernels of this kind add: narrow ones as f32
__host__ __device__ constexpr rp_dtype keyed_dtype(KeyedKind k) { return k == kKeyedDouble ? RP_F64 : RP_F32; }

constexpr int kKeyedThreads = 512; // of a block
// Blocks of an SM: 42 registers a thread, or 64. Compute capability 7.5 has 1024 threads an SM.
__host__ __device__ constexpr int keyed_blocks(KeyedKind k)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return 2;
#else
    return k == kKeyedDouble ? 2 : 3;
#endif
}
constexpr u32 kManyCopies = 4; // so many let a warp add to one group fast enough
constexpr int kFinishThreads = 128;
constexpr int kKeyedAtOnce = 4; // elements of a thread

// Flags of a group, beside kFlagSpecial and others
enum { kFlagMinusZero = 32, kFlagDigits = 64 }; // it has a -0.0; some of it is in its digits

struct KeyedHead {
    u64 wrong;       // the first element whose key is not a group
    u32 fault;       // the first group without a result
    u32 minus_zeros; // are there any?
    u32 base;        // of all windows
};

struct KeyedArgs {
    const u8 *data, *keys, *mask; // mask: NULL or a byte for each element
    u64 n, groups;
    KeyedHead *head;
    u64 *window, *digits;
    u32 *counts, *flags; // counts: NULL: nobody asks
    u32 split, reach;    // reach: of an element's unit above the window's
    u32 copies;          // of each group, in shared memory: a power of two, at most 32
    KeyedKind kind;
    u8 dtype, key_dtype, nan;         // rp_dtype, rp_nan
    bool least;                       // the best rank is that of the smallest element
    bool drop_outside, drop_negative; // leave out elements whose key is not a group
    bool counted;                     // counts are numbers of elements
};

using KeyedFn = void (*)(KeyedArgs);
using KeyedFinishFn = void (*)(KeyedArgs, FinishArgs);

struct KeyedKernels {
    KeyedFn direct, shared; // NULL: there is none
};
template <KeyedKind kKind> KeyedKernels keyed_part(); // ops/keyed.cu

// ops/keyed_finish.cu
KeyedFn keyed_sample_kernel();       // one block: sets head->base
KeyedFinishFn keyed_finish_kernel(); // kFinishThreads
KeyedFn keyed_zeros_kernel();        // behind the sums: which groups with a -0.0 have something else

// Words of shared memory of a copy of a group
__host__ __device__ inline u32 keyed_shared_words(KeyedKind kind, bool counts) { return 2 * (u32)keyed_words(kind) + counts; }

} // namespace rk
