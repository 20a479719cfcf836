// Rows whose value two bounds tell mostly (value_bounds.cuh): they end in the same launch.
#pragma once

#include "kernels/cuda/exact/value_bounds.cuh"
#include "kernels/cuda/pass/list.cuh"
#include "kernels/cuda/pass/near_rows.cuh"
#include "kernels/cuda/pass/tile.cuh"

namespace rk {

// An accumulator (segment.cuh), of f32 and narrower elements
template <BoundsOf kOf, class Element, int kBlock, int kLoads> struct BoundedRow {
    static constexpr int kThreads = kBlock, kUnroll = kLoads, kPerVector = 4 * Element::kPerWord;
    static constexpr bool kPrepares = false, kTiles = false, kClears = true;
    static constexpr int kBlocksPerSm = 1; // at least
    static constexpr Filling kFilling = kUnfilled;
    using Sums = BoundedSums<kOf>;
    using Bits = std::conditional_t<Element::kPerWord == 1, u32, u16>;

    Sums sums;
    double pivot;

    // Before elements are added, of a row of n. The middle one of three elements: one unlike the others would cost bits.
    __device__ __forceinline__ void open(const unsigned char *p, u64 n)
    {
        if (kOf != BoundsOf::Spread)
            return;
        const auto at = [&](u64 i) { return __uint_as_float(Element::load(p + i * sizeof(Bits))); };
        const float a = at(0), b = at(n / 2), c = at(n - 1), middle = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
        pivot = fabsf(middle) < INFINITY ? (double)middle : 0;
    }
    __device__ __forceinline__ void init(void *, const SegmentArgs &) { sums.clear(); }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < kPerVector; i++)
            sums.add((double)__uint_as_float(Element::get(w[i / Element::kPerWord], i % Element::kPerWord)), pivot);
    }
    __device__ __forceinline__ void add_element(const void *p, u64)
    {
        sums.add((double)__uint_as_float(Element::load(p)), pivot);
    }
    __device__ __forceinline__ Sums ended() const { return sums; }
};

// The same of f64: not sums. kScaled: of any exponents; it takes longer to end, so it is not for tiles.
template <BoundsOf kOf, int kBlock, int kLoads, bool kScaled> struct BoundedRow64 {
    static constexpr int kThreads = kBlock, kUnroll = kLoads, kPerVector = 2;
    static constexpr bool kSpread = kOf == BoundsOf::Spread, kPrepares = false, kTiles = kSpread || kScaled, kClears = true;
    static constexpr bool kStops = true, kLongVector = kScaled;
    static constexpr int kBlocksPerSm = kSpread ? 2 : 4;
    static constexpr Filling kFilling = kScaled && !kSpread ? kPadded : kUnfilled; // a zero may be unlike a row's first element
    using Sums = std::conditional_t<kSpread, SpreadOfDoubles<kScaled>, SquaresOfDoubles<kScaled>>;
    using Bits = u64;
    static constexpr Bits kPadding = 0;
    static_assert(kLoads * kPerVector <= 16); // SpreadOfDoubles::value

    Sums sums;
    double scale;    // kScaled: of the level
    u32 begin, span; // kScaled: twice the upper words that the largest element of a tile may have, for the level
    u64 first;       // kSpread: of the row
    u32 some;        // bits of elements: is any not zero? kSpread: unlike the first one?

    __device__ __forceinline__ void open(const unsigned char *p, u64) { first = kSpread ? F64::load(p) : 0; }
    __device__ __forceinline__ void init(void *, const SegmentArgs &)
    {
        sums.clear();
        some = 0;
        if constexpr (kScaled)
            reach(kPlainLevel); // most data stay there: the code for others is cold
    }
    __device__ __forceinline__ void reach(int level)
    {
        sums.raise(level);
        scale = level_scale(level);
        begin = level_begin(level);
        span = level_end(level) - begin;
    }
    // Rare: the largest upper word of some elements, doubled, is not the level's. Nothing is lost at a higher level, nor at a
    // lower one if all elements so far are zeros.
    __device__ __forceinline__ void change(u32 twice)
    {
        const int to = level_of(twice >> 1);
        if (to > sums.at_level() || (sums.none() && twice))
            reach(to);
    }
    // Then the row has an infinity or a NaN, or, without scale, is in doubt anyway.
    __device__ __forceinline__ bool stops(const SegmentArgs &, u32) const
    {
        constexpr double kMost = kScaled ? INFINITY : 0x1p450;
        if constexpr (kSpread)
            return !(sums.squares.a < kMost);
        else
            return !(sums.a < kMost);
    }
    __device__ __forceinline__ void add(u32 low, u32 high)
    {
        const double x = __hiloint2double((int)high, (int)low);
        if (kSpread)
            some |= (low ^ (u32)first) | (high ^ (u32)(first >> 32));
        else if (!kScaled)
            some |= low | high << 1;
        sums.add(kScaled ? __dmul_rn(x, scale) : x);
    }
    template <int kCount> __device__ __forceinline__ void add_vectors(const uint4 (&v)[kCount])
    {
        u32 most = 0;
#pragma unroll
        for (int u = 0; u < kCount; u++)
            most = max(most, max(2 * v[u].y, 2 * v[u].w));
        if (kScaled && most - begin >= span)
            change(most);
#pragma unroll
        for (int u = 0; u < kCount; u++) {
            add(v[u].x, v[u].y);
            add(v[u].z, v[u].w);
        }
    }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        const uint4 one[1] = {v};
        add_vectors(one);
    }
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        add_vectors(tile);
        if constexpr (kSpread)
            sums.gather();
    }
    __device__ __forceinline__ void add_element(const void *p, u64)
    {
        const u64 bits = F64::load(p);
        const u32 high = (u32)(bits >> 32);
        if (kScaled && 2 * high - begin >= span)
            change(2 * high);
        add((u32)bits, high);
    }
    __device__ __forceinline__ Sums ended() const
    {
        Sums all = sums;
        all.end();
        if constexpr (kSpread)
            all.unlike = some != 0;
        else if (!kScaled && some && sums.a == 0) // squares that are too small to be seen leave nothing known
            all.b = NAN;
        return all;
    }
};

