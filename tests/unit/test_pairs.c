/* Pairs - dot, wsum, wmean, cov, corr - by all instruction sets, shapes and ways, against big integers that are put together
 * product by product, and against the definition that adds one pair at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/check.h"
#include "tests/unit/oracle.h"

typedef struct kind {
    int dtype, weights;
} kind;
static const kind kinds[] = {{RP_I8, RP_I8},   {RP_U8, RP_U8},   {RP_I16, RP_I16},   {RP_U16, RP_U16}, {RP_I32, RP_I32},
                             {RP_U32, RP_U32}, {RP_I64, RP_I64}, {RP_U64, RP_U64},   {RP_F16, RP_F16}, {RP_BF16, RP_BF16},
                             {RP_F32, RP_F32}, {RP_F64, RP_F64}, {RP_BOOL, RP_BOOL}, {RP_F32, RP_F64}};
enum { KINDS = sizeof kinds / sizeof kinds[0], MOST = 6000 };
static const int ops[] = {RP_OP_DOT, RP_OP_WMEAN, RP_OP_COV, RP_OP_CORR}; /* the last two by their definition */

static uint8_t elements[8 * MOST + 64], weights[8 * MOST + 64], mask[MOST];

static int state_dtype(kind k) { return k.dtype == k.weights ? k.dtype : RP_F64; }
static rk_pairs_fn *loop_of(const rk_simd *simd, kind k)
{
    return k.dtype == k.weights ? simd->pairs[k.dtype] : simd->pairs_f32_f64;
}

/* ---- by big integers ---- */

typedef struct facts {
    kind k;
    int nan;
    bool drops;
    uint64_t count;
    bool skipped, plus_inf, minus_inf, has_nan, endless_weight;
    t_big products, sum;
} facts;

static int unit_of(kind k) { return state_dtype(k) == RP_F64 ? -1075 : t_is_float(k.dtype) ? -150 : 0; }

static void add_fact(facts *f, const void *x, const void *w)
{
    const t_value a = t_decode(f->k.dtype, x), b = t_decode(f->k.weights, w);
    int i, j;
    if (f->drops && !b.nan && b.v == 0)
        return;
    if ((a.nan || b.nan) && f->nan != RP_NAN_PROPAGATE) {
        f->skipped = true;
        return;
    }
    f->count++;
    if (a.nan || b.nan || isinf(a.v) || isinf(b.v)) {
        const long double p = a.nan || b.nan ? (long double)NAN : a.v * b.v;
        f->has_nan |= isnan(p);
        f->plus_inf |= p > 0;
        f->minus_inf |= p < 0;
        f->endless_weight |= b.nan || isinf(b.v);
        if (b.nan || isinf(b.v))
            return;
        t_big_add_number(&f->sum, b.v, unit_of(f->k));
        return;
    }
    const uint64_t m = t_parts_of(a.v, &i), n = t_parts_of(b.v, &j);
    t_big_add_at(&f->products, signbit(a.v) != signbit(b.v), (unsigned __int128)m * n, i + j - 2 * unit_of(f->k));
    t_big_add_number(&f->sum, b.v, unit_of(f->k));
}

static rk_state state_of(const facts *f, int op)
{
    rk_state s;
    const int dtype = state_dtype(f->k), layout = rp_state_layout(op, dtype);
    memset(&s, 0, sizeof s);
    s.layout = (uint8_t)layout;
    s.dtype = (uint8_t)dtype;
    s.count = f->count;
    s.skipped = f->skipped;
    const bool nan = f->has_nan || (f->plus_inf && f->minus_inf) || (op == RP_OP_WMEAN && f->endless_weight);
    s.special = nan ? 3 : f->plus_inf ? 1 : f->minus_inf ? 2 : 0;
    const int sum = rk_sum_limbs(layout);
    if (!nan)
        memcpy(s.limb, f->sum.w, (size_t)sum * 8);
    if (!s.special)
        memcpy(s.limb + sum, f->products.w, (size_t)rk_square_limbs(layout) * 8);
    return s;
}

