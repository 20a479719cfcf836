/* The replies of a connection on a wire that takes as many bytes as the test says: when is it read, and when not? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/net/limits.h"
#include "daemon/net/reply_buffer.h"
#include "daemon/net/sending.h"

enum { MANY = RD_MAX_QUEUED + 1, SMALL = 64, LARGE = RD_MAX_QUEUED_BYTES / RD_MAX_QUEUED };

static size_t room; /* bytes that the kernel takes */
static unsigned turns;

static size_t test_send(rd_wire *w, const void *data, size_t n)
{
    (void)w;
    (void)data;
    const size_t taken = n < room ? n : room;
    room -= taken;
    return taken;
}

static bool test_send_rest(rd_wire *w, const void *data, size_t n)
{
    (void)w;
    (void)data;
    return n > 0;
}

static void test_receive(rd_wire *w, void *to, size_t n, void *more, size_t more_n)
{
    (void)w;
    (void)to;
    (void)more;
    turns += n + more_n == 0;
}

/* Only its length counts: the wire reads nothing. */
static void reply(rd_connection *c, size_t bytes)
{
    rd_reply_buffer *r = rd_reply_buffer_new(&c->all->unsent, 0);
    assert_non_null(r);
    r->at = r->bytes;
    r->left = bytes;
    c->under_way++;
    rd_send(c, r, 1);
}

static void a_connection_with_many_bytes_queued_is_not_read(void **state)
{
    (void)state;
    static const rd_wire_ops ops = {.send = test_send, .send_rest = test_send_rest, .receive = test_receive};
    rd_wire wire = {.ops = &ops};
    rd_connections all = {.unsent = 0};
    rd_connection c = {.all = &all, .wire = &wire, .holders = 1, .replies_end = &c.replies};
    pthread_mutex_init(&c.lock, NULL);
    for (int round = 0; round < 3; round++) {
        turns = 0;
        room = 0;
        for (int i = 0; i < MANY; i++)
            reply(&c, SMALL);
        assert_int_equal(rd_sending_look(&c), RD_GO_ON); /* many replies, but few bytes */
        for (int i = 0; i < RD_MAX_QUEUED; i++)
            reply(&c, LARGE);
        assert_int_equal(rd_sending_look(&c), RD_PAUSED);
        room = SIZE_MAX;
        rd_sending_sent(&c, true, SMALL);
        assert_int_equal(turns, 1);
        assert_int_equal(atomic_load(&all.unsent) + c.under_way + c.n_replies, 0);
    }
    pthread_mutex_destroy(&c.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_with_many_bytes_queued_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
