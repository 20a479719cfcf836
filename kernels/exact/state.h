/* States: what a reduction knows of the elements it has seen. Written once: C on the CPU, CUDA C on the device, the same
 * bits from both.
 *
 * A reduction is  state = init; add elements; merge states; finish (finish.h).  States are exact, so a result depends only
 * on the multiset of elements (for arg ops: of (element, index) pairs), never on chunking, order, threads or device.
 *
 *   float sums    one fixed-point integer wide enough for every sum ("long accumulator": Kulisch 1981; the digit form
 *                 with delayed carries: Neal 2015, arXiv:1505.05571, section 3), value = limbs * 2^e0
 *   their squares the same with 2 e0: squares are exact in it
 *   integer sums  128-bit two's complement; of squares 192
 *   min .. stats  the best element by `rank`, a total order on the bits: -0 < +0, a NaN above all
 *   products      of floats: the sum of the logarithms in fixed point (product.h); of integers: below
 *   counts, bits  a number
 *
 * Adding here is the plain way, one element at a time: the definition that the fast paths of both engines are tested
 * against, and what serves masks, columns and other odd shapes on the device. Pure and thread-safe. */
#ifndef RK_STATE_H
#define RK_STATE_H

#include "kernels/exact/limbs.h"
#include "kernels/exact/product.h"
#include "kernels/exact/total_order.h"

enum { /* rk_state.special, joined by OR */
       RK_PINF = 1,
       RK_NINF = 2,
       RK_NAN = 3, /* also +inf with -inf */
       RK_INF = 1, /* in products, where an infinity with a zero is NaN */
       RK_ZERO = 2
};

/* A canonical partial state: these bytes travel (PROTOCOL.md, "Partial states"); all machines here are little-endian.
 * Only the first rp_state_size(layout) bytes exist in arrays of states. */
typedef struct rk_state {
    uint8_t layout;  /* rp_layout */
    uint8_t special; /* float sums and products: infinities, NaNs (zeros) among the elements; their limbs are zero then */
    uint8_t nz;      /* float sums: 1 if some element was not -0.0 */
    uint8_t skipped; /* 1 if a NaN was skipped (policies omit and error; count_nan: error) */
    uint8_t dtype;   /* rp_dtype of the elements */
    uint8_t zero[3];
    uint64_t count;              /* elements, without skipped NaNs */
    uint64_t limb[RP_MAX_LIMBS]; /* limbs of the sum, then of the sum of squares, then the others (types.def):
                                    min, max, norminf: element bits, 0      minmax: bits of both
                                    arg ops:           element bits, index  counts, bits: the value, 0
                                    prod of floats:    rk_log2 sum of 3 limbs, number of elements with the sign bit
                                    prod of integers:  modulo 2^64, RK_PROD_* below
                                    stats:             RK_STATS_* below */
} rk_state;

enum {
    RK_LIMBS32 = 6, /* of a float sum */
    RK_LIMBS64 = 34,
    RK_SQUARE_LIMBS32 = 10, /* of a sum of squares */
    RK_SQUARE_LIMBS64 = 67,
    RK_E0_32 = -150, /* see rk_e0 */
    RK_E0_64 = -1075
};
enum {                    /* prod of integers: limbs */
       RK_PROD_WRAPPED,   /* the product modulo 2^64 */
       RK_PROD_MAGNITUDE, /* of the nonzero elements; 0 if it is 2^64 or more */
       RK_PROD_NEGATIVES  /* number of negative elements */
};
enum { /* stats: limbs behind the sums */
       RK_STATS_MIN,
       RK_STATS_MIN_INDEX,
       RK_STATS_MAX,
       RK_STATS_MAX_INDEX,
       RK_STATS_ZEROS,
       RK_STATS_NANS
};

RK_FN int rk_sum_limbs(int layout)
{
    switch (layout) {
#define X(NAME, code, sum, squares, others, of) \
    case code:                                  \
        return sum;
        RP_LAYOUTS(X)
#undef X
    default:
        return 0;
    }
}
RK_FN int rk_square_limbs(int layout)
{
    switch (layout) {
#define X(NAME, code, sum, squares, others, of) \
    case code:                                  \
        return squares;
        RP_LAYOUTS(X)
#undef X
    default:
        return 0;
    }
}
RK_FN int rk_other_limbs(int layout)
{
    switch (layout) {
#define X(NAME, code, sum, squares, others, of) \
    case code:                                  \
        return others;
        RP_LAYOUTS(X)
#undef X
    default:
        return 0;
    }
}
RK_FN int rk_limbs(int layout) { return rk_sum_limbs(layout) + rk_square_limbs(layout) + rk_other_limbs(layout); }

