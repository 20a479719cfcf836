/* The ladder's judgement, on a GPU that is made up: this file stands in for kernels/ladder/gpu.cu. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/ladder/ladder.h"

/* ---- the made-up GPU: right sums, run k of a rung takes k + 1 ms, unless a fault is planned ---- */

struct ladder_gpu {
    int64_t sum;
};

static struct {
    bool absent, lost;          /* no GPU; every load fails */
    const char *wrong, *broken; /* rungs */
    int wrong_run;              /* which run of `wrong` gives another sum */
    int asked_device;
    int runs[LADDER_RUNGS_MAX];
    unsigned blocks; /* bits: block / 32 - 1 of those seen */
    unsigned finishes;
} plan;

ladder_gpu *ladder_gpu_open(int number, ladder_card *card, char why[LADDER_WHY])
{
    plan.asked_device = number;
    if (plan.absent) {
        snprintf(why, LADDER_WHY, "nobody home");
        return NULL;
    }
    snprintf(card->name, sizeof card->name, "Paper GPU");
    card->peak_gbs = 100;
    return calloc(1, sizeof(ladder_gpu));
}

void ladder_gpu_close(ladder_gpu *g) { free(g); }

bool ladder_gpu_load(ladder_gpu *g, ladder_dtype dtype, const void *data, size_t n, char why[LADDER_WHY])
{
    g->sum = 0;
    for (size_t i = 0; i < n; i++)
        g->sum += dtype == LADDER_I32 ? ((const int32_t *)data)[i] : (int64_t)((const float *)data)[i];
    if (plan.lost)
        snprintf(why, LADDER_WHY, "out of paper");
    return !plan.lost;
}

bool ladder_gpu_run(ladder_gpu *g, const ladder_rung *rung, unsigned block, ladder_finish finish, ladder_run *out,
                    char why[LADDER_WHY])
{
    int run = plan.runs[rung->id]++;
    plan.blocks |= 1u << (block / 32 - 1);
    plan.finishes |= 1u << finish;
    if (plan.broken && !strcmp(plan.broken, rung->name)) {
        snprintf(why, LADDER_WHY, "torn");
        return false;
    }
    bool wrong = plan.wrong && !strcmp(plan.wrong, rung->name) && run == plan.wrong_run;
    *out = (ladder_run){.value = (double)(g->sum + wrong), .ms = run + 1, .grid = 7, .passes = 3};
    return true;
}

/* ---- the tests ---- */

static ladder_options options(int argc, char **argv)
{
    ladder_options o;
    char why[LADDER_WHY];
    optind = 1;
    assert_true(ladder_parse(&o, argc, argv, why));
    return o;
}
#define OPTIONS(...) \
    options((int)(sizeof(char *[]){__VA_ARGS__} / sizeof(char *)) + 1, (char *[]){(char *)"ladder", __VA_ARGS__, NULL})

static ladder_rows run(ladder_options o)
{
    ladder_rows rows = {0};
    char why[LADDER_WHY];
    memset(plan.runs, 0, sizeof plan.runs);
    assert_true(ladder_measure(&o, &rows, why));
    return rows;
}

static const ladder_row *row(const ladder_rows *rows, const char *rung)
{
    for (size_t i = 0; i < rows->count; i++)
        if (!strcmp(rows->row[i].rung, rung))
            return &rows->row[i];
    fail_msg("no row %s", rung);
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    memset(&plan, 0, sizeof plan);
    return 0;
}

static void every_rung_is_right(void **state)
{
    (void)state;
    ladder_rows rows = run(
        OPTIONS("-n", "1000,2^10", "-t", "i32,f32", "--block", "32,1024", "--finish", "host,atomic", "--repeat", "1"));
    assert_int_equal(rows.count, (size_t)ladder_rung_count * 16);
    for (size_t i = 0; i < rows.count; i++)
        assert_int_equal(rows.row[i].verdict, LADDER_RIGHT);
    assert_true(ladder_all_right(&rows));
    assert_int_equal(plan.blocks, 1u << 31 | 1);
    assert_int_equal(plan.finishes, 1u << LADDER_HOST | 1u << LADDER_ATOMIC);
    free(rows.row);
}

static void median_of_the_runs_after_the_warm_up(void **state)
{
    (void)state;
    ladder_rows rows = run(OPTIONS("-n", "2^20", "--rungs", "neighbored,interleaved", "--repeat", "4"));
    const ladder_row *r = row(&rows, "interleaved");
    assert_int_equal(r->runs, 4); /* of 2, 3, 4 and 5 ms; the first, of 1 ms, is not counted */
    assert_true(r->ms == 3.5 && r->ms_min == 2 && r->ms_max == 5);
    assert_true(fabs(r->gbs - 4 * 1048576 / 3.5e-3 * 1e-9) < 1e-9);
    assert_true(fabs(r->share - r->gbs / 100) < 1e-12);
    assert_int_equal(r->grid, 7);
    assert_int_equal(r->passes, 3);
    assert_true(isnan(r->over_cpu) && r->over_before == 1); /* the baseline was not run */
    assert_string_equal(r->gpu, "Paper GPU");
    free(rows.row);
}

static void slow_rungs_run_less_often(void **state)
{
    (void)state;
    ladder_rows rows = run(OPTIONS("-n", "1", "--rungs", "cub,chain"));
    assert_int_equal(row(&rows, "cub")->runs, 21);
    for (int i = 0; i < LADDER_RUNGS_MAX; i++)
        plan.runs[i] = 1000; /* now each takes a second */
    free(rows.row);
    rows = (ladder_rows){0};
    ladder_options o = OPTIONS("-n", "1", "--rungs", "chain");
    char why[LADDER_WHY];
    assert_true(ladder_measure(&o, &rows, why));
    assert_int_equal(row(&rows, "chain")->runs, 3);
    free(rows.row);
}

