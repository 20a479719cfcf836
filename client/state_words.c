/* States as words that plain integer sums join: kernels/exact/words.h makes them. No allocation, no I/O. */
#include <string.h>

#include "client/error.h"
#include "client/state.h"
#include "kernels/exact/check.h"
#include "kernels/exact/words.h"

_Static_assert((int)RK_WORDS_BODY == (int)REDUCE_KEYS_ADDED, "reduce.h disagrees");

/* There is such a state, so that it has a layout. */
static bool exists(int op, int dtype)
{
    return reduce_state_size(op, dtype) && !(rk_is_float(dtype) && rk_family_of(rp_state_layout(op, dtype)) == RK_BITS);
}

size_t reduce_state_words(int op, int dtype)
{
    int layout = rp_state_layout(op, dtype);
    return exists(op, dtype) && rk_words_add(layout) ? rk_words(layout, dtype) : 0;
}

size_t reduce_state_keys(int op, int dtype)
{
    int layout = rp_state_layout(op, dtype);
    return exists(op, dtype) && rk_words_choose(layout) ? rk_words(layout, dtype) : 0;
}

/* Are n words those of a state of this layout? 0, or the reported error. */
static int check_length(int layout, int dtype, size_t n)
{
    size_t want = rk_words(layout, dtype);
    if (want == 0)
        return rc_error(REDUCE_E_OP, "op", "states of layout %d have no words; merge them with reduce_state_merge", layout);
    return n == want ? 0 : rc_error(REDUCE_E_SHAPE, "n", "%zu words instead of %zu", n, want);
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
    rk_words_of_state(&s, words);
    return 0;
}

static int refuse(rk_words_fault fault)
{
    static const char *const fields[] = {[RK_WORDS_BAD_VECTORS] = "vectors",
                                         [RK_WORDS_BAD_COUNT] = "count",
                                         [RK_WORDS_BAD_FLAGS] = "flags",
                                         [RK_WORDS_BAD_LIMBS] = "limbs"};
    if (fault == RK_WORDS_BAD_TAG)
        return rc_error(REDUCE_E_BAD_MESSAGE, "tag", "the words are not all of this operation, element type and version");
    return rc_error(REDUCE_E_BAD_MESSAGE, fields[fault], "the words are not sums of words of states (%s)", fields[fault]);
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
    const rk_words_fault fault = rk_state_of_sums(&s, words);
    if (fault)
        return refuse(fault);
    if (rk_state_check(op, dtype, &s, rp_state_size(s.layout), &f))
        return rc_report(&f);
    memcpy(state, &s, rp_state_size(s.layout));
    return 0;
}
