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

/* Reads of all sizes bring the same bytes, in the same order. */
static void readers(void **state)
{
    (void)state;
    static rp_intake r;
    static uint8_t sent[3 * RP_AHEAD], got[sizeof sent];
    static const size_t wanted[] = {9, 100, 1, RP_AHEAD + 500, 9, 9, 7};
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t most = 1; most < RP_AHEAD; most = 3 * most + 1) {
        size_t at = 0, done = 0;
        for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
            rp_intake_want(&r, got + done, wanted[k]);
            while (!rp_intake_take(&r)) {
                size_t n = r.missing < most ? r.missing : most, behind = most - n;
                assert_int_equal(r.ahead_left, 0);
                memcpy(r.to, sent + at, n);
                memcpy(r.ahead, sent + at + n, behind);
                rp_intake_got(&r, most);
                at += most;
            }
            done += wanted[k];
        }
        assert_memory_equal(got, sent, done);
        assert_int_equal(r.ahead_left, at - done);
        r.ahead_left = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greetings),
        cmocka_unit_test(heads),
        cmocka_unit_test(routes),
        cmocka_unit_test(readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
