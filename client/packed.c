#include "client/packed.h"

#include <string.h>

#include "kernels/exact/check.h"

enum { HEAD = RK_STATE_HEAD + 8, SPARE = 32 };

static int limbs_of(int layout, int which) { return which ? rk_square_limbs(layout) : rk_sum_limbs(layout); }
static uint64_t *number_of(rk_state *s, int which) { return s->limb + (which ? rk_sum_limbs(s->layout) : 0); }

/* ---- spans ------------------------------------------------------------------------------------------------------- */

/* Are the bits of `limb` above those of the one below all its sign, with some to spare? */
static bool is_sign(uint64_t limb, uint64_t below)
{
    const int64_t high = (int64_t)below >> (63 - SPARE);
    return limb == (uint64_t)(high >> 63) && (high == 0 || high == -1);
}

static void span_of(const uint64_t *limb, int n, uint8_t *from, uint8_t *length)
{
    int low = 0, end = n;
    while (low < n && limb[low] == 0)
        low++;
    while (end - low > 1 && is_sign(limb[end - 1], limb[end - 2]))
        end--;
    *from = (uint8_t)(low < n ? low : 0);
    *length = (uint8_t)(low < n ? end - low : 0);
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

void rc_pack(uint8_t *to, const rk_state *s, rc_spans spans)
{
    const size_t others = 8 * (size_t)rk_other_limbs(s->layout);
    memcpy(to, s, RK_STATE_HEAD);
    memset(to + RK_STATE_HEAD, 0, HEAD - RK_STATE_HEAD);
    memcpy(to + RK_STATE_HEAD, &spans, sizeof spans);
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
    for (int i = first + some; i < n; i++)
        limb[i] = (uint64_t)((int64_t)limb[first + some - 1] >> 63);
}

size_t rc_unpack(rk_state *s, rc_spans *spans, const uint8_t *from, size_t bytes)
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
    if (size > bytes)
        return 0;
    from += HEAD;
    for (int i = 0; i < 2; from += 8 * spans->n[i++])
        spread(number_of(s, i), limbs_of(s->layout, i), from, spans->from[i], spans->n[i]);
    memcpy(s->limb + rk_others_at(s->layout), from, 8 * (size_t)rk_other_limbs(s->layout));
    return size;
}
