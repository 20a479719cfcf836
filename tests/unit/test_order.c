/* Order statistics on the CPU against a plain selection: every element type and instruction set, whatever data, shapes, masks,
 * and lines that threads share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/order/ranked.h"
#include "kernels/cpu/threads/pieces.h"
#include "kernels/exact/edges.h"
#include "kernels/exact/order_mix.h"
#include "kernels/exact/total_order.h"
#include "proto/tagged.h"
#include "tests/unit/sanitized.h"

enum { MOST = 1 << 19, LONG = 1 << 17, MOST_SOME = 100 };

static uint8_t data[MOST * 8], mask[MOST];
static uint64_t seed = 1;

static uint64_t any(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 16) % below;
}

static uint64_t any_bits(void) { return any(UINT64_MAX) << 16 ^ any(UINT64_MAX); }

/* ---- what is right: ranks ---- */

/* The value at place k of x[0..n) if it were sorted; it is put in another order (Hoare's selection). */
static uint64_t kth_smallest(uint64_t *x, uint64_t n, uint64_t k)
{
    for (int64_t low = 0, high = (int64_t)n - 1; low < high;) {
        const uint64_t pivot =
            x[low + (int64_t)any((uint64_t)(high - low) + 1)]; /* the middle one is the largest of an organ pipe */
        int64_t i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i <= j) {
                const uint64_t t = x[i];
                x[i++] = x[j];
                x[j--] = t;
            }
        }
        if ((int64_t)k > j)
            low = i;
        if ((int64_t)k < i)
            high = j;
    }
    return x[k];
}

/* The ranks of a line's elements in total_order.h's order, without NaNs. Returns how many; *nans: the NaNs. */
static uint64_t ranks_of(int dtype, const uint64_t *bits, uint64_t n, uint64_t *out, uint64_t *nans)
{
    uint64_t k = 0;
    *nans = 0;
    for (uint64_t i = 0; i < n; i++) {
        const bool nan = rk_is_nan(dtype, bits[i]);
        *nans += nan;
        out[k] = rk_rank(dtype, 0, dtype == RP_BOOL ? bits[i] != 0 : bits[i]);
        k += !nan;
    }
    return k;
}

/* ---- data ---- */

typedef enum { BITS, EQUAL, TWO, SORTED, ORGAN_PIPE, HALF_NAN, SUBNORMAL, FEW, INFINITE, NEAR, KINDS } data_kind;

static void fill(data_kind kind, int dtype, uint64_t n)
{
    const size_t size = rp_dtype_size(dtype);
    const bool is_float = rk_is_float(dtype);
    const uint64_t nan = is_float ? rk_nan_bits(rk_format_of(dtype)) : 0, two[2] = {any_bits(), any_bits()};
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t up = i < n / 2 ? i : n - i;
        uint64_t x = any_bits();
        switch (kind) {
        case EQUAL:
            x = two[0];
            break;
        case TWO:
            x = two[x % 2];
            break;
        case SORTED:
            x = i;
            break;
        case ORGAN_PIPE:
            x = up;
            break;
        case HALF_NAN:
            x = x % 2 ? nan | (is_float ? (x / 2 % 2) << (8 * size - 1) : 0) : x; /* of both signs */
            break;
        case SUBNORMAL:
            x = x % 64 | (x / 64 % 2) << (8 * size - 1);
            break;
        case FEW:
            x = x % 5;
            break;
        case INFINITE: /* a third of floats */
            x = is_float && x % 3 == 0 ? rk_inf_bits(rk_format_of(dtype)) | (x / 3 % 2) << (8 * size - 1) : x;
            break;
        case NEAR:
            x = (two[0] & ~(uint64_t)1023) + x % 1024;
            break;
        case BITS:
        case KINDS:
            break;
        }
        memcpy(data + i * size, &x, size);
    }
}

static uint64_t bits_at(int dtype, uint64_t i)
{
    uint64_t x = 0;
    memcpy(&x, data + i * rp_dtype_size(dtype), rp_dtype_size(dtype));
    return x;
}

/* ---- one task ---- */

static uint64_t length_of(const rp_spec *s) { return s->flags & RP_COLUMNS ? s->rows : s->row_len * rp_planes(s); }

/* Where element i of a line is. */
static uint64_t place_of(const rp_spec *s, uint64_t line, uint64_t i)
{
    const uint64_t row = s->row_len;
    return s->flags & RP_COLUMNS ? (line / row * s->rows + i) * row + line % row : (i / row * s->rows + line) * row + i % row;
}

/* Elements of line `line` that count, in `bits`. */
static uint64_t line_of(const rp_spec *s, uint64_t line, uint64_t *bits)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < length_of(s); i++) {
        const uint64_t at = place_of(s, line, i);
        if (!(s->flags & RP_MASK && !mask[at]))
            bits[n++] = bits_at(s->dtype, at);
    }
    return n;
}

static uint64_t line_bits[MOST], ranks[MOST];

/* The cell of kth, converted; integers have room in 64 bits. */
static rp_err kth_of(const rp_spec *s, uint64_t line, uint64_t *word)
{
    uint64_t nans;
    const uint64_t n = ranks_of(s->dtype, line_bits, line_of(s, line, line_bits), ranks, &nans);
    if (nans && s->nan == RP_NAN_ERROR)
        return RP_NAN;
    *word = rk_nan_bits(rk_format_of(RP_F64));
    if (!n || (nans && s->nan == RP_NAN_PROPAGATE))
        return rk_is_float(s->dtype) ? RP_OK : RP_EMPTY;
    const int64_t k = s->k < 0 ? s->k + (int64_t)n : s->k;
    if (k < 0 || (uint64_t)k >= n)
        return RP_SHAPE;
    const uint64_t bits = rk_unrank(s->dtype, 0, kth_smallest(ranks, n, (uint64_t)k));
    *word = rk_is_float(s->dtype)    ? rk_convert_float(s->dtype, bits, RP_F64)
            : rk_is_signed(s->dtype) ? rk_sign_extend(bits, rk_bytes(s->dtype))
                                     : bits;
    return RP_OK;
}

