/* States as words that plain integer sums join (PROTOCOL.md, "Words"). A vector is a head, which tells what was added, and a
 * body that its family makes of the limbs. No allocation, no I/O. */
#include <string.h>

#include "client/error.h"
#include "client/state.h"
#include "kernels/exact/check.h"

/* The head */
enum { VECTORS, TAG, TAG_SQUARED, COUNT_LOW, COUNT_HIGH, SKIPPED, NZ, SPECIAL_1, SPECIAL_2, BODY };
_Static_assert((int)BODY == (int)REDUCE_KEYS_ADDED, "reduce.h disagrees");

enum { FORM = 1 }; /* of the words; a later one has other tags */

#define LOW 0xffffffffu
#define TOP ((uint64_t)1 << 63) /* turns the order of u64 into that of int64 */

/* ---- lengths ----------------------------------------------------------------------------------------------------- */

/* Does every state of this layout go as words that are added alone? */
static bool is_summable(int layout)
{
    switch (rk_family_of(layout)) {
    case RK_SUMS:
    case RK_PAIRS:
    case RK_COUNTS:
    case RK_BITS:
        return true;
    case RK_PRODUCTS:
        return layout == RP_STATE_PROD;
    case RK_CHOICE:
    case RK_SUMMARY:
        break;
    }
    return false;
}

/* Is it one or two elements without a place? */
static bool is_extreme(int layout)
{
    return rk_family_of(layout) == RK_CHOICE && layout != RP_STATE_ARGMIN && layout != RP_STATE_ARGMAX;
}

/* Words behind the head; 0: the layout has none. */
static size_t body_words(int layout, int dtype)
{
    switch (rk_family_of(layout)) {
    case RK_SUMS:
    case RK_PAIRS:
        return 2 * (size_t)rk_limbs(layout);
    case RK_COUNTS:
        return 2;
    case RK_BITS:
        return (size_t)rk_width(dtype);
    case RK_PRODUCTS:
        return layout == RP_STATE_PROD ? 8 : 0;
    case RK_CHOICE:
        return !is_extreme(layout) ? 0 : layout == RP_STATE_MINMAX ? 2 : 1;
    case RK_SUMMARY:
        return 0;
    }
    return 0;
}

/* There is such a state, so that it has a layout. */
static bool exists(int op, int dtype)
{
    return reduce_state_size(op, dtype) && !(rk_is_float(dtype) && rk_family_of(rp_state_layout(op, dtype)) == RK_BITS);
}

static size_t length_of(int layout, int dtype)
{
    size_t body = body_words(layout, dtype);
    return body ? BODY + body : 0;
}

size_t reduce_state_words(int op, int dtype)
{
    int layout = rp_state_layout(op, dtype);
    return exists(op, dtype) && is_summable(layout) ? length_of(layout, dtype) : 0;
}

size_t reduce_state_keys(int op, int dtype)
{
    int layout = rp_state_layout(op, dtype);
    return exists(op, dtype) && is_extreme(layout) ? length_of(layout, dtype) : 0;
}

/* Are n words those of a state of this layout? 0, or the reported error. */
static int check_length(int layout, int dtype, size_t n)
{
    size_t want = length_of(layout, dtype);
    if (want == 0)
        return rc_error(REDUCE_E_OP, "op", "states of layout %d have no words; merge them with reduce_state_merge", layout);
    return n == want ? 0 : rc_error(REDUCE_E_SHAPE, "n", "%zu words instead of %zu", n, want);
}

/* ---- to words ---------------------------------------------------------------------------------------------------- */

static int64_t tag_of(int layout, int dtype) { return (FORM << 9) + (layout << 4) + dtype; }

static void split(uint64_t v, int64_t *low, int64_t *high)
{
    *low = (int64_t)(v & LOW);
    *high = (int64_t)(v >> 32);
}

/* n limbs in two's complement: the highest word has the sign. */
static void split_number(const uint64_t *limb, int n, int64_t *words)
{
    for (int i = 0; i < n; i++)
        split(limb[i], &words[2 * i], &words[2 * i + 1]);
    if (n)
        words[2 * n - 1] = (int64_t)limb[n - 1] >> 32;
}

static void spread_bits(uint64_t bits, int n, int64_t *words)
{
    for (int i = 0; i < n; i++)
        words[i] = (int64_t)(bits >> i & 1);
}