// The last tiles of a long row by tickets: 2^27 f64 take 2 % less (H200).
template <class Row> struct ByTickets : Row {
    static constexpr bool kByTickets = true;
};

// Those of `lanes` neighbours, to each of them
template <class Sums> __device__ __forceinline__ void join_lanes(Sums &a, int lanes)
{
    level_warp(a);
#pragma unroll 1 // short code: cold instructions cost more than a loop
    for (int d = lanes / 2; d; d >>= 1)
        a.join(a.of_lane(d));
}

// Those of all threads, to the first warp. Whole block.
template <int kWarps, class Sums> __device__ __forceinline__ Sums join_to_first_warp(Sums a)
{
    __shared__ Sums of_warp[kWarps];
    join_lanes(a, kWarp);
    if (threadIdx.x % kWarp == 0)
        of_warp[threadIdx.x / kWarp] = a;
    __syncthreads();
    if (threadIdx.x >= kWarp)
        return a;
    const u32 of = threadIdx.x % kLanesOfWarps<kWarps>;
    a.clear();
    if (of < kWarps)
        a = of_warp[of];
    join_lanes(a, kLanesOfWarps<kWarps>);
    return a;
}

// How many additions an element of a block goes through at most, with those of warps and of blocks
template <class Row> __device__ __forceinline__ u32 most_added(u32 tiles)
{
    return tiles * (Row::kUnroll * Row::kPerVector) + 2 + 5 + 5 + gridDim.x / Row::kThreads + 1 + 5 + 5;
}

// Writes the value of n elements, if the bounds agree. By a warp, whose first two lanes have the sums.
template <class Sums>
__device__ __forceinline__ bool write_bounded(const FinishArgs &a, u64 row, const Sums &sums, u64 n, u32 added)
{
    double v;
    const bool some = sums.value(a.spec, n, added, &v);
    const u64 bits = rounded_bits(v, a.spec.out), other = __shfl_xor_sync(kFullMask, bits, 1);
    if (threadIdx.x == 0) // what is not certain is written over
        write_bits(a.cell_bytes, a.cells, row, bits);
    return (__ballot_sync(kFullMask, some && bits == other) & 3) == 3;
}

