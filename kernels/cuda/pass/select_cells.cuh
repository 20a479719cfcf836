// Several brackets of floats (select_args.h), by a table in shared memory instead of comparisons.
//
// An element's cell is a monotone function of its value. So a cell below that of a bracket's lower end has elements below the
// bracket alone: the table has a one in the bracket's field. Elements of a cell from a bracket's lower to its upper end are
// looked at again by their keys. Fields of one batch are added up at once.
#pragma once

#include "kernels/cuda/pass/select_keys.cuh"

namespace rk {

constexpr u32 kCells = 1 << 11;
constexpr u32 kFieldBits = 6;        // more than a batch has elements
constexpr u32 kLookAgain = 1u << 31; // entry of a cell that has a part of a bracket
static_assert(kFieldBits * kMostPairs < 32 && kBatch<4> < 1 << kFieldBits, "fields of a word, of a batch");

// From an element's value to a number of which those in [0, 1] are cut into cells: a NaN only of a NaN
template <int kBytes> struct CellMap;
template <> struct CellMap<4> {
    static constexpr int kLeast = -120, kMost = 129; // exponents of widths
    float scale, shift;
    static __device__ __forceinline__ float value(u32 bits) { return __uint_as_float(bits); }
    __device__ __forceinline__ float at(float x) const { return __fmaf_rn(x, scale, shift); }
};
template <> struct CellMap<8> {
    static constexpr int kLeast = -1000, kMost = 1020;
    double scale, shift;
    static __device__ __forceinline__ double value(u64 bits) { return __longlong_as_double((i64)bits); }
    __device__ __forceinline__ float at(double x) const { return __double2float_rn(__fma_rn(x, scale, shift)); }
};

// Of NaN 0. The product is a denormal number, whose bits are the cell; the sum makes +0 of -0.
__device__ __forceinline__ u32 cell_at(float at)
{
    return __float_as_uint(__fmaf_rn(__saturatef(at), __uint_as_float(kCells - 1), 0.0f));
}

__device__ __forceinline__ double power_of_two(int e) { return __hiloint2double((e + 1023) << 20, 0); }

// A block's brackets in shared memory
template <int kBytes> struct CellRoom {
    typename Keys<kBytes>::Key low[kMostPairs], width[kMostPairs];
    u32 shift[kMostPairs]; // from a key's distance to its bin
    u32 cells[kRanks];     // of the brackets' ends
    CellMap<kBytes> map;
    bool apart; // a table tells brackets from each other
    u32 again;  // elements of a sample that are looked at again
};

// The element that has a key (KeyRule)
template <int kBytes> __device__ __forceinline__ typename Keys<kBytes>::Key bits_of(const Keys<kBytes> &rule, u64 key)
{
    using Key = typename Keys<kBytes>::Key;
    const Key bits = ((Key)key + rule.least) ^ rule.flip;
    return bits ^ (bits >> (8 * kBytes - 1) ? rule.turn : 0);
}

// Of an interval that is so wide: from a key's distance to its bin
__device__ __forceinline__ u32 shift_of(u64 width)
{
    const int bits = width ? 64 - __clzll((long long)width) : 0;
    return bits > (int)kBinsLog2 ? (u32)bits - kBinsLog2 : 0;
}

// Not if two brackets share a key, or elements are not floats from the least one on. The map has all brackets in [0, 1], and
// a cell or more below them. A warp, whose lanes have an end each, and meet others behind it.
template <int kBytes> __device__ inline void map_brackets(const SelectArgs &a, const u64 *bounds, CellRoom<kBytes> *room)
{
    const u32 t = threadIdx.x;
    const u64 bound = bounds[t < 2 * a.pairs ? t : 0], low = __shfl_sync(kFullMask, bound, t & ~1u),
              high = __shfl_sync(kFullMask, bound, t | 1);
    bool apart = true;
    for (u32 p = 0; p < a.pairs; p++) {
        const u64 from = __shfl_sync(kFullMask, bound, 2 * p), to = __shfl_sync(kFullMask, bound, 2 * p + 1);
        apart &= t / 2 == p || t >= 2 * a.pairs || low > to || from > high;
    }
    const auto value = CellMap<kBytes>::value(bits_of<kBytes>(Keys<kBytes>(a.key), bound));
    const double x = (double)value;
    const bool finite = x - x == 0;
    double least = finite ? x : INFINITY, most = finite ? x : -INFINITY;
#pragma unroll
    for (u32 d = kWarp / 2; d; d /= 2) {
        const double l = __shfl_xor_sync(kFullMask, least, d), m = __shfl_xor_sync(kFullMask, most, d);
        least = l < least ? l : least;
        most = m > most ? m : most;
    }
    CellMap<kBytes> map;
    constexpr double kBelow = 2.0 / kCells, kAbove = 1 - 4.0 / kCells;
    const double half = 0.5 * most - 0.5 * least;
    int e = (__double2hiint(half) >> 20) - 1021; // half the width's exponent, and 2
    e = e < map.kLeast ? map.kLeast : e > map.kMost ? map.kMost : e;
    e += half * power_of_two(1 - e) > kAbove - kBelow;
    using Value = decltype(map.scale);
    const Value from = (Value)(least - kBelow * power_of_two(e)); // a power of two times this is exact
    map.scale = (Value)power_of_two(-e);
    map.shift = -from * map.scale;
    apart &= a.key.turn != 0 && a.key.flip == a.key.turn + 1 && least < most && map.shift - map.shift == 0;
    apart = __all_sync(kFullMask, apart);
    if (t < 2 * a.pairs)
        room->cells[t] = cell_at(map.at(value));
    if (t < 2 * a.pairs && t % 2 == 0) {
        room->low[t / 2] = (typename Keys<kBytes>::Key)low;
        room->width[t / 2] = (typename Keys<kBytes>::Key)(high - low);
        room->shift[t / 2] = shift_of(high - low);
    }
    if (t == 0) {
        room->map = map;
        room->apart = apart;
        room->again = 0;
    }
}

// Whole block, which meets behind it
template <int kBytes> __device__ __forceinline__ void make_table(const SelectArgs &a, const CellRoom<kBytes> &room, u32 *table)
{
    u32 first[kMostPairs], last[kMostPairs];
#pragma unroll
    for (u32 p = 0; p < kMostPairs; p++) { // those that are not asked for have no cells
        first[p] = p < a.pairs ? room.cells[2 * p] : 0;
        last[p] = p < a.pairs ? room.cells[2 * p + 1] + 1 : 0;
    }
    for (u32 c = threadIdx.x; c < kCells; c += blockDim.x) {
        u32 entry = 0;
        bool again = false;
#pragma unroll
        for (u32 p = 0; p < kMostPairs; p++) {
            entry |= (c < first[p] ? 1u : 0u) << kFieldBits * p;
            again |= c >= first[p] && c < last[p];
        }
        table[c] = again ? kLookAgain : entry;
    }
}

} // namespace rk
