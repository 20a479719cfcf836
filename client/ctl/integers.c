#include "client/ctl/integers.h"

#include <string.h>

#include "client/ctl/eight_digits.h"
#include "client/ctl/text_block.h"

enum {
    WORD = 8,
    MAX_DIGITS = 19 /* a number of that length fits 64 bits */,
    SURE = 18 /* digits that fit i64, whatever they are */
};

ctl_integer_type ctl_integer_type_of(int dtype)
{
    size_t size = reduce_dtype_size(dtype);
    uint64_t all = UINT64_MAX >> (64 - 8 * size);
    bool is_signed = dtype == REDUCE_I8 || dtype == REDUCE_I16 || dtype == REDUCE_I32 || dtype == REDUCE_I64;
    return (ctl_integer_type){size, {is_signed ? all >> 1 : all, is_signed ? (all >> 1) + 1 : 0}};
}

/* ---- one number ---- */

/* The last `n` bytes of a word, the others 0. */
static uint64_t last_bytes(uint64_t v, long n)
{
    static const uint64_t keep[] = {
        0,
        UINT64_C(0xff00000000000000),
        UINT64_C(0xffff000000000000),
        UINT64_C(0xffffff0000000000),
        UINT64_C(0xffffffff00000000),
        UINT64_C(0xffffffffff000000),
        UINT64_C(0xffffffffffff0000),
        UINT64_C(0xffffffffffffff00),
        UINT64_MAX,
    };
    return v & keep[n < 0 ? 0 : n > WORD ? WORD : n];
}

/* The `n` digits before `end`, 1 to MAX_DIGITS. 3 * WORD bytes before it may be read. */
static inline uint64_t value_before(const char *end, long n)
{
    uint64_t v = ctl_value_of_eight(last_bytes(ctl_load_eight(end - WORD), n));
    if (n > WORD)
        v += ctl_value_of_eight(last_bytes(ctl_load_eight(end - 2 * WORD), n - WORD)) * 100000000;
    if (n > 2 * WORD)
        v += ctl_value_of_eight(last_bytes(ctl_load_eight(end - 3 * WORD), n - 2 * WORD)) * UINT64_C(10000000000000000);
    return v;
}

/* ---- the tokens of a text ---- */

/* A block and the tokens that begin and end in it, which come one by one. */
typedef struct walk {
    const char *first, *end;   /* of the text */
    const char *block, *token; /* the token that has begun, maybe in a block before, or NULL */
    uint64_t blank, minus;
    uint64_t starts, ends; /* still to come */
    uint64_t within;       /* 1: a token goes on in the next block */
} walk;

/* The next block. False: none is whole, with a byte more, or it has something else than digits with or without a minus. */
static inline bool walk_on(walk *w, const char *block)
{
    if (w->end - block <= CTL_BLOCK)
        return false;
    uint64_t blank = ctl_blanks(block), digit = ctl_digits(block), text = ~blank, begun = text << 1 | w->within,
             minus = text & ~digit, next = (uint64_t)(block[CTL_BLOCK] >= '0' && block[CTL_BLOCK] <= '9') << 63;
    if (minus && (minus != ctl_equal(block, '-') || (minus & (begun | ~(digit >> 1 | next)))))
        return false;
    w->block = block;
    w->blank = blank;
    w->minus = minus;
    w->starts = text & ~begun;
    w->ends = blank & begun;
    w->within = text >> 63;
    return true;
}

static inline const char *lowest(const char *block, uint64_t bits) { return block + __builtin_ctzll(bits); }

/* The one after that has begun in the block, if there is one. */
static inline void next_token(walk *w)
{
    w->token = w->starts ? lowest(w->block, w->starts) : NULL;
    w->starts &= w->starts - 1;
}

/* Where the token ends that has begun. */
static inline const char *next_end(walk *w)
{
    const char *end = lowest(w->block, w->ends);
    w->ends &= w->ends - 1;
    return end;
}

/* The token that ends at `end`. False: it is for somebody slower. */
static inline bool take_integer(const walk *w, const char *end, bool *negative, uint64_t *v)
{
    *negative = *w->token == '-';
    long n = end - w->token - *negative;
    if (n > MAX_DIGITS || end - w->first < 3 * WORD)
        return false;
    *v = value_before(end, n);
    return true;
}

/* Of the current block's bytes, those before `p`, which may lie before the block. */
static uint64_t bits_before(const walk *w, const char *p) { return p <= w->block ? 0 : (UINT64_C(1) << (p - w->block)) - 1; }

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

