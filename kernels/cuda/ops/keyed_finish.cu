// Reductions by key (keyed_args.h): what comes before and behind the pass over all elements, to values or states.
#include "kernels/cuda/pass/finish.cuh"
#include "kernels/cuda/pass/keyed.cuh"

namespace rk {
namespace {

// ---- before and behind ----

constexpr int kSampled = 16; // elements of a thread

// The exponent's field of a finite float, in the format in which kernels add it: its unit above rk_e0; 0: it is not finite.
__device__ __forceinline__ u32 field_of(const KeyedArgs &a, u64 i)
{
    if (a.kind == kKeyedDouble) {
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
    for (u64 i = (u64)blockIdx.x * kKeyedThreads + threadIdx.x; i < a.n; i += (u64)gridDim.x * kKeyedThreads) {
        const u64 key = !a.mask || a.mask[i] ? group_of<false>(a, key_at<false>(a, i), i) : a.groups;
        if (key == a.groups || !(a.flags[key] & kFlagMinusZero))
            continue;
        const u64 bits = bits_at(a.data, (u32)rk_bytes(a.dtype), i);
        if (bits != minus_zero && !(a.nan != RP_NAN_PROPAGATE && rk_is_nan(a.dtype, bits)))
            raise_flag(a, key, kFlagNz);
    }
}

// ---- results ----

// Carried digits to limbs
__device__ inline void limbs_of_digits(const u64 *digit, int limbs, uint64_t *limb)
{
    i64 carry = 0;
    for (int i = 0; i < 2 * limbs; i++) {
        const i64 t = (i64)digit[i] + carry; // each below 2^63 - 2^32
        if (i % 2)
            limb[i / 2] |= (u64)(u32)t << 32;
        else
            limb[i / 2] = (u32)t;
        carry = t >> 32;
    }
}

// A group's window as 128-bit two's complement
__device__ __forceinline__ void window_of(const KeyedArgs &a, u64 group, uint64_t (&v)[2])
{
    const int words = keyed_words(a.kind);
    const i64 low = (i64)a.window[group * words];
    v[0] = (u64)low;
    v[1] = (u64)(low >> 63);
    if (words < 2)
        return;
    const i64 high = (i64)a.window[group * words + 1];
    const uint64_t up[2] = {(u64)high << a.split, (u64)(high >> (64 - a.split))};
    rk_add_limbs(v, up, 2);
}

// The float sum of a group: what is in its digits and its window
__device__ inline void sum_of_group(const KeyedArgs &a, u64 group, u32 flags, rk_state *s)
{
    const int limbs = a.kind == kKeyedDouble ? RK_LIMBS64 : RK_LIMBS32;
    s->special = (u8)(flags & kFlagSpecial);
    s->nz = s->count && (!(flags & kFlagMinusZero) || flags & kFlagNz);
    if (s->special)
        return;
    if (flags & kFlagDigits)
        limbs_of_digits(a.digits + group * (u64)(2 * limbs), limbs, s->limb);
    uint64_t v[2];
    window_of(a, group, v);
    const bool negative = v[1] >> 63;
    const uint64_t low = negative ? 0 - v[0] : v[0], high = negative ? ~v[1] + (v[0] == 0) : v[1];
    rk_add_shifted(s->limb, limbs, low, (int)a.head->base, negative);
    rk_add_shifted(s->limb, limbs, high, (int)a.head->base + 64, negative);
}

__device__ inline void state_of_group(const KeyedArgs &a, int layout, u64 group, rk_state *s)
{
    const u32 flags = a.flags[group];
    rk_state_init(s, layout, a.dtype);
    s->count = a.counts ? a.counts[group] : 1;
    s->skipped = (flags & kFlagSkipped) != 0;
    switch (a.kind) {
    case kKeyedFloat:
    case kKeyedDouble:
        sum_of_group(a, group, flags, s);
        break;
    case kKeyedInt:
    case kKeyedLong: {
        uint64_t v[2];
        window_of(a, group, v);
        s->limb[0] = v[0];
        s->limb[1] = v[1];
        break;
    }
    case kKeyedBest:
        s->limb[0] = s->count ? rk_unrank(a.dtype, a.least, a.window[group]) : 0;
        break;
    case kKeyedCount:
        break;
    }
}

// The float sum of a group whose elements are all in its window, if it is not zero: no state is made.
__device__ __forceinline__ bool write_window(const KeyedArgs &a, const FinishArgs &f, u64 group)
{
    if (!f.plain || a.flags[group] & ~(u32)(kFlagMinusZero | kFlagNz))
        return false;
    uint64_t v[2];
    window_of(a, group, v);
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
    if (value_of(s, f.spec, &word) != RP_OK)
        set_fault(f, group);
    write_bits(f.cell_bytes, f.cells, group, word);
}

// A thread a group
__global__ void __launch_bounds__(kFinishThreads)
    finish_groups(const __grid_constant__ KeyedArgs a, const __grid_constant__ FinishArgs f)
{
    const u64 threads = (u64)gridDim.x * kFinishThreads;
    for (u64 group = (u64)blockIdx.x * kFinishThreads + threadIdx.x; group < a.groups; group += threads)
        if (!write_window(a, f, group))
            finish_group(a, f, group);
}

} // namespace

KeyedFn keyed_sample_kernel() { return sample; }
KeyedFn keyed_zeros_kernel() { return find_others; }
KeyedFinishFn keyed_finish_kernel() { return finish_groups; }

} // namespace rk
