/* Sums (sum_near.h), those of squares (squares_near.h), too, and logarithms of products (near_products.h) that are near the
 * exact ones: no further away than they say, and finished only where that is enough. The exact ones are those of the loops that
 * test_cpu.c checks against the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops/sums/add_to_limbs.h"
#include "kernels/cpu/loops/sums/near.h"
#include "kernels/exact/cell.h"
#include "tests/unit/oracle.h"
#include "tests/unit/sanitized.h"

static const int floats[] = {RP_F16, RP_BF16, RP_F32, RP_F64};
static const int sums[] = {RP_OP_SUM, RP_OP_MEAN, RP_OP_NORM1, RP_OP_PROD, RP_OP_RMS, RP_OP_VAR, RP_OP_SEM};
enum { FLOATS = 4, SUMS = 7, MOST = 70000 };

#define EACH_FLOAT(dtype) for (int f_ = 0, dtype = floats[0]; f_ < FLOATS; dtype = floats[++f_ % FLOATS])
#define EACH_SUM(op) for (int s_ = 0, op = sums[0]; s_ < SUMS; op = sums[++s_ % SUMS])

static _Alignas(64) uint8_t data[8 * MOST + 64];

/* ---- how near ---- */

/* limb[0..n) is negative, as two's complement */
static bool negative(const uint64_t *limb, int n) { return limb[n - 1] >> 63; }

/* Limbs of what is near, in units of 2^unit_of. */
static int limbs_of(const rk_state *s)
{
    const int squares = rk_square_limbs(s->layout);
    return s->layout == RP_STATE_PROD ? 3 : squares ? squares : rk_sum_limbs(s->layout);
}
/* Limbs before them, of a sum that is exact. */
static int before(const rk_state *s) { return rk_square_limbs(s->layout) ? rk_sum_limbs(s->layout) : 0; }
static int unit_of(const rk_state *s)
{
    return s->layout == RP_STATE_PROD ? -RK_LOG2_FRACTION : (rk_square_limbs(s->layout) ? 2 : 1) * rk_e0(s->dtype);
}

/* Is exact - (near + by) negative? */
static bool below(const rk_state *exact, const rk_state *near, double by)
{
    rk_state s = *near;
    const int n = limbs_of(&s), from = before(&s);
    uint64_t borrow = 0, difference[RP_MAX_LIMBS];
    add_number(s.limb + from, n, unit_of(&s), by);
    for (int i = 0; i < n; i++) {
        const unsigned __int128 d = (unsigned __int128)exact->limb[from + i] - s.limb[from + i] - borrow;
        difference[i] = (uint64_t)d;
        borrow = (uint64_t)(d >> 64) & 1;
    }
    return negative(difference, n);
}

/* Returns what the sum neglects. */
static double check_near(const rk_simd *simd, int op, int dtype, int nan, const uint8_t *x, uint64_t n, int family)
{
    rk_near_fn *run = op == RP_OP_PROD ? simd->near_product[dtype] : simd->near_sum[dtype];
    rk_state near, exact;
    double neglected;
    if (!run || (dtype != RP_F64 && rk_square_limbs(rp_state_layout(op, dtype))))
        return 0;
    rk_state_init(&near, rp_state_layout(op, dtype), dtype);
    const double unit = ldexp(1, unit_of(&near));
    exact = near;
    run(&near, x, n, nan, &neglected);
    simd->reduce[near.layout][dtype](&exact, x, n, 0, nan);
    const bool heads = memcmp(&near, &exact, offsetof(rk_state, limb) + 8 * (size_t)before(&exact)) == 0;
    const bool inside = exact.special || (!below(&exact, &near, -neglected - unit) && !below(&near, &exact, -neglected - unit));
    const bool same = neglected > 0 || memcmp(&near, &exact, rp_state_size(exact.layout)) == 0;
    if (heads && inside && same)
        return neglected;
    print_error("%s: %s of %llu %s, family %d: neglected %g, heads %d, inside %d, same %d\n", simd->name, rp_op_name(op),
                (unsigned long long)n, rp_dtype_name(dtype), family, neglected, heads, inside, same);
    fail();
    return 0;
}