static void check_cells(const rp_spec *s, rp_err err, const rp_fault *f, const uint64_t *cells)
{
    for (uint64_t line = 0; line < rp_results(s); line++) {
        uint64_t want;
        const rp_err right = kth_of(s, line, &want);
        if (right) {
            assert_int_equal(err, right);
            assert_int_equal(f->index, line);
            return;
        }
        if (!err)
            assert_true(cells[line] == want);
    }
    assert_int_equal(err, RP_OK);
}

static void check_task(const rk_simd *simd, rp_spec s, int threads)
{
    static uint64_t cells[MOST];
    const uint64_t n = rp_elements(&s);
    const rp_parts beside = {.mask = mask};
    rp_fault f = {0};
    assert_int_equal(rp_spec_check(&s, &f), RP_OK);
    rk_task t = {.spec = s, .data = data, .beside = &beside, .bytes = n * rp_dtype_size(s.dtype), .cells = cells};
    rp_err err;
    if (threads)
        err = rk_reduce_here(&s, data, &beside, n * (rp_dtype_size(s.dtype) + 1), threads, 0, cells, &f);
    else
        err = rk_ranked_lines(simd, &t, 0, rp_results(&s), &f);
    check_cells(&s, err, &f, cells);
}

static rp_spec random_spec(int dtype, uint64_t most)
{
    rp_spec s = {.op = RP_OP_KTH, .dtype = (uint8_t)dtype, .nan = (uint8_t)any(3), .rows = 1 + any(6)};
    s.planes = any(3) ? 0 : 1 + any(5);
    s.flags = (any(3) ? 0 : RP_COLUMNS) | (any(3) ? 0 : RP_MASK);
    s.row_len = any(most / (s.rows * rp_planes(&s)) + 1);
    if (s.flags & RP_COLUMNS && s.row_len && any(2)) { /* few long columns, too */
        const uint64_t rows = s.rows;
        s.rows = s.row_len;
        s.row_len = rows;
    }
    const uint64_t line = s.flags & RP_COLUMNS ? s.rows : s.row_len * rp_planes(&s);
    s.k = (int64_t)any(line + 1) - (any(2) ? (int64_t)line : 0);
    return s;
}

static void whatever_data(void **state)
{
    (void)state;
    for (int i = 0; i < rk_simd_count; i++)
        for (int dtype = RP_I8; rk_simd_runs(rk_simds[i]) && dtype <= RP_DTYPE_COUNT; dtype++)
            for (int round = 0; round < 4 * KINDS; round++) {
                const uint64_t most = round % 3 == 0 ? 1 << 14 : 1 << any(9); /* lines that are too long to be lanes, too */
                fill((data_kind)(round % KINDS), dtype, most);
                for (uint64_t k = 0; k < most; k++)
                    mask[k] = any(3) != 0;
                check_task(rk_simds[i], random_spec(dtype, most), 0);
            }
}

/* ---- short lines ---- */

