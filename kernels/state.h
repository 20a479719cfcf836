/* State arithmetic, written once: C on the CPU, CUDA C on the device, the same bits from both.
 *
 * A reduction is  state = init; add elements; merge states; finish.  States are exact, so a result depends only on the
 * multiset of elements (for arg ops: of (element, index) pairs), never on chunking, order, threads or device.
 *
 *   float sums   one fixed-point integer wide enough for every sum ("long accumulator": Kulisch 1981; the digit form
 *                with delayed carries: Neal 2015, arXiv:1505.05571, section 3), value = limbs * 2^e0
 *   integer sums 128-bit two's complement
 *   min .. argmax the best element by `rank`, a total order on the bits: -0 < +0, a NaN above all
 *   counts       a number
 *
 * Integers only: no floating-point instruction takes part in finishing, so flush-to-zero, rounding modes and contraction
 * cannot touch it. All functions are pure and thread-safe. */
#ifndef RK_STATE_H
#define RK_STATE_H

#include "proto/types.h"

#ifdef __CUDACC__
#define RK_FN static inline __host__ __device__
#else
#define RK_FN static inline
#endif

enum { RK_PINF = 1, RK_NINF = 2, RK_NAN = 3 }; /* rk_state.special: joined by OR, so +inf with -inf is NaN */

enum {
    RK_LIMBS32 = 6,  /* 2^60 elements below 2^128 in units of 2^-150 need bit 338 of 384 */
    RK_LIMBS64 = 34, /* 2^60 elements below 2^1024 in units of 2^-1075 need bit 2159 of 2176 */
    RK_MAX_LIMBS = RK_LIMBS64,
    RK_E0_32 = -150, /* one below the smallest subnormal, so a number with exponent field e >= 1 is fraction << e */
    RK_E0_64 = -1075
};

/* A canonical partial state: these bytes travel (PROTOCOL.md, "Partial states"); all machines here are little-endian.
 * Only the first rp_state_size(layout) bytes exist in arrays of states. */
typedef struct rk_state {
    uint8_t layout;  /* rp_layout */
    uint8_t special; /* float sums: RK_PINF .. RK_NAN, infinities and NaNs among the elements; the limbs are zero then */
    uint8_t nz;      /* float sums: 1 if some element was not -0.0 */
    uint8_t skipped; /* 1 if a NaN was skipped (policies omit and error) */
    uint8_t dtype;   /* rp_dtype of the elements */
    uint8_t zero[3];
    uint64_t count;  /* elements, without skipped NaNs */
    uint64_t limb[RK_MAX_LIMBS]; /* float sums: limbs; integer sums: low, high; min and max: element bits, 0;
                                    arg ops: element bits, index; counts: the number, 0 */
} rk_state;

RK_FN int rk_limbs(int layout) { return layout == RP_STATE_SUM32 ? RK_LIMBS32 : layout == RP_STATE_SUM64 ? RK_LIMBS64 : 2; }
RK_FN int rk_e0(int layout) { return layout == RP_STATE_SUM32 ? RK_E0_32 : RK_E0_64; }

/* Types as the device needs them: no tables. */
RK_FN int rk_is_float(int dtype) { return dtype >= RP_F16; }
RK_FN int rk_is_signed(int dtype) { return dtype == RP_I8 || dtype == RP_I16 || dtype == RP_I32 || dtype == RP_I64; }
RK_FN int rk_bytes(int dtype)
{
    return dtype <= RP_U8                                           ? 1
           : dtype <= RP_U16 || dtype == RP_F16 || dtype == RP_BF16 ? 2
           : dtype == RP_I64 || dtype == RP_U64 || dtype == RP_F64  ? 8
                                                                    : 4;
}
RK_FN uint64_t rk_sign_extend(uint64_t bits, int bytes)
{
    int shift = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(bits << shift) >> shift);
}

/* ---- floating-point formats ------------------------------------------------------------------------------------- */

