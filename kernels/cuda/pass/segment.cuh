// Pass 1 of the chain: a block reduces a segment of a row to one partial. If the rest is simple, the partials of a row are
// joined and finished in the same launch, by the last of its blocks (last_block.cuh). Otherwise blocks add up their words,
// where that joins them (FinishArgs.added), and the next pass finishes the row, or the last block (FinishArgs.ends).
//
// The loop is written once. An Accumulator says what is accumulated, and how:
//
//   static constexpr int kThreads, kUnroll;   block size; 16-byte loads in flight per thread
//   static constexpr int kWords;              its words of a partial at most (partial.cuh)
//   static constexpr int kBlocksPerSm;        blocks that must fit an SM: bounds the registers
//   static constexpr u32 kMaxPerThread;       elements a thread may add before its partial would stop being exact
//   static size_t shared_bytes()
//   static constexpr bool kPrepares           if true: every thread, before a tile is added, and before the row's rest
//     bool prepare(const uint4 (&tile)[kUnroll])   false: the accumulator cannot take the row; all lanes agree
//     void prepare_rest(const uint4 *vectors, u64 from, u64 to)
//   void init(void *shared, const SegmentArgs &)
//   void add_vector(uint4 v, u64 first)       16 bytes of elements; index of the first one within the row
//   static constexpr bool kTiles              if true there is, for a thread's vectors of a tile at once,
//     void add_tile(const uint4 (&tile)[kUnroll], u64 first)   kThreads vectors apart; add_vector then takes the rest
//   static constexpr Filling kFilling         what may stand where a row has no elements:
//     Bits kPadding                           kPadded: this, which adds nothing; then the rest is a tile, too
//   void add_element(const void *p, u64 index)
//   static constexpr bool kByTickets          if there is one, and true: the last tiles of a long row go by tickets
//   static constexpr bool kClears             if there is one, and true: places without elements begin as zeros, unread
//   static constexpr bool kByPointer          if there is one, and true: it leaves few registers, and hardly uses indices
//   static constexpr bool kLongVector         if there is one, and true: add_vector is much code
//   static constexpr bool kEnds               if there is one, and true: FinishArgs.ends
//   static constexpr bool kStops              if there is one, and true: `added` elements may decide a thread's result, and
//     bool stops(const SegmentArgs &, u32 added)   what it adds after that does not matter
//   bool flush_sums(...)                      if there is one, for kAddedBesideSums: moments_f32.cu
//   void flush(const SegmentArgs &, row, void *shared, u64 elements, u64 *partial)   whole block; ends with everything
//                                             written; `row` is where the row's elements begin
//
// A row is head + vectors + tail: `head` elements up to the first 16-byte boundary, then 16-byte vectors, then what is left.
// Vectors go in tiles of kThreads x kUnroll, one tile to each of the row's blocks in every round. The last tiles of a long row
// go by tickets. The blocks share the vectors that do not fill a round or a tile equally; the last block takes head and tail.
#pragma once

#include <type_traits>

#include "kernels/cuda/pass/chosen.cuh"
#include "kernels/cuda/pass/last_block.cuh"

