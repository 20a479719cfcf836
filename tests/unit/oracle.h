/* What every reduction means, computed the slow and obvious way: elements as long doubles (exact for all types on x86),
 * sums as plain big integers put together bit by bit, divided, rooted and rounded bit by bit. Shares no arithmetic with
 * kernels/, only the layout of rk_state; products of floats alone are log2.h's (test_product.c tests those).
 *
 * Facts are gathered once from some elements; states and values of every op follow from them. */
#ifndef T_ORACLE_H
#define T_ORACLE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/engine/engine.h"
#include "kernels/exact/state.h"

/* ---- random numbers: xorshift64*, seeded per test so that failures repeat ---- */
typedef struct t_rng {
    uint64_t s;
} t_rng;

static inline uint64_t t_next(t_rng *r)
{
    r->s ^= r->s >> 12;
    r->s ^= r->s << 25;
    r->s ^= r->s >> 27;
    return r->s * 2685821657736338717u;
}
static inline uint64_t t_below(t_rng *r, uint64_t n) { return t_next(r) % n; }

/* ---- elements ---- */
typedef struct t_value {
    bool nan;
    long double v; /* infinities included */
} t_value;

static inline t_value t_small_float(uint16_t b, int precision, int emin)
{
    int fraction_bits = precision - 1, fields = (1 << (15 - fraction_bits)) - 1;
    int field = b >> fraction_bits & fields, fraction = b & ((1 << fraction_bits) - 1);
    long double sign = b >> 15 ? -1.0L : 1.0L;
    if (field == fields)
        return (t_value){fraction != 0, sign * INFINITY};
    long double m = field ? (1 << fraction_bits) + fraction : fraction;
    return (t_value){false, sign * ldexpl(m, emin - fraction_bits + (field ? field - 1 : 0))};
}

#define T_LOAD(T, p)               \
    ({                             \
        T v_;                      \
        memcpy(&v_, p, sizeof v_); \
        v_;                        \
    })

static inline bool t_is_float(int dtype) { return dtype >= RP_F16 && dtype <= RP_F64; }

static inline t_value t_decode(int dtype, const void *p)
{
    switch (dtype) {
    case RP_I8:
        return (t_value){false, T_LOAD(int8_t, p)};
    case RP_U8:
        return (t_value){false, T_LOAD(uint8_t, p)};
    case RP_BOOL:
        return (t_value){false, T_LOAD(uint8_t, p) != 0};
    case RP_I16:
        return (t_value){false, T_LOAD(int16_t, p)};
    case RP_U16:
        return (t_value){false, T_LOAD(uint16_t, p)};
    case RP_I32:
        return (t_value){false, T_LOAD(int32_t, p)};
    case RP_U32:
        return (t_value){false, T_LOAD(uint32_t, p)};
    case RP_I64:
        return (t_value){false, (long double)T_LOAD(int64_t, p)};
    case RP_U64:
        return (t_value){false, (long double)T_LOAD(uint64_t, p)};
    case RP_F16:
        return t_small_float(T_LOAD(uint16_t, p), 11, -14);
    case RP_BF16:
        return t_small_float(T_LOAD(uint16_t, p), 8, -126);
    case RP_F32: {
        float f = T_LOAD(float, p);
        return (t_value){isnan(f), f};
    }
    default: {
        double d = T_LOAD(double, p);
        return (t_value){isnan(d), d};
    }
    }
}

static inline uint64_t t_bits(int dtype, const void *p)
{
    uint64_t b = 0;
    memcpy(&b, p, rp_dtype_size(dtype));
    return b;
}

/* -0 < +0 */
static inline bool t_less(long double a, long double b) { return a < b || (a == b && signbit(a) && !signbit(b)); }

/* ---- big integers: two's complement, unit 2^e0 ---- */
enum { T_WORDS = 76 }; /* n times a sum of squares of f64, shifted by T_EXTRA */
typedef struct t_big {
    uint64_t w[T_WORDS];
} t_big;

static inline void t_big_negate(t_big *b)
{
    int carry = 1;
    for (int i = 0; i < T_WORDS; i++) {
        b->w[i] = ~b->w[i] + (uint64_t)carry;
        carry = carry && b->w[i] == 0;
    }
}

static inline bool t_big_negative(const t_big *b) { return b->w[T_WORDS - 1] >> 63; }

static inline void t_big_add(t_big *b, const t_big *o)
{
    unsigned __int128 t = 0;
    for (int i = 0; i < T_WORDS; i++) {
        t += (unsigned __int128)b->w[i] + o->w[i];
        b->w[i] = (uint64_t)t;
        t >>= 64;
    }
}

