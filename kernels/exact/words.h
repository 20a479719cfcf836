/* States as words that plain integer sums join (PROTOCOL.md, "Words"). A vector is a head, which tells what was added, and a
 * body that its family makes of the limbs. */
#ifndef RK_WORDS_H
#define RK_WORDS_H

#include "kernels/exact/state.h"

/* The head */
enum {
    RK_WORDS_VECTORS,
    RK_WORDS_TAG,
    RK_WORDS_TAG_SQUARED,
    RK_WORDS_COUNT_LOW,
    RK_WORDS_COUNT_HIGH,
    RK_WORDS_SKIPPED,
    RK_WORDS_NZ,
    RK_WORDS_SPECIAL_1,
    RK_WORDS_SPECIAL_2,
    RK_WORDS_BODY
};
enum { RK_WORDS_FORM = 1 }; /* of the words; a later one has other tags */

#define RK_LOW_WORD 0xffffffffu
#define RK_KEY_TOP ((uint64_t)1 << 63) /* turns the order of u64 into that of int64 */

/* Does every state of this layout go as words that are added alone? */
RK_FN int rk_words_add(int layout)
{
    switch (rk_family_of(layout)) {
    case RK_SUMS:
    case RK_PAIRS:
    case RK_COMOMENTS:
    case RK_COUNTS:
    case RK_BITS:
        return 1;
    case RK_PRODUCTS:
        return layout == RP_STATE_PROD;
    case RK_CHOICE:
    case RK_SUMMARY:
        break;
    }
    return 0;
}

/* Is it one or two elements without a place? */
RK_FN int rk_words_choose(int layout)
{
    return rk_family_of(layout) == RK_CHOICE && layout != RP_STATE_ARGMIN && layout != RP_STATE_ARGMAX;
}

/* Words behind the head; 0: the layout has none. */
RK_FN size_t rk_body_words(int layout, int dtype)
{
    switch (rk_family_of(layout)) {
    case RK_SUMS:
    case RK_PAIRS:
    case RK_COMOMENTS:
        return 2 * (size_t)rk_limbs(layout);
    case RK_COUNTS:
        return 2;
    case RK_BITS:
        return (size_t)rk_width(dtype);
    case RK_PRODUCTS:
        return layout == RP_STATE_PROD ? 8 : 0;
    case RK_CHOICE:
        return !rk_words_choose(layout) ? 0 : layout == RP_STATE_MINMAX ? 2 : 1;
    case RK_SUMMARY:
        return 0;
    }
    return 0;
}

RK_FN int64_t rk_words_tag(int layout, int dtype) { return (RK_WORDS_FORM << 9) + (layout << 4) + dtype; }

RK_FN void rk_split(uint64_t v, int64_t *low, int64_t *high)
{
    *low = (int64_t)(v & RK_LOW_WORD);
    *high = (int64_t)(v >> 32);
}

/* n limbs in two's complement: the highest word has the sign. */
RK_FN void rk_split_number(const uint64_t *limb, int n, int64_t *words)
{
    for (int i = 0; i < n; i++)
        rk_split(limb[i], &words[2 * i], &words[2 * i + 1]);
    if (n)
        words[2 * n - 1] = (int64_t)limb[n - 1] >> 32;
}

RK_FN void rk_spread_bits(uint64_t bits, int n, int64_t *words)
{
    for (int i = 0; i < n; i++)
        words[i] = (int64_t)(bits >> i & 1);
}

/* By which of two elements the better one is the larger, also as a signed number; of a state without elements the least. */
RK_FN int64_t rk_key_of(const rk_state *s, int layout, uint64_t bits)
{
    return s->count ? (int64_t)(rk_rank_in(layout, s->dtype, bits) ^ RK_KEY_TOP) : INT64_MIN;
}

RK_FN void rk_write_head(const rk_state *s, int64_t *words)
{
    const int64_t tag = rk_words_tag(s->layout, s->dtype);
    words[RK_WORDS_VECTORS] = 1;
    words[RK_WORDS_TAG] = tag;
    words[RK_WORDS_TAG_SQUARED] = tag * tag;
    rk_split(s->count, &words[RK_WORDS_COUNT_LOW], &words[RK_WORDS_COUNT_HIGH]);
    words[RK_WORDS_SKIPPED] = s->skipped;
    words[RK_WORDS_NZ] = s->nz;
    words[RK_WORDS_SPECIAL_1] = s->special & 1;
    words[RK_WORDS_SPECIAL_2] = s->special >> 1;
}

