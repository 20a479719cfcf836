// Exact sums of bf16, f32 and f64: in two doubles a thread (twosum.cuh), which cost nothing to begin and little to
// join. A block whose part does not fit computes it again with bins or digits; it tests that after every tile, so little work
// is lost. The last block of a row joins the pairs of all blocks. Further steps are rare and out of line.
#include "kernels/cuda/exact/digit_accumulator.cuh"
#include "kernels/cuda/exact/exponent_bins.cuh"
#include "kernels/cuda/exact/tile_sum.cuh"
#include "kernels/cuda/launch/tuning_table.h"

namespace rk {
namespace {

template <int kDtype, int kBlock, int kBlocks, int kLoads, bool kSkip, bool kDraws = false> struct PairSum {
    static constexpr int kType = kDtype, kThreads = kBlock, kBlocksPerSm = kBlocks, kUnroll = kLoads;
    static constexpr bool kPrepares = true, kTiles = true, kByTickets = kDraws;
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
    __device__ __forceinline__ void add_tile(const uint4 (&tile)[kUnroll], u64)
    {
        if constexpr (kNotes)
            add_noted(tile);
        else
            add_rounded(tile);
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
    __device__ __forceinline__ void add_noted(const uint4 (&tile)[kUnroll])
    {
        uint4 v[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            v[u] = tile[u];
        if (most_of(v) >= kSpecialUpper)
#pragma unroll
            for (int u = 0; u < kUnroll; u++) {
                note(v[u].x, v[u].y);
                note(v[u].z, v[u].w);
            }
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            sum.add(__hiloint2double((int)v[u].y, (int)v[u].x));
            sum.add(__hiloint2double((int)v[u].w, (int)v[u].z));
        }
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

// Computes the block's part of the row at `p` again, in a way that works for all data; writes `words`.
template <class Few, class Any> __device__ __forceinline__ void add_again(const SegmentArgs &args, const unsigned char *p,
                                                                          void *shared, u64 *words, Drawn drawn)
{
    Any any;
    u64 elements;
    if constexpr (Few::kByTickets)
        elements = add_tickets<Any, false, true>(any, args, p, shared, &drawn);
    else
        elements = add_part(any, args, p, shared);
    any.flush(args, p, shared, elements, words);
    __syncthreads();
}

// The pairs of a row's blocks, joined. False if they are not all of it, or do not fit one. Whole block.
template <class Few>
__device__ __forceinline__ bool join_pairs(Few &few, const SegmentArgs &args, const PairPartial *pairs, bool &some)
{
    few.init(NULL, args);
    some = false;
#pragma unroll 2
    for (u32 i = threadIdx.x; i < gridDim.x; i += Few::kThreads) {
        const double2 p = __ldcg((const double2 *)&pairs[i].s);
        const ulonglong2 q = __ldcg((const ulonglong2 *)&pairs[i].count);
        if (i == threadIdx.x)
            few.sum = {p.x, p.y, false};
        else
            few.sum.join(p.x, p.y);
        few.sum.lost |= (q.y & (kFlagLost | kFlagSpecial)) != 0;
        few.skipped += (q.y & kFlagSkipped) != 0;
        some |= q.x != 0;
    }
    some = __syncthreads_or(some);
    return few.join();
}

// Rare: the row's value is not in the pairs alone. By digits: those of the pairs, and those that blocks without a pair have
// left in `total`; of a row of one block (no `total`) in `words`, which are shared. Whole block. Pairs are joined first, where
// they fit one: threads that add to the same digits wait for each other.
template <class Few> __device__ __noinline__ void finish_digits(const FinishArgs &finish, u64 row, RowTotal *total,
                                                                const PairPartial *pairs, u64 *words)
{
    constexpr int e0 = Few::kType == RP_F64 ? RK_E0_64 : RK_E0_32;
    u64 *tail = words + finish.plan.own, count = 0;
    u32 flags = 0;
    Pair all = {-0.0, -0.0, false};
    __syncthreads(); // the pair of one block is written
    if (total)
        take_words(finish.plan, total, words);
    else if (!(pairs->flags & kFlagLost))
        clear_words(finish.plan, words);
    auto each_pair = [&](auto take) {
        for (u32 i = threadIdx.x; i < gridDim.x; i += Few::kThreads)
            if (const u64 of_block = __ldcg(&pairs[i].flags); !(of_block & kFlagLost))
                take(__ldcg(&pairs[i].s), __ldcg(&pairs[i].t), __ldcg(&pairs[i].count), (u32)of_block);
    };
    each_pair([&](double s, double t, u64 elements, u32 of_block) {
        all.join(s, t);
        count += elements;
        flags |= of_block;
    });
    all = join_block<Few::kThreads / kWarp>(all);
    if (all.lost)
        each_pair([&](double s, double t, u64, u32) {
            add_to_digits(s, e0, words);
            add_to_digits(t, e0, words);
            flags |= Pair{s, t, false}.beyond_negative_zero() ? (u32)kFlagNz : 0u;
        });
    else if (threadIdx.x == 0) {
        add_to_digits(all.s, e0, words);
        add_to_digits(all.t, e0, words);
        flags |= all.beyond_negative_zero() ? (u32)kFlagNz : 0u;
    }
    count = warp_sum(count);
    flags = warp_or(flags);
    if (threadIdx.x % kWarp == 0) {
        atomicAdd(&tail[kWordCount], count);
        atomicOr(&tail[kWordFlags], (u64)flags);
    }
    __syncthreads();
    if (threadIdx.x < kWarp)
        finish_light(finish, row, words);
}

// The value of the reply, if it is the pair's sum and nothing else.
__device__ __forceinline__ bool is_value(const FinishArgs &a, u32 skipped)
{
    return a.plain && a.spec.out == RP_F64 && !(skipped && a.spec.nan == RP_NAN_ERROR);
}

// The block's part of a row. Whole block.
template <class Few, class Any> __device__ __forceinline__ void sum_part(const SegmentArgs &args, const FinishArgs &finish,
                                                                         u64 row, const unsigned char *p, u64 *partials)
{
    RK_DYNAMIC_SHARED(unsigned char, shared);
    __shared__ u64 words[Few::kWords + kTailWords];
    const u64 number = row * gridDim.x;
    Few few;
    Drawn drawn = {(u32 *)(partials + sizeof(PairPartial) / sizeof(u64) * gridDim.x), 0}; // behind the pairs
    u64 elements;
    if constexpr (Few::kByTickets)
        elements = add_tickets<Few, true>(few, args, p, shared, &drawn);
    else
        elements = add_part(few, args, p, shared);
    bool kept = few.join(), some = elements > few.skipped;
    u64 *partial = finish.light || finish.added ? words : partials + (number + blockIdx.x) * finish.plan.all;
    if (!kept)
        add_again<Few, Any>(args, p, shared, partial, drawn);
    else if (!finish.light)
        few.write(elements, partial);
    if (finish.added) {
        __syncthreads();
        add_words(finish.plan, args.totals + row, words);
    }
    if (!finish.light)
        return;
    RowTotal *total = gridDim.x > 1 ? args.totals + row : NULL;
    PairPartial *pairs = (PairPartial *)partials + number;
    if (!kept && total)
        add_words(finish.plan, total, words);
    if (threadIdx.x == 0)
        pairs[blockIdx.x] = {few.sum.s, few.sum.t, elements - few.skipped,
                             (kept ? 0u : kFlagLost) | (few.skipped ? kFlagSkipped : 0u) | few.flags};
    if (total) {
        if (!last_of_row(total))
            return;
        if (args.tickets)
            reset_tickets(total);
        kept = join_pairs(few, args, pairs, some);
    }
    if (!kept || few.flags || !is_value(finish, few.skipped))
        finish_digits<Few>(finish, args.first_row + row, total, pairs, words);
    else if (threadIdx.x == 0)
        ((double *)finish.cells)[args.first_row + row] = some ? few.sum.value() : 0.0;
}

template <class Few, class Any> __global__ void __launch_bounds__(Few::kThreads, Few::kBlocksPerSm)
    sum_few(SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    if (!finish.light) // else the last block finishes the row
        let_next_pass_start();
    for (u64 row = blockIdx.y; row < args.rows; row += gridDim.y, __syncthreads())
        sum_part<Few, Any>(args, finish, row, args.data + ((row * args.row_len) << args.element_log2), partials);
}

// Out of line, so that its registers and instructions do not burden the rest.
template <class Few, class Any> __device__ __noinline__ void sum_whole(const SegmentArgs &args, const FinishArgs &finish,
                                                                       u64 row, const unsigned char *p, u64 *partials)
{
    sum_part<Few, Any>(args, finish, row, p, partials);
}

// A block a row of a tile or less, along y; the reply is f64.
template <class Tile, class Few, class Any> __global__ void __launch_bounds__(Few::kThreads)
    sum_tiles(const __grid_constant__ SegmentArgs args, const __grid_constant__ FinishArgs finish, u64 *partials)
{
    const unsigned char *p = row_of_block(args, sizeof(typename Tile::Bits));
    double *cell = (double *)finish.cells + args.first_row + blockIdx.y;
    Tile x;
    add_row(x, args, p);
    x.join_block();
    if (threadIdx.x == 0) // what is not certain is written over
        *cell = x.value();
    if (!x.certain())
        sum_whole<Few, Any>(args, finish, blockIdx.y, p, partials);
}

template <class Few, class Any> SegmentKernel pick()
{
    // the same tiles, for a block may change its way while others do not
    static_assert(Few::kThreads == Any::kThreads && Few::kUnroll == Any::kUnroll && Few::kWords == Any::kWords);
    return {sum_few<Few, Any>, Few::kThreads, Few::kUnroll, Any::shared_bytes(), Any::kMaxPerThread, NULL, NULL, NULL, false,
            Few::kByTickets};
}

// For rows that may be only one tile.
template <class Few, class Any> SegmentKernel pick_short()
{
    SegmentKernel k = pick<Few, Any>();
    k.tile = sum_tiles<TileSum<Few::kType, Few::kThreads, Few::kUnroll>, Few, Any>;
    return k;
}

constexpr u64 kTicketBytes = 512u << 20; // of a row, from which tickets pay: below, they make it 1 to 4 % slower (H200)

template <bool kSkip> SegmentKernel pick(int dtype, u64 row_len, const rk_tuning &tuning)
{
    if (dtype == RP_BF16)
        return pick<PairSum<RP_BF16, 256, 3, 4, kSkip>, BinSum<Bf16Element, kSkip>>();
    if (dtype == RP_F32 && row_len >= kTicketBytes / 4)
        return pick<PairSum<RP_F32, 512, 1, 8, kSkip, true>, BinSum<F32Element, kSkip, 512, 8>>();
    if (dtype == RP_F32 && row_len >= tuning.long_f64_row)
        return pick<PairSum<RP_F32, 512, 1, 8, kSkip>, BinSum<F32Element, kSkip, 512, 8>>();
    if (dtype == RP_F32)
        return pick_short<PairSum<RP_F32, 256, 3, 4, kSkip>, BinSum<F32Element, kSkip>>();
    if (row_len < tuning.middle_f64_row)
        return pick_short<PairSum<RP_F64, 128, 3, 4, kSkip>, DigitSum<128, 4, kSkip>>();
    if (row_len < tuning.long_f64_row)
        return pick<PairSum<RP_F64, 256, 2, 4, kSkip>, DigitSum<256, 4, kSkip>>();
    if (row_len < kTicketBytes / 8)
        return pick<PairSum<RP_F64, 256, 2, 6, kSkip>, DigitSum<256, 6, kSkip>>();
    return pick<PairSum<RP_F64, 256, 2, 6, kSkip, true>, DigitSum<256, 6, kSkip>>();
}

} // namespace

SegmentKernel sum_few_kernel(int dtype, bool skip, u64 row_len, const rk_tuning &tuning)
{
    return skip ? pick<true>(dtype, row_len, tuning) : pick<false>(dtype, row_len, tuning);
}

} // namespace rk