/* b += bits * 2^at, or -=; what is shifted out below must be zero. Only the words that change are touched. */
static inline void t_big_add_at(t_big *b, bool negative, unsigned __int128 bits, int at)
{
    if (at < 0 && bits) {
        if (bits & (((unsigned __int128)1 << -at) - 1))
            abort();
        bits >>= -at;
        at = 0;
    }
    int shift = at & 63;
    uint64_t low = (uint64_t)bits, high = (uint64_t)(bits >> 64);
    uint64_t part[3] = {low << shift, high << shift | low >> 1 >> (63 - shift), high >> 1 >> (63 - shift)};
    __int128 carry = 0;
    for (int k = 0; bits && at / 64 + k < T_WORDS && (k < 3 || carry); k++) {
        __int128 x = k < 3 ? part[k] : 0;
        carry += (negative ? -x : x) + b->w[at / 64 + k];
        b->w[at / 64 + k] = (uint64_t)carry;
        carry >>= 64;
    }
}

static inline t_big t_big_at(unsigned __int128 bits, int at)
{
    t_big r = {{0}};
    t_big_add_at(&r, false, bits, at);
    return r;
}

/* A finite number's magnitude as m * 2^e */
static inline uint64_t t_parts_of(long double v, int *e)
{
    uint64_t m = (uint64_t)ldexpl(frexpl(fabsl(v), e), 64);
    *e -= 64;
    return m;
}

/* b += v, a finite number, which must be a multiple of 2^e0 */
static inline void t_big_add_number(t_big *b, long double v, int e0)
{
    int e;
    uint64_t m = t_parts_of(v, &e);
    t_big_add_at(b, signbit(v), m, e - e0);
}

static inline t_big t_big_of(long double v, int e0)
{
    t_big r = {{0}};
    t_big_add_number(&r, v, e0);
    return r;
}

static inline t_big t_big_times(const t_big *a, const t_big *b)
{
    t_big r = {{0}};
    for (int i = 0; i < T_WORDS; i++) {
        uint64_t carry = 0;
        for (int j = 0; a->w[i] && i + j < T_WORDS; j++) {
            unsigned __int128 t = (unsigned __int128)a->w[i] * b->w[j] + r.w[i + j] + carry;
            r.w[i + j] = (uint64_t)t;
            carry = (uint64_t)(t >> 64);
        }
    }
    return r;
}

static inline int t_big_bit(const t_big *b, int i) { return i < 0 ? 0 : (int)(b->w[i / 64] >> i % 64 & 1); }
static inline int t_big_top(const t_big *b) /* -1: zero */
{
    int word = T_WORDS - 1;
    while (word >= 0 && !b->w[word])
        word--;
    return word < 0 ? -1 : 64 * word + 63 - __builtin_clzll(b->w[word]);
}

/* b * 2^T_EXTRA / by, b not negative, bit by bit; true if something is left over */
enum { T_EXTRA = 320 };
static inline bool t_big_divide(t_big *b, unsigned __int128 by)
{
    t_big q = {{0}};
    unsigned __int128 rest = 0;
    for (int i = t_big_top(b); i >= -T_EXTRA; i--) {
        rest = rest << 1 | (unsigned)t_big_bit(b, i);
        if (rest >= by) {
            rest -= by;
            q.w[(i + T_EXTRA) / 64] |= (uint64_t)1 << (i + T_EXTRA) % 64;
        }
    }
    *b = q;
    return rest != 0;
}

/* ---- rounding ---- */

static inline int t_precision(int dtype) { return dtype == RP_F64 ? 53 : dtype == RP_F32 ? 24 : dtype == RP_F16 ? 11 : 8; }
/* Of an element's value */
static inline int t_width(int dtype) { return dtype == RP_BOOL ? 1 : 8 * (int)rp_dtype_size(dtype); }
static inline uint64_t t_canonical_nan(int dtype)
{
    return dtype == RP_F64 ? 0x7ff8000000000000 : dtype == RP_F32 ? 0x7fc00000 : dtype == RP_F16 ? 0x7e00 : 0x7fc0;
}
static inline uint64_t t_sign(int dtype, bool negative) { return (uint64_t)negative << (t_width(dtype) - 1); }
static inline uint64_t t_infinity(int dtype, bool negative)
{
    return (t_canonical_nan(dtype) & ~((uint64_t)1 << (t_precision(dtype) - 2))) | t_sign(dtype, negative);
}

