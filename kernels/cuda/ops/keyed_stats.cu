// Reductions by key (keyed_args.h): what stats have beside the sums, and their states and values.
#include "kernels/cuda/exact/ziv_state.cuh"
#include "kernels/cuda/pass/keyed_state.cuh"

namespace rk {
namespace {

__device__ __forceinline__ void raise_rank(u64 *rank, u64 to)
{
    if (*rank < to) // it may have become larger: then atomicMax does nothing
        atomicMax(rank, to);
}

// The ranks of both ends, and how many zeros and NaNs there are.
__global__ void __launch_bounds__(kKeyedThreads) find_ends(const __grid_constant__ KeyedArgs a)
{
    const u64 sign = rk_is_float(a.dtype) ? rk_sign_bit(rk_format_of(a.dtype), 1) : 0;
    each_of_groups(a, [&](u64 group, u64, u64 bits) {
        if (rk_is_nan(a.dtype, bits))
            atomicAdd(&a.others[group].nans, 1u);
        if (is_left_out(a, bits))
            return;
        if ((bits & ~sign) == 0)
            atomicAdd(&a.others[group].zeros, 1u);
        raise_rank(&a.others[group].least, rk_rank(a.dtype, true, bits));
        raise_rank(&a.others[group].largest, rk_rank(a.dtype, false, bits));
    });
}

// Of the elements that are an end of their group, the first one.
__global__ void __launch_bounds__(kKeyedThreads) find_end_places(const __grid_constant__ KeyedArgs a)
{
    each_of_groups(a, [&](u64 group, u64 i, u64 bits) {
        KeyedOthers &o = a.others[group];
        const u32 place = (u32)(a.n - i);
        if (is_left_out(a, bits))
            return;
        if (rk_rank(a.dtype, true, bits) == o.least && o.least_place < place)
            atomicMax(&o.least_place, place);
        if (rk_rank(a.dtype, false, bits) == o.largest && o.largest_place < place)
            atomicMax(&o.largest_place, place);
    });
}

__device__ inline void others_of_group(const KeyedArgs &a, u64 group, rk_state *s)
{
    const KeyedOthers &from = a.others[group];
    uint64_t *o = rk_summary_others(s);
    if (s->count) {
        o[RK_STATS_MIN] = rk_unrank(a.dtype, true, from.least);
        o[RK_STATS_MIN_INDEX] = a.index_base + a.n - from.least_place;
        o[RK_STATS_MAX] = rk_unrank(a.dtype, false, from.largest);
        o[RK_STATS_MAX_INDEX] = a.index_base + a.n - from.largest_place;
    }
    o[RK_STATS_ZEROS] = from.zeros;
    o[RK_STATS_NANS] = from.nans;
}

// As rk_state_add, of which the layouts of other operations would take nvcc long.
__device__ inline void add_initial_of_stats(const KeyedArgs &a, const FinishArgs &f, u64 group, rk_state *s)
{
    u64 bits = initial_of(a, f, group);
    const u64 sign = rk_is_float(a.dtype) ? rk_sign_bit(rk_format_of(a.dtype), 1) : 0;
    const bool zero = (bits & ~sign) == 0;
    if (rk_is_nan(a.dtype, bits)) {
        bits = rk_nan_bits(rk_format_of(a.dtype));
        if (!rk_state_nan(s, a.nan))
            return;
    }
    rk_sums_add(s, bits);
    rk_summary_add(s, bits, RP_NO_INDEX, zero);
    s->count++;
}

// By doubles if possible, because dividing integers takes long.
__device__ inline int stats_of_state(const rk_state &s, const FinishArgs &f, uint64_t *words)
{
    const int sum = rk_sum_limbs(s.layout);
    uint64_t scratch[RK_FINISH_SCRATCH];
    if (f.spec.nan == RP_NAN_ERROR && s.skipped)
        return RP_NAN;
    if (!finish_by_doubles(s, rk_range_of(s.limb, sum), rk_range_of(s.limb + sum, rk_square_limbs(s.layout)), f.spec,
                           RK_FINISH_SUMMARY, words))
        rk_finish_summary(&s, f.spec.ddof, scratch, words);
    return RP_OK;
}

// A thread a group
__global__ void __launch_bounds__(kFinishThreads)
    finish_stats(const __grid_constant__ KeyedArgs a, const __grid_constant__ FinishArgs f)
{
    each_group(a, [&](u64 group) {
        PlainState room;
        rk_state &s = room.get();
        uint64_t words[RP_MAX_CELL_WORDS] = {};
        state_of_group(a, f.plan.layout, group, &s);
        squares_of_group(a, group, a.flags[group], &s);
        others_of_group(a, group, &s);
        if (f.spec.flags & RP_STATES_OUT) {
            write_state(f, group, s);
            return;
        }
        if (has_initial(a, f))
            add_initial_of_stats(a, f, group, &s);
        if (stats_of_state(s, f, words) != RP_OK)
            set_fault(f, group);
        write_words(f, group, words);
    });
}

} // namespace

KeyedFn keyed_ends_kernel() { return find_ends; }
KeyedFn keyed_end_places_kernel() { return find_end_places; }
KeyedFinishFn keyed_finish_stats_kernel() { return finish_stats; }

} // namespace rk
