/* Lines that the CPU engine finishes without states, all instruction sets, against adding one element at a time: short columns,
 * short rows, products, and results that the first elements decide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/stateless_lines.h"
#include "kernels/exact/cell.h"
#include "tests/unit/oracle.h"
#include "tests/unit/sanitized.h"

enum { GUARD = 0xa5, MOST_CELL = 16 /* bytes */ };

static const int ops[] = {RP_OP_SUM,    RP_OP_MEAN,   RP_OP_MIN,           RP_OP_MAX, RP_OP_RANGE, RP_OP_MINMAX,
                          RP_OP_ARGMIN, RP_OP_ARGMAX, RP_OP_COUNT_NONZERO, RP_OP_ANY, RP_OP_ALL,   RP_OP_PROD,
                          RP_OP_SUMSQ,  RP_OP_NORM2,  RP_OP_RMS,           RP_OP_VAR, RP_OP_STD,   RP_OP_SEM};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- one task: what it must give, and what each table gives ---- */

static rk_task task_of(int op, int dtype, int out, int nan, uint32_t flags, uint64_t rows, uint64_t row_len, const void *data)
{
    rk_task t = {.spec = {.op = (uint8_t)op,
                          .dtype = (uint8_t)dtype,
                          .out = (uint8_t)out,
                          .nan = (uint8_t)nan,
                          .flags = flags,
                          .rows = rows,
                          .row_len = row_len},
                 .data = data,
                 .bytes = (size_t)(rows * row_len) * rp_dtype_size(dtype)};
    t.spec.ddof = op == RP_OP_VAR || op == RP_OP_STD || op == RP_OP_SEM ? (uint32_t)(rows + row_len) % 3 : 0;
    assert_int_equal(rp_spec_check(&t.spec, NULL), RP_OK);
    return t;
}

/* The definition: elements one by one to a state, and that to the cell. Returns the first error, and whose it is. */
static int define(const rk_task *t, uint8_t *cells, uint64_t *bad)
{
    const size_t size = rp_dtype_size(t->spec.dtype);
    const uint8_t *mask = rp_spec_parts(&t->spec, t->data, t->beside).mask;
    int first = RP_OK;
    for (uint64_t i = 0; i < rp_results(&t->spec); i++) {
        rk_line l = rk_line_of(&t->spec, NULL, i);
        rk_state s;
        rk_state_init(&s, rp_state_layout(t->spec.op, t->spec.dtype), t->spec.dtype);
        for (uint64_t k = 0; k < rk_cpu_elements(&t->spec); k++) {
            const uint64_t at = rk_in_runs(&t->spec) ? rk_place_in_runs(&t->spec, i, k) : l.first + k * l.stride;
            if (!mask || mask[at])
                rk_state_add(&s, t_bits(t->spec.dtype, (const uint8_t *)t->data + at * size), t->spec.index_base + t->base + k,
                             t->spec.nan);
        }
        const int code = rk_cell_write(&s, &t->spec, cells + i * rp_cell_size(&t->spec));
        if (code != RP_OK && first == RP_OK) {
            first = code;
            *bad = i;
        }
    }
    return first;
}

static void complain(const rk_task *t, const rk_simd *simd, const char *what, uint64_t at)
{
    fail_msg("%s: %s of %s to %s, policy %s, flags %u, %d rows of %d, %d planes, %s: cell %d", simd->name,
             rp_op_name(t->spec.op), rp_dtype_name(t->spec.dtype), rp_dtype_name(t->spec.out), rp_nan_name(t->spec.nan),
             (unsigned)t->spec.flags, (int)t->spec.rows, (int)t->spec.row_len, (int)t->spec.planes, what, (int)at);
}

/* Nothing is written beside the cells, which may lie anywhere. */
static void check(rk_task t, const char *what)
{
    const size_t cell = rp_cell_size(&t.spec), size = (size_t)rp_results(&t.spec) * cell;
    uint8_t *want = malloc(size + 1), *room = malloc(size + 2);
    uint64_t bad = RP_NO_INDEX, found;
    assert_true(want && room);
    const int code = define(&t, want, &bad);
    for (int k = 0; k < rk_simd_count; k++) {
        rk_state why;
        if (!rk_simd_runs(rk_simds[k]))
            continue;
        memset(room, GUARD, size + 2);
        t.cells = room + 1;
        found = RP_NO_INDEX;
        const int got = rk_cpu_lines(rk_simds[k], &t, 0, rp_results(&t.spec), &found, &why);
        if (got != code || found != bad)
            complain(&t, rk_simds[k], what, found);
        for (size_t i = 0; code == RP_OK && i < size; i++)
            if (room[i + 1] != want[i])
                complain(&t, rk_simds[k], what, i / cell);
        assert_int_equal(room[0], GUARD);
        assert_int_equal(room[size + 1], GUARD);
    }
    free(want);
    free(room);
}