typedef struct rk_format {
    int precision; /* significant bits, the hidden one included */
    int emin;      /* exponent of the smallest normal number; emax = 1 - emin */
    int width;     /* bits in all */
} rk_format;

RK_FN rk_format rk_format_of(int dtype)
{
    rk_format f64 = {53, -1022, 64}, f32 = {24, -126, 32}, f16 = {11, -14, 16}, bf16 = {8, -126, 16};
    return dtype == RP_F64 ? f64 : dtype == RP_F32 ? f32 : dtype == RP_F16 ? f16 : bf16;
}

RK_FN uint64_t rk_sign_bit(rk_format f, int negative) { return (uint64_t)(negative != 0) << (f.width - 1); }
/* exponent field all ones */
RK_FN uint64_t rk_inf_bits(rk_format f)
{
    return (((uint64_t)1 << (f.width - f.precision)) - 1) << (f.precision - 1);
}
/* the one NaN that results carry: positive, quiet, empty payload */
RK_FN uint64_t rk_nan_bits(rk_format f) { return rk_inf_bits(f) | (uint64_t)1 << (f.precision - 2); }

RK_FN int rk_clz64(uint64_t v) /* v != 0 */
{
#ifdef __CUDA_ARCH__
    return __clzll((long long)v);
#else
    return __builtin_clzll(v);
#endif
}

/* Round to nearest, ties to even, once: the magnitude is window * 2^(top - 63), with bit 63 of `window` set, plus less
 * than one unit of the window's last place if `sticky`. Subnormals round at their own last place; past the largest
 * number comes the infinity. */
RK_FN uint64_t rk_round_window(uint64_t window, int top, int sticky, int negative, rk_format f)
{
    uint64_t sign = rk_sign_bit(f, negative), inf = rk_inf_bits(f);
    int emax = 1 - f.emin;
    if (top > emax)
        return sign | inf;
    int drop = 64 - f.precision; /* bits of the window below the last place of the result, at least 11 */
    if (top < f.emin)
        drop += f.emin - top;
    if (drop > 64) /* below half of the smallest subnormal */
        return sign;
    uint64_t mantissa = drop == 64 ? 0 : window >> drop;
    uint64_t half = (uint64_t)1 << (drop - 1), rest = window & (half - 1);
    if ((window & half) && (rest || sticky || (mantissa & 1)))
        mantissa++;
    /* The hidden bit, or a carry out of the fraction, adds one to the exponent field by itself. */
    uint64_t field = top < f.emin ? 0 : (uint64_t)(top - f.emin);
    uint64_t bits = (field << (f.precision - 1)) + mantissa;
    return sign | (bits > inf ? inf : bits);
}

/* ---- limbs ------------------------------------------------------------------------------------------------------ */

/* Working form of float sums: base-2^32 digits in int64, carries delayed. d[0..2n) -> two's complement limb[0..n). */
RK_FN void rk_limbs_of_digits(const int64_t *d, uint64_t *limb, int n)
{
    int64_t carry = 0;
    for (int i = 0; i < n; i++) {
        int64_t lo = d[2 * i] + carry;
        int64_t hi = d[2 * i + 1] + (lo >> 32);
        limb[i] = (uint64_t)(uint32_t)lo | (uint64_t)(uint32_t)hi << 32;
        carry = hi >> 32;
    }
}

/* a += b over n limbs */
RK_FN void rk_add_limbs(uint64_t *a, const uint64_t *b, int n)
{
    uint64_t carry = 0;
    for (int i = 0; i < n; i++) {
        uint64_t s = a[i] + b[i];
        uint64_t c = s < b[i];
        a[i] = s + carry;
        carry = c | (a[i] < s);
    }
}

/* limb i of |value|, for a two's complement number that is negative if `negative`; `low` counts the zero limbs below,
 * because -x is ~x + 1 and the carry runs through zero limbs only */
