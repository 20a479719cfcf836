/* Which partial states are possible at all: those that some elements have, as far as that can be told. A state that passes
 * is canonical, merges without overflow and finishes to a value; merged states of elements that count at most 2^60
 * together pass again.
 *
 * Canonical form: fields that a layout does not use are 0, and so are the sums beside `special`. Of no elements a state is
 * what rk_state_init makes; only `skipped` and the number of NaNs of stats may differ. */
#include <inttypes.h>
#include <string.h>

#include "kernels/engine/engine.h"
#include "kernels/exact/finish.h"

typedef unsigned __int128 u128;
typedef __int128 i128;

static rp_err bad(rp_fault *f, const char *field, const char *why)
{
    return rp_fail(f, RP_BAD_MESSAGE, field, 0, "partial state: %s", why);
}

/* ---- big integers ---- */

static bool all_zero(const uint64_t *limb, int n)
{
    uint64_t any = 0;
    for (int i = 0; i < n; i++)
        any |= limb[i];
    return any == 0;
}

/* The lowest `bits` bits of limb[0..n) are zero. */
static bool low_bits_zero(const uint64_t *limb, int bits)
{
    int i = bits / 64;
    return all_zero(limb, i) && (bits % 64 == 0 || (limb[i] & (((uint64_t)1 << bits % 64) - 1)) == 0);
}

/* a <= b */
static bool ordered(const uint64_t *a, const uint64_t *b, int n)
{
    int i = n - 1;
    while (i > 0 && a[i] == b[i])
        i--;
    return a[i] <= b[i];
}

/* |value| <= bound, for a two's complement number of n limbs. */
static bool magnitude_within(const uint64_t *limb, const uint64_t *bound, int n)
{
    uint64_t magnitude[RP_MAX_LIMBS];
    int negative = (int)(limb[n - 1] >> 63), low = 0;
    while (low < n - 1 && limb[low] == 0)
        low++;
    for (int i = 0; i < n; i++)
        magnitude[i] = rk_magnitude_limb(limb, i, negative, low);
    return ordered(magnitude, bound, n);
}

/* S1^2 <= n S2, which all numbers obey (Cauchy and Schwarz): so no variance is negative */
static bool moments_possible(const rk_state *s)
{
    uint64_t room[RK_FINISH_SCRATCH];
    int from, n = rk_numerator(s, room, &from);
    return !(room[n - 1] >> 63);
}

/* ---- sums of floats and of their squares ---- */

static rp_err check_special(const rk_state *s, bool zero, rp_fault *f)
{
    if (s->special == RK_NINF && rk_is_unsigned_sum(s->layout))
        return bad(f, "special", "a negative infinity among magnitudes");
    bool nz = s->nz || !rk_has_nz(s->layout, s->dtype);
    if (s->special && (!zero || !nz || s->count == 0))
        return bad(f, "special", "an infinity or NaN goes with zero limbs, nz and a count");
    return RP_OK;
}

static rp_err check_nz(const rk_state *s, bool zero, rp_fault *f)
{
    if (!rk_has_nz(s->layout, s->dtype))
        return RP_OK;
    if (s->nz && s->count == 0)
        return bad(f, "nz", "nz without elements");
    return !s->nz && !zero ? bad(f, "nz", "a value without nz") : RP_OK;
}

/* bound[0..n) = count * largest^times. In units of the limbs, the largest element is (2^p - 1) 2^unit and its square
 * (2^2p - 2^(p+1) + 1) 2^(2 unit). */
static void largest_float_sum(const rk_state *s, uint64_t *bound, int n, int times)
{
    rk_format f = rk_format_of(s->dtype);
    int p = f.precision, unit = times * (2 - f.emin - p - rk_e0(s->dtype));
    memset(bound, 0, (size_t)n * sizeof *bound);
    rk_add_shifted(bound, n, s->count, unit + times * p, 0);
    rk_add_shifted(bound, n, s->count, times == 2 ? unit + p + 1 : unit, 1);
    if (times == 2)
        rk_add_shifted(bound, n, s->count, unit, 0);
}

/* A sum of `times`-th powers of elements, which are multiples of the smallest subnormal. */
static rp_err check_float_limbs(const rk_state *s, const uint64_t *limb, int n, int times, rp_fault *f)
{
    rk_format format = rk_format_of(s->dtype);
    int e0 = rk_e0(s->dtype), least = format.emin - (format.precision - 1);
    uint64_t bound[RP_MAX_LIMBS];
    if (n == 0 || all_zero(limb, n))
        return RP_OK;
    if (limb[n - 1] >> 63 && (times == 2 || rk_is_abs(s->layout)))
        return bad(f, "limbs", "a negative sum of what is not negative");
    largest_float_sum(s, bound, n, times);
    if (!magnitude_within(limb, bound, n))
        return bad(f, "limbs", "more than the elements can sum to");
    return low_bits_zero(limb, times * (least - e0)) ? RP_OK : bad(f, "limbs", "finer than the elements are");
}