/* May a reply of that type be asked for? */
static bool gives(int op, int dtype, int out)
{
    rp_spec s = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .out = (uint8_t)out, .rows = 1, .row_len = 1};
    return rp_spec_check(&s, NULL) == RP_OK;
}

/* Every op, policy and type of reply, of the same elements. The first one is the initial one, too, if there is such. */
static void check_ops(int dtype, uint32_t flags, uint64_t rows, uint64_t row_len, uint64_t planes, const void *x,
                      const rp_parts *beside)
{
    for (int k = 0; k < OPS; k++)
        for (int nan = 0; nan <= (t_is_float(dtype) ? RP_NAN_ERROR : 0); nan++)
            for (int out = 0; out <= RP_F64; out++) {
                if (!gives(ops[k], dtype, out))
                    continue;
                rk_task t = task_of(ops[k], dtype, out, nan, flags, rows, row_len, x);
                t.spec.planes = planes;
                t.spec.index_base = (uint64_t)nan << 40; /* only places have it */
                t.base = planes;
                t.beside = beside;
                t.spec.initial = flags & RP_INITIAL ? t_bits(dtype, x) : 0;
                check(t, "all ops");
                if (ops[k] == RP_OP_PROD && !t_is_float(dtype)) {
                    t.spec.flags |= RP_WRAP;
                    check(t, "all ops");
                }
            }
}

/* With room to start anywhere in the first bytes. */
static uint8_t *memory(size_t bytes)
{
    uint8_t *p = malloc(bytes + 16);
    assert_non_null(p);
    return p;
}

/* A small number as an element of any type */
static void put(int dtype, uint8_t *p, double v)
{
    const int64_t whole = (int64_t)v;
    if (t_is_float(dtype))
        t_store(dtype, p, v);
    else
        memcpy(p, &whole, rp_dtype_size(dtype));
}

/* A mask that keeps all, none, or about that many of 8; bytes that are not 0 keep. */
static const uint8_t *put_mask(t_rng *r, uint8_t *mask, uint64_t n, uint64_t of_8)
{
    for (uint64_t i = 0; i < n; i++)
        mask[i] = t_below(r, 8) < of_8 ? (uint8_t)(1 + t_below(r, 255)) : 0;
    return mask;
}

/* ---- shapes ---- */

typedef struct shape {
    uint64_t rows, row_len, planes;
} shape;

/* Each beside the edges of vectors, lots and counters of 8 bits. Odd addresses. */
static const shape columns[] = {{1, 16, 0},   {2, 17, 0},   {3, 31, 0},   {4, 64, 0},  {5, 33, 0},  {7, 130, 0}, {8, 23, 0},
                                {9, 16, 3},   {12, 40, 0},  {13, 29, 2},  {31, 19, 0}, {33, 17, 0}, {67, 24, 0}, {252, 18, 0},
                                {253, 16, 0}, {256, 16, 0}, {505, 17, 0}, {4, 15, 3},  {2, 513, 0}, {3, 259, 0}, {5, 2051, 0},
                                {1, 1, 0},    {300, 1, 0},  {3, 7, 40},   {17, 15, 3}, {128, 3, 6}, {129, 2, 9}, {2, 12, 50}};
static const shape rows[] = {{16, 1, 0},   {17, 2, 0},   {40, 3, 0},   {33, 4, 0},   {19, 5, 0},  {65, 8, 0},   {16, 16, 0},
                             {130, 31, 0}, {20, 32, 0},  {17, 33, 0},  {2100, 1, 0}, {700, 7, 0}, {3, 1025, 0}, {1, 2600, 0},
                             {260, 34, 0}, {18, 100, 0}, {16, 557, 0}, {16, 608, 0}, {20, 3, 4},  {33, 8, 2},   {17, 1, 9},
                             {130, 5, 3},  {17, 90, 2},  {16, 70, 9},  {1030, 2, 2}};

static void check_shapes(const shape *shapes, size_t n, uint32_t flags)
{
    uint8_t *x = memory(8 * 11000), *masks = memory(11000);
    const bool longer = flags & (RP_MASK | RP_INITIAL); /* takes longer: half of them */
    const size_t step = longer && SOME == 1 ? 2 : SOME;
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        for (size_t i = ((size_t)dtype + flags / RP_MASK) % step; i < n; i += step) {
            t_rng r = {(uint64_t)dtype + 100 * i};
            const int family = (int)t_below(&r, T_FAMILIES + 4);
            uint8_t *p = x + t_below(&r, 9);
            const uint64_t all = shapes[i].rows * shapes[i].row_len * (shapes[i].planes ? shapes[i].planes : 1);
            assert_true(all <= 11000);
            if (longer && all > 2200)
                continue;
            t_fill(&r, dtype, family < T_FAMILIES ? family : T_NARROW, p, all);
            const rp_parts beside = {.mask = flags & RP_MASK ? put_mask(&r, masks + 3, all, t_below(&r, 9)) : NULL};
            check_ops(dtype, flags, shapes[i].rows, shapes[i].row_len, shapes[i].planes, p, &beside);
        }
    free(x);
    free(masks);
}

