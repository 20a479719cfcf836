// Selection among keys that lie in the registers of a warp or a block, digit by digit: each by a histogram in shared memory of
// the keys that have the digits before. A few keys that are left are ranked directly.
#pragma once

#include "kernels/cuda/pass/common.cuh"

namespace rk {

constexpr u32 kFew = kWarp; // keys that are ranked directly

// The bin in which a rank lies: the keys in those before it, and in itself.
struct Bin {
    u32 bin, before, n;
};

template <class Key> __device__ __forceinline__ Key most_of_warp(Key v)
{
    if constexpr (sizeof(Key) == 4) {
        return warp_max(v);
    } else {
#pragma unroll
        for (int d = kWarp / 2; d; d >>= 1) {
            const Key o = __shfl_xor_sync(kFullMask, v, d);
            v = o > v ? o : v;
        }
        return v;
    }
}

// The sum of this lane's and those before
template <class T> __device__ __forceinline__ T warp_upto(T v)
{
    const u32 lane = threadIdx.x % kWarp;
#pragma unroll
    for (u32 d = 1; d < kWarp; d *= 2) {
        const T o = __shfl_sync(kFullMask, v, lane - d);
        v += lane >= d ? o : 0;
    }
    return v;
}

// What a team of threads does together.
template <class Key> struct WarpTeam {
    static constexpr u32 kBinsOfLane = 8;
    struct Room {
        alignas(16) u32 bins[kBinsOfLane * kWarp];
        Key few[kFew];
    };
    Room &room;

    __device__ __forceinline__ u32 threads() const { return kWarp; }
    __device__ __forceinline__ u32 lane() const { return threadIdx.x % kWarp; }
    __device__ __forceinline__ u32 digit_bits() const { return 8; }
    __device__ __forceinline__ u32 sum(u32 v) { return warp_add(v); }
    __device__ __forceinline__ Key most(Key v) { return most_of_warp(v); }
    __device__ __forceinline__ void meet() { __syncwarp(); }
    __device__ __forceinline__ void clear()
    {
        __syncwarp();
        ((uint4 *)room.bins)[lane()] = ((uint4 *)room.bins)[kWarp + lane()] = make_uint4(0, 0, 0, 0);
        __syncwarp();
    }
    __device__ __forceinline__ Bin find(u32 rank)
    {
        const uint4 x = ((const uint4 *)room.bins)[2 * lane()], y = ((const uint4 *)room.bins)[2 * lane() + 1];
        const u32 bins[kBinsOfLane] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
        u32 own = 0;
#pragma unroll
        for (u32 i = 0; i < kBinsOfLane; i++)
            own += bins[i];
        const u32 upto = warp_upto(own);
        Bin at = {lane() * kBinsOfLane, upto - own, 0};
        bool found = false;
#pragma unroll
        for (u32 i = 0; i < kBinsOfLane; i++) {
            const bool here = !found && at.before + bins[i] > rank;
            at.n = here ? bins[i] : at.n;
            found |= here;
            at.bin += !found;
            at.before += found ? 0 : bins[i];
        }
        const u32 who = (u32)__ffs(__ballot_sync(kFullMask, upto > rank)) - 1;
        return {__shfl_sync(kFullMask, at.bin, who), __shfl_sync(kFullMask, at.before, who), __shfl_sync(kFullMask, at.n, who)};
    }
    // Those of `keys` in [low, low + width], at most kFew, to room.few
    template <int kKeys> __device__ __forceinline__ void gather(const Key (&keys)[kKeys], Key low, Key width)
    {
        u32 n = 0;
#pragma unroll
        for (int k = 0; k < kKeys; k++) {
            const bool in = (Key)(keys[k] - low) <= width;
            const u32 all = __ballot_sync(kFullMask, in);
            if (in)
                room.few[n + __popc(all & ((1u << lane()) - 1))] = keys[k];
            n += __popc(all);
        }
        __syncwarp();
    }
};

template <class Key> struct BlockTeam {
    static constexpr u32 kMostBits = 11;
    struct Room {
        u32 bins[1 << kMostBits];
        Key few[kFew];
        Key mosts[kWarp];
        u32 sums[2][kWarp];
        u32 n;
        Bin found;
    };
    Room &room;
    u32 turn = 0;

    __device__ __forceinline__ u32 threads() const { return blockDim.x; }
    __device__ __forceinline__ u32 lane() const { return threadIdx.x % kWarp; }
    __device__ __forceinline__ u32 digit_bits() const { return 32 - (u32)__clz((int)blockDim.x); } // two bins a thread at most
    __device__ __forceinline__ void meet() { __syncthreads(); }
    // Each warp's v, at most a warp of them: a lane's
    __device__ __forceinline__ u32 of_warps(u32 v)
    {
        turn ^= 1;
        if (lane() == kWarp - 1)
            room.sums[turn][threadIdx.x / kWarp] = v;
        __syncthreads();
        return lane() < blockDim.x / kWarp ? room.sums[turn][lane()] : 0;
    }
    __device__ __forceinline__ u32 sum(u32 v) { return warp_add(of_warps(warp_add(v))); }
    __device__ __forceinline__ Key most(Key v)
    {
        v = most_of_warp(v);
        __syncthreads();
        if (lane() == 0)
            room.mosts[threadIdx.x / kWarp] = v;
        __syncthreads();
        return most_of_warp(lane() < blockDim.x / kWarp ? room.mosts[lane()] : (Key)0);
    }
    __device__ __forceinline__ void clear()
    {
        __syncthreads();
        for (u32 i = threadIdx.x; i < 1u << digit_bits(); i += blockDim.x)
            room.bins[i] = 0;
        __syncthreads();
    }
    __device__ __forceinline__ Bin find(u32 rank)
    {
        const u32 bin = 2 * threadIdx.x;
        const bool any = bin < 1u << digit_bits();
        const u32 first = any ? room.bins[bin] : 0, own = first + (any ? room.bins[bin + 1] : 0);
        const u32 of_warp = warp_upto(own), others = of_warps(of_warp);
        const u32 before = warp_add(lane() < threadIdx.x / kWarp ? others : 0) + of_warp - own;
        if (before <= rank && rank < before + own) {
            const bool here = rank < before + first;
            room.found = {bin + !here, here ? before : before + first, here ? first : own - first};
        }
        __syncthreads();
        return room.found;
    }
    template <int kKeys> __device__ __forceinline__ void gather(const Key (&keys)[kKeys], Key low, Key width)
    {
        __syncthreads();
        if (threadIdx.x == 0)
            room.n = 0;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kKeys; k++)
            if ((Key)(keys[k] - low) <= width)
                room.few[atomicAdd(&room.n, 1u)] = keys[k];
        __syncthreads();
    }
};

