/* From a state to the value of the reply: exact integer arithmetic on the limbs, one rounding at the end.
 *
 *   mean     sum / n                                    n: the count
 *   norm2    root of S2                                 S1, S2: sums of the elements and of their squares
 *   var      (n S2 - S1^2) / (n (n - ddof))             never negative, for the numerator is not
 *   std      root of var
 *
 * The quotients are cut after 128 significant bits and the roots after 64; whatever is lost only says "a little more", the
 * sticky bit of the one rounding. So each is the correctly rounded value of its definition. Pure, thread-safe. */
#ifndef RK_FINISH_H
#define RK_FINISH_H

#include "kernels/exact/state.h"

/* Words of scratch that finishing may use: n S2 - S1^2 of f64, where S1^2 has up to 68 limbs, and one above. */
enum { RK_FINISH_SCRATCH = 69 };

/* ---- big integers ----------------------------------------------------------------------------------------------- */

/* A magnitude's top: window * 2^(top - 127) with bit 127 of window set, and less than one unit of it more if `sticky`.
 * window 0: the number is zero. */
typedef struct rk_top {
    unsigned __int128 window;
    int top, sticky;
} rk_top;

RK_FN uint64_t rk_round_top(rk_top t, int negative, rk_format f)
{
    if (!t.window)
        return 0;
    return rk_round_window((uint64_t)(t.window >> 64), t.top, t.sticky || (uint64_t)t.window, negative, f);
}

/* The quotient of rest * 2^64 + next by d, where rest < d; rest becomes the remainder. Two digits of base 2^32 (Knuth,
 * vol. 2, 4.3.1, algorithm D): processors without a division of 128 bits take a tenth of their library's time. */
RK_FN uint64_t rk_divide_step(uint64_t *rest, uint64_t next, uint64_t d)
{
    if (d == 1)
        return next;
    int shift = rk_clz64(d);
    uint64_t r = shift ? *rest << shift | next >> (64 - shift) : *rest, low = next << shift;
    d <<= shift;
    uint64_t dh = d >> 32, dl = d & UINT32_MAX, q[2];
    for (int i = 0; i < 2; i++) {
        uint64_t digit = i ? low & UINT32_MAX : low >> 32, t = r / dh, m = r % dh;
        while (t >> 32 || t * dl > (m << 32 | digit)) {
            t--;
            m += dh;
            if (m >> 32)
                break;
        }
        r = (r << 32 | digit) - t * d; /* modulo 2^64: it is below d */
        q[i] = t;
    }
    *rest = r >> shift;
    return q[0] << 32 | q[1];
}

/* |limb[0..n) * 2^e0| / a / b, where a and b are not zero. Schoolbook division by one limb after the other (Knuth 4.3.1,
 * exercise 16), from the highest limb down and on into the fraction, until 128 bits stand. */
RK_FN rk_top rk_divide(const uint64_t *limb, int n, int e0, uint64_t a, uint64_t b)
{
    rk_top t = {0, 0, 0};
    rk_range r = rk_range_of(limb, n);
    if (!r.end)
        return t;
    uint64_t q[3] = {0, 0, 0}, rest_a = 0, rest_b = 0;
    int negative = (int)(limb[n - 1] >> 63), i = r.end - 1, highest = 0, have = 0;
    for (; have < 3; i--) {
        uint64_t next = i >= 0 ? rk_magnitude_limb(limb, i, negative, r.low) : 0;
        uint64_t by_b = rk_divide_step(&rest_b, rk_divide_step(&rest_a, next, a), b);
        if (have || by_b) {
            if (!have)
                highest = i;
            q[have++] = by_b;
        }
    }
    int shift = rk_clz64(q[0]);
    t.window = (unsigned __int128)q[0] << 64 | q[1];
    if (shift)
        t.window = t.window << shift | q[2] >> (64 - shift);
    t.top = e0 + 64 * highest + 63 - shift;
    t.sticky = (q[2] << shift) != 0 || rest_a || rest_b || r.low <= i;
    return t;
}