static void as_near_as_they_say(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {1, 33, 300, 2048, 2049, 5000, 20000, MOST};
    int neglecting[RP_OP_END][RP_F64 + 1] = {0};
    t_rng r = {7};
    EACH_FLOAT(dtype)
    for (int family = 0; family < T_FAMILIES; family++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            uint8_t *x = data + t_below(&r, 9);
            t_fill(&r, dtype, family, x, lengths[i]);
            for (int k = 0; k < rk_simd_count; k++)
                if (rk_simd_runs(rk_simds[k]))
                    EACH_SUM(op)
            neglecting[op][dtype] += check_near(rk_simds[k], op, dtype, (int)(i % 3), x, lengths[i], family) > 0;
        }
    EACH_FLOAT(dtype)
    {
        assert_true(!rk_simd_best()->near_product[dtype] || neglecting[RP_OP_PROD][dtype] > 0);
        assert_int_equal(neglecting[RP_OP_SUM][dtype] > 0, dtype != RP_F16); /* doubles hold any block of f16 */
    }
    assert_true(neglecting[RP_OP_RMS][RP_F64] > 0 && neglecting[RP_OP_VAR][RP_F64] > 0);
}

/* ---- results ---- */

/* The cell of n elements by their exact state. */
static int exact_cell(const rp_spec *s, const uint8_t *x, uint64_t n, uint8_t *cell)
{
    rk_state exact;
    rk_state_init(&exact, rp_state_layout(s->op, s->dtype), s->dtype);
    rk_simd_best()->reduce[exact.layout][s->dtype](&exact, x, n, 0, s->nan);
    return rk_cell_write(&exact, s, cell);
}

static void check_cells(const rp_spec *s, const uint8_t *x, int threads, int family)
{
    const size_t size = rp_cell_size(s), row = (size_t)s->row_len * rp_dtype_size(s->dtype);
    uint8_t cells[8 * 16], want[8];
    rp_fault fault = {0};
    const rp_err code = rk_reduce_here(s, x, NULL, (size_t)s->rows * row, threads, 0, cells, &fault);
    for (uint64_t k = 0; k < s->rows; k++) {
        const int wanted = exact_cell(s, x + k * row, s->row_len, want);
        if (code != RP_OK || wanted != RP_OK ? (code != RP_OK) != (wanted != RP_OK)
                                             : memcmp(cells + k * size, want, size) != 0) {
            print_error("%s of %llu x %llu %s to %s, family %d, %d threads: row %llu\n", rp_op_name(s->op),
                        (unsigned long long)s->rows, (unsigned long long)s->row_len, rp_dtype_name(s->dtype),
                        rp_dtype_name(s->out), family, threads, (unsigned long long)k);
            fail();
        }
    }
}

static void finished_as_exactly(void **state)
{
    (void)state;
    static const uint64_t rows[] = {1, 2, 7};
    t_rng r = {8};
    EACH_FLOAT(dtype)
    for (int family = 0; family < T_FAMILIES; family++)
        for (int out = RP_F16; out <= RP_F64; out++)
            for (size_t i = 0; i < 3; i++)
                EACH_SUM(op)
                {
                    const rp_spec s = {.op = (uint8_t)op,
                                       .dtype = (uint8_t)dtype,
                                       .out = (uint8_t)out,
                                       .flags = i == 1 ? RP_INITIAL : 0,
                                       .initial = 1,
                                       .rows = rows[i],
                                       .row_len = 1024 + t_below(&r, 8000)};
                    t_fill(&r, dtype, family, data, s.rows * s.row_len);
                    check_cells(&s, data, 1, family);
                }
}

/* Large enough for helpers. A sum of pairs that cancel is never certain, so all runs once more. */
static void together_and_once_more(void **state)
{
    (void)state;
    enum { N = 3 << 20 };
    uint8_t *x = malloc(8 * N);
    t_rng r = {9};
    assert_non_null(x);
    for (int dtype = RP_F32; dtype <= RP_F64; dtype++)
        for (int family = T_NARROW; family <= T_CANCEL; family += ALONE_TOO ? 1 : 3)
            for (int threads = ALONE_TOO ? 1 : 4; threads <= 4; threads += 3) {
                rp_spec s = {.op = RP_OP_SUM, .dtype = (uint8_t)dtype, .out = RP_F64, .rows = 1, .row_len = N};
                t_fill(&r, dtype, family, x, N);
                check_cells(&s, x, threads, family);
                s.op = RP_OP_VAR;
                check_cells(&s, x, threads, family);
            }
    for (uint64_t i = 0; i < N / 2; i++) { /* the second half cancels the first one, but for the last element */
        const double v = ldexp(1 + (double)t_below(&r, 1 << 30) * 0x1p-40, (int)t_below(&r, 1000) - 500), minus = -v;
        memcpy(x + 8 * i, &v, sizeof v);
        memcpy(x + 8 * (N / 2 + i), &minus, sizeof v);
    }
    const double all_but = -0x1p-1074, none = 0;
    memcpy(x + 8 * (N / 2 - 1), &none, sizeof none);
    memcpy(x + 8 * (N - 1), &all_but, sizeof all_but);
    const rp_spec s = {.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .rows = 1, .row_len = N};
    for (int threads = ALONE_TOO ? 1 : 4; threads <= 4; threads += 3)
        check_cells(&s, x, threads, -1);
    free(x);
}