/* The unit of a sum's limbs is 2^rk_e0, of a sum of squares 2^(2 rk_e0): for floats one below the smallest subnormal, so a
 * number with exponent field e >= 1 is fraction << e. 2^60 elements below 2^128 in units of 2^-150 need bit 338 of 384,
 * below 2^1024 in units of 2^-1075 bit 2159 of 2176; their squares bits 616 of 640 and 4258 of 4288. */
RK_FN int rk_e0(int dtype) { return dtype == RP_F64 ? RK_E0_64 : rk_is_float(dtype) ? RK_E0_32 : 0; }

RK_FN int rk_is_abs(int layout) { return layout >= RP_STATE_ABS32 && layout <= RP_STATE_ABSINT; }
RK_FN int rk_is_stats(int layout) { return layout >= RP_STATE_STATS32; }
/* Does `special` speak of magnitudes, so that both infinities are one? */
RK_FN int rk_is_unsigned_sum(int layout) { return rk_is_abs(layout) || layout == RP_STATE_SQ32 || layout == RP_STATE_SQ64; }
/* Layouts that tell a sum of nothing but -0.0: sums of signed floats */
RK_FN int rk_has_nz(int layout, int dtype) { return rk_is_float(dtype) && rk_sum_limbs(layout) && !rk_is_abs(layout); }

/* All bits of an element */
RK_FN uint64_t rk_all_ones(int dtype) { return ~(uint64_t)0 >> (64 - 8 * rk_bytes(dtype)); }

RK_FN void rk_state_init(rk_state *s, int layout, int dtype)
{
    s->layout = (uint8_t)layout;
    s->special = s->nz = s->skipped = 0;
    s->dtype = (uint8_t)dtype;
    s->zero[0] = s->zero[1] = s->zero[2] = 0;
    s->count = 0;
    for (int i = 0, n = rk_limbs(layout); i < n; i++)
        s->limb[i] = 0;
    uint64_t *other = s->limb + rk_sum_limbs(layout) + rk_square_limbs(layout);
    if (layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX)
        other[1] = RP_NO_INDEX;
    if (rk_is_stats(layout))
        other[RK_STATS_MIN_INDEX] = other[RK_STATS_MAX_INDEX] = RP_NO_INDEX;
    if (layout == RP_STATE_AND)
        other[0] = rk_all_ones(dtype);
    if (layout == RP_STATE_PRODINT)
        other[RK_PROD_WRAPPED] = other[RK_PROD_MAGNITUDE] = 1;
}

/* ---- merge ------------------------------------------------------------------------------------------------------ */

/* The rank by which `layout` chooses; norminf holds magnitudes. */
RK_FN uint64_t rk_rank_in(int layout, int dtype, uint64_t bits)
{
    if (layout == RP_STATE_NORMINF && !rk_is_float(dtype))
        return bits;
    return rk_rank(dtype, layout == RP_STATE_MIN || layout == RP_STATE_ARGMIN, bits);
}

/* Keep the better of two elements, of equals the one with the lower index. `layout`: MIN .. ARGMAX or NORMINF.
 * `index` may be NULL: then there are none. */
RK_FN void rk_choose(int layout, int dtype, int first, uint64_t *best, uint64_t *index, uint64_t bits, uint64_t at)
{
    uint64_t mine = rk_rank_in(layout, dtype, *best), other = rk_rank_in(layout, dtype, bits);
    if (!first && !(other > mine || (other == mine && index && at < *index)))
        return;
    *best = bits;
    if (index)
        *index = at;
}

/* Magnitudes of products: 0 stands for 2^64 and more. */
RK_FN uint64_t rk_times(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64 ? 0 : a * b; }