/* The elements of the current block. False: the token is for somebody slower. */
static inline bool feed_block(walk *w, size_t size, const uint64_t most[2], uint8_t **out)
{
    uint8_t *to = *out;
    bool plain = true;
    for (; w->ends; next_token(w), to += size) {
        const char *end = next_end(w);
        uint64_t v;
        bool negative;
        plain = take_integer(w, end, &negative, &v) && v <= most[negative];
        if (!plain)
            break;
        store(to, (v ^ (0 - (uint64_t)negative)) + negative, size);
    }
    *out = to;
    return plain;
}

/* `size` is a constant where it matters. */
static inline const char *feed(walk w, const char *p, size_t size, const uint64_t most[2], uint8_t **out, uint64_t *feeds)
{
    uint8_t *to = *out;
    uint64_t lines = 0;
    for (; walk_on(&w, p); p += CTL_BLOCK) {
        if (!w.token)
            next_token(&w);
        bool plain = feed_block(&w, size, most, &to);
        lines += (uint64_t)__builtin_popcountll(ctl_equal(p, '\n') & (plain ? UINT64_MAX : bits_before(&w, w.token)));
        if (!plain)
            break;
    }
    *out = to;
    *feeds += lines;
    return w.token ? w.token : p;
}

const char *ctl_feed_integers(const char *first, const char *p, const char *end, const ctl_integer_type *type, uint8_t **out,
                              uint64_t *feeds)
{
    const walk w = {.first = first, .end = end};
    const uint64_t most[] = {type->most[0], type->most[1]};
    return type->size == 8 ? feed(w, p, 8, most, out, feeds) : feed(w, p, type->size, most, out, feeds);
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
    return (w->token && w->token[0] == '-' && w->token[1] == '0') ||
           (w->minus && (w->minus & (ctl_equal(w->block, '0') >> 1 | next)));
}

/* May a token that ends in the block be too long for i64? */
static inline bool maybe_long(const walk *w)
{
    uint64_t run = ~w->blank;
    for (int n = 1; n <= 8; n *= 2)
        run &= run >> n;
    run &= run >> (SURE + 1 - 16);
    return run || (w->token && w->ends && lowest(w->block, w->ends) - w->token > SURE);
}

/* All tokens of the block at once. */
static inline void pass_block(ctl_text_kind *k, walk *w)
{
    k->negative |= w->minus != 0;
    k->some |= w->ends != 0;
    if (w->ends)
        w->token = NULL;
    if (w->within && w->starts)
        w->token = w->block + 63 - __builtin_clzll(w->starts);
}

/* Is it an i64 by its length and first digit, and not -0? */
static inline bool is_surely_i64(const char *token, const char *end)
{
    bool negative = *token == '-';
    return end - token - negative <= MAX_DIGITS && token[negative] >= '1' && token[negative] <= '8';
}

/* The tokens of the block one by one. False: the current one is for somebody slower. */
static bool look_at_block(ctl_text_kind *k, walk *w)
{
    if (!w->token)
        next_token(w);
    for (; w->ends; next_token(w)) {
        const char *end = next_end(w);
        bool negative = *w->token == '-';
        uint64_t v = 1; /* as good as any */
        if (!is_surely_i64(w->token, end) && !take_integer(w, end, &negative, &v))
            return false;
        ctl_look_at_integer(k, negative, true, v);
    }
    return true;
}

const char *ctl_look_at_integers(ctl_text_kind *k, const char *first, const char *p, const char *end)
{
    walk w = {.first = first, .end = end};
    for (; walk_on(&w, p); p += CTL_BLOCK) {
        if (!maybe_long(&w) && !maybe_negative_zero(&w))
            pass_block(k, &w);
        else if (!look_at_block(k, &w))
            return w.token;
    }
    return w.token ? w.token : p;
}

/* ---- how many ---- */

size_t ctl_count_tokens(const char *p, const char *end, bool within, size_t most, size_t *tokens)
{
    const char *first = p;
    uint64_t before = within;
    *tokens = 0;
    for (; end - p >= CTL_BLOCK; p += CTL_BLOCK) {
        uint64_t blank = ctl_blanks(p), ends = blank & (~blank << 1 | before);
        size_t n = (size_t)__builtin_popcountll(ends);
        if (n > most - *tokens)
            break;
        *tokens += n;
        before = ~blank >> 63;
    }
    for (; p < end; p++) {
        bool blank = *p == ' ' || (*p >= '\t' && *p <= '\r');
        if (blank && before && (*tokens)++ == most) {
            *tokens = most;
            break;
        }
        before = !blank;
    }
    return (size_t)(p - first);
}
