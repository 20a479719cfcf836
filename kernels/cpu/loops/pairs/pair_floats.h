/* Exact sums of products of floats, x w, and with them the exact sum of the weights w.
 *
 * A product of f32, bf16 or f16 is a double. One with an f64 is passed on as two doubles, p + q: p is x w rounded, and q its
 * error (squares.h). Where q would underflow or p overflow, the product is taken as an integer. Both go to the block adder of
 * sum_f64.h.
 *
 * Near sums (sum_near.h) take p and q in one pass. An anchor takes the upper part of p, and what is left of it is added
 * plainly, together with q. They also neglect what an underflow of q rounds off. */
#ifndef RK_CPU_PAIR_FLOATS_H
#define RK_CPU_PAIR_FLOATS_H

#include "kernels/cpu/loops/arrays.h"
#include "kernels/cpu/loops/rounding_errors.h"

enum { PAIR_BLOCK = 1024 }; /* pairs that are taken together: both operands, p and q stay in L1 */

#if VB > 16 || defined(__aarch64__)
enum { PAIRS_FUSED = 1 }; /* there is an instruction for the error of a product */
#else
enum { PAIRS_FUSED = 0 };
#endif
#define PAIR_LARGEST 0x1p990   /* of an operand that can be cut in two instead */
#define PRODUCT_LEAST 0x1p-960 /* where p and q are both exact */
#define PRODUCT_MOST 0x1p1000

typedef struct pair_sums {
    acc products, weights;
    pace p, q, w; /* of products as one or two doubles, of weights */
    bool weighted;
    bool zero_drops;
    uint64_t dropped; /* pairs whose weight is 0 */
} pair_sums;

typedef struct pair_loops {
    int dtype, weights; /* rp_dtype of both operands */
    bool wide;          /* one of them is f64 */
    const float_loops *w;
    bool (*products)(double *p, double *q, const void *x, const void *w, size_t n);
    void (*near)(const void *x, const void *w, size_t n, bool far, double start, near_lanes *out);
} pair_loops;

/* ---- products ---- */

/* x[i] w[i] = p[i] + q[i], or p[i] alone unless WIDE; n is a multiple of LANES64. False: some product needs more. And the same
 * in lanes of a near sum, for n a multiple of STEP64. */