RK_FN uint64_t rk_magnitude_limb(const uint64_t *limb, int i, int negative, int low)
{
    if (!negative || i < low)
        return limb[i];
    return i == low ? 0 - limb[i] : ~limb[i];
}

/* Round the integer limb * 2^e0 that is not zero. `low`: its lowest limb that is not zero; `head`: the highest limb of its
 * magnitude that is not zero. */
RK_FN uint64_t rk_round_between(const uint64_t *limb, int low, int head, int e0, int negative, rk_format f)
{
    uint64_t first = rk_magnitude_limb(limb, head, negative, low);
    uint64_t next = head > 0 ? rk_magnitude_limb(limb, head - 1, negative, low) : 0;
    int shift = rk_clz64(first);
    uint64_t window = shift ? first << shift | next >> (64 - shift) : first;
    int sticky = (shift ? next << shift : next) != 0 || low < head - 1;
    return rk_round_window(window, e0 + 64 * head + 63 - shift, sticky, negative, f);
}

/* Round the integer limb[0..n) * 2^e0. `zero_negative`: what an exact zero rounds to. */
RK_FN uint64_t rk_round_limbs(const uint64_t *limb, int n, int e0, int zero_negative, rk_format f)
{
    int low = 0, head = n - 1, negative = (int)(limb[n - 1] >> 63);
    while (low < n && limb[low] == 0)
        low++;
    if (low == n)
        return rk_sign_bit(f, zero_negative);
    while (rk_magnitude_limb(limb, head, negative, low) == 0)
        head--;
    return rk_round_between(limb, low, head, e0, negative, f);
}

/* ---- order of elements ------------------------------------------------------------------------------------------ */

/* The rank of an element: an unsigned integer of the element's own width whose order is the order of the reduction,
 * larger is better; `least` turns it round for min. -0 < +0. A NaN has the top rank either way. */
RK_FN int rk_is_nan(int dtype, uint64_t bits)
{
    rk_format f = rk_format_of(dtype);
    return rk_is_float(dtype) && (bits & ~rk_sign_bit(f, 1)) > rk_inf_bits(f);
}

RK_FN uint64_t rk_rank(int dtype, int least, uint64_t bits)
{
    int width = 8 * rk_bytes(dtype);
    uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1, sign = (uint64_t)1 << (width - 1);
    if (rk_is_nan(dtype, bits))
        return mask;
    uint64_t r = bits & mask;
    if (rk_is_float(dtype))
        r = r & sign ? ~r & mask : r | sign;
    else if (rk_is_signed(dtype))
        r ^= sign;
    return least ? ~r & mask : r;
}

RK_FN uint64_t rk_unrank(int dtype, int least, uint64_t rank)
{
    int width = 8 * rk_bytes(dtype);
    uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1, sign = (uint64_t)1 << (width - 1);
    if (rk_is_float(dtype) && rank == mask)
        return rk_nan_bits(rk_format_of(dtype));
    uint64_t r = least ? ~rank & mask : rank;
    if (rk_is_float(dtype))
        return r & sign ? r ^ sign : ~r & mask;
    return rk_is_signed(dtype) ? r ^ sign : r;
}

