/* Comoments - the states of cov and corr - by the loops for sums, moments and products.
 *
 * A block of pairs goes through the exact loops three times: moments, or sums, of each operand, and the products. It stays in
 * L2 meanwhile. What is not finite is noticed there; then pairs with a NaN are taken out, unless NaNs propagate. */
#include "kernels/cpu/loops.h"

#include <string.h>

enum {
    TOGETHER = 8192, /* pairs that are taken together, */
    WIDENED = 1024,  /* ... with elements of f32 as f64, */
    FEW = 512        /* ... where some are not finite */
};

typedef struct block {
    const uint8_t *x, *w; /* both of the state's type */
    size_t n;
} block;

static void add_number(rk_state *s, int number, const uint64_t *limb)
{
    rk_add_limbs(s->limb + rk_number_at(s->layout, number), limb, rk_number_limbs(s->layout, number));
}

/* The sum of one operand, and the squares. False, and nothing is done: it is not finite. */
static bool sum_of(const rk_simd *simd, const rk_state *s, const uint8_t *x, size_t n, rk_state *out)
{
    const int op = rk_has_squares(s->layout) ? RP_OP_VAR : RP_OP_SUM;
    rk_state_init(out, rp_state_layout(op, s->dtype), s->dtype);
    simd->reduce[out->layout][s->dtype](out, x, n, 0, RP_NAN_PROPAGATE);
    return !out->special;
}

static bool add_finite(const rk_simd *simd, rk_state *s, block b)
{
    rk_state x, w, products;
    if (!sum_of(simd, s, b.x, b.n, &x) || !sum_of(simd, s, b.w, b.n, &w))
        return false;
    rk_state_init(&products, rp_state_layout(RP_OP_DOT, s->dtype), s->dtype);
    simd->pairs[s->dtype](&products, b.x, b.w, b.n, RP_NAN_PROPAGATE, false, NULL);
    add_number(s, RK_CO_X, x.limb);
    add_number(s, RK_CO_W, w.limb);
    add_number(s, RK_CO_XW, products.limb);
    if (rk_has_squares(s->layout)) {
        add_number(s, RK_CO_XX, x.limb + rk_sum_limbs(x.layout));
        add_number(s, RK_CO_WW, w.limb + rk_sum_limbs(w.layout));
    }
    s->count += b.n;
    return true;
}

static uint64_t bits_of(const uint8_t *at, size_t size)
{
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    return bits;
}

/* Pairs without a NaN, to x and w; returns how many. */
static size_t without_nans(int dtype, block b, uint8_t *x, uint8_t *w)
{
    const size_t size = rp_dtype_size(dtype);
    size_t k = 0;
    for (size_t i = 0; i < b.n; i++) {
        const uint8_t *at = b.x + i * size, *beside = b.w + i * size;
        if (rk_is_nan(dtype, bits_of(at, size)) || rk_is_nan(dtype, bits_of(beside, size)))
            continue;
        memcpy(x + k * size, at, size);
        memcpy(w + k * size, beside, size);
        k++;
    }
    return k;
}

/* Some pairs that are not all finite. */
static void add_few(const rk_simd *simd, rk_state *s, block b, int nan_policy)
{
    uint8_t x[8 * FEW], w[8 * FEW];
    if (nan_policy != RP_NAN_PROPAGATE) {
        const size_t k = without_nans(s->dtype, b, x, w);
        s->skipped |= k < b.n;
        b = (block){x, w, k};
        if (add_finite(simd, s, b))
            return;
    }
    s->special = RK_NAN;
    s->count += b.n;
}

static void add_block(const rk_simd *simd, rk_state *s, block b, int nan_policy)
{
    const size_t size = rp_dtype_size(s->dtype);
    if (add_finite(simd, s, b))
        return;
    for (size_t i = 0; i < b.n; i += FEW) {
        const block few = {b.x + i * size, b.w + i * size, b.n - i < FEW ? b.n - i : FEW};
        if (!add_finite(simd, s, few))
            add_few(simd, s, few, nan_policy);
    }
}

static void widen(double *to, const uint8_t *x, size_t n)
{
    typedef float __attribute__((aligned(1), may_alias)) loose;
    const loose *from = (const loose *)(const void *)x;
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

void rk_cpu_comoments(const rk_simd *simd, rk_state *s, int dtype, const void *x, const void *w, uint64_t n, int nan_policy)
{
    const size_t size = rp_dtype_size(dtype), beside = rp_dtype_size(s->dtype), most = dtype == s->dtype ? TOGETHER : WIDENED;
    double wide[WIDENED];
    for (uint64_t i = 0; i < n; i += most) {
        block b = {(const uint8_t *)x + i * size, (const uint8_t *)w + i * beside, n - i < most ? (size_t)(n - i) : most};
        if (dtype != s->dtype) {
            widen(wide, b.x, b.n);
            b.x = (const uint8_t *)wide;
        }
        add_block(simd, s, b, nan_policy);
        if (s->special)
            rk_sums_void(s);
    }
}

static void alike(rk_state *s, const void *x, const void *w, uint64_t n, int nan_policy, bool zero_drops, double *neglected)
{
    (void)zero_drops, (void)neglected;
    rk_cpu_comoments(rk_simd_best(), s, s->dtype, x, w, n, nan_policy);
}

static void f32_beside_f64(rk_state *s, const void *x, const void *w, uint64_t n, int nan_policy, bool zero_drops,
                           double *neglected)
{
    (void)zero_drops, (void)neglected;
    rk_cpu_comoments(rk_simd_best(), s, RP_F32, x, w, n, nan_policy);
}

rk_pairs_fn *rk_comoments_loop(bool same_type) { return same_type ? alike : f32_beside_f64; }
