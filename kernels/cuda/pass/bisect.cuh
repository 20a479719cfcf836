// Selection among keys that lie in the registers of a warp or a block: bisection of the keys' range, for which only a count of
// the keys up to its middle is needed. A few keys that are left are ranked directly.
#pragma once

#include "kernels/cuda/pass/common.cuh"

namespace rk {

// What a team of threads does together. kFew: keys that are ranked directly.
constexpr u32 kFew = kWarp;

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

template <class Key> struct WarpTeam {
    struct Room {
        Key few[kFew];
    };
    Room &room;

    __device__ __forceinline__ u32 threads() const { return kWarp; }
    __device__ __forceinline__ u32 lane() const { return threadIdx.x % kWarp; }
    __device__ __forceinline__ u32 sum(u32 v) { return warp_add(v); }
    __device__ __forceinline__ Key most(Key v) { return most_of_warp(v); }
    // Those of `keys` in [low, low + width], which are `n`, to room.few
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
    __device__ __forceinline__ void meet() { __syncwarp(); }
};

template <class Key> struct BlockTeam {
    struct Room {
        Key few[kFew];
        Key mosts[kWarp];
        u32 sums[2][kWarp];
        u32 n;
    };
    Room &room;
    u32 turn = 0;

    __device__ __forceinline__ u32 threads() const { return blockDim.x; }
    __device__ __forceinline__ u32 lane() const { return threadIdx.x % kWarp; }
    __device__ __forceinline__ u32 sum(u32 v)
    {
        v = warp_add(v);
        turn ^= 1;
        if (lane() == 0)
            room.sums[turn][threadIdx.x / kWarp] = v;
        __syncthreads();
        return warp_add(lane() < blockDim.x / kWarp ? room.sums[turn][lane()] : 0);
    }
    __device__ __forceinline__ Key most(Key v)
    {
        v = most_of_warp(v);
        __syncthreads();
        if (lane() == 0)
            room.mosts[threadIdx.x / kWarp] = v;
        __syncthreads();
        return most_of_warp(lane() < blockDim.x / kWarp ? room.mosts[lane()] : (Key)0);
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
    __device__ __forceinline__ void meet() { __syncthreads(); }
};

// The key with `rank` smaller ones or earlier equal ones among the first n of room.few. Whole team.
template <class Team, class Key> __device__ __forceinline__ Key of_few(Team &team, u32 n, u32 rank)
{
    const u32 lane = team.lane();
    const Key own = lane < n ? team.room.few[lane] : (Key)0;
    u32 before = 0;
    for (u32 i = 0; i < n; i++) {
        const Key o = team.room.few[i];
        before += o < own || (o == own && i < lane);
    }
    const u32 who = __ballot_sync(kFullMask, lane < n && before == rank);
    return __shfl_sync(kFullMask, own, __ffs(who) - 1);
}

// The keys at rank `first` and at `second`, which is the same or the next one, of all keys of the team. Whole team.
template <class Team, class Key, int kKeys>
__device__ __forceinline__ void select_pair(Team &team, const Key (&keys)[kKeys], u32 first, u32 second, Key *a, Key *b)
{
    Key low = 0, high = (Key) ~(Key)0;
    u32 below = 0, upto = team.threads() * kKeys; // keys < low, keys <= high
    while (upto - below > kFew && low < high) {
        const Key middle = low + (high - low) / 2;
        u32 n = 0;
#pragma unroll
        for (int k = 0; k < kKeys; k++)
            n += keys[k] <= middle;
        n = team.sum(n);
        if (n > second) {
            high = middle;
            upto = n;
        } else if (n <= first) {
            low = middle + 1;
            below = n;
        } else { // between the two
            Key most = 0, inverse = 0;
#pragma unroll
            for (int k = 0; k < kKeys; k++) {
                const bool up = keys[k] > middle;
                most = !up && keys[k] > most ? keys[k] : most;
                inverse = up && (Key)~keys[k] > inverse ? (Key)~keys[k] : inverse;
            }
            *a = team.most(most);
            *b = ~team.most(inverse);
            return;
        }
    }
    if (low == high) {
        *a = *b = low;
        return;
    }
    team.gather(keys, low, (Key)(high - low));
    *a = of_few<Team, Key>(team, upto - below, first - below);
    *b = second == first ? *a : of_few<Team, Key>(team, upto - below, second - below);
    team.meet();
}

} // namespace rk
