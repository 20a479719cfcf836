/* Bools: any byte but 0 is true, and nothing is read behind the element that decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/threads/pieces.h"
#include "kernels/exact/check.h"
#include "tests/unit/oracle.h"

enum { READABLE = 1 << 20, ALL = 16 << 20, PLACE = 70001 };

/* Of which truth the deciding element is, and the value */
typedef struct decided {
    int op;
    bool truth;
    uint64_t value;
} decided;
static const decided ops[] = {{RP_OP_ANY, true, 1},        {RP_OP_MAX, true, 1},   {RP_OP_OR, true, 1},
                              {RP_OP_NORMINF, true, 1},    {RP_OP_ALL, false, 0},  {RP_OP_MIN, false, 0},
                              {RP_OP_AND, false, 0},       {RP_OP_PROD, false, 0}, {RP_OP_ARGMAX, true, PLACE},
                              {RP_OP_ARGMIN, false, PLACE}};

/* ALL bytes that do not decide, the one at PLACE does; behind READABLE ones lies memory that cannot be read. */
static uint8_t *half_readable(const decided *d)
{
    uint8_t *x = mmap(NULL, ALL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(x != MAP_FAILED);
    memset(x, d->truth ? 0 : 2, READABLE);
    x[PLACE] = d->truth ? 128 : 0;
    assert_int_equal(mprotect(x + READABLE, ALL - READABLE, PROT_NONE), 0);
    return x;
}

static rk_task task_on(const decided *d, const uint8_t *x, uint32_t flags, void *cell)
{
    rk_task t = {.spec = {.op = (uint8_t)d->op, .dtype = RP_BOOL, .rows = 1, .row_len = ALL, .flags = flags}, .bytes = ALL};
    assert_int_equal(rp_spec_check(&t.spec, NULL), RP_OK);
    t.data = x;
    t.cells = cell;
    return t;
}

static void nothing_is_read_behind_the_element_that_decides(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        uint8_t *x = half_readable(&ops[i]);
        uint64_t value = 77;
        rk_task t = task_on(&ops[i], x, 0, &value);
        rk_cpu_run(&t);
        assert_int_equal(t.fault.code, RP_OK);
        assert_int_equal(value, ops[i].value);
        munmap(x, ALL);
    }
}

static void pieces_behind_it_are_not_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        uint8_t *x = half_readable(&ops[i]);
        uint64_t value = 77;
        rk_task t = task_on(&ops[i], x, 0, &value);
        rk_pieces *j = calloc(1, sizeof *j);
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        rk_cpu_begin(&t);
        rk_cut(j, &t, 8, rk_simd_best(), &lock);
        assert_true(j->pieces > 8 && j->each < READABLE);
        pthread_mutex_lock(&lock);
        while (j->next < j->pieces)
            rk_run_piece(j);
        pthread_mutex_unlock(&lock);
        rk_finish_pieces(j);
        assert_int_equal(t.fault.code, RP_OK);
        assert_int_equal(value, ops[i].value);
        free(j);
        munmap(x, ALL);
    }
}

/* A piece that was begun later, but ended first, must not hide the place of an earlier one. */
static void later_pieces_do_not_hide_earlier_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        uint64_t value = 77;
        uint8_t *x = malloc(ALL);
        memset(x, ops[i].truth ? 255 : 0, ALL);
        memset(x, ops[i].truth ? 0 : 255, PLACE);
        rk_task t = task_on(&ops[i], x, 0, &value);
        rk_pieces *j = calloc(1, sizeof *j);
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        rk_cpu_begin(&t);
        rk_cut(j, &t, 8, rk_simd_best(), &lock);
        pthread_mutex_lock(&lock);
        for (uint64_t k = 0; k < j->pieces; k++) {
            j->next = j->pieces - 1 - k;
            rk_run_piece(j);
        }
        pthread_mutex_unlock(&lock);
        rk_finish_pieces(j);
        assert_int_equal(t.fault.code, RP_OK);
        assert_int_equal(value, ops[i].value);
        free(j);
        free(x);
    }
}

/* A state that one element decides has the count of all. Those of any and all count elements, and must read them. */
static void states_count_what_was_not_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (ops[i].op == RP_OP_ANY || ops[i].op == RP_OP_ALL)
            continue;
        uint8_t *x = half_readable(&ops[i]);
        rk_state s;
        rk_task t = task_on(&ops[i], x, RP_STATES_OUT, &s);
        rk_cpu_run(&t);
        const size_t size = rp_state_size(rp_state_layout(ops[i].op, RP_BOOL));
        assert_int_equal(rk_state_check(ops[i].op, RP_BOOL, &s, size, NULL), RP_OK);
        assert_int_equal(s.count, ALL);
        munmap(x, ALL);
    }
}

/* Whatever the bytes are, states are those of 0 and 1. */
static void states_of_any_bytes_are_those_of_0_and_1(void **state)
{
    (void)state;
    enum { N = 3000 };
    uint8_t any[N], plain[N];
    t_rng r = {35};
    for (int op = RP_OP_SUM; op <= RP_OP_SEM; op++)
        for (size_t n = 0; n < N; n = n * 3 / 2 + 1) {
            const int layout = rp_state_layout(op, RP_BOOL);
            t_fill(&r, RP_BOOL, T_FULL, any, n);
            for (size_t i = 0; i < n; i++)
                plain[i] = any[i] != 0;
            for (int k = 0; k < rk_simd_count; k++) {
                rk_state a, b, added;
                if (!rk_simd_runs(rk_simds[k]))
                    continue;
                rk_state_init(&a, layout, RP_BOOL);
                b = added = a;
                rk_simds[k]->reduce[layout][RP_BOOL](&a, any, n, 5, RP_NAN_PROPAGATE);
                rk_simds[k]->reduce[layout][RP_BOOL](&b, plain, n, 5, RP_NAN_PROPAGATE);
                for (size_t i = 0; i < n; i++)
                    rk_state_add(&added, any[i], 5 + i, RP_NAN_PROPAGATE);
                assert_memory_equal(&a, &b, rp_state_size(layout));
                assert_memory_equal(&a, &added, rp_state_size(layout));
                assert_int_equal(rk_state_check(op, RP_BOOL, &a, rp_state_size(layout), NULL), RP_OK);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read_behind_the_element_that_decides), cmocka_unit_test(pieces_behind_it_are_not_read),
        cmocka_unit_test(later_pieces_do_not_hide_earlier_places),         cmocka_unit_test(states_count_what_was_not_read),
        cmocka_unit_test(states_of_any_bytes_are_those_of_0_and_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