namespace rk {

// What fills such places: nothing, a value of the accumulator's, or any element of the row once more.
enum Filling { kUnfilled, kPadded, kRepeated };

// 16 bytes of such elements.
__device__ __forceinline__ uint4 vector_of(u64 e) { return make_uint4((u32)e, (u32)(e >> 32), (u32)e, (u32)(e >> 32)); }
__device__ __forceinline__ uint4 vector_of(u32 e) { return make_uint4(e, e, e, e); }
__device__ __forceinline__ uint4 vector_of(uint16_t e) { return vector_of(e * 0x10001u); }
__device__ __forceinline__ uint4 vector_of(uint8_t e) { return vector_of(e * 0x1010101u); }

// Adds a whole tile, whose first vector of this thread begins at element `index`. It may change the tile.
template <class Accumulator, int kUnroll>
__device__ __forceinline__ void add_whole(Accumulator &acc, uint4 (&tile)[kUnroll], u64 index, u32 per_vector)
{
    if constexpr (Accumulator::kTiles) {
        acc.add_tile(tile, index);
    } else {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            acc.add_vector(tile[u], index + u * (Accumulator::kThreads * per_vector));
    }
}

template <class Accumulator, class = void> constexpr bool kCleared = false;
template <class Accumulator>
constexpr bool kCleared<Accumulator, std::void_t<decltype(Accumulator::kClears)>> = Accumulator::kClears;

// What a row's rounds of tiles leave for a block: `left` vectors from number `rest` on. Both loops below end with it.
//
// Requests it; behind it comes padding, if there is any.
template <class Accumulator, int kUnroll>
__device__ __forceinline__ void request_rest(uint4 (&next)[kUnroll], const uint4 *vectors, u64 rest, u32 left)
{
    constexpr int kThreads = Accumulator::kThreads;
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
        if (threadIdx.x + u * kThreads < left)
            next[u] = load_vector(vectors + rest + threadIdx.x + u * kThreads);
        else if constexpr (Accumulator::kFilling == kPadded)
            next[u] = vector_of(Accumulator::kPadding);
        else if constexpr (kCleared<Accumulator>)
            next[u] = make_uint4(0, 0, 0, 0);
}

// Is adding a vector so much code that a copy for each vector of a tile would take the compiler most of its time?
template <class Accumulator, class = void> constexpr bool kLong = false;
template <class Accumulator>
constexpr bool kLong<Accumulator, std::void_t<decltype(Accumulator::kLongVector)>> = Accumulator::kLongVector;

// Adds it, once requested, vector by vector. With padding it has been a tile.
template <class Accumulator, class Head, int kUnroll> __device__ __forceinline__ void
add_rest(Accumulator &acc, const uint4 (&next)[kUnroll], const uint4 *vectors, Head head, u64 rest, u32 left, u32 per_vector)
{
    constexpr int kThreads = Accumulator::kThreads;
    if constexpr (Accumulator::kFilling != kPadded) {
        if constexpr (Accumulator::kPrepares)
            acc.prepare_rest(vectors, rest, rest + left);
        const auto add = [&](uint4 v, u32 u) { acc.add_vector(v, head + (rest + threadIdx.x + u * kThreads) * per_vector); };
        if constexpr (kLong<Accumulator>) {
#pragma unroll 1
            for (u32 u = 0; threadIdx.x + u * kThreads < left; u++)
                add(chosen(next, (int)u), u);
        } else {
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                if (threadIdx.x + u * kThreads < left)
                    add(next[u], (u32)u);
        }
    }
}

// add(pointer, index) for those of a row's n elements that are before its `nvec` vectors and behind them, of which each thread
// of the last block has some.
template <class Head, class Add>
__device__ __forceinline__ void each_end(u32 log2, u64 n, const unsigned char *p, Head head, u64 nvec, Add add)
{
    const u64 tail = head + nvec * (16 >> log2);
    if (threadIdx.x < head)
        add(p + (threadIdx.x << log2), threadIdx.x);
    if (tail + threadIdx.x < n)
        add(p + ((tail + threadIdx.x) << log2), tail + threadIdx.x);
}

// The last block adds these. Returns how many elements the block has then: `elements` are those in vectors.
template <class Accumulator, class Head> __device__ __forceinline__ u64 add_ends(Accumulator &acc, const SegmentArgs &args,
                                                                                 const unsigned char *p, Head head, u64 nvec,
                                                                                 u64 elements, u32 block)
{
    if (block < gridDim.x - 1)
        return elements;
    each_end(args.element_log2, args.row_len, p, head, nvec, [&](const void *e, u64 index) { acc.add_element(e, index); });
    return elements + args.row_len - nvec * (16 >> args.element_log2);
}

// Does its loop keep its place as a pointer, not as an index?
template <class Accumulator, class = void> constexpr bool kPointer = false;
template <class Accumulator>
constexpr bool kPointer<Accumulator, std::void_t<decltype(Accumulator::kByPointer)>> = Accumulator::kByPointer;

// May its loop end early?
template <class Accumulator, class = void> constexpr bool kMayStop = false;
template <class Accumulator>
constexpr bool kMayStop<Accumulator, std::void_t<decltype(Accumulator::kStops)>> = Accumulator::kStops;

struct Nothing {
    __device__ __forceinline__ void operator()() const {}
};

// The part of the row at `p` that is block number `block`'s, added to a fresh accumulator. Returns how many elements that were.
// meanwhile(): once the first loads are under way. Whole block.
template <class Accumulator, class Meanwhile>
__device__ __forceinline__ u64 add_part_of(u32 block, Accumulator &acc, const SegmentArgs &args, const unsigned char *p,
                                           void *shared, Meanwhile meanwhile)
{
    constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll, kTile = kThreads * kUnroll;
    constexpr bool kPads = Accumulator::kFilling == kPadded;
    const u32 log2 = args.element_log2, per_vector = 16 >> log2;
    u64 head = ((16 - ((uintptr_t)p & 15)) & 15) >> log2;
    if (head > args.row_len)
        head = args.row_len;
    const uint4 *vectors = (const uint4 *)(p + (head << log2));
    const u64 nvec = (args.row_len - head) >> (4 - log2), step = (u64)gridDim.x * kTile;
    const u64 rest = args.rounds * step + block * args.share;
    const u32 left = rest < nvec ? (u32)min(nvec - rest, (u64)args.share) : 0;

    uint4 now[kUnroll], next[kUnroll];
    u64 first = block * kTile; // of the tile's vectors
    const uint4 *here = vectors + first + threadIdx.x;
    // The block's next tile; behind the last one its share of the rest, and padding.
    auto load = [&](u32 round) {
        if (round < args.rounds) {
            const uint4 *at = kPointer<Accumulator> ? here : vectors + first + threadIdx.x;
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                next[u] = load_vector(at + u * kThreads);
            return;
        }
        request_rest<Accumulator>(next, vectors, rest, left);
    };
    load(0);
    meanwhile();
    acc.init(shared, args);
    // The next tile is requested before this one is added, so loads are always in flight.
#pragma unroll 1
    for (u32 round = 0; round < args.rounds + (kPads && left); round++) {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            now[u] = next[u];
        const u64 index = head + (kPointer<Accumulator> ? (u64)(here - vectors) : first + threadIdx.x) * per_vector;
        first += step;
        here += step;
        if (round < args.rounds)
            load(round + 1);
        if constexpr (Accumulator::kPrepares)
            if (!acc.prepare(now))
                return 0;
        add_whole(acc, now, index, per_vector);
        if constexpr (kMayStop<Accumulator>)
            if (acc.stops(args, (round + 1) * kUnroll * per_vector))
                break;
    }
    add_rest(acc, next, vectors, head, rest, left, per_vector);
    return add_ends(acc, args, p, head, nvec, ((u64)args.rounds * kTile + left) * per_vector, block);
}

// This block's.
template <class Accumulator, class Meanwhile = Nothing>
__device__ __forceinline__ u64 add_part(Accumulator &acc, const SegmentArgs &args, const unsigned char *p, void *shared,
                                        Meanwhile meanwhile = {})
{
    return add_part_of(blockIdx.x, acc, args, p, shared, meanwhile);
}

// ---- tickets: parts of the last tiles of a row, which warps take one by one when they are free, so that all end at once ----
//
// A ticket is a warp's part of a tile: its lanes' vectors, kThreads apart. These tiles follow those that blocks have for
// themselves. A warp whose ticket number is >= args.tickets gets no tile. A warp takes at most args.most_tickets, as its
// accumulators hold no more. There are kDrawers counters, each in a row total of its own and for some of the blocks, because
// atomic operations on a single counter would be too slow.

// The masks of a thread's tiles, requested with them, if there are any.
template <class Accumulator, bool kMasked> struct Masks {
    static constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll;

    __device__ __forceinline__ Masks(const SegmentArgs &, const unsigned char *) {}
    __device__ __forceinline__ void request(u64) {}
    __device__ __forceinline__ void request_rest(u64, u32) {}
    __device__ __forceinline__ void advance() {}
    __device__ __forceinline__ void apply(uint4 (&)[kUnroll]) {}
    __device__ __forceinline__ u64 elements(u64 all) const { return all; }
};
template <class Accumulator> struct Masks<Accumulator, true> {
    static constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll;
    using Bits = typename Accumulator::Bits;
    using Mask = typename Width<16 / sizeof(Bits)>::Bits; // of a vector: a byte for each element

    const Mask *of_row;
    Mask now[kUnroll], next[kUnroll];
    u32 kept = 0; // elements that are not masked out, of this thread

    __device__ __forceinline__ Masks(const SegmentArgs &args, const unsigned char *p)
        : of_row((const Mask *)(args.mask + ((p - args.data) >> args.element_log2)))
    {
    }
    // Those of the tile that begins with this thread's vector `at`
    __device__ __forceinline__ void request(u64 at)
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            next[u] = __ldcs(of_row + at + u * kThreads);
    }
    __device__ __forceinline__ void request_rest(u64 rest, u32 left)
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            next[u] = threadIdx.x + u * kThreads < left ? __ldcs(of_row + rest + threadIdx.x + u * kThreads) : (Mask)0;
    }
    __device__ __forceinline__ void advance()
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            now[u] = next[u];
    }
    // Padding in place of what is masked out.
    __device__ __forceinline__ void apply(uint4 (&tile)[kUnroll])
    {
        static_assert(sizeof(Bits) == 4);
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            const u32 in = now[u];
            const auto chosen = [&](u32 bits, u32 byte) { return in & byte ? bits : Accumulator::kPadding; };
            tile[u] = make_uint4(chosen(tile[u].x, 0xffu), chosen(tile[u].y, 0xff00u), chosen(tile[u].z, 0xff0000u),
                                 chosen(tile[u].w, 0xff000000u));
            kept += __popc((((in & 0x7f7f7f7fu) + 0x7f7f7f7fu) | in) & 0x80808080u);
        }
    }
    // Those of the block. Whole block.
    __device__ __forceinline__ u64 elements(u64) const
    {
        __shared__ u32 of_warps[kThreads / kWarp];
        u64 all = 0;
        const u32 of_warp = warp_add(kept);
        if (threadIdx.x % kWarp == 0)
            of_warps[threadIdx.x / kWarp] = of_warp;
        __syncthreads();
        for (int w = 0; w < kThreads / kWarp; w++)
            all += of_warps[w];
        return all;
    }
};

