/* States: what a reduction keeps of the elements that it has seen. The code is written once, for C on the CPU and CUDA on the
 * device, and gives the same bits on both.
 *
 * A reduction is  state = init; add elements; merge states; finish (finish.h).  States are exact, so a result depends only
 * on the multiset of elements (for arg ops: of (element, index) pairs), never on chunking, order, threads or device.
 *
 * This file handles the fields of a state's head; its family handles the limbs. Each family is a file of families/ with its
 * init, merge, add, finish and check: sums, choice, counts, bits, products, summary, pairs, comoments.
 *
 * rk_state_add adds one element at a time. It is the definition that the fast paths of both engines are tested against, and it
 * serves odd shapes on the device, such as masks and columns. Pure and thread-safe. */
#ifndef RK_STATE_H
#define RK_STATE_H

#include "kernels/exact/families/bits.h"
#include "kernels/exact/families/choice.h"
#include "kernels/exact/families/comoments.h"
#include "kernels/exact/families/counts.h"
#include "kernels/exact/families/pairs.h"
#include "kernels/exact/families/products.h"
#include "kernels/exact/families/summary.h"
#include "kernels/exact/families/sums.h"

RK_FN void rk_state_init(rk_state *s, int layout, int dtype)
{
    s->layout = (uint8_t)layout;
    s->special = s->nz = s->skipped = 0;
    s->dtype = (uint8_t)dtype;
    s->zero[0] = s->zero[1] = s->zero[2] = 0;
    s->count = 0;
    for (int i = 0, n = rk_limbs(layout); i < n; i++)
        s->limb[i] = 0;
    switch (rk_family_of(layout)) {
    case RK_CHOICE:
        rk_choice_init(s);
        break;
    case RK_BITS:
        rk_bits_init(s);
        break;
    case RK_PRODUCTS:
        rk_products_init(s);
        break;
    case RK_SUMMARY:
        rk_summary_init(s);
        break;
    case RK_SUMS:
    case RK_COUNTS:
    case RK_PAIRS:
    case RK_COMOMENTS:
        break; /* all zero */
    }
}

/* Merge o into s: commutative and associative, to the byte. Both have the same layout and dtype, and their counts must fit in
 * sum. */
RK_FN void rk_state_merge(rk_state *s, const rk_state *o)
{
    s->special |= o->special;
    s->nz |= o->nz;
    s->skipped |= o->skipped;
    rk_sums_merge(s, o); /* for sums and summaries, in one place because it is much code */
    switch (rk_family_of(s->layout)) {
    case RK_SUMS:
    case RK_PAIRS:
        break;
    case RK_COMOMENTS:
#ifndef __CUDA_ARCH__ /* kernels join their words */
        rk_comoments_merge(s, o);
#endif
        break;
    case RK_CHOICE:
        rk_choice_merge(s, o);
        break;
    case RK_COUNTS:
        rk_counts_merge(s, o);
        break;
    case RK_BITS:
        rk_bits_merge(s, o);
        break;
    case RK_PRODUCTS:
        rk_products_merge(s, o);
        break;
    case RK_SUMMARY:
        rk_summary_merge(s, o);
        break;
    }
    s->count += o->count;
}

/* Handle a NaN by the policy. False: it is skipped. */
RK_FN int rk_state_nan(rk_state *s, int nan_policy)
{
    if (rk_is_stats(s->layout))
        rk_summary_nan(s);
    if (s->layout == RP_STATE_NANS) {
        rk_counts_nan(s, nan_policy);
        return 1;
    }
    s->skipped |= nan_policy != RP_NAN_PROPAGATE;
    return nan_policy == RP_NAN_PROPAGATE;
}

/* Count `n` missing values, which are NaNs that were skipped. Those of integers are counted where NaNs of floats are. */
RK_FN void rk_state_missing(rk_state *s, uint64_t n)
{
    if (rk_is_stats(s->layout))
        rk_summary_others(s)[RK_STATS_NANS] += n;
    if (s->layout == RP_STATE_NANS)
        s->count += n, s->limb[0] += n;
    else if (n && rk_has_skipped(s->layout, s->dtype))
        s->skipped = 1;
}

/* Add the element with these bits (zero-extended) and this index under the policy. count must stay below 2^63. Not to pairs and
 * comoments: rk_pairs_add, rk_comoments_add. */
RK_FN void rk_state_add(rk_state *s, uint64_t bits, uint64_t index, int nan_policy)
{
    int dtype = s->dtype;
    if (dtype == RP_BOOL)
        bits = bits != 0;
    int zero = (rk_is_float(dtype) ? bits & ~rk_sign_bit(rk_format_of(dtype), 1) : bits) == 0;
    if (rk_is_nan(dtype, bits)) {
        bits = rk_nan_bits(rk_format_of(dtype)); /* one NaN stands for all */
        if (!rk_state_nan(s, nan_policy))
            return;
    }
    if (rk_others_at(s->layout)) /* sums and summaries, in one place because it is much code */
        rk_sums_add(s, bits);
    switch (rk_family_of(s->layout)) {
    case RK_SUMS:
    case RK_PAIRS:
    case RK_COMOMENTS:
        break;
    case RK_CHOICE:
        rk_choice_add(s, bits, index);
        break;
    case RK_COUNTS:
        rk_counts_add(s, zero);
        break;
    case RK_BITS:
        rk_bits_add(s, bits);
        break;
    case RK_PRODUCTS:
        rk_products_add(s, bits);
        break;
    case RK_SUMMARY:
        rk_summary_add(s, bits, index, zero);
        break;
    }
    s->count++;
}

#endif
