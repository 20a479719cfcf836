/* Which way a reduction takes: by built-in rates at first, then by what requests took, without flapping. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/local.h"
#include "client/ways.h"
#include "kernels/cpu/threads/here.h"
#include "proto/types.h"

static rc_work work_of(int op, int dtype, uint64_t bytes, int threads)
{
    return (rc_work){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .bytes = bytes, .threads = threads};
}

/* Note `times` requests, each by the way that is chosen, which takes what `ns` says. Returns how many went there. */
static int run(rc_ways *w, const rc_work *k, int times, const uint64_t ns[RC_WAYS])
{
    int there = 0;
    for (int i = 0; i < times; i++) {
        const rc_way way = rc_ways_choose(w, k);
        there += way == RC_THERE;
        rc_ways_note(w, k, way, ns[way]);
    }
    return there;
}

/* Beside an idle GPU nothing that the processor reads at the speed of memory goes there. */
static void at_first_built_in_rates_decide(void **state)
{
    (void)state;
    const rc_ways none = {0};
    for (uint64_t bytes = 1 << 17; bytes <= UINT64_C(1) << 33; bytes *= 2)
        for (int threads = 1; threads <= 64; threads *= 4) {
            const rc_work sum = work_of(RP_OP_SUM, RP_F32, bytes, threads);
            assert_int_equal(rc_ways_choose(&none, &sum), RC_HERE);
        }
    rc_work k = work_of(RP_OP_PROD, RP_I8, 64 << 20, 1);
    assert_int_equal(rc_ways_choose(&none, &k), RC_THERE);
    k = work_of(RP_OP_SUM, RP_F32, 64 << 20, 1);
    k.distant = true;
    assert_int_equal(rc_ways_choose(&none, &k), RC_HERE);
    k = work_of(RP_OP_SUM, RP_F64, 64 << 20, 2); /* two cores are slower than the bus, if nothing is copied */
    k.shared = true;
    assert_int_equal(rc_ways_choose(&none, &k), RC_THERE);
    k.threads = 16;
    assert_int_equal(rc_ways_choose(&none, &k), RC_HERE);
}

/* What a daemon has decides what it may do it with, and its measured rates count. */
static void the_daemon_takes_its_fastest_engine(void **state)
{
    (void)state;
    const rc_ways none = {0};
    rc_work k = work_of(RP_OP_SUM, RP_F32, 64 << 20, 16);
    double by[RC_ENGINES];
    for (int file = 0; file < 2; file++) {
        k.file = file;
        k.shared = !file;
        for (rc_by i = 0; i < RC_ENGINES; i++)
            by[i] = rc_ways_expected_by(&none, &k, i);
        assert_true(isinf(by[RC_BY_CPU]) && by[RC_BY_BOTH] < by[RC_BY_GPU]);
        assert_true(rc_ways_expected(&none, &k, RC_THERE) == by[RC_BY_BOTH]);
    }
    k.reads = true; /* k.file is */
    assert_true(rc_ways_expected_by(&none, &k, RC_BY_CPU) < by[RC_BY_BOTH]);
    k.op = RP_OP_PROD;
    assert_true(isinf(rc_ways_expected_by(&none, &k, RC_BY_CPU)));
    k.op = RP_OP_SUM;
    k.reads = k.file = false;
    k.device_rate = 1;
    k.cpu_rate = 100;
    assert_true(rc_ways_expected_by(&none, &k, RC_BY_GPU) > 10 * by[RC_BY_GPU]);
    assert_true(rc_ways_expected_by(&none, &k, RC_BY_BOTH) < rc_ways_expected_by(&none, &k, RC_BY_GPU) / 10);
    k.bytes = 100000; /* the CPU has no share of it */
    assert_true(isinf(rc_ways_expected_by(&none, &k, RC_BY_BOTH)));
    k.cpu = true;
    assert_true(isinf(rc_ways_expected_by(&none, &k, RC_BY_GPU)) && isfinite(rc_ways_expected_by(&none, &k, RC_BY_CPU)));
}

