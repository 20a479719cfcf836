#include "client/ctl/text/integers.h"

#include <string.h>

#include "client/ctl/text/digit_runs.h"
#include "client/ctl/text/text_block.h"

enum {
    MAX_DIGITS = 19 /* a number of that length fits 64 bits */,
    SURE = 18, /* any number of this many digits fits i64 */
    SHORT = 8  /* digits that one word has */
};

ctl_integer_type ctl_integer_type_of(int dtype)
{
    size_t size = reduce_dtype_size(dtype);
    uint64_t all = dtype == REDUCE_BOOL ? 1 : UINT64_MAX >> (64 - 8 * size);
    bool is_signed = ctl_is_signed(dtype);
    return (ctl_integer_type){size, {is_signed ? all >> 1 : all, is_signed ? (all >> 1) + 1 : 0}};
}

/* ---- the tokens of a text ---- */

/* A block of text, and the tokens that begin and end in it, one by one. Masks have a bit for each byte of the block. */
typedef struct walk {
    const char *end;           /* of the text */
    const char *block, *token; /* the current token, which may have begun in an earlier block */
    uint64_t blank, minus;
    uint64_t starts, ends;   /* still to come */
    uint64_t begun, goes_on; /* 1: a token began before the block, goes on in the next one */
} walk;

/* Go to the next block. False: less than a block and one byte is left, or it has other characters than digits, minus signs and
 * blanks. */
static inline bool walk_on(walk *w, const char *block)
{
    if (w->end - block <= CTL_BLOCK)
        return false;
    uint64_t blank = ctl_blanks(block), digit = ctl_digits(block), text = ~blank, begun = text << 1 | w->goes_on,
             minus = text & ~digit, next = (uint64_t)(block[CTL_BLOCK] >= '0' && block[CTL_BLOCK] <= '9') << 63;
    if (minus && (minus != ctl_equal(block, '-') || (minus & (begun | ~(digit >> 1 | next)))))
        return false;
    w->block = block;
    w->blank = blank;
    w->minus = minus;
    w->starts = text & ~begun;
    w->ends = blank & begun;
    w->begun = w->goes_on;
    w->goes_on = text >> 63;
    return true;
}

static inline const char *lowest(const char *block, uint64_t bits) { return block + __builtin_ctzll(bits); }

/* The next token that begins in the block; the last byte, if none does. */
static inline void next_token(walk *w)
{
    w->token = lowest(w->block, w->starts | UINT64_C(1) << (CTL_BLOCK - 1));
    w->starts &= w->starts - 1;
}

/* Where the current token ends. */
static inline const char *next_end(walk *w)
{
    const char *end = lowest(w->block, w->ends);
    w->ends &= w->ends - 1;
    return end;
}

/* Where the walk stopped before the block at `p`: at the token that goes on there, or between two. */
static inline const char *stopped_at(const walk *w, const char *p) { return w->goes_on ? w->token : p; }

/* The current token, which ends at `end`. False: it has too many digits. */
static inline bool take_integer(const walk *w, const char *end, bool *negative, uint64_t *v)
{
    *negative = *w->token == '-';
    long n = end - w->token - *negative;
    if (n > MAX_DIGITS)
        return false;
    *v = ctl_low_digits(end, n);
    if (n > CTL_LOW_DIGITS)
        *v += ctl_high_digits(end, n) * CTL_HIGH_DIGIT;
    return true;
}

/* May a token that ends in the block be longer than n, 8 to 31 bytes? */
static inline bool maybe_longer(const walk *w, int n)
{
    uint64_t run = ~w->blank;
    int have = 1; /* bytes in a row that a bit of `run` stands for */
    for (; 2 * have <= n + 1; have *= 2)
        run &= run >> have;
    run &= run >> (n + 1 - have);
    return run || (w->begun && w->ends && lowest(w->block, w->ends) - w->token > n);
}

static inline void store(uint8_t *out, uint64_t v, size_t size)
{
    switch (size) {
    case 1:
        *out = (uint8_t)v;
        return;
    case 2:
        memcpy(out, &v, 2);
        return;
    case 4:
        memcpy(out, &v, 4);
        return;
    default:
        memcpy(out, &v, 8);
    }
}

