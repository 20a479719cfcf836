/* Order statistics of data on several devices: the bits and the faults of one device, however data are cut, and what ends a
 * task between its passes. Devices are CPU engines here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kernels/engine/engine.h"
#include "kernels/engine/joint_ranks.h"
#include "kernels/exact/format.h"
#include "tests/unit/polled.h"
#include "tests/unit/same_answer.h"
#include "tests/unit/sanitized.h"

static void wake(void *arg)
{
    (void)arg;
    sem_post(&polled_ended);
}

static rk_engine *open_devices(const char *devices)
{
    rk_options o = {.backend = RP_BACKEND_CPU, .devices = devices, .threads = 1, .wake = wake};
    rk_engine *e = NULL;
    char why[160];
    sem_init(&polled_ended, 0, 0);
    assert_int_equal(rk_open(&e, &o, why, sizeof why), RP_OK);
    return e;
}

static uint64_t seed = 20261129;

static uint64_t any(uint64_t n) /* below n */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return n ? (seed >> 33) % n : 0;
}

enum { MOST_BYTES = 64 << 10, MOST_CELLS = 1 << 20, MOST_QUANTILES = 9 };

static uint8_t data[MOST_BYTES], want_cells[MOST_CELLS], got_cells[MOST_CELLS];
static int64_t q[MOST_QUANTILES][2];
static double edges[40];

/* ---- elements ---- */

enum { ANY_BITS, EQUAL, TWO, SORTED, NANS, ZEROS, NEIGHBOURS, LAST, KINDS };

/* Of one kind, which faults and passes depend on. */
static void fill_data(int kind, int dtype)
{
    const size_t size = rp_dtype_size(dtype);
    const uint64_t first = any(1ull << 31) << 32 | any(1ull << 31), second = any(1ull << 31) * 4294967297u;
    const uint64_t nan = rk_is_float(dtype) ? rk_nan_bits(rk_format_of(dtype)) + any(2) : 3,
                   sign = (uint64_t)1 << (8 * size - 1);
    for (size_t i = 0; i < MOST_BYTES / size; i++) {
        const uint64_t bits = any(1ull << 31) << 33 | any(1ull << 31) << 2;
        const uint64_t x = kind == EQUAL        ? first
                           : kind == TWO        ? (any(2) ? first : second)
                           : kind == SORTED     ? i * 77
                           : kind == NANS       ? (any(2) ? nan : bits)
                           : kind == ZEROS      ? (any(2) ? sign : any(9) == 0)
                           : kind == NEIGHBOURS ? first + any(3)
                           : kind == LAST       ? (rk_is_signed(dtype) ? sign - 1 : UINT64_MAX) - any(3)
                                                : bits;
        memcpy(data + i * size, &x, size);
    }
}

/* ---- specs ---- */

static void choose_parameters(rp_spec *s)
{
    static const int64_t decimals[][2] = {{5, -1}, {25, -2}, {0, 0}, {1, 0}, {99, -2}, {1, -3}, {333, -3}, {5, -1}, {7, -1}};
    s->nan = (uint8_t)any(3);
    s->k = rp_is_top(s->op) ? 1 + (int64_t)any(any(2) ? 5 : 400) : s->op == RP_OP_KTH ? (int64_t)any(2000) - 1000 : 0;
    if (s->op == RP_OP_QUANTILE) {
        s->quantiles = (uint8_t)(1 + any(MOST_QUANTILES));
        s->method = (uint8_t)any(RP_METHOD_END);
        memcpy(q, decimals, sizeof q);
        s->q = (const uint8_t *)q;
    }
    if (s->op == RP_OP_HISTOGRAM) {
        static const double ends[] = {1e-300, 1, 100, 1e30};
        s->n_edges = (uint32_t)(2 + any(38));
        const double end = ends[any(4)];
        for (uint32_t i = 0; i < s->n_edges; i++)
            edges[i] = end * ((double)i - 7);
        s->edges = (const uint8_t *)edges;
    }
    if (any(4) == 0) /* narrower, if that is possible; else the default */
        s->out = (uint8_t)(any(2) ? RP_F16 : RP_I64);
}

/* Rows, some of which are cut, rows in runs, columns, planes of columns; few lines or many. */
static rp_spec random_spec(int op, int dtype)
{
    rp_spec s = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .index_base = any(1000)};
    const uint64_t elements = any(MOST_BYTES / rp_dtype_size(dtype) + 1), kind = any(5);
    choose_parameters(&s);
    s.rows = kind == 0 ? 1 : 1 + any(any(3) ? RK_JOINT_LINES : 300);
    s.planes = kind >= 3 ? 1 + any(6) : 0;
    s.row_len = elements / s.rows / (s.planes ? s.planes : 1);
    if (kind == 2 || kind == 4) {
        const uint64_t rows = s.row_len;
        s.flags = RP_COLUMNS;
        s.row_len = s.rows;
        s.rows = rows ? rows : 1;
    }
    s.out = rp_spec_check(&s, NULL) == RP_OK ? s.out : 0;
    return s;
}

