/* Sums and sums of squares, and sums of magnitudes: the states of sum, mean, the norms, var and std.
 *
 * Floats: one fixed-point integer wide enough for every sum ("long accumulator": Kulisch 1981; the digit form with delayed
 * carries: Neal 2015, arXiv:1505.05571, section 3), value = limbs * 2^e0; their squares the same with 2 e0, in which squares
 * are exact. Integers: 128-bit two's complement; of squares 192.
 *
 *   sum            S1                               S1, S2: sums of the elements and of their squares
 *   mean           S1 / n                           n: the count
 *   sumsq, norm2   S2, and its root
 *   rms            root of S2 / n
 *   var, std       (n S2 - S1^2) / (n (n - ddof)), and its root; never negative, for the numerator is not
 *   sem            root of var / n */
#ifndef RK_SUMS_H
#define RK_SUMS_H

#include "kernels/exact/layout.h"
#include "kernels/exact/quotient.h"
#include "kernels/exact/total_order.h"

/* ---- init, merge, add -------------------------------------------------------------------------------------------- */

/* With infinities or NaNs the sum is cleared. Beside an infinity, that of weights stays: it has the quotient's sign. */
RK_FN void rk_sums_void(rk_state *s)
{
    int from = rk_is_pairs(s->layout) && s->special != RK_NAN ? rk_sum_limbs(s->layout) : 0;
    int n = rk_is_comoments(s->layout) ? rk_limbs(s->layout) : rk_others_at(s->layout);
    for (int i = from; i < n; i++)
        s->limb[i] = 0;
}

/* `special` is joined. */
RK_FN void rk_sums_merge(rk_state *s, const rk_state *o)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    rk_add_limbs(s->limb, o->limb, sum);
    rk_add_limbs(s->limb + sum, o->limb + sum, squares);
    if (s->special)
        rk_sums_void(s);
}

RK_FN void rk_add_float_sums(rk_state *s, uint64_t bits)
{
    rk_format f = rk_format_of(s->dtype);
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout), e0 = rk_e0(s->dtype);
    uint64_t magnitude = bits & ~rk_sign_bit(f, 1);
    if (sum && !rk_is_abs(s->layout))
        s->nz |= bits != rk_sign_bit(f, 1);
    if (magnitude >= rk_inf_bits(f)) {
        int negative = bits != magnitude && !rk_is_unsigned_sum(s->layout);
        s->special |= magnitude > rk_inf_bits(f) ? RK_NAN : negative ? RK_NINF : RK_PINF;
        rk_sums_void(s);
    }
    if (s->special)
        return;
    rk_number x = rk_number_of(f, bits);
    if (sum)
        rk_add_shifted(s->limb, sum, x.mantissa, x.unit - e0, x.negative && !rk_is_abs(s->layout));
    if (squares) {
        unsigned __int128 square = (unsigned __int128)x.mantissa * x.mantissa;
        rk_add_shifted(s->limb + sum, squares, (uint64_t)square, 2 * (x.unit - e0), 0);
        rk_add_shifted(s->limb + sum, squares, (uint64_t)(square >> 64), 2 * (x.unit - e0) + 64, 0);
    }
}

RK_FN void rk_add_int_sums(rk_state *s, uint64_t bits)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    uint64_t magnitude = rk_magnitude(s->dtype, bits);
    int negative = rk_is_signed(s->dtype) && rk_sign_extend(bits, rk_bytes(s->dtype)) >> 63;
    if (sum)
        rk_add_shifted(s->limb, sum, magnitude, 0, negative && !rk_is_abs(s->layout));
    if (squares) {
        unsigned __int128 square = (unsigned __int128)magnitude * magnitude;
        rk_add_shifted(s->limb + sum, squares, (uint64_t)square, 0, 0);
        rk_add_shifted(s->limb + sum, squares, (uint64_t)(square >> 64), 64, 0);
    }
}

