// Reductions by key (keyed_args.h): what comes before and behind the pass over all elements, to values or states.
#include "kernels/cuda/pass/keyed_state.cuh"

namespace rk {
namespace {

// ---- before and behind ----

constexpr int kSampled = 16; // elements of a thread

// The exponent's field of a finite float, in the format in which kernels add it: its unit above rk_e0; 0: it is not finite.
__device__ __forceinline__ u32 field_of(const KeyedArgs &a, u64 i)
{
    if (keyed_dtype(a.kind) == RP_F64) {
        const u32 field = (u32)(raw_at<kKeyedDouble>(a, i) >> 52) & 0x7ff;
        return field < 0x7ff ? field : 0;
    }
    const u32 field = (u32)(bits_of<kKeyedFloat>(a, raw_at<kKeyedFloat>(a, i)) >> 23) & 0xff;
    return field < 0xff ? field : 0;
}

// Windows end with the largest of some elements. One block.
__global__ void __launch_bounds__(kKeyedThreads) sample(const __grid_constant__ KeyedArgs a)
{
    __shared__ u32 tops[kKeyedThreads / kWarp];
    const u64 step = a.n / (kKeyedThreads * kSampled) + 1;
    u32 top = 0;
    for (u64 i = threadIdx.x * step; i < a.n; i += kKeyedThreads * step)
        top = max(top, field_of(a, i));
    top = warp_max(top);
    if (threadIdx.x % kWarp == 0)
        tops[threadIdx.x / kWarp] = top;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (u32 k = 1; k < kKeyedThreads / kWarp; k++)
        top = tops[k] > top ? tops[k] : top;
    a.head->base = top > a.reach ? top - a.reach : 0;
}

// A sum is -0.0 if all its elements are: the groups with one that have another element, too.
__global__ void __launch_bounds__(kKeyedThreads) find_others(const __grid_constant__ KeyedArgs a)
{
    if (!a.head->minus_zeros)
        return;
    const u64 minus_zero = rk_sign_bit(rk_format_of(a.dtype), 1);
    each_of_groups(a, [&](u64 group, u64, u64 bits) {
        if (a.flags[group] & kFlagMinusZero && bits != minus_zero && !is_left_out(a, bits))
            raise_flag(a, group, kFlagNz);
    });
}

// A group with an initial -0.0 is as one with another -0.0.
__global__ void __launch_bounds__(kFinishThreads)
    find_initial(const __grid_constant__ KeyedArgs a, const __grid_constant__ FinishArgs f)
{
    const u64 minus_zero = rk_sign_bit(rk_format_of(a.dtype), 1);
    each_group(a, [&](u64 group) {
        if (initial_of(a, f, group) == minus_zero) {
            raise_flag(a, group, kFlagMinusZero);
            a.head->minus_zeros = 1;
        }
    });
}

// Of the elements that are the best of their group, the first one.
__global__ void __launch_bounds__(kKeyedThreads) find_places(const __grid_constant__ KeyedArgs a)
{
    each_of_groups(a, [&](u64 group, u64 i, u64 bits) {
        const u32 place = (u32)(a.n - i);
        if (!is_left_out(a, bits) && rk_rank(a.dtype, a.least, bits) == a.window[group] && a.places[group] < place)
            atomicMax(&a.places[group], place);
    });
}

// ---- results ----

// An initial element to the window of a group. False: it is too far from it, or not finite.
__device__ __forceinline__ bool initial_in_window(const KeyedArgs &a, const FinishArgs &f, u64 group, uint64_t (&v)[2])
{
    const u64 bits = initial_of(a, f, group);
    const rk_format format = rk_format_of(a.dtype);
    if ((bits & ~rk_sign_bit(format, 1)) >= rk_inf_bits(format))
        return false;
    const rk_number x = rk_number_of(format, bits);
    const int up = x.unit - rk_e0(a.dtype) - (int)a.head->base;
    if (up < 0 || up > 64) // the sums are below 2^100
        return !x.mantissa;
    rk_add_shifted(v, 2, x.mantissa, up, x.negative);
    return true;
}

// The float sum of a group whose elements are all in its window, if it is not zero: no state is made.
__device__ __forceinline__ bool write_window(const KeyedArgs &a, const FinishArgs &f, u64 group)
{
    const bool plain = f.spec.op == RP_OP_SUM && rk_is_float(a.dtype) && !(f.spec.flags & RP_STATES_OUT);
    if (!plain || a.flags[group] & ~(u32)(kFlagMinusZero | kFlagNz))
        return false;
    uint64_t v[2];
    window_of(a, group, v);
    if (has_initial(a, f) && !initial_in_window(a, f, group, v))
        return false;
    const rk_range r = rk_range_of(v, 2);
    if (!r.end)
        return false;
    write_bits(
        f.cell_bytes, f.cells, group,
        rk_round_between(v, r.low, r.end - 1, rk_e0(a.dtype) + (int)a.head->base, (int)(v[1] >> 63), rk_format_of(f.spec.out)));
    return true;
}

// The value of a group, or why it has none. Only of the operations by key: rk_state_finish takes nvcc longer than all kernels.
__device__ inline int value_of(const rk_state &s, const rp_spec &spec, uint64_t *word)
{
    *word = 0;
    if (spec.nan == RP_NAN_ERROR && s.skipped)
        return RP_NAN;
    if (s.count == 0 && rk_needs_element(spec.op))
        return RP_EMPTY;
    if (spec.op == RP_OP_COUNT)
        *word = s.count;
    else if (spec.op == RP_OP_ARGMIN || spec.op == RP_OP_ARGMAX)
        *word = s.limb[1];
    else if (!rk_is_float(spec.out))
        return rk_finish_integer(&s, &spec, word);
    else if (spec.op == RP_OP_MEAN)
        *word = rk_finish_mean(&s, rk_format_of(spec.out));
    else if (spec.op == RP_OP_SUM)
        *word = rk_finish_sum(&s, rk_format_of(spec.out));
    else
        *word = rk_convert_float(s.dtype, s.limb[0], spec.out);
    return RP_OK;
}

__device__ inline void finish_group(const KeyedArgs &a, const FinishArgs &f, u64 group)
{
    PlainState room;
    rk_state &s = room.get();
    uint64_t word;
    state_of_group(a, f.plan.layout, group, &s);
    if (f.spec.flags & RP_STATES_OUT) {
        write_state(f, group, s);
        return;
    }
    if (has_initial(a, f))
        add_initial(a, f, group, &s);
    if (value_of(s, f.spec, &word) != RP_OK)
        set_fault(f, group);
    write_bits(f.cell_bytes, f.cells, group, word);
}

// A thread a group
__global__ void __launch_bounds__(kFinishThreads)
    finish_groups(const __grid_constant__ KeyedArgs a, const __grid_constant__ FinishArgs f)
{
    each_group(a, [&](u64 group) {
        if (!write_window(a, f, group))
            finish_group(a, f, group);
    });
}

} // namespace

KeyedFn keyed_sample_kernel() { return sample; }
KeyedFinishFn keyed_initial_kernel() { return find_initial; }
KeyedFn keyed_zeros_kernel() { return find_others; }
KeyedFn keyed_places_kernel() { return find_places; }
KeyedFinishFn keyed_finish_kernel() { return finish_groups; }

} // namespace rk