/* Nearest even in the format, bit by bit; `more`: plus less than one unit. */
static inline uint64_t t_big_round_more(t_big b, int e0, bool more, bool zero_negative, int out)
{
    int precision = t_precision(out), emax = (1 << (t_width(out) - precision - 1)) - 1;
    bool negative = t_big_negative(&b);
    uint64_t sign = t_sign(out, negative);
    if (negative)
        t_big_negate(&b);
    int top = t_big_top(&b);
    if (top < 0)
        return t_sign(out, zero_negative);
    int e = top + e0, last = (e < 1 - emax ? 1 - emax : e) - (precision - 1) - e0; /* position of the last place */
    uint64_t m = 0;
    for (int i = top; i >= last; i--)
        m = m << 1 | (uint64_t)t_big_bit(&b, i);
    int half = last - 1 <= top && t_big_bit(&b, last - 1), below = more;
    for (int i = 0; i < last - 1 && i <= top; i++)
        below |= t_big_bit(&b, i);
    m += (uint64_t)(half && (below || (m & 1)));
    if (m >> precision) {
        m >>= 1;
        e++;
    }
    if (e > emax)
        return t_infinity(out, negative);
    if (!(m >> (precision - 1)))
        return sign | m; /* subnormal */
    int field = (e < 1 - emax ? 1 - emax : e) + emax;
    return sign | (uint64_t)field << (precision - 1) | (m & (((uint64_t)1 << (precision - 1)) - 1));
}

static inline uint64_t t_big_round(t_big b, int e0, bool zero_negative, int out)
{
    return t_big_round_more(b, e0, false, zero_negative, out);
}

/* b * 2^e0 / by, rounded once */
static inline uint64_t t_round_ratio(t_big b, int e0, unsigned __int128 by, bool zero_negative, int out)
{
    bool negative = t_big_negative(&b);
    if (negative)
        t_big_negate(&b);
    bool more = t_big_divide(&b, by);
    if (negative)
        t_big_negate(&b);
    return t_big_round_more(b, e0 - T_EXTRA, more, zero_negative, out);
}

/* The root of b * 2^e0 / by, rounded once: 126 bits of the quotient, their root to 63 bits. */
static inline uint64_t t_round_root(t_big b, int e0, unsigned __int128 by, int out)
{
    bool more = t_big_divide(&b, by);
    int top = t_big_top(&b), low = top - 125;
    if (top < 0)
        return 0;
    low -= (e0 - T_EXTRA + low) & 1;
    unsigned __int128 v = 0;
    for (int i = top; i >= low; i--)
        v = v << 1 | (unsigned)t_big_bit(&b, i);
    for (int i = 0; i < low; i++)
        more |= t_big_bit(&b, i);
    uint64_t root = 0;
    for (int i = 63; i >= 0; i--) {
        uint64_t t = root | (uint64_t)1 << i;
        if ((unsigned __int128)t * t <= v)
            root = t;
    }
    more |= (unsigned __int128)root * root != v;
    return t_big_round_more(t_big_at(root, 1), (e0 - T_EXTRA + low) / 2 - 1, more, false, out);
}

/* ---- everything that any reduction wants to know of some elements ---- */
typedef struct t_facts {
    int dtype, nan;       /* the policy */
    int e0;               /* unit of the sums; of squares 2 e0 */
    uint64_t count, nans; /* elements the policy lets in, NaNs seen */
    uint64_t zeros, negatives;
    bool plus_inf, minus_inf, has_nan, not_minus_zero;
    t_big sum, magnitudes, squares;
    uint64_t min, max, min_index, max_index, largest_magnitude; /* bits */
    uint64_t all, any, odd;                                     /* and, or, xor */
    uint64_t wrapped, product;                                  /* of integers; product: of the nonzero ones */
    bool product_over;                                          /* it is 2^64 or more */
    uint64_t log2[3];                                           /* log2.h's own sum: tested in test_product.c */
} t_facts;

static inline t_facts t_nothing(int dtype, int nan)
{
    t_facts f;
    memset(&f, 0, sizeof f);
    f.dtype = dtype;
    f.nan = nan;
    f.e0 = dtype == RP_F64 ? -1075 : t_is_float(dtype) ? -150 : 0;
    f.min_index = f.max_index = UINT64_MAX;
    f.all = UINT64_MAX >> (64 - t_width(dtype));
    f.wrapped = f.product = 1;
    return f;
}

