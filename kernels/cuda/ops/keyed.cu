// Reductions by key (keyed_args.h): one pass over elements and keys adds to tables of all groups, by atomic additions of
// integers, so that neither order nor device matters. Few groups have copies in the shared memory of each block, side by side
// for the lanes of a warp, so that few additions of a warp meet in a bank. Where a warp has few copies or none, elements that
// all have one key are added first: else one huge group, and sorted keys, would wait for one place in memory.
#include "kernels/cuda/pass/keyed.cuh"

namespace rk {
namespace {

// ---- tables ----

template <KeyedKind kKind> struct DirectTable {
    const KeyedArgs &a;

    __device__ __forceinline__ bool adds_first() const { return true; }
    __device__ __forceinline__ void add(u64 key, const i64 *words, u32 n)
    {
#pragma unroll
        for (int k = 0; k < keyed_words(kKind); k++)
            atomicAdd(&a.window[key * keyed_words(kKind) + k], (u64)words[k]);
        count(key, n);
    }
    __device__ __forceinline__ void count(u64 key, u32 n)
    {
        if (a.counts)
            atomicAdd(&a.counts[key], n);
    }
};

// In shared memory: 64-bit integers as two words, since the device has no 64-bit additions there.
template <KeyedKind kKind> struct SharedTable {
    static constexpr int kWords = keyed_words(kKind);
    const KeyedArgs &a;
    u32 *copy; // of this lane: word w of a group's window is copy[w * words + group * copies]; the count comes last
    u32 words; // of shared memory, which one word of all groups takes

    __device__ __forceinline__ bool adds_first() const { return a.copies < kManyCopies; }
    __device__ __forceinline__ void add(u64 key, const i64 *value, u32 n)
    {
        u32 *low = copy + (u32)key * a.copies;
#pragma unroll
        for (int k = 0; k < kWords; k++, low += 2 * words) {
            const u32 part = (u32)value[k], before = atomicAdd(low, part);
            const u32 high = (u32)((u64)value[k] >> 32) + (before + part < part);
            if (high)
                atomicAdd(low + words, high);
        }
        count(key, n);
    }
    __device__ __forceinline__ void count(u64 key, u32 n)
    {
        if (a.counts)
            atomicAdd(copy + 2 * kWords * words + (u32)key * a.copies, n);
    }
};

// ---- elements ----

// Bits [from, from + n) of v, n < 64. Below bit 0 there are zeros. Not of places.
[[maybe_unused]] __device__ __forceinline__ u64 part_of(unsigned __int128 v, int from, u32 n)
{
    const u64 x = from >= 0 ? (u64)(v >> (from % 128)) : (u64)v << (-from % 64);
    return from > -64 && from < 128 ? x & ((1ull << n) - 1) : 0;
}

// What is neither in a window nor an ordinary zero. Out of line, because it is rare.
template <KeyedKind kKind> static __device__ __noinline__ void add_rare(const KeyedArgs &a, u64 key, u64 bits)
{
    constexpr int kDtype = keyed_dtype(kKind);
    constexpr bool kSquare = keyed_squares(kKind);
    const rk_format f = rk_format_of(kDtype);
    const u64 magnitude = bits & ~rk_sign_bit(f, 1);
    if (magnitude >= rk_inf_bits(f)) {
        const bool negative = magnitude != bits && !a.magnitudes;
        raise_flag(a, key, magnitude > rk_inf_bits(f) ? RK_NAN : negative ? RK_NINF : RK_PINF);
        return;
    }
    if (magnitude == 0) {
        raise_flag(a, key, kFlagMinusZero);
        a.head->minus_zeros = 1;
        return;
    }
    const rk_number x = rk_number_of(f, bits);
    const u32 up = (u32)(x.unit - rk_e0(kDtype)) * (kSquare ? 2 : 1);
    const unsigned __int128 v = kSquare ? (unsigned __int128)x.mantissa * x.mantissa : x.mantissa;
    u64 *digit = a.digits + key * (u64)keyed_digits(kKind) + up / 32;
    for (int k = 0; k < (kSquare ? 5 : 3); k++) {
        const u64 part = part_of(v, 32 * k - (int)(up % 32), 32);
        if (part)
            atomicAdd(digit + k, x.negative && !kSquare ? 0 - part : part);
    }
    raise_flag(a, key, kFlagDigits);
}

// Does it take part, and how?
enum Place { kNowhere, kInWindow, kElsewhere };

// A float as sign and mantissa << up units of its window. False: it is zero, too far from the window, or not finite.
__device__ __forceinline__ bool window_words(const KeyedArgs &a, u32 base, u32 bits, i64 *words)
{
    const u32 magnitude = bits & ~(1u << 31), field = magnitude >> 23, up = max(field, 1u) - base;
    const u64 v = (u64)((bits & 0x7fffffu) | (field ? 1u << 23 : 0)) << (up % 64);
    words[0] = (i64)((int)bits < 0 ? 0 - v : v);
    return up <= a.reach && magnitude - 1 < kInfinite - 1;
}
__device__ __forceinline__ bool window_words(const KeyedArgs &a, u32 base, u64 bits, i64 *words)
{
    const u32 high_bits = (u32)(bits >> 32) & ~(1u << 31), field = high_bits >> 20, up = max(field, 1u) - base;
    const u64 mantissa = (bits & ((1ull << 52) - 1)) | (field ? 1ull << 52 : 0);
    const u64 low = mantissa << (up % 64) & ((1ull << a.split) - 1),
              high = up < a.split ? mantissa >> (a.split - up) : mantissa << (up - a.split) % 64;
    words[0] = (i64)((i64)bits < 0 ? 0 - low : low);
    words[1] = (i64)((i64)bits < 0 ? 0 - high : high);
    return up <= a.reach && field < 0x7ff && mantissa;
}
static_assert(RK_E0_32 == -150 && RK_E0_64 == -1075, "an element's unit above it is its exponent's field, at least 1");

// A float that window_words does not take
template <KeyedKind kKind, class Bits>
__device__ __forceinline__ Place place_of_other(const KeyedArgs &a, u64 key, Bits bits, i64 *words)
{
    words[0] = words[keyed_words(kKind) - 1] = 0;
    if (bits == 0)
        return kInWindow;
    if (a.nan != RP_NAN_PROPAGATE && rk_is_nan(keyed_dtype(kKind), bits)) {
        raise_flag(a, key, kFlagSkipped);
        return kNowhere;
    }
    return kElsewhere;
}

// A square as words of a.split bits, in units of its window
template <KeyedKind kKind>
__device__ __forceinline__ Place place_of_square(const KeyedArgs &a, u32 base, u64 key, u64 bits, i64 *words)
{
    const rk_format f = rk_format_of(keyed_dtype(kKind));
    const bool is_float = rk_is_float(a.dtype);
    u64 m = is_float ? bits & ~rk_sign_bit(f, 1) : a.dtype == RP_BOOL ? bits != 0 : rk_magnitude(a.dtype, bits);
    u32 up = 0;
    if (is_float && m) {
        const u32 field = (u32)(m >> (f.precision - 1));
        if (a.nan != RP_NAN_PROPAGATE && m > rk_inf_bits(f)) {
            raise_flag(a, key, kFlagSkipped);
            return kNowhere;
        }
        up = max(field, 1u) - base;
        if (m >= rk_inf_bits(f) || up > a.reach)
            return kElsewhere;
        m = (m & ((1ull << (f.precision - 1)) - 1)) | (field ? 1ull << (f.precision - 1) : 0);
    }
    const unsigned __int128 square = (unsigned __int128)m * m;
#pragma unroll
    for (u32 k = 0; k < (u32)keyed_words(kKind); k++)
        words[k] = (i64)part_of(square, (int)(k * a.split) - 2 * (int)up, a.split);
    return kInWindow;
}

template <KeyedKind kKind>
__device__ __forceinline__ Place place_of(const KeyedArgs &a, u32 base, u64 key, u64 bits, i64 *words)
{
    if constexpr (keyed_squares(kKind)) {
        return place_of_square<kKind>(a, base, key, bits, words);
    } else if constexpr (kKind == kKeyedFloat) {
        return window_words(a, base, (u32)bits, words) ? kInWindow : place_of_other<kKind>(a, key, (u32)bits, words);
    } else if constexpr (kKind == kKeyedDouble) {
        return window_words(a, base, bits, words) ? kInWindow : place_of_other<kKind>(a, key, bits, words);
    } else if constexpr (kKind == kKeyedInt) {
        words[0] = a.dtype == RP_BOOL      ? bits != 0
                   : rk_is_signed(a.dtype) ? (i64)rk_sign_extend(bits, rk_bytes(a.dtype))
                                           : (i64)bits;
        return kInWindow;
    } else if constexpr (kKind == kKeyedLong) {
        words[0] = (i64)(u32)bits;
        words[1] = a.dtype == RP_I64 ? (i64)bits >> 32 : (i64)(bits >> 32);
        return kInWindow;
    } else if (a.nan != RP_NAN_PROPAGATE && rk_is_nan(a.dtype, bits)) {
        raise_flag(a, key, kFlagSkipped);
        return kNowhere;
    } else {
        return kInWindow;
    }
}

template <KeyedKind kKind> __device__ __forceinline__ void best_of(const KeyedArgs &a, u64 key, u64 bits)
{
    const u64 rank = rk_rank(a.dtype, a.least, a.dtype == RP_BOOL ? bits != 0 : bits);
    if (a.window[key] < rank) // it may have become larger: then atomicMax does nothing
        atomicMax(&a.window[key], rank);
    if (a.counted)
        atomicAdd(&a.counts[key], 1u);
    else if (!a.counts[key])
        a.counts[key] = 1;
}

// One element of each lane of a warp. key: a.groups where there is none.
template <KeyedKind kKind, class Table>
__device__ __forceinline__ void add_each(const KeyedArgs &a, u32 base, Table &table, u64 key, u64 bits)
{
    i64 words[kMostKeyedWords];
    const Place place = key < a.groups ? place_of<kKind>(a, base, key, bits, words) : kNowhere;
    if constexpr (kKind == kKeyedBest) {
        if (place == kInWindow)
            best_of<kKind>(a, key, bits);
        return;
    } else {
        if (table.adds_first()) {
            const u64 first = __shfl_sync(kFullMask, key, 0);
            if (__all_sync(kFullMask, place == kInWindow && key == first)) {
#pragma unroll
                for (int k = 0; k < keyed_words(kKind); k++)
                    words[k] = warp_sum(words[k]);
                if (threadIdx.x % kWarp == 0)
                    table.add(key, words, kWarp);
                return;
            }
        }
        if (place == kInWindow) {
            table.add(key, words, 1);
        } else if (place == kElsewhere) {
            add_rare<kKind>(a, key, bits);
            table.count(key, 1);
        }
    }
}

// The elements of one step of a block: all are loaded before any is looked at. kWhole: the step has all of them.
template <KeyedKind kKind, bool kLongKeys, bool kWhole, class Table>
__device__ __forceinline__ void add_step(const KeyedArgs &a, u32 base, Table &table, u64 from)
{
    u64 key[kKeyedAtOnce], bits[kKeyedAtOnce];
    bool in[kKeyedAtOnce];
#pragma unroll
    for (int k = 0; k < kKeyedAtOnce; k++) {
        const u64 i = from + (u32)k * kKeyedThreads + threadIdx.x;
        in[k] = kWhole || i < a.n;
        key[k] = in[k] ? key_at<kLongKeys>(a, i) : 0;
        bits[k] = in[k] ? raw_at<kKind>(a, i) : 0;
        in[k] = in[k] && (!a.mask || a.mask[i]);
    }
#pragma unroll
    for (int k = 0; k < kKeyedAtOnce; k++) {
        const u64 group = in[k] ? group_of<kLongKeys>(a, key[k], from + (u32)k * kKeyedThreads + threadIdx.x) : a.groups;
        add_each<kKind>(a, base, table, group, bits_of<kKind>(a, bits[k]));
    }
}

template <KeyedKind kKind, bool kLongKeys, class Table>
__device__ __forceinline__ void add_all_of(const KeyedArgs &a, Table &table)
{
    const u32 base = a.head->base;
    constexpr u64 kStep = (u64)kKeyedThreads * kKeyedAtOnce;
    for (u64 from = blockIdx.x * kStep; from < a.n; from += gridDim.x * kStep)
        if (kKind != kKeyedCount && kKind != kKeyedInt && from + kStep <= a.n)
            add_step<kKind, kLongKeys, true>(a, base, table, from);
        else
            add_step<kKind, kLongKeys, false>(a, base, table, from);
}

template <KeyedKind kKind, class Table> __device__ __forceinline__ void add_all(const KeyedArgs &a, Table &table)
{
    if (rk_bytes(a.key_dtype) == 8)
        add_all_of<kKind, true>(a, table);
    else
        add_all_of<kKind, false>(a, table);
}

template <KeyedKind kKind> __global__ void __launch_bounds__(kKeyedThreads, keyed_blocks(kKind))
    add_by_key(const __grid_constant__ KeyedArgs a)
{
    DirectTable<kKind> table = {a};
    add_all<kKind>(a, table);
}

template <KeyedKind kKind> __global__ void __launch_bounds__(kKeyedThreads, keyed_blocks(kKind))
    add_in_shared(const __grid_constant__ KeyedArgs a)
{
    constexpr int kWords = keyed_words(kKind);
    RK_DYNAMIC_SHARED(u32, room);
    const u32 groups = (u32)a.groups, words = groups * a.copies,
              all_words = keyed_shared_words(kKind, a.counts != NULL) * words;
    for (u32 i = threadIdx.x; i < all_words; i += kKeyedThreads)
        room[i] = 0;
    __syncthreads();
    SharedTable<kKind> table = {a, room + threadIdx.x % a.copies, words};
    add_all<kKind>(a, table);
    __syncthreads();
    DirectTable<kKind> all = {a};
    for (u32 key = threadIdx.x; key < groups; key += kKeyedThreads) {
        i64 sums[kMostKeyedWords] = {};
        u32 n = 0;
        u64 any = 0;
        for (u32 c = 0; c < a.copies; c++) { // each lane begins at another copy, which is in another bank
            const u32 *from = room + key * a.copies + (c + threadIdx.x) % a.copies;
            for (int k = 0; k < kWords; k++)
                sums[k] += (i64)((u64)from[(2 * k + 1) * words] << 32 | from[2 * k * words]);
            n += a.counts ? from[2 * kWords * words] : 0;
        }
        for (int k = 0; k < kWords; k++)
            any |= (u64)sums[k];
        if (n | any)
            all.add(key, sums, n);
    }
}

} // namespace

template <KeyedKind kKind> KeyedKernels keyed_part()
{
    KeyedKernels k = {add_by_key<kKind>, NULL};
    if constexpr (kKind != kKeyedBest)
        k.shared = add_in_shared<kKind>;
    return k;
}

#define PARTS(X) \
    X(kKeyedFloat) X(kKeyedDouble) X(kKeyedInt) X(kKeyedLong) X(kKeyedBest) X(kKeyedCount) X(kKeyedSquares) X(kKeyedWideSquares)
#define PART(of) template KeyedKernels keyed_part<of>();
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