// A warp's tiles, one requested after the other: its block's; those of tickets; then the block's share of the rest, which is a
// tile only if it is padded. With kMasked padding takes the place of elements that are masked out; such rows begin with a whole
// vector and end with one, and their masks are aligned likewise.
template <class Accumulator, bool kMasked = false> struct Tiles {
    static constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll, kTile = kThreads * kUnroll;
    static constexpr int kWarps = kThreads / kWarp;
    static constexpr bool kPads = Accumulator::kFilling == kPadded;

    Masks<Accumulator, kMasked> masks;
    const SegmentArgs &args;
    u32 head;             // elements before the first vector
    const uint4 *vectors; // of the row
    u64 nvec, rest;       // rest: the block's share begins here
    u32 left;             // vectors of it
    const u64 step;
    uint4 next[kUnroll];      // what was requested last
    u64 at;                   // its first vector of this thread
    u32 round = 0;            // tiles requested
    u32 ticket = ~0u, *taken; // of the first lane: the next ticket; how many each warp has taken

    // Behind the tiles that blocks have for themselves
    __device__ __forceinline__ u64 end_of_rounds() const { return args.rounds * ((u64)gridDim.x * kTile); }

    __device__ __forceinline__ Tiles(const SegmentArgs &a, const unsigned char *p)
        : masks(a, p), args(a), step((u64)gridDim.x * kTile), at(blockIdx.x * kTile + threadIdx.x)
    {
        const u32 log2 = a.element_log2;
        head = kMasked ? 0 : ((16 - ((u32)(uintptr_t)p & 15)) & 15) >> log2;
        if (head > a.row_len)
            head = (u32)a.row_len;
        vectors = (const uint4 *)(p + (head << log2));
        nvec = (a.row_len - head) >> (4 - log2);
        rest = end_of_rounds() + a.tickets / kWarps * kTile + blockIdx.x * a.share;
        left = rest < nvec ? (u32)min(nvec - rest, (u64)a.share) : 0;
        __shared__ u32 of_warps[kWarps];
        taken = of_warps;
        if (first_lane())
            taken[threadIdx.x / kWarp] = 0;
    }
    __device__ __forceinline__ u32 per_vector() const { return 16 >> args.element_log2; }
    static __device__ __forceinline__ bool first_lane() { return threadIdx.x % kWarp == 0; }

    // False: there is none. A ticket is drawn while the tile before it is added.
    __device__ __forceinline__ bool request()
    {
        bool whole = round < args.rounds;
        if (!whole) {
            const u32 number = __shfl_sync(kFullMask, ticket, 0);
            whole = number < args.tickets;
            if (whole) {
                at = end_of_rounds() + number / kWarps * kTile + number % kWarps * kWarp + threadIdx.x % kWarp;
                if (first_lane())
                    taken[threadIdx.x / kWarp]++;
            }
        }
        if (whole) {
            const uint4 *from = vectors + at;
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                next[u] = load_vector(from + u * kThreads);
            masks.request(at);
            if (++round >= args.rounds && first_lane())
                ticket = taken[threadIdx.x / kWarp] < args.most_tickets ? draw() : ~0u;
            return true;
        }
        if (round == kRested)
            return false;
        round = kRested;
        request_rest<Accumulator>(next, vectors, rest, left);
        masks.request_rest(rest, left);
        return kPads && left;
    }
    // Of the first element of this thread in the tile requested last
    __device__ __forceinline__ u64 index() const { return head + at * per_vector(); }
    // The tile requested last to `now`; the one behind it is requested. Returns whether there is one.
    __device__ __forceinline__ bool advance(uint4 (&now)[kUnroll])
    {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            now[u] = next[u];
        masks.advance();
        at += step;
        const bool more = request();
        masks.apply(now);
        return more;
    }
    // Elements of the block's tiles, once all are added. Whole block.
    __device__ __forceinline__ u64 elements() const
    {
        u64 all = (u64)args.rounds * kTile + left;
        if (args.tickets) {
            __syncthreads();
            for (int w = 0; w < kWarps; w++)
                all += taken[w] * (kWarp * kUnroll);
        }
        return masks.elements(all * per_vector());
    }

  private:
    static constexpr u32 kRested = ~0u; // `round` behind the rest

    __device__ __forceinline__ u32 draw() const
    {
        const u32 drawer = blockIdx.x % kDrawers;
        return atomicAdd(&args.totals[drawer].drawn, 1u) * kDrawers + drawer;
    }
};