static inline void t_add_extremes(t_facts *f, t_value v, uint64_t bits, uint64_t index)
{
    t_value min = t_decode(f->dtype, &f->min), max = t_decode(f->dtype, &f->max);
    t_value most = t_decode(f->dtype, &f->largest_magnitude);
    bool first = f->count == 1;
    if (first || (v.nan && !min.nan) || (!min.nan && t_less(v.v, min.v)))
        f->min = bits, f->min_index = index;
    if (first || (v.nan && !max.nan) || (!max.nan && t_less(max.v, v.v)))
        f->max = bits, f->max_index = index;
    if (!t_is_float(f->dtype)) {
        uint64_t m = (uint64_t)(__int128)fabsl(v.v);
        f->largest_magnitude = m > f->largest_magnitude ? m : f->largest_magnitude;
    } else if (v.nan || (!most.nan && fabsl(v.v) > most.v)) {
        f->largest_magnitude = v.nan ? bits : bits & ~t_sign(f->dtype, true);
    }
}

static inline void t_add_sums(t_facts *f, t_value v)
{
    if (v.nan || isinf(v.v))
        return;
    int e;
    uint64_t m = t_parts_of(v.v, &e);
    t_big_add_at(&f->sum, signbit(v.v), m, e - f->e0);
    t_big_add_at(&f->magnitudes, false, m, e - f->e0);
    t_big_add_at(&f->squares, false, (unsigned __int128)m * m, 2 * (e - f->e0));
}

static inline void t_add_product(t_facts *f, t_value v, uint64_t bits)
{
    if (t_is_float(f->dtype)) {
        if (!v.nan && !isinf(v.v) && v.v != 0)
            rk_log2_add(f->log2, rk_format_of(f->dtype), bits & ~t_sign(f->dtype, true));
        return;
    }
    uint64_t m = (uint64_t)(__int128)fabsl(v.v);
    f->wrapped *= v.v < 0 ? 0 - m : m;
    if (m == 0)
        return;
    f->product_over |= __builtin_mul_overflow(f->product, m, &f->product);
}

/* One more element; index UINT64_MAX: it has none (`initial`). */
static inline void t_add(t_facts *f, const void *p, uint64_t index)
{
    t_value v = t_decode(f->dtype, p);
    uint64_t bits = v.nan ? t_canonical_nan(f->dtype) : f->dtype == RP_BOOL ? v.v != 0 : t_bits(f->dtype, p);
    f->nans += v.nan;
    if (v.nan && f->nan != RP_NAN_PROPAGATE)
        return;
    f->count++;
    f->has_nan |= v.nan;
    f->plus_inf |= !v.nan && isinf(v.v) && v.v > 0;
    f->minus_inf |= !v.nan && isinf(v.v) && v.v < 0;
    f->not_minus_zero |= v.nan || v.v != 0 || !signbit(v.v);
    f->zeros += !v.nan && v.v == 0;
    f->negatives += !v.nan && signbit(v.v);
    f->all &= bits;
    f->any |= bits;
    f->odd ^= bits;
    t_add_extremes(f, v, bits, index);
    t_add_sums(f, v);
    t_add_product(f, v, bits);
}

/* The elements of one result: n of them, `stride` elements apart, those with a mask byte 0 left out. */
typedef struct t_line {
    const uint8_t *x, *mask; /* mask: NULL or as many bytes as elements, as far apart */
    uint64_t n, stride, index;
} t_line;

static inline void t_add_line(t_facts *f, t_line l)
{
    for (uint64_t i = 0; i < l.n; i++)
        if (!l.mask || l.mask[i * l.stride])
            t_add(f, l.x + i * l.stride * rp_dtype_size(f->dtype), l.index + i);
}

static inline t_facts t_facts_of(int dtype, int nan, t_line l)
{
    t_facts f = t_nothing(dtype, nan);
    t_add_line(&f, l);
    return f;
}

/* ---- facts as a state ---- */

static inline uint8_t t_special(const t_facts *f, bool magnitudes)
{
    bool plus = f->plus_inf || (magnitudes && f->minus_inf), minus = f->minus_inf && !magnitudes;
    return f->has_nan || (plus && minus) ? 3 : plus ? 1 : minus ? 2 : 0;
}

