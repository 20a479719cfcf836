// Selection in short lines: one stays in the registers of a warp, or of a block.
#include "kernels/cuda/pass/select_digits.cuh"
#include "kernels/cuda/pass/select_keys.cuh"

namespace rk {
namespace {

// What a team finds in line `number`, of which thread `thread` of `threads` has every threads-th element
template <int kBytes, int kKeys, class Team>
__device__ __forceinline__ void select_line(const SelectArgs &a, u64 number, u32 thread, Team &team)
{
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    const K rule(a.key);
    const LineView<kBytes> line(a, number);
    const u32 threads = team.threads(), n = (u32)a.n;
    Key keys[kKeys];
    const u32 here = load_elements(line, thread, threads, keys);
    u32 nans = 0;
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        const Key key = rule.of((typename K::Bits)keys[k]);
        const bool in = here >> k & 1, nan = in && rule.nan(key);
        nans += nan;
        keys[k] = in && !nan ? key : (Key) ~(Key)0;
    }
    nans = team.sum(nans);
    u64 *found = a.found + number * a.found_words;
    const u32 counted = (line.mask ? team.sum((u32)__popc(here)) : n) - nans;
    if (thread == 0) {
        found[0] = counted;
        found[1] = nans;
    }
    found += kFoundHead + 2 * a.first_pair;
    for (u32 p = 0; p < a.pairs && counted; p++) {
        const RankPair ranks = counted == n ? a.rules[p].all : ranks_of(a.rules[p].rule, counted);
        Key first, second;
        select_pair(team, keys, K::kTop, (u32)ranks.first, (u32)ranks.second, &first, &second);
        if (thread == 0) {
            found[2 * p] = first + rule.least;
            found[2 * p + 1] = second + rule.least;
        }
    }
}

// Warps go on to further lines by themselves.
template <int kBytes, int kKeys> __global__ void __launch_bounds__(kRowsThreads)
    select_by_warps(const __grid_constant__ SelectArgs a)
{
    using Key = typename Keys<kBytes>::Key;
    __shared__ typename WarpTeam<Key>::Room rooms[kRowsThreads / kWarp];
    const u32 warps = blockDim.x / kWarp;
    WarpTeam<Key> team = {rooms[threadIdx.x / kWarp]};
    for (u64 line = (u64)blockIdx.x * warps + threadIdx.x / kWarp; line < a.lines; line += (u64)gridDim.x * warps)
        select_line<kBytes, kKeys>(a, line, threadIdx.x % kWarp, team);
}

template <int kBytes> __global__ void __launch_bounds__(kSampleThreads) select_by_blocks(const __grid_constant__ SelectArgs a)
{
    using Key = typename Keys<kBytes>::Key;
    __shared__ typename BlockTeam<Key>::Room room;
    BlockTeam<Key> team = {room};
    for (u64 line = blockIdx.x; line < a.lines; line += gridDim.x)
        select_line<kBytes, kKeysOfThread<kBytes>>(a, line, threadIdx.x, team);
}

} // namespace

template <int kBytes> void select_rows_part(SelectKernels *k)
{
    k->warp_rows[0] = select_by_warps<kBytes, 4>;
    k->warp_rows[1] = select_by_warps<kBytes, 8>;
    k->warp_rows[2] = select_by_warps<kBytes, 16>;
    k->warp_rows[3] = select_by_warps<kBytes, 32>;
    k->block_rows = select_by_blocks<kBytes>;
}

#define PARTS(X) X(1) X(2) X(4) X(8)
#define PART(of) template void select_rows_part<of>(SelectKernels * k);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
