// Selection in long lines (select_args.h): what the last block of a launch makes of its counts. Which ranks are found then, and
// in which intervals others lie. The line's state is in shared memory meanwhile, for many short steps depend on each other.
#pragma once

#include "kernels/cuda/pass/select_cells.cuh"

namespace rk {

// The ends of brackets in their order, with what is above all behind them; which places between neighbours are inside one.
template <class Key> struct Bounds {
    Key at[kBounds + 1]; // the last one is never reached
    u32 kept;            // bit i: inside one are keys between at[i - 1] and at[i]
};

// Bins in stretches, a lane's: elements in its own, and in those up to it
struct Stretches {
    u64 own, upto;
};
constexpr u32 kEach = kBins / kWarp, kOfLane = kEach / kWarp;
static_assert(kOfLane == 2, "two bins a lane of a stretch");

// Where a bin is counted: neighbours, which may have most keys, are in different lines of the cache, since additions to one
// wait for each other; and lanes read their stretches from words beside each other.
__device__ __forceinline__ u32 scattered(u32 bin) { return bin % kEach * kWarp + bin / kEach; }

// Whole warp
__device__ __forceinline__ Stretches stretches_of(const u64 *bins)
{
    u64 own = 0;
#pragma unroll 16
    for (u32 i = 0; i < kEach; i++)
        own += __ldcg(&bins[i * kWarp + threadIdx.x % kWarp]);
    return {own, warp_upto(own)};
}

// Are kept keys counted by bins? Of one bracket this takes longer than another round (H200: 351 us became 627).
__device__ __forceinline__ bool has_bins(const SelectArgs &a) { return a.pairs > 1 || a.skip > 1; }

// Where the keys of this line and these pairs go.
__device__ __forceinline__ u64 *keys_found(const SelectArgs &a)
{
    return a.found + blockIdx.y * (u64)a.found_words + kFoundHead + 2 * a.first_pair;
}

// What the last block has of a line (shared)
struct LineState {
    SelectState s;
    SelectInterval next[kRanks]; // of each rank
};

// Whole block, which meets behind it
__device__ __forceinline__ void take_state(LineState *own, const SelectState *line)
{
    static_assert(sizeof(SelectState) % sizeof(u64) == 0, "whole words");
    for (u32 i = threadIdx.x; i < sizeof(SelectState) / sizeof(u64); i += blockDim.x)
        ((u64 *)&own->s)[i] = __ldcg((const u64 *)line + i);
}
__device__ __forceinline__ void leave_state(const LineState &own, SelectState *line)
{
    __syncthreads();
    for (u32 i = threadIdx.x; i < sizeof(SelectState) / sizeof(u64); i += blockDim.x)
        ((u64 *)line)[i] = ((const u64 *)&own.s)[i];
}

// The interval that a rank lies in, from the counts of places. Not open: the rank's key is `low`. `bins`: its kept keys' bins,
// of an interval inside a bracket.
struct Place {
    u64 low, high, before, n;
    bool open, inside;
    u32 bins;
};

template <class Key> __device__ inline Place place_of(const SelectState &s, const Bounds<Key> &b, u64 rank)
{
    u64 before = 0;
    u32 i = 0;
    for (; i + 1 < kPlaces && rank - before >= s.counts[i]; i++)
        before += s.counts[i];
    const u32 p = i / 2;
    if (i % 2)
        return {b.at[p], b.at[p], before, s.counts[i], false, false, 0};
    const u64 low = p ? (u64)b.at[p - 1] + 1 : 0;
    return {low, (u64)b.at[p] - (p < kBounds), before, s.counts[i], true, (b.kept >> p & 1) != 0, p};
}

// The same, from what lies below the rank's own bracket and in it
__device__ inline Place place_beside(const SelectArgs &a, const SelectState &s, u32 p, u64 rank)
{
    const u64 low = s.bounds[2 * p], high = s.bounds[2 * p + 1], below = s.counts[2 * p], in = s.counts[2 * p + 1];
    if (rank < below)
        return {0, low - 1, 0, below, true, false, 0};
    if (rank < below + in)
        return {low, high, below, in, true, true, 2 * p};
    return {high + 1, a.key.range, below + in, s.n - below - in, true, false, 0};
}

__device__ inline void set_state(const SelectArgs &a, SelectInterval *x)
{
    x->shift = shift_of(x->width);
    x->collected = 0;
    x->state = x->n <= a.most ? kCollects : kCounts;
}

// Of some elements of a line: two ranks that the keys of a pair are between with near certainty, also if the line is sorted.
__device__ inline void ranks_beside(const SelectArgs &a, SelectState *s, u32 p, u64 taken, double tile, RankPair *ranks)
{
    const double n = (double)s->n;
    double before = a.rules[p].share[0], upto = a.rules[p].share[1]; // as shares of n
    if (s->n != taken) {
        const double all = n * ((double)a.n / (double)taken);
        const RankPair of_all = ranks_of(a.rules[p].rule, (u64)all);
        before = (double)of_all.first / all;
        upto = (double)of_all.second / all;
    }
    const double spread = before * (1 - before) * n, off = 4.5 * __dsqrt_rn(spread > 0 ? spread : 0) + tile;
    const double last = n - 1, from = before * n - off, to = upto * n + off;
    const bool low = from<1, high = to> last - 1;
    atomicOr(&s->ends, (u32)low << 2 * p | (u32)high << (2 * p + 1));
    *ranks = {low ? 0 : (u64)from, high ? s->n - 1 : (u64)to};
}

// After `count`: where ranks lie, by brackets. `taken`: elements that were read; `b`: of a heavy line. `found`: the line's
// words. A warp, whose lanes have a pair each, then a rank.
template <class Key>
__device__ __forceinline__ void judge(const SelectArgs &a, LineState *own, const Bounds<Key> &b, u64 taken, u64 *found)
{
    SelectState *const s = &own->s;
    const u32 t = threadIdx.x;
    if (t == 0) {
        s->n = taken - s->nans - s->left_out;
        s->ends = 0;
        s->whole = s->kept > a.room;
        found[0] = s->n;
        found[1] = s->nans;
        if (a.pairs == 1 && s->heavy) { // what is above the bracket was not counted
            const u64 others = s->counts[0] + s->counts[1] + s->counts[2] + s->counts[3];
            s->counts[4] = others < s->n ? s->n - others : 0;
        }
    }
    __syncwarp();
    if (t < a.pairs && s->n) {
        rk_order_rule rule = a.rules[t].rule;
        if (a.nans_first) // the rank is from the end
            rule.digits = (u64)-rule.digits > s->nans ? rule.digits + (i64)s->nans : -1;
        RankPair ranks = s->n == a.n ? a.rules[t].all : ranks_of(rule, s->n);
        if (a.skip > 1)
            ranks_beside(a, s, t, taken, kBatch<sizeof(Key)> * kSelectThreads, &ranks);
        s->rank[2 * t] = ranks.first;
        s->rank[2 * t + 1] = ranks.second;
    }
    __syncwarp();
    bool missed = false;
    if (t < 2 * a.pairs && s->n) {
        const Place at = s->heavy ? place_of(*s, b, s->rank[t]) : place_beside(a, *s, t / 2, s->rank[t]);
        missed = at.open && !at.inside;
        SelectInterval x = {at.low, at.high - at.low, at.before, at.n};
        set_state(a, &x);
        own->next[t] = x;
        s->of[t] = 0; // not found
        s->bins[t] = at.inside && x.width && has_bins(a) ? at.bins : kNoBins;
    }
    if (__any_sync(kFullMask, missed) && t == 0)
        s->whole = 1;
}

// A rank's next interval: its bin. First the stretch of bins that it lies in, then which of them. Whole warp.
__device__ inline SelectInterval bin_of(const SelectArgs &a, const SelectInterval &x, const u64 *bins, const Stretches &of,
                                        u64 rank)
{
    const u32 lane = threadIdx.x % kWarp;
    const u32 stretch = (u32)__ffs(__ballot_sync(kFullMask, x.before + of.upto > rank)) - 1;
    const u64 start = x.before + __shfl_sync(kFullMask, of.upto - of.own, stretch);
    const u32 in = stretch * kEach + lane * kOfLane;
    const u64 first = __ldcg(&bins[scattered(in)]), second = __ldcg(&bins[scattered(in + 1)]);
    const u64 upto = warp_upto(first + second);
    const u32 who = (u32)__ffs(__ballot_sync(kFullMask, start + upto > rank)) - 1;
    u64 before = start + upto - first - second;
    const bool next = before + first <= rank;
    const u64 n = __shfl_sync(kFullMask, next ? second : first, who);
    const u32 bin = stretch * kEach + who * kOfLane + __shfl_sync(kFullMask, (u32)next, who);
    before = __shfl_sync(kFullMask, next ? before + first : before, who);
    const u64 from = (u64)bin << x.shift, width = (1ull << x.shift) - 1;
    SelectInterval y = {x.low + from, width < x.width - from ? width : x.width - from, before, n};
    set_state(a, &y);
    return y;
}

// The intervals of a pair's ranks become their bins, where s.bins says which. `of`: stretches of the bins `known`. Whole warp.
__device__ inline void cut_intervals(const SelectArgs &a, LineState *own, u32 pair, const u64 *counts, u32 known, Stretches of)
{
    SelectInterval y = {};
    for (u32 t = 2 * pair; t < 2 * pair + 2; t++) {
        const u32 at = own->s.bins[t];
        if (at == kNoBins)
            continue;
        const u64 rank = own->s.rank[t];
        if (at != known)
            of = stretches_of(counts + at * kBins);
        if (at != known || rank - y.before >= y.n)
            y = bin_of(a, own->next[t], counts + at * kBins, of, rank);
        known = at;
        __syncwarp(); // all lanes have read it
        if (threadIdx.x % kWarp == 0)
            own->next[t] = y;
    }
}

// Ranks lie in their next intervals, which some of them share, or these are their only keys. A warp, whose lanes have a rank
// each.
__device__ inline void put_ranks(const SelectArgs &a, LineState *own, u64 *found)
{
    SelectState *const s = &own->s;
    const u32 t = threadIdx.x;
    const bool open = t < 2 * a.pairs && s->n && s->of[t] != kFound;
    SelectInterval x = {};
    if (open)
        x = own->next[t];
    const bool lies = x.width != 0;
    u32 same = t;
    for (u32 i = 2 * a.pairs; i-- > 0;) {
        const u64 low = __shfl_sync(kFullMask, x.low, i), width = __shfl_sync(kFullMask, x.width, i);
        same = lies && i < t && x.low == low && x.width == width ? i : same;
    }
    const bool leads = lies && same == t;
    const u32 leaders = __ballot_sync(kFullMask, leads), at = (u32)__popc(leaders & ((1u << same) - 1)),
              others = __ballot_sync(kFullMask, leads && x.state != kComplete);
    if (open) {
        s->of[t] = lies ? at : kFound;
        if (!lies)
            found[t] = x.low + a.key.least;
    }
    if (leads) {
        x.room = t;
        s->interval[at] = x;
    }
    if (t == 0) {
        s->intervals = (u32)__popc(leaders);
        s->open = (u32)__popc(others);
    }
}

// The ends of a rank's interval in some of the line's tiles become an end of its bracket for all of it. A thread for each rank.
__device__ inline void narrow_bracket(const SelectArgs &a, LineState *own, u32 t)
{
    SelectState *const s = &own->s;
    const SelectInterval &x = own->next[t];
    if (s->ends >> t & 1)
        s->bounds[t] = t % 2 ? a.key.range : 0;
    else if (x.width == 0 || s->bins[t] != kNoBins)
        s->bounds[t] = x.low + (t % 2 ? x.width : 0);
}

__device__ __forceinline__ void clear_bins(u64 *bins)
{
    for (u32 i = threadIdx.x; i < kBins; i += blockDim.x)
        bins[i] = 0;
}

// After `count`: the bins of kept keys are the first digit. The last block, all of it, which has a warp for each pair.
template <class Key> __device__ __noinline__ void after_count(const SelectArgs &a, SelectState *line, bool heavy,
                                                              const Bounds<Key> &b, u64 taken, u64 *counts)
{
    static_assert(kMostPairs <= kSelectThreads / kWarp && kRanks <= kWarp, "pairs have warps, ranks lanes");
    __shared__ LineState own;
    SelectState &s = own.s;
    const u32 p = threadIdx.x / kWarp, t = threadIdx.x;
    const bool light = !heavy && p < a.pairs, bins = light && has_bins(a);
    const Stretches of = bins ? stretches_of(counts + 2 * p * kBins) : Stretches{};
    take_state(&own, line);
    __syncthreads();
    if (light && t % kWarp == kWarp - 1)
        s.counts[2 * p + 1] = bins ? of.upto : s.kept;
    __syncthreads();
    if (p == 0)
        judge<Key>(a, &own, b, taken, a.found + blockIdx.y * (u64)a.found_words);
    __syncthreads();
    if (p < a.pairs && s.n)
        cut_intervals(a, &own, p, counts, bins ? 2 * p : kNoBins, of);
    __syncthreads();
    for (u32 room = 0; room < 2 * a.pairs && has_bins(a); room++)
        if (s.counts[heavy ? 2 * room : room + 1] != 0 && (heavy || room % 2 == 0))
            clear_bins(counts + room * kBins);
    if (a.skip == 1) {
        if (p == 0)
            put_ranks(a, &own, keys_found(a));
    } else {
        if (t < 2 * a.pairs && s.n)
            narrow_bracket(a, &own, t);
        __syncthreads();
        if (t < kPlaces)
            s.counts[t] = 0;
        if (t == 0)
            s.intervals = s.open = s.whole = 0, s.nans = s.left_out = 0;
    }
    leave_state(own, line);
}

// After a round of digits, of which an interval has counted. The last block, all of it, which has a warp for each pair.
static __device__ __noinline__ void after_digits(const SelectArgs &a, SelectState *line, u64 *counts)
{
    __shared__ LineState own;
    SelectState &s = own.s;
    const u32 p = threadIdx.x / kWarp, t = threadIdx.x;
    take_state(&own, line);
    __syncthreads();
    if (t < 2 * a.pairs && s.of[t] != kFound) {
        SelectInterval x = s.interval[s.of[t]];
        s.bins[t] = x.state == kCounts ? x.room : kNoBins;
        x.state = x.state == kCounts ? kCounts : kComplete;
        own.next[t] = x;
    } else if (t < 2 * a.pairs) {
        s.bins[t] = kNoBins;
    }
    __syncthreads();
    if (p < a.pairs)
        cut_intervals(a, &own, p, counts, kNoBins, Stretches{});
    __syncthreads();
    for (u32 i = 0; i < s.intervals; i++)
        if (s.interval[i].state == kCounts)
            clear_bins(counts + s.interval[i].room * kBins);
    __syncthreads();
    if (p == 0)
        put_ranks(a, &own, keys_found(a));
    leave_state(own, line);
}

} // namespace rk
