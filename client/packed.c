#include "client/packed.h"

#include <string.h>

#include "kernels/exact/check.h"

enum { HEAD = RK_STATE_HEAD + 8, SPARE = 32 };

static int limbs_of(int layout, int which) { return which ? rk_square_limbs(layout) : rk_sum_limbs(layout); }
static uint64_t *number_of(rk_state *s, int which) { return s->limb + (which ? rk_sum_limbs(s->layout) : 0); }

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* Has the limb below room for what ranks add, so that `limb`, which is all sign, does not change? */
static bool is_sign(uint64_t limb, uint64_t below)
{
    const int64_t high = (int64_t)below >> (63 - SPARE);
    return limb == (uint64_t)(high >> 63) && (high == 0 || high == -1);
}

static void span_of(const uint64_t *limb, int n, uint8_t *from, uint8_t *length)
{
    rk_range r = {0, 0};
    if (n)
        r = rk_range_of(limb, n);
    if (r.end && r.end < n && !is_sign(limb[r.end], limb[r.end - 1]))
        r.end++;
    *from = (uint8_t)r.low;
    *length = (uint8_t)(r.end - r.low);
}

rc_spans rc_spans_of(const rk_state *s)
{
    rc_spans spans;
    for (int i = 0; i < 2; i++)
        span_of(s->limb + (i ? rk_sum_limbs(s->layout) : 0), limbs_of(s->layout, i), &spans.from[i], &spans.n[i]);
    return spans;
}

rc_spans rc_spans_join(rc_spans a, rc_spans b)
{
    for (int i = 0; i < 2; i++) {
        const int end = a.from[i] + a.n[i], other = b.from[i] + b.n[i];
        if (a.n[i] && b.n[i]) {
            a.from[i] = a.from[i] < b.from[i] ? a.from[i] : b.from[i];
            a.n[i] = (uint8_t)((end > other ? end : other) - a.from[i]);
        } else if (b.n[i]) {
            a.from[i] = b.from[i];
            a.n[i] = b.n[i];
        }
    }
    return a;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

size_t rc_packed_size(int layout, rc_spans spans)
{
    return HEAD + 8 * (size_t)(spans.n[0] + spans.n[1] + rk_other_limbs(layout));
}

static void give_head(uint8_t *to, const rk_state *s, rc_spans spans)
{
    memcpy(to, s, RK_STATE_HEAD);
    memset(to + RK_STATE_HEAD, 0, HEAD - RK_STATE_HEAD);
    memcpy(to + RK_STATE_HEAD, &spans, sizeof spans);
}

void rc_pack(uint8_t *to, const rk_state *s, rc_spans spans)
{
    const size_t others = 8 * (size_t)rk_other_limbs(s->layout);
    give_head(to, s, spans);
    to += HEAD;
    for (int i = 0; i < 2; to += 8 * spans.n[i++])
        memcpy(to, s->limb + (i ? rk_sum_limbs(s->layout) : 0) + spans.from[i], 8 * (size_t)spans.n[i]);
    memcpy(to, s->limb + rk_others_at(s->layout), others);
}

/* A number of n limbs, of which the span has some. */
static void spread(uint64_t *limb, int n, const uint8_t *from, int first, int some)
{
    memset(limb, 0, 8 * (size_t)n);
    if (!some)
        return;
    memcpy(limb + first, from, 8 * (size_t)some);
    if (limb[first + some - 1] >> 63)
        memset(limb + first + some, 0xff, 8 * (size_t)(n - first - some));
}

/* The head of a packed state and its spans; its bytes, or 0. */
static size_t take_head(rk_state *s, rc_spans *spans, const uint8_t *from, size_t bytes)
{
    if (bytes < HEAD)
        return 0;
    memcpy(s, from, RK_STATE_HEAD);
    memcpy(spans, from + RK_STATE_HEAD, sizeof *spans);
    if (s->layout >= RP_LAYOUT_COUNT)
        return 0;
    for (int i = 0; i < 2; i++)
        if (spans->from[i] + spans->n[i] > limbs_of(s->layout, i))
            return 0;
    const size_t size = rc_packed_size(s->layout, *spans);
    return size <= bytes ? size : 0;
}

size_t rc_unpack(rk_state *s, rc_spans *spans, const uint8_t *from, size_t bytes)
{
    const size_t size = take_head(s, spans, from, bytes);
    if (!size)
        return 0;
    from += HEAD;
    for (int i = 0; i < 2; from += 8 * spans->n[i++])
        spread(number_of(s, i), limbs_of(s->layout, i), from, spans->from[i], spans->n[i]);
    memcpy(s->limb + rk_others_at(s->layout), from, 8 * (size_t)rk_other_limbs(s->layout));
    return size;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

/* A number of which `some` limbs from `first` on are at `from`. */
typedef struct part {
    const uint8_t *from;
    int first, some;
} part;

static uint64_t limb_of(part p, int i)
{
    const int at = i - p.first;
    uint64_t limb;
    if (at < 0 || !p.some)
        return 0;
    memcpy(&limb, p.from + 8 * (size_t)(at < p.some ? at : p.some - 1), sizeof limb);
    return at < p.some ? limb : (uint64_t)((int64_t)limb >> 63);
}

/* The limbs of a + b that are at place `first` and above, `some` of them. */
static void add_parts(uint8_t *to, part a, part b, int first, int some)
{
    unsigned __int128 sum = 0;
    for (int i = first; i < first + some; i++, to += 8) {
        sum = (sum >> 64) + limb_of(a, i) + limb_of(b, i);
        memcpy(to, &sum, 8);
    }
}

/* Sums alone, of the same elements, all finite and few enough? */
static bool are_sums(const rk_state *a, const rk_state *b)
{
    const rk_family family = rk_family_of(a->layout);
    return (family == RK_SUMS || family == RK_PAIRS) && a->layout == b->layout && a->dtype == b->dtype &&
           !(a->special | b->special) && a->count <= RP_MAX_COUNT && b->count <= RP_MAX_COUNT - a->count;
}

size_t rc_join_sums(uint8_t *to, size_t room, const uint8_t *a, const uint8_t *b, size_t left[2])
{
    rk_state s, o;
    rc_spans spans[2];
    const size_t sizes[] = {take_head(&s, &spans[0], a, left[0]), take_head(&o, &spans[1], b, left[1])};
    if (!sizes[0] || !sizes[1] || !are_sums(&s, &o))
        return 0;
    const rc_spans both = rc_spans_join(spans[0], spans[1]);
    const size_t size = rc_packed_size(s.layout, both);
    if (size > room)
        return 0;
    s.nz |= o.nz;
    s.skipped |= o.skipped;
    s.count += o.count;
    give_head(to, &s, both);
    part x = {a + HEAD, 0, 0}, y = {b + HEAD, 0, 0};
    to += HEAD;
    for (int i = 0; i < 2; to += 8 * both.n[i++]) {
        x = (part){x.from + 8 * x.some, spans[0].from[i], spans[0].n[i]};
        y = (part){y.from + 8 * y.some, spans[1].from[i], spans[1].n[i]};
        add_parts(to, x, y, both.from[i], both.n[i]);
    }
    left[0] = sizes[0];
    left[1] = sizes[1];
    return size;
}