// As add_part, with tickets: a loop of its own, for these take registers and time that shorter rows have not.
template <class Accumulator, class Meanwhile = Nothing>
__device__ __forceinline__ u64 add_tickets(Accumulator &acc, const SegmentArgs &args, const unsigned char *p, void *shared,
                                           Meanwhile meanwhile = {})
{
    static_assert(!Accumulator::kPrepares);
    Tiles<Accumulator> tiles(args, p);
    uint4 now[Accumulator::kUnroll];
    bool more = tiles.request();
    meanwhile();
    acc.init(shared, args);
    // The next tile is requested before this one is added, so loads are always in flight.
#pragma unroll 1
    while (more) {
        const u64 index = tiles.index();
        more = tiles.advance(now);
        add_whole(acc, now, index, tiles.per_vector());
        if constexpr (kMayStop<Accumulator>) // its lanes draw together
            if (__any_sync(kFullMask, acc.stops(args, Accumulator::kUnroll * tiles.per_vector())))
                break;
    }
    add_rest(acc, tiles.next, tiles.vectors, tiles.head, tiles.rest, tiles.left, tiles.per_vector());
    return add_ends(acc, args, p, tiles.head, tiles.nvec, tiles.elements(), blockIdx.x);
}

// Accumulators of which one block fills an SM's shared memory come in two sizes. Which one a device gets is known when code
// is made for it (Device::large_shared), so the other one is left empty there: compiling takes minutes.
template <class Accumulator> constexpr bool kUsedHere = Accumulator::kBlocksPerSm > 1 ||
                                                        (Accumulator::kThreads >= 384) == kLargeSm;