static int by_rank(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The cell of a line, from its sorted elements. */
static rp_err sorted_cell(const rp_spec *s, uint64_t line, uint8_t *cell)
{
    uint64_t nans, rank[RK_MAX_RANKS], bits[RK_MAX_RANKS];
    const uint64_t n = ranks_of(s->dtype, line_bits, line_of(s, line, line_bits), ranks, &nans);
    qsort(ranks, n, sizeof *ranks, by_rank);
    const unsigned wanted = rk_order_ranks(s, n, rank);
    for (unsigned i = 0; i < wanted; i++)
        bits[i] = rk_unrank(s->dtype, 0, ranks[rank[i]]);
    return rk_order_cell(s, n, nans, bits, cell);
}

static void check_sorted(const rk_simd *simd, rp_spec s)
{
    static uint8_t cells[MOST * sizeof(double)];
    const rp_parts beside = {.mask = mask};
    rp_fault f = {0};
    assert_int_equal(rp_spec_check(&s, &f), RP_OK);
    assert_in_range(rp_results(&s) * rp_cell_size(&s), 1, sizeof cells);
    const rk_task t = {.spec = s, .data = data, .beside = &beside, .cells = cells};
    const rp_err err = rk_ranked_lines(simd, &t, 0, rp_results(&s), &f);
    for (uint64_t line = 0; line < rp_results(&s); line++) {
        uint8_t want[RP_MAX_QUANTILES * sizeof(double)];
        const rp_err right = sorted_cell(&s, line, want);
        if (right) {
            assert_int_equal(err, right);
            assert_int_equal(f.index, line);
            return;
        }
        if (!err)
            assert_memory_equal(cells + line * rp_cell_size(&s), want, rp_cell_size(&s));
    }
    assert_int_equal(err, RP_OK);
}

/* Many lines of 1 to 80 elements; `q` has room for the quantiles. */
static rp_spec spec_of_short_lines(int dtype, int64_t (*q)[2])
{
    static const int64_t shares[][2] = {{5, -1}, {25, -2}, {9, -1}, {0, 0}, {1, 0}, {75, -2}, {3333333333333333, -16},
                                        {1, -3}, {5, -324}};
    static const uint8_t ops[] = {RP_OP_MEDIAN, RP_OP_MEDIAN, RP_OP_KTH, RP_OP_QUANTILE, RP_OP_QUANTILE};
    const uint64_t n = any(3) ? 1 + any(12) : 1 + any(80), lines = 1 + any(any(2) ? 20 : 400);
    rp_spec s = {.op = ops[any(5)], .dtype = (uint8_t)dtype, .nan = (uint8_t)any(3), .rows = lines, .row_len = n};
    s.flags = any(4) ? 0 : RP_MASK;
    if (any(2)) {
        s.planes = any(3) ? 0 : 1 + any(5);
        s.flags |= RP_COLUMNS;
        s.rows = n;
        s.row_len = 1 + (lines - 1) / rp_planes(&s);
    }
    s.k = s.op == RP_OP_KTH ? (int64_t)any(any(9) ? 2 * n : 2 * n + 1) - (int64_t)n : 0; /* n is not a rank */
    if (s.op == RP_OP_QUANTILE) {
        s.quantiles = (uint8_t)(1 + any(any(4) ? 3 : 9));
        s.method = any(3) ? 0 : (uint8_t)any(13);
        s.q = (const uint8_t *)q;
        for (unsigned i = 0; i < s.quantiles; i++)
            memcpy(q[i], shares[any(sizeof shares / sizeof shares[0])], sizeof *q);
    }
    s.out = any(3) ? 0 : (uint8_t)(1 + any(RP_DTYPE_COUNT));
    rp_spec checked = s;
    if (rp_spec_check(&checked, NULL)) /* the type does not suit */
        s.out = 0;
    return s;
}

static void many_short_lines(void **state)
{
    (void)state;
    int64_t q[9][2];
    for (int i = 0; i < rk_simd_count; i++)
        for (int dtype = RP_I8; rk_simd_runs(rk_simds[i]) && dtype <= RP_DTYPE_COUNT; dtype++)
            for (int round = 0; round < 24 * KINDS / SOME; round++) {
                const rp_spec s = spec_of_short_lines(dtype, q);
                fill((data_kind)(round % KINDS), dtype, rp_elements(&s));
                for (uint64_t k = 0; k < rp_elements(&s); k++)
                    mask[k] = any(9) != 0;
                check_sorted(rk_simds[i], s);
            }
}

/* A line that takes brackets, digits and several passes, whole; and the same shared by threads. */
static void long_lines(void **state)
{
    (void)state;
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        for (int kind = dtype % SOME; kind < KINDS; kind += SOME) {
            fill((data_kind)kind, dtype, LONG);
            rp_spec s = {.op = RP_OP_KTH, .dtype = (uint8_t)dtype, .rows = 1, .row_len = LONG, .nan = RP_NAN_OMIT};
            s.k = (int64_t)any(LONG / 3);
            check_task(rk_simd_best(), s, 0);
            s.k = -1 - (int64_t)any(3);
            check_task(rk_simd_best(), s, 0);
        }
}

static const uint64_t FIVE = 5, HUNDRED = 100;

static unsigned many_wanted(const void *arg, uint64_t n, uint64_t rank[RK_MAX_RANKS])
{
    unsigned k = 0;
    const uint64_t wanted = *(const uint64_t *)arg;
    for (uint64_t i = 0; i < wanted && n; i++) {
        const uint64_t r = i ? i * (n - 1) / (wanted - 1) - (i % 3 == 1) : 0;
        if (!k || r > rank[k - 1])
            rank[k++] = r;
    }
    return k;
}

/* Returns how many passes there were. */
static unsigned check_many(const rk_simd *simd, int dtype, uint64_t length, const uint64_t *wanted, bool masked,
                           uint64_t memory)
{
    const rp_spec s = {.op = RP_OP_QUANTILE, .dtype = (uint8_t)dtype, .rows = 1, .row_len = length};
    rk_ranking *r = calloc(1, sizeof *r);
    uint64_t n = 0, rank[RK_MAX_RANKS];
    bool again = true;
    rk_ranking_of(simd, &s, r);
    r->want = many_wanted;
    r->want_arg = wanted;
    r->memory = memory;
    r->line.x = data;
    r->line.mask = masked ? mask : NULL;
    r->line.n = r->line.run = r->line.stride = length;
    for (uint64_t i = 0; i < length; i++) {
        const uint64_t key = rk_key_of(&r->keys, rp_dtype_size(s.dtype), bits_at(dtype, i));
        if (key <= r->keys.most && (!masked || mask[i]))
            line_bits[n++] = key;
    }
    qsort(line_bits, n, sizeof *line_bits, by_rank);
    assert_true(rk_ranking_open(r));
    while (again) {
        const uint64_t cut = any(length);
        rk_ranking_pass(r, cut, length);
        rk_ranking_pass(r, 0, cut);
        assert_true(rk_ranking_next(r, &again));
    }
    assert_int_equal(r->n, n);
    assert_int_equal(r->ranks, many_wanted(wanted, n, rank));
    for (unsigned i = 0; i < r->ranks; i++)
        assert_int_equal(r->wanted[i].lo, line_bits[rank[i]]);
    const unsigned passes = r->passes;
    rk_ranking_close(r);
    free(r);
    return passes;
}

/* Several brackets in a pass, of each instruction set; and more ranks than a pass has brackets: by slots, and without memory
 * for what these keep. */
static void many_ranks(void **state)
{
    (void)state;
    static const int types[] = {RP_F32, RP_F64, RP_I64, RP_U16, RP_F16, RP_I32};
    for (uint64_t i = 0; i < MOST; i++)
        mask[i] = any(3) != 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 2; i++) {
            const int dtype = types[(2 * kind + i) % 6];
            fill((data_kind)kind, dtype, MOST);
            check_many(rk_simd_best(), dtype, MOST, &HUNDRED, kind % 2, i ? 1 << 14 : 0);
            assert_in_range(check_many(rk_simd_best(), dtype, MOST, &HUNDRED, !(kind % 2), 0), 1, 2);
            for (int j = 0; j < rk_simd_count; j++)
                if (rk_simd_runs(rk_simds[j]))
                    check_many(rk_simds[j], dtype, LONG - any(LONG / 2), &FIVE, kind % 2, 0);
        }
}

/* The last key of 64 bits may have a slot of its own, and the key before it, too. */
static void ranks_at_the_last_key(void **state)
{
    (void)state;
    for (int dtype = RP_I64; dtype; dtype = dtype == RP_I64 ? RP_U64 : 0) {
        for (uint64_t i = 0; i < MOST; i++) {
            const uint64_t x = (any(2) ? UINT64_MAX - any(2) : any(1u << 31) << 33) ^ (dtype == RP_I64 ? 1ull << 63 : 0);
            memcpy(data + i * sizeof x, &x, sizeof x);
        }
        for (int j = 0; j < rk_simd_count; j++)
            if (rk_simd_runs(rk_simds[j]))
                check_many(rk_simds[j], dtype, MOST, &HUNDRED, false, 0);
    }
}

/* Half of the elements are zeros: the brackets on both sides of these do not become one, which would hold all of them. */
static void zeros_between_brackets(void **state)
{
    (void)state;
    float *x = (float *)(void *)data;
    for (uint64_t i = 0; i < LONG; i++)
        x[i] = any(2) ? (float)any(1 << 20) - (1 << 19) : 0;
    for (int i = 0; i < rk_simd_count; i++)
        if (rk_simd_runs(rk_simds[i]))
            assert_int_equal(check_many(rk_simds[i], RP_F32, LONG, &FIVE, false, 0), 1);
}

