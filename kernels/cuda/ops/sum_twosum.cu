// Exact sums of bf16, f32 and f64: in two doubles a thread (twosum.cuh), which cost nothing to begin and little to
// join. What does not fit them is added to bins or digits. One block of a row joins the pairs of all blocks. Further steps are
// rare and out of line.
#include "kernels/cuda/exact/digit_accumulator.cuh"
#include "kernels/cuda/exact/exponent_bins.cuh"
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/pass/unit_parts.h"

namespace rk {
namespace {

// kAbs: of magnitudes. Its `any` knows that by SegmentArgs.keep.
template <int kDtype, int kBlock, int kBlocks, int kLoads, bool kSkip, bool kDraws = false, bool kAbs = false> struct PairSum {
    static constexpr int kType = kDtype, kThreads = kBlock, kBlocksPerSm = kBlocks, kUnroll = kLoads;
    static constexpr bool kPrepares = !kDraws, kTiles = true, kByTickets = kDraws;
    static constexpr bool kEnds = (kDraws ? kDtype == RP_F64 : kLoads == 4) && !kAbs; // FinishArgs.ends
    static constexpr bool kNotes = kDtype == RP_F64; // infinities and NaNs are noted, not added
    static constexpr Filling kFilling = kPadded;
    static constexpr int kWords = kDtype == RP_F64 ? kDigits64 : kDigits32;
    using Bits = FloatBits<kDtype>;
    static constexpr Bits kPadding = (Bits)1 << (8 * sizeof(Bits) - 1); // -0.0

    Pair sum;
    u32 skipped, flags; // flags: of what was noted

    __device__ __forceinline__ void init(void *, const SegmentArgs &)
    {
        sum = {-0.0, -0.0, false};
        skipped = flags = 0;
    }
    // Each warp detects data of a wide range early, so these cost little more than with the other way from the start.
    __device__ __forceinline__ bool prepare(const uint4 (&)[kUnroll]) const { return !__any_sync(kFullMask, sum.lost); }

    __device__ __forceinline__ void add(FloatBits<kDtype> bits)
    {
        if (kAbs)
            bits &= kPadding - 1;
        if constexpr (kNotes) {
            u32 low = (u32)bits, high = (u32)(bits >> 32);
            note(low, high);
            sum.add(__hiloint2double((int)high, (int)low));
        } else {
            add_float<kDtype>(sum, bits, kSkip, skipped);
        }
    }
    __device__ __forceinline__ void add_vector(uint4 v, u64)
    {
        each_element<Float<kDtype>::kBytes>(v, [&](FloatBits<kDtype> bits, int) { add(bits); });
    }
    // In place of what was noted there is -0.0 in the tile then.
    __device__ __forceinline__ void add_tile(uint4 (&tile)[kUnroll], u64)
    {
        if constexpr (kAbs) {
            const u32 keep = 0x7fffffffu, lower = kNotes ? ~0u : keep;
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                tile[u] = make_uint4(tile[u].x & lower, tile[u].y & keep, tile[u].z & lower, tile[u].w & keep);
        }
        if constexpr (kNotes)
            add_noted(tile);
        else
            add_rounded(tile);
    }
    // Without what was added since `before`, except what was noted.
    __device__ __forceinline__ void back_to(const PairSum &before)
    {
        sum = before.sum;
        if (!kNotes)
            skipped = before.skipped;
    }

    // An infinity or NaN sets flags, and -0.0 is added in its place.
    __device__ __forceinline__ void note(u32 &low, u32 &high)
    {
        if (2 * high < kSpecialUpper)
            return;
        const bool nan = (high & 0xfffffu) | low;
        if (kSkip && nan)
            skipped++;
        else
            flags |= kFlagNz | (nan ? RK_NAN : high >> 31 ? RK_NINF : RK_PINF);
        low = 0;
        high = 1u << 31;
    }
    // f64
    __device__ __forceinline__ void add_noted(uint4 (&tile)[kUnroll])
    {
        if (most_of(tile) >= kSpecialUpper)
#pragma unroll
            for (int u = 0; u < kUnroll; u++) {
                note(tile[u].x, tile[u].y);
                note(tile[u].z, tile[u].w);
            }
        double x[2 * kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            x[2 * u] = __hiloint2double((int)tile[u].y, (int)tile[u].x);
            x[2 * u + 1] = __hiloint2double((int)tile[u].w, (int)tile[u].z);
        }
        sum.add(x);
    }
    // f32 and bf16: of most tiles one double has the sum, rounded down and up alike.
    __device__ __forceinline__ void add_rounded(const uint4 (&tile)[kUnroll])
    {
        const Between all = between<kDtype>(tile);
        if (all.low == all.high) {
            sum.add(all.high);
        } else {
#pragma unroll
            for (int u = 0; u < kUnroll; u++)
                *this = added(*this, tile[u]);
        }
    }
    // Out of line, so that the doubles above are not kept for it.
    static __device__ __noinline__ PairSum added(PairSum to, uint4 v)
    {
        to.add_vector(v, 0);
        return to;
    }
    __device__ __forceinline__ void add_element(const void *p, u64) { add(*(const FloatBits<kDtype> *)p); }
    // Do these elements hardly fit a pair, their sum or not? A pair has 106 bits, an f32 24 of them, an f64 53.
    static __device__ __forceinline__ bool far_apart(uint4 v)
    {
        Span span;
        span.init();
        each_element<sizeof(Bits)>(v, [&](Bits bits, int) { span.note((u64)bits << (64 - 8 * sizeof(Bits))); });
        return !(kNotes && span.most >= kSpecialUpper) && !span.within(kNotes ? 128 : 80 * 8);
    }

    // Whole block: the block's pair, count of NaNs and flags to everyone. False if the pair was lost.
    __device__ __forceinline__ bool join()
    {
        if constexpr (kNotes) {
            __shared__ u32 flags_sum;
            if (__syncthreads_or(flags)) { // rare
                if (threadIdx.x == 0)
                    flags_sum = 0;
                __syncthreads();
                atomicOr(&flags_sum, flags);
                __syncthreads();
                flags = flags_sum;
            }
        }
        if constexpr (kSkip) {
            __shared__ u32 skipped_sum;
            if (threadIdx.x == 0)
                skipped_sum = 0;
            __syncthreads();
            if (skipped)
                atomicAdd(&skipped_sum, skipped);
            __syncthreads();
            skipped = skipped_sum;
        }
        sum = join_block<kThreads / kWarp>(sum);
        return !sum.lost;
    }

    __device__ void write(u64 elements, u64 *partial) const
    {
        constexpr int e0 = kDtype == RP_F64 ? RK_E0_64 : RK_E0_32;
        if (threadIdx.x < kWords) {
            partial[threadIdx.x] = digit_of_terms({sum.s, sum.t}, e0, threadIdx.x);
        } else if (threadIdx.x == kWords) {
            write_tail(partial + kWords, elements, skipped, flags | (sum.beyond_negative_zero() ? (u32)kFlagNz : 0u));
        }
    }
};

// A pair to the digits of a row, or of a block, and to the flags behind them
template <class Few> __device__ __forceinline__ void add_pair(const Pair &pair, u64 *digits, u64 *tail)
{
    constexpr int e0 = Few::kType == RP_F64 ? RK_E0_64 : RK_E0_32;
    if (!pair.beyond_negative_zero())
        return;
    add_to_digits(pair.s, e0, digits);
    add_to_digits(pair.t, e0, digits);
    atomicOr(&tail[kWordFlags], (u64)kFlagNz);
}

// The pairs of all threads so: `all` is their sum, unless it is lost. One pair is better, for threads that add to the same
// digits wait for each other.
template <class Few> __device__ __forceinline__ void add_pairs(const Pair &all, const Pair &own, u64 *digits, u64 *tail)
{
    if (all.lost)
        add_pair<Few>(own, digits, tail);
    else if (threadIdx.x == 0)
        add_pair<Few>(all, digits, tail);
}

// ---- a block's part of a row, of any data: in pairs as far as these hold it ----

// Of a row without tickets. A block whose part they do not hold begins again: its loop has nothing to keep for that.
template <class Few, class Any> struct FewOrAgain {
    Few few;

    // Returns how many elements that were, if pairs hold them. Whole block.
    template <class Meanwhile>
    __device__ __forceinline__ u64 add(const SegmentArgs &args, const unsigned char *p, void *shared, Meanwhile meanwhile)
    {
        return add_part(few, args, p, shared, meanwhile);
    }
    // To the block's pair. False if it is not all of it. Whole block.
    __device__ __forceinline__ bool join()
    {
        if (few.sum.lost) // then it does not matter, and this is the fastest
            few.sum = {-0.0, -0.0, true};
        return few.join();
    }
    // All of the block to `words`, if join() was false. Whole block.
    __device__ __forceinline__ void write(const SegmentArgs &args, const unsigned char *p, void *shared, u64, u64 *words)
    {
        Any any;
        const u64 elements = add_part(any, args, p, shared);
        any.flush(args, p, shared, elements, words);
        __syncthreads();
    }
};

// With tickets, of which a block does not know which ones it has had. A warp goes on with `any` from the tile on that its pairs
// do not hold. These are left as they were before it.
template <class Few, class Any, bool kMasked> struct FewThenAny {
    static_assert(Few::kTiles && !Few::kPrepares); // add() takes whole tiles and never prepares
    Few few;
    Any any;
    Pair own;  // before join
    bool wide; // `any` is in use, by this thread

    template <class Meanwhile>
    __device__ __forceinline__ u64 add(const SegmentArgs &args, const unsigned char *p, void *shared, Meanwhile meanwhile)
    {
        Tiles<Few, kMasked> tiles(args, p);
        uint4 now[Few::kUnroll];
        bool more = tiles.request(); // the next tile is requested before this one is added, so loads are always in flight
        meanwhile();
        few.init(shared, args);
        wide = !kMasked && __any_sync(kFullMask, more && Few::far_apart(tiles.next[0])); // what is masked out would count
        if (wide)
            more = tiles.advance(now);
#pragma unroll 1
        while (more && !wide) { // with `break` registers spill
            more = tiles.advance(now);
            const Few before = few;
            few.add_tile(now, 0);
            wide = __any_sync(kFullMask, few.sum.lost);
            if (wide)
                few.back_to(before);
        }
        if (wide) {
            any.init(shared, args);
            add_to_any(now, tiles.per_vector());
#pragma unroll 1
            while (more) {
                more = tiles.advance(now);
                add_to_any(now, tiles.per_vector());
            }
        }
        const u64 elements = tiles.elements();
        if (kMasked || blockIdx.x < gridDim.x - 1 || args.row_len == tiles.nvec * tiles.per_vector())
            return elements;
        *this = with_ends(*this, args, p, shared, tiles.head, tiles.nvec);
        return elements + args.row_len - tiles.nvec * tiles.per_vector();
    }

    __device__ __forceinline__ void add_to_any(uint4 (&tile)[Few::kUnroll], u32 per_vector)
    {
        if constexpr (Any::kPrepares)
            any.prepare(tile);
        add_whole(any, tile, 0, per_vector);
    }

    // With the elements of the row's head and tail. Out of line, as `write_all` is, so that the code around it lies together.
    static __device__ __noinline__ FewThenAny with_ends(FewThenAny sum, SegmentArgs args, const unsigned char *p, void *shared,
                                                        u32 head, u64 nvec)
    {
        each_end(args.element_log2, args.row_len, p, head, nvec, [&](const void *e, u64) { sum.add_element(e, shared, args); });
        return sum;
    }
    __device__ __forceinline__ void add_element(const void *p, void *shared, const SegmentArgs &args)
    {
        const Few before = few;
        if (!wide)
            few.add_element(p, 0);
        if (!wide && few.sum.lost) {
            few = before;
            any.init(shared, args);
            wide = true;
        }
        if (wide)
            any.add_element(p, 0);
    }

    // The pairs of all threads are joined, whatever else there is.
    __device__ __forceinline__ bool join()
    {
        own = few.sum;
        return !__syncthreads_or(wide) & few.join();
    }

    __device__ __forceinline__ void write(const SegmentArgs &args, const unsigned char *p, void *shared, u64 elements,
                                          u64 *words)
    {
        write_all(*this, args, p, shared, elements, words);
    }
    static __device__ __noinline__ void write_all(FewThenAny sum, SegmentArgs args, const unsigned char *p, void *shared,
                                                  u64 elements, u64 *words)
    {
        if (!sum.wide)
            sum.any.init(shared, args);
        if (threadIdx.x == 0)
            sum.any.note(sum.few.skipped, sum.few.flags);
        sum.any.flush(args, p, shared, elements, words);
        __syncthreads();
        add_pairs<Few>(sum.few.sum, sum.own, words, words + Few::kWords);
        __syncthreads();
    }
};

// ---- where the blocks of a long row meet: one of them waits for what the others leave ----
//
// It is the block that started last: it waits for no block that has not started, however many fit the device and whatever else
// runs there. Blocks that have started always go on, so it does not wait for ever. Each block has a slot, whose words are zero
// until they have arrived, and again after the launch. So there is no counter at the end, and no fence for pairs alone.

__device__ __forceinline__ u64 *slot_of(const SegmentArgs &args, u32 block)
{
    return ((Slot *)(args.totals + kRowTotals))[block].words;
}

// No word of a partial has all bits set.
__device__ __forceinline__ void leave_partial(u64 *slot, const PairPartial &p)
{
    leave_words(slot, ~(u64)__double_as_longlong(p.s), ~(u64)__double_as_longlong(p.t));
    leave_words(slot + 2, ~p.count, ~p.flags);
}

// Waits for it.
__device__ __forceinline__ PairPartial partial_left(const u64 *slot)
{
    ulonglong2 a, b;
    do {
        a = words_left(slot);
        b = words_left(slot + 2);
    } while (a.x == 0 || a.y == 0 || b.x == 0 || b.y == 0);
    return {__longlong_as_double((i64)~a.x), __longlong_as_double((i64)~a.y), ~b.x, ~b.y};
}

// What blocks report beside the pairs that a thread has taken from them
struct Beside {
    u64 count; // elements in these pairs
    u32 flags; // of PairPartial
};

// As they were. Whole block.
__device__ __forceinline__ void clear_slots(const SegmentArgs &args)
{
    for (u32 i = threadIdx.x; i < gridDim.x; i += blockDim.x)
        if (i != blockIdx.x) {
            leave_words(slot_of(args, i), 0, 0);
            leave_words(slot_of(args, i) + 2, 0, 0);
        }
}

// The pairs of a row's blocks, joined. False if they do not fit one. of_block(i): that of block i. Whole block.
template <class Few, class OfBlock>
__device__ __forceinline__ bool join_pairs(Few &few, const SegmentArgs &args, Beside &beside, OfBlock of_block)
{
    few.init(NULL, args);
    beside = {0, 0};
#pragma unroll 2
    for (u32 i = threadIdx.x; i < gridDim.x; i += Few::kThreads) {
        const PairPartial p = of_block(i);
        if (i == threadIdx.x)
            few.sum = {p.s, p.t, false};
        else
            few.sum.join(p.s, p.t);
        beside.count += p.count;
        beside.flags |= (u32)p.flags;
    }
    few.skipped = (beside.flags & kFlagSkipped) != 0;
    return few.join();
}

// Rare: the row's value is not in the pairs alone. By digits: those of the pairs, which are `all` if that is not lost, and
// those that blocks without a pair have left in `total`, or with `spread` in the kSpread totals from there on; of a row of one
// block (no `total`) in `words`, which are shared. Whole block.
template <class Few> __device__ __noinline__ void finish_digits(const FinishArgs &finish, u64 row, RowTotal *total, bool spread,
                                                                const PairPartial *pairs, Pair all, Beside beside, u64 *words)
{
    u64 *tail = words + finish.plan.own;
    const bool lost = __syncthreads_or(beside.flags & kFlagLost); // some block's; the pair of one block is written, too
    if (Few::kByTickets && total && lost && spread)
        take_spread_words(finish.plan, total, words);
    else if (total && lost)
        take_words(finish.plan, total, words);
    else if (!lost)
        clear_words(finish.plan, words);
    if (all.lost)
        for (u32 i = threadIdx.x; i < gridDim.x; i += Few::kThreads)
            add_pair<Few>({__ldcg(&pairs[i].s), __ldcg(&pairs[i].t), false}, words, tail);
    else if (threadIdx.x == 0)
        add_pair<Few>(all, words, tail);
    const u64 count = warp_sum(beside.count);
    const u32 flags = warp_or(beside.flags & ~(u32)kFlagLost);
    if (threadIdx.x % kWarp == 0 && count) // warps wait for each other there
        atomicAdd(&tail[kWordCount], count);
    if (threadIdx.x % kWarp == 0 && flags)
        atomicOr(&tail[kWordFlags], (u64)flags);
    __syncthreads();
    if (threadIdx.x >= kWarp)
        return;
    if constexpr (Few::kEnds) {
        RK_DYNAMIC_SHARED(unsigned char, shared);
        if (finish.ends) {
            finish_row(finish, row, words, *(FinishRoom *)shared);
            return;
        }
    }
    finish_light(finish, row, words);
}

// Is it a mean, whose value a pair may decide?
__device__ __forceinline__ bool is_mean(const FinishArgs &a)
{
    return a.ends && a.finisher == RK_FINISH_MEAN && !(a.spec.flags & (RP_STATES_OUT | RP_INITIAL));
}

// Is the reply the pair's sum and nothing else, or the mean of all elements?
__device__ __forceinline__ bool is_value(const FinishArgs &a, u32 skipped)
{
    return (a.plain && !(skipped && a.spec.nan == RP_NAN_ERROR)) || (is_mean(a) && !skipped);
}

// The mean of `count` elements whose sum is s + t. False: it is not certain.
__device__ __forceinline__ bool mean_bits(const FinishArgs &a, double s, double t, u64 count, u64 *bits)
{
    double mean;
    return value_near(RP_OP_MEAN, 0, RK_FINISH_MEAN, count, {s, t, 0}, {0, 0, 0}, &mean) && value_bits(mean, a.spec.out, bits);
}

// Writes the mean of a row that `sum` has all of, if it is certain. One thread.
__device__ __forceinline__ bool write_mean(const FinishArgs &a, u64 row, const Pair &sum, u64 count)
{
    u64 bits;
    if (!mean_bits(a, sum.s, sum.t, count, &bits))
        return false;
    write_bits(a.cell_bytes, a.cells, row, bits);
    return true;
}

// The bits of a sum. A cell of 8 bytes is f64; then the spec, which is in another line of the arguments, is not read.
__device__ __forceinline__ bool sum_bits(const FinishArgs &a, double sum, u64 *bits)
{
    return value_bits(sum, a.cell_bytes == 8 ? RP_F64 : a.spec.out, bits);
}

// The block's part of a row. Whole block.
template <class Few, class Any, bool kMasked = false> __device__ __forceinline__ void
sum_part(const SegmentArgs &args, const FinishArgs &finish, u64 row, const unsigned char *p, u64 *partials)
{
    RK_DYNAMIC_SHARED(unsigned char, shared);
    __shared__ u64 words[Few::kWords + kTailWords];
    constexpr bool kSpreads = Few::kByTickets && !kMasked; // others gain nothing, or get slower
    const u64 number = row * gridDim.x;
    std::conditional_t<Few::kByTickets, FewThenAny<Few, Any, kMasked>, FewOrAgain<Few, Any>> sum;
    Few &few = sum.few;
    RowTotal *total = gridDim.x > 1 ? args.totals + row : NULL;
    __shared__ bool waits; // this block, for the others
    // Drawn once the first loads are under way: before them, its warp waited for it and requested them late.
    u32 turn = 0;
    const u64 elements = sum.add(args, p, shared, [&] {
        if (args.meets && threadIdx.x == 0)
            turn = number_in_turn(&total->arrived, gridDim.x - 1);
    });
    if (threadIdx.x == 0) // has every other block of the row started before this one?
        waits = args.meets && turn == gridDim.x - 1;
    const bool kept = sum.join();
    const bool here = finish.light || (Few::kEnds && finish.ends); // finished by a block of this launch
    u64 *partial = here || finish.added ? words : partials + (number + blockIdx.x) * finish.plan.all;
    if (!kept)
        sum.write(args, p, shared, elements, partial);
    else if (!here)
        few.write(elements, partial);
    if (finish.added && !here) {
        __syncthreads();
        add_words(finish.plan, args.totals + row, words);
    }
    if (!here)
        return;
    PairPartial *pairs = (PairPartial *)partials + number;
    const u32 flags = (kept ? 0u : kFlagLost) | (few.skipped ? kFlagSkipped : 0u) | few.flags;
    const PairPartial mine = kept ? PairPartial{few.sum.s, few.sum.t, elements - few.skipped, flags}
                                  : PairPartial{-0.0, -0.0, 0, flags};
    bool fits = true;
    Beside beside = {mine.count, flags};
    if (!kept && total)
        add_words(finish.plan, total + (kSpreads && args.meets ? blockIdx.x % kSpread : 0), words);
    if (args.meets) {
        if (!kept) {
            __syncthreads(); // the block has added its words
            if (kSpreads && waits && threadIdx.x / kWarp == Few::kThreads / kWarp - 1)
                finish_float(finish, args.first_row + row, words); // to be overwritten: then its code is in the cache
        }
        if (!waits) {
            if (threadIdx.x == 0 && !kept)
                fence_blocks();
            if (threadIdx.x == 0)
                leave_partial(slot_of(args, blockIdx.x), mine);
            return;
        }
        auto of_block = [&](u32 i) { return i == blockIdx.x ? mine : partial_left(slot_of(args, i)); };
        fits = join_pairs(few, args, beside, of_block);
        if (beside.flags & kFlagLost) // the words of those blocks are in `total`
            fence_blocks();
        if (!fits) // finish_digits reads them once more
            for (u32 i = threadIdx.x; i < gridDim.x; i += Few::kThreads)
                pairs[i] = of_block(i);
    } else {
        if (threadIdx.x == 0)
            pairs[blockIdx.x] = mine;
        if (total) {
            if (!last_of_row(total))
                return;
            fits = join_pairs(few, args, beside, [&](u32 i) {
                const double2 p = __ldcg((const double2 *)&pairs[i].s);
                const ulonglong2 q = __ldcg((const ulonglong2 *)&pairs[i].count);
                return PairPartial{p.x, p.y, q.x, q.y};
            });
        } else {
            few.sum = {mine.s, mine.t, false};
            beside = threadIdx.x == 0 ? beside : Beside{0, 0};
        }
    }
    if (args.tickets)
        reset_tickets(args.totals);
    bool more = __syncthreads_or(beside.flags & (kFlagLost | kFlagSpecial)) || !is_value(finish, few.skipped);
    if constexpr (Few::kEnds)
        if (finish.ends && fits && !more) {
            more = __syncthreads_or(threadIdx.x == 0 && !write_mean(finish, args.first_row + row, few.sum, args.row_len));
            if (!more) {
                if (args.meets)
                    clear_slots(args);
                return;
            }
        }
    u64 bits = 0;
    if (!fits || more || !sum_bits(finish, few.sum.value(), &bits)) { // all threads have the same sum
        finish_digits<Few>(finish, args.first_row + row, total, kSpreads && args.meets, pairs, few.sum, beside, words);
    } else {
        const bool none = !few.sum.beyond_negative_zero() && !__syncthreads_or(beside.count != 0);
        if (threadIdx.x == 0)
            write_bits(finish.cell_bytes, finish.cells, args.first_row + row, none ? 0 : bits);
    }
    if (args.meets)
        clear_slots(args);
}

template <class Few, class Any, bool kMasked> __global__ void __launch_bounds__(Few::kThreads, Few::kBlocksPerSm)
    sum_few(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    if (!finish.light && !finish.ends) // else the last block finishes the row
        let_next_pass_start();
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y, __syncthreads())
        sum_part<Few, Any, kMasked>(args, finish, row, args.data + ((row * args.row_len) << args.element_log2), partials);
}

// Out of line, so that its registers and instructions do not burden the rest.
template <class Few, class Any> __device__ __noinline__ void sum_whole(const SegmentArgs &args, const FinishArgs &finish,
                                                                       u64 row, const unsigned char *p, u64 *partials)
{
    sum_part<Few, Any>(args, finish, row, p, partials);
}

// A block a row of a tile or less, along y.
template <class Tile, class Few, class Any> __global__ void __launch_bounds__(Few::kThreads)
    sum_tiles(const __grid_constant__ SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    const unsigned char *p = row_of_block(args, sizeof(typename Tile::Bits));
    Tile x;
    u64 bits = 0;
    add_row(x, args, p);
    x.join_block();
    const PlainSum sum = x.plain();
    const bool decided = finish.light ? sum_bits(finish, sum.value(), &bits)
                                      : mean_bits(finish, sum.s, sum.t, args.row_len, &bits);
    if (threadIdx.x == 0) // what is not certain is written over
        write_bits(finish.cell_bytes, finish.cells, args.first_row + blockIdx.y, bits);
    if (!decided || !x.certain())
        sum_whole<Few, Any>(args, finish, blockIdx.y, p, partials);
}

template <class Few, class Any, bool kMasked = false> SegmentKernel pick()
{
    // the same tiles, for a block may change its way while others do not
    static_assert(Few::kThreads == Any::kThreads && Few::kUnroll == Any::kUnroll && Few::kWords == Any::kWords);
    return {sum_few<Few, Any, kMasked>,
            Few::kThreads,
            Few::kUnroll,
            Any::shared_bytes(),
            Any::kMaxPerThread,
            NULL,
            NULL,
            NULL,
            false,
            Few::kByTickets,
            Few::kEnds && !kMasked};
}

// For rows that may be only one tile.
template <class Few, class Any> SegmentKernel pick_short()
{
    SegmentKernel k = pick<Few, Any>();
    k.tile = sum_tiles<TileSum<Few::kType, Few::kThreads, Few::kUnroll>, Few, Any>;
    return k;
}

constexpr u64 kTicketBytes = 512u << 20; // of a row, from which tickets pay: below, they make it 1 to 4 % slower (H200)

template <bool kSkip> SegmentKernel pick_f32()
{
    return pick_short<PairSum<RP_F32, 256, 3, 4, kSkip>, BinSum<F32Element, kSkip>>();
}

template <bool kSkip> SegmentKernel pick_long_f32(u64 row_len)
{
    if (row_len >= kTicketBytes / 4)
        return pick<PairSum<RP_F32, 512, 1, 8, kSkip, true>, BinSum<F32Element, kSkip, 512, 8>>();
    return pick<PairSum<RP_F32, 512, 1, 8, kSkip>, BinSum<F32Element, kSkip, 512, 8>>();
}

template <bool kSkip> SegmentKernel pick_f64()
{
    return pick_short<PairSum<RP_F64, 128, 3, 4, kSkip>, DigitSum<128, 4, kSkip>>();
}

template <bool kSkip> SegmentKernel pick_middle_f64()
{
    return pick<PairSum<RP_F64, 256, 2, 4, kSkip>, DigitSum<256, 4, kSkip>>();
}

template <bool kSkip> SegmentKernel pick_long_f64(u64 row_len)
{
    if (row_len < kTicketBytes / 8)
        return pick<PairSum<RP_F64, 256, 2, 6, kSkip>, DigitSum<256, 6, kSkip>>();
    return pick<PairSum<RP_F64, 256, 2, 6, kSkip, true>, DigitSum<256, 6, kSkip>>();
}

template <bool kSkip> SegmentKernel pick_magnitudes_f32(u64 row_len)
{
    if (row_len >= kLongRow)
        return pick<PairSum<RP_F32, 512, 1, 8, kSkip, false, true>, BinSum<F32Element, kSkip, 512, 8>>();
    return pick<PairSum<RP_F32, 256, 3, 4, kSkip, false, true>, BinSum<F32Element, kSkip>>();
}

template <bool kSkip> SegmentKernel pick_magnitudes_f64(u64 row_len)
{
    if (row_len < kMiddleRow)
        return pick<PairSum<RP_F64, 128, 3, 4, kSkip, false, true>, DigitSum<128, 4, kSkip, true>>();
    return pick<PairSum<RP_F64, 256, 2, 6, kSkip, false, true>, DigitSum<256, 6, kSkip, true>>();
}

template <bool kSkip> SegmentKernel pick_bf16()
{
    return pick<PairSum<RP_BF16, 256, 3, 4, kSkip>, BinSum<Bf16Element, kSkip>>();
}

template <bool kSkip> SegmentKernel pick_masked()
{
    return pick<PairSum<RP_F32, 256, 2, 6, kSkip, true>, BinSum<F32Element, kSkip, 256, 6>, true>();
}

} // namespace