static int compare(const t_big *a, const t_big *b)
{
    for (int i = T_WORDS - 1; i >= 0; i--)
        if (a->w[i] != b->w[i])
            return a->w[i] < b->w[i] ? -1 : 1;
    return 0;
}

static void shift_up(t_big *b)
{
    for (int i = T_WORDS - 1; i >= 0; i--)
        b->w[i] = b->w[i] << 1 | (i ? b->w[i - 1] >> 63 : 0);
}

/* a / b * 2^e0, both not negative and not zero, bit by bit: 120 bits and what is left over */
static uint64_t ratio(t_big a, t_big b, int e0, bool negative, int out)
{
    int e = e0;
    unsigned __int128 q = 0;
    for (; t_big_top(&b) < t_big_top(&a); e++)
        shift_up(&b);
    for (; t_big_top(&a) < t_big_top(&b); e--)
        shift_up(&a);
    for (int i = 0; i < 120; i++) {
        q <<= 1;
        if (compare(&a, &b) >= 0) {
            t_big minus = b;
            t_big_negate(&minus);
            t_big_add(&a, &minus);
            q |= 1;
        }
        shift_up(&a);
    }
    t_big r = t_big_at(q, 0);
    if (negative)
        t_big_negate(&r);
    return t_big_round_more(r, e - 119, t_big_top(&a) >= 0, false, out);
}

static t_big magnitude(t_big b)
{
    if (t_big_negative(&b))
        t_big_negate(&b);
    return b;
}

static uint64_t value_of(const facts *f, int op, int out)
{
    const rk_state s = state_of(f, op);
    const int e0 = unit_of(f->k);
    const bool below = t_big_negative(&f->sum), negative = t_big_negative(&f->products) != below;
    if (s.special == 3)
        return t_canonical_nan(out);
    if (op == RP_OP_DOT)
        return s.special ? t_infinity(out, s.special == 2) : t_big_round(f->products, 2 * e0, false, out);
    if (s.special)
        return t_infinity(out, (s.special == 2) != below);
    const bool zero = t_big_top(&f->products) < 0;
    if (t_big_top(&f->sum) < 0)
        return zero ? t_canonical_nan(out) : t_infinity(out, negative);
    return zero ? 0 : ratio(magnitude(f->products), magnitude(f->sum), e0, negative, out);
}

static facts facts_of(kind k, int nan, bool drops, const uint8_t *x, const uint8_t *w, uint64_t n)
{
    facts f = {.k = k, .nan = nan, .drops = drops};
    for (uint64_t i = 0; i < n; i++)
        add_fact(&f, x + i * rp_dtype_size(k.dtype), w + i * rp_dtype_size(k.weights));
    return f;
}

static void check_values(const facts *f, int op, const rk_state *s)
{
    for (int out = RP_F16; out <= RP_F64; out++) {
        const rp_spec spec = {.op = (uint8_t)op, .dtype = s->dtype, .out = (uint8_t)out, .rows = 1};
        uint64_t scratch[RK_FINISH_SCRATCH], words[RP_MAX_CELL_WORDS];
        if (op == RP_OP_DOT && !t_is_float(f->k.dtype))
            continue;
        assert_int_equal(rk_state_finish(s, &spec, scratch, words), RP_OK);
        if (words[0] != value_of(f, op, out))
            fail_msg("%s of %s as %s: %#llx instead of %#llx", rp_op_name(op), rp_dtype_name(f->k.dtype), rp_dtype_name(out),
                     (unsigned long long)words[0], (unsigned long long)value_of(f, op, out));
    }
}