/* Few values, so that many equal a bound, wherever they are. */
static void check_ranges(const rk_simd *simd, int log2_size, size_t n, const rk_ranges *r)
{
    const size_t size = (size_t)1 << log2_size;
    const rk_keys keys = {0, 0, 30};
    uint64_t below[RK_RANGES] = {0}, want_below[RK_RANGES] = {0}, nans = 0, want_nans = 0;
    uint8_t kept[MOST_SOME * 8 * 8 + 64];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t key = any(33);
        memcpy(data + i * size, &key, size);
    }
    const size_t in = simd->inside[log2_size](data, n, &keys, r, below, &nans, kept);
    for (size_t i = 0; i < n; i++) {
        uint64_t key = 0;
        bool wanted = false;
        memcpy(&key, data + i * size, size);
        want_nans += key > keys.most;
        for (unsigned b = 0; b < r->n; b++) {
            want_below[b] += key < r->lo[b];
            wanted |= key >= r->lo[b] && key <= r->hi[b];
        }
        if (wanted)
            assert_memory_equal(kept + k++ * size, &key, size);
    }
    assert_int_equal(in, k);
    assert_int_equal(nans, want_nans);
    assert_memory_equal(below, want_below, sizeof below);
}

static void keys_in_ranges(void **state)
{
    (void)state;
    for (int i = 0; i < rk_simd_count; i++)
        for (int round = 0; rk_simd_runs(rk_simds[i]) && round < 100; round++) {
            rk_ranges r = {.n = 2 + (unsigned)any(RK_RANGES - 1)};
            for (unsigned b = 0; b < r.n; b++) {
                r.lo[b] = 3 * b + any(2);
                r.hi[b] = r.lo[b] + any(2);
            }
            for (int size = 1; size < 4 && rk_simds[i]->inside[size]; size++)
                check_ranges(rk_simds[i], size, any(MOST_SOME * 8), &r);
        }
}

/* Each pass by hand, as threads do it: in pieces of any length, in any order. */
static void passes_in_pieces(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * KINDS; round++) {
        uint64_t want;
        fill((data_kind)(round % KINDS), RP_F64, LONG);
        rp_spec s = {.op = RP_OP_KTH, .dtype = RP_F64, .out = RP_F64, .rows = 1, .row_len = LONG, .nan = RP_NAN_OMIT};
        s.k = round < KINDS ? LONG / 5 : -LONG / 5; /* from the end: NaNs are counted */
        uint64_t cell;
        const rk_task t = {.spec = s, .data = data, .bytes = LONG * 8, .cells = &cell};
        rk_selection *o = calloc(1, sizeof *o);
        rk_ranking *r = &o->ranking;
        rp_fault f;
        bool again = true;
        assert_true(rk_selection_init(o, rk_simd_best(), &t));
        rk_selection_line(o, 0);
        r->memory = round < KINDS ? 0 : 8 * 64 * sizeof(double); /* 64 keys: then digits must do it */
        r->in_parts = round % 2;                                 /* digits from the first pass on */
        assert_true(rk_ranking_open(r));
        while (again) {
            uint64_t middle = any(LONG), first = any(middle + 1);
            rk_ranking_pass(r, middle, LONG);
            rk_ranking_pass(r, 0, first);
            rk_ranking_pass(r, first, middle);
            assert_true(rk_ranking_next(r, &again));
            assert_in_range(r->passes, 1, 7);
        }
        assert_int_equal(rk_selection_cell(o, 0, &f), kth_of(&s, 0, &want));
        assert_true(cell == want);
        rk_selection_close(o);
        free(o);
    }
}

/* A client may change shared memory between passes: the result is arbitrary, but it comes, after a bounded number of passes. */
static void data_that_change_meanwhile(void **state)
{
    (void)state;
    for (int round = 0; round < 3 * KINDS; round++) {
        fill((data_kind)(round % KINDS), RP_F32, LONG);
        uint64_t cell;
        const rp_spec s = {.op = RP_OP_MEDIAN, .dtype = RP_F32, .out = RP_F64, .rows = 1, .row_len = LONG, .nan = RP_NAN_OMIT};
        const rk_task t = {.spec = s, .data = data, .bytes = LONG * 4, .cells = &cell};
        rk_selection *o = calloc(1, sizeof *o);
        rk_ranking *r = &o->ranking;
        rp_fault f;
        bool again = true;
        assert_true(rk_selection_init(o, rk_simd_best(), &t));
        rk_selection_line(o, 0);
        r->in_parts = round % 2; /* digits, of which a pass may find less than was there */
        assert_true(rk_ranking_open(r));
        while (again) {
            fill((data_kind)any(KINDS), RP_F32, LONG);
            rk_ranking_pass(r, 0, LONG);
            assert_true(rk_ranking_next(r, &again));
            assert_in_range(r->passes, 1, 32);
        }
        rk_selection_cell(o, 0, &f);
        rk_selection_close(o);
        free(o);
    }
}

/* The same for the best elements and for bins: two passes at most, and each place is one of the line. */
static void lists_of_data_that_change(void **state)
{
    (void)state;
    static const double edge[] = {-1e30, -1, 0, 1e-40, 7};
    for (int round = 0; round < 4 * KINDS; round++) {
        uint64_t cell[2 * MOST_SOME];
        rp_spec s = {.dtype = RP_F32, .out = RP_F64, .rows = 1, .row_len = LONG, .k = MOST_SOME};
        s.op = round % 2 ? RP_OP_LARGEST : RP_OP_HISTOGRAM;
        s.edges = (const uint8_t *)edge;
        s.n_edges = sizeof edge / sizeof edge[0];
        const rk_task t = {.spec = s, .data = data, .bytes = LONG * 4, .cells = cell};
        rk_selection *o = calloc(1, sizeof *o);
        rp_fault f;
        bool again = true;
        fill((data_kind)any(KINDS), RP_F32, LONG);
        assert_true(rk_selection_init(o, rk_simd_best(), &t));
        rk_selection_line(o, 0);
        assert_true(rk_selection_open(o));
        for (int passes = 0; again; passes++) {
            const uint64_t middle = any(LONG);
            assert_in_range(passes, 0, 1);
            fill((data_kind)any(KINDS), RP_F32, LONG);
            rk_selection_pass(o, middle, LONG);
            fill((data_kind)any(KINDS), RP_F32, LONG);
            rk_selection_pass(o, 0, middle);
            assert_true(rk_selection_next(o, &again));
        }
        assert_int_equal(rk_selection_cell(o, 0, &f), RP_OK);
        for (int i = 0; i < MOST_SOME && s.op == RP_OP_LARGEST; i++)
            assert_true(cell[MOST_SOME + i] < LONG);
        rk_selection_close(o);
        free(o);
    }
}

