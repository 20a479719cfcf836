/* A session that had nothing queued saves no credit: it is served as if it were new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/state/sched.h"

enum { MIB = 1 << 20, ITEMS = 48 };

/* Which of the first `n` items are the second session's, when it comes beside a busy one. `before`: it has had one small item
 * of its own served, and then been idle. */
static uint64_t turns(bool before, int n)
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
    if (before) {
        rd_sched_put(&s, &late, &early, RD_QUEUE_LARGE, 1, 1);
        assert_ptr_equal(rd_sched_next(&s, RD_QUEUE_LARGE), &early);
        rd_sched_end(&s, &early, 1);
    }
    for (int i = 0; i < ITEMS; i++)
        rd_sched_put(&s, &busy, &items[0][i], RD_QUEUE_LARGE, MIB, MIB);
    for (int i = 0; i < ITEMS; i++)
        rd_sched_put(&s, &late, &items[1][i], RD_QUEUE_LARGE, MIB, MIB);
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
    for (int n = 1; n <= ITEMS; n++)
        assert_int_equal(turns(true, n), turns(false, n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(idle_sessions_keep_no_credit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