RK_FN void rk_sums_add(rk_state *s, uint64_t bits)
{
    if (rk_is_float(s->dtype))
        rk_add_float_sums(s, bits);
    else
        rk_add_int_sums(s, bits);
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

/* Words of scratch for finishing: n S2 - S1^2 of f64, where S1^2 has up to 68 limbs, plus one. */
enum { RK_FINISH_SCRATCH = 69 };

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

RK_COLD uint64_t rk_finish_mean(const rk_state *s, rk_format f)
{
    if (s->count == 0)
        return rk_nan_bits(f);
    if (s->special)
        return rk_special_bits(s->special, f);
    int n = rk_sum_limbs(s->layout);
    rk_top t = rk_divide(s->limb, n, rk_e0(s->dtype), s->count, 1, 1);
    if (!t.window)
        return rk_sign_bit(f, !s->nz && rk_has_nz(s->layout, s->dtype));
    return rk_round_top(t, (int)(s->limb[n - 1] >> 63), f);
}

/* S2, its root, or the root of S2 / n */
RK_FN uint64_t rk_finish_squares(const rk_state *s, int op, rk_format f)
{
    if (op == RP_OP_RMS && s->count == 0)
        return rk_nan_bits(f);
    if (s->special)
        return rk_special_bits(s->special, f);
    const uint64_t *squares = s->limb + rk_sum_limbs(s->layout);
    rk_top t = rk_divide(squares, rk_square_limbs(s->layout), 2 * rk_e0(s->dtype), op == RP_OP_RMS ? s->count : 1, 1, 1);
    return rk_round_top(op == RP_OP_SUMSQ ? t : rk_root(t), 0, f);
}

/* n S2 - S1^2 of a state with both sums, to scratch[0..returned) in units of 2^(2 e0 + 64 *from). */
RK_COLD int rk_numerator(const rk_state *s, uint64_t *scratch, int *from)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    rk_range a = rk_range_of(s->limb, sum), b = rk_range_of(s->limb + sum, squares);
    *from = a.end && 2 * a.low < b.low ? 2 * a.low : b.low;
    int end = 2 * a.end > b.end ? 2 * a.end : b.end, n = end + 1 - *from; /* one above for n and the sign */
    rk_multiply(scratch, s->limb + sum, b, *from, n, s->count);
    rk_subtract_square(scratch, *from, n, s->limb, sum, a);
    return n;
}

/* var / by of a state with both sums, unrounded. False: it is NaN. `scratch`: RK_FINISH_SCRATCH words. */
RK_FN int rk_variance_over(const rk_state *s, uint64_t by, uint32_t ddof, uint64_t *scratch, rk_top *t)
{
    if (s->special || s->count <= ddof)
        return 0;
    int from, n = rk_numerator(s, scratch, &from);
    *t = rk_divide(scratch, n, 2 * rk_e0(s->dtype) + 64 * from, s->count, s->count - ddof, by);
    return 1;
}

RK_FN int rk_variance(const rk_state *s, uint32_t ddof, uint64_t *scratch, rk_top *t)
{
    return rk_variance_over(s, 1, ddof, scratch, t);
}

/* var, its root, or sem. `scratch`: RK_FINISH_SCRATCH words. */
RK_COLD uint64_t rk_finish_spread(const rk_state *s, int op, uint32_t ddof, uint64_t *scratch, rk_format f)
{
    rk_top t;
    if (!rk_variance_over(s, op == RP_OP_SEM ? s->count : 1, ddof, scratch, &t))
        return rk_nan_bits(f);
    return rk_round_top(op == RP_OP_VAR ? t : rk_root(t), 0, f);
}

