// Selection in long lines, of elements of each size: the launches that select_args.h describes. blockIdx.y is the line.
#include "kernels/cuda/pass/select_digits.cuh"
#include "kernels/cuda/pass/select_next.cuh"

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

// All states and counts are zero. Brackets' blocks take their samples meanwhile.
__global__ void __launch_bounds__(kSampleThreads) clear_lines(const __grid_constant__ SelectArgs a)
{
    let_next_pass_start();
    const u64 states = a.lines * (sizeof(SelectState) / sizeof(u64)), counts = a.lines * 2 * a.pairs * kBins;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < states + counts; i += (u64)gridDim.x * blockDim.x)
        (i < states ? (u64 *)a.states + i : a.counts + (i - states))[0] = 0;
}

// Each rank has a.samples blocks: end 2 p of its bracket is below pair p with near certainty, end 2 p + 1 above it.
template <int kBytes> __global__ void __launch_bounds__(kBracketThreads, 2) find_brackets(const __grid_constant__ SelectArgs a)
{
    let_next_pass_start();
    if (!asked_for(a)) {
        wait_for_previous_pass(); // no later launch may overtake it
        return;
    }
    using K = Keys<kBytes>;
    using Key = typename K::Key;
    constexpr u32 kSampleLog2 = 13, kSample = 1 << kSampleLog2, kHeavy = kSample / 256;
    static_assert(kSample == kSampleKeys * kBracketThreads && kRanks <= kBracketThreads / kWarp,
                  "all threads have as many keys");
    __shared__ typename BlockTeam<Key>::Room room;
    const K rule(a.key);
    const LineView<kBytes> line(a, blockIdx.y);
    BlockTeam<Key> team = {room};
    Key keys[kSampleKeys];
    u32 counted = 0;
    const u32 t = blockIdx.x / a.samples, sample = blockIdx.x % a.samples; // the rank: side t % 2 of its pair
#pragma unroll
    for (int k = 0; k < kSampleKeys; k++) { // two neighbours of each place: reading takes longest
        const u64 place = sample_place(a.n, kSampleLog2 - 1, k / 2 * kBracketThreads + threadIdx.x, sample),
                  at = place + k % 2 - (place + 1 == a.n);
        const Key key = rule.of(line.at(at));
        const bool in = !rule.nan(key) && line.counts(at);
        keys[k] = in ? key : (Key) ~(Key)0;
        counted += in;
    }
    counted = team.sum(counted);
    const SelectRooms<Key> rooms(a, blockIdx.y);
    const double scale = (double)kSample / (double)a.n;
    RankPair ranks = a.rules[t / 2].all;
    if (counted && counted != kSample)
        ranks = ranks_of(a.rules[t / 2].rule, (u64)((double)counted / scale));
    Key bound = t % 2 ? rule.range : (Key)0;
    const double place = (double)(t % 2 ? ranks.second : ranks.first) * scale, off = doubt(place, kSample, a.samples);
    const double at = t % 2 ? place + off : place - off;
    bool heavy = false;
    if (at >= 0 && at < counted) {
        Key same;
        select_pair(team, keys, K::kTop, (u32)at, (u32)at, &bound, &same);
        u32 equal = 0;
#pragma unroll
        for (int k = 0; k < kSampleKeys; k++)
            equal += keys[k] == bound;
        heavy = team.sum(equal) > kHeavy;
    }
    if (threadIdx.x == 0)
        rooms.collected[t * a.most + sample] = bound;
    wait_for_previous_pass();
    if (threadIdx.x == 0 && heavy)
        atomicOr(&rooms.state->heavy, 1u);
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
    static constexpr bool kNear = false, kHot = false;
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
    static constexpr bool kNear = false, kHot = false;
    Key low, high;
    u32 below, lows, highs, kept;
    const SelectArgs &a;

    __device__ __forceinline__ CountOne(const SelectArgs &args, const Bounds<Key> &b, u32 *, typename K::Bits)
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

// Several pairs: a binary search for the key's place, whose count each lane has in a bank of its own. If most of a sample is
// one or two ends of brackets, vectors that have nothing else are counted in registers.
template <class K> struct CountAll {
    using Key = typename K::Key;
    using Bits = typename K::Bits;
    static constexpr u32 kColumns = kPlaces, kBrackets = kMostPairs;
    static constexpr bool kNear = false, kHot = true;
    const Bounds<Key> &b;
    u32 *columns;
    u32 inside;
    const SelectArgs &a;
    Bits hot[2];
    u32 hots[2];
    bool any, two; // of them

    // `some`: an element of a sample. Whole warp.
    __device__ __forceinline__ CountAll(const SelectArgs &args, const Bounds<Key> &bounds, u32 *counts, Bits some)
        : b(bounds), columns(counts + threadIdx.x % kWarp), inside(bounds.kept), a(args), hots{0, 0}
    {
        const Key key = K(a.key).of(some);
        const u32 i = reached(key), of_some = (u32)__popc(__match_any_sync(kFullMask, some));
        const u32 same = i && b.at[i - 1] == key ? of_some : 0;
        const u32 first = warp_max(same);
        hot[0] = __shfl_sync(kFullMask, some, __ffs(__ballot_sync(kFullMask, same == first)) - 1);
        const u32 other = some == hot[0] ? 0 : same, second = warp_max(other);
        hot[1] = __shfl_sync(kFullMask, some, __ffs(__ballot_sync(kFullMask, other == second)) - 1);
        any = first + second > kWarp * 3 / 4;
        two = second != 0;
    }
    // Has the vector nothing else?
    __device__ __forceinline__ bool passes(uint4 x)
    {
        constexpr int kBytes = sizeof(Bits);
        if (!any)
            return false;
        u32 n[2] = {0, 0};
        each_element<kBytes>(x, [&](Bits bits, int) {
            n[0] += bits == hot[0];
            n[1] += bits == hot[1];
        });
        n[1] = two ? n[1] : 0;
        const bool all = n[0] + n[1] == 16 / kBytes;
        hots[0] += all ? n[0] : 0;
        hots[1] += all ? n[1] : 0;
        return all;
    }
    // How many ends the key reaches
    __device__ __forceinline__ u32 reached(Key key) const
    {
        u32 i = key >= b.at[7] ? 8 : 0;
        i += key >= b.at[i + 3] ? 4 : 0;
        i += key >= b.at[i + 1] ? 2 : 0;
        return i + (key >= b.at[i] ? 1 : 0);
    }
    // Counts n elements of one key. Are they inside?
    __device__ __forceinline__ bool add(Key key, u32 n = 1)
    {
        const u32 i = reached(key);
        const bool equal = i && b.at[i - 1] == key;
        atomicAdd(&columns[(2 * i - equal) * kWarp], n);
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
        for (u32 i = 0; any && i < 2; i++)
            add(K(a.key).of(hot[i]), hots[i]);
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
    const LineView<kBytes> line(a, blockIdx.y);
    u32 nans = 0, out = 0;
    auto take = [&](typename Keys<kBytes>::Bits bits, bool counts_too) {
        if (!counts_too) {
            out++;
            return;
        }
        const auto key = rule.of(bits);
        add_if_less(nans, rule.range, key);
        if (count.add(key))
            queue.push(key);
    };
    each_vector_of_line<kBytes>(
        line,
        [&](uint4 x, bool masked, u64 v) {
            if constexpr (Count::kHot)
                if (!masked && count.passes(x))
                    return;
            const u64 place = line.place(v);
            each_element<kBytes>(
                x, [&](typename Keys<kBytes>::Bits bits, int e) { take(bits, !masked || line.mask[place + e] != 0); });
        },
        [&](u64 place) { take(line.at(place), line.counts(place)); }, [&] { queue.make_room(&s->kept, kept, a.room, count); },
        a.skip);
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
    const auto some = line.at(sample_place(a.n, 8, threadIdx.x, blockIdx.x));
    if (threadIdx.x < kWarp)
        map_brackets<kBytes>(a, s->bounds, room);
    __syncthreads();
    if (!room->apart)
        return false;
    make_table<kBytes>(a, *room, table);
    __syncthreads();
    CountCells<kBytes> count(a, room->map, *room, table);
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
    const bool heavy = s->heavy;
    if (heavy) {
        sort_bounds<Key>(a, s, K::kTop, &bounds);
        for (u32 i = threadIdx.x; i < kColumns; i += blockDim.x)
            counts[i] = 0;
        __syncthreads();
        const LineView<kBytes> line(a, blockIdx.y);
        Count<K> count(a, bounds, counts, line.at(sample_place(a.n, 8, threadIdx.x, blockIdx.x)));
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
        after_count<Key>(a, s, heavy, bounds, elements_taken(LineView<kBytes>(a, blockIdx.y), a.skip), rooms.counts);
}

// Kept keys of a block at once: many, since each block adds its bins to those of the line
constexpr u32 kKeptOfThread = 16, kKeptOfBlock = kKeptOfThread * kSelectThreads, kKeptAtOnce = 8;

// The block's part of n kept keys: take(keys, how many of them are)
template <class Key, class Take> __device__ __forceinline__ void each_kept(const Key *kept, u64 n, Take take)
{
    for (u32 first = threadIdx.x; first < kKeptOfBlock && first < n; first += kKeptAtOnce * kSelectThreads) {
        Key keys[kKeptAtOnce];
#pragma unroll
        for (u32 i = 0; i < kKeptAtOnce; i++) {
            const u64 at = first + i * kSelectThreads;
            keys[i] = __ldcg(&kept[at < n ? at : n - 1]);
        }
        const u64 are = (n - first + kSelectThreads - 1) / kSelectThreads;
        take(keys, are < kKeptAtOnce ? (u32)are : kKeptAtOnce);
    }
}

// Blocks at once on a multiprocessor, which have room for their bins in its shared memory
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800
template <int kBytes> constexpr int kDigitBlocks = 4; // it has 1024 threads at most
#else
template <int kBytes> constexpr int kDigitBlocks = kBytes == 8 ? 4 : 5;
#endif

template <int kBytes> __global__ void __launch_bounds__(kSelectThreads, kDigitBlocks<kBytes>)
    count_digits(const __grid_constant__ SelectArgs a)
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
    const u32 open = s->open, n = s->intervals, whole = s->whole;
    const u64 all_kept = s->kept;
    if (open == 0)
        return;
    bool counts_any = false;
    if (threadIdx.x < n) {
        const SelectInterval &x = s->interval[threadIdx.x];
        interval[threadIdx.x] = {(Key)x.low, (Key)x.width, x.shift, x.state, x.room};
        counts_any = x.state == kCounts;
    }
    counts_any = __syncthreads_or(counts_any);
    const u32 shared = !counts_any ? 0 : n < kSharedIntervals ? n : kSharedIntervals;
    if (whole || (u64)blockIdx.x * kKeptOfBlock < all_kept) {
        for (u32 i = threadIdx.x; i < shared * kBins; i += blockDim.x)
            bins[i] = 0;
        __syncthreads();
        const K rule(a.key);
        auto take = [&](u32 i, const Interval &x, Key key) {
            const u32 bin = (u32)((Key)(key - x.low) >> x.shift);
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
        };
        if (whole) {
            each_of_line<kBytes>(
                LineView<kBytes>(a, blockIdx.y),
                [&](typename K::Bits bits, bool counts, u64) {
                    const Key key = rule.of(bits);
                    for (u32 i = 0; i < n && counts && !rule.nan(key); i++)
                        if ((Key)(key - interval[i].low) <= interval[i].width)
                            take(i, interval[i], key);
                },
                [] {}, a.skip);
        } else {
            auto take_some = [&](const Key(&keys)[kKeptAtOnce], u32 are) {
                for (u32 i = 0; i < n; i++) {
                    const Interval x = interval[i];
                    bool any = false;
#pragma unroll
                    for (u32 k = 0; k < kKeptAtOnce; k++)
                        any |= (Key)(keys[k] - x.low) <= x.width;
                    if (!any) // most often
                        continue;
#pragma unroll
                    for (u32 k = 0; k < kKeptAtOnce; k++)
                        if (k < are && (Key)(keys[k] - x.low) <= x.width)
                            take(i, x, keys[k]);
                }
            };
            for (u64 first = (u64)blockIdx.x * kKeptOfBlock; first < all_kept; first += (u64)gridDim.x * kKeptOfBlock)
                each_kept(rooms.kept + first, all_kept - first, take_some);
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < shared * kBins; i += blockDim.x)
            if (bins[i])
                atomicAdd(&rooms.counts[interval[i / kBins].room * kBins + scattered(i % kBins)], (u64)bins[i]);
    }
    if (!last_of_line(&s->arrived))
        return;
    if (counts_any)
        after_digits(a, s, rooms.counts);
    else if (threadIdx.x == 0)
        s->open = 0;
}

// ---- last ----

constexpr u32 kRanked = 512; // keys, as a rule fewer are collected: each finds its place by comparing with all

// Whole block
template <class Key> __device__ __forceinline__ void rank_keys(const SelectArgs &a, const SelectState *s,
                                                               const SelectInterval &x, const Key *collected, Key *keys)
{
    const u32 t = threadIdx.x, n = (u32)x.n;
    const Key own = t < n ? collected[t] : (Key)0;
    if (t < n)
        keys[t] = own;
    __syncthreads();
    if (t >= n)
        return;
    u32 before = 0;
#pragma unroll 8
    for (u32 i = 0; i < n; i++)
        before += keys[i] < own || (keys[i] == own && i < t);
    for (u32 r = 0; r < 2 * a.pairs; r++)
        if (s->of[r] == blockIdx.x && s->rank[r] - x.before == before)
            keys_found(a)[r] = (u64)own + a.key.least;
}

template <int kBytes> __global__ void __launch_bounds__(kSampleThreads) select_last(const __grid_constant__ SelectArgs a)
{
    using Key = typename Keys<kBytes>::Key;
    constexpr int kKeys = kCollected / kSampleThreads;
    __shared__ typename BlockTeam<Key>::Room room;
    __shared__ Key few[kRanked];
    wait_for_previous_pass();
    let_next_pass_start();
    const SelectRooms<Key> rooms(a, blockIdx.y);
    const SelectState *s = rooms.state;
    if (s->n == 0 || blockIdx.x >= s->intervals)
        return;
    const SelectInterval &x = s->interval[blockIdx.x];
    const Key *const collected = rooms.collected + x.room * a.most;
    if (x.n <= kRanked) {
        rank_keys<Key>(a, s, x, collected, few);
        return;
    }
    BlockTeam<Key> team = {room};
    Key keys[kKeys];
#pragma unroll
    for (int k = 0; k < kKeys; k++) {
        const u32 at = k * kSampleThreads + threadIdx.x;
        keys[k] = at < x.n ? (Key)(collected[at] - (Key)x.low) : (Key) ~(Key)0;
    }
    for (u32 t = 0; t < 2 * a.pairs; t++) {
        if (s->of[t] != blockIdx.x)
            continue;
        const bool both = t % 2 == 0 && s->of[t + 1] == blockIdx.x; // then the second rank is the same or the next one
        const u32 rank = (u32)(s->rank[t] - x.before);
        Key key, next;
        select_pair(team, keys, (Key)x.width, rank, both ? (u32)(s->rank[t + 1] - x.before) : rank, &key, &next);
        if (threadIdx.x < (both ? 2 : 1))
            keys_found(a)[t + threadIdx.x] = (Key)((threadIdx.x ? next : key) + (Key)x.low) + a.key.least;
        t += both;
    }
}

} // namespace

template <int kBytes> void select_long_part(SelectKernels *k)
{
    k->clear = clear_lines;
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