static inline rk_state t_state_of(const t_facts *f, int op)
{
    rk_state s;
    memset(&s, 0, sizeof s);
    s.layout = (uint8_t)rp_state_layout(op, f->dtype);
    s.dtype = (uint8_t)f->dtype;
    s.count = f->count;
    s.skipped = f->nans && f->nan != RP_NAN_PROPAGATE;
    bool is_float = t_is_float(f->dtype), wide = f->dtype == RP_F64;
    size_t sum = wide ? 34 : is_float ? 6 : 2, squares = wide ? 67 : is_float ? 10 : 3;
    uint64_t *limb = s.limb;
    switch (op) {
    case RP_OP_SUM:
    case RP_OP_MEAN:
    case RP_OP_VAR:
    case RP_OP_STD:
    case RP_OP_SEM:
    case RP_OP_STATS:
        s.special = t_special(f, false);
        s.nz = is_float && f->not_minus_zero;
        if (!s.special)
            memcpy(limb, f->sum.w, 8 * sum);
        limb += sum;
        if (op == RP_OP_SUM || op == RP_OP_MEAN)
            break;
        if (!s.special)
            memcpy(limb, f->squares.w, 8 * squares);
        limb += squares;
        if (op == RP_OP_STATS)
            memcpy(limb, (uint64_t[]){f->min, f->min_index, f->max, f->max_index, f->zeros, f->nans}, 48);
        break;
    case RP_OP_SUMSQ:
    case RP_OP_NORM2:
    case RP_OP_RMS:
    case RP_OP_NORM1:
        s.special = t_special(f, true);
        if (!s.special)
            memcpy(limb, op == RP_OP_NORM1 ? f->magnitudes.w : f->squares.w, 8 * (op == RP_OP_NORM1 ? sum : squares));
        break;
    case RP_OP_MIN:
        limb[0] = f->min;
        break;
    case RP_OP_MAX:
        limb[0] = f->max;
        break;
    case RP_OP_ARGMIN:
        limb[0] = f->min, limb[1] = f->min_index;
        break;
    case RP_OP_ARGMAX:
        limb[0] = f->max, limb[1] = f->max_index;
        break;
    case RP_OP_MINMAX:
    case RP_OP_RANGE:
        limb[0] = f->min, limb[1] = f->max;
        break;
    case RP_OP_NORMINF:
        limb[0] = f->largest_magnitude;
        break;
    case RP_OP_COUNT_NAN: /* NaNs are what it counts, so none is skipped */
        limb[0] = f->nans;
        s.count += s.skipped ? f->nans : 0;
        s.skipped = f->nans && f->nan == RP_NAN_ERROR;
        break;
    case RP_OP_AND:
        limb[0] = f->all;
        break;
    case RP_OP_OR:
        limb[0] = f->any;
        break;
    case RP_OP_XOR:
        limb[0] = f->odd;
        break;
    case RP_OP_PROD:
        if (!is_float) {
            s.special = f->zeros ? RK_ZERO : 0;
            limb[0] = f->wrapped, limb[1] = f->product_over ? 0 : f->product, limb[2] = f->negatives;
            break;
        }
        s.special = (uint8_t)((f->plus_inf || f->minus_inf ? RK_INF : 0) | (f->zeros ? RK_ZERO : 0) |
                              (f->has_nan ? RK_NAN : 0));
        if (!s.special)
            memcpy(limb, f->log2, 24);
        limb[3] = s.special == RK_NAN ? 0 : f->negatives;
        break;
    default: /* counts */
        limb[0] = f->count - f->zeros;
        break;
    }
    return s;
}

/* The state of n elements. */
static inline rk_state t_state(int op, int dtype, const void *x, uint64_t n, uint64_t index, int nan)
{
    t_facts f = t_facts_of(dtype, nan, (t_line){x, NULL, n, 1, index});
    return t_state_of(&f, op);
}

/* ---- facts as a value ---- */

static inline uint64_t t_special_bits(int special, int out)
{
    return special == 3 ? t_canonical_nan(out) : t_infinity(out, special == 2);
}

/* A float element in another format. */
static inline uint64_t t_converted(int dtype, uint64_t bits, int out)
{
    t_value v = t_decode(dtype, &bits);
    if (v.nan || isinf(v.v))
        return v.nan ? t_canonical_nan(out) : t_infinity(out, v.v < 0);
    return t_big_round(t_big_of(v.v, -1075), -1075, signbit(v.v), out);
}

static inline uint64_t t_mean(const t_facts *f, int out)
{
    int special = t_special(f, false);
    if (!f->count || special)
        return f->count ? t_special_bits(special, out) : t_canonical_nan(out);
    return t_round_ratio(f->sum, f->e0, f->count, t_is_float(f->dtype) && !f->not_minus_zero, out);
}

/* var, its root, or the root of var / n */
static inline uint64_t t_variance(const t_facts *f, int op, uint32_t ddof, int out)
{
    if (f->count <= ddof || t_special(f, false))
        return t_canonical_nan(out);
    t_big n = {{f->count}}, a = f->sum, b;
    if (t_big_negative(&a))
        t_big_negate(&a);
    b = t_big_times(&a, &a);
    a = t_big_times(&f->squares, &n);
    t_big_negate(&b);
    t_big_add(&a, &b);
    unsigned __int128 by = (unsigned __int128)f->count * (f->count - ddof);
    if (op == RP_OP_SEM)
        by *= f->count;
    return op == RP_OP_VAR ? t_round_ratio(a, 2 * f->e0, by, false, out) : t_round_root(a, 2 * f->e0, by, out);
}