/* Adversarial: the places where a sample looks are small, everything else is not. */
static void a_sample_that_misleads(void **state)
{
    (void)state;
    enum { SHORTER = 1 << 16 };
    for (uint64_t most = 3; most < SHORTER; most = most * 3 + 1)
        for (int round = 0; round < 4; round++) {
            rp_spec s = {.op = RP_OP_KTH, .dtype = RP_U64, .rows = 1, .row_len = SHORTER, .k = (int64_t)any(SHORTER)};
            for (uint64_t i = 0; i < SHORTER; i++) { /* most values near one another, few far apart by many digits */
                const uint64_t x = any(most) ? UINT64_C(1) << 40 | any(most) : any(UINT64_MAX) >> any(64);
                memcpy(data + 8 * i, &x, sizeof x);
            }
            check_task(rk_simd_best(), s, 0);
        }
}

/* A line that threads share: by the pieces of one thread, and by two. */
static void threads_share_a_line(void **state)
{
    (void)state;
    static uint64_t cells[2];
    for (int kind = 0; kind < KINDS; kind++) {
        const int dtype = kind % 2 ? RP_F32 : RP_F64;
        const size_t size = rp_dtype_size(dtype);
        rp_spec s = {.op = RP_OP_KTH, .dtype = (uint8_t)dtype, .rows = 1 + (uint64_t)kind % 2, .nan = (uint8_t)(kind % 3)};
        s.row_len = MOST * sizeof(double) / size / s.rows;
        s.row_len = s.row_len * s.rows > MOST ? MOST / s.rows : s.row_len;
        s.k = (int64_t)any(s.row_len / 3);
        fill((data_kind)kind, dtype, s.rows * s.row_len);
        assert_int_equal(rp_spec_check(&s, NULL), RP_OK);
        rk_task t = {.spec = s, .data = data, .bytes = s.rows * s.row_len * size, .cells = cells};
        assert_true(rk_ranked_shares(&t, s.rows == 1 && dtype == RP_F64 ? 3 : 1) == (s.rows == 1 && dtype == RP_F64));
        rk_pieces *j = calloc(1, sizeof *j);
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        rk_cpu_begin(&t);
        rk_cut(j, &t, 2, rk_simd_best(), &lock);
        pthread_mutex_lock(&lock);
        while (j->next < j->pieces)
            rk_run_piece(j);
        pthread_mutex_unlock(&lock);
        assert_int_equal(j->left, 0);
        rk_finish_pieces(j);
        free(j);
        check_cells(&s, t.fault.code, &t.fault, cells);
        rp_fault f = {0};
        check_cells(&s, rk_reduce_here(&s, data, NULL, t.bytes, 2, 0, cells, &f), &f, cells);
    }
}

/* A task whose deadline is over begins no pass. */
static void deadlines(void **state)
{
    (void)state;
    static uint64_t cell;
    rp_spec s = {.op = RP_OP_MEDIAN, .dtype = RP_F32, .out = RP_F64, .rows = 1, .row_len = MOST};
    fill(BITS, RP_F32, MOST);
    for (int threads = 1; threads <= 3; threads += 2) {
        rp_fault f = {0};
        assert_int_equal(rk_reduce_here(&s, data, NULL, MOST * 4, threads, 1, &cell, &f), RP_DEADLINE);
        assert_int_equal(f.code, RP_DEADLINE);
        assert_int_equal(rk_reduce_here(&s, data, NULL, MOST * 4, threads, UINT64_MAX, &cell, &f), RP_OK);
    }
}

static void a_task_that_is_stopped(void **state)
{
    (void)state;
    static uint64_t cell;
    const rp_spec s = {.op = RP_OP_MEDIAN, .dtype = RP_F32, .out = RP_F64, .rows = 1, .row_len = MOST};
    rk_task t = {.spec = s, .data = data, .bytes = MOST * 4, .cells = &cell};
    rp_fault f = {0};
    fill(BITS, RP_F32, MOST);
    assert_int_equal(rk_ranked_lines(rk_simd_best(), &t, 0, 1, &f), RP_OK);
    rk_task_stop(&t);
    assert_int_equal(rk_ranked_lines(rk_simd_best(), &t, 0, 1, &f), RP_CANCELLED);
    assert_int_equal(f.code, RP_CANCELLED);
}

static rk_task *stopped;
static uint64_t looks, looks_until; /* at blocks */

static size_t stopping(const void *x, size_t n, const rk_keys *k, uint64_t lo, uint64_t hi, rk_between *t, void *out)
{
    if (__atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED) == looks_until)
        rk_task_stop(stopped);
    return rk_simd_best()->between[2](x, n, k, lo, hi, t, out);
}

