/* Chosen elements: min, max, their places, both at once, the largest magnitude. The best element by `rank`, a total order on
 * the bits: -0 < +0, a NaN above all.
 *
 * Limbs: the element's bits, then 0, or of arg ops the index; of minmax the bits of both. */
#ifndef RK_CHOICE_H
#define RK_CHOICE_H

#include "kernels/exact/families/sums.h"

#define RK_MAX_PLACE (2 * RP_MAX_COUNT) /* a state's places are below it: an index_base and a count */

/* ---- init, merge, add -------------------------------------------------------------------------------------------- */

RK_FN void rk_choice_init(rk_state *s)
{
    if (s->layout == RP_STATE_ARGMIN || s->layout == RP_STATE_ARGMAX)
        s->limb[1] = RP_NO_INDEX;
}

/* The rank by which `layout` chooses; norminf holds magnitudes. */
RK_FN uint64_t rk_rank_in(int layout, int dtype, uint64_t bits)
{
    if (layout == RP_STATE_NORMINF && !rk_is_float(dtype))
        return bits;
    return rk_rank(dtype, layout == RP_STATE_MIN || layout == RP_STATE_ARGMIN, bits);
}

/* Keep the better of two elements; of equal ones, the one with the lower index. `layout`: MIN .. ARGMAX or NORMINF.
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

/* Join another element, or pair of elements, in the form of this layout's states: `bits`, and `second` for layouts of two
 * words. */
RK_FN void rk_choice_join(rk_state *s, uint64_t bits, uint64_t second)
{
    int layout = s->layout, first = s->count == 0;
    uint64_t *a = s->limb;
    if (layout == RP_STATE_MINMAX) {
        rk_choose(RP_STATE_MIN, s->dtype, first, a, 0, bits, 0);
        rk_choose(RP_STATE_MAX, s->dtype, first, a + 1, 0, second, 0);
    } else if (layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX) {
        rk_choose(layout, s->dtype, first, a, a + 1, bits, second);
    } else {
        rk_choose(layout, s->dtype, first, a, 0, bits, 0);
    }
}

/* `count` is not joined. */
RK_FN void rk_choice_merge(rk_state *s, const rk_state *o)
{
    if (o->count)
        rk_choice_join(s, o->limb[0], o->limb[1]);
}