/* floor(root of v) and the rest v - root^2, for v >= 2^62; bit by bit. */
RK_FN uint32_t rk_root64(uint64_t v, uint64_t *rest)
{
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 62; bit; bit >>= 2) {
        uint64_t t = root + bit;
        root >>= 1;
        if (v >= t) {
            v -= t;
            root += bit;
        }
    }
    *rest = v;
    return (uint32_t)root;
}

/* The root, cut to 64 bits: its upper half from the upper half of the number, the lower one by a division (Zimmermann,
 * Karatsuba Square Root, 1999). */
RK_FN rk_top rk_root(rk_top t)
{
    if (!t.window)
        return t;
    /* value = window * 2^exponent; the exponent must be even */
    unsigned __int128 v = t.window;
    int exponent = t.top - 127;
    if (exponent & 1) {
        t.sticky |= (int)(v & 1);
        v >>= 1;
        exponent++;
    }
    uint64_t rest, low = (uint64_t)v, high = rk_root64((uint64_t)(v >> 64), &rest);
    unsigned __int128 r = (unsigned __int128)rest << 32 | low >> 32; /* rest is at most 2 high: below 2^65 */
    uint64_t q = (uint64_t)(r >> 1) / high;
    uint64_t root = (high << 32) + q;
    unsigned __int128 square = (unsigned __int128)root * root;
    while (q > UINT32_MAX || square > v) { /* at most twice */
        root--;
        q--;
        square = (unsigned __int128)root * root;
    }
    t.window = (unsigned __int128)root << 64; /* v has 127 or 128 bits, its root 64 */
    t.top = exponent / 2 + 63;
    t.sticky |= square != v;
    return t;
}

/* out[0..n) = limb[from..from + n) * k; limb is not negative, and zero outside of r */
RK_FN void rk_multiply(uint64_t *out, const uint64_t *limb, rk_range r, int from, int n, uint64_t k)
{
    uint64_t carry = 0;
    for (int i = from; i < from + n; i++) {
        unsigned __int128 p = (unsigned __int128)(i >= r.low && i < r.end ? limb[i] : 0) * k + carry;
        out[i - from] = (uint64_t)p;
        carry = (uint64_t)(p >> 64);
    }
}

/* a[0..n), which begins at limb `from`, -= x^2 for the two's complement x[0..m) that is not zero in r. By columns. */
RK_FN void rk_subtract_square(uint64_t *a, int from, int n, const uint64_t *x, int m, rk_range r)
{
    int negative = (int)(x[m - 1] >> 63);
    unsigned __int128 column = 0; /* carried into the column, and its sum so far; `over` counts 2^128 */
    uint64_t over = 0, borrow = 0;
    for (int k = 2 * r.low; r.end && k < from + n; k++) {
        int last = k - r.low < r.end - 1 ? k - r.low : r.end - 1;
        for (int i = k - r.end + 1 > r.low ? k - r.end + 1 : r.low; i <= last; i++) {
            unsigned __int128 p = (unsigned __int128)rk_magnitude_limb(x, i, negative, r.low) *
                                  rk_magnitude_limb(x, k - i, negative, r.low);
            column += p;
            over += column < p;
        }
        uint64_t digit = (uint64_t)column, before = a[k - from], t = before - digit;
        a[k - from] = t - borrow;
        borrow = (before < digit) | (t < borrow);
        column = column >> 64 | (unsigned __int128)over << 64;
        over = 0;
    }
}

/* ---- single values ---------------------------------------------------------------------------------------------- */

RK_FN uint64_t rk_special_bits(int special, rk_format f)
{
    return special == RK_NAN ? rk_nan_bits(f) : rk_sign_bit(f, special == RK_NINF) | rk_inf_bits(f);
}

RK_FN uint64_t rk_finish_sum(const rk_state *s, rk_format f)
{
    if (s->special)
        return rk_special_bits(s->special, f);
    int minus_zero = s->count && !s->nz && rk_has_nz(s->layout, s->dtype);
    return rk_round_limbs(s->limb, rk_sum_limbs(s->layout), rk_e0(s->dtype), minus_zero, f);
}