/* ---- the same answer ---- */

static bool is_cut(const rk_memory *m, uint64_t offset, uint64_t bytes)
{
    return bytes && offset / m->each != (offset + bytes - 1) / m->each;
}

/* Are there more scattered lines than passes take? */
static bool is_refused(const rk_memory *m, const rk_task *t)
{
    const bool scattered = t->spec.flags & RP_COLUMNS || t->spec.planes > 1;
    return scattered && is_cut(m, t->offset, t->bytes) && rp_results(&t->spec) > RK_JOINT_LINES && !rp_is_top(t->spec.op) &&
           t->spec.op != RP_OP_HISTOGRAM;
}

static unsigned results, faults, refused;

static void check_spread(rk_engine *one, rk_engine *e, rk_memory *m, const rp_spec *spec)
{
    const size_t size = rp_dtype_size(spec->dtype), bytes = rp_elements(spec) * size;
    const size_t offset = any((MOST_BYTES - bytes) / size + 1) * size;
    rk_task want = {.spec = *spec, .data = data + offset, .bytes = bytes, .cells = want_cells};
    rk_task got = {.spec = *spec, .memory = m, .offset = offset, .bytes = bytes, .cells = got_cells};
    memset(got_cells, 0xA5, rp_results(spec) * rp_cell_size(spec));
    run(e, &got);
    if (is_refused(m, &got)) {
        assert_int_equal(got.fault.code, RP_TOO_LARGE);
        assert_int_equal(got.fault.limit, RK_JOINT_LINES);
        assert_string_equal(got.fault.field, spec->flags & RP_COLUMNS ? "row_len" : "rows");
        refused++;
        return;
    }
    run(one, &want);
    same_answer(&want, &got);
    if (got.fault.code == RP_OK)
        assert_ptr_equal(got.route, want.route);
    results += got.fault.code == RP_OK;
    faults += got.fault.code != RP_OK;
}

static void store(rk_engine *e, rk_memory *m)
{
    rk_task t = {.memory = m, .data = data, .bytes = MOST_BYTES, .fill = true};
    run(e, &t);
    assert_int_equal(t.fault.code, RP_OK);
}

static rk_memory *spread(rk_engine *e)
{
    rk_memory *m;
    rp_fault f;
    assert_int_equal(rk_memory_new(e, RK_PLACE_SPREAD, MOST_BYTES, &m, &f), RP_OK);
    assert_int_equal(rk_memory_place(m), RK_PLACE_SPREAD);
    return m;
}

static const int ops[] = {RP_OP_MEDIAN, RP_OP_QUANTILE, RP_OP_KTH, RP_OP_LARGEST, RP_OP_SMALLEST, RP_OP_HISTOGRAM};
enum { OPS = sizeof ops / sizeof ops[0] };

static void several_devices_give_the_answers_of_one(void **state)
{
    (void)state;
    enum { ROUNDS = SOME == 1 ? 8 : 1 };
    static const char *const counts[] = {"2", "3", "7"};
    rk_engine *one = open_devices("1");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        rk_engine *e = open_devices(counts[i]);
        rk_memory *m = spread(e);
        for (int dtype = RP_I8; dtype <= RP_DTYPE_COUNT; dtype++)
            for (int kind = 0; kind < KINDS; kind++) {
                fill_data(kind, dtype);
                store(e, m);
                for (int round = 0; round < ROUNDS; round++) {
                    rp_spec s = random_spec(ops[any(OPS)], dtype);
                    if (rp_spec_check(&s, NULL) == RP_OK && rp_results(&s) * rp_cell_size(&s) <= MOST_CELLS)
                        check_spread(one, e, m, &s);
                }
            }
        rk_memory_close(e, m);
        rk_close(e);
    }
    rk_close(one);
    assert_true(results > 4 * refused && faults > 10 && refused > 0);
}

