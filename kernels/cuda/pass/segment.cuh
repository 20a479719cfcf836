// Pass 1 of the chain: a block reduces a segment of a row to one partial. If the rest is simple, the partials of a row are
// joined and finished in the same launch, by the last of its blocks (last_block.cuh). Otherwise blocks add up their words,
// where that joins them (FinishArgs.added), and the next pass finishes the row.
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
//   bool flush_sums(...)                      if there is one, for kAddedBesideSums: moments_f32.cu
//   void flush(const SegmentArgs &, row, void *shared, u64 elements, u64 *partial)   whole block; ends with everything
//                                             written; `row` is where the row's elements begin
//
// A row is head + vectors + tail: `head` elements up to the first 16-byte boundary, then 16-byte vectors, then what is left.
// Vectors go in tiles of kThreads x kUnroll, one tile to each of the row's blocks in every round. The last tiles of a long row
// go by tickets. The blocks share the vectors that do not fill a round or a tile equally; the last block takes head and tail.
#pragma once

#include <type_traits>

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
}

// Adds it, once requested, vector by vector. With padding it has been a tile.
template <class Accumulator, class Head, int kUnroll> __device__ __forceinline__ void
add_rest(Accumulator &acc, const uint4 (&next)[kUnroll], const uint4 *vectors, Head head, u64 rest, u32 left, u32 per_vector)
{
    constexpr int kThreads = Accumulator::kThreads;
    if constexpr (Accumulator::kFilling != kPadded) {
        if constexpr (Accumulator::kPrepares)
            acc.prepare_rest(vectors, rest, rest + left);
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            if (threadIdx.x + u * kThreads < left)
                acc.add_vector(next[u], head + (rest + threadIdx.x + u * kThreads) * per_vector);
    }
}

// The last block adds the elements before the row's `nvec` vectors and behind them. Returns how many the block has then:
// `elements` are those in vectors.
template <class Accumulator, class Head>
__device__ __forceinline__ u64 add_ends(Accumulator &acc, const SegmentArgs &args, const unsigned char *p, u32 log2,
                                        u32 per_vector, Head head, u64 nvec, u64 elements)
{
    if (blockIdx.x < gridDim.x - 1)
        return elements;
    const u64 tail = head + nvec * per_vector;
    if (threadIdx.x < head)
        acc.add_element(p + (threadIdx.x << log2), threadIdx.x);
    if (tail + threadIdx.x < args.row_len)
        acc.add_element(p + ((tail + threadIdx.x) << log2), tail + threadIdx.x);
    return elements + head + args.row_len - tail;
}

// The block's part of the row at `p`, added to a fresh accumulator. Returns how many elements that were. Whole block.
template <class Accumulator>
__device__ __forceinline__ u64 add_part(Accumulator &acc, const SegmentArgs &args, const unsigned char *p, void *shared)
{
    constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll, kTile = kThreads * kUnroll;
    constexpr bool kPads = Accumulator::kFilling == kPadded;
    const u32 log2 = args.element_log2, per_vector = 16 >> log2;
    u64 head = ((16 - ((uintptr_t)p & 15)) & 15) >> log2;
    if (head > args.row_len)
        head = args.row_len;
    const uint4 *vectors = (const uint4 *)(p + (head << log2));
    const u64 nvec = (args.row_len - head) >> (4 - log2), step = (u64)gridDim.x * kTile;
    const u64 rest = args.rounds * step + blockIdx.x * args.share;
    const u32 left = rest < nvec ? (u32)min(nvec - rest, (u64)args.share) : 0;

    uint4 now[kUnroll], next[kUnroll];
    u64 first = blockIdx.x * kTile; // of the tile's vectors
    // The block's next tile; behind the last one its share of the rest, and padding.
    auto load = [&](u32 round) {
        if (round < args.rounds) {
            const uint4 *at = vectors + first + threadIdx.x;
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                next[u] = load_vector(at + u * kThreads);
            return;
        }
        request_rest<Accumulator>(next, vectors, rest, left);
    };
    load(0);
    acc.init(shared, args);
    // The next tile is requested before this one is added, so loads are always in flight.
#pragma unroll 1
    for (u32 round = 0; round < args.rounds + (kPads && left); round++) {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            now[u] = next[u];
        const u64 index = head + (first + threadIdx.x) * per_vector;
        first += step;
        if (round < args.rounds)
            load(round + 1);
        if constexpr (Accumulator::kPrepares)
            if (!acc.prepare(now))
                return 0;
        add_whole(acc, now, index, per_vector);
    }
    add_rest(acc, next, vectors, head, rest, left, per_vector);
    return add_ends(acc, args, p, log2, per_vector, head, nvec, ((u64)args.rounds * kTile + left) * per_vector);
}