RK_FN uint64_t rk_finish_mean(const rk_state *s, rk_format f)
{
    if (s->count == 0)
        return rk_nan_bits(f);
    if (s->special)
        return rk_special_bits(s->special, f);
    int n = rk_sum_limbs(s->layout);
    rk_top t = rk_divide(s->limb, n, rk_e0(s->dtype), s->count, 1);
    if (!t.window)
        return rk_sign_bit(f, !s->nz && rk_has_nz(s->layout, s->dtype));
    return rk_round_top(t, (int)(s->limb[n - 1] >> 63), f);
}

/* S2, or its root */
RK_FN uint64_t rk_finish_squares(const rk_state *s, int root, rk_format f)
{
    if (s->special)
        return rk_special_bits(s->special, f);
    rk_top t = rk_divide(s->limb + rk_sum_limbs(s->layout), rk_square_limbs(s->layout), 2 * rk_e0(s->dtype), 1, 1);
    return rk_round_top(root ? rk_root(t) : t, 0, f);
}

/* n S2 - S1^2 of a state with both sums, to scratch[0..returned) in units of 2^(2 e0 + 64 *from). */
RK_FN int rk_numerator(const rk_state *s, uint64_t *scratch, int *from)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    rk_range a = rk_range_of(s->limb, sum), b = rk_range_of(s->limb + sum, squares);
    *from = a.end && 2 * a.low < b.low ? 2 * a.low : b.low;
    int end = 2 * a.end > b.end ? 2 * a.end : b.end, n = end + 1 - *from; /* one above for n and the sign */
    rk_multiply(scratch, s->limb + sum, b, *from, n, s->count);
    rk_subtract_square(scratch, *from, n, s->limb, sum, a);
    return n;
}

/* var of a state with both sums, unrounded. False: it is NaN. `scratch`: RK_FINISH_SCRATCH words. */
RK_FN int rk_variance(const rk_state *s, uint32_t ddof, uint64_t *scratch, rk_top *t)
{
    if (s->special || s->count <= ddof)
        return 0;
    int from, n = rk_numerator(s, scratch, &from);
    *t = rk_divide(scratch, n, 2 * rk_e0(s->dtype) + 64 * from, s->count, s->count - ddof);
    return 1;
}

/* max - min, rounded once. `scratch`: rk_sum_limbs of a sum of the type. */
RK_FN uint64_t rk_finish_range(int dtype, uint64_t least, uint64_t most, uint64_t *scratch, rk_format f)
{
    rk_format from = rk_format_of(dtype);
    uint64_t inf = rk_inf_bits(from), a = least & ~rk_sign_bit(from, 1), b = most & ~rk_sign_bit(from, 1);
    if (a > inf || b > inf || (a == inf && least == most))
        return rk_nan_bits(f);
    if (a == inf || b == inf)
        return rk_inf_bits(f);
    int n = rk_sum_limbs(dtype == RP_F64 ? RP_STATE_SUM64 : RP_STATE_SUM32), e0 = rk_e0(dtype);
    rk_number x = rk_number_of(from, most), y = rk_number_of(from, least);
    for (int i = 0; i < n; i++)
        scratch[i] = 0;
    rk_add_shifted(scratch, n, x.mantissa, x.unit - e0, x.negative);
    rk_add_shifted(scratch, n, y.mantissa, y.unit - e0, !y.negative);
    return rk_round_limbs(scratch, n, e0, 0, f);
}

/* ---- integers --------------------------------------------------------------------------------------------------- */

/* The 192-bit two's complement v[0..3) as i64 or u64 (`out`): its low word, and OVERFLOW if that is not all of it. */
RK_FN int rk_fit(const uint64_t v[3], int out, uint64_t *word)
{
    uint64_t above = out == RP_I64 ? (uint64_t)((int64_t)v[0] >> 63) : 0;
    *word = v[0];
    return v[1] == above && v[2] == above ? RP_OK : RP_OVERFLOW;
}

/* The exact integer that a state of integers stands for, 192-bit two's complement. False: it is larger than that tells
 * (a product of 2^64 or more). */