// Is this the last block of the row? Then `words`, the block's, become the row's. `partials`: the row's.
__device__ __forceinline__ bool is_last(const WordPlan &plan, RowTotal *total, u64 *partials, u64 *words)
{
    if (gridDim.x == 1)
        return true;
    add_words(plan, total, words);
    if (plan.indexed && threadIdx.x == 0)
        ((ulonglong2 *)partials)[blockIdx.x] = {words[0], words[1]};
    if (!last_of_row(total))
        return false;
    take_words(plan, total, words);
    if (plan.indexed)
        join_ranks((const ulonglong2 *)partials, gridDim.x, 1, words);
    return true;
}

// Does it go by tickets?
template <class Accumulator, class = void> constexpr bool kTickets = false;
template <class Accumulator>
constexpr bool kTickets<Accumulator, std::void_t<decltype(Accumulator::kByTickets)>> = Accumulator::kByTickets;

// Does it leave sums in a few doubles?
template <class Accumulator, class = void> constexpr bool kLeavesSums = false;
template <class Accumulator> constexpr bool kLeavesSums<Accumulator, std::void_t<decltype(&Accumulator::flush_sums)>> = true;

// Can its last block finish a row whose words are added up? By four warps (finish_moments.cuh).
template <class Accumulator, class = void> constexpr bool kEndsRows = false;
template <class Accumulator>
constexpr bool kEndsRows<Accumulator, std::void_t<decltype(Accumulator::kEnds)>> = Accumulator::kEnds &&Accumulator::kThreads >=
                                                                                   4 * kWarp;

