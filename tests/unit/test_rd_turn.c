/* A turn of the loop: what it leaves in the inbox, it comes back to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/loop.h"
#include "daemon/server.h"

enum { MOST = 10000 };

static void test_wake(void *arg) { ++*(unsigned *)arg; }

/* Whether it was rung, since the last call. */
static bool rung(const rd_waker *w)
{
    eventfd_t n;
    return eventfd_read(w->fd, &n) == 0;
}

static void events_beyond_a_turn_have_another_one(void **state)
{
    (void)state;
    static char nothing;
    unsigned woken = 0, finished = 0, turns = 0;
    rd_server *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->requests.engine = (rk_engine *)&nothing; /* not looked into */
    s->requests.halted = true;
    s->requests.sessions = &s->sessions;
    s->waker.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_true(rd_sessions_init(&s->sessions, &s->users, 16) && rd_workers_open(&s->workers, 1, 1, test_wake, &finished));
    assert_true(rd_inbox_init(&s->inbox, MOST, test_wake, &woken));
    for (uint32_t i = 1; i <= MOST; i++) /* of connections that are not known any more */
        assert_true(rd_inbox_put(&s->inbox, (rd_event){.kind = RD_CONNECTION_CLOSED, .connection = i}));
    do {
        rd_turn(s);
        turns++;
    } while (rung(&s->waker));
    assert_int_equal(s->inbox.used, 0);
    assert_true(turns > 1);
    assert_int_equal(woken, 1);
    rd_inbox_fini(&s->inbox);
    rd_workers_close(&s->workers);
    rd_sessions_fini(&s->sessions);
    close(s->waker.fd);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_beyond_a_turn_have_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
