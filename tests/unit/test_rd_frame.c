/* SP's framing: greetings, heads of frames, routes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/frame.h"

static void greetings(void **state)
{
    (void)state;
    uint8_t req[RD_GREETING] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    assert_memory_equal(rd_greeting, "\0SP\0\0\x31\0\0", RD_GREETING);
    assert_true(rd_greeting_fits(req));
    for (size_t i = 0; i < sizeof req; i++) {
        req[i] ^= 1;
        assert_false(rd_greeting_fits(req));
        req[i] ^= 1;
    }
}

static void heads(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0, 4, 255, 0x0102030405060708, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (int ipc = 0; ipc < 2; ipc++) {
            uint8_t head[RD_FRAME_HEAD + 1];
            uint64_t length = ~lengths[i];
            memset(head, 0xee, sizeof head);
            rd_put_frame_head(head, ipc, lengths[i]);
            assert_int_equal(head[rd_frame_head_size(ipc)], 0xee);
            assert_true(rd_get_frame_head(head, ipc, &length));
            assert_true(length == lengths[i]);
        }
    }
    uint8_t wire[] = {1, 1, 2, 3, 4, 5, 6, 7, 8}, head[sizeof wire];
    uint64_t length;
    rd_put_frame_head(head, true, 0x0102030405060708);
    assert_memory_equal(head, wire, sizeof wire);
    wire[0] = 7;
    assert_false(rd_get_frame_head(wire, true, &length));
}

static void routes(void **state)
{
    (void)state;
    uint8_t frame[RD_ROUTE + 4] = {0};
    size_t size = 0;
    assert_int_equal(rd_get_route(frame, sizeof frame, &size), RD_ROUTE_TOO_LONG);
    assert_int_equal(rd_get_route(frame, RD_ROUTE, &size), RD_ROUTE_TOO_LONG);
    for (size_t len = 0; len < RD_ROUTE; len++)
        assert_int_equal(rd_get_route(frame, len, &size), RD_ROUTE_BROKEN);
    for (size_t at = 0; at < RD_ROUTE; at += 4) {
        frame[at] = 0x80;
        assert_int_equal(rd_get_route(frame, at + 4, &size), RD_ROUTE_FINE);
        assert_int_equal(size, at + 4);
        assert_int_equal(rd_get_route(frame, at + 3, &size), RD_ROUTE_BROKEN);
        frame[at] = 0x7f;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greetings),
        cmocka_unit_test(heads),
        cmocka_unit_test(routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