static void check_loops(const facts *f, const uint8_t *x, const uint8_t *w, uint64_t n, int family)
{
    for (int o = 0; o < 2; o++) {
        const rk_state want = state_of(f, ops[o]);
        rp_fault fault;
        if (rk_state_check(ops[o], want.dtype, &want, rp_state_size(want.layout), &fault))
            fail_msg("%s", fault.text);
        check_values(f, ops[o], &want);
        for (int i = 0; i < rk_simd_count; i++) {
            if (!rk_simd_runs(rk_simds[i]))
                continue;
            rk_state s;
            memset(&s, 0, sizeof s);
            rk_state_init(&s, want.layout, want.dtype);
            loop_of(rk_simds[i], f->k)(&s, x, w, n, f->nan, f->drops, NULL);
            if (memcmp(&s, &want, rp_state_size(want.layout)) != 0)
                fail_msg("%s: %s of %d %s and %s, family %d, policy %d, drops %d: count %d special %d skipped %d, not %d %d %d",
                         rk_simds[i]->name, rp_op_name(ops[o]), (int)n, rp_dtype_name(f->k.dtype), rp_dtype_name(f->k.weights),
                         family, f->nan, f->drops, (int)s.count, s.special, s.skipped, (int)want.count, want.special,
                         want.skipped);
        }
    }
}

static void fill_pairs(t_rng *r, kind k, int family, uint64_t n)
{
    t_fill(r, k.dtype, family, elements, n);
    t_fill(r, k.weights, t_below(r, 3) ? family : (int)t_below(r, T_FAMILIES), weights, n);
    for (uint64_t i = 0; i < n; i++) { /* some weights of 0 */
        mask[i] = (uint8_t)t_below(r, 3);
        if (family % 2 && t_below(r, 4) == 0)
            memset(weights + i * rp_dtype_size(k.weights), 0, rp_dtype_size(k.weights));
    }
}

static void loops_by_big_integers(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0, 1, 2, 7, 40, 500, 1024, 1500, 5000};
    t_rng r = {21};
    for (size_t k = 0; k < KINDS; k++)
        for (int family = 0; family < T_FAMILIES; family++)
            for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
                fill_pairs(&r, kinds[k], family, lengths[i]);
                const facts f = facts_of(kinds[k], (int)t_below(&r, 3), t_below(&r, 2), elements, weights, lengths[i]);
                check_loops(&f, elements, weights, lengths[i], family);
            }
}

/* ---- any split = the whole, and what no pairs can give is refused ---- */

static void parts_make_the_whole(void **state)
{
    (void)state;
    t_rng r = {22};
    for (int round = 0; round < 1500; round++) {
        const kind k = kinds[t_below(&r, KINDS)];
        const int op = ops[t_below(&r, 2)], nan = (int)t_below(&r, 3);
        const uint64_t n = t_below(&r, 300), cut = t_below(&r, n + 1);
        fill_pairs(&r, k, (int)t_below(&r, T_FAMILIES), n);
        const facts all = facts_of(k, nan, round % 2, elements, weights, n),
                    low = facts_of(k, nan, round % 2, elements, weights, cut),
                    high = facts_of(k, nan, round % 2, elements + cut * rp_dtype_size(k.dtype),
                                    weights + cut * rp_dtype_size(k.weights), n - cut);
        rk_state a = state_of(&low, op), b = state_of(&high, op), want = state_of(&all, op), c = b;
        rk_state_merge(&b, &a);
        rk_state_merge(&a, &c);
        assert_memory_equal(&a, &want, rp_state_size(want.layout));
        assert_memory_equal(&b, &want, rp_state_size(want.layout));
    }
}

static bool refused(rk_state *s, int op, const char *field)
{
    rp_fault f = {0};
    return rk_state_check(op, s->dtype, s, rp_state_size(s->layout), &f) == RP_BAD_MESSAGE && !strcmp(f.field, field);
}