static inline uint64_t t_range(const t_facts *f, int out)
{
    t_value min = t_decode(f->dtype, &f->min), max = t_decode(f->dtype, &f->max);
    if (min.nan || max.nan || (isinf(min.v) && min.v == max.v))
        return t_canonical_nan(out);
    if (isinf(min.v) || isinf(max.v))
        return t_infinity(out, false);
    t_big a = t_big_of(max.v, -1075), b = t_big_of(min.v, -1075);
    t_big_negate(&b);
    t_big_add(&a, &b);
    return t_big_round(a, -1075, false, out);
}

static inline uint64_t t_float_value(const t_facts *f, const rp_spec *s)
{
    int magnitudes = t_special(f, true), out = s->out;
    switch (s->op) {
    case RP_OP_SUM:
        if (t_special(f, false))
            return t_special_bits(t_special(f, false), out);
        return t_big_round(f->sum, f->e0, f->count && !f->not_minus_zero, out);
    case RP_OP_MEAN:
        return t_mean(f, out);
    case RP_OP_NORM1:
        return magnitudes ? t_special_bits(magnitudes, out) : t_big_round(f->magnitudes, f->e0, false, out);
    case RP_OP_SUMSQ:
        return magnitudes ? t_special_bits(magnitudes, out) : t_big_round(f->squares, 2 * f->e0, false, out);
    case RP_OP_NORM2:
        return magnitudes ? t_special_bits(magnitudes, out) : t_round_root(f->squares, 2 * f->e0, 1, out);
    case RP_OP_RMS:
        if (!f->count)
            return t_canonical_nan(out);
        return magnitudes ? t_special_bits(magnitudes, out) : t_round_root(f->squares, 2 * f->e0, f->count, out);
    case RP_OP_VAR:
    case RP_OP_STD:
    case RP_OP_SEM:
        return t_variance(f, s->op, s->ddof, out);
    case RP_OP_RANGE:
        return t_range(f, out);
    case RP_OP_MIN:
        return t_converted(f->dtype, f->min, out);
    case RP_OP_MAX:
        return t_converted(f->dtype, f->max, out);
    case RP_OP_NORMINF:
        return t_converted(f->dtype, f->largest_magnitude, out);
    default: { /* prod */
        bool inf = f->plus_inf || f->minus_inf, negative = f->negatives % 2;
        if (f->has_nan || (inf && f->zeros))
            return t_canonical_nan(out);
        if (inf || f->zeros)
            return inf ? t_infinity(out, negative) : t_sign(out, negative);
        return rk_exp2_round(f->log2, negative, rk_format_of(out));
    }
    }
}

/* An integer of the exact value as i64 or u64, or as a type of fewer bits that holds it but for its sign. */
static inline int t_fit(const t_big *v, int out, uint64_t *word)
{
    *word = v->w[0];
    uint64_t above = out == RP_I8 || out == RP_I16 || out == RP_I32 || out == RP_I64 ? (uint64_t)((int64_t)v->w[0] >> 63) : 0;
    for (int i = 1; i < T_WORDS; i++)
        if (v->w[i] != above)
            return RP_OVERFLOW;
    return RP_OK;
}

static inline t_big t_integer_of(int dtype, uint64_t bits) { return t_big_of(t_decode(dtype, &bits).v, 0); }

/* The exact integer that an op of integers gives; false: a product of 2^64 or more. `which`: 1 for the max of minmax. */
static inline bool t_integer_value(const t_facts *f, int op, int which, t_big *v)
{
    switch (op) {
    case RP_OP_SUM:
        *v = f->sum;
        break;
    case RP_OP_NORM1:
        *v = f->magnitudes;
        break;
    case RP_OP_SUMSQ:
        *v = f->squares;
        break;
    case RP_OP_NORMINF:
        *v = t_big_at(f->largest_magnitude, 0);
        break;
    case RP_OP_RANGE: {
        t_big min = t_integer_of(f->dtype, f->min);
        t_big_negate(&min);
        *v = t_integer_of(f->dtype, f->max);
        t_big_add(v, &min);
        break;
    }
    case RP_OP_PROD:
        *v = t_big_at(f->zeros ? 0 : f->product, 0);
        if (f->negatives % 2)
            t_big_negate(v);
        return f->zeros || !f->product_over;
    case RP_OP_AND:
        *v = t_integer_of(f->dtype, f->all);
        break;
    case RP_OP_OR:
        *v = t_integer_of(f->dtype, f->any);
        break;
    case RP_OP_XOR:
        *v = t_integer_of(f->dtype, f->odd);
        break;
    default: /* min, max, minmax */
        *v = t_integer_of(f->dtype, op == RP_OP_MAX || which ? f->max : f->min);
        break;
    }
    return true;
}