#define PAIR_FLOATS(NAME, XTYPE, XBYTES, WTYPE, WBYTES, WIDE)                                                            \
    static __attribute__((noinline)) bool products_of_##NAME##_fused(double *p, double *q, const void *x, const void *w, \
                                                                     size_t n)                                           \
    {                                                                                                                    \
        vi64 odd = {0};                                                                                                  \
        int64_t any = 0;                                                                                                 \
        for (size_t i = 0; i < n; i += LANES64) {                                                                        \
            const char *at = (const char *)x + XBYTES * i, *beside = (const char *)w + WBYTES * i;                       \
            const vf64 a = load_##XTYPE(at), b = load_##WTYPE(beside), v = a * b;                                        \
            if (i * XBYTES % 64 == 0)                                                                                    \
                prefetch(at, AHEAD);                                                                                     \
            if (i * WBYTES % 64 == 0)                                                                                    \
                prefetch(beside, AHEAD);                                                                                 \
            odd |= ~(magnitude_of(v) < PRODUCT_MOST);                                                                    \
            if (WIDE) {                                                                                                  \
                odd |= (magnitude_of(v) < PRODUCT_LEAST) & (a != 0) & (b != 0);                                          \
                if (!PAIRS_FUSED)                                                                                        \
                    odd |= ~(magnitude_of(a) < PAIR_LARGEST) | ~(magnitude_of(b) < PAIR_LARGEST);                        \
                *(vf64_loose *)(void *)(q + i) = product_error(a, b, v);                                                 \
            }                                                                                                            \
            *(vf64_loose *)(void *)(p + i) = v;                                                                          \
        }                                                                                                                \
        for (int j = 0; j < LANES64; j++)                                                                                \
            any |= odd[j];                                                                                               \
        return any == 0;                                                                                                 \
    }                                                                                                                    \
    INLINE void near_pairs(NAME)(const void *x, const void *w, size_t n, bool far, double start, near_lanes *out)        \
    {                                                                                                                    \
        const vf64 from = (vf64){0} + start;                                                                             \
        vf64 sum[NEAR_VECTORS], rest[NEAR_VECTORS];                                                                      \
        vi64 differ = {0};                                                                                               \
        for (int u = 0; u < NEAR_VECTORS; u++) {                                                                         \
            sum[u] = from;                                                                                               \
            rest[u] = (vf64){0};                                                                                         \
        }                                                                                                                \
        for (size_t i = 0; i < n; i += (size_t)NEAR_VECTORS * LANES64)                                                   \
            for (int u = 0; u < NEAR_VECTORS; u++) {                                                                     \
                const size_t k = i + (size_t)u * LANES64;                                                                \
                const char *at = (const char *)x + XBYTES * k, *beside = (const char *)w + WBYTES * k;                   \
                const vf64 a = load_##XTYPE(at), b = load_##WTYPE(beside), v = a * b, with = sum[u] + v;                 \
                if (u * LANES64 * XBYTES % 64 == 0)                                                                      \
                    prefetch_from(at, AHEAD, far);                                                                       \
                if (u * LANES64 * WBYTES % 64 == 0)                                                                      \
                    prefetch_from(beside, AHEAD, far);                                                                   \
                vf64 left = v - (with - sum[u]);                                                                         \
                if (WIDE)                                                                                                \
                    left += product_error(a, b, v);                                                                      \
                rest[u] += left;                                                                                         \
                differ |= (vi64)with ^ (vi64)from;                                                                       \
                sum[u] = with;                                                                                           \
            }                                                                                                            \
        put_lanes(out->sum, sum, NEAR_VECTORS);                                                                          \
        put_lanes(out->rest, rest, NEAR_VECTORS);                                                                        \
        vf64 bits = (vf64)differ;                                                                                        \
        put_lanes(&out->differ, &bits, 1);                                                                               \
    }                                                                                                                    \
    static __attribute__((noinline)) void near_pairs_##NAME##_fused(const void *x, const void *w, size_t n, bool far,    \
                                                                    double start, near_lanes *out)                       \
    {                                                                                                                    \
        near_pairs(NAME)(x, w, n, far, start, out);                                                                      \
    }
#define near_pairs(NAME) near_lanes_of_##NAME
PAIR_FLOATS(f16_f16, f16, 2, f16, 2, false)
PAIR_FLOATS(bf16_bf16, bf16, 2, bf16, 2, false)
PAIR_FLOATS(f32_f32, f32, 4, f32, 4, false)
PAIR_FLOATS(f32_f64, f32, 4, f64, 8, true)
PAIR_FLOATS(f64_f64, f64, 8, f64, 8, true)
#undef near_pairs
#undef PAIR_FLOATS

/* ---- odd pairs ---- */

INLINE uint64_t pair_bits(const void *x, int dtype, size_t i)
{
    const size_t size = rp_dtype_size(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)x + i * size, size);
    return rk_convert_float(dtype, bits, RP_F64); /* exactly; a NaN stays one */
}

static void put_zero(void *x, int dtype, size_t i)
{
    const size_t size = rp_dtype_size(dtype);
    memset((char *)x + i * size, 0, size);
}

/* Can the product be taken as p and q? */
INLINE bool is_plain_pair(double x, double w)
{
    const double p = __builtin_fabs(x * w);
    return p < PRODUCT_MOST && (p >= PRODUCT_LEAST || x == 0 || w == 0) &&
           (PAIRS_FUSED || (__builtin_fabs(x) < PAIR_LARGEST && __builtin_fabs(w) < PAIR_LARGEST));
}

/* A pair with an infinity or a NaN. Does its weight count? */
static bool add_special_pair(pair_sums *s, double x, double w)
{
    const int layout = s->weighted ? RP_STATE_WMEAN64 : RP_STATE_DOT64;
    if (x != x || w != w)
        add_nans(&s->products, 1);
    else
        s->products.special |= (uint8_t)rk_pair_special(layout, rk_format_of(RP_F64), bits_of_f64(x), bits_of_f64(w));
    return x == x && is_finite(w);
}