static void test_columns(void **state)
{
    (void)state;
    check_shapes(columns, sizeof columns / sizeof columns[0], RP_COLUMNS);
}

static void test_rows(void **state)
{
    (void)state;
    check_shapes(rows, sizeof rows / sizeof rows[0], 0);
}

/* Elements that a mask leaves out, and initial ones */
static void test_masked_columns(void **state)
{
    (void)state;
    check_shapes(columns, sizeof columns / sizeof columns[0], RP_COLUMNS | RP_MASK);
    check_shapes(columns, sizeof columns / sizeof columns[0], RP_COLUMNS | RP_MASK | RP_INITIAL);
    check_shapes(columns, sizeof columns / sizeof columns[0], RP_COLUMNS | RP_INITIAL);
}

static void test_masked_rows(void **state)
{
    (void)state;
    check_shapes(rows, sizeof rows / sizeof rows[0], RP_MASK);
    check_shapes(rows, sizeof rows / sizeof rows[0], RP_MASK | RP_INITIAL);
    check_shapes(rows, sizeof rows / sizeof rows[0], RP_INITIAL);
}

/* Lines [first, first + lines) and no others: threads share columns, also those of a plane. */
static void check_part(rk_task t, const uint8_t *want, uint8_t *room, uint64_t first, uint64_t lines)
{
    const size_t cell = rp_cell_size(&t.spec), size = (size_t)rp_results(&t.spec) * cell;
    const size_t from = (size_t)first * cell, to = (size_t)(first + lines) * cell;
    for (int k = 0; k < rk_simd_count; k++) {
        rk_state why;
        uint64_t bad;
        if (!rk_simd_runs(rk_simds[k]))
            continue;
        memset(room, GUARD, size);
        t.cells = room;
        assert_int_equal(rk_cpu_lines(rk_simds[k], &t, first, lines, &bad, &why), RP_OK);
        for (size_t i = 0; i < size; i++)
            if (room[i] != (i < from || i >= to ? GUARD : want[i]))
                complain(&t, rk_simds[k], "a part", i / cell);
    }
}

static void test_lines_in_parts(void **state)
{
    (void)state;
    static const shape shapes[] = {{5, 40, 4}, {300, 18, 3}, {9, 2500, 1}, {3, 16, 20}, {3, 5, 60}};
    enum { MOST = 9 * 2500 };
    uint8_t *x = memory(8 * MOST), *want = memory(MOST_CELL * MOST), *room = memory(MOST_CELL * MOST);
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        for (int o = 0; o < OPS; o++)
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
                t_rng r = {(uint64_t)dtype + 100 * i};
                const uint64_t n = shapes[i].rows * shapes[i].row_len * shapes[i].planes;
                uint64_t bad;
                for (uint64_t k = 0; k < n; k++)
                    put(dtype, x + k * rp_dtype_size(dtype), t_below(&r, 20) ? 1.0 : (double)t_below(&r, 3));
                rk_task t = task_of(ops[o], dtype, 0, 0, RP_COLUMNS, shapes[i].rows, shapes[i].row_len, x);
                t.spec.planes = shapes[i].planes;
                t.bytes *= (size_t)t.spec.planes;
                t.spec.flags |= ops[o] == RP_OP_PROD && !t_is_float(dtype) ? RP_WRAP : 0;
                assert_int_equal(define(&t, want, &bad), RP_OK);
                for (int part = 0; part < 6; part++) {
                    const uint64_t first = t_below(&r, rp_results(&t.spec)), left = rp_results(&t.spec) - first;
                    check_part(t, want, room, first, 1 + t_below(&r, left));
                }
            }
    free(x);
    free(want);
    free(room);
}

static void test_every_family(void **state)
{
    (void)state;
    enum { COLUMNS = 40 };
    uint8_t *x = memory(8 * 11 * COLUMNS);
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        for (int family = 0; family < T_FAMILIES; family++)
            for (uint64_t n = 1 + (uint64_t)(family + dtype) % SOME; n <= 11; n += SOME) {
                t_rng r = {(uint64_t)(dtype * 100 + family)};
                t_fill(&r, dtype, family, x, n * COLUMNS);
                check_ops(dtype, RP_COLUMNS, n, COLUMNS, 0, x, NULL);
            }
    free(x);
}