// The sums of all blocks of a row, to the first warp of the last one. `left`: room for those of each. False: other blocks are
// still to come. Whole block.
template <int kWarps, class Sums> __device__ __forceinline__ bool join_blocks(Sums &sums, Sums *left, RowTotal *total)
{
    if (gridDim.x == 1)
        return true;
    if (threadIdx.x == 0)
        left[blockIdx.x] = sums;
    if (!last_of_row(total))
        return false;
    Sums all;
    all.clear();
    for (u32 i = threadIdx.x; i < gridDim.x; i += kWarps * kWarp) {
        constexpr int kPairs = sizeof(Sums) / sizeof(double2);
        double2 one[kPairs];
#pragma unroll
        for (int k = 0; k < kPairs; k++)
            one[k] = __ldcg((const double2 *)&left[i] + k);
        Sums of_block = *(const Sums *)one;
        if (i == threadIdx.x) {
            all = of_block;
            continue;
        }
        level_two(all, of_block);
        all.join(of_block);
    }
    sums = join_to_first_warp<kWarps>(all);
    return true;
}

// Rare: a row whose value the bounds leave in doubt, exactly, or from the flags of its elements. Out of line, and element by
// element, so that its registers do not burden the rest, nor its code the compiler. Whole block.
template <class Any> __device__ __noinline__ void finish_again(const SegmentArgs &args, const FinishArgs &finish, u64 row,
                                                               const unsigned char *p, u32 flags)
{
    RK_DYNAMIC_SHARED(unsigned char, shared);
    __shared__ u64 words[Any::kWords + kTailWords];
    if (__syncthreads_or(flags)) {
        words_of_flags(finish.plan, args.row_len, flags, words);
    } else {
        Any any;
        any.init(shared, args);
#pragma unroll 1
        for (u64 i = threadIdx.x; i < args.row_len; i += Any::kThreads)
            any.add_element(p + (i << args.element_log2), i);
        any.flush(args, p, shared, args.row_len, words);
        __syncthreads();
    }
    if (threadIdx.x < kWarp)
        finish_row(finish, row, words, *(FinishRoom *)shared);
}

// The value of a row whose sums the first warp has. Whole block.
template <class Any, class Sums> __device__ __forceinline__ void
finish_bounded(const SegmentArgs &args, const FinishArgs &finish, u64 row, const unsigned char *p, const Sums &sums, u32 added)
{
    const bool sure = threadIdx.x >= kWarp || write_bounded(finish, row, sums, args.row_len, added);
    if (__syncthreads_or(!sure))
        finish_again<Any>(args, finish, row, p, threadIdx.x ? 0 : sums.flags());
}

// finish(row, p, sums): of each row whose last block this is. The first warp has the sums. Whole block.
template <class Row, class Finish>
__device__ __forceinline__ void each_bounded_row(const SegmentArgs &args, u64 *partials, Finish finish)
{
    using Sums = typename Row::Sums;
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y, __syncthreads()) {
        const unsigned char *p = args.data + ((row * args.row_len) << args.element_log2);
        Row part;
        const auto open = [&] { part.open(p, args.row_len); };
        if constexpr (kTickets<Row>)
            add_tickets(part, args, p, NULL, open);
        else
            add_part(part, args, p, NULL, open);
        Sums sums = join_to_first_warp<Row::kThreads / kWarp>(part.ended());
        if (!join_blocks<Row::kThreads / kWarp>(sums, (Sums *)partials + row * gridDim.x, args.totals + row))
            continue;
        if (kTickets<Row> && args.tickets)
            reset_tickets(args.totals);
        finish(args.first_row + row, p, sums);
    }
}

template <class Row, class Any> __global__ void __launch_bounds__(Any::kThreads, Any::kBlocksPerSm)
    bounded_rows(const __grid_constant__ SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    static_assert(Row::kThreads == Any::kThreads);
    if constexpr (kUsedHere<Any>)
        each_bounded_row<Row>(args, partials, [&](u64 row, const unsigned char *p, const typename Row::Sums &sums) {
            finish_bounded<Any>(args, finish, row, p, sums, most_added<Row>(args.rounds + args.most_tickets + 1));
        });
}

