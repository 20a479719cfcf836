// Reductions by key: what the launcher and the kernels share.
//
// An element of a float sum is an integer of units of 2^(base + rk_e0), if it is not too small or too large for the window of
// its group: one 64-bit integer, of f64 two, of which the lower one takes `split` bits of each element. Then an addition is one
// atomic addition (two) without carries, in any order. A sample says where the windows begin. All other elements go to whole
// accumulators in digits of 32 bits, which are as wide as those of states. Integers have windows alone.
//
// Squares are sums, too, of kinds of their own: the window's unit is the square of the sum's, and its words have `split` bits
// of each square. Operations with both sums take a pass for each. argmin and argmax find the best rank of each group first,
// then the lowest place that has it. So do stats with both ends, behind the passes for sums.
//
//   window   groups x words: sums, or the best rank (min, max, argmin, argmax)
//   digits   groups x digits of 32 bits in 64, carried at the end
//   squares  ... and square_digits: the same for sums of squares
//   counts   groups: elements, or of min and max whether there is one
//   places   groups: `n` minus the lowest place of the best rank
//   others   groups: of stats, what they have beside the sums
//   flags    groups: kFlag... of what was rare
#pragma once

#include "kernels/cuda/pass/plan.h"

namespace rk {

enum KeyedKind : u8 {
    kKeyedFloat,
    kKeyedDouble,
    kKeyedInt,
    kKeyedLong,
    kKeyedBest,
    kKeyedCount,
    kKeyedSquares, // of floats of at most 32 bits, and integers of as many
    kKeyedWideSquares
};

__host__ __device__ constexpr bool keyed_squares(KeyedKind k) { return k == kKeyedSquares || k == kKeyedWideSquares; }

__host__ __device__ constexpr int keyed_words(KeyedKind k)
{
    return k == kKeyedWideSquares                                       ? 4
           : k == kKeyedDouble || k == kKeyedLong || k == kKeyedSquares ? 2
           : k == kKeyedCount                                           ? 0
                                                                        : 1;
}

// Whose floats the kernels of this kind add: narrow ones as f32
__host__ __device__ constexpr rp_dtype keyed_dtype(KeyedKind k)
{
    return k == kKeyedDouble || k == kKeyedWideSquares ? RP_F64 : RP_F32;
}

// Digits of a group, if its elements are floats
__host__ __device__ constexpr int keyed_digits(KeyedKind k)
{
    return k == kKeyedSquares       ? 2 * RK_SQUARE_LIMBS32
           : k == kKeyedWideSquares ? 2 * RK_SQUARE_LIMBS64
           : k == kKeyedDouble      ? kDigits64
           : k == kKeyedFloat       ? kDigits32
                                    : 0;
}

constexpr int kMostKeyedWords = 4;

constexpr int kKeyedThreads = 512; // of a block
// Blocks of an SM: 42 registers a thread, or 64. Compute capability 7.5 has 1024 threads an SM.
__host__ __device__ constexpr int keyed_blocks(KeyedKind k)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    return 2;
#else
    return k == kKeyedDouble || keyed_squares(k) ? 2 : 3;
#endif
}
constexpr u32 kManyCopies = 4; // of a group: with fewer, a warp of one key adds its elements up before it adds to the table
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

// Ranks of both ends, `n` minus their lowest places, and numbers of elements
struct KeyedOthers {
    u64 least, largest;
    u32 least_place, largest_place, zeros, nans;
};

struct KeyedArgs {
    const u8 *data, *keys, *mask; // mask: NULL or a byte for each element
    const u8 *initial;            // one more element of each group; NULL: none, or the spec's
    u64 n, groups, index_base;
    KeyedHead *head;
    u64 *window, *digits, *squares, *square_digits; // squares: NULL: nobody asks; of sums of squares alone, the window
    u32 *counts, *places, *flags;                   // counts, places: NULL: nobody asks
    KeyedOthers *others;                            // NULL: not of stats
    u32 split, square_split, reach;                 // reach: of an element's unit above the window's
    u32 copies;                                     // of each group, in shared memory: a power of two, at most 32
    KeyedKind kind;
    u8 dtype, key_dtype, nan;         // rp_dtype, rp_nan
    bool least;                       // the best rank is that of the smallest element
    bool drop_outside, drop_negative; // leave out elements whose key is not a group
    bool counted;                     // counts are numbers of elements
    bool magnitudes;                  // there is one infinity
};

using KeyedFn = void (*)(KeyedArgs);
using KeyedFinishFn = void (*)(KeyedArgs, FinishArgs);

struct KeyedKernels {
    KeyedFn direct, shared; // NULL: there is none
};
template <KeyedKind kKind> KeyedKernels keyed_part(); // ops/keyed.cu

// ops/keyed_finish.cu
KeyedFn keyed_sample_kernel();        // one block: sets head->base
KeyedFinishFn keyed_finish_kernel();  // kFinishThreads
KeyedFinishFn keyed_initial_kernel(); // kFinishThreads, before the sums: which groups have an initial -0.0
KeyedFn keyed_zeros_kernel();         // behind the sums: which groups with a -0.0 have something else
KeyedFn keyed_places_kernel();        // behind the best ranks: their places

KeyedFinishFn keyed_finish_squares_kernel(); // ops/keyed_finish_squares.cu: of all other operations with squares

// ops/keyed_stats.cu
KeyedFn keyed_ends_kernel();
KeyedFn keyed_end_places_kernel(); // behind it
KeyedFinishFn keyed_finish_stats_kernel();

// Words of shared memory of a copy of a group
__host__ __device__ inline u32 keyed_shared_words(KeyedKind kind, bool counts) { return 2 * (u32)keyed_words(kind) + counts; }

} // namespace rk