RK_FN void rk_write_body(const rk_state *s, int64_t *body)
{
    const int numbers = rk_numbers(s->layout);
    switch (rk_family_of(s->layout)) {
    case RK_SUMS:
    case RK_PAIRS:
    case RK_COMOMENTS:
        for (int k = 0; k < numbers; k++) {
            const int at = rk_number_at(s->layout, k);
            rk_split_number(s->limb + at, rk_number_limbs(s->layout, k), body + 2 * at);
        }
        break;
    case RK_COUNTS:
        rk_split(s->limb[0], &body[0], &body[1]);
        break;
    case RK_BITS:
        rk_spread_bits(s->limb[0], rk_width(s->dtype), body);
        break;
    case RK_PRODUCTS:
        rk_split_number(s->limb, 3, body);
        rk_split(s->limb[3], &body[6], &body[7]);
        break;
    case RK_CHOICE:
        body[0] = rk_key_of(s, s->layout == RP_STATE_MINMAX ? (int)RP_STATE_MIN : s->layout, s->limb[0]);
        if (s->layout == RP_STATE_MINMAX)
            body[1] = rk_key_of(s, RP_STATE_MAX, s->limb[1]);
        break;
    case RK_SUMMARY:
        break; /* has none */
    }
}

/* Is each of these the sum of `n` words from 0 to `most`? Sums of fewer than 2^31 words of 32 bits do not overflow. */
RK_FN int rk_words_within(const int64_t *words, size_t count, int64_t n, int64_t most)
{
    int fine = 1;
    for (size_t i = 0; i < count; i++)
        fine = fine && words[i] >= 0 && words[i] <= n * most;
    return fine;
}

/* A number of two words. False: it is 2^64 or more. */
RK_FN int rk_join(const int64_t *words, uint64_t *v)
{
    uint64_t high = (uint64_t)words[1] + ((uint64_t)words[0] >> 32);
    *v = high << 32 | (words[0] & RK_LOW_WORD);
    return high <= RK_LOW_WORD;
}

/* n limbs from sums of the words of `vectors` numbers: one pass of carries. False: the words are not such sums, or the number
 * is too wide. */
RK_FN int rk_join_number(const int64_t *words, int n, int64_t vectors, uint64_t *limb)
{
    if (n == 0)
        return 1;
    const int64_t top = words[2 * n - 1];
    if (!rk_words_within(words, 2 * (size_t)n - 1, vectors, RK_LOW_WORD) || top < -(vectors << 31) || top > vectors * INT32_MAX)
        return 0;
    rk_limbs_of_digits(words, limb, n);
    int64_t carry = 0;
    for (int i = 0; i < 2 * n - 1; i++)
        carry = (words[i] + carry) >> 32;
    return top + carry == (int32_t)(limb[n - 1] >> 32);
}

/* The bits that all, some or an odd number of the states have. */
RK_FN int rk_join_bits(int layout, const int64_t *words, int n, int64_t vectors, uint64_t *limb)
{
    uint64_t bits = 0;
    for (int i = 0; i < n; i++)
        bits |= (uint64_t)(layout == RP_STATE_AND  ? words[i] == vectors
                           : layout == RP_STATE_OR ? words[i] > 0
                                                   : words[i] & 1)
                << i;
    *limb = bits;
    return rk_words_within(words, (size_t)n, vectors, 1);
}

/* The element of a key. False: the type has no such element. */
RK_FN int rk_element_of_key(const rk_state *s, int layout, int64_t key, uint64_t *bits)
{
    const uint64_t rank = (uint64_t)key ^ RK_KEY_TOP;
    const int plain = layout == RP_STATE_NORMINF && !rk_is_float(s->dtype);
    if (s->count == 0)
        return key == INT64_MIN;
    if (rank & ~rk_all_ones(s->dtype))
        return 0;
    *bits = plain ? rank : rk_unrank(s->dtype, layout == RP_STATE_MIN, rank);
    return true;
}