static rp_err check_float_sums(const rk_state *s, rp_fault *f)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    bool zero = all_zero(s->limb, sum + squares);
    rp_err err = check_special(s, zero, f);
    if (!err)
        err = check_nz(s, zero, f);
    if (!err)
        err = check_float_limbs(s, s->limb, sum, 1, f);
    return err ? err : check_float_limbs(s, s->limb + sum, squares, 2, f);
}

/* ---- sums of integers and of their squares ---- */

static uint64_t largest_magnitude(int dtype) { return rk_is_signed(dtype) ? rk_all_ones(dtype) / 2 + 1 : rk_all_ones(dtype); }

/* Of signed elements; of others, and of magnitudes, the sum is not negative. */
static bool signed_sum_possible(const rk_state *s)
{
    i128 value = (i128)((u128)s->limb[1] << 64 | s->limb[0]), unit = (i128)largest_magnitude(s->dtype);
    return value >= -unit * (i128)s->count && value <= (unit - 1) * (i128)s->count;
}

/* limb[0..n) <= count * largest^times; n = 1 + times */
static bool powers_possible(const rk_state *s, const uint64_t *limb, int n, int times)
{
    u128 largest = largest_magnitude(s->dtype), power = times == 2 ? largest * largest : largest;
    uint64_t one[2] = {(uint64_t)power, (uint64_t)(power >> 64)}, bound[3];
    rk_multiply(bound, one, (rk_range){0, n - 1}, 0, n, s->count);
    return ordered(limb, bound, n);
}

static rp_err check_int_sums(const rk_state *s, rp_fault *f)
{
    int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    bool is_signed = rk_is_signed(s->dtype) && !rk_is_abs(s->layout), fine = true;
    if (sum)
        fine = is_signed ? signed_sum_possible(s) : powers_possible(s, s->limb, sum, 1);
    if (squares)
        fine = fine && powers_possible(s, s->limb + sum, squares, 2);
    return fine ? RP_OK : bad(f, "limbs", "more than the elements can sum to");
}

static rp_err check_sums(const rk_state *s, rp_fault *f)
{
    rp_err err = rk_is_float(s->dtype) ? check_float_sums(s, f) : check_int_sums(s, f);
    if (!err && rk_sum_limbs(s->layout) && rk_square_limbs(s->layout) && !moments_possible(s))
        return bad(f, "limbs", "a sum larger than its squares allow");
    return err;
}

/* ---- chosen elements ---- */

static rp_err check_element(const rk_state *s, uint64_t bits, rp_fault *f)
{
    if (bits & ~rk_all_ones(s->dtype))
        return bad(f, "limbs", "wider than the element type");
    if (rk_is_nan(s->dtype, bits) && bits != rk_nan_bits(rk_format_of(s->dtype)))
        return bad(f, "limbs", "a NaN other than the canonical one");
    return RP_OK;
}

/* An element and its index. Without a count: 0 and no index. */
static rp_err check_placed(const rk_state *s, const uint64_t *limb, rp_fault *f)
{
    if (s->count == 0)
        return limb[0] || limb[1] != RP_NO_INDEX ? bad(f, "limbs", "an element without a count") : RP_OK;
    return limb[1] >= 2 * RP_MAX_COUNT ? bad(f, "limbs", "an index of 2^61 or more") : check_element(s, limb[0], f);
}

static rp_err check_single(const rk_state *s, rp_fault *f)
{
    if (s->limb[1])
        return bad(f, "limbs", "the second word is not zero");
    if (s->count == 0)
        return s->limb[0] ? bad(f, "limbs", "an element without a count") : RP_OK;
    uint64_t most = rk_is_float(s->dtype) ? rk_all_ones(s->dtype) / 2 : largest_magnitude(s->dtype);
    if (s->layout == RP_STATE_NORMINF && s->limb[0] > most)
        return bad(f, "limbs", "no magnitude of the element type");
    return check_element(s, s->limb[0], f);
}

/* The smallest element is not above the largest; a NaN is both. */
static rp_err check_pair(const rk_state *s, uint64_t least, uint64_t most, rp_fault *f)
{
    bool nan = rk_is_nan(s->dtype, least);
    if (nan != rk_is_nan(s->dtype, most))
        return bad(f, "limbs", "a NaN at one end only");
    if (!nan && rk_rank(s->dtype, 0, least) > rk_rank(s->dtype, 0, most))
        return bad(f, "limbs", "the smallest element is above the largest");
    return s->count == 1 && least != most ? bad(f, "limbs", "two ends of one element") : RP_OK;
}