/* A median of 64 MiB ends soon after, not at the end of the pass: 8 MiB, or a piece, are looked at. */
static void a_pass_that_is_stopped(void **state)
{
    (void)state;
    enum { N = 1 << 24, PART = (8 << 20) / 4 / RK_KEYS_AT_ONCE };
    float *x = calloc(N, sizeof *x);
    rk_simd simd = *rk_simd_best();
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t cell;
    simd.between[2] = stopping;
    looks_until = 10;
    for (int shared = 0; shared < 2; shared++) {
        rk_task t = {.spec = {.op = RP_OP_MEDIAN, .dtype = RP_F32, .out = RP_F64, .rows = 1, .row_len = N}, .data = (void *)x};
        rk_pieces *j = calloc(1, sizeof *j);
        rp_fault f = {0};
        t.bytes = N * sizeof *x;
        t.cells = &cell;
        cell = 7;
        looks = 0;
        stopped = &t;
        if (shared) {
            rk_cpu_begin(&t);
            rk_cut(j, &t, 2, &simd, &lock);
            pthread_mutex_lock(&lock);
            while (j->next < j->pieces)
                rk_run_piece(j);
            pthread_mutex_unlock(&lock);
            rk_finish_pieces(j);
            f = t.fault;
        } else {
            assert_int_equal(rk_ranked_lines(&simd, &t, 0, 1, &f), RP_CANCELLED);
        }
        assert_int_equal(f.code, RP_CANCELLED);
        assert_in_range(looks, looks_until, PART);
        assert_int_equal(cell, 7);
        free(j);
    }
    free(x);
}

/* ---- largest, smallest ---- */

enum { MOST_TOP = 300 };
typedef struct scored {
    uint64_t rank, index, bits;
} scored;
static scored line_scores[MOST];

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank) - (x->rank > y->rank) : (x->index > y->index) - (x->index < y->index);
}

/* The elements of a line that count. Returns how many. The best s->k of them come first, sorted. */
static uint64_t scores_of(const rp_spec *s, uint64_t line)
{
    uint64_t n = 0, best = 0;
    for (uint64_t i = 0; i < length_of(s); i++) {
        const uint64_t at = place_of(s, line, i), bits = bits_at(s->dtype, at), x = s->dtype == RP_BOOL ? bits != 0 : bits;
        if ((s->flags & RP_MASK && !mask[at]) || (s->nan == RP_NAN_OMIT && rk_is_nan(s->dtype, bits)))
            continue;
        ranks[n] = rk_rank(s->dtype, s->op == RP_OP_SMALLEST, x);
        line_scores[n] = (scored){ranks[n], i, x};
        n++;
    }
    const uint64_t least = n > (uint64_t)s->k ? kth_smallest(ranks, n, n - (uint64_t)s->k) : 0;
    for (uint64_t i = 0; i < n; i++)
        if (line_scores[i].rank >= least)
            line_scores[best++] = line_scores[i];
    qsort(line_scores, best, sizeof *line_scores, by_score);
    return n;
}

static void check_top_line(const rp_spec *s, uint64_t line, const uint8_t *cell)
{
    const uint64_t n = scores_of(s, line);
    for (uint64_t i = 0; i < (uint64_t)s->k; i++) {
        uint64_t value, index, want = rk_is_float(s->dtype) ? rk_nan_bits(rk_format_of(RP_F64)) : 0;
        memcpy(&value, cell + 8 * i, sizeof value);
        memcpy(&index, cell + 8 * ((uint64_t)s->k + i), sizeof index);
        if (i < n)
            assert_int_equal(rk_order_element(s->dtype, s->out, line_scores[i].bits, &want), RP_OK);
        assert_true(value == want);
        assert_true(index == (i < n ? line_scores[i].index + s->index_base : RP_NO_INDEX));
    }
}

static void check_top(const rk_simd *simd, rp_spec s, int threads)
{
    static uint8_t cells[MOST * 16];
    const rp_parts beside = {.mask = mask};
    const uint64_t bytes = rp_elements(&s) * rp_dtype_size(s.dtype);
    rp_fault f = {0};
    assert_int_equal(rp_spec_check_large(&s, NULL), RP_OK);
    assert_int_equal(rp_order_check(&s, NULL), RP_OK);
    rk_task t = {.spec = s, .data = data, .beside = &beside, .bytes = bytes, .cells = cells};
    const rp_err err = threads ? rk_reduce_here(&s, data, &beside, bytes + rp_elements(&s), threads, 0, cells, &f)
                               : rk_ranked_lines(simd, &t, 0, rp_results(&s), &f);
    for (uint64_t line = 0; line < rp_results(&s); line++) {
        if (s.nan == RP_NAN_ERROR && scores_of(&s, line) && rk_is_nan(s.dtype, line_scores[0].bits)) {
            assert_int_equal(err, RP_NAN);
            assert_int_equal(f.index, line);
            return;
        }
        if (!err)
            check_top_line(&s, line, cells + line * rp_cell_size(&s));
    }
    assert_int_equal(err, RP_OK);
}

static void the_best_of_whatever_data(void **state)
{
    (void)state;
    for (int i = 0; i < rk_simd_count; i++)
        for (int dtype = RP_I8; rk_simd_runs(rk_simds[i]) && dtype <= RP_DTYPE_COUNT; dtype++)
            for (int round = 0; round < 6 * KINDS; round++) {
                const uint64_t most = round % 8 == 0 ? 1 << 13 : 1 << any(9);
                fill((data_kind)(round % KINDS), dtype, most);
                for (uint64_t k = 0; k < most; k++)
                    mask[k] = any(3) != 0;
                rp_spec s = random_spec(dtype, most);
                s.op = any(2) ? RP_OP_LARGEST : RP_OP_SMALLEST;
                s.k = 1 + (int64_t)any(any(3) ? 4 : any(2) ? 20 : MOST_TOP);
                s.k = rp_results(&s) > 1000 ? 1 + s.k % 16 : s.k;
                s.index_base = any(2) * 1000;
                check_top(rk_simds[i], s, 0);
            }
}

/* Lines with a sample; alone, and shared by threads. */
static void the_best_of_long_lines(void **state)
{
    (void)state;
    static const uint8_t types[] = {RP_F64, RP_F32, RP_I64, RP_F16, RP_U8};
    for (int kind = 0; kind < 2 * KINDS; kind++) {
        const int dtype = types[(size_t)kind % sizeof types];
        rp_spec s = {.op = kind < KINDS ? RP_OP_LARGEST : RP_OP_SMALLEST, .dtype = (uint8_t)dtype, .rows = 1};
        s.row_len = MOST;
        s.nan = any(2) ? RP_NAN_OMIT : RP_NAN_PROPAGATE;
        s.k = any(4) ? 1 + (int64_t)any(200) : 5000;
        s.flags = any(2) ? RP_MASK : 0;
        fill((data_kind)(kind % KINDS), dtype, MOST);
        for (uint64_t i = 0; i < MOST; i++)
            mask[i] = any(9) != 0;
        for (int threads = ALONE_TOO ? 0 : 3; threads <= 3; threads += 3)
            check_top(rk_simd_best(), s, threads);
    }
}