template <PairPart kPart> SegmentKernel pair_part(bool skip, u64 row_len)
{
    if constexpr (kPart == PairPart::SumF32)
        return pick_f32<false>();
    else if constexpr (kPart == PairPart::SumF32Skip)
        return pick_f32<true>();
    else if constexpr (kPart == PairPart::LongSumF32)
        return skip ? pick_long_f32<true>(row_len) : pick_long_f32<false>(row_len);
    else if constexpr (kPart == PairPart::SumF64)
        return pick_f64<false>();
    else if constexpr (kPart == PairPart::SumF64Skip)
        return pick_f64<true>();
    else if constexpr (kPart == PairPart::MiddleSumF64)
        return skip ? pick_middle_f64<true>() : pick_middle_f64<false>();
    else if constexpr (kPart == PairPart::LongSumF64)
        return skip ? pick_long_f64<true>(row_len) : pick_long_f64<false>(row_len);
    else if constexpr (kPart == PairPart::MagnitudesF32)
        return skip ? pick_magnitudes_f32<true>(row_len) : pick_magnitudes_f32<false>(row_len);
    else if constexpr (kPart == PairPart::MagnitudesF64)
        return skip ? pick_magnitudes_f64<true>(row_len) : pick_magnitudes_f64<false>(row_len);
    else if constexpr (kPart == PairPart::SumBf16)
        return skip ? pick_bf16<true>() : pick_bf16<false>();
    else
        return skip ? pick_masked<true>() : pick_masked<false>();
}

#define PARTS(X)  \
    X(SumF32)     \
    X(SumF32Skip) \
    X(LongSumF32) \
    X(SumF64) X(SumF64Skip) X(MiddleSumF64) X(LongSumF64) X(MagnitudesF32) X(MagnitudesF64) X(SumBf16) X(MaskedF32)
#define PART(of) template SegmentKernel pair_part<PairPart::of>(bool skip, u64 row_len);
#include "kernels/cuda/pass/each_part.h"

} // namespace rk