/* Many quantiles of as many columns as there may be: lines that one pass has no room for come with the next. */
static void many_ranks_of_many_lines_take_turns(void **state)
{
    (void)state;
    enum { MANY = SOME == 1 ? 10 : ALONE_TOO ? 3 : 2, ROWS = MOST_BYTES / 8 / RK_JOINT_LINES };
    static int64_t of[MANY][2];
    rk_engine *one = open_devices("1"), *e = open_devices("2");
    rk_memory *m = spread(e);
    for (int i = 0; i < MANY; i++) {
        of[i][0] = 9 * i + 1;
        of[i][1] = -2;
    }
    for (int kind = 0; kind < KINDS; kind += NEIGHBOURS) { /* any bits, neighbours */
        rp_spec s = {.op = RP_OP_QUANTILE,
                     .dtype = RP_F64,
                     .nan = RP_NAN_OMIT,
                     .flags = RP_COLUMNS,
                     .rows = ROWS,
                     .row_len = RK_JOINT_LINES,
                     .quantiles = MANY,
                     .q = (const uint8_t *)of};
        assert_int_equal(rp_spec_check(&s, NULL), RP_OK);
        fill_data(kind, RP_F64);
        store(e, m);
        check_spread(one, e, m, &s);
    }
    rk_memory_close(e, m);
    rk_close(e);
    rk_close(one);
}

static void keys_are_refused(void **state)
{
    (void)state;
    rk_engine *e = open_devices("2");
    rk_memory *m = spread(e);
    rk_task t = {.spec = {.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .rows = 3, .row_len = 8, .flags = RP_KEYS},
                 .memory = m,
                 .bytes = 64,
                 .cells = got_cells};
    t.spec.keys = RP_U8;
    run(e, &t);
    assert_int_equal(t.fault.code, RP_TYPE);
    assert_string_equal(t.fault.text, "sum by key of data on several devices");
    rk_memory_close(e, m);
    rk_close(e);
}

/* ---- ends between passes ---- */

static rk_task median_task(rk_memory *m, void *cells)
{
    rk_task t = {.spec = {.op = RP_OP_MEDIAN, .dtype = RP_F64, .rows = 1, .row_len = MOST_BYTES / 8},
                 .memory = m,
                 .bytes = MOST_BYTES,
                 .cells = cells};
    assert_int_equal(rp_spec_check(&t.spec, NULL), RP_OK);
    return t;
}

static void deadlines_and_cancels_end_passes(void **state)
{
    (void)state;
    rk_engine *e = open_devices("2");
    rk_memory *m = spread(e);
    rk_task t = median_task(m, got_cells);
    t.until_ns = 1;
    run(e, &t);
    assert_int_equal(t.fault.code, RP_DEADLINE);
    t = median_task(m, got_cells);
    rk_task_stop(&t);
    run(e, &t);
    assert_int_equal(t.fault.code, RP_CANCELLED);
    for (int i = 0; i < 50; i++) { /* at any moment */
        t = median_task(m, got_cells);
        rk_submit(e, &t, RK_QUEUED);
        for (volatile uint64_t wait = any(40000); wait; wait--)
            ;
        rk_task_stop(&t);
        assert_ptr_equal(poll_one(e), &t);
        assert_true(t.fault.code == RP_OK || t.fault.code == RP_CANCELLED);
    }
    t = median_task(m, got_cells); /* whoever was stopped leaves nothing behind */
    run(e, &t);
    assert_int_equal(t.fault.code, RP_OK);
    rk_memory_close(e, m);
    rk_close(e);
}

/* Tasks that are dropped with the engine, at any moment. */
static void stopping_frees_passes(void **state)
{
    (void)state;
    enum { TASKS = 6 };
    static rk_task t[TASKS];
    static uint8_t cells[TASKS][64];
    for (int i = 0; i < 30; i++) {
        rk_engine *e = open_devices("3");
        rk_memory *m = spread(e);
        for (int k = 0; k < TASKS; k++) {
            t[k] = median_task(m, cells[k]);
            rk_submit(e, &t[k], RK_QUEUED);
        }
        for (volatile uint64_t wait = any(200000); wait; wait--)
            ;
        rk_stop(e);
        assert_null(rk_poll(e));
        rk_memory_close(e, m);
        rk_close(e);
    }
}

static void a_lost_device_is_told(void **state)
{
    (void)state;
    rk_engine *e = open_devices("3");
    rk_memory *m = spread(e);
    for (int i = 0; i < OPS; i++) {
        rk_task t = median_task(m, got_cells);
        t.spec.op = (uint8_t)ops[i];
        choose_parameters(&t.spec);
        t.spec.out = 0;
        assert_int_equal(rp_spec_check(&t.spec, NULL), RP_OK);
        rk_retire(e, 1);
        run(e, &t);
        assert_int_equal(t.fault.code, RP_DEVICE_LOST);
        assert_non_null(strstr(t.fault.text, "CPU-1"));
    }
    rk_memory_close(e, m);
    rk_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_devices_give_the_answers_of_one),
        cmocka_unit_test(many_ranks_of_many_lines_take_turns),
        cmocka_unit_test(keys_are_refused),
        cmocka_unit_test(deadlines_and_cancels_end_passes),
        cmocka_unit_test(stopping_frees_passes),
        cmocka_unit_test(a_lost_device_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