static void add_odd_pair(pair_sums *s, double x, double w)
{
    if (s->zero_drops && w == 0)
        return;
    const bool special = !is_finite(x) || !is_finite(w);
    const rk_number a = rk_number_of(rk_format_of(RP_F64), bits_of_f64(x)),
                    b = rk_number_of(rk_format_of(RP_F64), bits_of_f64(w));
    const i128 product = (i128)a.mantissa * b.mantissa;
    const bool counts = special ? add_special_pair(s, x, w) : true;
    if (!special)
        acc_add(&s->products, a.negative != b.negative ? -product : product, a.unit + b.unit);
    if (!s->weighted || !counts)
        return;
    add_f64(&s->weights, bits_of_f64(w));
    count_adds(&s->weights, 1);
}

/* Adds pairs for which p and q do not work, and puts zeros in their places. */
static __attribute__((noinline)) void take_odd_pairs(pair_sums *s, const pair_loops *t, void *x, void *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double a = f64_of(pair_bits(x, t->dtype, i)), b = f64_of(pair_bits(w, t->weights, i));
        if (is_plain_pair(a, b))
            continue;
        add_odd_pair(s, a, b);
        put_zero(x, t->dtype, i);
        put_zero(w, t->weights, i);
    }
}

/* ---- a block ---- */

/* n: a multiple of STEP64. False, and nothing is added: the products must be added in another way. */
static bool try_near_pairs(pair_sums *s, const pair_loops *t, const void *x, const void *w, size_t n, int field)
{
    near_lanes lanes;
    int k[FEWEST_LEVELS];
    anchors(field, n, FEWEST_LEVELS, k);
    if (k[0] > HIGHEST_NEAR_ANCHOR)
        return false;
    t->near(x, w, n, s->products.far, anchor(k[0]), &lanes);
    /* an error of a product is half as large as a rest at most, and both are added */
    if (!take_near(&s->products, &lanes, n, k[0], t->wide ? 1 : 0))
        return false;
    s->products.neglected += t->wide ? (double)n * 0x1p-1074 : 0;
    return true;
}

/* `p` has the products, rounded. */
static bool try_new_near_pairs(pair_sums *s, const pair_loops *t, const void *x, const void *w, const double *p, size_t n)
{
    const reach r = reach_f64(p, n);
    if (r.special || !r.nonzero)
        return false;
    s->p.near_field = r.most + 1;
    return try_near_pairs(s, t, x, w, n, s->p.near_field);
}

static bool add_near_pairs(pair_sums *s, const pair_loops *t, const void *x, const void *w, size_t n, double *p, double *q)
{
    if (!s->products.near || !PAIRS_FUSED || try_skipped(&s->p.near))
        return false;
    if ((s->p.near_field && try_near_pairs(s, t, x, w, n, s->p.near_field)) ||
        (t->products(p, q, x, w, n) && try_new_near_pairs(s, t, x, w, p, n))) {
        try_fitted(&s->p.near);
        return true;
    }
    try_failed(&s->p.near);
    return false;
}

/* The operands of a block; both have room for PAIR_BLOCK doubles. */
typedef struct pair_copies {
    _Alignas(VB) double x[PAIR_BLOCK], w[PAIR_BLOCK];
} pair_copies;

/* Returns the weights that are left to be added. */
static const void *add_products(pair_sums *s, const pair_loops *t, const void *x, const void *w, size_t n, pair_copies *copies)
{
    _Alignas(VB) double p[PAIR_BLOCK], q[PAIR_BLOCK];
    if (add_near_pairs(s, t, x, w, n, p, q))
        return w;
    if (!t->products(p, q, x, w, n)) {
        memmove(copies->x, x, n * rp_dtype_size(t->dtype));
        memmove(copies->w, w, n * rp_dtype_size(t->weights));
        w = copies->w;
        take_odd_pairs(s, t, copies->x, copies->w, n);
        t->products(p, q, copies->x, copies->w, n);
    }
    add_block64(&s->products, &s->p, p, n);
    if (t->wide)
        add_block64(&s->products, &s->q, q, n);
    return w;
}