static void impossible_states(void **state)
{
    (void)state;
    for (size_t k = 0; k < KINDS; k++)
        for (int o = 0; o < 2; o++) {
            rk_state s, t;
            const int dtype = state_dtype(kinds[k]);
            memset(&s, 0, sizeof s);
            rk_state_init(&s, rp_state_layout(ops[o], dtype), dtype);
            const int last = rk_limbs(s.layout) - 1;
            t = s;
            t.nz = 1;
            assert_true(refused(&t, ops[o], "nz"));
            t = s;
            t.limb[last - 1] = 1; /* more than no pairs sum to */
            assert_true(refused(&t, ops[o], "limbs"));
            t.count = 1;
            t.limb[last] = (uint64_t)1 << 62;
            assert_true(refused(&t, ops[o], "limbs"));
            t = s;
            t.special = 1;
            assert_true(refused(&t, ops[o], "special"));
            t.count = 1;
            t.limb[last] = 1;
            assert_true(refused(&t, ops[o], t_is_float(dtype) ? "special" : "special"));
        }
}

/* ---- shapes: the definition, pair by pair ---- */

static uint64_t widened(kind k, int dtype, const uint8_t *p)
{
    const uint64_t bits = t_bits(dtype, p);
    return state_dtype(k) == dtype ? bits : rk_convert_float(dtype, bits, state_dtype(k));
}

static void define_pair(rk_state *s, kind k, const uint8_t *x, const uint8_t *w, int nan, bool drops)
{
    if (rk_is_comoments(s->layout))
        rk_comoments_add(s, widened(k, k.dtype, x), widened(k, k.weights, w), nan);
    else
        rk_pairs_add(s, widened(k, k.dtype, x), widened(k, k.weights, w), nan, drops);
}

typedef struct shape {
    rp_spec s;
    rp_parts p;
    uint64_t offsets[8];
} shape;

static uint64_t weight_at(const shape *h, uint64_t at)
{
    const rp_spec *s = &h->s;
    return s->weights_extent == RP_EXTENT_ROW      ? at % s->row_len
           : s->weights_extent == RP_EXTENT_COLUMN ? at / s->row_len % s->rows
                                                   : at;
}

static uint64_t result_of(const shape *h, uint64_t at)
{
    const rp_spec *s = &h->s;
    if (s->flags & RP_OFFSETS) {
        for (uint64_t i = 0; i < s->rows; i++)
            if (at >= h->offsets[i] && at < h->offsets[i + 1])
                return i;
        return UINT64_MAX;
    }
    if (s->flags & RP_COLUMNS)
        return at / s->row_len / s->rows * s->row_len + at % s->row_len;
    return at / s->row_len % s->rows;
}

static void define(const shape *h, kind k, rk_state *states)
{
    const uint64_t n = rp_elements(&h->s);
    for (uint64_t i = 0; i < rp_results(&h->s); i++)
        rk_state_init(&states[i], rp_spec_layout(&h->s), state_dtype(k));
    for (uint64_t at = 0; at < n; at++) {
        const uint64_t line = result_of(h, at);
        if (line == UINT64_MAX || (h->s.flags & RP_MASK && !h->p.mask[at]))
            continue;
        define_pair(&states[line], k, h->p.elements + at * rp_dtype_size(k.dtype),
                    h->p.weights + weight_at(h, at) * rp_dtype_size(k.weights), h->s.nan, h->s.zero_drops);
    }
}

