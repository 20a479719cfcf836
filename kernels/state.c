/* States and results seen from outside: which partial states are possible at all, and how a row's error reads. */
#include "kernels/state.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/engine.h"

typedef unsigned __int128 u128;
typedef __int128 i128;

static rp_err bad(rp_fault *f, const char *field, const char *why)
{
    return rp_fail(f, RP_BAD_MESSAGE, field, 0, "partial state: %s", why);
}

/* ---- float sums ---- */

/* The lowest `bits` bits of limb[0..n) are zero. */
static bool low_bits_zero(const uint64_t *limb, int bits)
{
    int i = 0;
    for (; bits >= 64; bits -= 64)
        if (limb[i++])
            return false;
    return bits == 0 || (limb[i] & (((uint64_t)1 << bits) - 1)) == 0;
}

/* |value| < count * 2^bits, for a two's complement number of n limbs; count < 2^63. */
static bool magnitude_below(const uint64_t *limb, int n, uint64_t count, int bits)
{
    uint64_t magnitude[RK_MAX_LIMBS], bound[RK_MAX_LIMBS] = {0};
    int negative = (int)(limb[n - 1] >> 63), low = 0;
    while (low < n - 1 && limb[low] == 0)
        low++;
    for (int i = 0; i < n; i++)
        magnitude[i] = rk_magnitude_limb(limb, i, negative, low);
    bound[bits / 64] = count << bits % 64;
    if (bits % 64)
        bound[bits / 64 + 1] = count >> (64 - bits % 64);
    int i = n - 1;
    while (i > 0 && magnitude[i] == bound[i])
        i--;
    return magnitude[i] < bound[i];
}

static rp_err check_float_sum(const rk_state *s, rp_fault *f)
{
    int n = rk_limbs(s->layout), e0 = rk_e0(s->layout);
    rk_format format = rk_format_of(s->dtype);
    bool zero = true;
    for (int i = 0; i < n; i++)
        zero = zero && s->limb[i] == 0;
    if (s->special && (!zero || !s->nz || s->count == 0))
        return bad(f, "special", "an infinity or NaN goes with zero limbs, nz and a count");
    if (s->nz && s->count == 0)
        return bad(f, "nz", "nz without elements");
    if (zero)
        return RP_OK;
    if (!s->nz)
        return bad(f, "nz", "a value without nz");
    /* elements are below 2^(2 - emin) and multiples of the smallest subnormal */
    if (!magnitude_below(s->limb, n, s->count, 2 - format.emin - e0))
        return bad(f, "limbs", "more than the elements can sum to");
    if (!low_bits_zero(s->limb, format.emin - (format.precision - 1) - e0))
        return bad(f, "limbs", "finer than the elements are");
    return RP_OK;
}

/* ---- the two-word states ---- */

static rp_err check_int_sum(const rk_state *s, rp_fault *f)
{
    int width = 8 * rk_bytes(s->dtype), is_signed = rk_is_signed(s->dtype);
    i128 value = (i128)((u128)s->limb[1] << 64 | s->limb[0]);
    i128 unit = (i128)1 << (is_signed ? width - 1 : width);
    i128 least = is_signed ? -unit * (i128)s->count : 0, most = (unit - 1) * (i128)s->count;
    return value < least || value > most ? bad(f, "limbs", "more than the elements can sum to") : RP_OK;
}

static rp_err check_choice(const rk_state *s, rp_fault *f)
{
    bool arg = s->layout == RP_STATE_ARGMIN || s->layout == RP_STATE_ARGMAX;
    int width = 8 * rk_bytes(s->dtype);
    if (s->count == 0)
        return s->limb[0] || s->limb[1] != (arg ? RP_NO_INDEX : 0) ? bad(f, "limbs", "an element without a count")
                                                                   : RP_OK;
    if (width < 64 && s->limb[0] >> width)
        return bad(f, "limbs", "wider than the element type");
    if (rk_is_nan(s->dtype, s->limb[0]) && s->limb[0] != rk_nan_bits(rk_format_of(s->dtype)))
        return bad(f, "limbs", "a NaN other than the canonical one");
    if (arg ? s->limb[1] >= 2 * RP_MAX_COUNT : s->limb[1] != 0)
        return bad(f, "limbs", arg ? "an index of 2^61 or more" : "the second word is not zero");
    return RP_OK;
}

static rp_err check_count(const rk_state *s, rp_fault *f)
{
    return s->limb[1] || s->limb[0] > s->count ? bad(f, "limbs", "more counted than there were elements") : RP_OK;
}

/* ---- any state ---- */