/* Pages of which the one before and the one behind cannot be read */
static uint8_t *guarded(size_t bytes, size_t page)
{
    uint8_t *room = mmap(NULL, bytes + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(room, MAP_FAILED);
    assert_int_equal(mprotect(room, page, PROT_NONE), 0);
    assert_int_equal(mprotect(room + page + bytes, page, PROT_NONE), 0);
    return room + page;
}

/* Nothing beside the elements and their mask is read. */
static void test_nothing_beside(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), all = 8 * page;
    uint8_t *x = guarded(all, page), *masks = guarded(page, page);
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        for (uint64_t round = 0; round < 24; round += SOME) {
            t_rng r = {(uint64_t)dtype + 100 * round};
            const size_t size = rp_dtype_size(dtype);
            const uint64_t n = 1 + t_below(&r, round % 3 ? 13 : 33), lines = 16 + t_below(&r, 50);
            uint8_t *p = round % 2 ? x : x + all - n * lines * size, *mask = round % 2 ? masks : masks + page - n * lines;
            const rp_parts beside = {.mask = put_mask(&r, mask, n * lines, 6)};
            t_fill(&r, dtype, T_NARROW, p, n * lines);
            check_ops(dtype, RP_COLUMNS, n, lines, 0, p, NULL);
            check_ops(dtype, 0, lines, n, 0, p, NULL);
            check_ops(dtype, 0, 1, lines * n, 0, p, NULL);
            check_ops(dtype, RP_COLUMNS | RP_MASK, n, lines, 0, p, &beside);
            check_ops(dtype, RP_MASK, lines, n, 0, p, &beside);
        }
    assert_int_equal(munmap(x - page, all + 2 * page), 0);
    assert_int_equal(munmap(masks - page, 3 * page), 0);
}

/* ---- edges of types ---- */

/* A column of its own for each pair of values; the first value fills the rest of it. */
static void check_pairs(int op, int dtype, int out, const void *values, size_t count, uint64_t n)
{
    const size_t size = rp_dtype_size(dtype), all = count * count;
    uint8_t *x = memory(size * all * (size_t)n);
    for (size_t i = 0; i < all; i++)
        for (uint64_t r = 0; r < n; r++) {
            const size_t which = r == n / 2 ? i / count : r == 0 ? i % count : 0;
            memcpy(x + (r * all + i) * size, (const uint8_t *)values + which * size, size);
        }
    for (int nan = 0; nan <= (t_is_float(dtype) ? RP_NAN_ERROR : 0); nan++)
        check(task_of(op, dtype, out, nan, RP_COLUMNS, n, all, x), "pairs of values");
    free(x);
}

static void check_values(int op, int dtype, const void *values, size_t count)
{
    for (uint64_t n = 1; n <= 9; n++)
        for (int out = 0; out <= RP_F64; out++)
            if (gives(op, dtype, out))
                check_pairs(op, dtype, out, values, count, n);
}

static void test_odd_floats(void **state)
{
    (void)state;
    static const float narrow[] = {
        1,       0.0f,      -0.0f,      -1,          INFINITY,   -INFINITY,        NAN,           FLT_MAX,      -FLT_MAX,
        FLT_MIN, 0x1p-149f, -0x1p-149f, 0x1.8p-140f, 0x1.8p127f, 0x1.fffffep-126f, 0x1.000002p0f, 0x1.fffffep0f};
    static const double wide[] = {1,
                                  0.0,
                                  -0.0,
                                  -1,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  DBL_MAX,
                                  -DBL_MAX,
                                  DBL_MIN,
                                  0x1p-1074,
                                  -0x1p-1074,
                                  0x1.8p-1030,
                                  0x1p-537,
                                  0x1.0000000000001p0,
                                  0x1.fffffffffffffp0,
                                  0x1p-900};
    for (int k = 0; k < OPS; k++) {
        check_values(ops[k], RP_F32, narrow, sizeof narrow / sizeof narrow[0]);
        check_values(ops[k], RP_F64, wide, sizeof wide / sizeof wide[0]);
    }
}

/* NaNs of either sign and any payload give the one NaN. */
static void test_nans(void **state)
{
    (void)state;
    static const uint32_t narrow[] = {0x3f800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff, 0xff800000, 0x80000000};
    static const uint64_t wide[] = {0x3ff0000000000000, 0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001,
                                    UINT64_MAX,         0xfff0000000000000, 0x8000000000000000};
    static const uint16_t half[] = {0x3c00, 0x7e00, 0xfe00, 0x7c01, 0xffff, 0xfc00, 0x8000};
    static const uint16_t brain[] = {0x3f80, 0x7fc0, 0xffc0, 0x7f81, 0xffff, 0xff80, 0x8000};
    for (int k = 0; k < OPS; k++) {
        check_values(ops[k], RP_F32, narrow, 7);
        check_values(ops[k], RP_F64, wide, 7);
        check_values(ops[k], RP_F16, half, 7);
        check_values(ops[k], RP_BF16, brain, 7);
    }
}