// ---- tickets: parts of the last tiles of a row, which warps take as they come to it, so that all end at once ----
//
// A ticket is a warp's part of a tile: its lanes' vectors, kThreads apart. These tiles follow those that blocks have for
// themselves. Who draws beyond args.tickets gets none, and no warp takes more than args.most_tickets, for its threads'
// accumulators. There are kDrawers numbers to draw from, each for a part of the blocks, and each in a row total of its own: one
// alone would be asked too often.

__device__ __forceinline__ u32 draw(const SegmentArgs &args)
{
    const u32 drawer = blockIdx.x % kDrawers;
    return atomicAdd(&args.totals[drawer].drawn, 1u) * kDrawers + drawer;
}

// Number of the first vector behind the tiles that blocks have for themselves; of this lane's first one of a ticket
template <class Accumulator> __device__ __forceinline__ u64 end_of_rounds(const SegmentArgs &args)
{
    return args.rounds * ((u64)gridDim.x * (Accumulator::kThreads * Accumulator::kUnroll));
}
template <class Accumulator> __device__ __forceinline__ u64 vector_of_ticket(const SegmentArgs &args, u32 ticket)
{
    constexpr u32 kTile = Accumulator::kThreads * Accumulator::kUnroll, kWarps = Accumulator::kThreads / kWarp;
    return end_of_rounds<Accumulator>(args) + ticket / kWarps * kTile + ticket % kWarps * kWarp + threadIdx.x % kWarp;
}

// The tickets that warps have drawn, if somebody wants to know: each has room for args.most_tickets in `lists`
struct Drawn {
    u32 *lists;
    u32 count; // of this warp

    template <int kThreads> __device__ __forceinline__ u32 *of_warp(const SegmentArgs &args) const
    {
        return lists + (blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp) * args.most_tickets;
    }
};

// Once more what the warp has drawn.
template <class Accumulator>
__device__ __forceinline__ void add_drawn(Accumulator &acc, const SegmentArgs &args, const uint4 *vectors, const Drawn &drawn)
{
    for (u32 i = 0; i < drawn.count; i++) {
        const uint4 *from = vectors + vector_of_ticket<Accumulator>(
                                          args, __ldcg(&drawn.template of_warp<Accumulator::kThreads>(args)[i]));
        uint4 tile[Accumulator::kUnroll];
#pragma unroll
        for (int u = 0; u < Accumulator::kUnroll; u++)
            tile[u] = from[u * Accumulator::kThreads];
        if constexpr (Accumulator::kPrepares)
            acc.prepare(tile);
        add_whole(acc, tile, 0, 16 >> args.element_log2);
    }
}