/* An element's float value in another float format, rounded once. */
RK_FN uint64_t rk_convert_float(int from, uint64_t bits, int to)
{
    rk_format a = rk_format_of(from), b = rk_format_of(to);
    int negative = (int)(bits >> (a.width - 1) & 1);
    uint64_t m = bits & ~rk_sign_bit(a, 1);
    if (m > rk_inf_bits(a))
        return rk_nan_bits(b);
    if (m == rk_inf_bits(a))
        return rk_sign_bit(b, negative) | rk_inf_bits(b);
    if (m == 0)
        return rk_sign_bit(b, negative);
    int field = (int)(m >> (a.precision - 1)); /* 0: subnormal */
    uint64_t hidden = (uint64_t)1 << (a.precision - 1), fraction = m & (hidden - 1);
    uint64_t mantissa = field ? fraction | hidden : fraction;
    int unit = a.emin - (a.precision - 1) + (field ? field - 1 : 0); /* value = mantissa * 2^unit */
    int shift = rk_clz64(mantissa);
    return rk_round_window(mantissa << shift, unit + 63 - shift, 0, negative, b);
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

RK_FN void rk_state_init(rk_state *s, int layout, int dtype)
{
    s->layout = (uint8_t)layout;
    s->special = s->nz = s->skipped = 0;
    s->dtype = (uint8_t)dtype;
    s->zero[0] = s->zero[1] = s->zero[2] = 0;
    s->count = 0;
    for (int i = 0; i < rk_limbs(layout); i++)
        s->limb[i] = 0;
    if (layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX)
        s->limb[1] = RP_NO_INDEX;
}

/* s joined with o: commutative and associative, to the byte. Same layout and dtype; the counts must fit together. */
RK_FN void rk_state_merge(rk_state *s, const rk_state *o)
{
    int chooses = s->layout >= RP_STATE_MIN && s->layout <= RP_STATE_ARGMAX;
    if (chooses && o->count) {
        int least = s->layout == RP_STATE_MIN || s->layout == RP_STATE_ARGMIN;
        uint64_t mine = rk_rank(s->dtype, least, s->limb[0]), other = rk_rank(s->dtype, least, o->limb[0]);
        if (s->count == 0 || other > mine || (other == mine && o->limb[1] < s->limb[1])) {
            s->limb[0] = o->limb[0];
            s->limb[1] = o->limb[1];
        }
    }
    s->special |= o->special;
    s->nz |= o->nz;
    s->skipped |= o->skipped;
    s->count += o->count;
    if (chooses)
        return;
    rk_add_limbs(s->limb, o->limb, rk_limbs(s->layout));
    if (s->special)
        for (int i = 0; i < rk_limbs(s->layout); i++)
            s->limb[i] = 0;
}

/* The finished value as bits of the type `out` (a checked spec's); returns RP_OK, EMPTY, NAN or OVERFLOW. */
RK_FN int rk_state_finish(const rk_state *s, int nan_policy, int out, uint64_t *bits)
{
    *bits = 0;
    if (nan_policy == RP_NAN_ERROR && s->skipped)
        return RP_NAN;
    rk_format f = rk_format_of(out);
    switch (s->layout) {
    case RP_STATE_SUM32:
    case RP_STATE_SUM64:
        if (s->special)
            *bits = s->special == RK_NAN ? rk_nan_bits(f) : rk_sign_bit(f, s->special == RK_NINF) | rk_inf_bits(f);
        else
            *bits = rk_round_limbs(s->limb, rk_limbs(s->layout), rk_e0(s->layout), s->count && !s->nz, f);
        return RP_OK;
    case RP_STATE_INT: {
        uint64_t low = s->limb[0], high = s->limb[1];
        *bits = low;
        return high == (out == RP_I64 ? (uint64_t)((int64_t)low >> 63) : 0) ? RP_OK : RP_OVERFLOW;
    }
    case RP_STATE_MIN:
    case RP_STATE_MAX:
        if (s->count == 0)
            return RP_EMPTY;
        if (rk_is_float(s->dtype)) {
            *bits = rk_convert_float(s->dtype, s->limb[0], out);
            return RP_OK;
        }
        *bits = rk_is_signed(s->dtype) ? rk_sign_extend(s->limb[0], rk_bytes(s->dtype)) : s->limb[0];
        return (int64_t)*bits < 0 && rk_is_signed(s->dtype) != (out == RP_I64) ? RP_OVERFLOW : RP_OK;
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
        *bits = s->limb[1];
        return s->count == 0 ? RP_EMPTY : RP_OK;
    default:
        *bits = s->limb[0];
        return RP_OK;
    }
}

#endif