RK_FN int rk_exact_integer(const rk_state *s, int op, uint64_t v[3])
{
    int bytes = rk_bytes(s->dtype), is_signed = rk_is_signed(s->dtype);
    const uint64_t *l = s->limb;
    v[0] = l[0];
    v[1] = v[2] = 0;
    switch (s->layout) {
    case RP_STATE_INT:
    case RP_STATE_ABSINT:
        v[1] = l[1];
        v[2] = (uint64_t)((int64_t)l[1] >> 63);
        return 1;
    case RP_STATE_SQINT:
        v[1] = l[1];
        v[2] = l[2];
        return 1;
    case RP_STATE_NORMINF: /* a magnitude */
    case RP_STATE_COUNT:
        return 1;
    case RP_STATE_PRODINT: {
        int negative = (int)(l[RK_PROD_NEGATIVES] & 1);
        v[0] = s->special ? 0 : l[RK_PROD_MAGNITUDE];
        if (!s->special && !v[0])
            return 0;
        if (negative && v[0]) {
            v[0] = 0 - v[0];
            v[1] = v[2] = ~(uint64_t)0;
        }
        return 1;
    }
    case RP_STATE_MINMAX:
        if (op == RP_OP_RANGE) {
            uint64_t a = is_signed ? rk_sign_extend(l[0], bytes) : l[0], b = is_signed ? rk_sign_extend(l[1], bytes) : l[1];
            v[0] = b - a; /* max >= min, so the difference is below 2^64 */
            return 1;
        }
        break;
    default:
        break;
    }
    /* an element, or bits: of the type's own width */
    if (is_signed) {
        v[0] = rk_sign_extend(l[0], bytes);
        v[1] = v[2] = (uint64_t)((int64_t)v[0] >> 63);
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

/* ---- all ops ---------------------------------------------------------------------------------------------------- */

/* An element as the reply's type. */
RK_FN int rk_element_out(int dtype, uint64_t bits, int out, uint64_t *word)
{
    int bytes = rk_bytes(dtype), is_signed = rk_is_signed(dtype);
    if (rk_is_float(dtype)) {
        *word = rk_convert_float(dtype, bits, out);
        return RP_OK;
    }
    *word = is_signed ? rk_sign_extend(bits, bytes) : bits;
    return (int64_t)*word < 0 && is_signed != (out == RP_I64) ? RP_OVERFLOW : RP_OK;
}

/* A float value of the state as bits of `out`: sums and products. */
RK_FN uint64_t rk_finish_float(const rk_state *s, const rp_spec *spec, uint64_t *scratch)
{
    rk_format f = rk_format_of(spec->out);
    rk_top t;
    switch (spec->op) {
    case RP_OP_MEAN:
        return rk_finish_mean(s, f);
    case RP_OP_SUMSQ:
    case RP_OP_NORM2:
        return rk_finish_squares(s, spec->op == RP_OP_NORM2, f);
    case RP_OP_VAR:
    case RP_OP_STD:
        if (!rk_variance(s, spec->ddof, scratch, &t))
            return rk_nan_bits(f);
        return rk_round_top(spec->op == RP_OP_STD ? rk_root(t) : t, 0, f);
    case RP_OP_RANGE:
        return rk_finish_range(s->dtype, s->limb[0], s->limb[1], scratch, f);
    case RP_OP_PROD: {
        int negative = (int)(s->limb[3] & 1);
        if (s->special == RK_NAN)
            return rk_nan_bits(f);
        if (s->special)
            return rk_sign_bit(f, negative) | (s->special == RK_INF ? rk_inf_bits(f) : 0);
        return rk_exp2_round(s->limb, negative, f);
    }
    case RP_OP_MIN:
    case RP_OP_MAX:
    case RP_OP_NORMINF:
        return s->count ? rk_convert_float(s->dtype, s->limb[0], spec->out) : 0;
    default: /* sum, norm1 */
        return rk_finish_sum(s, f);
    }
}

RK_FN void rk_finish_stats(const rk_state *s, uint32_t ddof, uint64_t *scratch, uint64_t *words)
{
    const uint64_t *o = s->limb + rk_sum_limbs(s->layout) + rk_square_limbs(s->layout);
    int is_float = rk_is_float(s->dtype), bytes = rk_bytes(s->dtype);
    rk_format f = rk_format_of(RP_F64);
    words[RP_STATS_COUNT] = s->count;
    words[RP_STATS_NANS] = o[RK_STATS_NANS];
    words[RP_STATS_ZEROS] = o[RK_STATS_ZEROS];
    words[RP_STATS_ARGMIN] = o[RK_STATS_MIN_INDEX];
    words[RP_STATS_ARGMAX] = o[RK_STATS_MAX_INDEX];
    for (int i = 0; i < 2; i++) {
        uint64_t bits = o[i ? RK_STATS_MAX : RK_STATS_MIN], *word = words + (i ? RP_STATS_MAX : RP_STATS_MIN);
        if (is_float)
            *word = s->count ? rk_convert_float(s->dtype, bits, RP_F64) : rk_nan_bits(f);
        else
            *word = rk_is_signed(s->dtype) ? rk_sign_extend(bits, bytes) : bits;
    }
    words[RP_STATS_SUM] = is_float ? rk_finish_sum(s, f) : s->limb[0];
    words[RP_STATS_SUM_HIGH] = is_float ? 0 : s->limb[1];
    words[RP_STATS_MEAN] = rk_finish_mean(s, f);
    rk_top t;
    int known = rk_variance(s, ddof, scratch, &t);
    words[RP_STATS_VAR] = known ? rk_round_top(t, 0, f) : rk_nan_bits(f);
    words[RP_STATS_STD] = known ? rk_round_top(rk_root(t), 0, f) : rk_nan_bits(f);
}

RK_FN int rk_needs_element(int op)
{
    switch (op) {
    case RP_OP_MIN:
    case RP_OP_MAX:
    case RP_OP_MINMAX:
    case RP_OP_RANGE:
    case RP_OP_ARGMIN:
    case RP_OP_ARGMAX:
        return 1;
    default:
        return 0;
    }
}

/* The words of a finished cell (rp_cell_size bytes of them count: words[1] of minmax starts behind the first value) as
 * the checked spec wants it; `s` is of its op and dtype. `scratch`: RK_FINISH_SCRATCH words. Returns RP_OK, EMPTY, NAN or
 * OVERFLOW; the words are then defined, but no result. */
RK_FN int rk_state_finish(const rk_state *s, const rp_spec *spec, uint64_t *scratch, uint64_t *words)
{
    int code;
    words[0] = 0;
    if (spec->nan == RP_NAN_ERROR && s->skipped)
        return RP_NAN;
    if (s->count == 0 && rk_needs_element(spec->op))
        return RP_EMPTY;
    switch (spec->op) {
    case RP_OP_STATS:
        rk_finish_stats(s, spec->ddof, scratch, words);
        return RP_OK;
    case RP_OP_MINMAX:
        words[1] = 0;
        code = rk_element_out(s->dtype, s->limb[0], spec->out, &words[0]);
        return rk_element_out(s->dtype, s->limb[1], spec->out, &words[1]) ? RP_OVERFLOW : code;
    case RP_OP_ARGMIN:
    case RP_OP_ARGMAX:
        words[0] = s->limb[1];
        return RP_OK;
    case RP_OP_COUNT_NONZERO:
    case RP_OP_COUNT_NAN:
        words[0] = s->limb[0];
        return RP_OK;
    case RP_OP_COUNT:
        words[0] = s->count;
        return RP_OK;
    case RP_OP_ANY:
        words[0] = s->limb[0] != 0;
        return RP_OK;
    case RP_OP_ALL:
        words[0] = s->limb[0] == s->count;
        return RP_OK;
    default:
        if (spec->out >= RP_F16) {
            words[0] = rk_finish_float(s, spec, scratch);
            return RP_OK;
        }
        return rk_finish_integer(s, spec, &words[0]);
    }
}

#endif