/* Elements that are alike, more so with each kind, so that their variance is as small as what is neglected. In some kinds half
 * of them are equal. */
static void spreads_of_what_is_alike(void **state)
{
    (void)state;
    enum { N = 40000 };
    t_rng r = {12};
    for (int kind = 0; kind < 60 * 4; kind++) {
        const double part = ldexp(1, -(kind / 4)), mean = kind & 1 ? 0x1.8p400 : -3;
        double *x = (double *)(void *)data;
        for (uint64_t i = 0; i < N; i++)
            x[i] = mean * (1 + part * (double)t_below(&r, 1 << 20) * 0x1p-20);
        if (kind & 2)
            for (uint64_t i = 0; i < N / 2; i++)
                x[i] = mean;
        for (int op = RP_OP_VAR; op; op = op == RP_OP_VAR ? RP_OP_SEM : 0)
            for (int out = RP_F32; out <= RP_F64; out++) {
                const rp_spec s = {.op = (uint8_t)op, .dtype = RP_F64, .out = (uint8_t)out, .ddof = 1, .rows = 1, .row_len = N};
                check_cells(&s, data, 1, -kind);
            }
    }
}

/* Products of columns are those of the same rows. */
static void check_columns(const double *x, uint64_t rows, uint64_t columns, int threads)
{
    const rp_spec s = {.op = RP_OP_PROD, .dtype = RP_F64, .out = RP_F64, .flags = RP_COLUMNS, .rows = rows, .row_len = columns};
    const rp_spec turned = {.op = RP_OP_PROD, .dtype = RP_F64, .out = RP_F64, .rows = columns, .row_len = rows};
    double cells[8], want[8], *y = malloc(8 * rows * columns);
    rp_fault fault = {0};
    assert_non_null(y);
    for (uint64_t i = 0; i < rows * columns; i++)
        y[i % columns * rows + i / columns] = x[i];
    assert_int_equal(rk_reduce_here(&s, x, NULL, 8 * rows * columns, threads, 0, cells, &fault), RP_OK);
    assert_int_equal(rk_reduce_here(&turned, y, NULL, 8 * rows * columns, 1, 0, want, &fault), RP_OK);
    assert_memory_equal(cells, want, 8 * columns);
    free(y);
}

/* A product that several threads share: of numbers near 1, so that it stays in range, with some that are not normal, and one
 * that is a tie, which is never certain. */
static void products_together(void **state)
{
    (void)state;
    enum { N = 3 << 20 };
    double *x = malloc(8 * N);
    t_rng r = {11};
    assert_non_null(x);
    for (int kind = 0; kind < 4; kind++) {
        for (uint64_t i = 0; i < N; i++)
            x[i] = kind == 3 ? 1 : (t_below(&r, 2) ? 1 : -1) * (1 + ((double)t_below(&r, 1 << 30) - (1 << 29)) * 0x1p-40);
        if (kind == 1 || kind == 2)
            x[t_below(&r, N)] = kind == 1 ? 0x1p-1070 : -(double)INFINITY;
        if (kind == 3) {
            x[N / 3] = 1 + 0x1p-52;
            x[N - 1] = -1.5;
        }
        const rp_spec s = {.op = RP_OP_PROD, .dtype = RP_F64, .out = RP_F64, .rows = 1, .row_len = N};
        for (int threads = ALONE_TOO ? 1 : 4; threads <= 4; threads++) {
            check_cells(&s, (const uint8_t *)x, threads, -1 - kind);
            check_columns(x, N / 3, 3, threads);
        }
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(as_near_as_they_say),
        cmocka_unit_test(finished_as_exactly),
        cmocka_unit_test(spreads_of_what_is_alike),
    };
    const struct CMUnitTest together[] = {
        cmocka_unit_test(together_and_once_more),
        cmocka_unit_test(products_together),
    };
    uint64_t saved = rk_fp_enter();
    int failed = ALONE_TOO ? cmocka_run_group_tests(alone, NULL, NULL) : 0;
    failed += cmocka_run_group_tests(together, NULL, NULL);
    rk_fp_leave(saved);
    return failed;
}
