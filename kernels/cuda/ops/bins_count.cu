// Counts of a line's elements by slot (bins_args.h). blockIdx.y is the line.
#include "kernels/cuda/pass/bins_args.h"
#include "kernels/cuda/pass/select_keys.cuh"

namespace rk {
namespace {

template <int kDtype> constexpr int kBytesOf = kDtype == RP_I8 ? 1
                                               : kDtype == RP_I16 || kDtype == RP_U16 || kDtype == RP_F16 || kDtype == RP_BF16
                                                   ? 2
                                               : kDtype == RP_I32 || kDtype == RP_U32 || kDtype == RP_F32 ? 4
                                                                                                          : 8;

// An element as a number, for the guess
template <int kDtype, class Bits> __device__ __forceinline__ auto number_of(Bits bits)
{
    if constexpr (kDtype == RP_F64)
        return __longlong_as_double((long long)bits);
    else if constexpr (kDtype == RP_I64)
        return (double)(i64)bits;
    else if constexpr (kDtype == RP_U64)
        return (double)bits;
    else if constexpr (kDtype == RP_I32)
        return (float)(int)bits;
    else if constexpr (kDtype == RP_I16)
        return (float)(int16_t)bits;
    else if constexpr (kDtype == RP_U32 || kDtype == RP_U16)
        return (float)bits;
    else if constexpr (kDtype == RP_F16)
        return __uint_as_float(F16::get(bits, 0));
    else if constexpr (kDtype == RP_BF16)
        return __uint_as_float(Bf16::get(bits, 0));
    else
        return __uint_as_float(bits);
}

// How many of the ascending bounds the key reaches: `low` at least, `high` at most
template <class Key> __device__ __forceinline__ u32 slot_between(const Key *bound, u32 low, u32 high, Key key)
{
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (key >= bound[middle])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The same by a table: of the bounds, the first key of range i, first + (i << shift), reaches table[i].
template <class Key> struct Ranges {
    const Key *bound;
    const u32 *table;
    Key first, last; // bounds
    u32 bounds, shift;

    __device__ __forceinline__ u32 slot(Key key) const
    {
        if (key < first)
            return 0;
        if (key >= last)
            return bounds;
        const u32 i = (u32)((Key)(key - first) >> shift);
        return slot_between(bound, table[i], table[i + 1], key);
    }
};

// The block's table. Whole block.
template <class Key> __device__ __forceinline__ Ranges<Key> make_ranges(const BinsArgs &a, const Key *bound, u32 *table)
{
    Ranges<Key> r = {bound, table, (Key) ~(Key)0, 0, a.bounds, a.shift};
    if (a.bounds) {
        r.first = bound[0];
        r.last = bound[a.bounds - 1];
        const u32 n = (u32)((Key)(r.last - r.first) >> a.shift) + 1;
        for (u32 i = threadIdx.x; i <= n; i += blockDim.x)
            table[i] = i < n ? slot_between(bound, 0, a.bounds, (Key)(r.first + ((Key)i << a.shift))) : a.bounds;
    }
    __syncthreads();
    return r;
}

// Counts in shared memory, of which this thread has a column
struct Columns {
    static constexpr bool kRemembers = true;
    SharedPlace own;
    u32 first, some, shift; // of a slot to bytes

    __device__ __forceinline__ Columns(const BinsArgs &a, u32 *counts)
        : own(counts + (threadIdx.x & ((1u << a.columns_log2) - 1))), first(a.first_slot), some(a.some),
          shift(a.columns_log2 + 2)
    {
    }
    __device__ __forceinline__ void add(u32 slot)
    {
        if (slot - first < some)
            own.count((slot - first) << shift);
    }
};

// The same of all slots, and each lane has a column: no two meet.
struct OwnColumns {
    static constexpr bool kRemembers = false; // its loop is as fast as reading, and would not be
    SharedPlace own;

    __device__ __forceinline__ OwnColumns(const BinsArgs &, u32 *counts) : own(counts + threadIdx.x % kWarp) {}
    __device__ __forceinline__ void add(u32 slot) { own.count(slot * (kWarp * sizeof(u32))); }
};

// The slot of an element that may be near a bound
template <class K>
__device__ __noinline__ u32 exact_slot(u32 nans, K rule, Ranges<typename K::Key> ranges, typename K::Bits bits)
{
    const typename K::Key key = rule.of(bits);
    return rule.nan(key) ? nans : ranges.slot(key);
}

// The block's part of the line
template <int kDtype, class Columns, class Key>
__device__ __forceinline__ void count_slots(const BinsArgs &a, const Ranges<Key> &ranges, const u32 *of_byte, u32 *counts)
{
    constexpr int kBytes = kBytesOf<kDtype>;
    using K = Keys<kBytes>;
    const u32 nans = a.slots - 1;
    const BinGuess &g = a.guess;
    Columns columns(a, counts);
    typename K::Bits known = 0; // the last element that was searched for: many may be equal, and at a bound
    u32 slot_of_known = kBytes > 1 && Columns::kRemembers ? exact_slot(nans, K(a.key), ranges, known) : 0;
    each_of_line<kBytes>(
        LineView<kBytes>(a, blockIdx.y),
        [&](typename K::Bits bits, bool in, u64) {
            if (!in)
                return;
            if constexpr (kBytes == 1) {
                columns.add(of_byte[bits]);
            } else {
                constexpr float kWhole = 12582912; // 1.5 * 2^23: behind it there are integers alone
                const auto x = number_of<kDtype>(bits);
                const float t = guess_at(g, x), near = t + kWhole, off = t - (near - kWhole);
                u32 slot = __float_as_uint(near) - (__float_as_uint(kWhole) - 1);
                if (__builtin_expect(!(fabsf(off) <= g.certain), 0)) {
                    if (!Columns::kRemembers || bits != known) {
                        known = bits;
                        slot_of_known = exact_slot(nans, K(a.key), ranges, bits);
                    }
                    slot = slot_of_known;
                }
                columns.add(x != x ? nans : slot);
            }
        },
        [] {});
}

template <int kDtype> __global__ void __launch_bounds__(kBinsThreads, 2) count_bins(const __grid_constant__ BinsArgs a)
{
    constexpr int kBytes = kBytesOf<kDtype>;
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    RK_DYNAMIC_SHARED(u32, counts); // then the bounds, if there is room for them
    __shared__ u32 of_byte[256], table[kBinRanges + 2];
    wait_for_previous_pass();
    const u32 words = a.some << a.columns_log2;
    const Key *bound = (const Key *)a.keys;
    if (a.shared_keys) {
        Key *copy = (Key *)(counts + (words + 1) / 2 * 2);
        for (u32 i = threadIdx.x; i < a.bounds; i += blockDim.x)
            copy[i] = bound[i];
        bound = copy;
    }
    for (u32 i = threadIdx.x; i < words; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();
    const K rule(a.key);
    const u32 nans = a.slots - 1;
    const Ranges<Key> ranges = make_ranges(a, bound, table);
    if constexpr (kBytes == 1)
        for (u32 i = threadIdx.x; i < 256; i += blockDim.x)
            of_byte[i] = exact_slot(nans, rule, ranges, (typename K::Bits)i);
    __syncthreads();
    if (a.columns_log2 == 5 && a.some == a.slots)
        count_slots<kDtype, OwnColumns>(a, ranges, of_byte, counts);
    else
        count_slots<kDtype, Columns>(a, ranges, of_byte, counts);
    SharedPlace::put_before();
    __syncthreads();
    u64 *line = a.counts + blockIdx.y * (u64)a.slots + a.first_slot;
    for (u32 i = threadIdx.x; i < a.some; i += blockDim.x) {
        u64 n = 0;
        for (u32 c = 0; c < 1u << a.columns_log2; c++)
            n += counts[(i << a.columns_log2) + ((c + i) & ((1u << a.columns_log2) - 1))];
        if (n)
            atomicAdd(&line[i], n);
    }
}

} // namespace

template <int kBytes> BinsFn bins_part(int dtype)
{
    if constexpr (kBytes == 1)
        return count_bins<RP_I8>;
    else if constexpr (kBytes == 2)
        return dtype == RP_F16    ? count_bins<RP_F16>
               : dtype == RP_BF16 ? count_bins<RP_BF16>
               : dtype == RP_I16  ? count_bins<RP_I16>
                                  : count_bins<RP_U16>;
    else if constexpr (kBytes == 4)
        return dtype == RP_F32 ? count_bins<RP_F32> : dtype == RP_I32 ? count_bins<RP_I32> : count_bins<RP_U32>;
    else
        return dtype == RP_F64 ? count_bins<RP_F64> : dtype == RP_I64 ? count_bins<RP_I64> : count_bins<RP_U64>;
}

#define PARTS(X) X(1) X(2) X(4) X(8)
#define PART(of) template BinsFn bins_part<of>(int dtype);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
