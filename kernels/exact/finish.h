/* From a state to the value of the reply: exact integer arithmetic on the limbs, one rounding at the end. This file selects
 * what each operation computes from its state; the families have the arithmetic. Pure, thread-safe. */
#ifndef RK_FINISH_H
#define RK_FINISH_H

#include "kernels/exact/op.h"
#include "kernels/exact/state.h"

/* ---- integers ---------------------------------------------------------------------------------------------------- */

/* The 192-bit two's complement v[0..3) as an integer that has room for it but for its sign, or as i64 or u64 (`out`): its low
 * word, and OVERFLOW if that is not all of it. */
RK_FN int rk_fit(const uint64_t v[3], int out, uint64_t *word)
{
    uint64_t above = rk_is_signed(out) ? (uint64_t)((int64_t)v[0] >> 63) : 0;
    *word = v[0] & UINT64_MAX >> (64 - rk_width(out));
    return v[1] == above && v[2] == above ? RP_OK : RP_OVERFLOW;
}

/* The exact integer that a state of integers stands for, as 192-bit two's complement. False: the state does not have it (a
 * product of 2^64 or more). */
RK_FN int rk_exact_integer(const rk_state *s, int op, uint64_t v[3])
{
    v[0] = s->limb[0];
    v[1] = v[2] = 0;
    switch (rk_family_of(s->layout)) {
    case RK_SUMS:
    case RK_PAIRS:
        rk_sums_integer(s, v);
        break;
    case RK_COMOMENTS:
        break; /* never an integer */
    case RK_CHOICE:
        rk_choice_integer(s, op, v);
        break;
    case RK_PRODUCTS:
        return rk_products_integer(s, v);
    case RK_BITS:
        rk_widen(s->dtype, s->limb[0], v);
        break;
    case RK_COUNTS:
    case RK_SUMMARY:
        break;
    }
    return 1;
}

RK_FN int rk_finish_integer(const rk_state *s, const rp_spec *spec, uint64_t *word)
{
    uint64_t v[3];
    if (spec->flags & RP_WRAP) {
        *word = s->limb[RK_PROD_WRAPPED];
        return RP_OK;
    }
    if (!rk_exact_integer(s, spec->op, v)) {
        *word = 0;
        return RP_OVERFLOW;
    }
    return rk_fit(v, spec->out, word);
}

/* ---- all operations ---------------------------------------------------------------------------------------------- */

/* The value as a float. */
RK_FN uint64_t rk_finish_float(const rk_state *s, const rp_spec *spec, uint64_t *scratch)
{
    rk_format f = rk_format_of(spec->out);
    switch (rk_finisher_of(spec->op)) {
    case RK_FINISH_TOTAL:
        return rk_finish_sum(s, f);
    case RK_FINISH_MEAN:
        return rk_finish_mean(s, f);
    case RK_FINISH_SQUARES:
        return rk_finish_squares(s, spec->op, f);
    case RK_FINISH_SPREAD:
        return rk_finish_spread(s, spec->op, spec->ddof, scratch, f);
    case RK_FINISH_CHOSEN:
        return s->count ? rk_convert_float(s->dtype, s->limb[0], spec->out) : 0;
    case RK_FINISH_RANGE:
        return rk_finish_range(s->dtype, s->limb[0], s->limb[1], scratch, f);
    case RK_FINISH_PRODUCT:
        return rk_finish_product(s, f);
#if !defined(__CUDA_ARCH__) || !defined(__NVCC__) || defined(RK_FINISHES_PAIRS) /* else it takes nvcc long for nothing */
    case RK_FINISH_DOT:
        return rk_finish_dot(s, f);
    case RK_FINISH_WMEAN:
        return rk_finish_wmean(s, scratch, f);
#else
    case RK_FINISH_DOT:
    case RK_FINISH_WMEAN:
        break;
#endif
    case RK_FINISH_COV:
    case RK_FINISH_CORR:
#ifndef __CUDA_ARCH__ /* kernels call rk_comoments_finish */
    {
        uint64_t wide[RK_CO_SCRATCH];
        return rk_finish_comoments(s, spec->ddof, f, wide);
    }
#else
        break;
#endif
    case RK_FINISH_INDEX:
    case RK_FINISH_ENDS:
    case RK_FINISH_COUNTED:
    case RK_FINISH_ELEMENTS:
    case RK_FINISH_SOME:
    case RK_FINISH_EVERY:
    case RK_FINISH_WORD:
    case RK_FINISH_SUMMARY:
    case RK_FINISH_RANKED:
        break; /* not floats */
    }
    return 0;
}