/* A fifth of the cores help a GPU; what all of them could read of memory does not limit these. */
static void the_processor_beside_a_gpu_has_its_cores_rates(void **state)
{
    (void)state;
    const rc_ways none = {0};
    rc_work k = work_of(RP_OP_SUM, RP_F32, 1 << 30, 16);
    k.shared = true;
    const double gpu = rc_ways_expected_by(&none, &k, RC_BY_GPU), both = rc_ways_expected_by(&none, &k, RC_BY_BOTH);
    k.threads = 5; /* one of them helps */
    const double less = rc_ways_expected_by(&none, &k, RC_BY_BOTH), more = 1 / both - 1 / gpu, one = 1 / less - 1 / gpu;
    assert_true(more > 2.9 * one && more < 3.1 * one);
    assert_true(both < 0.55 * gpu);
}

/* A loaded processor is slower than its rate says. */
static void what_requests_took_decides_later(void **state)
{
    (void)state;
    rc_ways w = {0};
    const rc_work k = work_of(RP_OP_SUM, RP_F32, 64 << 20, 16);
    const double here = rc_ways_expected(&w, &k, RC_HERE), there = rc_ways_expected(&w, &k, RC_THERE);
    const uint64_t loaded[RC_WAYS] = {[RC_HERE] = (uint64_t)(10 * there), [RC_THERE] = (uint64_t)there};
    assert_int_equal(run(&w, &k, 20, loaded), 18); /* one trial */
    assert_true(rc_ways_expected(&w, &k, RC_HERE) > 9.9 * there && rc_ways_expected(&w, &k, RC_HERE) < 10.1 * there);
    /* The load ends: the other way is tried when it would be a sixth of the time since, and stays. */
    const uint64_t idle[RC_WAYS] = {[RC_HERE] = (uint64_t)here, [RC_THERE] = (uint64_t)there};
    assert_in_range(run(&w, &k, 1000, idle), 1, 60);
    assert_int_equal(rc_ways_choose(&w, &k), RC_HERE);
}

static void a_kind_of_work_does_not_teach_about_another(void **state)
{
    (void)state;
    rc_ways w = {0};
    const rc_work k = work_of(RP_OP_SUM, RP_F32, 64 << 20, 16);
    rc_work others[] = {work_of(RP_OP_VAR, RP_F32, 64 << 20, 16), work_of(RP_OP_SUM, RP_F16, 64 << 20, 16),
                        work_of(RP_OP_SUM, RP_F32, 1 << 20, 16), work_of(RP_OP_MEDIAN, RP_F32, 64 << 20, 16), k};
    others[3].all = others[4].file = true;
    rc_ways_note(&w, &k, RC_HERE, UINT64_C(1) << 40);
    assert_int_equal(rc_ways_choose(&w, &k), RC_HERE); /* a cold one? */
    rc_ways_note(&w, &k, RC_HERE, UINT64_C(1) << 40);
    assert_int_equal(rc_ways_choose(&w, &k), RC_THERE);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(rc_ways_choose(&w, &others[i]), RC_HERE);
}

/* The first request of a way pays for memory that the next ones use: the way is not given up for that. */
static void a_cold_start_is_not_the_last_word(void **state)
{
    (void)state;
    rc_ways w = {0};
    const rc_work k = work_of(RP_OP_PROD, RP_F32, 64 << 20, 16);
    const uint64_t cold = 60000000, here = 8300000, there = 3400000;
    rc_ways_note(&w, &k, RC_THERE, cold);
    const int soon = run(&w, &k, 20, (const uint64_t[RC_WAYS]){[RC_HERE] = here, [RC_THERE] = there});
    assert_in_range(soon, 10, 19);
    assert_int_equal(rc_ways_choose(&w, &k), RC_THERE);
}

