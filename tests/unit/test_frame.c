/* SP's framing: greetings, heads of frames, routes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "proto/frame.h"

static void greetings(void **state)
{
    (void)state;
    assert_memory_equal(rp_greeting_req, "\0SP\0\0\x30\0\0", RP_GREETING);
    assert_memory_equal(rp_greeting_rep, "\0SP\0\0\x31\0\0", RP_GREETING);
}

static void heads(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {0, 4, 255, 0x0102030405060708, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (int ipc = 0; ipc < 2; ipc++) {
            uint8_t head[RP_FRAME_HEAD + 1];
            uint64_t length = ~lengths[i];
            memset(head, 0xee, sizeof head);
            rp_put_frame_head(head, ipc, lengths[i]);
            assert_int_equal(head[rp_frame_head_size(ipc)], 0xee);
            assert_true(rp_get_frame_head(head, ipc, &length));
            assert_true(length == lengths[i]);
        }
    }
    uint8_t wire[] = {1, 1, 2, 3, 4, 5, 6, 7, 8}, head[sizeof wire];
    uint64_t length;
    rp_put_frame_head(head, true, 0x0102030405060708);
    assert_memory_equal(head, wire, sizeof wire);
    wire[0] = 7;
    assert_false(rp_get_frame_head(wire, true, &length));
}

static void routes(void **state)
{
    (void)state;
    uint8_t frame[RP_ROUTE + 4] = {0};
    size_t size = 0;
    assert_int_equal(rp_get_route(frame, sizeof frame, &size), RP_ROUTE_TOO_LONG);
    assert_int_equal(rp_get_route(frame, RP_ROUTE, &size), RP_ROUTE_TOO_LONG);
    for (size_t len = 0; len < RP_ROUTE; len++)
        assert_int_equal(rp_get_route(frame, len, &size), RP_ROUTE_BROKEN);
    for (size_t at = 0; at < RP_ROUTE; at += 4) {
        frame[at] = 0x80;
        assert_int_equal(rp_get_route(frame, at + 4, &size), RP_ROUTE_FINE);
        assert_int_equal(size, at + 4);
        assert_int_equal(rp_get_route(frame, at + 3, &size), RP_ROUTE_BROKEN);
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