static void random_shape(t_rng *r, kind k, shape *h)
{
    static const uint64_t lengths[] = {0, 1, 3, 17, 130, 1100};
    const int way = (int)t_below(r, 4); /* rows, columns, segments, rows or columns of planes */
    rp_spec *s = &h->s;
    *s = (rp_spec){
        .op = (uint8_t)ops[t_below(r, 4)], .dtype = (uint8_t)k.dtype, .weights = (uint8_t)k.weights, .flags = RP_WEIGHTS};
    s->rows = 1 + t_below(r, way == 1 ? 1300 : 6);
    s->row_len = lengths[t_below(r, 6)];
    while (s->rows * s->row_len > MOST / 2)
        s->row_len /= 2;
    s->planes = way == 3 ? 1 + t_below(r, 3) : 0;
    while (rp_planes(s) * s->rows * s->row_len > MOST)
        s->planes--;
    s->weights_extent = (uint8_t)(RP_EXTENT_ELEMENTS + (way == 2 ? 0 : t_below(r, 3)));
    s->nan = (uint8_t)t_below(r, 3);
    s->zero_drops = t_below(r, 2) && !rp_is_comoments(s->op);
    s->flags |= t_below(r, 2) ? RP_MASK : 0;
    s->flags |= way == 1 || (way == 3 && t_below(r, 2)) ? RP_COLUMNS : 0;
    s->flags |= t_below(r, 3) ? RP_STATES_OUT : 0;
    if (way == 2) {
        s->flags |= RP_OFFSETS;
        s->row_len = 1 + t_below(r, MOST);
        for (uint64_t i = 0; i <= s->rows; i++)
            h->offsets[i] = i ? h->offsets[i - 1] + t_below(r, s->row_len - h->offsets[i - 1] + 1) : t_below(r, 3);
    }
    h->p = (rp_parts){elements, mask, (const uint8_t *)h->offsets, weights, NULL};
    assert_int_equal(rp_spec_check(s, NULL), RP_OK);
}

static void check_shape(t_rng *r, kind k, int threads)
{
    static rk_state want[6000];
    static uint8_t cells[6000 * RP_MAX_STATE], cell[RP_MAX_STATE];
    shape h;
    rp_fault fault = {0};
    random_shape(r, k, &h);
    const uint64_t n = rp_elements(&h.s), results = rp_results(&h.s);
    fill_pairs(r, k, (int)t_below(r, T_FAMILIES), n > h.s.rows ? n : h.s.rows);
    if (results > 6000)
        return;
    define(&h, k, want);
    const rp_err code = rk_reduce_here(&h.s, elements, &h.p, n * rp_dtype_size(k.dtype), threads, 0, cells, &fault);
    for (uint64_t i = 0; i < results; i++) {
        const int wanted = rk_cell_write(&want[i], &h.s, cell);
        if (wanted) { /* the first one decides */
            assert_int_equal(code, wanted);
            assert_int_equal(fault.index, i);
            return;
        }
        if (!code && memcmp(cell, cells + i * rp_cell_size(&h.s), rp_cell_size(&h.s)) != 0)
            fail_msg("%s of %s and %s, flags %d, %d x %d x %d, extent %d, mask, %d threads: result %d", rp_op_name(h.s.op),
                     rp_dtype_name(k.dtype), rp_dtype_name(k.weights), (int)h.s.flags, (int)rp_planes(&h.s), (int)h.s.rows,
                     (int)h.s.row_len, h.s.weights_extent, threads, (int)i);
    }
    assert_int_equal(code, RP_OK);
}

static void shapes_by_the_definition(void **state)
{
    (void)state;
    t_rng r = {23};
    for (int round = 0; round < 3000; round++)
        check_shape(&r, kinds[t_below(&r, KINDS)], 1);
}

/* ---- comoments: every loop, and states that no pairs give ---- */

