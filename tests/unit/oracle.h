/* What every reduction means, computed the slow and obvious way: elements as long doubles (exact for all types on x86),
 * sums as plain big integers added bit position by bit position, rounding bit by bit. Shares no arithmetic with
 * kernels/; only the layout of rk_state. */
#ifndef T_ORACLE_H
#define T_ORACLE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/engine.h"
#include "kernels/state.h"

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

#define T_LOAD(T, p)            \
    ({                          \
        T v_;                   \
        memcpy(&v_, p, sizeof v_); \
        v_;                     \
    })

static inline t_value t_decode(int dtype, const void *p)
{
    switch (dtype) {
    case RP_I8:
        return (t_value){false, T_LOAD(int8_t, p)};
    case RP_U8:
        return (t_value){false, T_LOAD(uint8_t, p)};
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
enum { T_WORDS = 40 };
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

static inline void t_big_add(t_big *b, const t_big *o)
{
    unsigned __int128 t = 0;
    for (int i = 0; i < T_WORDS; i++) {
        t += (unsigned __int128)b->w[i] + o->w[i];
        b->w[i] = (uint64_t)t;
        t >>= 64;
    }
}

/* A finite number; it must be a multiple of 2^e0. */
static inline t_big t_big_of(long double v, int e0)
{
    t_big r = {{0}};
    int e;
    long double m = frexpl(fabsl(v), &e);
    uint64_t bits = (uint64_t)ldexpl(m, 64);
    for (int i = 0; i < 64; i++)
        if (bits >> i & 1) {
            int at = i + e - 64 - e0;
            if (at < 0)
                abort();
            r.w[at / 64] |= (uint64_t)1 << at % 64;
        }
    if (signbit(v))
        t_big_negate(&r);
    return r;
}

static inline int t_big_bit(const t_big *b, int i) { return i < 0 ? 0 : (int)(b->w[i / 64] >> i % 64 & 1); }

/* Nearest even in the format, bit by bit. */
static inline uint64_t t_big_round(t_big b, int e0, bool zero_negative, int out)
{
    int precision = out == RP_F64 ? 53 : out == RP_F32 ? 24 : out == RP_F16 ? 11 : 8;
    int width = out == RP_F64 ? 64 : out == RP_F32 ? 32 : 16, emax = (1 << (width - precision - 1)) - 1;
    uint64_t sign = 0, inf = (uint64_t)(2 * emax + 1) << (precision - 1);
    if (b.w[T_WORDS - 1] >> 63) {
        sign = (uint64_t)1 << (width - 1);
        t_big_negate(&b);
    }
    int top = 64 * T_WORDS - 1;
    while (top >= 0 && !t_big_bit(&b, top))
        top--;
    if (top < 0)
        return zero_negative ? (uint64_t)1 << (width - 1) : 0;
    int e = top + e0, last = (e < 1 - emax ? 1 - emax : e) - (precision - 1) - e0; /* position of the last place */
    uint64_t m = 0;
    for (int i = top; i >= last; i--)
        m = m << 1 | (uint64_t)t_big_bit(&b, i);
    int half = last - 1 <= top && t_big_bit(&b, last - 1), below = 0;
    for (int i = 0; i < last - 1 && i <= top; i++)
        below |= t_big_bit(&b, i);
    m += (uint64_t)(half && (below || (m & 1)));
    if (m >> precision) {
        m >>= 1;
        e++;
    }
    if (e > emax)
        return sign | inf;
    if (!(m >> (precision - 1)))
        return sign | m; /* subnormal */
    int field = (e < 1 - emax ? 1 - emax : e) + emax;
    return sign | (uint64_t)field << (precision - 1) | (m & (((uint64_t)1 << (precision - 1)) - 1));
}

static inline uint64_t t_canonical_nan(int dtype)
{
    return dtype == RP_F64 ? 0x7ff8000000000000 : dtype == RP_F32 ? 0x7fc00000 : dtype == RP_F16 ? 0x7e00 : 0x7fc0;
}

/* ---- reductions ---- */

static inline rk_state t_sum(rk_state s, int dtype, const uint8_t *x, uint64_t n, bool propagate)
{
    int words = s.layout == RP_STATE_SUM64 ? 34 : s.layout == RP_STATE_SUM32 ? 6 : 2;
    int e0 = s.layout == RP_STATE_SUM64 ? -1075 : s.layout == RP_STATE_SUM32 ? -150 : 0;
    t_big total = {{0}};
    for (uint64_t i = 0; i < n; i++) {
        t_value v = t_decode(dtype, x + i * rp_dtype_size(dtype));
        if (v.nan && !propagate) {
            s.skipped = 1;
            continue;
        }
        s.count++;
        if (words > 2 && !(v.v == 0 && signbit(v.v)))
            s.nz = 1;
        if (v.nan || isinf(v.v)) {
            s.special |= v.nan ? 3 : v.v > 0 ? 1 : 2;
            continue;
        }
        t_big b = t_big_of(v.v, e0);
        t_big_add(&total, &b);
    }
    if (!s.special)
        memcpy(s.limb, total.w, 8 * (size_t)words);
    return s;
}

static inline rk_state t_choose(rk_state s, int op, int dtype, const uint8_t *x, uint64_t n, uint64_t index,
                                bool propagate)
{
    bool least = op == RP_OP_MIN || op == RP_OP_ARGMIN, arg = op == RP_OP_ARGMIN || op == RP_OP_ARGMAX, nan = false;
    long double best = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *p = x + i * rp_dtype_size(dtype);
        t_value v = t_decode(dtype, p);
        if (v.nan && !propagate) {
            s.skipped = 1;
            continue;
        }
        bool better = s.count == 0 || (v.nan && !nan) ||
                      (!v.nan && !nan && (least ? t_less(v.v, best) : t_less(best, v.v)));
        s.count++;
        if (!better)
            continue;
        nan = v.nan;
        best = v.v;
        s.limb[0] = nan ? t_canonical_nan(dtype) : t_bits(dtype, p);
        s.limb[1] = arg ? index + i : 0;
    }
    return s;
}

static inline rk_state t_count(rk_state s, int dtype, const uint8_t *x, uint64_t n, bool propagate)
{
    for (uint64_t i = 0; i < n; i++) {
        t_value v = t_decode(dtype, x + i * rp_dtype_size(dtype));
        if (v.nan && !propagate) {
            s.skipped = 1;
            continue;
        }
        s.count++;
        s.limb[0] += v.nan || v.v != 0;
    }
    return s;
}

/* The state of n elements, all of it set (unused limbs are zero). */
static inline rk_state t_state(int op, int dtype, const void *x, uint64_t n, uint64_t index, int nan)
{
    bool propagate = nan == RP_NAN_PROPAGATE;
    rk_state s;
    memset(&s, 0, sizeof s);
    s.layout = (uint8_t)rp_state_layout(op, dtype);
    s.dtype = (uint8_t)dtype;
    if (op == RP_OP_ARGMIN || op == RP_OP_ARGMAX)
        s.limb[1] = UINT64_MAX;
    if (op == RP_OP_SUM)
        return t_sum(s, dtype, x, n, propagate);
    if (op == RP_OP_COUNT_NONZERO)
        return t_count(s, dtype, x, n, propagate);
    return t_choose(s, op, dtype, x, n, index, propagate);
}

static inline int t_fit(__int128 v, int out, uint64_t *bits)
{
    *bits = (uint64_t)v;
    return v == (out == RP_I64 ? (__int128)(int64_t)v : (__int128)(uint64_t)v) ? RP_OK : RP_OVERFLOW;
}

/* The finished value of a state. */
static inline int t_finish(const rk_state *s, int op, int nan, int out, uint64_t *bits)
{
    *bits = 0;
    if (nan == RP_NAN_ERROR && s->skipped)
        return RP_NAN;
    bool to_float = out >= RP_F16;
    int width = out == RP_F64 ? 64 : out == RP_F32 ? 32 : 16;
    int top_fraction_bit = out == RP_F64 ? 51 : out == RP_F32 ? 22 : out == RP_F16 ? 9 : 6;
    uint64_t inf = t_canonical_nan(out) & ~((uint64_t)1 << top_fraction_bit);
    if (op == RP_OP_SUM && to_float) {
        t_big b = {{0}};
        int words = s->layout == RP_STATE_SUM64 ? 34 : 6;
        for (int i = 0; i < T_WORDS; i++)
            b.w[i] = i < words ? s->limb[i] : (uint64_t)((int64_t)s->limb[words - 1] >> 63);
        *bits = t_big_round(b, words == 34 ? -1075 : -150, s->count && !s->nz, out);
        if (s->special)
            *bits = s->special == 3 ? t_canonical_nan(out) : inf | (uint64_t)(s->special == 2) << (width - 1);
        return RP_OK;
    }
    if (op == RP_OP_SUM)
        return t_fit((__int128)((unsigned __int128)s->limb[1] << 64 | s->limb[0]), out, bits);
    if (op == RP_OP_COUNT_NONZERO) {
        *bits = s->limb[0];
        return RP_OK;
    }
    if (s->count == 0)
        return RP_EMPTY;
    if (op == RP_OP_ARGMIN || op == RP_OP_ARGMAX) {
        *bits = s->limb[1];
        return RP_OK;
    }
    t_value v = t_decode(s->dtype, &s->limb[0]);
    if (!to_float)
        return t_fit((__int128)v.v, out, bits);
    if (v.nan)
        *bits = t_canonical_nan(out);
    else if (isinf(v.v))
        *bits = inf | (uint64_t)(v.v < 0) << (width - 1);
    else
        *bits = t_big_round(t_big_of(v.v, -1075), -1075, signbit(v.v), out);
    return RP_OK;
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
        memcpy(x + i * size, &b, size);
    }
}

#endif