template <class Accumulator> __global__ void __launch_bounds__(Accumulator::kThreads, Accumulator::kBlocksPerSm)
    segment_reduce(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    if constexpr (kUsedHere<Accumulator>) {
        RK_DYNAMIC_SHARED(unsigned char, shared);
        __shared__ u64 words[Accumulator::kWords + kTailWords];
        if ((!finish.light && !finish.ends) || finish.doubts) // else the last block finishes the row, and that is all
            let_next_pass_start();
        if (args.again)
            wait_for_previous_pass();
        for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
            if (is_done(finish, args.first_row + row))
                continue;
            const unsigned char *p = args.data + ((row * args.row_len) << args.element_log2);
            Accumulator acc;
            u64 elements;
            if constexpr (kTickets<Accumulator>)
                elements = add_tickets(acc, args, p, shared);
            else
                elements = add_part(acc, args, p, shared);
            u64 *of_row = partials + row * gridDim.x * finish.plan.all;
            const bool here = finish.light || finish.added;
            u64 *left = here ? words : of_row + blockIdx.x * finish.plan.all;
            bool done = false;
            if constexpr (kLeavesSums<Accumulator>)
                done = finish.added == kAddedBesideSums &&
                       acc.flush_sums(args, p, elements, words, sums_of_block(of_row, gridDim.x, blockIdx.x));
            if (!done)
                acc.flush(args, p, shared, elements, left);
            if constexpr (kLeavesSums<Accumulator>)
                if (finish.added == kAddedBesideSums && !done && threadIdx.x == 0)
                    words[finish.plan.own + kWordFlags] |= kFlagLost;
            __syncthreads(); // `shared` is free for the next row
            if (finish.added) {
                add_words(finish.plan, args.totals + row, words);
                if (finish.plan.indexed)
                    leave_pairs(finish.plan, of_row, words);
            }
            if constexpr (kEndsRows<Accumulator>) {
                if (finish.ends) {
                    if (last_of_row(args.totals + row)) {
                        if (args.tickets)
                            reset_tickets(args.totals);
                        finish_added<Accumulator::kThreads>(finish, args.totals + row, of_row, gridDim.x, args.first_row + row,
                                                            words, *(AddedRoom *)shared);
                    }
                    __syncthreads();
                    continue;
                }
            }
            const bool last = finish.light && is_last(finish.plan, args.totals + row, of_row, words);
            if (last && args.tickets)
                reset_tickets(args.totals);
            if (last && threadIdx.x < kWarp)
                finish_light(finish, args.first_row + row, words);
        }
    }
}

template <class Accumulator> SegmentKernel segment_kernel()
{
    return {segment_reduce<Accumulator>,
            Accumulator::kThreads,
            Accumulator::kUnroll,
            Accumulator::shared_bytes(),
            Accumulator::kMaxPerThread,
            NULL,
            NULL,
            NULL,
            kLeavesSums<Accumulator>,
            kTickets<Accumulator>,
            kEndsRows<Accumulator>};
}

} // namespace rk
