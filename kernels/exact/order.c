#include "kernels/exact/order.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/exact/families/choice.h"
#include "kernels/exact/layout.h"
#include "proto/tagged.h"

typedef __int128 wide;

/* ---- methods: types.def ---- */

typedef enum { BETWEEN, HALF, STEP, DOWN, UP, EVEN, ODD } how;
typedef struct method {
    int times, more, plus;
    how how;
} method;
static const method methods[] = {
#define X(NAME, name, code, times, more, plus, how) [code] = {times, more, plus, how},
    RP_METHODS(X)
#undef X
};

/* ---- where between the elements ---- */

/* x[at] + g (x[at + 1] - x[at]) with g = part / (times x 10^tens), 0 <= g < 1. */
typedef struct place {
    uint64_t at;
    unsigned __int128 part;
    int times, tens;
} place;

/* A quantile: digits / 10^tens. */
typedef struct share {
    int64_t digits;
    int tens;
} share;

enum { NARROW_TENS = 37 }; /* 8 x 10^37 < 2^127; 10^38 is above 2^63 x 2^63, digits times elements */

static share share_of(const rp_spec *s, unsigned i)
{
    const rp_parameter p = {.form = RP_FORM_DECIMAL, .n = s->quantiles, .values = s->q};
    rp_value v = s->op == RP_OP_MEDIAN ? (rp_value){.i64 = 5, .exponent = -1} : rp_parameter_value(&p, i);
    for (; v.i64 && v.i64 % 10 == 0; v.exponent++)
        v.i64 /= 10;
    return (share){v.i64, v.i64 ? (int)-v.exponent : 0};
}

static wide power_of_ten(int e)
{
    wide p = 1;
    while (e-- > 0)
        p *= 10;
    return p;
}

/* The virtual index of a method, within 0 .. n - 1. */
static place index_of(const method *m, share q, uint64_t n)
{
    const wide top = (wide)q.digits * ((wide)m->times * (wide)n + m->more); /* below 2^126 */
    place p = {0, 0, m->times, q.tens};
    if (q.tens > NARROW_TENS) { /* below 1, and below 0 with any `plus` */
        p.part = m->plus || top < 0 ? 0 : (unsigned __int128)top;
        return p;
    }
    const wide tens = power_of_ten(q.tens), h = top + m->plus * tens, whole = m->times * tens;
    if (h <= 0)
        return p;
    p.at = (uint64_t)(h / whole);
    p.part = (unsigned __int128)(h % whole);
    if (p.at >= n - 1) {
        p.at = n - 1;
        p.part = 0;
    }
    return p;
}

/* The next element itself. */
static place next_of(place p) { return (place){p.at + 1, 0, 1, 0}; }
static place middle_of(place p) { return (place){p.at, 1, 2, 0}; }
static place start_of(place p) { return (place){p.at, 0, 1, 0}; }

/* -1, 0, 1: g is below, at, above 1/2. */
static int beside_half(place p)
{
    if (p.tens > NARROW_TENS)
        return -1;
    const unsigned __int128 whole = (unsigned __int128)(p.times * power_of_ten(p.tens)), rest = whole - p.part;
    return (p.part > rest) - (p.part < rest);
}

static place nearest_of(place p)
{
    const int side = beside_half(p);
    return side > 0 || (side == 0 && p.at & 1) ? next_of(p) : start_of(p);
}

static place by_method(const method *m, place p, bool inside, uint64_t n)
{
    switch (m->how) {
    case BETWEEN:
        return p;
    case DOWN:
        return start_of(p);
    case UP:
        return p.part ? next_of(p) : p;
    case EVEN:
        return nearest_of(p);
    case ODD:
        return !inside || (!p.part && p.at & 1) || p.at + 1 >= n ? start_of(p) : next_of(p);
    case HALF:
        return p.part ? middle_of(p) : p;
    case STEP:
        return !inside || p.at + 1 >= n ? start_of(p) : p.part ? next_of(p) : middle_of(p);
    }
    return p;
}