/* The words of a finished cell (rp_cell_size bytes of them count: words[1] of minmax starts behind the first value) as
 * the checked spec wants it; `s` is of its op and dtype. `scratch`: RK_FINISH_SCRATCH words. Returns RP_OK, EMPTY, NAN or
 * OVERFLOW; after an error the words are defined, but meaningless. */
RK_FN int rk_state_finish(const rk_state *s, const rp_spec *spec, uint64_t *scratch, uint64_t *words)
{
    words[0] = 0;
    if (spec->nan == RP_NAN_ERROR && s->skipped)
        return RP_NAN;
    if (s->count == 0 && rk_needs_element(spec->op))
        return RP_EMPTY;
    switch (rk_finisher_of(spec->op)) {
    case RK_FINISH_SUMMARY:
        rk_finish_summary(s, spec->ddof, scratch, words);
        return RP_OK;
    case RK_FINISH_ENDS:
        return rk_finish_ends(s, spec->out, words);
    case RK_FINISH_INDEX:
        words[0] = s->limb[1];
        return RP_OK;
    case RK_FINISH_COUNTED:
        words[0] = s->limb[0];
        return RP_OK;
    case RK_FINISH_ELEMENTS:
        words[0] = s->count;
        return RP_OK;
    case RK_FINISH_SOME:
        words[0] = s->limb[0] != 0;
        return RP_OK;
    case RK_FINISH_EVERY:
        words[0] = s->limb[0] == s->count;
        return RP_OK;
    case RK_FINISH_TOTAL:
    case RK_FINISH_MEAN:
    case RK_FINISH_SQUARES:
    case RK_FINISH_SPREAD:
    case RK_FINISH_CHOSEN:
    case RK_FINISH_RANGE:
    case RK_FINISH_WORD:
    case RK_FINISH_PRODUCT:
    case RK_FINISH_DOT:
    case RK_FINISH_WMEAN:
    case RK_FINISH_COV:
    case RK_FINISH_CORR:
    case RK_FINISH_RANKED:
        break;
    }
    if (spec->out < RP_F16)
        return rk_finish_integer(s, spec, &words[0]);
    words[0] = rk_finish_float(s, spec, scratch);
    return RP_OK;
}

/* The same of pairs alone, without the code for others. */
RK_FN int rk_pairs_finish(const rk_state *s, const rp_spec *spec, uint64_t *scratch, uint64_t *word)
{
    *word = 0;
    if (spec->nan == RP_NAN_ERROR && s->skipped)
        return RP_NAN;
    if (spec->out < RP_F16)
        return rk_finish_integer(s, spec, word);
    const rk_format f = rk_format_of(spec->out);
    *word = rk_finisher_of(spec->op) == RK_FINISH_DOT ? rk_finish_dot(s, f) : rk_finish_wmean(s, scratch, f);
    return RP_OK;
}

/* ... of comoments. `scratch`: RK_CO_SCRATCH words. */
RK_FN int rk_comoments_finish(const rk_state *s, const rp_spec *spec, uint64_t *scratch, uint64_t *word)
{
    *word = 0;
    if (spec->nan == RP_NAN_ERROR && s->skipped)
        return RP_NAN;
    *word = rk_finish_comoments(s, spec->ddof, rk_format_of(spec->out), scratch);
    return RP_OK;
}

#endif