/* Sums and products that just fit, and those that do not. */
static void test_large_integers(void **state)
{
    (void)state;
    static const int64_t i[] = {
        1,          INT64_MAX, INT64_MIN, -1, (int64_t)1 << 62, -((int64_t)1 << 62), ((int64_t)1 << 53) + 1,
        3037000499, 0,         2,         -2, INT64_MAX - 1};
    static const uint64_t u[] = {1, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 62, 4294967296, 4294967295,
                                 0, 2,          UINT64_MAX - 1};
    static const int32_t narrow[] = {1, INT32_MIN, INT32_MAX, -1, 0, 46341, 65536};
    static const int8_t small[] = {-128, 127, 1, 0, -1};
    static const int ops_here[] = {RP_OP_SUM,   RP_OP_MEAN,   RP_OP_PROD,   RP_OP_MIN,   RP_OP_MAX,
                                   RP_OP_RANGE, RP_OP_MINMAX, RP_OP_ARGMIN, RP_OP_ARGMAX};
    for (size_t k = 0; k < sizeof ops_here / sizeof ops_here[0]; k++) {
        check_values(ops_here[k], RP_I64, i, sizeof i / sizeof i[0]);
        check_values(ops_here[k], RP_U64, u, sizeof u / sizeof u[0]);
        check_values(ops_here[k], RP_I32, narrow, sizeof narrow / sizeof narrow[0]);
        check_values(ops_here[k], RP_I8, small, sizeof small / sizeof small[0]);
    }
}

/* Counters and sums of narrow lanes are emptied in time. */
static void test_full_lanes(void **state)
{
    (void)state;
    enum { COLUMNS = 17, MOST = RK_LOT_ROWS + 1 };
    uint8_t *x = memory(2 * MOST * COLUMNS);
    for (uint64_t n = 250; n <= MOST; n += n < 260 ? 1 : n < RK_LOT_ROWS - 1 ? RK_LOT_ROWS - 1 - n : 1)
        for (int value = 0; value < 3; value++) {
            memset(x, value == 0 ? 0 : value == 1 ? 0xff : 0x80, 2 * MOST * COLUMNS);
            for (int dtype = RP_I8; dtype <= RP_U16; dtype++)
                for (int k = (int)(n % SOME); k < OPS; k += SOME)
                    if (ops[k] != RP_OP_PROD)
                        check(task_of(ops[k], dtype, 0, 0, RP_COLUMNS, n, COLUMNS, x), "full lanes");
        }
    free(x);
}

/* The best element anywhere, beside the edges of what lanes count, and a second one behind it that does not win. */
static void test_places_in_tall_columns(void **state)
{
    (void)state;
    enum { COLUMNS = 19, ROWS = 1100 };
    static const uint64_t places[] = {0,   1,   3,   4,   250, 251, 252, 253, 254,     255,
                                      256, 257, 503, 504, 505, 511, 512, 513, ROWS - 2};
    uint8_t *x = memory(8 * ROWS * COLUMNS);
    for (int dtype = RP_I8; dtype <= RP_F64; dtype++)
        for (int largest = 0; largest < 2; largest++) {
            const size_t size = rp_dtype_size(dtype);
            for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
                put(dtype, x + i * size, 2);
            for (uint64_t c = 0; c < COLUMNS; c++)
                for (int again = 0; again < 2; again++)
                    put(dtype, x + ((places[c] + (uint64_t)again) * COLUMNS + c) * size, largest ? 3 : 1);
            check(task_of(largest ? RP_OP_ARGMAX : RP_OP_ARGMIN, dtype, 0, 0, RP_COLUMNS, ROWS, COLUMNS, x), "tall columns");
            check(task_of(largest ? RP_OP_ARGMIN : RP_OP_ARGMAX, dtype, 0, 0, RP_COLUMNS, ROWS, COLUMNS, x), "tall columns");
        }
    free(x);
}

/* Means that lie beside the middle between two floats, or on it. */
static void test_means_beside_ties(void **state)
{
    (void)state;
    enum { COLUMNS = 24 };
    double wide[7 * COLUMNS];
    float narrow[7 * COLUMNS];
    t_rng r = {5};
    for (int round = 0; round < 400; round++) {
        const uint64_t n = 2 + t_below(&r, 6);
        for (size_t i = 0; i < n * COLUMNS; i++) {
            wide[i] = 1 + (double)t_below(&r, 8) * 0x1p-52;
            narrow[i] = 1 + (float)t_below(&r, 8) * 0x1p-23f;
        }
        check(task_of(RP_OP_MEAN, RP_F64, 0, 0, RP_COLUMNS, n, COLUMNS, wide), "ties");
        for (int out = RP_F16; out <= RP_F64; out++)
            check(task_of(RP_OP_MEAN, RP_F32, out, 0, RP_COLUMNS, n, COLUMNS, narrow), "ties");
    }
}