// The keys with `first` and `second` smaller ones or earlier equal ones among the first n of room.few. Whole team.
template <class Team, class Key>
__device__ __forceinline__ void of_few(Team &team, u32 n, u32 first, u32 second, Key *a, Key *b)
{
    const u32 lane = team.lane();
    const Key own = lane < n ? team.room.few[lane] : (Key)0;
    u32 before = 0;
    for (u32 i = 0; i < n; i++) {
        const Key o = team.room.few[i];
        before += o < own || (o == own && i < lane);
    }
    const u32 at = __ballot_sync(kFullMask, lane < n && before == first);
    const u32 next = __ballot_sync(kFullMask, lane < n && before == second);
    *a = __shfl_sync(kFullMask, own, __ffs(at) - 1);
    if (next)
        *b = __shfl_sync(kFullMask, own, __ffs(next) - 1);
}

// Keys low .. low + width: `before` below them, and n, or unknown many.
template <class Key> struct Stretch {
    Key low, width;
    u32 before, n;
};

// keys[i] of a power of two, which stay in registers: by any plain choice the compiler would move them to memory
template <class Key, int kKeys> __device__ __forceinline__ Key key_by_halves(const Key *keys, u32 i)
{
    if constexpr (kKeys == 1) {
        return keys[0];
    } else {
        const Key low = key_by_halves<Key, kKeys / 2>(keys, i), high = key_by_halves<Key, kKeys / 2>(keys + kKeys / 2, i);
        return i & kKeys / 2 ? high : low;
    }
}

