// Reductions by key (keyed_args.h): one pass over elements and keys adds to tables of all groups, by atomic additions of
// integers, so that neither order nor device matters. Few groups have copies in the shared memory of each block. A warp whose
// elements all have one key adds them first: else one huge group, and sorted keys, would wait for one place in memory.
#include "kernels/cuda/pass/keyed.cuh"

namespace rk {
namespace {

// ---- tables ----

template <KeyedKind kKind> struct DirectTable {
    const KeyedArgs &a;

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
    u32 *copy; // of this warp: all low words, all high words, for each word of a window; counts

    __device__ __forceinline__ void add(u64 key, const i64 *words, u32 n)
    {
#pragma unroll
        for (int k = 0; k < kWords; k++) {
            u32 *low = copy + 2 * k * a.stride + key;
            const u32 part = (u32)words[k], before = atomicAdd(low, part);
            const u32 high = (u32)((u64)words[k] >> 32) + (before + part < part);
            if (high)
                atomicAdd(low + a.stride, high);
        }
        count(key, n);
    }
    __device__ __forceinline__ void count(u64 key, u32 n)
    {
        if (a.counts)
            atomicAdd(copy + 2 * kWords * a.stride + key, n);
    }
};

// ---- elements ----

// What is neither in a window nor an ordinary zero. Out of line, because it is rare.
static __device__ __noinline__ void add_rare(const KeyedArgs &a, u64 key, u64 bits)
{
    const rk_format f = rk_format_of(a.dtype);
    const u64 magnitude = bits & ~rk_sign_bit(f, 1);
    if (magnitude >= rk_inf_bits(f)) {
        raise_flag(a, key, magnitude > rk_inf_bits(f) ? RK_NAN : magnitude != bits ? RK_NINF : RK_PINF);
        return;
    }
    if (magnitude == 0) {
        raise_flag(a, key, kFlagMinusZero);
        a.head->minus_zeros = 1;
        return;
    }
    const rk_number x = rk_number_of(f, bits);
    const u32 up = (u32)(x.unit - rk_e0(a.dtype)), shift = up % 32;
    const u64 low = x.mantissa << shift, high = shift ? x.mantissa >> (64 - shift) : 0;
    u64 *digit = a.digits + key * (u64)(2 * (a.dtype == RP_F64 ? RK_LIMBS64 : RK_LIMBS32)) + up / 32;
    const u64 parts[3] = {(u32)low, low >> 32, high};
    for (int k = 0; k < 3; k++)
        if (parts[k])
            atomicAdd(digit + k, x.negative ? 0 - parts[k] : parts[k]);
    raise_flag(a, key, kFlagDigits);
}

// Does it take part, and how?
enum Place { kNowhere, kInWindow, kElsewhere };

template <KeyedKind kKind>
__device__ __forceinline__ Place place_of(const KeyedArgs &a, u32 base, u64 key, u64 *bits, i64 *words)
{
    if constexpr (kKind == kKeyedInt) {
        const u64 v = *bits;
        words[0] = a.dtype == RP_BOOL ? v != 0 : rk_is_signed(a.dtype) ? (i64)rk_sign_extend(v, rk_bytes(a.dtype)) : (i64)v;
        return kInWindow;
    } else if constexpr (kKind == kKeyedLong) {
        words[0] = (i64)(u32)*bits;
        words[1] = a.dtype == RP_I64 ? (i64)*bits >> 32 : (i64)(*bits >> 32);
        return kInWindow;
    } else {
        if (a.nan != RP_NAN_PROPAGATE && rk_is_nan(a.dtype, *bits)) {
            raise_flag(a, key, kFlagSkipped);
            return kNowhere;
        }
        if constexpr (kKind == kKeyedFloat || kKind == kKeyedDouble) {
            const rk_format f = rk_format_of(kKind == kKeyedDouble ? (int)RP_F64 : (int)a.dtype);
            const u64 magnitude = *bits & ~rk_sign_bit(f, 1);
            const rk_number x = rk_number_of(f, *bits);
            const u32 up = (u32)(x.unit - rk_e0(a.dtype)) - base;
            const i64 sign = -(i64)x.negative;
            words[0] = 0;
            if constexpr (kKind == kKeyedDouble)
                words[1] = 0;
            if (*bits == 0)
                return kInWindow;
            if (magnitude == 0 || magnitude >= rk_inf_bits(f) || up > a.reach)
                return kElsewhere;
            if constexpr (kKind == kKeyedFloat) {
                words[0] = ((i64)(x.mantissa << up) ^ sign) - sign;
            } else {
                const i64 low = (i64)(x.mantissa << up & ((1ull << a.split) - 1)),
                          high = (i64)(up < a.split ? x.mantissa >> (a.split - up) : x.mantissa << (up - a.split));
                words[0] = (low ^ sign) - sign;
                words[1] = (high ^ sign) - sign;
            }
        }
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
    i64 words[2];
    const Place place = key < a.groups ? place_of<kKind>(a, base, key, &bits, words) : kNowhere;
    if constexpr (kKind == kKeyedBest) {
        if (place == kInWindow)
            best_of<kKind>(a, key, bits);
        return;
    } else {
        const u64 first = __shfl_sync(kFullMask, key, 0);
        if (__all_sync(kFullMask, place == kInWindow && key == first)) {
#pragma unroll
            for (int k = 0; k < keyed_words(kKind); k++)
                words[k] = warp_sum(words[k]);
            if (threadIdx.x % kWarp == 0)
                table.add(key, words, kWarp);
        } else if (place == kInWindow) {
            table.add(key, words, 1);
        } else if (place == kElsewhere) {
            add_rare(a, key, bits);
            table.count(key, 1);
        }
    }
}

template <KeyedKind kKind, class Table> __device__ __forceinline__ void add_all(const KeyedArgs &a, Table &table)
{
    const u32 key_bytes = (u32)rk_bytes(a.key_dtype), bytes = (u32)rk_bytes(a.dtype), base = a.head->base;
    const bool reads = kKind != kKeyedCount || rk_is_float(a.dtype);
    constexpr u64 kStep = (u64)kKeyedThreads * kKeyedAtOnce;
    for (u64 from = blockIdx.x * kStep; from < a.n; from += gridDim.x * kStep) {
        u64 key[kKeyedAtOnce], bits[kKeyedAtOnce];
#pragma unroll
        for (int k = 0; k < kKeyedAtOnce; k++) {
            const u64 i = from + (u32)k * kKeyedThreads + threadIdx.x;
            key[k] = i < a.n ? group_of(a, key_bytes, i) : a.groups;
            bits[k] = i < a.n && reads ? bits_at(a.data, bytes, i) : 0;
        }
#pragma unroll
        for (int k = 0; k < kKeyedAtOnce; k++)
            add_each<kKind>(a, base, table, key[k], bits[k]);
    }
}

template <KeyedKind kKind> __global__ void __launch_bounds__(kKeyedThreads) add_by_key(const __grid_constant__ KeyedArgs a)
{
    DirectTable<kKind> table = {a};
    add_all<kKind>(a, table);
}

template <KeyedKind kKind> __global__ void __launch_bounds__(kKeyedThreads) add_in_shared(const __grid_constant__ KeyedArgs a)
{
    constexpr int kWords = keyed_words(kKind);
    RK_DYNAMIC_SHARED(u32, room);
    const u32 each = keyed_shared_words(kKind, a.counts != NULL) * a.stride;
    for (u32 i = threadIdx.x; i < each * a.copies; i += kKeyedThreads)
        room[i] = 0;
    __syncthreads();
    SharedTable<kKind> table = {a, room + threadIdx.x / kWarp % a.copies * each};
    add_all<kKind>(a, table);
    __syncthreads();
    DirectTable<kKind> all = {a};
    for (u32 key = threadIdx.x; key < a.groups; key += kKeyedThreads) {
        i64 words[2] = {0, 0};
        u32 n = 0;
        for (u32 c = 0; c < a.copies; c++) {
            const u32 *from = room + c * each + key;
            for (int k = 0; k < kWords; k++)
                words[k] += (i64)((u64)from[(2 * k + 1) * a.stride] << 32 | from[2 * k * a.stride]);
            n += a.counts ? from[2 * kWords * a.stride] : 0;
        }
        if (n | (u64)words[0] | (u64)words[1])
            all.add(key, words, n);
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

#define PARTS(X) X(kKeyedFloat) X(kKeyedDouble) X(kKeyedInt) X(kKeyedLong) X(kKeyedBest) X(kKeyedCount)
#define PART(of) template KeyedKernels keyed_part<of>();
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