/* `count` does not include the element. */
RK_FN void rk_choice_add(rk_state *s, uint64_t bits, uint64_t index)
{
    if (s->layout == RP_STATE_NORMINF)
        bits = rk_magnitude(s->dtype, bits);
    rk_choice_join(s, bits, s->layout == RP_STATE_MINMAX ? bits : index);
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

/* max - min, rounded once. `scratch`: rk_sum_limbs of a sum of the type. */
RK_FN uint64_t rk_finish_range(int dtype, uint64_t least, uint64_t most, uint64_t *scratch, rk_format f)
{
    rk_format from = rk_format_of(dtype);
    uint64_t inf = rk_inf_bits(from), a = least & ~rk_sign_bit(from, 1), b = most & ~rk_sign_bit(from, 1);
    if (a > inf || b > inf || (a == inf && least == most))
        return rk_nan_bits(f);
    if (a == inf || b == inf)
        return rk_inf_bits(f);
    int n = rk_sum_limbs(dtype == RP_F64 ? RP_STATE_SUM64 : RP_STATE_SUM32), e0 = rk_e0(dtype);
    rk_number x = rk_number_of(from, most), y = rk_number_of(from, least);
    for (int i = 0; i < n; i++)
        scratch[i] = 0;
    rk_add_shifted(scratch, n, x.mantissa, x.unit - e0, x.negative);
    rk_add_shifted(scratch, n, y.mantissa, y.unit - e0, !y.negative);
    return rk_round_limbs(scratch, n, e0, 0, f);
}

/* An element as the reply's type. */
RK_FN int rk_element_out(int dtype, uint64_t bits, int out, uint64_t *word)
{
    int bytes = rk_bytes(dtype), is_signed = rk_is_signed(dtype);
    if (rk_is_float(dtype)) {
        *word = rk_convert_float(dtype, bits, out);
        return RP_OK;
    }
    *word = is_signed ? rk_sign_extend(bits, bytes) : bits;
    return (int64_t)*word < 0 && is_signed != rk_is_signed(out) ? RP_OVERFLOW : RP_OK;
}

RK_FN int rk_finish_ends(const rk_state *s, int out, uint64_t words[2])
{
    int code = rk_element_out(s->dtype, s->limb[0], out, &words[0]);
    return rk_element_out(s->dtype, s->limb[1], out, &words[1]) ? RP_OVERFLOW : code;
}

/* The chosen integer, or the difference of both ends, as 192-bit two's complement. The caller has set v to limb[0]. */
RK_FN void rk_choice_integer(const rk_state *s, int op, uint64_t v[3])
{
    const uint64_t *l = s->limb;
    if (op == RP_OP_RANGE) {
        int bytes = rk_bytes(s->dtype), is_signed = rk_is_signed(s->dtype);
        uint64_t a = is_signed ? rk_sign_extend(l[0], bytes) : l[0], b = is_signed ? rk_sign_extend(l[1], bytes) : l[1];
        v[0] = b - a;                           /* max >= min, so the difference is below 2^64 */
    } else if (s->layout != RP_STATE_NORMINF) { /* NORMINF holds a magnitude, which has no sign */
        rk_widen(s->dtype, l[0], v);
    }
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

RK_FN rk_flaw rk_check_element(const rk_state *s, uint64_t bits)
{
    if (bits & ~rk_all_ones(s->dtype))
        return rk_bad("limbs", "wider than the element type");
    if (rk_is_nan(s->dtype, bits) && bits != rk_nan_bits(rk_format_of(s->dtype)))
        return rk_bad("limbs", "a NaN other than the canonical one");
    return rk_fine();
}

/* Checks an element and its index. Without elements both are 0. */
RK_FN rk_flaw rk_check_placed(const rk_state *s, const uint64_t *limb)
{
    if (s->count == 0)
        return limb[0] || limb[1] != RP_NO_INDEX ? rk_bad("limbs", "an element without a count") : rk_fine();
    return limb[1] >= RK_MAX_PLACE ? rk_bad("limbs", "an index of 2^61 or more") : rk_check_element(s, limb[0]);
}

RK_FN rk_flaw rk_check_single(const rk_state *s)
{
    if (s->limb[1])
        return rk_bad("limbs", "the second word is not zero");
    if (s->count == 0)
        return s->limb[0] ? rk_bad("limbs", "an element without a count") : rk_fine();
    uint64_t most = rk_is_float(s->dtype) ? rk_all_ones(s->dtype) / 2 : rk_largest_magnitude(s->dtype);
    if (s->layout == RP_STATE_NORMINF && s->limb[0] > most)
        return rk_bad("limbs", "no magnitude of the element type");
    return rk_check_element(s, s->limb[0]);
}

/* The smallest element must not be above the largest. With a NaN, both are the NaN. */
RK_FN rk_flaw rk_check_pair(const rk_state *s, uint64_t least, uint64_t most)
{
    int nan = rk_is_nan(s->dtype, least);
    if (nan != rk_is_nan(s->dtype, most))
        return rk_bad("limbs", "a NaN at one end only");
    if (!nan && rk_rank(s->dtype, 0, least) > rk_rank(s->dtype, 0, most))
        return rk_bad("limbs", "the smallest element is above the largest");
    return s->count == 1 && least != most ? rk_bad("limbs", "two ends of one element") : rk_fine();
}

RK_FN rk_flaw rk_check_minmax(const rk_state *s)
{
    if (s->count == 0)
        return s->limb[0] || s->limb[1] ? rk_bad("limbs", "an element without a count") : rk_fine();
    rk_flaw flaw = rk_check_element(s, s->limb[0]);
    if (!flaw.why)
        flaw = rk_check_element(s, s->limb[1]);
    return flaw.why ? flaw : rk_check_pair(s, s->limb[0], s->limb[1]);
}

RK_FN rk_flaw rk_choice_check(const rk_state *s)
{
    if (s->layout == RP_STATE_ARGMIN || s->layout == RP_STATE_ARGMAX)
        return rk_check_placed(s, s->limb);
    return s->layout == RP_STATE_MINMAX ? rk_check_minmax(s) : rk_check_single(s);
}

#endif