/* Is the index of the method above 0, or exactly 0, so that g and j are those of the formula? */
static bool is_inside(const method *m, share q, uint64_t n)
{
    if (q.tens > NARROW_TENS)
        return !m->plus;
    return (wide)q.digits * ((wide)m->times * (wide)n + m->more) + m->plus * power_of_ten(q.tens) >= 0;
}

static place place_of(const rp_spec *s, unsigned i, uint64_t n)
{
    const method *m = &methods[s->op == RP_OP_MEDIAN ? RP_METHOD_LINEAR : s->method];
    const share q = share_of(s, i);
    return by_method(m, index_of(m, q, n), is_inside(m, q, n), n);
}

/* The rank of kth. False: there is none. */
static bool rank_of(const rp_spec *s, uint64_t n, uint64_t *rank)
{
    const uint64_t k = (uint64_t)s->k;
    *rank = s->k < 0 ? n + k : k;
    return s->k < 0 ? 0 - k <= n : k < n;
}

static unsigned quantiles_of(const rp_spec *s) { return s->op == RP_OP_QUANTILE ? s->quantiles : 1; }

/* ---- ranks ---- */

/* Insert into ascending numbers, each once. */
static unsigned insert(uint64_t *rank, unsigned n, uint64_t r)
{
    unsigned i = n;
    while (i && rank[i - 1] > r)
        i--;
    if (i && rank[i - 1] == r)
        return n;
    memmove(rank + i + 1, rank + i, (n - i) * sizeof *rank);
    rank[i] = r;
    return n + 1;
}

unsigned rk_order_ranks(const rp_spec *s, uint64_t n, uint64_t rank[RK_MAX_RANKS])
{
    unsigned ranks = 0;
    if (!n)
        return 0;
    if (s->op == RP_OP_KTH)
        return rank_of(s, n, rank);
    for (unsigned i = 0; i < quantiles_of(s); i++) {
        const place p = place_of(s, i, n);
        ranks = insert(rank, ranks, p.at);
        ranks = p.part ? insert(rank, ranks, p.at + 1) : ranks;
    }
    return ranks;
}

/* ---- between two elements, exactly ---- */

enum { FACTORS = 22, LIMBS = RK_LIMBS64 + FACTORS + 4, TENS_A_FACTOR = 19 };

/* times x 10^tens as factors below 2^64, and as a number. */
typedef struct divisor {
    int factors, limbs;
    uint64_t factor[FACTORS + 1], limb[FACTORS + 1];
} divisor;

static void divisor_times(divisor *d, uint64_t by)
{
    uint64_t carry = 0;
    for (int i = 0; i < d->limbs; i++) {
        const unsigned __int128 v = (unsigned __int128)d->limb[i] * by + carry;
        d->limb[i] = (uint64_t)v;
        carry = (uint64_t)(v >> 64);
    }
    if (carry)
        d->limb[d->limbs++] = carry;
    d->factor[d->factors++] = by;
}

static divisor divisor_of(place p)
{
    divisor d = {.limbs = 1, .limb = {1}};
    int tens = p.tens < TENS_A_FACTOR - 1 ? p.tens : TENS_A_FACTOR - 1; /* leaves room for `times` */
    divisor_times(&d, (uint64_t)p.times * (uint64_t)power_of_ten(tens));
    for (int left = p.tens - tens; left > 0; left -= tens) {
        tens = left < TENS_A_FACTOR ? left : TENS_A_FACTOR;
        divisor_times(&d, (uint64_t)power_of_ten(tens));
    }
    return d;
}

/* A finite element: mantissa x 2^shift in units of 2^rk_e0. */
typedef struct element {
    uint64_t mantissa;
    int shift, negative;
} element;

static element element_of(int dtype, uint64_t bits)
{
    if (!rk_is_float(dtype))
        return (element){rk_magnitude(dtype, bits), 0,
                         rk_is_signed(dtype) && rk_sign_extend(bits, rk_bytes(dtype)) >> 63};
    const rk_number x = rk_number_of(rk_format_of(dtype), bits);
    return (element){x.mantissa, x.unit - rk_e0(dtype), x.negative};
}