RK_FN void rk_merge_others(rk_state *s, const rk_state *o)
{
    int from = rk_sum_limbs(s->layout) + rk_square_limbs(s->layout), first = s->count == 0;
    uint64_t *a = s->limb + from;
    const uint64_t *b = o->limb + from;
    switch (s->layout) {
    case RP_STATE_MIN:
    case RP_STATE_MAX:
    case RP_STATE_NORMINF:
        if (o->count)
            rk_choose(s->layout, s->dtype, first, a, 0, b[0], 0);
        break;
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
        if (o->count)
            rk_choose(s->layout, s->dtype, first, a, a + 1, b[0], b[1]);
        break;
    case RP_STATE_MINMAX:
        if (o->count) {
            rk_choose(RP_STATE_MIN, s->dtype, first, a, 0, b[0], 0);
            rk_choose(RP_STATE_MAX, s->dtype, first, a + 1, 0, b[1], 0);
        }
        break;
    case RP_STATE_STATS32:
    case RP_STATE_STATS64:
    case RP_STATE_STATSINT:
        if (o->count) {
            rk_choose(RP_STATE_ARGMIN, s->dtype, first, a + RK_STATS_MIN, a + RK_STATS_MIN_INDEX, b[RK_STATS_MIN],
                      b[RK_STATS_MIN_INDEX]);
            rk_choose(RP_STATE_ARGMAX, s->dtype, first, a + RK_STATS_MAX, a + RK_STATS_MAX_INDEX, b[RK_STATS_MAX],
                      b[RK_STATS_MAX_INDEX]);
        }
        a[RK_STATS_ZEROS] += b[RK_STATS_ZEROS];
        a[RK_STATS_NANS] += b[RK_STATS_NANS];
        break;
    case RP_STATE_COUNT:
    case RP_STATE_NANS:
        a[0] += b[0];
        break;
    case RP_STATE_AND:
        a[0] &= b[0];
        break;
    case RP_STATE_OR:
        a[0] |= b[0];
        break;
    case RP_STATE_XOR:
        a[0] ^= b[0];
        break;
    case RP_STATE_PROD:
        rk_add_limbs(a, b, 3);
        a[3] += b[3];
        break;
    case RP_STATE_PRODINT:
        a[RK_PROD_WRAPPED] *= b[RK_PROD_WRAPPED];
        a[RK_PROD_MAGNITUDE] = rk_times(a[RK_PROD_MAGNITUDE], b[RK_PROD_MAGNITUDE]);
        a[RK_PROD_NEGATIVES] += b[RK_PROD_NEGATIVES];
        break;
    default: /* sums have no others */
        break;
    }
}

/* Sums with infinities or NaNs are those; the sign of an infinite or zero product still counts. */
RK_FN void rk_void_limbs(rk_state *s)
{
    int n = rk_sum_limbs(s->layout) + rk_square_limbs(s->layout);
    if (s->layout == RP_STATE_PRODINT)
        return;
    if (s->layout == RP_STATE_PROD)
        n = s->special == RK_NAN ? 4 : 3;
    for (int i = 0; i < n; i++)
        s->limb[i] = 0;
}

/* s joined with o: commutative and associative, to the byte. Same layout and dtype; the counts must fit together. */
RK_FN void rk_state_merge(rk_state *s, const rk_state *o)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    rk_merge_others(s, o);
    rk_add_limbs(s->limb, o->limb, sum);
    rk_add_limbs(s->limb + sum, o->limb + sum, squares);
    s->special |= o->special;
    s->nz |= o->nz;
    s->skipped |= o->skipped;
    s->count += o->count;
    if (s->special)
        rk_void_limbs(s);
}

/* ---- add one element --------------------------------------------------------------------------------------------- */

RK_FN void rk_add_float_sums(rk_state *s, uint64_t bits)
{
    rk_format f = rk_format_of(s->dtype);
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout), e0 = rk_e0(s->dtype);
    uint64_t magnitude = bits & ~rk_sign_bit(f, 1);
    if (sum && !rk_is_abs(s->layout))
        s->nz |= bits != rk_sign_bit(f, 1);
    if (magnitude >= rk_inf_bits(f)) {
        int negative = bits != magnitude && !rk_is_unsigned_sum(s->layout);
        s->special |= magnitude > rk_inf_bits(f) ? RK_NAN : negative ? RK_NINF : RK_PINF;
        rk_void_limbs(s);
    }
    if (s->special)
        return;
    rk_number x = rk_number_of(f, bits);
    if (sum)
        rk_add_shifted(s->limb, sum, x.mantissa, x.unit - e0, x.negative && !rk_is_abs(s->layout));
    if (squares) {
        unsigned __int128 square = (unsigned __int128)x.mantissa * x.mantissa;
        rk_add_shifted(s->limb + sum, squares, (uint64_t)square, 2 * (x.unit - e0), 0);
        rk_add_shifted(s->limb + sum, squares, (uint64_t)(square >> 64), 2 * (x.unit - e0) + 64, 0);
    }
}

RK_FN void rk_add_int_sums(rk_state *s, uint64_t bits)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    uint64_t magnitude = rk_magnitude(s->dtype, bits);
    int negative = rk_is_signed(s->dtype) && rk_sign_extend(bits, rk_bytes(s->dtype)) >> 63;
    if (sum)
        rk_add_shifted(s->limb, sum, magnitude, 0, negative && !rk_is_abs(s->layout));
    if (squares) {
        unsigned __int128 square = (unsigned __int128)magnitude * magnitude;
        rk_add_shifted(s->limb + sum, squares, (uint64_t)square, 0, 0);
        rk_add_shifted(s->limb + sum, squares, (uint64_t)(square >> 64), 64, 0);
    }
}