/* One wrong value is enough, in the warm-up, in the middle or at the end; it is the value that is shown. */
static void one_wrong_run_is_wrong(void **state)
{
    (void)state;
    for (plan.wrong_run = 0; plan.wrong_run <= 5; plan.wrong_run += plan.wrong_run == 0 ? 3 : 2) {
        plan.wrong = "unroll8";
        ladder_rows rows = run(OPTIONS("-n", "77", "--rungs", "unroll*", "--repeat", "5"));
        const ladder_row *r = row(&rows, "unroll8");
        assert_int_equal(r->verdict, LADDER_WRONG);
        assert_true(r->value == r->exact + 1);
        assert_int_equal(row(&rows, "unroll4")->verdict, LADDER_RIGHT);
        assert_false(ladder_all_right(&rows));
        free(rows.row);
    }
}

static void a_broken_rung_says_why(void **state)
{
    (void)state;
    plan.broken = "nested";
    ladder_rows rows = run(OPTIONS("-n", "77", "--rungs", "nested*", "--check"));
    assert_int_equal(row(&rows, "nested")->verdict, LADDER_BROKEN);
    assert_string_equal(row(&rows, "nested")->note, "torn");
    assert_true(isnan(row(&rows, "nested")->ms));
    assert_int_equal(row(&rows, "nested-fixed")->verdict, LADDER_RIGHT);
    assert_false(ladder_all_right(&rows));
    free(rows.row);
}

static void blocks_that_a_rung_does_not_allow(void **state)
{
    (void)state;
    ladder_rows rows = run(OPTIONS("-n", "5", "--block", "96", "--check"));
    for (int i = 0; i < ladder_rung_count; i++) {
        const ladder_row *r = row(&rows, ladder_rungs[i].name);
        assert_int_equal(r->verdict, ladder_rungs[i].power_of_two ? LADDER_NOT_RUN : LADDER_RIGHT);
        assert_int_equal(strlen(r->note) != 0, ladder_rungs[i].power_of_two);
    }
    assert_true(ladder_all_right(&rows));
    free(rows.row);
}

static void absent_gpu_is_no_error_unless_asked_for(void **state)
{
    (void)state;
    char why[LADDER_WHY];
    plan.absent = true;
    ladder_rows rows = run(OPTIONS("-n", "5", "--check"));
    assert_int_equal(row(&rows, "chain")->verdict, LADDER_NOT_RUN);
    assert_string_equal(row(&rows, "chain")->note, "needs a GPU (nobody home)");
    assert_int_equal(plan.asked_device, 0);
    ladder_options o = OPTIONS("-n", "5", "--device", "3");
    assert_false(ladder_measure(&o, &rows, why));
    assert_string_equal(why, "device 3: nobody home");
    assert_int_equal(plan.asked_device, 3);
    plan.asked_device = -1; /* the CPU's rungs do not open it */
    ladder_rows cpu = run(OPTIONS("-n", "5", "--rungs", "cpu-*", "--device", "3"));
    assert_int_equal(plan.asked_device, -1);
    free(cpu.row);
    free(rows.row);
}

static void input_that_does_not_fit(void **state)
{
    (void)state;
    char why[LADDER_WHY];
    ladder_rows rows = {0};
    plan.lost = true;
    ladder_options o = OPTIONS("-n", "5");
    assert_false(ladder_measure(&o, &rows, why));
    assert_string_equal(why, "5 elements on the GPU: out of paper");
    free(rows.row);
}

static void figures_of_the_notes(void **state)
{
    (void)state;
    const uint64_t n22 = 1 << 22, n26 = 1 << 26;
    assert_true(ladder_published("unroll8-template-shared", LADDER_I32, n26)->ms == 0.360);
    assert_string_equal(ladder_published("nested", LADDER_I32, n22)->machine, "RTX 3090");
    assert_string_equal(ladder_published("interleaved-shared", LADDER_I32, n22)->machine, "RTX 3050 laptop");
    assert_true(ladder_published("coarsened", LADDER_F32, n26)->ms == 0.677);
    assert_null(ladder_published("coarsened", LADDER_F32, 1000));
    assert_null(ladder_published("unroll8", LADDER_F32, n26));
    assert_null(ladder_published("unroll8", LADDER_I32, n26 + 1));
    assert_null(ladder_published("chain", LADDER_I32, n26));
}

static void sizes_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *text;
    } cases[] = {{1, "1"},
                 {1000, "1000"},
                 {1023, "2^10-1"},
                 {1 << 20, "2^20"},
                 {(1 << 20) + 1, "2^20+1"},
                 {(1 << 20) + 2, "1048578"},
                 {UINT64_C(1) << 34, "2^34"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[24], list[24];
        assert_string_equal(ladder_size_text(text, cases[i].n), cases[i].text);
        strcpy(list, text);
        assert_int_equal(OPTIONS("-n", list).n[0], cases[i].n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_rung_is_right, setup),
        cmocka_unit_test_setup(median_of_the_runs_after_the_warm_up, setup),
        cmocka_unit_test_setup(slow_rungs_run_less_often, setup),
        cmocka_unit_test_setup(one_wrong_run_is_wrong, setup),
        cmocka_unit_test_setup(a_broken_rung_says_why, setup),
        cmocka_unit_test_setup(blocks_that_a_rung_does_not_allow, setup),
        cmocka_unit_test_setup(absent_gpu_is_no_error_unless_asked_for, setup),
        cmocka_unit_test_setup(input_that_does_not_fit, setup),
        cmocka_unit_test_setup(figures_of_the_notes, setup),
        cmocka_unit_test_setup(sizes_as_people_write_them, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
