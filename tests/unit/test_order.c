/* Order statistics on the CPU against sorting: every element type and instruction set, whatever data, shapes, masks, and
 * lines that threads share. */
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
#include "kernels/exact/total_order.h"
#include "proto/tagged.h"
#include "tests/unit/sanitized.h"

enum { MOST = 1 << 19, LONG = 1 << 17 };

static uint8_t data[MOST * 8], mask[MOST];
static uint64_t seed = 1;

static uint64_t any(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 16) % below;
}

/* ---- what is right: sorted ranks ---- */

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The ranks of a line's elements in total_order.h's order, sorted, without NaNs. Returns how many; *nans: the NaNs. */
static uint64_t sorted_line(int dtype, const uint64_t *bits, uint64_t n, uint64_t *out, uint64_t *nans)
{
    uint64_t k = 0;
    *nans = 0;
    for (uint64_t i = 0; i < n; i++) {
        const bool nan = rk_is_nan(dtype, bits[i]);
        *nans += nan;
        out[k] = rk_rank(dtype, 0, dtype == RP_BOOL ? bits[i] != 0 : bits[i]);
        k += !nan;
    }
    qsort(out, k, sizeof *out, by_value);
    return k;
}

/* ---- data ---- */

typedef enum { BITS, EQUAL, TWO, SORTED, ORGAN_PIPE, HALF_NAN, SUBNORMAL, FEW, KINDS } data_kind;

static void fill(data_kind kind, int dtype, uint64_t n)
{
    const size_t size = rp_dtype_size(dtype);
    const bool is_float = rk_is_float(dtype);
    const uint64_t nan = is_float ? rk_nan_bits(rk_format_of(dtype)) : 0, two[2] = {any(UINT64_MAX), any(UINT64_MAX)};
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t up = i < n / 2 ? i : n - i;
        uint64_t x = any(UINT64_MAX);
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

/* Elements of line `line` that count, in `bits`. */
static uint64_t line_of(const rp_spec *s, uint64_t line, uint64_t *bits)
{
    uint64_t n = 0, planes = rp_planes(s), row = s->row_len;
    for (uint64_t p = 0; p < planes; p++)
        for (uint64_t r = 0; r < s->rows; r++)
            for (uint64_t c = 0; c < row; c++) {
                const uint64_t at = (p * s->rows + r) * row + c, of = s->flags & RP_COLUMNS ? p * row + c : r;
                if (of == line && !(s->flags & RP_MASK && !mask[at]))
                    bits[n++] = bits_at(s->dtype, at);
            }
    return n;
}

static uint64_t line_bits[MOST], ranks[MOST];

/* The cell of kth, converted; integers have room in 64 bits. */
static rp_err kth_of(const rp_spec *s, uint64_t line, uint64_t *word)
{
    uint64_t nans;
    const uint64_t n = sorted_line(s->dtype, line_bits, line_of(s, line, line_bits), ranks, &nans);
    if (nans && s->nan == RP_NAN_ERROR)
        return RP_NAN;
    *word = rk_nan_bits(rk_format_of(RP_F64));
    if (!n || (nans && s->nan == RP_NAN_PROPAGATE))
        return rk_is_float(s->dtype) ? RP_OK : RP_EMPTY;
    const int64_t k = s->k < 0 ? s->k + (int64_t)n : s->k;
    if (k < 0 || (uint64_t)k >= n)
        return RP_SHAPE;
    const uint64_t bits = rk_unrank(s->dtype, 0, ranks[k]);
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
        err = rk_reduce_here(&s, data, &beside, n * (rp_dtype_size(s.dtype) + 1), threads, cells, &f);
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
    const uint64_t line = s.flags & RP_COLUMNS ? s.rows : s.row_len * rp_planes(&s);
    s.k = (int64_t)any(line + 1) - (any(2) ? (int64_t)line : 0);
    return s;
}

static void whatever_data(void **state)
{
    (void)state;
    for (int i = 0; i < rk_simd_count; i++)
        for (int dtype = RP_I8; rk_simd_runs(rk_simds[i]) && dtype <= RP_DTYPE_COUNT; dtype++)
            for (int round = 0; round < 40; round++) {
                const uint64_t most = round % 8 == 0 ? 1 << 14 : 1 << any(9);
                fill((data_kind)(round % KINDS), dtype, most);
                for (uint64_t k = 0; k < most; k++)
                    mask[k] = any(3) != 0;
                check_task(rk_simds[i], random_spec(dtype, most), 0);
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

/* Each pass by hand, as threads do it: in pieces of any length, in any order. */
static void passes_in_pieces(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * KINDS; round++) {
        uint64_t want;
        fill((data_kind)(round % KINDS), RP_F64, LONG);
        const rp_spec s = {
            .op = RP_OP_KTH, .dtype = RP_F64, .out = RP_F64, .rows = 1, .row_len = LONG, .nan = RP_NAN_OMIT, .k = LONG / 5};
        uint64_t cell;
        const rk_task t = {.spec = s, .data = data, .bytes = LONG * 8, .cells = &cell};
        rk_ranking *r = calloc(1, sizeof *r);
        rp_fault f;
        bool again = true;
        rk_ranked_line(rk_simd_best(), &t, 0, r);
        r->memory = round < KINDS ? 0 : 8 * 64 * sizeof(double); /* 64 keys: then digits must do it */
        assert_true(rk_ranking_open(r));
        while (again) {
            uint64_t middle = any(LONG), first = any(middle + 1);
            rk_ranking_pass(r, middle, LONG);
            rk_ranking_pass(r, 0, first);
            rk_ranking_pass(r, first, middle);
            assert_true(rk_ranking_next(r, &again));
            assert_in_range(r->passes, 1, 7);
        }
        assert_int_equal(rk_ranked_finish(&t, 0, r, &f), kth_of(&s, 0, &want));
        assert_true(cell == want);
        rk_ranking_close(r);
        free(r);
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
        rk_ranking *r = calloc(1, sizeof *r);
        rp_fault f;
        bool again = true;
        rk_ranked_line(rk_simd_best(), &t, 0, r);
        assert_true(rk_ranking_open(r));
        while (again) {
            fill((data_kind)any(KINDS), RP_F32, LONG);
            rk_ranking_pass(r, 0, LONG);
            assert_true(rk_ranking_next(r, &again));
            assert_in_range(r->passes, 1, 32);
        }
        rk_ranked_finish(&t, 0, r, &f);
        rk_ranking_close(r);
        free(r);
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
        check_cells(&s, rk_reduce_here(&s, data, NULL, t.bytes, 2, cells, &f), &f, cells);
    }
}

int main(void)
{
    const struct CMUnitTest alone[] = {cmocka_unit_test(whatever_data), cmocka_unit_test(long_lines),
                                       cmocka_unit_test(passes_in_pieces), cmocka_unit_test(a_sample_that_misleads),
                                       cmocka_unit_test(data_that_change_meanwhile)};
    const struct CMUnitTest together[] = {cmocka_unit_test(threads_share_a_line)};
    const int failed = ALONE_TOO ? cmocka_run_group_tests(alone, NULL, NULL) : 0;
    return failed + cmocka_run_group_tests(together, NULL, NULL);
}