/* Copies n pairs, and zeros behind them. */
static void pad_pairs(const pair_loops *t, const void *x, const void *w, size_t n, size_t whole, pair_copies *copies)
{
    const size_t size = rp_dtype_size(t->dtype), beside = rp_dtype_size(t->weights);
    memcpy(copies->x, x, n * size);
    memcpy(copies->w, w, n * beside);
    memset((char *)copies->x + n * size, 0, (whole - n) * size);
    memset((char *)copies->w + n * beside, 0, (whole - n) * beside);
}

/* n is at most PAIR_BLOCK. */
static void add_pairs(pair_sums *s, const pair_loops *t, const void *x, const void *w, size_t n)
{
    const size_t whole = (n + STEP64 - 1) / STEP64 * STEP64;
    pair_copies copies;
    if (s->zero_drops)
        s->dropped += n - t->w->l.count(w, n).nonzero;
    if (s->products.special == RK_NAN && !s->products.omit)
        return; /* nothing that follows can change the sums any more */
    if (whole > n) {
        pad_pairs(t, x, w, n, whole, &copies);
        x = copies.x;
        w = copies.w;
    }
    w = add_products(s, t, x, w, whole, &copies);
    if (s->weighted)
        add_sum(&s->weights, &s->w, t->w, w, n);
}

/* ---- arrays ---- */

static void take_pairs(rk_state *s, pair_sums *p, uint64_t n)
{
    const int sum = rk_sum_limbs(s->layout);
    s->special = p->products.special;
    s->skipped = p->products.nans != 0;
    const uint64_t left = p->products.nans + p->dropped; /* more than n only if a client writes to the data meanwhile */
    s->count = left < n ? n - left : 0;
    acc_end(&p->products, s->limb + sum);
    if (sum && s->special != RK_NAN)
        acc_end(&p->weights, s->limb);
}

static void reduce_float_pairs(rk_state *s, const void *x, const void *w, uint64_t n, int nan_policy, bool zero_drops,
                               double *neglected, const pair_loops *t)
{
    const size_t size = rp_dtype_size(t->dtype), beside = rp_dtype_size(t->weights);
    const int sum = rk_sum_limbs(s->layout);
    pair_sums p;
    p.p = p.q = p.w = (pace){0};
    p.weighted = sum != 0;
    p.zero_drops = zero_drops;
    p.dropped = 0;
    acc_start(&p.products, rk_square_limbs(s->layout), 2 * rk_e0(s->dtype), false, n, nan_policy);
    p.products.far = n * size > FAR_BYTES;
    p.products.near = neglected != NULL;
    if (sum)
        acc_start(&p.weights, sum, rk_e0(s->dtype), false, n, RP_NAN_PROPAGATE);
    for (uint64_t i = 0; i < n; i += PAIR_BLOCK) {
        const size_t take = n - i < PAIR_BLOCK ? (size_t)(n - i) : PAIR_BLOCK;
        add_pairs(&p, t, (const char *)x + i * size, (const char *)w + i * beside, take);
    }
    if (neglected)
        *neglected = p.products.neglected;
    take_pairs(s, &p, n);
}

#define PAIR_ARRAYS(NAME, DTYPE, WEIGHTS, WTYPE)                                                                       \
    static void pairs_##NAME(rk_state *s, const void *x, const void *w, uint64_t n, int nan_policy, bool zero_drops,   \
                             double *neglected)                                                                        \
    {                                                                                                                  \
        static const pair_loops t = {                                                                                  \
            DTYPE, WEIGHTS, WEIGHTS == RP_F64, &loops_##WTYPE, products_of_##NAME##_fused, near_pairs_##NAME##_fused}; \
        reduce_float_pairs(s, x, w, n, nan_policy, zero_drops, neglected, &t);                                         \
    }
PAIR_ARRAYS(f16_f16, RP_F16, RP_F16, f16)
PAIR_ARRAYS(bf16_bf16, RP_BF16, RP_BF16, bf16)
PAIR_ARRAYS(f32_f32, RP_F32, RP_F32, f32)
PAIR_ARRAYS(f32_f64, RP_F32, RP_F64, f64)
PAIR_ARRAYS(f64_f64, RP_F64, RP_F64, f64)
#undef PAIR_ARRAYS

#endif