// A block a row of a tile or less, along y (tile.cuh). Not unrolled: cold instructions cost more than a loop.
template <class Row, class Any> __global__ void __launch_bounds__(Any::kThreads, Any::kBlocksPerSm)
    bounded_tiles(const __grid_constant__ SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *)
{
    if constexpr (kUsedHere<Any>) {
        constexpr u32 kBytes = sizeof(typename Row::Bits), kPerVector = 16 / kBytes;
        const unsigned char *p = row_of_block(args, kBytes);
        const u32 n = (u32)args.row_len, vectors = n / kPerVector, tail = vectors * kPerVector + threadIdx.x;
        uint4 tile[Row::kUnroll];
        Row part;
#pragma unroll
        for (int u = 0; u < Row::kUnroll; u++)
            if (threadIdx.x + u * Row::kThreads < vectors)
                tile[u] = load_vector((const uint4 *)p + threadIdx.x + u * Row::kThreads);
        part.open(p, n);
        part.init(NULL, args);
#pragma unroll 1
        for (u32 u = 0; threadIdx.x + u * Row::kThreads < vectors; u++)
            part.add_vector(chosen(tile, (int)u), 0);
        if (tail < n)
            part.add_element(p + tail * kBytes, tail);
        const auto sums = join_to_first_warp<Row::kThreads / kWarp>(part.ended());
        finish_bounded<Any>(args, finish, args.first_row + blockIdx.y, p, sums, most_added<Row>(1));
    }
}

// Whole rows, or all arrays of a list: the last block notes whether the value is in doubt, and then it is for the next launch.
template <class Sums>
__device__ __forceinline__ void leave_doubt(const FinishArgs &finish, u64 row, const Sums &sums, u64 n, u32 added)
{
    if (threadIdx.x >= kWarp)
        return;
    const bool sure = write_bounded(finish, row, sums, n, added);
    if (threadIdx.x == 0)
        finish.doubts[row] = !sure;
}

template <class Row> __global__ void __launch_bounds__(Row::kThreads, Row::kBlocksPerSm)
    bounded_long_rows(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    let_next_pass_start(); // its blocks have no room beside these, so it is brought up as these end
    each_bounded_row<Row>(args, partials, [&](u64 row, const unsigned char *, const typename Row::Sums &sums) {
        leave_doubt(finish, row, sums, args.row_len, most_added<Row>(args.rounds + args.most_tickets + 1));
    });
}

// Values that need no count. The doubt, then what blocks have left
template <class Row> __global__ void __launch_bounds__(Row::kThreads)
    bounded_list(SegmentArgs args, const __grid_constant__ FinishArgs finish, ListArgs list)
{
    using Sums = typename Row::Sums;
    wait_for_previous_pass(); // it writes the list
    Row part;
    part.init(NULL, args);
    each_part_of_block(list, [&](u32, const ListEntry &e, u64 from, u64 to, u64 tiles, bool) {
        add_tiles(part, e, args.element_log2, from, to, tiles);
    });
    Sums sums = join_to_first_warp<Row::kThreads / kWarp>(part.ended());
    if (join_blocks<Row::kThreads / kWarp>(sums, (Sums *)(finish.doubts + 2), args.totals))
        leave_doubt(finish, 0, sums, 0, 0);
}

// `Row` for rows, if kRows, and `Tile` for those of a tile; `Any` for what they leave in doubt
template <class Row, class Tile, class Any, bool kRows> SegmentKernel bounded_kernel_of()
{
    SegmentKernel k = {};
    if constexpr (kRows)
        k.fn = bounded_rows<Row, Any>;
    k.tile = bounded_tiles<Tile, Any>;
    k.threads = Any::kThreads;
    k.unroll = Row::kUnroll;
    k.shared_bytes = Any::shared_bytes();
    k.max_per_thread = Any::kMaxPerThread;
    k.sums = true; // a block for a part of a tile
    return k;
}

template <BoundsOf kOf, bool kRows, class Element, class Any> SegmentKernel bounded_kernel()
{
    using Row = BoundedRow<kOf, Element, Any::kThreads, Any::kUnroll>;
    SegmentKernel k = bounded_kernel_of<Row, Row, Any, kRows>();
    if constexpr (kOf == BoundsOf::Squares)
        k.list = bounded_list<Row>;
    return k;
}

template <class Row> SegmentKernel bounded_long_kernel()
{
    SegmentKernel k = {};
    k.fn = bounded_long_rows<Row>;
    k.threads = Row::kThreads;
    k.unroll = Row::kUnroll;
    k.max_per_thread = 1u << 31;
    k.tickets = kTickets<Row>;
    return k;
}

} // namespace rk