/* Ranges that lie beside the middle between two floats: a double has this middle, and not the range. */
static void test_ranges_beside_ties(void **state)
{
    (void)state;
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
        for (int out = RP_F16; out <= RP_F64; out++) {
            const double middle = 1 + ldexp(1, -t_precision(out)),
                         values[] = {middle, -middle, 0x1p-25, 0x1p-100, -0x1p-100, 3};
            uint8_t x[sizeof values];
            for (size_t i = 0; i < 6; i++)
                put(dtype, x + i * rp_dtype_size(dtype), values[i]);
            check_pairs(RP_OP_RANGE, dtype, out, x, 6, 3);
        }
}

/* Half of the difference of two lies in the middle, or beside it by less than a double tells. */
static void test_halves_of_two(void **state)
{
    (void)state;
    enum { COLUMNS = 64 };
    uint8_t x[8 * 2 * COLUMNS];
    t_rng r = {11};
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
        for (int out = RP_F16; out <= RP_F64; out++)
            for (int round = 0; round < 40; round++) {
                const int bits = t_precision(round % 2 ? dtype : out);
                for (size_t i = 0; i < sizeof x / 8; i++) {
                    const double one = 1 + (double)t_below(&r, 4) * ldexp(1, 1 - bits) / (double)(1 + t_below(&r, 2)),
                                 sign = t_below(&r, 2) ? 1 : -1;
                    put(dtype, x + i * rp_dtype_size(dtype), sign * ldexp(one, t_below(&r, 3) ? (int)t_below(&r, 3) : -100));
                }
                for (int op = 0; op < 2; op++) {
                    rk_task t = task_of(op ? RP_OP_SEM : RP_OP_STD, dtype, out, round % 3 == 0 ? RP_NAN_OMIT : 0, RP_COLUMNS, 2,
                                        COLUMNS, x);
                    t.spec.ddof = (uint32_t)op;
                    check(t, "halves");
                }
            }
}

/* ---- products ---- */

/* Significands of few bits: products lie on the middle between two floats, or beside it. */
static void test_products_beside_ties(void **state)
{
    (void)state;
    enum { COLUMNS = 40 };
    uint8_t *x = memory(8 * 12 * COLUMNS);
    t_rng r = {6};
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
        for (int round = 0; round < 150; round++) {
            const uint64_t n = 1 + t_below(&r, 12);
            const int bits = 1 + (int)t_below(&r, (uint64_t)t_precision(dtype));
            for (uint64_t i = 0; i < n * COLUMNS; i++)
                put(dtype, x + i * rp_dtype_size(dtype),
                    ldexp(1 + ldexp((double)t_below(&r, (uint64_t)1 << (bits - 1)), 1 - bits), (int)t_below(&r, 3)) *
                        (t_below(&r, 2) ? 1 : -1));
            for (int out = RP_F16; out <= RP_F64; out++) {
                check(task_of(RP_OP_PROD, dtype, out, 0, RP_COLUMNS, n, COLUMNS, x), "ties");
                check(task_of(RP_OP_PROD, dtype, out, 0, 0, COLUMNS, n, x), "ties");
            }
        }
    free(x);
}

/* The last columns are multiplied with some before them, which have their products: of zeros beside a NaN, too. */
static void test_products_beside_others(void **state)
{
    enum { ROWS = 3, MOST = 19 };
    (void)state;
    for (int dtype = RP_F16; dtype <= RP_F64; dtype++)
        for (uint64_t n = 1; n <= MOST; n++) {
            uint8_t *x = memory(ROWS * MOST * 8), *turned = memory(ROWS * MOST * 8);
            const size_t size = rp_dtype_size(dtype);
            for (uint64_t r = 0; r < ROWS; r++)
                for (uint64_t c = 0; c < n; c++) {
                    const double v = c + 1 == n ? NAN : r == c % ROWS ? 0 : -2;
                    put(dtype, x + (r * n + c) * size, v);
                    put(dtype, turned + (c * ROWS + r) * size, v);
                }
            check(task_of(RP_OP_PROD, dtype, dtype, 0, RP_COLUMNS, ROWS, n, x), "zeros");
            check(task_of(RP_OP_PROD, dtype, dtype, 0, 0, n, ROWS, turned), "zeros");
            free(turned);
            free(x);
        }
}

/* Products that leave the range of doubles on the way, and come back; some end among the subnormal floats. */
static void test_products_far_away(void **state)
{
    (void)state;
    enum { COLUMNS = 20, MOST = 513 };
    static const uint64_t lengths[] = {4, 9, 24, 300, 512, MOST};
    uint8_t *x = memory(8 * MOST * COLUMNS);
    t_rng r = {8};
    for (int dtype = RP_F32; dtype <= RP_F64; dtype++)
        for (size_t i = 0; i < 6; i++)
            for (int far = 0; far < 200; far += 25) {
                for (uint64_t k = 0; k < lengths[i] * COLUMNS; k++) {
                    const uint64_t row = k / COLUMNS;
                    const int side = row == lengths[i] - 1 ? -(int)(k % COLUMNS) * 10 : row % 8 < 4 ? far / 2 : -far / 2;
                    put(dtype, x + k * rp_dtype_size(dtype), ldexp(1 + (double)t_below(&r, 16) / 16, side));
                }
                for (int out = RP_F32; out <= RP_F64; out++)
                    check(task_of(RP_OP_PROD, dtype, out, 0, RP_COLUMNS, lengths[i], COLUMNS, x), "far away");
            }
    free(x);
}