/* By which of two elements the better one is the larger, also as a signed number; of a state without elements the least. */
static int64_t key_of(const rk_state *s, int layout, uint64_t bits)
{
    return s->count ? (int64_t)(rk_rank_in(layout, s->dtype, bits) ^ TOP) : INT64_MIN;
}

static void write_head(const rk_state *s, int64_t *words)
{
    const int64_t tag = tag_of(s->layout, s->dtype);
    words[VECTORS] = 1;
    words[TAG] = tag;
    words[TAG_SQUARED] = tag * tag;
    split(s->count, &words[COUNT_LOW], &words[COUNT_HIGH]);
    words[SKIPPED] = s->skipped;
    words[NZ] = s->nz;
    words[SPECIAL_1] = s->special & 1;
    words[SPECIAL_2] = s->special >> 1;
}

static void write_body(const rk_state *s, int64_t *body)
{
    const int sum = rk_sum_limbs(s->layout);
    switch (rk_family_of(s->layout)) {
    case RK_SUMS:
    case RK_PAIRS:
        split_number(s->limb, sum, body);
        split_number(s->limb + sum, rk_square_limbs(s->layout), body + 2 * sum);
        break;
    case RK_COUNTS:
        split(s->limb[0], &body[0], &body[1]);
        break;
    case RK_BITS:
        spread_bits(s->limb[0], rk_width(s->dtype), body);
        break;
    case RK_PRODUCTS:
        split_number(s->limb, 3, body);
        split(s->limb[3], &body[6], &body[7]);
        break;
    case RK_CHOICE:
        body[0] = key_of(s, s->layout == RP_STATE_MINMAX ? RP_STATE_MIN : s->layout, s->limb[0]);
        if (s->layout == RP_STATE_MINMAX)
            body[1] = key_of(s, RP_STATE_MAX, s->limb[1]);
        break;
    case RK_SUMMARY:
        break; /* has none */
    }
}

int reduce_state_to_words(const void *state, size_t size, int64_t *words, size_t n)
{
    rk_state s;
    rp_fault f = {0};
    if (!state || !words)
        return rc_error(REDUCE_E_ARGUMENT, state ? "words" : "state", "a pointer is NULL");
    if (rk_state_take(&s, state, size, &f))
        return rc_report(&f);
    int err = check_length(s.layout, s.dtype, n);
    if (err)
        return err;
    write_head(&s, words);
    write_body(&s, words + BODY);
    return 0;
}

/* ---- from words -------------------------------------------------------------------------------------------------- */

/* Is each of these the sum of `n` words from 0 to `most`? Sums of fewer than 2^31 words of 32 bits do not overflow. */
static bool within(const int64_t *words, size_t count, int64_t n, int64_t most)
{
    bool fine = true;
    for (size_t i = 0; i < count; i++)
        fine = fine && words[i] >= 0 && words[i] <= n * most;
    return fine;
}

/* A number of two words. False: it is 2^64 or more. */
static bool join(const int64_t *words, uint64_t *v)
{
    uint64_t high = (uint64_t)words[1] + ((uint64_t)words[0] >> 32);
    *v = high << 32 | (words[0] & LOW);
    return high <= LOW;
}

/* n limbs from sums of the words of `vectors` numbers: one pass of carries. False: the words are not such sums, or the number
 * is too wide. */
static bool join_number(const int64_t *words, int n, int64_t vectors, uint64_t *limb)
{
    if (n == 0)
        return true;
    const int64_t top = words[2 * n - 1];
    if (!within(words, 2 * (size_t)n - 1, vectors, LOW) || top < -(vectors << 31) || top > vectors * INT32_MAX)
        return false;
    rk_limbs_of_digits(words, limb, n);
    int64_t carry = 0;
    for (int i = 0; i < 2 * n - 1; i++)
        carry = (words[i] + carry) >> 32;
    return top + carry == (int32_t)(limb[n - 1] >> 32);
}

/* The bits that all, some or an odd number of the states have. */
static bool join_bits(int layout, const int64_t *words, int n, int64_t vectors, uint64_t *limb)
{
    uint64_t bits = 0;
    for (int i = 0; i < n; i++)
        bits |= (uint64_t)(layout == RP_STATE_AND  ? words[i] == vectors
                           : layout == RP_STATE_OR ? words[i] > 0
                                                   : words[i] & 1)
                << i;
    *limb = bits;
    return within(words, (size_t)n, vectors, 1);
}