/* sum += or -= x times the n limbs of `by` */
static void add_times(uint64_t *sum, int limbs, element x, const uint64_t *by, int n, bool minus)
{
    for (int i = 0; i < n; i++) {
        const unsigned __int128 v = (unsigned __int128)x.mantissa * by[i];
        rk_add_shifted(sum, limbs, (uint64_t)v, x.shift + 64 * i, x.negative ^ minus);
        rk_add_shifted(sum, limbs, (uint64_t)(v >> 64), x.shift + 64 * (i + 1), x.negative ^ minus);
    }
}

/* The number limb[0..n) x 2^e0 over the divisor, rounded once. It is divided by one factor after the other, from the highest
 * limb down, until there are 128 bits. */
static uint64_t round_quotient(const uint64_t *limb, int n, int e0, const divisor *d, rk_format f)
{
    const rk_range r = rk_range_of(limb, n);
    const int negative = (int)(limb[n - 1] >> 63);
    uint64_t rest[FACTORS + 1] = {0}, q[3] = {0};
    int i = r.end - 1, highest = 0, have = 0, sticky;
    if (!r.end)
        return 0;
    for (; have < 3; i--) {
        uint64_t digit = i >= 0 ? rk_magnitude_limb(limb, i, negative, r.low) : 0;
        for (int k = 0; k < d->factors; k++)
            digit = rk_divide_step(&rest[k], digit, d->factor[k]);
        if (!have && !digit)
            continue;
        highest = have ? highest : i;
        q[have++] = digit;
    }
    sticky = r.low <= i;
    for (int k = 0; k < d->factors; k++)
        sticky |= rest[k] != 0;
    const int shift = rk_clz64(q[0]);
    rk_top t = {(unsigned __int128)q[0] << 64 | q[1], e0 + 64 * highest + 63 - shift, 0};
    if (shift)
        t.window = t.window << shift | q[2] >> (64 - shift);
    t.sticky = sticky || q[2] << shift != 0;
    return rk_round_top(t, negative, f);
}

/* a + g (b - a) of finite elements = (a (whole - part) + b part) / whole */
static uint64_t mix(int dtype, uint64_t a, uint64_t b, place p, rk_format f)
{
    const int limbs = (dtype == RP_F64 ? RK_LIMBS64 : RK_LIMBS32) + FACTORS + 4;
    const uint64_t part[2] = {(uint64_t)p.part, (uint64_t)(p.part >> 64)};
    const divisor d = divisor_of(p);
    const element x = element_of(dtype, a), y = element_of(dtype, b);
    uint64_t sum[LIMBS] = {0};
    add_times(sum, limbs, x, d.limb, d.limbs, false);
    add_times(sum, limbs, x, part, 2, true);
    add_times(sum, limbs, y, part, 2, false);
    return round_quotient(sum, limbs, rk_e0(dtype), &d, f);
}

/* ---- cells ---- */

static rp_err put_element(const rp_spec *s, uint64_t bits, uint64_t *word)
{
    const int dtype = s->dtype;
    if (rk_is_float(dtype) || !rk_is_float(s->out))
        return (rp_err)rk_element_out(dtype, bits, s->out, word);
    const place itself = {0, 0, 1, 0};
    *word = mix(dtype, bits, bits, itself, rk_format_of(s->out));
    return RP_OK;
}

static rp_err put_between(const rp_spec *s, uint64_t a, uint64_t b, place p, uint64_t *word)
{
    const rk_format from = rk_format_of(s->dtype), f = rk_format_of(s->out);
    if (!p.part || a == b)
        return put_element(s, a, word);
    const bool floats = rk_is_float(s->dtype);
    const bool low = floats && a == (rk_sign_bit(from, 1) | rk_inf_bits(from)), high = floats && b == rk_inf_bits(from);
    *word = low && high ? rk_nan_bits(f)
            : low       ? rk_sign_bit(f, 1) | rk_inf_bits(f)
            : high      ? rk_inf_bits(f)
                        : mix(s->dtype, a, b, p, f);
    return RP_OK;
}