/* ---- histogram ---- */

static double value_of(int dtype, uint64_t bits)
{
    double d;
    if (!rk_is_float(dtype))
        return rk_is_signed(dtype) ? (double)(int64_t)rk_sign_extend(bits, rk_bytes(dtype)) : (double)bits;
    bits = rk_convert_float(dtype, bits, RP_F64);
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* Edges near elements, and far away. Narrow types only: their values are doubles. */
static uint32_t random_edges(int dtype, uint64_t elements, bool few, double *edge)
{
    const uint32_t n = 2 + (uint32_t)any(few || any(4) ? 9 : 300);
    for (uint32_t i = 0; i < n; i++) {
        double e = value_of(dtype, dtype == RP_BOOL ? any(2) : bits_at(dtype, elements ? any(elements) : 0));
        e = e != e ? 0 : e;
        const uint64_t how = any(8);
        edge[i] = how == 0   ? e + 0.5
                  : how == 1 ? e * 1.0000000001
                  : how == 2 ? (any(2) ? 1e300 : -1e300)
                  : how == 3 ? 1 / ((double)any(2) - 0.5) * (any(2) ? 1e-320 : 1e308 * 10)
                             : e;
    }
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j && edge[j - 1] > edge[j]; j--) {
            const double swap = edge[j];
            edge[j] = edge[j - 1];
            edge[j - 1] = swap;
        }
    return n;
}

static void check_bins(const rk_simd *simd, rp_spec s, int threads)
{
    static uint64_t cells[1 << 17];
    static double edge[512];
    const uint64_t bytes = rp_elements(&s) * rp_dtype_size(s.dtype);
    const rp_parts beside = {.mask = mask};
    rp_fault f = {0};
    s.n_edges = random_edges(s.dtype, rp_elements(&s), rp_results(&s) > 400, edge);
    s.edges = (const uint8_t *)edge;
    assert_int_equal(rp_spec_check_large(&s, NULL), RP_OK);
    assert_int_equal(rp_order_check(&s, NULL), RP_OK);
    assert_int_equal(rp_cell_size(&s), 8 * (s.n_edges + 2));
    rk_task t = {.spec = s, .data = data, .beside = &beside, .bytes = bytes, .cells = cells};
    const rp_err err = threads ? rk_reduce_here(&s, data, &beside, bytes + rp_elements(&s), threads, 0, cells, &f)
                               : rk_ranked_lines(simd, &t, 0, rp_results(&s), &f);
    for (uint64_t line = 0; line < rp_results(&s); line++) {
        uint64_t want[512] = {0};
        for (uint64_t n = line_of(&s, line, line_bits), i = 0; i < n; i++) {
            const double x = value_of(s.dtype, s.dtype == RP_BOOL ? line_bits[i] != 0 : line_bits[i]);
            uint32_t bin = 0;
            while (bin + 2 < s.n_edges && x >= edge[bin + 1])
                bin++;
            want[x != x ? s.n_edges + 1 : x < edge[0] ? s.n_edges - 1 : x > edge[s.n_edges - 1] ? s.n_edges : bin]++;
        }
        if (want[s.n_edges + 1] && s.nan == RP_NAN_ERROR) {
            assert_int_equal(err, RP_NAN);
            assert_int_equal(f.index, line);
            return;
        }
        if (!err)
            assert_memory_equal(cells + line * (s.n_edges + 2), want, 8 * (s.n_edges + 2));
    }
    assert_int_equal(err, RP_OK);
}

static void bins_of_whatever_data(void **state)
{
    (void)state;
    for (int i = 0; i < rk_simd_count; i++)
        for (int dtype = RP_I8; rk_simd_runs(rk_simds[i]) && dtype <= RP_DTYPE_COUNT; dtype++)
            for (int round = 0; round < 60 && dtype != RP_I64 && dtype != RP_U64; round++) {
                const uint64_t most = round % 8 == 0 ? 1 << 13 : 1 << any(8);
                fill((data_kind)(round % KINDS), dtype, most);
                for (uint64_t k = 0; k < most; k++)
                    mask[k] = any(3) != 0;
                rp_spec s = random_spec(dtype, most);
                s.op = RP_OP_HISTOGRAM;
                s.k = 0;
                check_bins(rk_simds[i], s, 0);
            }
}

static void threads_count_in_bins(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        rp_spec s = {.op = RP_OP_HISTOGRAM, .dtype = RP_F64, .rows = 1, .row_len = MOST, .flags = kind % 2 ? RP_MASK : 0};
        fill((data_kind)kind, RP_F64, MOST);
        check_bins(NULL, s, 2);
    }
}

/* ---- bins of one width ---- */

/* What an even bin may get wrong: elements at an edge and beside it, far away, NaNs; and strips of equal ones. */
static void fill_around(int dtype, const double *edge, uint32_t n, uint64_t elements, bool turns)
{
    const size_t size = rp_dtype_size(dtype);
    const uint64_t nan = rk_nan_bits(rk_format_of(dtype)), inf = rk_inf_bits(rk_format_of(dtype)),
                   sign = rk_sign_bit(rk_format_of(dtype), 1);
    const bool calm = any(2) != 0, equal = any(4) == 0;
    for (uint64_t i = 0; i < elements; i++) {
        const double low = edge[0] + (edge[n - 1] - edge[0]) * ((double)any(1 << 20) * 0x1.2p-20 - 0x1p-4);
        double e = any(8) && calm ? low : edge[any(n)];
        uint64_t bits;
        memcpy(&bits, &e, sizeof bits);
        bits = rk_convert_float(RP_F64, bits, dtype);
        if (!calm || any(64) == 0)
            bits += any(5) - 2;
        if (!calm && any(32) == 0)
            bits = any(2) ? nan | any(2) * sign : any(2) ? inf | any(2) * sign : any(4) | any(2) * sign;
        if (equal && i % 1024 > 200)
            memcpy(&bits, data + (i - 1) * size, size);
        if (turns && i > 1) /* a pair of bins comes as often as it can */
            memcpy(&bits, data + (i - 2) * size, size);
        memcpy(data + i * size, &bits, size);
        mask[i] = any(9) != 0;
    }
}

