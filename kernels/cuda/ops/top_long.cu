// The best items of a line that registers do not hold (top_args.h). blockIdx.y is the line.
#include "kernels/cuda/pass/select_digits.cuh"
#include "kernels/cuda/pass/select_keys.cuh"
#include "kernels/cuda/pass/top_args.h"

namespace rk {
namespace {

template <class K> __device__ __forceinline__ u64 score_of(const K &rule, typename K::Key key)
{
    return rule.nan(key) ? (u64)rule.range + 1 : (u64)key;
}

__device__ __forceinline__ TopItem better_of_warp(TopItem x)
{
#pragma unroll
    for (int d = kWarp / 2; d; d >>= 1) {
        const TopItem o = {__shfl_xor_sync(kFullMask, x.score, d), __shfl_xor_sync(kFullMask, x.place, d)};
        x = is_better(o, x) ? o : x;
    }
    return x;
}

// The item of this rank among all of the block, from the best one on. Whole block.
template <int kKeys>
__device__ __forceinline__ TopItem item_at(const u64 (&scores)[kKeys], const u64 (&places)[kKeys], u32 rank)
{
    __shared__ typename BlockTeam<u64>::Room room;
    BlockTeam<u64> team = {room};
    u64 keys[kKeys], same;
    TopItem x;
    const u32 all = kKeys * blockDim.x;
    select_pair(team, scores, ~0ull, all - 1 - rank, all - 1 - rank, &x.score, &same);
    u32 better = 0;
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        better += scores[k] > x.score;
        keys[k] = scores[k] == x.score ? places[k] : ~0ull;
    }
    better = team.sum(better);
    select_pair(team, keys, ~0ull, rank - better, rank - better, &x.place, &same);
    return x;
}

// Elements that a thread waits for together
constexpr u32 kSampledAtOnce = 8;

// A group's elements are spread over the line. Groups of kTopNear warps have neighbours of each other, which are loaded
// together: each warp takes a part of the places, and the best there of each group.
template <int kBytes> __global__ void __launch_bounds__(kSampleThreads) sample_line(const __grid_constant__ TopArgs a)
{
    constexpr u32 kWarps = kSampleThreads / kWarp, kPlaces = kSampledAtOnce / kTopNear;
    constexpr int kItems = kTopGroups / kSampleThreads;
    __shared__ TopItem parts[kWarps][kTopNear];
    let_next_pass_start();
    const Keys<kBytes> rule(a.key);
    const LineView<kBytes> line(a, blockIdx.y);
    TopItem *sample = a.sample + blockIdx.y * (u64)kTopGroups;
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, own = warp % kTopNear, group = 1u << a.group_log2;
    for (u32 g = blockIdx.x * kWarps + warp; g < kTopGroups; g += gridDim.x * kWarps) { // all warps of the block as often
        TopItem best[kTopNear];
#pragma unroll
        for (u32 e = 0; e < kTopNear; e++)
            best[e] = {0, ~0ull};
        for (u32 first = lane * kTopNear + own; first < group; first += kPlaces * kTopNear * kWarp) {
            u64 at[kPlaces];
            typename Keys<kBytes>::Bits bits[kPlaces][kTopNear];
#pragma unroll
            for (u32 j = 0; j < kPlaces; j++) {
                const u32 i = first + j * kTopNear * kWarp,
                          place = (i < group ? i : first) * (kTopGroups / kTopNear) + g / kTopNear;
                at[j] = kTopNear * sample_place(a.n / kTopNear, kTopGroupsLog2 - kTopNearLog2 + a.group_log2, place, 0);
#pragma unroll
                for (u32 e = 0; e < kTopNear; e++)
                    bits[j][e] = line.at(at[j] + e);
            }
#pragma unroll
            for (u32 j = 0; j < kPlaces; j++) // an item twice is as good as once
#pragma unroll
                for (u32 e = 0; e < kTopNear; e++) {
                    const TopItem x = {score_of(rule, rule.of(bits[j][e])), at[j] + e};
                    if (line.counts(x.place) && (a.nans || x.score <= rule.range) && is_better(x, best[e]))
                        best[e] = x;
                }
        }
#pragma unroll
        for (u32 e = 0; e < kTopNear; e++) {
            const TopItem x = better_of_warp(best[e]);
            if (lane == 0)
                parts[warp][e] = x;
        }
        __syncthreads();
        if (lane == 0) {
            TopItem x = parts[warp - own][own];
            for (u32 e = 1; e < kTopNear; e++)
                x = is_better(parts[warp - own + e][own], x) ? parts[warp - own + e][own] : x;
            sample[g] = x;
        }
        __syncthreads();
    }
    TopState *s = a.states + blockIdx.y;
    if (!last_of_line(&s->arrived))
        return;
    u64 scores[kItems], places[kItems];
#pragma unroll
    for (int k = 0; k < kItems; k++) {
        const TopItem *x = &sample[k * kSampleThreads + threadIdx.x];
        scores[k] = __ldcg(&x->score);
        places[k] = __ldcg(&x->place);
    }
    const TopItem bound = item_at(scores, places, a.rank);
    if (threadIdx.x == 0) {
        s->score = bound.score;
        s->place = bound.place;
    }
}

// If x is at least as good as the bound, it is kept. Apart, so that the loop which finds it is short.
__device__ __noinline__ bool keep_item(const TopArgs &a, TopState *s, TopItem x, u64 score, u64 place)
{
    if (x.score == score ? x.place > place : x.score < score || (x.score > a.key.range && !a.nans))
        return false;
    const u64 to = atomicAdd(&s->kept, 1ull);
    if (to < a.room)
        a.items[blockIdx.y * a.room + to] = x;
    return true;
}

template <int kBytes> __global__ void __launch_bounds__(kTopThreads, 4) gather_items(const __grid_constant__ TopArgs a)
{
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    wait_for_previous_pass();
    let_next_pass_start();
    TopState *s = a.states + blockIdx.y;
    if (a.again && !s->failed)
        return;
    const K rule(a.key);
    const u64 score = a.all ? 0 : s->score, place = a.all ? ~0ull : s->place;
    const LineView<kBytes> line(a, blockIdx.y);
    bool full = false, hit = false;
    // Keys of interest. In tiles behind the bound these are the better ones alone: of equal elements nearly all are there. If
    // none is better it is one key, that of a NaN or of the bound.
    const Key top = a.nans ? (Key) ~(Key)0 : rule.range;
    const u64 tile = (u64)kBatch<kBytes> * blockDim.x, end = line.head + line.vectors * LineView<kBytes>::kPer;
    u64 next = line.head + blockIdx.x * tile;
    Key least, span;
    auto begin_tile = [&] {
        const bool better = next > place && next < end, some = score <= rule.range && (Key)score != top;
        least = !better ? (Key)score : some ? (Key)score + 1 : (Key) ~(Key)0;
        span = better && !some ? 0 : top - least;
        next += gridDim.x * tile;
    };
    begin_tile();
    auto take = [&](typename K::Bits bits, bool in, u64 at) {
        const Key key = rule.of(bits);
        if ((Key)(key - least) <= span && in)
            hit |= keep_item(a, s, {score_of(rule, key), at}, score, place);
    };
    each_vector_of_line<kBytes>(
        line,
        [&](uint4 x, bool masked, u64 v) {
            bool any = false;
            each_element<kBytes>(x, [&](typename K::Bits bits, int) { any |= (Key)(rule.of(bits) - least) <= span; });
            if (__builtin_expect(any && !full, 0)) {
                const u64 at = line.place(v);
                each_element<kBytes>(
                    x, [&](typename K::Bits bits, int e) { take(bits, !masked || line.mask[at + e] != 0, at + e); });
            }
        },
        [&](u64 at) { take(line.at(at), line.counts(at), at); },
        [&] {
            full = full || (hit && __ldcg(&s->kept) > a.room);
            hit = false;
            begin_tile();
        },
        1);
    if (last_of_line(&s->arrived) && threadIdx.x == 0)
        s->failed = !a.all && !a.again && (s->kept > a.room || s->kept < a.k);
}

// Of the elements with the bound's score, the place of the one that is `need`-th, from 1, in [from, to). Whole block.
template <int kBytes> __device__ __noinline__ void find_tie(const LineView<kBytes> &line, const Keys<kBytes> &rule, TopState *s,
                                                            u64 from, u64 to, u64 need)
{
    __shared__ u32 of_warp[kWarp];
    const u32 lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    for (u64 first = from; first < to; first += blockDim.x) {
        const u64 at = first + threadIdx.x;
        const bool tie = at < to && line.counts(at) && score_of(rule, rule.of(line.at(at))) == s->score;
        const u32 ties = __ballot_sync(kFullMask, tie);
        __syncthreads();
        if (lane == 0)
            of_warp[warp] = __popc(ties);
        __syncthreads();
        u64 before = 0, all = 0;
        for (u32 w = 0; w < blockDim.x / kWarp; w++) {
            before += w < warp ? of_warp[w] : 0;
            all += of_warp[w];
        }
        if (tie && before + __popc(ties & ((1u << lane) - 1)) + 1 == need)
            s->place = at;
        if (all >= need)
            return;
        need -= all;
    }
}

// The bound from what was found by selection. The line has a.ties stretches, a block each.
template <int kBytes> __global__ void __launch_bounds__(kTopThreads) bound_ties(const __grid_constant__ TopArgs a)
{
    wait_for_previous_pass();
    let_next_pass_start();
    TopState *s = a.states + blockIdx.y;
    if (!s->failed)
        return;
    const Keys<kBytes> rule(a.key);
    const LineView<kBytes> line(a, blockIdx.y);
    const u64 *found = a.found + blockIdx.y * (u64)a.found_words;
    const u64 nans = a.nans ? found[1] : 0, stretches = gridDim.x;
    u64 *of_stretch = a.ties + blockIdx.y * (u64)kTopStretches;
    const u64 score = nans >= a.k ? (u64)rule.range + 1 : (typename Keys<kBytes>::Key)(found[kFoundHead] - rule.least);
    const u64 share = (a.n + stretches - 1) / stretches, from = blockIdx.x * share,
              to = from + share < a.n ? from + share : a.n;
    u64 better = 0, ties = 0;
    for (u64 at = from + threadIdx.x; at < to; at += blockDim.x) {
        const u64 own = score_of(rule, rule.of(line.at(at)));
        const bool in = line.counts(at) && (a.nans || own <= rule.range);
        better += in && own > score;
        ties += in && own == score;
    }
    __shared__ u64 sums[2];
    if (threadIdx.x < 2)
        sums[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&sums[0], better);
    atomicAdd(&sums[1], ties);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&s->better, sums[0]);
        of_stretch[blockIdx.x] = sums[1];
    }
    if (!last_of_line(&s->arrived))
        return;
    const bool all = found[0] + nans <= a.k;
    if (threadIdx.x == 0) {
        s->score = all ? 0 : score;
        s->place = ~0ull;
        s->kept = 0;
    }
    __syncthreads();
    u64 need = a.k - __ldcg(&s->better), stretch = 0;
    for (; stretch + 1 < stretches && need > __ldcg(&of_stretch[stretch]); stretch++)
        need -= __ldcg(&of_stretch[stretch]);
    if (!all)
        find_tie<kBytes>(line, rule, s, stretch * share, (stretch + 1) * share < a.n ? (stretch + 1) * share : a.n, need);
}

} // namespace

template <int kBytes> void top_long_part(TopKernels *k)
{
    k->sample = sample_line<kBytes>;
    k->gather = gather_items<kBytes>;
    k->ties = bound_ties<kBytes>;
}

#define PARTS(X) X(1) X(2) X(4) X(8)
#define PART(of) template void top_long_part<of>(TopKernels * k);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
