/* Stats: sums, ends with their places, zeros and NaNs of the same elements in one pass. Limbs behind the sums: RK_STATS_*. */
#ifndef RK_SUMMARY_H
#define RK_SUMMARY_H

#include "kernels/exact/families/choice.h"

enum { RK_STATS_MIN, RK_STATS_MIN_INDEX, RK_STATS_MAX, RK_STATS_MAX_INDEX, RK_STATS_ZEROS, RK_STATS_NANS };

RK_FN uint64_t *rk_summary_others(rk_state *s) { return s->limb + rk_others_at(s->layout); }

/* ---- init, merge, add -------------------------------------------------------------------------------------------- */

RK_FN void rk_summary_init(rk_state *s)
{
    uint64_t *other = rk_summary_others(s);
    other[RK_STATS_MIN_INDEX] = other[RK_STATS_MAX_INDEX] = RP_NO_INDEX;
}

/* Join both ends of other elements to those at `a`. */
RK_FN void rk_summary_ends(const rk_state *s, uint64_t *a, const uint64_t *b)
{
    int first = s->count == 0;
    rk_choose(RP_STATE_ARGMIN, s->dtype, first, a + RK_STATS_MIN, a + RK_STATS_MIN_INDEX, b[RK_STATS_MIN],
              b[RK_STATS_MIN_INDEX]);
    rk_choose(RP_STATE_ARGMAX, s->dtype, first, a + RK_STATS_MAX, a + RK_STATS_MAX_INDEX, b[RK_STATS_MAX],
              b[RK_STATS_MAX_INDEX]);
}

/* The sums are joined by rk_sums_merge; `count` is not. */
RK_FN void rk_summary_merge(rk_state *s, const rk_state *o)
{
    uint64_t *a = rk_summary_others(s);
    const uint64_t *b = o->limb + rk_others_at(s->layout);
    if (o->count)
        rk_summary_ends(s, a, b);
    a[RK_STATS_ZEROS] += b[RK_STATS_ZEROS];
    a[RK_STATS_NANS] += b[RK_STATS_NANS];
}

/* rk_sums_add has added the element to the sums; `count` does not include it. */
RK_FN void rk_summary_add(rk_state *s, uint64_t bits, uint64_t index, int zero)
{
    const uint64_t both[4] = {bits, index, bits, index};
    uint64_t *other = rk_summary_others(s);
    rk_summary_ends(s, other, both);
    other[RK_STATS_ZEROS] += (uint64_t)zero;
}

/* Called before the element is added or skipped. */
RK_FN void rk_summary_nan(rk_state *s) { rk_summary_others(s)[RK_STATS_NANS]++; }

/* ---- finish ------------------------------------------------------------------------------------------------------ */

/* All fields but mean, var and std */
RK_FN void rk_finish_summary_rest(const rk_state *s, uint64_t *words)
{
    const uint64_t *o = s->limb + rk_sum_limbs(s->layout) + rk_square_limbs(s->layout);
    int is_float = rk_is_float(s->dtype), bytes = rk_bytes(s->dtype);
    rk_format f = rk_format_of(RP_F64);
    words[RP_STATS_COUNT] = s->count;
    words[RP_STATS_NANS] = o[RK_STATS_NANS];
    words[RP_STATS_ZEROS] = o[RK_STATS_ZEROS];
    words[RP_STATS_ARGMIN] = o[RK_STATS_MIN_INDEX];
    words[RP_STATS_ARGMAX] = o[RK_STATS_MAX_INDEX];
    for (int i = 0; i < 2; i++) {
        uint64_t bits = o[i ? RK_STATS_MAX : RK_STATS_MIN], *word = words + (i ? RP_STATS_MAX : RP_STATS_MIN);
        if (is_float)
            *word = s->count ? rk_convert_float(s->dtype, bits, RP_F64) : rk_nan_bits(f);
        else
            *word = rk_is_signed(s->dtype) ? rk_sign_extend(bits, bytes) : bits;
    }
    words[RP_STATS_SUM] = is_float ? rk_finish_sum(s, f) : s->limb[0];
    words[RP_STATS_SUM_HIGH] = is_float ? 0 : s->limb[1];
}

RK_FN void rk_finish_summary(const rk_state *s, uint32_t ddof, uint64_t *scratch, uint64_t *words)
{
    rk_format f = rk_format_of(RP_F64);
    rk_top t;
    rk_finish_summary_rest(s, words);
    words[RP_STATS_MEAN] = rk_finish_mean(s, f);
    int known = rk_variance(s, ddof, scratch, &t);
    words[RP_STATS_VAR] = known ? rk_round_top(t, 0, f) : rk_nan_bits(f);
    words[RP_STATS_STD] = known ? rk_round_top(rk_root(t), 0, f) : rk_nan_bits(f);
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

/* NaNs are either skipped or elements. As elements they are both ends and the sum. Those of integers are missing values, which
 * are skipped. */
RK_FN rk_flaw rk_check_stats_nans(const rk_state *s, const uint64_t *other)
{
    uint64_t nans = other[RK_STATS_NANS];
    int ends = s->count && rk_is_nan(s->dtype, other[RK_STATS_MIN]);
    if (nans > RP_MAX_COUNT)
        return rk_bad("limbs", "more NaNs than there can be");
    if (s->skipped && !nans)
        return rk_bad("skipped", "no NaN was counted");
    if (ends && (s->special != RK_NAN || !nans))
        return rk_bad("limbs", "a NaN that was not counted");
    if (!s->skipped && nans && (!ends || nans > s->count))
        return rk_bad("limbs", "NaNs that were neither skipped nor elements");
    return rk_fine();
}

RK_FN rk_flaw rk_summary_check(const rk_state *s)
{
    const uint64_t *other = s->limb + rk_sum_limbs(s->layout) + rk_square_limbs(s->layout);
    rk_flaw flaw = rk_check_sums(s);
    if (!flaw.why)
        flaw = rk_check_placed(s, other + RK_STATS_MIN);
    if (!flaw.why)
        flaw = rk_check_placed(s, other + RK_STATS_MAX);
    if (!flaw.why && s->count)
        flaw = rk_check_pair(s, other[RK_STATS_MIN], other[RK_STATS_MAX]);
    if (!flaw.why && other[RK_STATS_ZEROS] > s->count)
        flaw = rk_bad("limbs", "more zeros than elements");
    return flaw.why ? flaw : rk_check_stats_nans(s, other);
}

#endif