/* Long lines: each length beside the edges of vectors and of what is normalised together. One odd element anywhere. */
static void test_long_products(void **state)
{
    (void)state;
    enum { MOST = 9000, COLUMNS = 17, ALL = (RK_LOT_ROWS + MOST) * COLUMNS };
    uint8_t *x = memory(8 * ALL);
    t_rng r = {7};
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        for (int round = 0; round < 60; round++) {
            const size_t size = rp_dtype_size(dtype);
            const uint64_t n = round < 40 ? 33 + t_below(&r, 480) : 1 + t_below(&r, MOST);
            for (uint64_t i = 0; i < (round % 20 == 0 ? ALL : n); i++)
                put(dtype, x + i * size,
                    !t_is_float(dtype) ? (t_below(&r, 40) == 0 ? 2.0 : 1.0) : 0.5 + ldexp((double)t_below(&r, 1 << 20), -20));
            if (round % 3 == 0)
                put(dtype, x + t_below(&r, n) * size, round % 2 || !t_is_float(dtype) ? 0.0 : 0x1p-1074);
            for (int out = !t_is_float(dtype) ? 0 : RP_F16; out <= (!t_is_float(dtype) ? 0 : RP_F64); out++) {
                check(task_of(RP_OP_PROD, dtype, out, 0, 0, 1, n, x), "a long row");
                if (n >= COLUMNS)
                    check(task_of(RP_OP_PROD, dtype, out, 0, RP_COLUMNS, n / COLUMNS, COLUMNS, x), "long columns");
                check(task_of(RP_OP_PROD, dtype, out, 0, RP_COLUMNS, n / (1 + (uint64_t)round % 3), 1 + (uint64_t)round % 3, x),
                      "a few columns");
                if (round % 20 == 0)
                    check(task_of(RP_OP_PROD, dtype, out, 0, RP_COLUMNS, RK_LOT_ROWS + n, COLUMNS, x), "columns of many rows");
            }
        }
    free(x);
}

/* Products in two doubles must be the rule, or the fast way is none: of ordinary rows nearly all are certain. */
static void test_pairs_are_used(void **state)
{
    (void)state;
    enum { N = 1000, ROUNDS = 200 };
    static double wide[N];
    static float narrow[N];
    t_rng r = {8};
    for (int k = 0; k < rk_simd_count; k++) {
        const rk_simd *simd = rk_simds[k];
        int certain = 0;
        if (!rk_simd_runs(simd) || !simd->row_product[RP_F64])
            continue;
        for (int round = 0; round < ROUNDS; round++) {
            uint64_t cell;
            for (int i = 0; i < N; i++)
                narrow[i] = (float)(wide[i] = 0.5 + ldexp((double)(t_next(&r) >> 12), -52));
            certain += simd->row_product[RP_F64](wide, N, RP_F64, false, &cell);
            certain += simd->row_product[RP_F32](narrow, N, RP_F32, false, &cell);
        }
        assert_in_range(certain, 2 * ROUNDS - 4, 2 * ROUNDS);
    }
}

/* ---- lots ---- */

static void count_lines(void *arg, uint64_t first, uint64_t lines)
{
    (void)first;
    *(uint64_t *)arg += lines;
}

static bool may_be_indirect(int op, int dtype)
{
    return (op == RP_OP_PROD && t_is_float(dtype)) || (op == RP_OP_SUMSQ && !t_is_float(dtype));
}

/* Ordinary columns and short rows leave nothing to states. */
static void check_nothing_is_left(uint32_t flags)
{
    enum { ROWS = 40, COLUMNS = 600 };
    t_rng some = {8};
    uint8_t *masks = memory(ROWS * COLUMNS);
    const rp_parts beside = {.mask = flags & RP_MASK ? put_mask(&some, masks, ROWS * COLUMNS, 6) : NULL};
    uint8_t *x = memory(8 * ROWS * COLUMNS), *cells = memory(MOST_CELL * COLUMNS);
    for (int k = 0; k < rk_simd_count; k++)
        for (int dtype = RP_I8; dtype <= RP_F64 && rk_simd_runs(rk_simds[k]); dtype++)
            for (int o = 0; o < OPS; o++) {
                t_rng r = {9};
                uint64_t left = 0;
                for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
                    put(dtype, x + i * rp_dtype_size(dtype), 1 + (double)t_below(&r, 3));
                const uint64_t n = flags & RP_COLUMNS ? ROWS : COLUMNS, row_len = ROWS * COLUMNS / n;
                rk_task t = task_of(ops[o], dtype, 0, 0, flags, n, row_len, x);
                t.cells = cells;
                t.beside = &beside;
                const bool direct = rk_cpu_is_direct(rk_simds[k], &t.spec, COLUMNS);
                assert_true(direct || may_be_indirect(ops[o], dtype));
                if (direct)
                    rk_cpu_direct(rk_simds[k], &t, 0, COLUMNS, count_lines, &left);
                if (left)
                    complain(&t, rk_simds[k], "columns are left", left);
            }
    free(x);
    free(cells);
    free(masks);
}

