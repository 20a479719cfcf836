/* How many threads a call has, by what processor time those of earlier calls got. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kernels/cpu/threads/crowd.h"

enum { CORES = 16, US = 1000 };

static uint64_t now; /* ns, of the processes' clock */

/* Calls of a process for which a machine has `free` processors beside the one that it always gets: they need 1 ms of processors
 * each. How many helpers the last had. */
static int calls(rk_crowd *c, int n, double free, int *tried)
{
    int had = 0;
    for (int i = 0; i < n; i++) {
        had = rk_crowd_helpers(c, CORES - 1, now);
        *tried += had > 0;
        const double got = 1 + (had < free ? had : free), wall = 1000 * US / got + 20 * US * had;
        now += (uint64_t)wall;
        if (had)
            rk_crowd_note(c, had, 1000 * US, (uint64_t)wall);
    }
    return had;
}

static void an_idle_machine_is_used(void **state)
{
    rk_crowd c = {0};
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(rk_crowd_helpers(&c, CORES - 1, now), CORES - 1);
        rk_crowd_note(&c, CORES - 1, 940 * 16 * US, 1000 * US);
    }
    assert_int_equal(rk_crowd_helpers(&c, 3, now), 3);
    assert_int_equal(rk_crowd_helpers(&c, 0, now), 0);
}

static void a_full_machine_gets_few_threads(void **state)
{
    rk_crowd c = {0};
    int tried = 0;
    (void)state;
    assert_int_equal(calls(&c, 9, 0, &tried), 0); /* the tenth asks again */
    tried = 0;
    calls(&c, 10000, 0, &tried);
    assert_in_range(tried, 10, 100); /* it asks now and then, ever less */
}

static void processors_that_become_free_are_used(void **state)
{
    rk_crowd c = {0};
    int tried = 0;
    (void)state;
    calls(&c, 10000, 0, &tried);
    for (int i = 0; i < 300; i++) {
        const int n = rk_crowd_helpers(&c, CORES - 1, now);
        if (n)
            rk_crowd_note(&c, n, 950u * (unsigned)(n + 1) * US, 1000 * US);
    }
    assert_int_equal(rk_crowd_helpers(&c, CORES - 1, now), CORES - 1);
}

/* How many calls a process makes, alone, until all threads help. `ns`: of processor time, of each call. */
static int calls_until_all_help(rk_crowd *c, uint64_t ns)
{
    int n = 0, had;
    while ((had = rk_crowd_helpers(c, CORES - 1, now)) < CORES - 1 && ++n < 1000) {
        const uint64_t wall = ns / (unsigned)(had + 1);
        now += wall;
        if (had)
            rk_crowd_note(c, had, ns / 100 * 95, wall);
    }
    return n;
}

/* Calls of 7 ms would be 2 s without helpers, if they were counted alone. Those of the load may have been short, and the next
 * ones long: then six of them are enough, or three after a rest. */
static void long_calls_see_soon_that_a_load_has_ended(void **state)
{
    (void)state;
    for (int rest = 0; rest < 2; rest++) {
        rk_crowd c = {0};
        int tried = 0;
        calls(&c, 10000, 0, &tried);
        assert_in_range(calls_until_all_help(&c, 7000 * US), 1, 35);
        calls(&c, 10000, 0, &tried);
        now += rest ? 200000 * US : 0;
        assert_in_range(calls_until_all_help(&c, 90000 * US), 3, rest ? 3 : 6);
    }
}

static void what_is_forgotten_limits_nothing(void **state)
{
    rk_crowd c = {0};
    int tried = 0;
    (void)state;
    assert_int_equal(calls(&c, 10000, 0, &tried), 0);
    rk_crowd_forget(&c);
    assert_int_equal(rk_crowd_helpers(&c, CORES - 1, now), CORES - 1);
    rk_crowd_note(&c, CORES - 1, 2000 * US, 1000 * US);
    assert_int_equal(rk_crowd_helpers(&c, CORES - 1, now), 1); /* and is seen anew */
}

static void half_a_machine_gets_half_the_threads(void **state)
{
    rk_crowd c = {0};
    (void)state;
    rk_crowd_note(&c, 15, 7 * 1000 * US, 1000 * US);
    assert_int_equal(rk_crowd_helpers(&c, CORES - 1, now), 6); /* seven processors, one of them the caller's */
    rk_crowd_note(&c, 6, 5 * 1000 * US, 1000 * US);            /* of seven: it stays */
    assert_int_equal(rk_crowd_helpers(&c, CORES - 1, now), 6);
    rk_crowd_note(&c, 3, 1000 * US * 4, 1000 * US); /* a small call says nothing of more threads than it had */
    assert_int_equal(rk_crowd_helpers(&c, CORES - 1, now), 6);
}

/* An idle machine, whose helpers start late: calls of 500 us have some, after shorter ones that they did not help. */
static void helpers_that_start_late_are_kept(void **state)
{
    enum { WORK = 500, CALLS = 1000 };
    rk_crowd c = {0};
    int without = 0, tried = 0;
    (void)state;
    calls(&c, CALLS, 0, &tried);
    for (int i = 0; i < CALLS; i++) {
        const int n = rk_crowd_helpers(&c, 7, now);
        unsigned wall = 0, done = 0;
        for (; done < WORK; wall++, done++) /* us */
            for (int k = 0; k < n; k++)
                done += wall >= 110 + 30 * (unsigned)k + (unsigned)i % 7 * 8;
        now += wall * US;
        without += n == 0;
        if (n)
            rk_crowd_note(&c, n, WORK * US, wall * US);
    }
    assert_in_range(without, 0, CALLS / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_idle_machine_is_used),
                                       cmocka_unit_test(a_full_machine_gets_few_threads),
                                       cmocka_unit_test(processors_that_become_free_are_used),
                                       cmocka_unit_test(half_a_machine_gets_half_the_threads),
                                       cmocka_unit_test(long_calls_see_soon_that_a_load_has_ended),
                                       cmocka_unit_test(helpers_that_start_late_are_kept),
                                       cmocka_unit_test(what_is_forgotten_limits_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
