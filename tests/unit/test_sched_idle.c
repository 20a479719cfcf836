/* A session that had nothing queued saves no credit: it is served as if it were new. An item that the executor puts aside (a
 * read whose user has all its buffers) and queues again gets the same turns as if it had waited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/state/sched.h"

enum { MIB = 1 << 20, SMALL = 8000, ITEMS = 48 }; /* prices: of many turns, of less than one */

/* What the second session did before: it had one small item, which was served, or put aside some times, or taken back beside
 * the busy session's first one; and then it was idle. */
typedef enum { NOTHING, SERVED, PUT_ASIDE, TAKEN_BACK } past;

/* Which of the next `n` items are the second session's, when it comes beside a busy one. */
static uint64_t turns(past before, uint64_t price, int n)
{
    static rd_sched s;
    static rd_sched_user users[2];
    static rd_sched_session busy, late;
    static rd_item items[2][ITEMS], early;
    uint64_t whose = 0;
    s = (rd_sched){0};
    users[0] = users[1] = (rd_sched_user){0};
    busy = late = (rd_sched_session){0};
    rd_sched_init(&s, MIB, UINT64_C(1000) * MIB);
    s.queue[RD_QUEUE_LARGE].price_window = UINT64_MAX; /* prices are bytes here */
    rd_sched_join(&s, &busy, &users[0], RP_PRIORITY_NORMAL);
    rd_sched_join(&s, &late, &users[1], RP_PRIORITY_NORMAL);
    for (int i = before == SERVED ? 1 : before == PUT_ASIDE ? 10 : 0; i > 0; i--) {
        rd_sched_put(&s, &late, &early, RD_QUEUE_LARGE, 1, 1);
        assert_ptr_equal(rd_sched_next(&s, RD_QUEUE_LARGE), &early);
        rd_sched_end(&s, &early, before == SERVED);
    }
    for (int i = 0; i < ITEMS; i++)
        rd_sched_put(&s, &busy, &items[0][i], RD_QUEUE_LARGE, price, price);
    if (before == TAKEN_BACK)
        rd_sched_put(&s, &late, &early, RD_QUEUE_LARGE, 1, 1);
    assert_ptr_equal(rd_sched_next(&s, RD_QUEUE_LARGE), &items[0][0]);
    assert_int_equal(rd_sched_remove(&s, &early), before == TAKEN_BACK);
    for (int i = 0; i < ITEMS; i++)
        rd_sched_put(&s, &late, &items[1][i], RD_QUEUE_LARGE, price, price);
    for (int i = 0; i < n; i++) {
        rd_item *x = rd_sched_next(&s, RD_QUEUE_LARGE);
        assert_non_null(x);
        whose |= (uint64_t)(x >= items[1] && x < items[1] + ITEMS) << i;
    }
    return whose;
}

static void idle_sessions_keep_no_credit(void **state)
{
    (void)state;
    for (int n = 1; n <= ITEMS; n++) {
        assert_int_equal(turns(SERVED, MIB, n), turns(NOTHING, MIB, n));
        assert_int_equal(turns(PUT_ASIDE, SMALL, n), turns(NOTHING, SMALL, n));
        assert_int_equal(turns(TAKEN_BACK, SMALL, n), turns(NOTHING, SMALL, n));
    }
}

/* Two sessions with endless work of the same price; the first one's item 0 is put aside whenever its turn comes. */
static void what_is_put_aside_gains_no_turn(void **state)
{
    (void)state;
    rd_sched s;
    rd_sched_user users[2] = {0};
    rd_sched_session both[2] = {0};
    rd_item items[2][3];
    int served[2] = {0, 0}, aside = 0;
    rd_sched_init(&s, MIB, MIB);
    for (int x = 0; x < 2; x++) {
        rd_sched_join(&s, &both[x], &users[x], RP_PRIORITY_NORMAL);
        for (int i = 0; i < 3; i++)
            rd_sched_put(&s, &both[x], &items[x][i], RD_QUEUE_READ, SMALL, SMALL);
    }
    for (int n = 0; n < 1000; n++) {
        rd_item *i = rd_sched_next(&s, RD_QUEUE_READ);
        assert_non_null(i);
        int x = i >= items[1], is_aside = i == &items[0][0];
        aside += is_aside;
        served[x] += !is_aside;
        rd_sched_end(&s, i, is_aside ? 0 : SMALL);
        rd_sched_put(&s, &both[x], i, RD_QUEUE_READ, SMALL, SMALL);
    }
    const int round = 1 + (1 << 20) / SMALL; /* items that one turn's quantum is enough for */
    assert_true(aside > 100 && abs(served[0] - served[1]) <= round);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(idle_sessions_keep_no_credit),
                                       cmocka_unit_test(what_is_put_aside_gains_no_turn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