static inline void t_stats(const t_facts *f, const rp_spec *s, uint64_t *w)
{
    bool is_float = t_is_float(f->dtype);
    uint64_t values[RP_STATS_WORDS] = {[RP_STATS_COUNT] = f->count,
                                       [RP_STATS_NANS] = f->nans,
                                       [RP_STATS_ZEROS] = f->zeros,
                                       [RP_STATS_ARGMIN] = f->min_index,
                                       [RP_STATS_ARGMAX] = f->max_index,
                                       [RP_STATS_MIN] = t_integer_of(f->dtype, is_float ? 0 : f->min).w[0],
                                       [RP_STATS_MAX] = t_integer_of(f->dtype, is_float ? 0 : f->max).w[0],
                                       [RP_STATS_SUM] = f->sum.w[0],
                                       [RP_STATS_SUM_HIGH] = f->sum.w[1],
                                       [RP_STATS_MEAN] = t_mean(f, RP_F64),
                                       [RP_STATS_VAR] = t_variance(f, RP_OP_VAR, s->ddof, RP_F64),
                                       [RP_STATS_STD] = t_variance(f, RP_OP_STD, s->ddof, RP_F64)};
    memcpy(w, values, sizeof values);
    if (!is_float)
        return;
    rp_spec sum = {.op = RP_OP_SUM, .out = RP_F64};
    w[RP_STATS_MIN] = f->count ? t_converted(f->dtype, f->min, RP_F64) : t_canonical_nan(RP_F64);
    w[RP_STATS_MAX] = f->count ? t_converted(f->dtype, f->max, RP_F64) : t_canonical_nan(RP_F64);
    w[RP_STATS_SUM] = t_float_value(f, &sum);
    w[RP_STATS_SUM_HIGH] = 0;
}

/* The words of the finished value, as rk_state_finish gives them. */
static inline int t_finish(const t_facts *f, const rp_spec *s, uint64_t *words)
{
    bool choice = s->op == RP_OP_MIN || s->op == RP_OP_MAX || s->op == RP_OP_MINMAX || s->op == RP_OP_RANGE ||
                  s->op == RP_OP_ARGMIN || s->op == RP_OP_ARGMAX;
    words[0] = 0;
    if (s->nan == RP_NAN_ERROR && f->nans)
        return RP_NAN;
    if (choice && f->count == 0)
        return RP_EMPTY;
    switch (s->op) {
    case RP_OP_STATS:
        t_stats(f, s, words);
        return RP_OK;
    case RP_OP_ARGMIN:
        words[0] = f->min_index;
        return RP_OK;
    case RP_OP_ARGMAX:
        words[0] = f->max_index;
        return RP_OK;
    case RP_OP_COUNT:
        words[0] = f->count;
        return RP_OK;
    case RP_OP_COUNT_NAN:
        words[0] = f->nans;
        return RP_OK;
    case RP_OP_COUNT_NONZERO:
        words[0] = f->count - f->zeros;
        return RP_OK;
    case RP_OP_ANY:
        words[0] = f->count != f->zeros;
        return RP_OK;
    case RP_OP_ALL:
        words[0] = f->zeros == 0;
        return RP_OK;
    case RP_OP_MEAN:
        words[0] = t_mean(f, s->out);
        return RP_OK;
    default:
        break;
    }
    if (t_is_float(s->out)) {
        words[0] = t_float_value(f, s);
        if (s->op == RP_OP_MINMAX) {
            words[0] = t_converted(f->dtype, f->min, s->out);
            words[1] = t_converted(f->dtype, f->max, s->out);
        }
        return RP_OK;
    }
    t_big v;
    if (s->flags & RP_WRAP) {
        words[0] = f->wrapped;
        return RP_OK;
    }
    if (!t_integer_value(f, s->op, 0, &v))
        return RP_OVERFLOW;
    int code = t_fit(&v, s->out, words);
    if (s->op != RP_OP_MINMAX)
        return code;
    t_integer_value(f, s->op, 1, &v);
    return t_fit(&v, s->out, words + 1) == RP_OK ? code : RP_OVERFLOW;
}

/* What an OVERFLOW error tells: the exact value (of minmax the one that does not fit), at most 2^127 - 1. */
static inline void t_overflow_value(const t_facts *f, const rp_spec *s, uint64_t value[2])
{
    t_big v;
    uint64_t word;
    bool known = t_integer_value(f, s->op, 0, &v);
    if (s->op == RP_OP_MINMAX && t_fit(&v, s->out, &word) == RP_OK)
        known = t_integer_value(f, s->op, 1, &v);
    known = known && v.w[2] == (uint64_t)((int64_t)v.w[1] >> 63);
    value[0] = known ? v.w[0] : UINT64_MAX;
    value[1] = known ? v.w[1] : INT64_MAX;
}