/* Times that differ by less than a fifth, in turn: the way stays but for trials. */
static void it_does_not_flap(void **state)
{
    (void)state;
    rc_ways w = {0};
    const rc_work k = work_of(RP_OP_SUM, RP_F32, 64 << 20, 16);
    const uint64_t even[2][RC_WAYS] = {{1000000, 1100000}, {1100000, 1000000}};
    int changes = 0;
    rc_ways_note(&w, &k, RC_HERE, 1050000);
    for (int i = 0; i < 260; i++)
        changes += run(&w, &k, 1, even[i % 2]) != 0;
    assert_int_equal(changes, 2 * 5); /* a trial has two requests */
}

/* The way that loses is not paid for: of 10,000 requests some forty are trials, and none if it cannot win. */
static void trials_are_rare(void **state)
{
    (void)state;
    rc_ways w = {0};
    const rc_work k = work_of(RP_OP_STATS, RP_F32, 64 << 20, 16);
    const double here = rc_ways_expected(&w, &k, RC_HERE), there = rc_ways_expected(&w, &k, RC_THERE);
    const uint64_t usual[RC_WAYS] = {[RC_HERE] = (uint64_t)here, [RC_THERE] = (uint64_t)there};
    assert_in_range(run(&w, &k, 10000, usual), 1, 45);
    rc_work far = k;
    far.distant = true;
    assert_int_equal(run(&(rc_ways){0}, &far, 10000, usual), 0);
}

enum { GIB_HERE = 9500, GIB_THERE = 24900 }; /* us: an H200's host, one process */

/* Requests of 1 GiB until `end` us of their clock, here `times` slower before `slow`. Returns how many. */
static int run_gib(rc_ways *w, uint64_t *now, uint64_t end, uint64_t slow, unsigned times)
{
    const rc_work k = work_of(RP_OP_SUM, RP_F32, 1 << 30, 16);
    int n = 0;
    for (; *now < end; n++) {
        const rc_way way = rc_ways_choose(w, &k);
        const uint64_t us = way == RC_THERE ? GIB_THERE : *now < slow ? times * GIB_HERE : GIB_HERE;
        *now += us;
        rc_ways_note(w, &k, way, us * 1000);
    }
    return n;
}

/* As share.py asks: three requests, windows of 100 ms, and pauses in which others ask. In the first second the process takes up
 * to ten times as long. In the third window all requests are reduced here. */
static void a_slow_first_second_is_soon_forgotten(void **state)
{
    (void)state;
    for (unsigned times = 1; times <= 10; times++) {
        rc_ways w = {0};
        uint64_t now = 0;
        run_gib(&w, &now, 2 * times * GIB_HERE + 1, 1000000, times);
        for (int window = 1; window <= 7; window++) {
            now += 600000;
            const int n = run_gib(&w, &now, now + 100000, 1000000, times);
            assert_true(window <= 2 || n >= 8);
        }
    }
}

/* Where that second does not end, trials take a tenth of two seconds and a fiftieth of twenty. */
static void a_way_that_is_slow_costs_little(void **state)
{
    (void)state;
    for (unsigned times = 4; times <= 10; times++) {
        rc_ways w = {0};
        uint64_t now = 0;
        run_gib(&w, &now, 2 * times * GIB_HERE, UINT64_MAX, times); /* it is known */
        uint64_t begin = now;
        assert_true(run_gib(&w, &now, begin + 2000000, UINT64_MAX, times) >= 0.9 * 2000000 / GIB_THERE);
        assert_true(run_gib(&w, &now, begin + 20000000, UINT64_MAX, times) >= 0.98 * 18000000 / GIB_THERE);
    }
}

/* Its first request is enough. */
static void a_slow_trial_is_not_repeated_at_once(void **state)
{
    (void)state;
    rc_ways w = {0};
    const rc_work k = work_of(RP_OP_STATS, RP_F32, 64 << 20, 16);
    const uint64_t far[RC_WAYS] = {1000000, 20000000};
    assert_int_equal(run(&w, &k, 100, far), 1);
}