/* Why words are not sums of words of states */
typedef enum {
    RK_WORDS_FINE,
    RK_WORDS_BAD_VECTORS,
    RK_WORDS_BAD_TAG,
    RK_WORDS_BAD_COUNT,
    RK_WORDS_BAD_FLAGS,
    RK_WORDS_BAD_LIMBS
} rk_words_fault;

RK_FN rk_words_fault rk_read_head(rk_state *s, const int64_t *w)
{
    const int64_t n = w[RK_WORDS_VECTORS], tag = rk_words_tag(s->layout, s->dtype);
    if (n < 1 || n > INT32_MAX)
        return RK_WORDS_BAD_VECTORS;
    /* equal tags are the only ones with this sum and these squares */
    if (w[RK_WORDS_TAG] != n * tag || w[RK_WORDS_TAG_SQUARED] != n * tag * tag)
        return RK_WORDS_BAD_TAG;
    if (!rk_words_within(w + RK_WORDS_COUNT_LOW, 2, n, RK_LOW_WORD) || !rk_join(w + RK_WORDS_COUNT_LOW, &s->count))
        return RK_WORDS_BAD_COUNT;
    if (!rk_words_within(w + RK_WORDS_SKIPPED, RK_WORDS_BODY - RK_WORDS_SKIPPED, n, 1))
        return RK_WORDS_BAD_FLAGS;
    s->skipped = w[RK_WORDS_SKIPPED] > 0;
    s->nz = w[RK_WORDS_NZ] > 0;
    s->special = (uint8_t)((w[RK_WORDS_SPECIAL_1] > 0) | (w[RK_WORDS_SPECIAL_2] > 0) << 1);
    return RK_WORDS_FINE;
}

RK_FN int rk_read_body(rk_state *s, const int64_t *body, int64_t n)
{
    const int numbers = rk_numbers(s->layout);
    int fine = 1;
    switch (rk_family_of(s->layout)) {
    case RK_SUMS:
    case RK_PAIRS:
    case RK_COMOMENTS:
        for (int k = 0; k < numbers; k++) {
            const int at = rk_number_at(s->layout, k);
            fine = fine && rk_join_number(body + 2 * at, rk_number_limbs(s->layout, k), n, s->limb + at);
        }
        if (s->special)
            rk_sums_void(s);
        break;
    case RK_COUNTS:
        fine = rk_words_within(body, 2, n, RK_LOW_WORD) && rk_join(body, &s->limb[0]);
        break;
    case RK_BITS:
        fine = rk_join_bits(s->layout, body, rk_width(s->dtype), n, &s->limb[0]);
        break;
    case RK_PRODUCTS:
        fine = rk_join_number(body, 3, n, s->limb) && rk_words_within(body + 6, 2, n, RK_LOW_WORD) &&
               rk_join(body + 6, &s->limb[3]);
        if (s->special)
            rk_products_void(s);
        break;
    case RK_CHOICE:
        fine = rk_element_of_key(s, s->layout == RP_STATE_MINMAX ? (int)RP_STATE_MIN : s->layout, body[0], &s->limb[0]);
        if (s->layout == RP_STATE_MINMAX)
            fine = fine && rk_element_of_key(s, RP_STATE_MAX, body[1], &s->limb[1]);
        break;
    case RK_SUMMARY:
        break;
    }
    return fine;
}

RK_FN void rk_words_of_state(const rk_state *s, int64_t *words)
{
    rk_write_head(s, words);
    rk_write_body(s, words + RK_WORDS_BODY);
}

/* The state that the words of one or more states together stand for. *s has been initialised for their layout and type. */
RK_FN rk_words_fault rk_state_of_sums(rk_state *s, const int64_t *words)
{
    const rk_words_fault fault = rk_read_head(s, words);
    if (fault)
        return fault;
    return rk_read_body(s, words + RK_WORDS_BODY, words[RK_WORDS_VECTORS]) ? RK_WORDS_FINE : RK_WORDS_BAD_LIMBS;
}

/* Words of a state; 0: the layout has none. */
RK_FN size_t rk_words(int layout, int dtype)
{
    const size_t body = rk_body_words(layout, dtype);
    return body ? RK_WORDS_BODY + body : 0;
}

#endif