/* ---- data: families that are hard for one path or another ---- */
enum {
    T_NARROW,
    T_FULL,
    T_SUBNORMAL,
    T_CANCEL,
    T_SPECIAL,
    T_NEGATIVE_ZERO,
    T_ZEROS,
    T_TIES,
    T_HUGE,
    T_BITS,
    T_EDGES,
    T_FAMILIES
};

static inline void t_store(int dtype, void *p, double v)
{
    float f = (float)v;
    uint32_t fb = T_LOAD(uint32_t, &f);
    uint64_t half = rk_convert_float(RP_F64, T_LOAD(uint64_t, &v), RP_F16);
    if (dtype == RP_F64)
        memcpy(p, &v, 8);
    else if (dtype == RP_F32)
        memcpy(p, &f, 4);
    else if (dtype == RP_BF16)
        memcpy(p, (const uint8_t *)&fb + 2, 2); /* truncated: any value will do */
    else
        memcpy(p, &half, 2);
}

static inline void t_fill_float(t_rng *r, int dtype, int family, uint8_t *x, uint64_t n)
{
    size_t size = rp_dtype_size(dtype);
    int precision = dtype == RP_F64 ? 53 : dtype == RP_F32 ? 24 : dtype == RP_F16 ? 11 : 8;
    int emax = dtype == RP_F64 ? 1023 : dtype == RP_F16 ? 15 : 127;
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *p = x + i * size;
        double u = (double)(int64_t)t_next(r) * 0x1p-63, v = u;
        switch (family) {
        case T_FULL:
            v = ldexp(u, (int)t_below(r, 2 * (uint64_t)emax) - emax);
            break;
        case T_SUBNORMAL:
            v = ldexp(u, 3 - emax);
            break;
        case T_CANCEL: /* every value has its negative next to it, with a little left over */
            v = ldexp(u, (int)t_below(r, (uint64_t)emax));
            if (i % 2) {
                memcpy(p, p - size, size);
                p[size - 1] ^= 0x80;
                p[0] ^= t_below(r, 8) == 0;
                continue;
            }
            break;
        case T_SPECIAL:
            if (t_below(r, 40) == 0)
                v = (double[]){INFINITY, -INFINITY, NAN, -NAN, -0.0}[t_below(r, 5)];
            break;
        case T_NEGATIVE_ZERO:
            v = -0.0;
            break;
        case T_ZEROS:
            v = t_below(r, 20) ? -0.0 : 0.0;
            break;
        case T_TIES:
            v = ldexp(t_below(r, 2) ? 1 : -1, t_below(r, 3) ? 0 : precision % emax);
            break;
        case T_HUGE:
            v = ldexp(u, emax + 1);
            break;
        case T_EDGES: /* ordinary, and now and then where the square of an f64 leaves the range of exact doubles */
            if (t_below(r, 30) == 0)
                v = ldexp(u, (int)(((const int[]){-1022, -537, -480, 495, 512, 1023})[t_below(r, 6)] + (int)t_below(r, 5) - 2) *
                                 emax / 1023);
            break;
        case T_BITS: {
            uint64_t b = t_next(r);
            memcpy(p, &b, size);
            continue;
        }
        default:
            break;
        }
        t_store(dtype, p, v);
    }
}

static inline void t_fill(t_rng *r, int dtype, int family, void *data, uint64_t n)
{
    uint8_t *x = data;
    size_t size = rp_dtype_size(dtype);
    if (rk_is_float(dtype)) {
        t_fill_float(r, dtype, family, x, n);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t b = t_next(r), least = (uint64_t)1 << (8 * size - 1), most = least - 1;
        if (family == T_ZEROS || family == T_NEGATIVE_ZERO)
            b = 0;
        else if (family == T_HUGE)
            b = most;
        else if (family == T_SUBNORMAL)
            b = least;
        else if (family == T_NARROW)
            b = b % 7 - 3;
        else if (family == T_TIES)
            b = b % 2 ? least : most;
        else if (family == T_CANCEL) /* a product that fits for a while */
            b = b % 50 ? b & 64 ? (uint64_t)-1 : 1 : 2 + b / 50 % 2;
        else if (dtype == RP_BOOL && t_below(r, 2)) /* half of them are false */
            b = 0;
        memcpy(x + i * size, &b, size);
    }
}

#endif
