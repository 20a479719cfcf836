#include "client/ctl/integers.h"

#include <string.h>

#include "client/ctl/digits.h"
#include "client/ctl/text_block.h"

enum { WORD = 8, MAX_DIGITS = 19 /* a number of that length fits 64 bits */, SURE = 18 /* digits that fit i64 */ };

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
    uint64_t v = ctl_value_of_eight(last_bytes(ctl_load_eight(end - WORD), n)) +
                 ctl_value_of_eight(last_bytes(ctl_load_eight(end - 2 * WORD), n - WORD)) * 100000000;
    if (n > 2 * WORD)
        v += ctl_value_of_eight(last_bytes(ctl_load_eight(end - 3 * WORD), n - 2 * WORD)) * UINT64_C(10000000000000000);
    return v;
}

/* ---- the tokens of a text ---- */

typedef struct walk {
    const char *first, *end; /* of the text */
    const char *block, *token; /* the current block; the token that has begun, or NULL */
    ctl_block kinds;
    uint64_t starts, ends; /* of the tokens in the block */
    uint64_t within;       /* 1: a token goes on from the block before */
} walk;

/* The next block. False: none is whole, with a byte more, or it has something else than integers. */
static inline bool walk_on(walk *w, const char *block)
{
    if (w->end - block <= CTL_BLOCK)
        return false;
    ctl_block b = ctl_look_at_block(block);
    uint64_t text = ~b.blank, begun = text << 1 | w->within, signs = b.minus | b.plus,
             next = (uint64_t)(block[CTL_BLOCK] >= '0' && block[CTL_BLOCK] <= '9') << 63;
    if ((text & ~(b.digit | signs)) || (signs & (begun | ~(b.digit >> 1 | next))))
        return false;
    w->block = block;
    w->kinds = b;
    w->starts = text & ~begun;
    w->ends = b.blank & begun;
    w->within = text >> 63;
    return true;
}

static inline const char *lowest(const char *block, uint64_t bits) { return block + __builtin_ctzll(bits); }

/* The token that ends first: [w->token, the result). */
static inline const char *next_end(walk *w)
{
    const char *end = lowest(w->block, w->ends);
    w->ends &= w->ends - 1;
    if (!w->token) {
        w->token = lowest(w->block, w->starts);
        w->starts &= w->starts - 1;
    }
    return end;
}

/* The one after that has begun in the block, if there is one. */
static inline void next_token(walk *w)
{
    w->token = w->starts ? lowest(w->block, w->starts) : NULL;
    w->starts &= w->starts - 1;
}

/* False: it is for somebody slower. */
static inline bool take_integer(const walk *w, const char *end, bool *negative, uint64_t *v)
{
    bool sign = *w->token < '0';
    long n = end - w->token - sign;
    if (n > MAX_DIGITS || end - w->first < 3 * WORD)
        return false;
    *negative = *w->token == '-';
    *v = value_before(end, n);
    return true;
}

/* Of the current block's bytes, those before `p`, which may lie before the block. */
static uint64_t bits_before(const walk *w, const char *p)
{
    return p <= w->block ? 0 : (UINT64_C(1) << (p - w->block)) - 1;
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

/* The elements of the current block. False: the token is for somebody slower. */
static inline bool feed_block(walk *w, const ctl_integer_type *type, uint8_t **out)
{
    uint8_t *to = *out;
    bool plain = true;
    for (; w->ends; next_token(w), to += type->size) {
        const char *end = next_end(w);
        uint64_t v;
        bool negative;
        plain = take_integer(w, end, &negative, &v) && v <= type->most[negative];
        if (!plain)
            break;
        store(to, (v ^ (0 - (uint64_t)negative)) + negative, type->size);
    }
    *out = to;
    return plain;
}

const char *ctl_feed_integers(const char *first, const char *p, const char *end, const ctl_integer_type *type, uint8_t **out,
                              uint64_t *feeds)
{
    walk w = {.first = first, .end = end};
    for (; walk_on(&w, p); p += CTL_BLOCK) {
        bool plain = feed_block(&w, type, out);
        *feeds += (uint64_t)__builtin_popcountll(w.kinds.feed & (plain ? UINT64_MAX : bits_before(&w, w.token)));
        if (!plain)
            return w.token;
        if (!w.token && w.starts)
            next_token(&w);
    }
    return w.token ? w.token : p;
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

/* Can no token that ends in the block be -0, or beyond i64? */
static inline bool is_harmless(const walk *w)
{
    uint64_t run = ~w->kinds.blank, next = (uint64_t)(w->block[CTL_BLOCK] == '0') << 63;
    for (int n = 1; n <= 8; n *= 2)
        run &= run >> n;
    run &= run >> (SURE + 1 - 16);
    bool longer = w->token && w->ends && lowest(w->block, w->ends) - w->token > SURE,
         negative_zero = w->token && w->token[0] == '-' && w->token[1] == '0';
    return !run && !longer && !negative_zero && !(w->kinds.minus & (w->kinds.zero >> 1 | next));
}

/* All tokens of the block at once: they fit. */
static inline void pass_block(ctl_text_kind *k, walk *w)
{
    k->negative |= w->kinds.minus != 0;
    k->some |= w->ends != 0;
    if (w->ends)
        w->token = NULL;
    if (w->within && w->starts)
        w->token = w->block + 63 - __builtin_clzll(w->starts);
}

static bool look_at_block(ctl_text_kind *k, walk *w)
{
    for (; w->ends; next_token(w)) {
        const char *end = next_end(w);
        uint64_t v;
        bool negative;
        if (!take_integer(w, end, &negative, &v))
            return false;
        ctl_look_at_integer(k, negative, true, v);
    }
    if (!w->token && w->starts)
        next_token(w);
    return true;
}

const char *ctl_look_at_integers(ctl_text_kind *k, const char *first, const char *p, const char *end)
{
    walk w = {.first = first, .end = end};
    for (; walk_on(&w, p); p += CTL_BLOCK) {
        if (is_harmless(&w))
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
        uint64_t blank = ctl_look_at_block(p).blank, ends = blank & (~blank << 1 | before);
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