// As add_part, with tickets: a loop of its own, for these take registers and time that shorter rows have not. `drawn`:
// gets what the warp draws; with kAgain those are added first.
template <class Accumulator, bool kNoted = false, bool kAgain = false>
__device__ __forceinline__ u64 add_tickets(Accumulator &acc, const SegmentArgs &args, const unsigned char *p, void *shared,
                                           Drawn *drawn = NULL)
{
    constexpr int kThreads = Accumulator::kThreads, kUnroll = Accumulator::kUnroll, kTile = kThreads * kUnroll;
    constexpr int kWarps = kThreads / kWarp;
    constexpr bool kPads = Accumulator::kFilling == kPadded;
    const u32 log2 = args.element_log2, per_vector = 16 >> log2;
    u32 head = ((16 - ((u32)(uintptr_t)p & 15)) & 15) >> log2;
    if (head > args.row_len)
        head = (u32)args.row_len;
    const uint4 *vectors = (const uint4 *)(p + (head << log2));
    const u64 nvec = (args.row_len - head) >> (4 - log2), step = (u64)gridDim.x * kTile;
    const u64 rest = end_of_rounds<Accumulator>(args) + args.tickets / kWarps * kTile + blockIdx.x * args.share;
    const u32 left = rest < nvec ? (u32)min(nvec - rest, (u64)args.share) : 0;
    __shared__ u32 taken[kWarps]; // tickets, by the warp's first lane
    u32 &mine = taken[threadIdx.x / kWarp];
    const bool first_lane = threadIdx.x % kWarp == 0;

    uint4 now[kUnroll], next[kUnroll];
    u64 at = blockIdx.x * kTile + threadIdx.x; // this thread's first vector of the next tile
    u32 round = 0, ticket = ~0u;               // ticket: of the first lane, the next one
    bool rested = false;
    if (first_lane)
        mine = kAgain ? drawn->count : 0;
    auto take = [&](u32 number) {
        if (!first_lane)
            return;
        if (kNoted)
            drawn->template of_warp<kThreads>(args)[mine] = number;
        mine++;
    };
    // Requests the warp's next tile: the block's; a ticket's; behind those the block's share of the rest, and padding. False:
    // there is none. A ticket is drawn while the tile before it is added.
    auto request = [&]() {
        bool whole = round < args.rounds;
        if (!whole) {
            const u32 number = __shfl_sync(kFullMask, ticket, 0);
            whole = number < args.tickets;
            if (whole) {
                at = vector_of_ticket<Accumulator>(args, number);
                take(number);
            }
        }
        if (whole) {
            const uint4 *from = vectors + at;
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                next[u] = load_vector(from + u * kThreads);
            if (++round >= args.rounds && first_lane)
                ticket = mine < args.most_tickets ? draw(args) : ~0u;
            return true;
        }
        request_rest<Accumulator>(next, vectors, rest, left);
        const bool padded = kPads && left && !rested;
        rested = true;
        return padded;
    };
    bool more = request();
    acc.init(shared, args);
    if constexpr (kAgain)
        add_drawn(acc, args, vectors, *drawn);
        // The next tile is requested before this one is added, so loads are always in flight.
#pragma unroll 1
    while (more) {
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            now[u] = next[u];
        const u64 index = head + at * per_vector;
        at += step;
        more = request();
        if constexpr (Accumulator::kPrepares)
            if (!acc.prepare(now)) { // a ticket may be drawn, and not yet looked at
                if (first_lane && ticket < args.tickets)
                    take(ticket);
                break;
            }
        add_whole(acc, now, index, per_vector);
    }
    add_rest(acc, next, vectors, head, rest, left, per_vector);
    u64 elements = ((u64)args.rounds * kTile + left) * per_vector;
    if (args.tickets) {
        __syncthreads();
        if constexpr (kNoted)
            drawn->count = mine;
        for (int w = 0; w < kWarps; w++)
            elements += taken[w] * (kWarp * kUnroll * per_vector);
    }
    return add_ends(acc, args, p, log2, per_vector, head, nvec, elements);
}

// Accumulators of which one block fills an SM's shared memory come in two sizes. Which one a device gets is known when code
// is made for it (Device::large_shared), so the other one is left empty there: compiling takes minutes.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ / 100 == 9 || __CUDA_ARCH__ / 100 == 10)
constexpr bool kLargeShared = true;
#else
constexpr bool kLargeShared = false;
#endif
template <class Accumulator> constexpr bool kUsedHere = Accumulator::kBlocksPerSm > 1 ||
                                                        (Accumulator::kThreads >= 384) == kLargeShared;

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
template <class Accumulator> constexpr bool kTickets<Accumulator, std::enable_if_t<Accumulator::kByTickets>> = true;

// Does it leave sums in a few doubles?
template <class Accumulator, class = void> constexpr bool kLeavesSums = false;
template <class Accumulator> constexpr bool kLeavesSums<Accumulator, std::void_t<decltype(&Accumulator::flush_sums)>> = true;

template <class Accumulator> __global__ void __launch_bounds__(Accumulator::kThreads, Accumulator::kBlocksPerSm)
    segment_reduce(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    if constexpr (kUsedHere<Accumulator>) {
        RK_DYNAMIC_SHARED(unsigned char, shared);
        __shared__ u64 words[Accumulator::kWords + kTailWords];
        if (!finish.light) // else the last block finishes the row
            let_next_pass_start();
        for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y) {
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
            kTickets<Accumulator>};
}

} // namespace rk