static uint32_t even_edges(double *edge)
{
    static const double lows[] = {-3, 0, 1e6, -1e-30, 0.1, -255, 1e-310, -0.0};
    const uint32_t n = 2 + (uint32_t)any(130);
    const double low = lows[any(8)], width = any(3) ? 6.0 : any(2) ? 1.0 * (n - 1) : low * 0.3 + 1e-38;
    for (uint32_t i = 0; i < n; i++) {
        edge[i] = low + i * (width / (n - 1));
        if (i && !(edge[i] > edge[i - 1]))
            return i;
    }
    return n;
}

/* Which bin has each element is known by comparing it with the edges. */
static void check_even(const rk_simd *simd, int dtype, uint64_t elements, bool masked, bool turns)
{
    static double edge[256];
    static uint64_t cells[256];
    uint64_t want[256] = {0};
    const uint32_t n = even_edges(edge);
    rp_spec s = {.op = RP_OP_HISTOGRAM,
                 .dtype = (uint8_t)dtype,
                 .rows = 1,
                 .row_len = elements,
                 .flags = masked ? RP_MASK : 0,
                 .n_edges = n,
                 .edges = (const uint8_t *)edge};
    const rp_parts beside = {.mask = mask};
    rp_fault f = {0};
    if (n < 2)
        return;
    fill_around(dtype, edge, n, elements, turns);
    rk_task t = {.spec = s, .data = data, .beside = &beside, .bytes = elements * rp_dtype_size(dtype), .cells = cells};
    assert_int_equal(rk_ranked_lines(simd, &t, 0, 1, &f), RP_OK);
    for (uint64_t i = 0; i < elements; i++) {
        const double x = value_of(dtype, bits_at(dtype, i));
        uint32_t bin = 0;
        while (bin + 2 < n && x >= edge[bin + 1])
            bin++;
        want[x != x ? n + 1 : x < edge[0] ? n - 1 : x > edge[n - 1] ? n : bin] += !masked || mask[i];
    }
    assert_memory_equal(cells, want, 8 * (n + 2));
}

static void bins_of_one_width(void **state)
{
    (void)state;
    for (int i = 0; i < rk_simd_count; i++)
        for (int round = 0; rk_simd_runs(rk_simds[i]) && round < 40; round++)
            check_even(rk_simds[i], round % 2 ? RP_F32 : RP_F64, round < 8 ? MOST : (1 << 16) + any(300), round % 7 == 3,
                       round < 6);
}

/* Integers that are no doubles, against edges that lie between them. */
static void edges_beside_wide_integers(void **state)
{
    (void)state;
    static const struct {
        int dtype;
        double edge;
        bool beyond, there;
        uint64_t first;
    } cases[] = {
        {RP_U64, 18446744073709551616.0, false, false, 0},
        {RP_U64, 18446744073709549568.0, false, true, UINT64_MAX - 2047},
        {RP_U64, 18446744073709549568.0, true, true, UINT64_MAX - 2046},
        {RP_I64, 9223372036854775808.0, false, false, 0},
        {RP_I64, -9223372036854775808.0, false, true, UINT64_C(1) << 63},
        {RP_I64, -9223372036854775808.0, true, true, (UINT64_C(1) << 63) + 1},
        {RP_I64, -1e300, true, true, UINT64_C(1) << 63},
        {RP_I64, -2.5, false, true, (uint64_t)-2},
        {RP_I64, 2.5, true, true, 3},
        {RP_I64, -0.0, false, true, 0},
        {RP_I64, -0.0, true, true, 1},
        {RP_U64, -3, true, true, 0},
        {RP_I8, 127, true, false, 0},
        {RP_I8, 126.5, true, true, 127},
        {RP_BOOL, 1, true, false, 0},
        {RP_BOOL, 0.5, false, true, 1},
        {RP_F16, 1e-300, false, true, 1},
        {RP_F16, -1e-300, false, true, 0x8000},
        {RP_F32, 0, false, true, 0x80000000},
        {RP_F32, -0.0, true, true, 1},
        {RP_F32, 1e300, false, true, 0x7f800000},
        {RP_F32, 1e308 * 10, true, false, 0},
        {RP_F64, -1e308 * 10, true, true, 0xffefffffffffffff},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bits = 0;
        assert_int_equal(rk_from_edge(cases[i].dtype, cases[i].edge, cases[i].beyond, &bits), cases[i].there);
        if (cases[i].there)
            assert_int_equal(bits, cases[i].first);
    }
}

int main(void)
{
    const struct CMUnitTest alone[] = {cmocka_unit_test(whatever_data),
                                       cmocka_unit_test(many_short_lines),
                                       cmocka_unit_test(long_lines),
                                       cmocka_unit_test(passes_in_pieces),
                                       cmocka_unit_test(many_ranks),
                                       cmocka_unit_test(ranks_at_the_last_key),
                                       cmocka_unit_test(zeros_between_brackets),
                                       cmocka_unit_test(keys_in_ranges),
                                       cmocka_unit_test(a_sample_that_misleads),
                                       cmocka_unit_test(data_that_change_meanwhile),
                                       cmocka_unit_test(lists_of_data_that_change),
                                       cmocka_unit_test(deadlines),
                                       cmocka_unit_test(a_task_that_is_stopped),
                                       cmocka_unit_test(a_pass_that_is_stopped),
                                       cmocka_unit_test(the_best_of_whatever_data),
                                       cmocka_unit_test(bins_of_whatever_data),
                                       cmocka_unit_test(bins_of_one_width),
                                       cmocka_unit_test(edges_beside_wide_integers)};
    const struct CMUnitTest together[] = {cmocka_unit_test(threads_share_a_line), cmocka_unit_test(the_best_of_long_lines),
                                          cmocka_unit_test(threads_count_in_bins)};
    const int failed = ALONE_TOO ? cmocka_run_group_tests(alone, NULL, NULL) : 0;
    return failed + cmocka_run_group_tests(together, NULL, NULL);
}