/* The other way, until it stays. */
static void a_trial_is_known_as_one(void **state)
{
    (void)state;
    rc_ways w = {0};
    const rc_work k = work_of(RP_OP_VAR, RP_F32, 64 << 20, 16);
    assert_false(rc_ways_tries(&w, &k, RC_HERE) || rc_ways_tries(&w, &k, RC_THERE));
    const uint64_t slow_here[RC_WAYS] = {10000000, 2000000};
    run(&w, &k, 10, slow_here);
    assert_false(rc_ways_tries(&w, &k, RC_THERE));
    while (rc_ways_choose(&w, &k) == RC_THERE)
        rc_ways_note(&w, &k, RC_THERE, slow_here[RC_THERE]);
    assert_true(rc_ways_tries(&w, &k, RC_HERE));
    const uint64_t fast_here[RC_WAYS] = {700000, 2000000};
    run(&w, &k, 2, fast_here);
    assert_false(rc_ways_tries(&w, &k, RC_HERE));
}

/* As many as this process may use; on the cores of a daemon no more than it has. */
static void threads_are_those_of_the_daemon(void **state)
{
    (void)state;
    const int cores = rk_cpu_cores();
    assert_int_equal(rc_threads_beside(&(rc_engine){0}), cores);
    assert_int_equal(rc_threads_beside(&(rc_engine){.cpu = true, .threads = 1}), 1);
    assert_int_equal(rc_threads_beside(&(rc_engine){.cpu = true, .threads = cores + 1}), cores);
    assert_int_equal(rc_threads_beside(&(rc_engine){.threads = 1}), cores);
}

/* ---- a machine ---- */

enum { MOST = 16, FORCED = RC_WAYS, WINDOWS = 14, WINDOW_MS = 150, SECOND_MS = 1000 / WINDOWS };

/* ms of a request: of one alone, and for each process that asks at the same time; the first one here after some there fills the
 * caches again. During the burst a way has a tenth of its speed. */
typedef struct machine {
    double alone[RC_WAYS], each[RC_WAYS], cold, begin, end;
    rc_way slow;
} machine;

typedef struct process {
    rc_ways ways;
    rc_way way;
    double end; /* of its request */
} process;

/* When a request ends that begins at `now`, beside n - 1 others. */
static double end_of(const machine *m, rc_way before, rc_way way, int n, double now)
{
    const double at = now > m->begin ? now : m->begin, caches = way == RC_HERE && before != RC_HERE ? m->cold : 1;
    const double work = fmax(caches * m->alone[way], n * m->each[way]), done = (m->end - at) / 10;
    if (way != m->slow || now >= m->end || now + work <= m->begin)
        return now + work;
    const double left = now + work - at; /* when the burst begins */
    return left <= done ? at + 10 * left : m->end + left - done;
}