/* The element of a key. False: the type has no such element. */
static bool element_of(const rk_state *s, int layout, int64_t key, uint64_t *bits)
{
    const uint64_t rank = (uint64_t)key ^ TOP;
    const bool plain = layout == RP_STATE_NORMINF && !rk_is_float(s->dtype);
    if (s->count == 0)
        return key == INT64_MIN;
    if (rank & ~rk_all_ones(s->dtype))
        return false;
    *bits = plain ? rank : rk_unrank(s->dtype, layout == RP_STATE_MIN, rank);
    return true;
}

static const char *read_head(rk_state *s, const int64_t *w)
{
    const int64_t n = w[VECTORS], tag = tag_of(s->layout, s->dtype);
    if (n < 1 || n > INT32_MAX)
        return "vectors";
    if (w[TAG] != n * tag || w[TAG_SQUARED] != n * tag * tag) /* equal tags are the only ones with this sum and these squares */
        return "tag";
    if (!within(w + COUNT_LOW, 2, n, LOW) || !join(w + COUNT_LOW, &s->count))
        return "count";
    if (!within(w + SKIPPED, BODY - SKIPPED, n, 1))
        return "flags";
    s->skipped = w[SKIPPED] > 0;
    s->nz = w[NZ] > 0;
    s->special = (uint8_t)((w[SPECIAL_1] > 0) | (w[SPECIAL_2] > 0) << 1);
    return NULL;
}

static bool read_body(rk_state *s, const int64_t *body, int64_t n)
{
    const int sum = rk_sum_limbs(s->layout);
    bool fine = true;
    switch (rk_family_of(s->layout)) {
    case RK_SUMS:
    case RK_PAIRS:
        fine = join_number(body, sum, n, s->limb) && join_number(body + 2 * sum, rk_square_limbs(s->layout), n, s->limb + sum);
        if (s->special)
            rk_sums_void(s);
        break;
    case RK_COUNTS:
        fine = within(body, 2, n, LOW) && join(body, &s->limb[0]);
        break;
    case RK_BITS:
        fine = join_bits(s->layout, body, rk_width(s->dtype), n, &s->limb[0]);
        break;
    case RK_PRODUCTS:
        fine = join_number(body, 3, n, s->limb) && within(body + 6, 2, n, LOW) && join(body + 6, &s->limb[3]);
        if (s->special)
            rk_products_void(s);
        break;
    case RK_CHOICE:
        fine = element_of(s, s->layout == RP_STATE_MINMAX ? RP_STATE_MIN : s->layout, body[0], &s->limb[0]);
        if (s->layout == RP_STATE_MINMAX)
            fine = fine && element_of(s, RP_STATE_MAX, body[1], &s->limb[1]);
        break;
    case RK_SUMMARY:
        break;
    }
    return fine;
}

static int refuse_head(const char *field)
{
    if (!strcmp(field, "tag"))
        return rc_error(REDUCE_E_BAD_MESSAGE, "tag", "the words are not all of this operation, element type and version");
    return rc_error(REDUCE_E_BAD_MESSAGE, field, "the words are not sums of words of states (%s)", field);
}

int reduce_state_from_words(void *state, size_t size, int op, int dtype, const int64_t *words, size_t n)
{
    rk_state s;
    rp_fault f = {0};
    int err = rc_state_room(state, size, op, dtype);
    if (!err && !words)
        err = rc_error(REDUCE_E_ARGUMENT, "words", "the pointer to the words is NULL");
    if (err)
        return err;
    rk_state_init(&s, rp_state_layout(op, dtype), dtype);
    err = check_length(s.layout, dtype, n);
    if (err)
        return err;
    const char *wrong = read_head(&s, words);
    if (wrong)
        return refuse_head(wrong);
    if (!read_body(&s, words + BODY, words[VECTORS]))
        return refuse_head("limbs");
    if (rk_state_check(op, dtype, &s, rp_state_size(s.layout), &f))
        return rc_report(&f);
    memcpy(state, &s, rp_state_size(s.layout));
    return 0;
}
