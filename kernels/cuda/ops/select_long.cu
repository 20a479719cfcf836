// Selection in long lines, of elements of each size: the launches that select_args.h describes. blockIdx.y is the line.
#include "kernels/cuda/pass/select_cells.cuh"
#include "kernels/cuda/pass/select_digits.cuh"

namespace rk {
namespace {

// ---- brackets: which keys enclose a rank, by a sample ----

// What a rank's place in the sample may be off by, but for one request in 10^5; or in the middle one of several samples, whose
// deviation is 1.2533 / sqrt(samples) of that of one.
__device__ __forceinline__ double doubt(double place, double size, u32 samples)
{
    const double spread = place * (1 - place / size);
    const double of_one = 4.5 * __dsqrt_rn(spread > 0 ? spread : 0) + 8;
    return 1 + (samples > 1 ? of_one * 1.2533 / __dsqrt_rn(samples) : of_one);
}

// The middle one of n estimates. Whole warp, of which each lane has two at most.
template <class Key> __device__ __forceinline__ Key middle_of(const Key *estimates, u32 n)
{
    const u32 lane = threadIdx.x % kWarp;
    Key own[2], middle = 0;
    u32 before[2] = {0, 0};
#pragma unroll
    for (u32 j = 0; j < 2; j++)
        own[j] = lane + j * kWarp < n ? __ldcg(&estimates[lane + j * kWarp]) : (Key)0;
    for (u32 i = 0; i < n; i++) {
        const Key o = __shfl_sync(kFullMask, i < kWarp ? own[0] : own[1], i % kWarp);
#pragma unroll
        for (u32 j = 0; j < 2; j++)
            before[j] += o < own[j] || (o == own[j] && i < lane + j * kWarp);
    }
#pragma unroll
    for (u32 j = 0; j < 2; j++)
        middle = lane + j * kWarp < n && before[j] == n / 2 ? own[j] : middle;
    return most_of_warp(middle); // the others' are 0
}

// Is this line's selection asked for?
__device__ __forceinline__ bool asked_for(const SelectArgs &a) { return !a.asked || a.asked[blockIdx.y * a.asked_step]; }

// Each pair has a.samples blocks: end 2 p of its bracket is below pair p with near certainty, end 2 p + 1 above it.
template <int kBytes> __global__ void __launch_bounds__(kSampleThreads) find_brackets(const __grid_constant__ SelectArgs a)
{
    let_next_pass_start();
    if (!asked_for(a))
        return;
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    constexpr u32 kSampleLog2 = 13, kSample = 1 << kSampleLog2, kHeavy = kSample / 256;
    static_assert(kSample == kSampleKeys * kSampleThreads, "all threads have as many keys");
    __shared__ typename BlockTeam<Key>::Room room;
    const K rule(a.key);
    const LineView<kBytes> line(a, blockIdx.y);
    BlockTeam<Key> team = {room};
    Key keys[kSampleKeys];
    u32 counted = 0;
    const u32 p = blockIdx.x / a.samples, sample = blockIdx.x % a.samples;
#pragma unroll
    for (int k = 0; k < kSampleKeys; k++) {
        const u64 at = sample_place(a.n, kSampleLog2, k * kSampleThreads + threadIdx.x, sample);
        const Key key = rule.of(line.at(at));
        const bool in = !rule.nan(key) && line.counts(at);
        keys[k] = in ? key : (Key) ~(Key)0;
        counted += in;
    }
    counted = team.sum(counted);
    const SelectRooms<Key> rooms(a, blockIdx.y);
    const double scale = (double)kSample / (double)a.n;
    RankPair ranks = a.rules[p].all;
    if (counted && counted != kSample)
        ranks = ranks_of(a.rules[p].rule, (u64)((double)counted / scale));
    for (u32 side = 0; side < 2; side++) {
        Key bound = side ? rule.range : (Key)0;
        const double place = (double)(side ? ranks.second : ranks.first) * scale, off = doubt(place, kSample, a.samples);
        const double at = side ? place + off : place - off;
        if (at >= 0 && at < counted) {
            Key same;
            select_pair(team, keys, K::kTop, (u32)at, (u32)at, &bound, &same);
            u32 equal = 0;
#pragma unroll
            for (int k = 0; k < kSampleKeys; k++)
                equal += keys[k] == bound;
            equal = team.sum(equal);
            if (threadIdx.x == 0 && equal > kHeavy)
                atomicOr(&rooms.state->heavy, 1u);
        }
        if (threadIdx.x == 0)
            rooms.collected[(2 * p + side) * a.most + sample] = bound;
    }
    if (!last_of_line(&rooms.state->arrived))
        return;
    const u32 warp = threadIdx.x / kWarp;
    if (warp < 2 * a.pairs) {
        const Key middle = middle_of(rooms.collected + warp * a.most, a.samples);
        if (threadIdx.x % kWarp == 0)
            rooms.state->bounds[warp] = middle;
    }
}

// ---- count ----

// Keys that threads of a warp keep, each in a column of its own, until one of them has little room left
template <class Key, u32 kMost, u32 kBatchOf> struct Queue {
    static constexpr u32 kRow = kWarp * sizeof(Key);
    Key (*rows)[kWarp];
    SharedPlace column;
    u32 next; // bytes from there to where the next one goes

    __device__ __forceinline__ Queue(Key (*all)[kWarp]) : rows(all), column(&all[0][threadIdx.x % kWarp]), next(0) {}
    __device__ __forceinline__ void push(Key key)
    {
        column.put(next, key);
        next += kRow;
    }
    // Whole warp. count.keep() of each key: those that it takes go to `to` unless that is NULL.
    template <class Count> __device__ __forceinline__ void make_room(u64 *kept, Key *to, u64 room, Count &count)
    {
        if (__any_sync(kFullMask, next > (kMost - kBatchOf) * kRow))
            flush(kept, to, room, count);
    }
    template <class Count> __device__ __forceinline__ void flush(u64 *kept, Key *to, u64 room, Count &count)
    {
        const u32 lane = threadIdx.x % kWarp, own = next / kRow, longest = warp_max(own);
        SharedPlace::put_before();
        u32 taken = own;
        if constexpr (Count::kNear) { // others leave the queue first: there is no room for them
            taken = 0;
            for (u32 i = 0; i < longest; i++) {
                const Key key = i < own ? count.key(rows[i][lane]) : (Key)0;
                if (count.keep(key, i < own))
                    rows[taken++][lane] = key;
            }
        }
        u64 at = 0;
        bool fits = to != NULL;
        if (fits) {
            const u32 all = warp_add(taken);
            if (lane == 0 && all)
                at = atomicAdd(kept, (u64)all);
            at = __shfl_sync(kFullMask, at, 0);
            fits = at + all <= room;
        }
        for (u32 i = 0; i < longest; i++) {
            const u32 who = __ballot_sync(kFullMask, i < taken);
            const Key key = i < taken ? rows[i][lane] : (Key)0;
            if constexpr (!Count::kNear)
                count.keep(key, i < taken);
            if (i < taken && fits)
                to[at + __popc(who & ((1u << lane) - 1))] = key;
            at += __popc(who);
        }
        next = 0;
        __syncwarp();
    }
};

template <int kBytes> constexpr u32 kQueued = kBytes == 8 ? 16 : 24;

// The ends of brackets in their order, with what is above all behind them; which places between neighbours are inside one.
template <class Key> struct Bounds {
    Key at[kBounds + 1]; // the last one is never reached
    u32 kept;            // bit i: inside one are keys between at[i - 1] and at[i]
};

// Whole block
template <class Key>
__device__ __forceinline__ void sort_bounds(const SelectArgs &a, const SelectState *s, Key top, Bounds<Key> *b)
{
    const u32 i = threadIdx.x, n = 2 * a.pairs;
    if (i == 0)
        b->kept = 0;
    if (i <= kBounds && i >= n)
        b->at[i] = top;
    if (i < n) {
        const u64 own = s->bounds[i];
        u32 before = 0;
        for (u32 j = 0; j < n; j++)
            before += s->bounds[j] < own || (s->bounds[j] == own && j < i);
        b->at[before] = (Key)own;
    }
    __syncthreads();
    if (i > 0 && i < n)
        for (u32 p = 0; p < a.pairs; p++)
            if (s->bounds[2 * p] <= b->at[i - 1] && b->at[i] <= s->bounds[2 * p + 1])
                atomicOr(&b->kept, 1u << i);
    __syncthreads();
}

// Where a bin is counted: neighbours, which may have most keys, are far from each other, since additions to one line of the
// cache wait for each other.
__device__ __forceinline__ u32 scattered(u32 bin) { return bin * (37 * 16 + 1) % kBins; }

// Are kept keys counted by bins? Of one bracket this takes longer than another round (H200: 351 us became 627).
__device__ __forceinline__ bool has_bins(const SelectArgs &a) { return a.pairs > 1 || a.skip > 1; }

// The interval that a rank lies in, from the counts of places. Not open: the rank's key is `low`. `bins`: its kept keys' bins,
// of an interval inside a bracket.
struct Place {
    u64 low, high, before, n;
    bool open, inside;
    u32 bins;
};

template <class Key> __device__ inline Place place_of(const SelectState *s, const Bounds<Key> &b, u64 rank)
{
    u64 before = 0;
    u32 i = 0;
    for (; i + 1 < kPlaces && rank - before >= s->counts[i]; i++)
        before += s->counts[i];
    const u32 p = i / 2;
    if (i % 2)
        return {b.at[p], b.at[p], before, s->counts[i], false, false, 0};
    const u64 low = p ? (u64)b.at[p - 1] + 1 : 0;
    return {low, (u64)b.at[p] - (p < kBounds), before, s->counts[i], true, (b.kept >> p & 1) != 0, p};
}

__device__ inline void set_state(const SelectArgs &a, SelectInterval *x)
{
    x->shift = shift_of(x->width);
    x->collected = 0;
    x->state = x->n <= a.most ? kCollects : kCounts;
}

// Where the keys of this line and these pairs go.
__device__ __forceinline__ u64 *keys_found(const SelectArgs &a)
{
    return a.found + blockIdx.y * (u64)a.found_words + kFoundHead + 2 * a.first_pair;
}

// Rank t lies in interval x, which may be known already, or is its only key. One thread.
__device__ inline void put_rank(SelectState *s, u64 *found, u64 least, u32 t, const SelectInterval &x)
{
    if (x.width == 0) {
        s->of[t] = kFound;
        found[t] = x.low + least;
        return;
    }
    u32 i = 0;
    while (i < s->intervals && (s->interval[i].low != x.low || s->interval[i].width != x.width))
        i++;
    s->of[t] = i;
    if (i < s->intervals)
        return;
    SelectInterval *to = &s->interval[s->intervals++];
    *to = x;
    to->room = t;
    s->open += x.state != kComplete;
}

// The same, from what lies below the rank's own bracket and in it
__device__ inline Place place_beside(const SelectArgs &a, const SelectState *s, u32 p, u64 rank)
{
    const u64 low = s->bounds[2 * p], high = s->bounds[2 * p + 1], below = s->counts[2 * p], in = s->counts[2 * p + 1];
    if (rank < below)
        return {0, low - 1, 0, below, true, false, 0};
    if (rank < below + in)
        return {low, high, below, in, true, true, 2 * p};
    return {high + 1, a.key.range, below + in, s->n - below - in, true, false, 0};
}

// Of some elements of a line: two ranks that the keys of a pair are between with near certainty, also if the line is sorted.
__device__ inline void ranks_beside(const SelectArgs &a, SelectState *s, u32 p, u64 taken, double tile, RankPair *ranks)
{
    const double all = (double)s->n * ((double)a.n / (double)taken), share = (double)s->n / all;
    const RankPair of_all = s->n == taken ? a.rules[p].all : ranks_of(a.rules[p].rule, (u64)all);
    const double first = (double)of_all.first * share, second = (double)of_all.second * share,
                 spread = first * (1 - first / (double)s->n), off = 4.5 * __dsqrt_rn(spread > 0 ? spread : 0) + tile;
    const double last = (double)(s->n - 1), from = first - off, to = second + off;
    const bool low = from<1, high = to> last - 1;
    s->ends |= (u32)low << 2 * p | (u32)high << (2 * p + 1);
    *ranks = {low ? 0 : (u64)from, high ? s->n - 1 : (u64)to};
}

// After `count`: which ranks are found, and where others lie. `taken`: elements that were read; `b`: of a heavy line. `found`:
// the line's words. One thread.
template <class Key>
__device__ __noinline__ void judge(const SelectArgs &a, SelectState *s, const Bounds<Key> &b, u64 taken, u64 *found)
{
    s->n = taken - s->nans - s->left_out;
    s->ends = 0;
    found[0] = s->n;
    found[1] = s->nans;
    found += kFoundHead + 2 * a.first_pair;
    s->intervals = s->open = 0;
    s->whole = s->kept > a.room;
    if (a.pairs == 1 && s->heavy) { // what is above the bracket was not counted
        const u64 others = s->counts[0] + s->counts[1] + s->counts[2] + s->counts[3];
        s->counts[4] = others < s->n ? s->n - others : 0;
    }
    if (s->n == 0)
        return;
    for (u32 p = 0; p < a.pairs; p++) {
        rk_order_rule rule = a.rules[p].rule;
        if (a.nans_first) // the rank is from the end
            rule.digits = (u64)-rule.digits > s->nans ? rule.digits + (i64)s->nans : -1;
        RankPair ranks = s->n == a.n ? a.rules[p].all : ranks_of(rule, s->n);
        if (a.skip > 1)
            ranks_beside(a, s, p, taken, kBatch<sizeof(Key)> * kSelectThreads, &ranks);
        s->rank[2 * p] = ranks.first;
        s->rank[2 * p + 1] = ranks.second;
    }
    for (u32 t = 0; t < 2 * a.pairs; t++) {
        const Place at = s->heavy ? place_of(s, b, s->rank[t]) : place_beside(a, s, t / 2, s->rank[t]);
        if (at.open && !at.inside)
            s->whole = 1;
        SelectInterval x = {at.low, at.high - at.low, at.before, at.n};
        set_state(a, &x);
        s->bins[t] = at.inside && has_bins(a) ? at.bins : kNoBins;
        put_rank(s, found, a.key.least, t, x);
    }
}

// Kept keys of an interval are counted in bins, those of a warp that have one bin together: it may have most keys. Whole warp.
template <class Key> __device__ __forceinline__ void count_bin(const SelectArgs &a, bool in, u32 interval, Key off, u32 shift)
{
    const u32 who = __ballot_sync(kFullMask, in);
    if (!in)
        return;
    const u32 bin = interval * kBins + scattered((u32)(off >> shift)), same = __match_any_sync(who, bin);
    if (threadIdx.x % kWarp == (u32)__ffs(same) - 1)
        atomicAdd(&SelectRooms<Key>(a, blockIdx.y).counts[bin], (u64)__popc(same));
}

// What each lane has below brackets, to the line. Whole block.
__device__ __forceinline__ void leave_below(const SelectArgs &a, SelectState *s, const u32 *below, u32 brackets)
{
    __shared__ u64 sums[kMostPairs];
    if (threadIdx.x < brackets)
        sums[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (u32 p = 0; p < brackets; p++) {
        const u64 all = warp_sum((u64)below[p]);
        if (threadIdx.x % kWarp == 0)
            atomicAdd(&sums[p], all);
    }
    __syncthreads();
    if (threadIdx.x < a.pairs)
        atomicAdd(&s->counts[2 * threadIdx.x], sums[threadIdx.x]);
}

// What lies below brackets, of a line that is not heavy: in registers. What lies inside is counted when it is kept. Further
// brackets repeat the first one.
template <class K, u32 kBrackets> struct CountLight {
    using Key = typename K::Key;
    static constexpr bool kNear = false;
    Key low[kBrackets], width[kBrackets];
    u32 below[kBrackets];
    const SelectArgs &a;

    __device__ __forceinline__ CountLight(const SelectArgs &args, const SelectState *s) : a(args)
    {
#pragma unroll
        for (u32 p = 0; p < kBrackets; p++) {
            const u32 of = p < a.pairs ? p : 0;
            low[p] = (Key)s->bounds[2 * of];
            width[p] = (Key)s->bounds[2 * of + 1] - low[p];
            below[p] = 0;
        }
    }
    // Is it inside a bracket?
    __device__ __forceinline__ bool add(Key key)
    {
        bool any = false;
#pragma unroll
        for (u32 p = 0; p < kBrackets; p++) {
            add_if_less(below[p], key, low[p]);
            any |= (Key)(key - low[p]) <= width[p];
        }
        return any;
    }
    __device__ __forceinline__ Key key(Key kept) const { return kept; }
    __device__ __forceinline__ void keep(Key key, bool in)
    {
#pragma unroll
        for (u32 p = 0; p < kBrackets; p++)
            if (p < a.pairs && has_bins(a))
                count_bin<Key>(a, in && (Key)(key - low[p]) <= width[p], 2 * p, key - low[p], shift_of(width[p]));
    }
    __device__ __forceinline__ void leave(SelectState *s) { leave_below(a, s, below, kBrackets); }
};

// The same of floats, by cells.
template <int kBytes> struct CountCells {
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    static constexpr bool kNear = true; // it adds what is near a bracket; keep() says what is inside
    const SelectArgs &a;
    const K rule;
    const CellMap<kBytes> map;
    const CellRoom<kBytes> &room;
    const u32 *table;
    u32 batch, nans, below[kMostPairs]; // batch: fields

    __device__ __forceinline__ CountCells(const SelectArgs &args, const CellMap<kBytes> &m, const CellRoom<kBytes> &r,
                                          const u32 *cells)
        : a(args), rule(args.key), map(m), room(r), table(cells), batch(0), nans(0), below{}
    {
    }
    __device__ __forceinline__ u32 entry(Key bits, u32 *nan) const
    {
        const float at = map.at(map.value(bits));
        add_if_less(*nan, 0x7f800000u, __float_as_uint(at) & 0x7fffffff);
        return table[cell_at(at)];
    }
    // Is it near a bracket?
    __device__ __forceinline__ bool add(Key bits)
    {
        const u32 e = entry(bits, &nans);
        batch += e;
        return (int)e < 0;
    }
    __device__ __forceinline__ void end_batch()
    {
#pragma unroll
        for (u32 p = 0; p < kMostPairs; p++)
            below[p] += batch >> kFieldBits * p & ((1u << kFieldBits) - 1);
        batch = 0;
    }
    __device__ __forceinline__ Key key(Key bits) const { return rule.of(bits); }
    // Is it inside a bracket?
    __device__ __forceinline__ bool keep(Key key, bool in)
    {
        key = in ? key : K::kTop; // a NaN, which is not below a bracket either
        u32 of = kMostPairs;
#pragma unroll
        for (u32 p = 0; p < kMostPairs; p++)
            if (p < a.pairs) {
                const Key low = room.low[p];
                add_if_less(below[p], key, low);
                of = (Key)(key - low) <= room.width[p] ? p : of;
            }
        const bool any = of < kMostPairs;
        of = any ? of : 0;
        count_bin<Key>(a, any, 2 * of, key - room.low[of], room.shift[of]);
        return any;
    }
    // NaNs were counted in the first cell.
    __device__ __forceinline__ void leave(SelectState *s)
    {
        for (u32 p = 0; p < kMostPairs; p++)
            below[p] -= table[0] >> kFieldBits * p & 1 ? nans : 0;
        leave_below(a, s, below, kMostPairs);
    }
};

// One pair of a heavy line: counts in registers.
template <class K> struct CountOne {
    using Key = typename K::Key;
    static constexpr u32 kColumns = 1, kBrackets = 1;
    static constexpr bool kNear = false;
    Key low, high;
    u32 below, lows, highs, kept;
    const SelectArgs &a;

    __device__ __forceinline__ CountOne(const SelectArgs &args, const Bounds<Key> &b, u32 *)
        : low(b.at[0]), high(b.at[1]), below(0), lows(0), highs(0), kept(0), a(args)
    {
    }
    // Is it inside the bracket?
    __device__ __forceinline__ bool add(Key key)
    {
        below += key < low;
        lows += key == low;
        highs += key == high;
        const bool in = key > low && key < high;
        kept += in;
        return in;
    }
    __device__ __forceinline__ Key key(Key kept) const { return kept; }
    __device__ __forceinline__ void keep(Key key, bool in)
    {
        if (has_bins(a))
            count_bin<Key>(a, in, 1, key - low - 1, shift_of((Key)(high - low - 2)));
    }
    // Whole block
    __device__ __forceinline__ void leave(SelectState *s, u32 *)
    {
        const bool same = low == high;
        const u64 of[4] = {warp_sum((u64)below), same ? 0 : warp_sum((u64)lows), warp_sum((u64)kept), warp_sum((u64)highs)};
        for (u32 i = 0; i < 4; i++)
            if (threadIdx.x % kWarp == 0 && of[i])
                atomicAdd(&s->counts[i], of[i]);
    }
};

// Several pairs: a binary search for the key's place, whose count each lane has in a bank of its own.
template <class K> struct CountAll {
    using Key = typename K::Key;
    static constexpr u32 kColumns = kPlaces, kBrackets = kMostPairs;
    static constexpr bool kNear = false;
    const Bounds<Key> &b;
    u32 *columns;
    u32 inside;
    const SelectArgs &a;

    __device__ __forceinline__ CountAll(const SelectArgs &args, const Bounds<Key> &bounds, u32 *counts)
        : b(bounds), columns(counts + threadIdx.x % kWarp), inside(bounds.kept), a(args)
    {
    }
    // How many ends the key reaches
    __device__ __forceinline__ u32 reached(Key key) const
    {
        u32 i = key >= b.at[7] ? 8 : 0;
        i += key >= b.at[i + 3] ? 4 : 0;
        i += key >= b.at[i + 1] ? 2 : 0;
        return i + (key >= b.at[i] ? 1 : 0);
    }
    __device__ __forceinline__ bool add(Key key)
    {
        const u32 i = reached(key);
        const bool equal = i && b.at[i - 1] == key;
        atomicAdd(&columns[(2 * i - equal) * kWarp], 1u);
        return !equal && (inside >> i & 1);
    }
    __device__ __forceinline__ Key key(Key kept) const { return kept; }
    __device__ __forceinline__ void keep(Key key, bool in)
    {
        const u32 i = in ? reached(key) : 1;
        count_bin<Key>(a, in, i, key - b.at[i - 1] - 1, shift_of((Key)(b.at[i] - b.at[i - 1] - 2)));
    }
    __device__ __forceinline__ void leave(SelectState *s, u32 *counts)
    {
        __syncthreads();
        for (u32 i = threadIdx.x; i < kPlaces * kWarp; i += blockDim.x) { // whole warps
            const u64 n = warp_sum((u64)counts[i]);
            if (i % kWarp == 0 && n)
                atomicAdd(&s->counts[i / kWarp], n);
        }
    }
};

// The lanes' counts to the line's
__device__ __forceinline__ void add_lanes(u64 *to, u32 own)
{
    const u64 all = warp_sum((u64)own);
    if (threadIdx.x % kWarp == 0 && all)
        atomicAdd(to, all);
}

// The block's part of the line
template <int kBytes, class Queued, class Count> __device__ __forceinline__ void
count_and_keep(const SelectArgs &a, SelectState *s, Queued &queue, typename Keys<kBytes>::Key *kept, Count &count)
{
    const Keys<kBytes> rule(a.key);
    u32 nans = 0, out = 0;
    each_of_line<kBytes>(
        LineView<kBytes>(a, blockIdx.y),
        [&](typename Keys<kBytes>::Bits bits, bool counts_too, u64) {
            if (!counts_too) {
                out++;
                return;
            }
            const auto key = rule.of(bits);
            add_if_less(nans, rule.range, key);
            if (count.add(key))
                queue.push(key);
        },
        [&] { queue.make_room(&s->kept, kept, a.room, count); }, a.skip);
    __syncwarp();
    queue.flush(&s->kept, kept, a.room, count);
    add_lanes(&s->nans, nans);
    add_lanes(&s->left_out, out);
}

// The same by cells. False if too many elements of a sample would be looked at again.
template <int kBytes, class Queued>
__device__ __forceinline__ bool count_by_cells(const SelectArgs &a, SelectState *s, Queued &queue,
                                               typename Keys<kBytes>::Key *kept, CellRoom<kBytes> *room, u32 *table)
{
    const LineView<kBytes> line(a, blockIdx.y);
    CellMap<kBytes> map;
    const auto some = line.at(sample_place(a.n, 8, threadIdx.x, blockIdx.x));
    if (threadIdx.x == 0)
        room->again = 0;
    if (!map_brackets<kBytes>(a, s->bounds, &map))
        return false;
    make_table<kBytes>(a, s->bounds, map, room, table);
    __syncthreads();
    CountCells<kBytes> count(a, map, *room, table);
    u32 out = 0;
    const u32 again = __popc(__ballot_sync(kFullMask, count.entry(some, &out) == kLookAgain));
    if (threadIdx.x % kWarp == 0)
        atomicAdd(&room->again, again);
    __syncthreads();
    if (room->again > kSelectThreads / 4)
        return false;
    out = 0;
    each_of_line<kBytes>(
        line,
        [&](typename Keys<kBytes>::Bits bits, bool counts_too, u64) {
            if (!counts_too)
                out++;
            else if (count.add(bits))
                queue.push(bits);
        },
        [&] {
            count.end_batch();
            queue.make_room(&s->kept, kept, a.room, count);
        },
        a.skip);
    __syncwarp();
    queue.flush(&s->kept, kept, a.room, count);
    add_lanes(&s->nans, count.nans);
    add_lanes(&s->left_out, out);
    count.leave(s);
    return true;
}

// ---- digits ----

// Bins in stretches, a lane's: elements in its own, and in those up to it
struct Stretches {
    u64 own, upto;
};
constexpr u32 kEach = kBins / kWarp, kOfLane = kEach / kWarp;
static_assert(kOfLane == 2, "two bins a lane of a stretch");

// Whole warp
__device__ __forceinline__ Stretches stretches_of(const u64 *bins)
{
    u64 own = 0;
#pragma unroll 16
    for (u32 i = 0; i < kEach; i++)
        own += __ldcg(&bins[scattered(threadIdx.x % kWarp * kEach + i)]);
    return {own, warp_upto(own)};
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

// The ends of a rank's interval in some of the line's tiles become an end of its bracket for all of it. A thread for each rank.
__device__ inline void narrow_bracket(const SelectArgs &a, SelectState *s, const SelectInterval *next, const u64 *found, u32 t)
{
    if (s->ends >> t & 1)
        s->bounds[t] = t % 2 ? a.key.range : 0;
    else if (s->of[t] == kFound)
        s->bounds[t] = found[t] - a.key.least;
    else if (s->bins[t] != kNoBins)
        s->bounds[t] = next[t].low + (t % 2 ? next[t].width : 0);
}

// Does an interval count in these bins?
__device__ inline bool has_counts(const SelectState *s, u32 room)
{
    for (u32 i = 0; i < s->intervals; i++)
        if (s->interval[i].room == room && s->interval[i].state == kCounts)
            return true;
    return false;
}

// The intervals of all ranks after a round, or `first` after `count`, by bins of kept keys. The last block, all of it.
__device__ __noinline__ void next_intervals(const SelectArgs &a, SelectState *s, u64 *counts, u64 *found, bool first)
{
    __shared__ SelectInterval next[kRanks];
    if (!first) {
        const u32 i = threadIdx.x;
        if (!__syncthreads_or(i < s->intervals && s->interval[i].state == kCounts)) { // all are collected
            if (i == 0)
                s->open = 0;
            return;
        }
    }
    for (u32 p = threadIdx.x / kWarp; p < a.pairs && s->n; p += blockDim.x / kWarp) {
        const u64 *of = NULL;
        Stretches stretches = {};
        for (u32 t = 2 * p; t < 2 * p + 2; t++) {
            if (s->of[t] == kFound)
                continue;
            SelectInterval x = s->interval[s->of[t]];
            if (first ? s->bins[t] != kNoBins : x.state == kCounts) {
                const u64 *bins = counts + (first ? s->bins[t] : x.room) * kBins;
                if (bins != of)
                    stretches = stretches_of(bins);
                of = bins;
                x = bin_of(a, x, bins, stretches, s->rank[t]);
            } else if (!first) {
                x.state = kComplete;
            }
            if (threadIdx.x % kWarp == 0)
                next[t] = x;
            __syncwarp();
        }
    }
    __syncthreads();
    for (u32 room = 0; room < 2 * a.pairs && (!first || has_bins(a)); room++)
        if (first ? s->counts[s->heavy ? 2 * room : room + 1] != 0 && (s->heavy || room % 2 == 0) : has_counts(s, room))
            for (u32 i = threadIdx.x; i < kBins; i += blockDim.x)
                counts[room * kBins + i] = 0;
    __syncthreads();
    if (first && a.skip > 1) {
        if (threadIdx.x < 2 * a.pairs && s->n)
            narrow_bracket(a, s, next, found, threadIdx.x);
        __syncthreads();
        if (threadIdx.x < kPlaces)
            s->counts[threadIdx.x] = 0;
    }
    if (threadIdx.x != 0)
        return;
    s->intervals = s->open = 0;
    if (first && a.skip > 1)
        s->nans = s->left_out = s->whole = 0;
    else
        for (u32 t = 0; t < 2 * a.pairs && s->n; t++)
            if (s->of[t] != kFound)
                put_rank(s, found, a.key.least, t, next[t]);
}

// After `count`: the bins of kept keys are the first digit. The last block, all of it.
template <class Key>
__device__ __noinline__ void after_count(const SelectArgs &a, SelectState *s, const Bounds<Key> &b, u64 taken, u64 *counts)
{
    const u32 warp = threadIdx.x / kWarp;
    u64 *found = keys_found(a);
    for (u32 p = warp; !s->heavy && p < a.pairs; p += blockDim.x / kWarp) {
        u64 in = 0;
#pragma unroll 16
        for (u32 i = threadIdx.x % kWarp; i < kBins; i += kWarp)
            in += __ldcg(&counts[2 * p * kBins + i]);
        in = warp_sum(in);
        if (threadIdx.x % kWarp == 0)
            s->counts[2 * p + 1] = has_bins(a) ? in : s->kept;
    }
    __syncthreads();
    if (threadIdx.x == 0)
        judge<Key>(a, s, b, taken, a.found + blockIdx.y * (u64)a.found_words);
    __syncthreads();
    next_intervals(a, s, counts, found, true);
}

template <int kBytes, template <class> class Count> __global__ void __launch_bounds__(kSelectThreads, 4)
    count_line(const __grid_constant__ SelectArgs a)
{
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    __shared__ Bounds<Key> bounds;
    __shared__ Key queues[kSelectThreads / kWarp][kQueued<kBytes>][kWarp];
    constexpr bool kByCells = Count<K>::kBrackets > 1 && kBytes >= 4;
    constexpr u32 kColumns = Count<K>::kColumns * kWarp;
    __shared__ u32 counts[kByCells && kCells > kColumns ? kCells : kColumns]; // or the table of cells
    wait_for_previous_pass();
    let_next_pass_start();
    if (!asked_for(a))
        return;
    const SelectRooms<Key> rooms(a, blockIdx.y);
    SelectState *s = rooms.state;
    Key *const kept = a.skip > 1 ? NULL : rooms.kept;
    Queue<Key, kQueued<kBytes>, kBatch<kBytes>> queue(queues[threadIdx.x / kWarp]);
    if (s->heavy) {
        sort_bounds<Key>(a, s, K::kTop, &bounds);
        for (u32 i = threadIdx.x; i < kColumns; i += blockDim.x)
            counts[i] = 0;
        __syncthreads();
        Count<K> count(a, bounds, counts);
        count_and_keep<kBytes>(a, s, queue, kept, count);
        count.leave(s, counts);
    } else {
        bool counted = false;
        if constexpr (kByCells) {
            __shared__ CellRoom<kBytes> room;
            counted = count_by_cells<kBytes>(a, s, queue, kept, &room, counts);
        }
        if (!counted) {
            CountLight<K, Count<K>::kBrackets> count(a, s);
            count_and_keep<kBytes>(a, s, queue, kept, count);
            count.leave(s);
        }
    }
    if (last_of_line(&s->arrived))
        after_count<Key>(a, s, bounds, elements_taken(LineView<kBytes>(a, blockIdx.y), a.skip), rooms.counts);
}

// Kept keys of a block at once: many, since each block adds its bins to those of the line
constexpr u32 kKeptOfThread = 16, kKeptOfBlock = kKeptOfThread * kSelectThreads;

template <class Key, class Take> __device__ __forceinline__ void each_kept(const Key *kept, u64 n, Take take)
{
    constexpr u32 kAtOnce = 8;
    for (u32 first = threadIdx.x; first < kKeptOfBlock && first < n; first += kAtOnce * kSelectThreads) {
        Key keys[kAtOnce];
#pragma unroll
        for (u32 i = 0; i < kAtOnce; i++) {
            const u64 at = first + i * kSelectThreads;
            keys[i] = __ldcg(&kept[at < n ? at : n - 1]);
        }
#pragma unroll
        for (u32 i = 0; i < kAtOnce; i++)
            if (first + i * kSelectThreads < n)
                take(keys[i]);
    }
}

template <int kBytes> __global__ void __launch_bounds__(kSelectThreads) count_digits(const __grid_constant__ SelectArgs a)
{
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    struct Interval {
        Key low, width;
        u32 shift, state, room;
    };
    RK_DYNAMIC_SHARED(u32, bins); // kBins for each of the first kSharedIntervals
    __shared__ Interval interval[kRanks];
    wait_for_previous_pass();
    let_next_pass_start();
    const SelectRooms<Key> rooms(a, blockIdx.y);
    SelectState *s = rooms.state;
    if (s->open == 0)
        return;
    if (!s->whole && (u64)blockIdx.x * kKeptOfBlock >= s->kept) { // nothing is left to this block
        if (last_of_line(&s->arrived))
            next_intervals(a, s, rooms.counts, keys_found(a), false);
        return;
    }
    const u32 n = s->intervals, shared = n < kSharedIntervals ? n : kSharedIntervals;
    bool counts_any = false;
    if (threadIdx.x < n) {
        const SelectInterval &x = s->interval[threadIdx.x];
        interval[threadIdx.x] = {(Key)x.low, (Key)x.width, x.shift, x.state, x.room};
        counts_any = x.state == kCounts;
    }
    counts_any = __syncthreads_or(counts_any);
    for (u32 i = threadIdx.x; counts_any && i < shared * kBins; i += blockDim.x)
        bins[i] = 0;
    __syncthreads();
    const K rule(a.key);
    auto take = [&](Key key) {
        for (u32 i = 0; i < n; i++) {
            const Interval &x = interval[i];
            const Key off = key - x.low;
            if (off > x.width)
                continue;
            const u32 bin = (u32)(off >> x.shift);
            if (x.state == kCollects) {
                const u32 at = atomicAdd(&s->interval[i].collected, 1u);
                if (at < a.most)
                    rooms.collected[x.room * a.most + at] = key;
            } else if (x.state == kCounts) {
                if (i < kSharedIntervals)
                    atomicAdd(&bins[i * kBins + bin], 1u);
                else
                    atomicAdd(&rooms.counts[x.room * kBins + scattered(bin)], 1ull);
            }
        }
    };
    if (s->whole) {
        const LineView<kBytes> line(a, blockIdx.y);
        each_of_line<kBytes>(
            line,
            [&](typename K::Bits bits, bool counts, u64) {
                const Key key = rule.of(bits);
                if (counts && !rule.nan(key))
                    take(key);
            },
            [] {}, a.skip);
    } else {
        for (u64 first = (u64)blockIdx.x * kKeptOfBlock; first < s->kept; first += (u64)gridDim.x * kKeptOfBlock)
            each_kept(rooms.kept + first, s->kept - first, take);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; counts_any && i < shared * kBins; i += blockDim.x)
        if (bins[i])
            atomicAdd(&rooms.counts[interval[i / kBins].room * kBins + scattered(i % kBins)], (u64)bins[i]);
    if (last_of_line(&s->arrived))
        next_intervals(a, s, rooms.counts, keys_found(a), false);
}

// ---- last ----

template <int kBytes> __global__ void __launch_bounds__(kSampleThreads) select_last(const __grid_constant__ SelectArgs a)
{
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    constexpr int kKeys = kCollected / kSampleThreads;
    __shared__ typename BlockTeam<Key>::Room room;
    wait_for_previous_pass();
    let_next_pass_start();
    const SelectRooms<Key> rooms(a, blockIdx.y);
    const SelectState *s = rooms.state;
    if (s->n == 0 || blockIdx.x >= s->intervals)
        return;
    const SelectInterval &x = s->interval[blockIdx.x];
    const K rule(a.key);
    BlockTeam<Key> team = {room};
    Key keys[kKeys];
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        const u32 at = k * kSampleThreads + threadIdx.x;
        keys[k] = at < x.n ? (Key)(rooms.collected[x.room * a.most + at] - (Key)x.low) : (Key) ~(Key)0;
    }
    for (u32 t = 0; t < 2 * a.pairs; t++) {
        if (s->of[t] != blockIdx.x)
            continue;
        const bool both = t % 2 == 0 && s->of[t + 1] == blockIdx.x; // then the second rank is the same or the next one
        const u32 rank = (u32)(s->rank[t] - x.before);
        Key key, next;
        select_pair(team, keys, (Key)x.width, rank, both ? (u32)(s->rank[t + 1] - x.before) : rank, &key, &next);
        if (threadIdx.x < (both ? 2 : 1))
            keys_found(a)[t + threadIdx.x] = (Key)((threadIdx.x ? next : key) + (Key)x.low) + (u64)rule.least;
        t += both;
    }
}

} // namespace

template <int kBytes> void select_long_part(SelectKernels *k)
{
    k->brackets = find_brackets<kBytes>;
    k->count_one = count_line<kBytes, CountOne>;
    k->count_all = count_line<kBytes, CountAll>;
    k->digits = count_digits<kBytes>;
    k->last = select_last<kBytes>;
}

#define PARTS(X) X(1) X(2) X(4) X(8)
#define PART(of) template void select_long_part<of>(SelectKernels * k);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