static void ask(const machine *m, process *p, int n, int forced, double now)
{
    const rc_work k = work_of(RP_OP_VAR, RP_F32, 64 << 20, 16);
    const rc_way way = forced < FORCED ? (rc_way)forced : rc_ways_choose(&p->ways, &k);
    p->end = end_of(m, p->way, way, n, now);
    p->way = way;
    rc_ways_note(&p->ways, &k, way, (uint64_t)((p->end - now) * 1e6));
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Requests of n processes that ask again and again: all, and the median of each seven windows that follow one another. */
static int simulate(const machine *m, int n, int forced, int window_ms, int medians[WINDOWS / 7])
{
    static process p[MOST];
    int all = 0, windows[WINDOWS] = {0};
    memset(p, 0, sizeof p);
    for (int i = 0; i < n; i++)
        ask(m, &p[i], n, forced, i * 0.1);
    for (;;) {
        process *first = p;
        for (int i = 1; i < n; i++)
            first = p[i].end < first->end ? &p[i] : first;
        const double now = first->end;
        if (now >= WINDOWS * window_ms)
            break;
        all++;
        windows[(int)(now / window_ms)]++;
        ask(m, first, n, forced, now);
    }
    for (int i = 0; i < WINDOWS / 7; i++) {
        qsort(windows + 7 * i, 7, sizeof *windows, compare);
        medians[i] = windows[7 * i + 3];
    }
    return all;
}

/* The best way is within a tenth of all requests, and within 1.3 of every seven windows. */
static void check_machine(const machine *m, int n)
{
    int ours[WINDOWS / 7], forced[RC_WAYS][WINDOWS / 7], all[RC_WAYS];
    const int found = simulate(m, n, FORCED, WINDOW_MS, ours);
    for (int way = 0; way < RC_WAYS; way++)
        all[way] = simulate(m, n, way, WINDOW_MS, forced[way]);
    const rc_way best = all[RC_HERE] > all[RC_THERE] ? RC_HERE : RC_THERE;
    for (int i = 0; i < WINDOWS / 7; i++)
        if (ours[i] * 1.3 < forced[best][i])
            fail_msg("%d processes, burst of way %d at %.0f ms: %d, not %d", n, m->slow, m->begin, ours[i], forced[best][i]);
    if (found * 1.1 < all[best])
        fail_msg("%d processes, burst of way %d at %.0f ms: %d, not %d in all", n, m->slow, m->begin, found, all[best]);
}

static const machine machines[] = {{.alone = {0.8, 2.6}, .each = {0.6, 1.8}, .cold = 3.5},
                                   {.alone = {0.8, 2.6}, .each = {0.6, 1.8}, .cold = 1},
                                   {.alone = {0.9, 3}, .each = {0.9, 2.3}, .cold = 2},
                                   {.alone = {3.7, 1.1}, .each = {3, 0.9}, .cold = 2},
                                   {.alone = {0.9, 0.95}, .each = {0.7, 0.75}, .cold = 1}};

/* One slow burst of a way is forgotten, whenever it comes, and whichever way is the best. */
static void a_burst_is_not_the_last_word(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (int n = 1; n <= MOST; n *= 4)
            for (int begin = 0; begin < 1200; begin += 50)
                for (rc_way way = RC_HERE; way < RC_WAYS; way++) {
                    machine m = machines[i];
                    m.slow = way;
                    m.begin = begin;
                    m.end = begin + 40;
                    check_machine(&m, n);
                }
}

/* Sixteen processes, each of which learns for itself, in their first second: trials of the daemon take little of it. */
static void trials_of_a_crowd_cost_little(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        machine m = machines[i];
        int medians[WINDOWS / 7];
        m.begin = m.end = HUGE_VAL; /* no burst */
        const int ours = simulate(&m, MOST, FORCED, SECOND_MS, medians), here = simulate(&m, MOST, RC_HERE, SECOND_MS, medians);
        if (here > simulate(&m, MOST, RC_THERE, SECOND_MS, medians) && ours < 0.97 * here)
            fail_msg("machine %zu: %d, not %d", i, ours, here);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_first_built_in_rates_decide),
                                       cmocka_unit_test(the_daemon_takes_its_fastest_engine),
                                       cmocka_unit_test(the_processor_beside_a_gpu_has_its_cores_rates),
                                       cmocka_unit_test(what_requests_took_decides_later),
                                       cmocka_unit_test(a_kind_of_work_does_not_teach_about_another),
                                       cmocka_unit_test(a_cold_start_is_not_the_last_word),
                                       cmocka_unit_test(it_does_not_flap),
                                       cmocka_unit_test(trials_are_rare),
                                       cmocka_unit_test(a_slow_first_second_is_soon_forgotten),
                                       cmocka_unit_test(a_way_that_is_slow_costs_little),
                                       cmocka_unit_test(a_slow_trial_is_not_repeated_at_once),
                                       cmocka_unit_test(a_trial_is_known_as_one),
                                       cmocka_unit_test(threads_are_those_of_the_daemon),
                                       cmocka_unit_test(trials_of_a_crowd_cost_little),
                                       cmocka_unit_test(a_burst_is_not_the_last_word)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