/* The sum of integers as 192-bit two's complement: S1, or where there is none, S2. The caller has set v[0] to limb[0]. */
RK_FN void rk_sums_integer(const rk_state *s, uint64_t v[3])
{
    v[1] = s->limb[1];
    v[2] = rk_sum_limbs(s->layout) ? (uint64_t)((int64_t)s->limb[1] >> 63) : s->limb[2];
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

RK_FN int rk_all_zero(const uint64_t *limb, int n)
{
    uint64_t any = 0;
    for (int i = 0; i < n; i++)
        any |= limb[i];
    return any == 0;
}

/* Are the lowest `bits` bits of limb[0..n) zero? */
RK_FN int rk_low_bits_zero(const uint64_t *limb, int bits)
{
    int i = bits / 64;
    return rk_all_zero(limb, i) && (bits % 64 == 0 || (limb[i] & (((uint64_t)1 << bits % 64) - 1)) == 0);
}

/* a <= b */
RK_FN int rk_ordered(const uint64_t *a, const uint64_t *b, int n)
{
    int i = n - 1;
    while (i > 0 && a[i] == b[i])
        i--;
    return a[i] <= b[i];
}

/* |value| <= bound, for a two's complement number of n limbs. */
RK_FN int rk_magnitude_within(const uint64_t *limb, const uint64_t *bound, int n)
{
    uint64_t magnitude[RK_SQUARE_LIMBS64];
    int negative = (int)(limb[n - 1] >> 63), low = 0;
    while (low < n - 1 && limb[low] == 0)
        low++;
    for (int i = 0; i < n; i++)
        magnitude[i] = rk_magnitude_limb(limb, i, negative, low);
    return rk_ordered(magnitude, bound, n);
}

/* S1^2 <= n S2, which all numbers obey (Cauchy and Schwarz): so no variance is negative */
RK_FN int rk_moments_possible(const rk_state *s)
{
    uint64_t room[RK_FINISH_SCRATCH];
    int from, n = rk_numerator(s, room, &from);
    return !(room[n - 1] >> 63);
}

RK_FN rk_flaw rk_check_special(const rk_state *s, int zero)
{
    if (s->special == RK_NINF && rk_is_unsigned_sum(s->layout))
        return rk_bad("special", "a negative infinity among magnitudes");
    int nz = s->nz || !rk_has_nz(s->layout, s->dtype);
    if (s->special && (!zero || !nz || s->count == 0))
        return rk_bad("special", "an infinity or NaN goes with zero limbs, nz and a count");
    return rk_fine();
}

RK_FN rk_flaw rk_check_nz(const rk_state *s, int zero)
{
    if (!rk_has_nz(s->layout, s->dtype))
        return rk_fine();
    if (s->nz && s->count == 0)
        return rk_bad("nz", "nz without elements");
    return !s->nz && !zero ? rk_bad("nz", "a value without nz") : rk_fine();
}

/* bound[0..n) = count * largest^times. In units of the limbs, the largest element is (2^p - 1) 2^unit and its square
 * (2^2p - 2^(p+1) + 1) 2^(2 unit). */
RK_FN void rk_largest_float_sum(const rk_state *s, uint64_t *bound, int n, int times)
{
    rk_format f = rk_format_of(s->dtype);
    int p = f.precision, unit = times * (2 - f.emin - p - rk_e0(s->dtype));
    for (int i = 0; i < n; i++)
        bound[i] = 0;
    rk_add_shifted(bound, n, s->count, unit + times * p, 0);
    rk_add_shifted(bound, n, s->count, times == 2 ? unit + p + 1 : unit, 1);
    if (times == 2)
        rk_add_shifted(bound, n, s->count, unit, 0);
}

/* A sum of `times`-th powers of elements, which are multiples of the smallest subnormal. */
RK_FN rk_flaw rk_check_float_range(const rk_state *s, const uint64_t *limb, int n, rk_range r, int times)
{
    const rk_format format = rk_format_of(s->dtype);
    const int e0 = rk_e0(s->dtype), least = times * (format.emin - (format.precision - 1) - e0),
              most = times * (1 - format.emin - e0);
    uint64_t bound[RK_SQUARE_LIMBS64];
    if (!r.end)
        return rk_fine();
    if (limb[n - 1] >> 63 && (times == 2 || rk_is_abs(s->layout)) && !rk_is_pairs(s->layout))
        return rk_bad("limbs", "a negative sum of what is not negative");
    if (s->count == 0 || 64 * r.end > most) { /* else it is below the power of one element */
        rk_largest_float_sum(s, bound, n, times);
        if (!rk_magnitude_within(limb, bound, n))
            return rk_bad("limbs", "more than the elements can sum to");
    }
    return 64 * r.low >= least || rk_low_bits_zero(limb, least) ? rk_fine() : rk_bad("limbs", "finer than the elements are");
}

/* The range of n limbs, which may be none. */
RK_FN rk_range rk_range_of_any(const uint64_t *limb, int n)
{
    const rk_range none = {0, 0};
    return n ? rk_range_of(limb, n) : none;
}

RK_FN rk_flaw rk_check_float_limbs(const rk_state *s, const uint64_t *limb, int n, int times)
{
    return rk_check_float_range(s, limb, n, rk_range_of_any(limb, n), times);
}

RK_FN rk_flaw rk_check_float_sums(const rk_state *s)
{
    const int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    const rk_range of_sum = rk_range_of_any(s->limb, sum), of_squares = rk_range_of_any(s->limb + sum, squares);
    const int zero = !of_sum.end && !of_squares.end;
    rk_flaw flaw = rk_check_special(s, zero);
    if (!flaw.why)
        flaw = rk_check_nz(s, zero);
    if (!flaw.why)
        flaw = rk_check_float_range(s, s->limb, sum, of_sum, 1);
    return flaw.why ? flaw : rk_check_float_range(s, s->limb + sum, squares, of_squares, 2);
}

RK_FN uint64_t rk_largest_magnitude(int dtype) { return rk_is_signed(dtype) ? rk_all_ones(dtype) / 2 + 1 : rk_all_ones(dtype); }

/* Checks signed sums; sums of unsigned elements and of magnitudes must not be negative. */
RK_FN int rk_signed_sum_possible(const rk_state *s)
{
    __int128 value = (__int128)((unsigned __int128)s->limb[1] << 64 | s->limb[0]),
             unit = (__int128)rk_largest_magnitude(s->dtype);
    return value >= -unit * (__int128)s->count && value <= (unit - 1) * (__int128)s->count;
}

/* limb[0..n) <= count * largest^times; n = 1 + times */
RK_FN int rk_powers_possible(const rk_state *s, const uint64_t *limb, int n, int times)
{
    unsigned __int128 largest = rk_largest_magnitude(s->dtype), power = times == 2 ? largest * largest : largest;
    uint64_t one[2] = {(uint64_t)power, (uint64_t)(power >> 64)}, bound[3];
    rk_range all = {0, n - 1};
    rk_multiply(bound, one, all, 0, n, s->count);
    return rk_ordered(limb, bound, n);
}

RK_FN rk_flaw rk_check_int_sums(const rk_state *s)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    int is_signed = rk_is_signed(s->dtype) && !rk_is_abs(s->layout), fine = 1;
    if (sum)
        fine = is_signed ? rk_signed_sum_possible(s) : rk_powers_possible(s, s->limb, sum, 1);
    if (squares)
        fine = fine && rk_powers_possible(s, s->limb + sum, squares, 2);
    return fine ? rk_fine() : rk_bad("limbs", "more than the elements can sum to");
}

RK_FN rk_flaw rk_check_sums(const rk_state *s)
{
    rk_flaw flaw = rk_is_float(s->dtype) ? rk_check_float_sums(s) : rk_check_int_sums(s);
    if (!flaw.why && rk_sum_limbs(s->layout) && rk_square_limbs(s->layout) && !rk_moments_possible(s))
        return rk_bad("limbs", "a sum larger than its squares allow");
    return flaw;
}

#endif