static void comoments_by_the_definition(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0, 1, 3, 40, 1500, 5000};
    t_rng r = {24};
    for (int round = 0; round < 6 * 14 * T_FAMILIES; round++) {
        const kind k = kinds[round % KINDS];
        const int op = ops[2 + t_below(&r, 2)], nan = (int)t_below(&r, 3), dtype = state_dtype(k);
        const uint64_t n = lengths[t_below(&r, 6)];
        rk_state want, got;
        rp_fault f;
        fill_pairs(&r, k, (int)t_below(&r, T_FAMILIES), n);
        rk_state_init(&want, rp_state_layout(op, dtype), dtype);
        for (uint64_t i = 0; i < n; i++)
            define_pair(&want, k, elements + i * rp_dtype_size(k.dtype), weights + i * rp_dtype_size(k.weights), nan, false);
        if (rk_state_check(op, dtype, &want, rp_state_size(want.layout), &f))
            fail_msg("%s of %s and %s: %s", rp_op_name(op), rp_dtype_name(k.dtype), rp_dtype_name(k.weights), f.text);
        for (int i = 0; i < rk_simd_count; i++) {
            if (!rk_simd_runs(rk_simds[i]))
                continue;
            rk_state_init(&got, want.layout, dtype);
            rk_cpu_comoments(rk_simds[i], &got, k.dtype, elements, weights, n, nan);
            if (memcmp(&got, &want, rp_state_size(want.layout)) != 0)
                fail_msg("%s: %s of %d %s and %s, policy %d", rk_simds[i]->name, rp_op_name(op), (int)n, rp_dtype_name(k.dtype),
                         rp_dtype_name(k.weights), nan);
        }
    }
}

static void impossible_comoments(void **state)
{
    (void)state;
    const double x[] = {1, 2, 4, -3}, w[] = {2, 4, 8, -6};
    for (int o = 2; o < 4; o++) {
        rk_state s, t;
        rk_state_init(&s, rp_state_layout(ops[o], RP_F64), RP_F64);
        rk_cpu_comoments(rk_simd_best(), &s, RP_F64, x, w, 4, RP_NAN_PROPAGATE);
        const int squares = rk_number_at(s.layout, RK_CO_XX);
        t = s, t.nz = 1;
        assert_true(refused(&t, ops[o], "nz"));
        t = s, t.special = RK_PINF, memset(t.limb, 0, sizeof t.limb);
        assert_true(refused(&t, ops[o], "special"));
        t = s, t.special = RK_NAN;
        assert_true(refused(&t, ops[o], "special"));
        t = s, t.limb[rk_number_at(s.layout, RK_CO_X) + 33] = 1; /* a sum beyond any */
        assert_true(refused(&t, ops[o], "limbs"));
        if (ops[o] == RP_OP_COV)
            continue;
        t = s, t.limb[squares + 33] -= 1 << 20; /* x and w are one line: any less of squares gives a correlation above 1 */
        assert_true(refused(&t, ops[o], "limbs"));
        t = s, t.limb[squares + 66] = (uint64_t)1 << 63; /* negative squares */
        assert_true(refused(&t, ops[o], "limbs"));
        t = s, memset(t.limb + squares, 0, 67 * 8); /* X below 0 */
        assert_true(refused(&t, ops[o], "limbs"));
    }
}

static void correlations_of_lines_are_1(void **state)
{
    (void)state;
    static const double slopes[] = {1, -4, 0.1, 0x1p-600, -0x1p600};
    t_rng r = {25};
    for (int round = 0; round < 200; round++) {
        const double slope = slopes[round % 5];
        double x[50], w[50], got;
        rk_state s;
        for (int i = 0; i < 50; i++) {
            x[i] = (double)t_below(&r, 1u << 20);
            w[i] = slope * x[i]; /* 0.1 x rounds: then it is near 1, and not above */
        }
        rk_state_init(&s, RP_STATE_CORR64, RP_F64);
        rk_cpu_comoments(rk_simd_best(), &s, RP_F64, x, w, 50, RP_NAN_PROPAGATE);
        const rp_spec spec = {.op = RP_OP_CORR, .dtype = RP_F64, .out = RP_F64, .rows = 1};
        assert_int_equal(rk_cell_write(&s, &spec, (uint8_t *)&got), RP_OK);
        assert_true(slope == 0.1 ? got > 0.999999 && got <= 1 : got == (slope > 0 ? 1 : -1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_by_big_integers),       cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(impossible_states),           cmocka_unit_test(shapes_by_the_definition),
        cmocka_unit_test(comoments_by_the_definition), cmocka_unit_test(impossible_comoments),
        cmocka_unit_test(correlations_of_lines_are_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
