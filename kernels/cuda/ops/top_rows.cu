// The best items of short lines: one stays in the registers of a warp, or of a block (top_args.h). Here a key counts from the
// best element on; NaNs that take part come before all others.
#include "kernels/cuda/pass/select_digits.cuh"
#include "kernels/cuda/pass/select_keys.cuh"
#include "kernels/cuda/pass/top_args.h"

namespace rk {
namespace {

template <class K> struct FromBest {
    using Key = typename K::Key;
    K rule;
    Key first; // of elements behind NaNs

    __device__ __forceinline__ explicit FromBest(const TopArgs &a) : rule(a.key), first(a.nans) {}
    // Does it take part?
    __device__ __forceinline__ bool of(typename K::Bits bits, Key *key) const
    {
        const Key own = rule.of(bits);
        const bool nan = rule.nan(own);
        *key = nan ? (Key)0 : own + first;
        return !nan || first;
    }
    __device__ __forceinline__ u64 score(Key key) const { return (u64)rule.range + (u64)first - (u64)key; }
};

// Line `number` of a team, whose thread `thread` has every threads-th element. `kept`: a word of shared memory.
template <int kBytes, int kKeys, class Team>
__device__ __forceinline__ void best_of_line(const TopArgs &a, u64 number, u32 thread, Team &team, u32 *kept)
{
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    const FromBest<K> rule(a);
    const LineView<kBytes> line(a, number);
    const u32 threads = team.threads(), n = (u32)a.n;
    Key keys[kKeys], last = (Key) ~(Key)0, same;
    const u32 here = load_elements(line, thread, threads, keys);
    u32 in = 0, ties = 0; // a bit for each key
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        Key key;
        const bool takes = rule.of((typename K::Bits)keys[k], &key) && here >> k & 1;
        keys[k] = takes ? key : (Key) ~(Key)0;
        in |= (u32)takes << k;
    }
    if (thread == 0)
        *kept = 0;
    const u32 counted = team.sum(__popc(in)), k_best = counted < a.k ? counted : (u32)a.k;
    if (k_best < counted) {
        select_pair(team, keys, (Key) ~(Key)0, k_best - 1, k_best - 1, &last, &same);
        u32 better = 0;
#pragma unroll
        for (int k = 0; k < kKeys; k++) {
            better |= (u32)(keys[k] < last) << k;
            ties |= (u32)(keys[k] == last) << k;
        }
        better &= in;
        ties &= in;
        const u32 need = k_best - team.sum(__popc(better));
        if (need < team.sum(__popc(ties))) { // those with the lowest places
#pragma unroll
            for (int k = 0; k < kKeys; k++)
                keys[k] = ties >> k & 1 ? (Key)(k * threads + thread) : (Key) ~(Key)0;
            Key place;
            select_pair(team, keys, (Key)n, need - 1, need - 1, &place, &same);
#pragma unroll
            for (int k = 0; k < kKeys; k++)
                ties &= ~((u32)(keys[k] > place) << k);
        }
        in = better | ties;
    }
    team.meet();
    u32 to = in ? atomicAdd(kept, (u32)__popc(in)) : 0;
    TopItem *items = a.items + number * a.room;
    for (; in; in &= in - 1) {
        const u32 at = (u32)(__ffs((int)in) - 1) * threads + thread;
        Key key = 0;
        rule.of(line.at(at), &key);
        items[to++] = {rule.score(key), at};
    }
    if (thread == 0)
        a.states[number].kept = k_best;
    team.meet();
}

template <int kBytes, int kKeys> __global__ void __launch_bounds__(kRowsThreads)
    best_by_warps(const __grid_constant__ TopArgs a)
{
    using Key = typename Keys<kBytes>::Key;
    __shared__ typename WarpTeam<Key>::Room rooms[kRowsThreads / kWarp];
    __shared__ u32 kept[kRowsThreads / kWarp];
    const u32 warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp;
    WarpTeam<Key> team = {rooms[warp]};
    for (u64 line = (u64)blockIdx.x * warps + warp; line < a.lines; line += (u64)gridDim.x * warps)
        best_of_line<kBytes, kKeys>(a, line, threadIdx.x % kWarp, team, &kept[warp]);
}

template <int kBytes> __global__ void __launch_bounds__(kSampleThreads) best_by_blocks(const __grid_constant__ TopArgs a)
{
    using Key = typename Keys<kBytes>::Key;
    __shared__ typename BlockTeam<Key>::Room room;
    __shared__ u32 kept;
    BlockTeam<Key> team = {room};
    for (u64 line = blockIdx.x; line < a.lines; line += gridDim.x)
        best_of_line<kBytes, kKeysOfThread<kBytes>>(a, line, threadIdx.x, team, &kept);
}

} // namespace

template <int kBytes> void top_rows_part(TopKernels *k)
{
    k->warp_rows[0] = best_by_warps<kBytes, 4>;
    k->warp_rows[1] = best_by_warps<kBytes, 8>;
    k->warp_rows[2] = best_by_warps<kBytes, 16>;
    k->warp_rows[3] = best_by_warps<kBytes, 32>;
    k->block_rows = best_by_blocks<kBytes>;
}

#define PARTS(X) X(1) X(2) X(4) X(8)
#define PART(of) template void top_rows_part<of>(TopKernels * k);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