static rp_err check_head(const rk_state *s, int layout, int dtype, rp_fault *f)
{
    if (s->layout != layout)
        return rp_fail(f, RP_BAD_MESSAGE, "layout", 0, "partial state: layout %u instead of %d", s->layout, layout);
    if (s->dtype != dtype)
        return rp_fail(f, RP_BAD_MESSAGE, "dtype", 0, "partial state: of %s (code %u) instead of %s",
                       rp_dtype_name(s->dtype), s->dtype, rp_dtype_name(dtype));
    bool sum = layout == RP_STATE_SUM32 || layout == RP_STATE_SUM64;
    if (s->special > (sum ? RK_NAN : 0))
        return bad(f, "special", "unknown bits");
    if (s->nz > (sum ? 1 : 0))
        return bad(f, "nz", "neither 0 nor 1, or set where no float sum is");
    if (s->skipped > (rk_is_float(dtype) ? 1 : 0))
        return bad(f, "skipped", "neither 0 nor 1, or set for integers");
    if (s->zero[0] | s->zero[1] | s->zero[2])
        return bad(f, "zero", "reserved bytes are not zero");
    if (s->count > RP_MAX_COUNT)
        return rp_fail(f, RP_BAD_MESSAGE, "count", RP_MAX_COUNT, "partial state: more than 2^60 elements");
    return RP_OK;
}

rp_err rk_state_check(int op, int dtype, const void *state, size_t bytes, rp_fault *f)
{
    int layout = rp_state_layout(op, dtype);
    if (bytes != rp_state_size(layout))
        return rp_fail(f, RP_BAD_MESSAGE, "state", rp_state_size(layout), "partial state of %zu bytes instead of %zu",
                       bytes, rp_state_size(layout));
    rk_state s;
    memcpy(&s, state, bytes);
    rp_err err = check_head(&s, layout, dtype, f);
    if (err)
        return err;
    switch (layout) {
    case RP_STATE_SUM32:
    case RP_STATE_SUM64:
        return check_float_sum(&s, f);
    case RP_STATE_INT:
        return check_int_sum(&s, f);
    case RP_STATE_COUNT:
        return check_count(&s, f);
    default:
        return check_choice(&s, f);
    }
}

/* ---- tasks ---- */

static rp_err check_row(rk_task *t, uint64_t row, size_t size)
{
    const uint8_t *p = (const uint8_t *)t->data + row * t->spec.row_len * size;
    uint64_t total = 0;
    for (uint64_t i = 0; i < t->spec.row_len; i++, p += size) {
        rp_err err = rk_state_check(t->spec.op, t->spec.dtype, p, size, &t->fault);
        if (err)
            return err;
        uint64_t count;
        memcpy(&count, p + offsetof(rk_state, count), sizeof count);
        total += count; /* both at most 2^60 */
        if (total > RP_MAX_COUNT)
            return rp_fail(&t->fault, RP_TOO_LARGE, "count", RP_MAX_COUNT,
                           "partial states of more than 2^60 elements in one row");
    }
    return RP_OK;
}

rp_err rk_check_states(rk_task *t)
{
    size_t size = rp_state_size(rp_state_layout(t->spec.op, t->spec.dtype));
    for (uint64_t row = 0; row < t->spec.rows && t->spec.row_len; row++) {
        rp_err err = check_row(t, row, size);
        if (err) {
            t->fault.index = row;
            return err;
        }
    }
    return RP_OK;
}

/* The exact integer that did not fit the reply type, as 128-bit two's complement. */
static void exact_value(const rk_state *s, uint64_t value[2])
{
    value[0] = s->limb[0];
    value[1] = s->limb[1];
    if (s->layout == RP_STATE_INT)
        return;
    if (rk_is_signed(s->dtype))
        value[0] = rk_sign_extend(s->limb[0], rk_bytes(s->dtype));
    value[1] = rk_is_signed(s->dtype) ? (uint64_t)((int64_t)value[0] >> 63) : 0;
}

void rk_row_fault(rk_task *t, uint64_t row, int code, const void *s)
{
    rp_fault *f = &t->fault;
    switch (code) {
    case RP_EMPTY:
        rp_fail(f, RP_EMPTY, "row_len", 0, "row %" PRIu64 ": %s of no elements", row, rp_op_name(t->spec.op));
        break;
    case RP_NAN:
        rp_fail(f, RP_NAN, "data", 0, "row %" PRIu64 " holds a NaN", row);
        break;
    case RP_OVERFLOW:
        rp_fail(f, RP_OVERFLOW, "out", 0, "row %" PRIu64 ": the exact %s does not fit %s", row, rp_op_name(t->spec.op),
                rp_dtype_name(t->spec.out));
        exact_value(s, f->value);
        break;
    default:
        rp_fail(f, RP_INTERNAL, "code", 0, "row %" PRIu64 ": unexpected code %d", row, code);
    }
    f->index = row;
}