static rp_err check_minmax(const rk_state *s, rp_fault *f)
{
    if (s->count == 0)
        return s->limb[0] || s->limb[1] ? bad(f, "limbs", "an element without a count") : RP_OK;
    rp_err err = check_element(s, s->limb[0], f);
    if (!err)
        err = check_element(s, s->limb[1], f);
    return err ? err : check_pair(s, s->limb[0], s->limb[1], f);
}

/* ---- counts and bits ---- */

static rp_err check_count(const rk_state *s, rp_fault *f)
{
    bool nans = s->layout == RP_STATE_NANS;
    if (s->limb[1] || s->limb[0] > s->count || (nans && s->limb[0] && !rk_is_float(s->dtype)))
        return bad(f, "limbs", "more counted than there were elements");
    return nans && s->skipped && !s->limb[0] ? bad(f, "skipped", "no NaN was counted") : RP_OK;
}

static rp_err check_bits(const rk_state *s, rp_fault *f)
{
    uint64_t none = s->layout == RP_STATE_AND ? rk_all_ones(s->dtype) : 0;
    if (s->limb[1] || s->limb[0] & ~rk_all_ones(s->dtype))
        return bad(f, "limbs", "wider than the element type");
    return s->count == 0 && s->limb[0] != none ? bad(f, "limbs", "bits without elements") : RP_OK;
}

/* ---- products ---- */

/* The sum of the logarithms of `count` elements, each from that of the smallest subnormal, a whole number, to that of the
 * largest element. (Of two elements the larger one has the larger logarithm: they differ by more than the error.) */
static bool logarithms_possible(const rk_state *s, uint64_t count)
{
    rk_format f = rk_format_of(s->dtype);
    i128 unit = (i128)count << (RK_LOG2_FRACTION - 64), whole = (i128)((u128)s->limb[2] << 64 | s->limb[1]);
    if (whole < 0)
        return whole >= unit * (f.emin - (f.precision - 1));
    uint64_t largest[3] = {0}, bound[3];
    rk_log2_add(largest, f, rk_inf_bits(f) - 1);
    rk_multiply(bound, largest, (rk_range){0, 2}, 0, 3, count);
    return ordered(s->limb, bound, 3);
}

static rp_err check_product(const rk_state *s, rp_fault *f)
{
    bool zero = all_zero(s->limb, 3);
    if (s->special && (!zero || s->count == 0))
        return bad(f, "special", "an infinity, NaN or zero goes with zero limbs and a count");
    if (s->limb[3] > (s->special == RK_NAN ? 0 : s->count))
        return bad(f, "limbs", "more negative elements than there were");
    return zero || logarithms_possible(s, s->count) ? RP_OK : bad(f, "limbs", "more than the elements can sum to");
}

/* A magnitude, 0 standing for 2^64 and more, is at most largest^count. */
static bool product_magnitude_possible(const rk_state *s, uint64_t count)
{
    uint64_t magnitude = s->limb[RK_PROD_MAGNITUDE], most = 1;
    for (; count && most; count--)
        most = rk_times(most, largest_magnitude(s->dtype));
    return most == 0 || (magnitude != 0 && magnitude <= most);
}

static rp_err check_int_product(const rk_state *s, rp_fault *f)
{
    uint64_t wrapped = s->limb[RK_PROD_WRAPPED], magnitude = s->limb[RK_PROD_MAGNITUDE];
    uint64_t negatives = s->limb[RK_PROD_NEGATIVES], nonzero = s->count - (s->special != 0);
    if (s->special && s->count == 0)
        return bad(f, "special", "a zero without elements");
    if (negatives > (rk_is_signed(s->dtype) ? nonzero : 0))
        return bad(f, "limbs", "more negative elements than there were");
    if (!product_magnitude_possible(s, nonzero))
        return bad(f, "limbs", "more than the elements can multiply to");
    if (s->special ? wrapped != 0 : magnitude && wrapped != (negatives & 1 ? 0 - magnitude : magnitude))
        return bad(f, "limbs", "the product modulo 2^64 is not the product");
    return RP_OK;
}

/* ---- stats ---- */