// Where to look for a rank at first: anywhere, by a block.
template <class Key, int kKeys>
__device__ __forceinline__ Stretch<Key> narrow(BlockTeam<Key> &, const Key (&)[kKeys], Key top, u32)
{
    return {0, top, 0, ~0u};
}

// ... by a warp: between two of a sample of a key of each lane, or beside these. Digits alone would put most floats into few
// bins, for which lanes wait.
template <class Key, int kKeys>
__device__ __forceinline__ Stretch<Key> narrow(WarpTeam<Key> &team, const Key (&keys)[kKeys], Key top, u32 rank)
{
    constexpr u32 kReach = 6; // twice the standard deviation of a rank's place in the sample
    const u32 lane = team.lane(), at = rank / kKeys;
    team.room.few[lane] = key_by_halves<Key, kKeys>(&keys[0], lane * kKeys / kWarp);
    __syncwarp();
    Key low = 0, high = 0;
    of_few<WarpTeam<Key>, Key>(team, kWarp, at < kReach ? 0 : at - kReach, at + kReach < kWarp ? at + kReach : kWarp - 1, &low,
                               &high);
    __syncwarp(); // room.few has been read
    low = at < kReach || low > top ? 0 : low;
    high = at + kReach < kWarp && high < top ? high : top;
    const Key width = high - low;
    u32 below = 0, inside = 0;
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        below += keys[k] < low;
        inside += (Key)(keys[k] - low) <= width;
    }
    below = team.sum(below);
    inside = team.sum(inside);
    if (rank < below)
        return {0, (Key)(low - 1), 0, below};
    if (rank < below + inside || high == top)
        return {low, width, below, inside};
    return {(Key)(high + 1), (Key)(top - high - 1), below + inside, ~0u - below - inside};
}

// The keys at rank `first` and at `second`, which is the same or the next one, of all keys of the team; keys above `top` are
// above all. Whole team.
template <class Team, class Key, int kKeys> __device__ __forceinline__ void
select_pair(Team &team, const Key (&keys)[kKeys], Key top, u32 first, u32 second, Key *a, Key *b)
{
    const Stretch<Key> start = narrow(team, keys, top, first);
    Key low = start.low, width = start.width;
    u32 before = start.before, n = start.n;
    while (n > kFew && width) {
        const u32 bits = sizeof(Key) == 4 ? 32 - (u32)__clz((int)width) : 64 - (u32)__clzll((long long)width);
        const u32 shift = bits > team.digit_bits() ? bits - team.digit_bits() : 0;
        team.clear();
#pragma unroll
        for (int k = 0; k < kKeys; k++) {
            const Key off = keys[k] - low;
            if (off <= width)
                atomicAdd(&team.room.bins[(u32)(off >> shift)], 1u);
        }
        team.meet();
        const Bin at = team.find(first - before);
        const Key from = (Key)at.bin << shift, wide = ((Key)1 << shift) - 1;
        width = wide < width - from ? wide : width - from;
        low += from;
        before += at.before;
        n = at.n;
    }
    if (width) {
        team.gather(keys, low, width);
        of_few<Team, Key>(team, n, first - before, second - before, a, b);
    } else {
        *a = *b = low;
    }
    if (second >= before + n) { // in another bin
        Key inverse = 0;
#pragma unroll
        for (int k = 0; k < kKeys; k++) {
            const bool above = keys[k] > (Key)(low + width);
            inverse = above && (Key)~keys[k] > inverse ? (Key)~keys[k] : inverse;
        }
        *b = ~team.most(inverse);
    }
    team.meet();
}

} // namespace rk