static void put_nans(const rp_spec *s, uint8_t *cell)
{
    const uint64_t nan = rk_nan_bits(rk_format_of(s->out));
    for (unsigned i = 0; i < quantiles_of(s); i++)
        memcpy(cell + i * rp_dtype_size(s->out), &nan, rp_dtype_size(s->out));
}

bool rk_order_needs(const rp_spec *s, uint64_t n, uint64_t nans) { return n && (!nans || s->nan == RP_NAN_OMIT); }

static unsigned find(const uint64_t *rank, unsigned ranks, uint64_t r)
{
    unsigned i = 0;
    while (i + 1 < ranks && rank[i] != r)
        i++;
    return i;
}

static rp_err put_quantiles(const rp_spec *s, uint64_t n, const uint64_t *bits, uint8_t *cell)
{
    uint64_t rank[RK_MAX_RANKS], word;
    const unsigned ranks = rk_order_ranks(s, n, rank);
    rp_err err = RP_OK;
    for (unsigned i = 0; i < quantiles_of(s); i++) {
        const place p = place_of(s, i, n);
        const unsigned at = find(rank, ranks, p.at);
        const rp_err one = put_between(s, bits[at], bits[p.part ? at + 1 : at], p, &word);
        memcpy(cell + i * rp_dtype_size(s->out), &word, rp_dtype_size(s->out));
        err = err ? err : one;
    }
    return err;
}

rp_err rk_order_cell(const rp_spec *s, uint64_t n, uint64_t nans, const uint64_t *bits, uint8_t *cell)
{
    uint64_t rank, word;
    memset(cell, 0, rp_cell_size(s));
    if (nans && s->nan == RP_NAN_ERROR)
        return RP_NAN;
    if (!rk_order_needs(s, n, nans)) {
        if (!rk_is_float(s->out))
            return RP_EMPTY;
        put_nans(s, cell);
        return RP_OK;
    }
    if (s->op != RP_OP_KTH)
        return put_quantiles(s, n, bits, cell);
    if (!rank_of(s, n, &rank))
        return RP_SHAPE;
    const rp_err err = put_element(s, bits[0], &word);
    memcpy(cell, &word, rp_dtype_size(s->out));
    return err;
}

/* ---- faults ---- */

static const char *line_name(const rp_spec *s)
{
    return s->flags & RP_OFFSETS ? "segment" : s->flags & RP_COLUMNS ? "column" : "row";
}

/* The first element of the cell that does not fit. */
static void explain_overflow(rp_fault *f, const rp_spec *s, uint64_t n, const uint64_t *bits)
{
    uint64_t rank[RK_MAX_RANKS], word, v[3];
    const unsigned ranks = rk_order_ranks(s, n, rank);
    for (unsigned i = 0; i < quantiles_of(s); i++) {
        const uint64_t x = bits[s->op == RP_OP_KTH ? 0 : find(rank, ranks, place_of(s, i, n).at)];
        if (rk_element_out(s->dtype, x, s->out, &word) == RP_OK)
            continue;
        rk_widen(s->dtype, x, v);
        f->value[0] = v[0];
        f->value[1] = v[1];
        return;
    }
}

void rk_order_fault(rp_fault *f, const rp_spec *s, uint64_t line, rp_err code, uint64_t n, const uint64_t *bits)
{
    const char *where = line_name(s), *op = rp_op_name(s->op);
    switch ((int)code) {
    case RP_NAN:
        rp_fail(f, code, "data", 0, "%s %" PRIu64 " holds a NaN", where, line);
        break;
    case RP_EMPTY:
        rp_fail(f, code, "row_len", 0, "%s %" PRIu64 ": %s of no elements", where, line, op);
        break;
    case RP_SHAPE:
        rp_fail(f, code, "k", n, "%s %" PRIu64 ": no rank %" PRId64 " among %" PRIu64 " elements", where, line, s->k, n);
        break;
    default:
        rp_fail(f, code, "out", 0, "%s %" PRIu64 ": the %s does not fit %s", where, line, op, rp_dtype_name(s->out));
        explain_overflow(f, s, n, bits);
    }
    f->index = line;
}
