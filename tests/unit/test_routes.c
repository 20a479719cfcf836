/* Which way of kernels/cpu/lines.c reduces which task: a list of 240 tasks and their routes. After a change of the table
 * `test_routes print` writes the list anew; look at every line that changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "tests/unit/polled.h"

typedef struct kind {
    int op, dtype;
} kind;

static const kind kinds[] = {
    {RP_OP_SUM, RP_F32},   {RP_OP_SUM, RP_F64},    {RP_OP_SUM, RP_I32},    {RP_OP_MEAN, RP_F16}, {RP_OP_NORM1, RP_BF16},
    {RP_OP_SUMSQ, RP_F32}, {RP_OP_VAR, RP_F64},    {RP_OP_STATS, RP_F32},  {RP_OP_PROD, RP_F32}, {RP_OP_PROD, RP_I16},
    {RP_OP_MIN, RP_U8},    {RP_OP_ARGMAX, RP_F64}, {RP_OP_MINMAX, RP_I64}, {RP_OP_ANY, RP_BOOL}, {RP_OP_AND, RP_U32},
};

typedef struct shape {
    const char *name;
    uint64_t rows, row_len, planes;
    uint32_t flags;
} shape;

static const shape shapes[] = {
    {"1 x 100000", 1, 100000, 0, 0},
    {"20 x 700", 20, 700, 0, 0},
    {"1000 x 8", 1000, 8, 0, 0},
    {"1000 x 40", 1000, 40, 0, 0},
    {"7 x 40", 7, 40, 0, 0},
    {"columns of 1000 x 4", 1000, 4, 0, RP_COLUMNS},
    {"columns of 1000 x 100", 1000, 100, 0, RP_COLUMNS},
    {"columns of 10 x 3000", 10, 3000, 0, RP_COLUMNS},
    {"columns of 6000 x 64", 6000, 64, 0, RP_COLUMNS},
    {"columns of 5 x 30 x 40", 30, 40, 5, RP_COLUMNS},
    {"rows of 5 x 30 x 40", 30, 40, 5, 0},
    {"50 segments", 50, 60000, 0, RP_OFFSETS},
    {"1 x 100000 masked", 1, 100000, 0, RP_MASK},
    {"1000 x 8 masked", 1000, 8, 0, RP_MASK},
    {"columns of 1000 x 100 masked", 1000, 100, 0, RP_COLUMNS | RP_MASK},
    {"1 x 100 states", 1, 100, 0, RP_STATES_IN},
};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* A route of the baseline, or of neon; and of AVX-512 if that is another one. */
typedef struct expected {
    const char *any, *avx512;
} expected;

static const expected golden[COUNT(shapes)][COUNT(kinds)] = {
#include "tests/unit/routes_cpu.def"
};

/* No element is looked at. */
static rk_task task_of(const shape *s, kind k)
{
    static const uint8_t nothing[8];
    rk_task t = {.spec = {.op = (uint8_t)k.op,
                          .dtype = (uint8_t)k.dtype,
                          .flags = s->flags,
                          .rows = s->rows,
                          .row_len = s->row_len,
                          .planes = s->planes},
                 .data = nothing};
    assert_int_equal(rp_spec_check(&t.spec, NULL), RP_OK);
    return t;
}

static const rk_simd *simd_named(const char *name)
{
    for (int i = 0; i < rk_simd_count; i++)
        if (strcmp(rk_simds[i]->name, name) == 0)
            return rk_simds[i];
    return NULL;
}

static void check_routes(const rk_simd *simd, bool avx512)
{
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t k = 0; k < COUNT(kinds); k++) {
            const rk_task t = task_of(&shapes[i], kinds[k]);
            const expected *e = &golden[i][k];
            const char *got = rk_cpu_route(simd, &t), *want = avx512 && e->avx512 ? e->avx512 : e->any;
            if (strcmp(got, want) != 0)
                fail_msg("%s of %s, %s, %s: %s, not %s", rp_op_name(kinds[k].op), rp_dtype_name(kinds[k].dtype), shapes[i].name,
                         simd->name, got, want);
        }
}

static void test_baseline(void **state)
{
    (void)state;
    check_routes(rk_simds[rk_simd_count - 1], false);
}

static void test_avx512(void **state)
{
    (void)state;
    const rk_simd *simd = simd_named("avx512");
    if (simd) /* the table of routes runs no loop, so the processor need not have it */
        check_routes(simd, true);
}

static void wake(void *arg)
{
    (void)arg;
    sem_post(&polled_ended);
}

/* A finished task names its route, whether it ran in one go, in pieces or in parts. */
static void test_finished(void **state)
{
    (void)state;
    enum { N = 100000 };
    static double x[N], cells[N];
    const rk_options o = {.backend = RP_BACKEND_CPU, .threads = 2, .wake = wake};
    rk_engine *e;
    sem_init(&polled_ended, 0, 0);
    assert_int_equal(rk_open(&e, &o, NULL, 0), RP_OK);
    for (size_t i = 0; i < COUNT(shapes); i++) {
        if (shapes[i].flags & (RP_OFFSETS | RP_MASK | RP_STATES_IN) || shapes[i].rows * shapes[i].row_len > N)
            continue;
        rk_task t = task_of(&shapes[i], (kind){RP_OP_SUM, RP_F64});
        const char *want = rk_cpu_route(rk_simd_best(), &t);
        t.data = x;
        t.bytes = rp_elements(&t.spec) * sizeof x[0];
        t.cells = cells;
        rk_cpu_run(&t);
        assert_string_equal(t.route, want);
        t.route = NULL;
        run(e, &t);
        assert_string_equal(t.route, want);
        t.route = NULL;
        rk_feed *f = rk_feed_open(e, &t);
        if (f)
            rk_feed_end(f, false);
        assert_true(!f || strcmp(t.route, want) == 0);
    }
    rk_close(e);
}

static void print_routes(void)
{
    const rk_simd *any = rk_simds[rk_simd_count - 1], *avx512 = simd_named("avx512");
    for (size_t i = 0; i < COUNT(shapes); i++) {
        printf("{   /* %s */\n", shapes[i].name);
        for (size_t k = 0; k < COUNT(kinds); k++) {
            const rk_task t = task_of(&shapes[i], kinds[k]);
            const char *a = rk_cpu_route(any, &t), *b = avx512 ? rk_cpu_route(avx512, &t) : a;
            printf("    /* %-6s %-4s */ {\"%s\", %s%s%s},\n", rp_op_name(kinds[k].op), rp_dtype_name(kinds[k].dtype), a,
                   strcmp(a, b) ? "\"" : "", strcmp(a, b) ? b : "NULL", strcmp(a, b) ? "\"" : "");
        }
        printf("},\n");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_baseline),
        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_finished),
    };
    if (argc > 1 && strcmp(argv[1], "print") == 0) {
        print_routes();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