RK_FN void rk_add_product(rk_state *s, uint64_t bits)
{
    rk_format f = rk_format_of(s->dtype);
    uint64_t magnitude = bits & ~rk_sign_bit(f, 1);
    if (s->special != RK_NAN)
        s->limb[3] += magnitude != bits;
    if (magnitude == 0 || magnitude >= rk_inf_bits(f))
        s->special |= magnitude == 0 ? RK_ZERO : magnitude == rk_inf_bits(f) ? RK_INF : RK_NAN;
    else
        rk_log2_add(s->limb, f, magnitude);
    if (s->special)
        rk_void_limbs(s);
}

RK_FN void rk_add_int_product(rk_state *s, uint64_t bits)
{
    int negative = rk_is_signed(s->dtype) && rk_sign_extend(bits, rk_bytes(s->dtype)) >> 63;
    uint64_t magnitude = rk_magnitude(s->dtype, bits);
    s->limb[RK_PROD_WRAPPED] *= negative ? 0 - magnitude : magnitude;
    s->limb[RK_PROD_NEGATIVES] += (uint64_t)negative;
    if (magnitude)
        s->limb[RK_PROD_MAGNITUDE] = rk_times(s->limb[RK_PROD_MAGNITUDE], magnitude);
    else
        s->special |= RK_ZERO;
}

/* Add the element with these bits (zero-extended) and this index under the policy. count must stay below 2^63. */
RK_FN void rk_state_add(rk_state *s, uint64_t bits, uint64_t index, int nan_policy)
{
    int layout = s->layout, dtype = s->dtype, first = s->count == 0;
    int nan = rk_is_nan(dtype, bits), zero = (rk_is_float(dtype) ? bits & ~rk_sign_bit(rk_format_of(dtype), 1) : bits) == 0;
    uint64_t *other = s->limb + rk_sum_limbs(layout) + rk_square_limbs(layout);
    if (nan) {
        bits = rk_nan_bits(rk_format_of(dtype)); /* all NaNs are one */
        if (rk_is_stats(layout))
            other[RK_STATS_NANS]++;
        if (layout == RP_STATE_NANS) {
            other[0]++;
            s->skipped |= nan_policy == RP_NAN_ERROR;
        } else if (nan_policy != RP_NAN_PROPAGATE) {
            s->skipped = 1;
            return;
        }
    }
    s->count++;
    if (rk_sum_limbs(layout) + rk_square_limbs(layout)) {
        if (rk_is_float(dtype))
            rk_add_float_sums(s, bits);
        else
            rk_add_int_sums(s, bits);
    }
    switch (layout) {
    case RP_STATE_MIN:
    case RP_STATE_MAX:
        rk_choose(layout, dtype, first, other, 0, bits, 0);
        break;
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
        rk_choose(layout, dtype, first, other, other + 1, bits, index);
        break;
    case RP_STATE_NORMINF:
        rk_choose(layout, dtype, first, other, 0, rk_magnitude(dtype, bits), 0);
        break;
    case RP_STATE_MINMAX:
        rk_choose(RP_STATE_MIN, dtype, first, other, 0, bits, 0);
        rk_choose(RP_STATE_MAX, dtype, first, other + 1, 0, bits, 0);
        break;
    case RP_STATE_STATS32:
    case RP_STATE_STATS64:
    case RP_STATE_STATSINT:
        rk_choose(RP_STATE_ARGMIN, dtype, first, other + RK_STATS_MIN, other + RK_STATS_MIN_INDEX, bits, index);
        rk_choose(RP_STATE_ARGMAX, dtype, first, other + RK_STATS_MAX, other + RK_STATS_MAX_INDEX, bits, index);
        other[RK_STATS_ZEROS] += (uint64_t)zero;
        break;
    case RP_STATE_COUNT:
        other[0] += (uint64_t)!zero;
        break;
    case RP_STATE_AND:
        other[0] &= bits;
        break;
    case RP_STATE_OR:
        other[0] |= bits;
        break;
    case RP_STATE_XOR:
        other[0] ^= bits;
        break;
    case RP_STATE_PROD:
        rk_add_product(s, bits);
        break;
    case RP_STATE_PRODINT:
        rk_add_int_product(s, bits);
        break;
    default:
        break;
    }
}

#endif