static void test_nothing_is_left(void **state)
{
    (void)state;
    check_nothing_is_left(RP_COLUMNS);
    check_nothing_is_left(0);
    check_nothing_is_left(RP_COLUMNS | RP_MASK);
    check_nothing_is_left(RP_MASK);
}

/* NaNs that are left out do not, either. */
static void test_no_nans_are_left(void **state)
{
    (void)state;
    enum { ROWS = 12, COLUMNS = 600 };
    static const int some[] = {RP_OP_SUM, RP_OP_MEAN, RP_OP_MIN, RP_OP_MAX, RP_OP_RANGE, RP_OP_MINMAX, RP_OP_ARGMIN};
    uint8_t *x = memory(8 * ROWS * COLUMNS), *cells = memory(MOST_CELL * COLUMNS);
    for (int k = 0; k < rk_simd_count; k++)
        for (int dtype = RP_F16; dtype <= RP_F64 && rk_simd_runs(rk_simds[k]); dtype++)
            for (size_t o = 0; o < sizeof some / sizeof some[0]; o++) {
                t_rng r = {10};
                uint64_t left = 0;
                for (uint64_t i = 0; i < ROWS * COLUMNS; i++)
                    put(dtype, x + i * rp_dtype_size(dtype), i % 7 ? 1 + (double)t_below(&r, 3) : NAN);
                rk_task t = task_of(some[o], dtype, 0, RP_NAN_OMIT, RP_COLUMNS, ROWS, COLUMNS, x);
                check(t, "NaNs");
                t.cells = cells;
                rk_cpu_direct(rk_simds[k], &t, 0, COLUMNS, count_lines, &left);
                if (left)
                    complain(&t, rk_simds[k], "columns are left", left);
            }
    free(x);
    free(cells);
}

/* ---- any and all ---- */

/* A single element decides, wherever it is; behind it lies what no longer matters. */
static void test_one_that_decides(void **state)
{
    (void)state;
    enum { N = 20000 };
    static const uint64_t places[] = {0, 1, 63, 64, 2047, 2048, 2049, 4095, 6143, 6144, 14335, 14336, N - 1, N};
    uint8_t *x = memory(8 * N);
    for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
        for (size_t i = (size_t)dtype % SOME; i < sizeof places / sizeof places[0]; i += SOME)
            for (int all = 0; all < 2; all++) {
                const size_t size = rp_dtype_size(dtype);
                for (uint64_t k = 0; k < N; k++)
                    put(dtype, x + k * size, (k == places[i]) != all ? 1.0 : 0.0);
                for (int nan = 0; nan <= (t_is_float(dtype) ? RP_NAN_ERROR : 0); nan++) {
                    check(task_of(all ? RP_OP_ALL : RP_OP_ANY, dtype, 0, nan, 0, 1, N, x), "one that decides");
                    check(task_of(all ? RP_OP_ALL : RP_OP_ANY, dtype, 0, nan, RP_STATES_OUT, 1, N, x), "a state has all");
                }
                if (!t_is_float(dtype))
                    continue;
                put(dtype, x + (N - 1) * size, NAN); /* an error wherever it is */
                for (int nan = 0; nan <= RP_NAN_ERROR; nan++)
                    check(task_of(all ? RP_OP_ALL : RP_OP_ANY, dtype, 0, nan, 0, 1, N, x), "a NaN at the end");
            }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_masked_columns),
        cmocka_unit_test(test_masked_rows),
        cmocka_unit_test(test_every_family),
        cmocka_unit_test(test_nothing_beside),
        cmocka_unit_test(test_lines_in_parts),
        cmocka_unit_test(test_odd_floats),
        cmocka_unit_test(test_nans),
        cmocka_unit_test(test_large_integers),
        cmocka_unit_test(test_full_lanes),
        cmocka_unit_test(test_places_in_tall_columns),
        cmocka_unit_test(test_means_beside_ties),
        cmocka_unit_test(test_ranges_beside_ties),
        cmocka_unit_test(test_halves_of_two),
        cmocka_unit_test(test_products_beside_ties),
        cmocka_unit_test(test_products_beside_others),
        cmocka_unit_test(test_products_far_away),
        cmocka_unit_test(test_long_products),
        cmocka_unit_test(test_pairs_are_used),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_no_nans_are_left),
        cmocka_unit_test(test_one_that_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