/* NaNs are either skipped or elements, and then they are both ends and the sum. */
static rp_err check_stats_nans(const rk_state *s, const uint64_t *other, rp_fault *f)
{
    uint64_t nans = other[RK_STATS_NANS];
    bool ends = s->count && rk_is_nan(s->dtype, other[RK_STATS_MIN]);
    if (nans > (rk_is_float(s->dtype) ? RP_MAX_COUNT : 0))
        return bad(f, "limbs", "more NaNs than there can be");
    if (s->skipped && !nans)
        return bad(f, "skipped", "no NaN was counted");
    if (ends && (s->special != RK_NAN || !nans))
        return bad(f, "limbs", "a NaN that was not counted");
    if (!s->skipped && nans && (!ends || nans > s->count))
        return bad(f, "limbs", "NaNs that were neither skipped nor elements");
    return RP_OK;
}

static rp_err check_stats(const rk_state *s, rp_fault *f)
{
    const uint64_t *other = s->limb + rk_sum_limbs(s->layout) + rk_square_limbs(s->layout);
    rp_err err = check_sums(s, f);
    if (!err)
        err = check_placed(s, other + RK_STATS_MIN, f);
    if (!err)
        err = check_placed(s, other + RK_STATS_MAX, f);
    if (!err && s->count)
        err = check_pair(s, other[RK_STATS_MIN], other[RK_STATS_MAX], f);
    if (!err && other[RK_STATS_ZEROS] > s->count)
        err = bad(f, "limbs", "more zeros than elements");
    return err ? err : check_stats_nans(s, other, f);
}

/* ---- any state ---- */

/* The bits that `special` may have. */
static int special_bits(int layout, int dtype)
{
    if (layout == RP_STATE_PRODINT)
        return RK_ZERO;
    if (layout == RP_STATE_PROD)
        return RK_INF | RK_ZERO;
    return rk_is_float(dtype) && rk_sum_limbs(layout) + rk_square_limbs(layout) ? RK_PINF | RK_NINF : 0;
}

static rp_err check_head(const rk_state *s, int layout, int dtype, rp_fault *f)
{
    if (s->layout != layout)
        return rp_fail(f, RP_BAD_MESSAGE, "layout", 0, "partial state: layout %u instead of %d", s->layout, layout);
    if (s->dtype != dtype)
        return rp_fail(f, RP_BAD_MESSAGE, "dtype", 0, "partial state: of %s (code %u) instead of %s", rp_dtype_name(s->dtype),
                       s->dtype, rp_dtype_name(dtype));
    if (s->special & ~special_bits(layout, dtype))
        return bad(f, "special", "unknown bits");
    if (s->nz > (rk_has_nz(layout, dtype) ? 1 : 0))
        return bad(f, "nz", "neither 0 nor 1, or set where no float sum is");
    if (s->skipped > (rk_is_float(dtype) ? 1 : 0))
        return bad(f, "skipped", "neither 0 nor 1, or set for integers");
    if (s->zero[0] | s->zero[1] | s->zero[2])
        return bad(f, "zero", "reserved bytes are not zero");
    if (s->count > RP_MAX_COUNT)
        return rp_fail(f, RP_BAD_MESSAGE, "count", RP_MAX_COUNT, "partial state: more than 2^60 elements");
    return RP_OK;
}

static rp_err check_body(const rk_state *s, rp_fault *f)
{
    switch (s->layout) {
    case RP_STATE_ARGMIN:
    case RP_STATE_ARGMAX:
        return check_placed(s, s->limb, f);
    case RP_STATE_MIN:
    case RP_STATE_MAX:
    case RP_STATE_NORMINF:
        return check_single(s, f);
    case RP_STATE_MINMAX:
        return check_minmax(s, f);
    case RP_STATE_COUNT:
    case RP_STATE_NANS:
        return check_count(s, f);
    case RP_STATE_AND:
    case RP_STATE_OR:
    case RP_STATE_XOR:
        return check_bits(s, f);
    case RP_STATE_PROD:
        return check_product(s, f);
    case RP_STATE_PRODINT:
        return check_int_product(s, f);
    case RP_STATE_STATS32:
    case RP_STATE_STATS64:
    case RP_STATE_STATSINT:
        return check_stats(s, f);
    default:
        return check_sums(s, f);
    }
}

rp_err rk_state_check(int op, int dtype, const void *state, size_t bytes, rp_fault *f)
{
    int layout = rp_state_layout(op, dtype);
    if (bytes != rp_state_size(layout))
        return rp_fail(f, RP_BAD_MESSAGE, "state", rp_state_size(layout), "partial state of %zu bytes instead of %zu", bytes,
                       rp_state_size(layout));
    rk_state s;
    memcpy(&s, state, bytes);
    rp_err err = check_head(&s, layout, dtype, f);
    return err ? err : check_body(&s, f);
}