/* The elements that end in the block. False: the current token is not a plain integer of the type; nor is -0. */
static inline bool feed_block(walk *w, size_t size, const uint64_t most[2], uint8_t **out)
{
    for (; w->ends; next_token(w), *out += size) {
        uint64_t v;
        bool negative;
        if (!take_integer(w, next_end(w), &negative, &v) || v - negative > most[negative] - negative)
            return false;
        store(*out, (v ^ (0 - (uint64_t)negative)) + negative, size);
    }
    return true;
}

/* The same of a block whose tokens are all short and without a minus. */
static inline void feed_short_block(walk *w, size_t size, uint8_t **out)
{
    for (; w->ends; next_token(w), *out += size) {
        const char *end = next_end(w);
        long n = end - w->token;
        store(*out, ctl_join_eight(ctl_load_eight(end - SHORT) & UINT64_C(0x0f0f0f0f0f0f0f0f) << (64 - 8 * n)), size);
    }
}

/* Inlined, so that `size` is a constant where it matters. */
__attribute__((always_inline)) static inline const char *feed(walk w, const char *p, size_t size, const uint64_t most[2],
                                                              uint8_t **out)
{
    uint8_t *to = *out; /* in a register: a store of an element could change *out */
    bool plain = true;
    for (; plain && walk_on(&w, p); p += CTL_BLOCK) {
        if (!w.begun)
            next_token(&w);
        bool negative = w.minus || (w.begun && *w.token == '-');
        if (size >= 4 && !negative && !maybe_longer(&w, SHORT))
            feed_short_block(&w, size, &to);
        else
            plain = (most[1] || !w.minus) && feed_block(&w, size, most, &to);
    }
    *out = to;
    return plain ? stopped_at(&w, p) : w.token;
}

const char *ctl_feed_integers(const char *first, const char *p, const char *end, const ctl_integer_type *type, uint8_t **out)
{
    const walk w = {.end = end};
    const uint64_t most[] = {type->most[0], type->most[1]};
    if (p - first < CTL_DIGITS_BACK)
        return p;
    return type->size == 8 ? feed(w, p, 8, most, out) : feed(w, p, type->size, most, out);
}

/* ---- what they are ---- */

void ctl_look_at_integer(ctl_text_kind *k, bool negative, bool fits, uint64_t magnitude)
{
    if (negative && fits && magnitude == 0) /* -0 is a float */
        k->real = true;
    else if (!fits || magnitude > INT64_MAX + (uint64_t)negative)
        *(fits && !negative ? &k->above : &k->wide) = true;
    k->negative |= negative;
    k->some = true;
}

/* Does a token that begins in the block, or has begun before, begin with -0? */
static inline bool maybe_negative_zero(const walk *w)
{
    uint64_t next = (uint64_t)(w->block[CTL_BLOCK] == '0') << 63;
    return (w->begun && w->token[0] == '-' && w->token[1] == '0') ||
           (w->minus && (w->minus & (ctl_equal(w->block, '0') >> 1 | next)));
}

/* All tokens of the block at once. */
static inline void pass_block(ctl_text_kind *k, walk *w)
{
    k->negative |= w->minus != 0;
    k->some |= w->ends != 0;
    if (w->goes_on && w->starts)
        w->token = w->block + CTL_BLOCK - 1 - __builtin_clzll(w->starts);
}

/* Is it an i64 by its length and first digit, and not -0? */
static inline bool is_surely_i64(const char *token, const char *end)
{
    bool negative = *token == '-';
    return end - token - negative <= MAX_DIGITS && token[negative] >= '1' && token[negative] <= '8';
}

/* The tokens of the block one by one. False: the current one has too many digits. */
static bool look_at_block(ctl_text_kind *k, walk *w)
{
    if (!w->begun)
        next_token(w);
    for (; w->ends; next_token(w)) {
        const char *end = next_end(w);
        bool negative = *w->token == '-';
        uint64_t v = 1; /* any value will do */
        if (!is_surely_i64(w->token, end) && !take_integer(w, end, &negative, &v))
            return false;
        ctl_look_at_integer(k, negative, true, v);
    }
    return true;
}

const char *ctl_look_at_integers(ctl_text_kind *k, const char *first, const char *p, const char *end)
{
    walk w = {.end = end};
    if (p - first < CTL_DIGITS_BACK)
        return p;
    for (; walk_on(&w, p); p += CTL_BLOCK) {
        if (!maybe_longer(&w, SURE) && !maybe_negative_zero(&w))
            pass_block(k, &w);
        else if (!look_at_block(k, &w))
            return w.token;
    }
    return stopped_at(&w, p);
}
