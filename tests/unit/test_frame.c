/* SP's framing: greetings, heads of frames. */
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

/* ---- the reader ---- */
enum { MOST = 3 * RP_AHEAD, STEP = 1000 };

/* Bytes of a stream, and where its reader is. */
typedef struct {
    uint8_t bytes[8 * RP_AHEAD];
    size_t size, at;
} stream;

static void put(stream *s, const void *bytes, size_t n)
{
    memcpy(s->bytes + s->size, bytes, n);
    s->size += n;
}

static void put_frame(stream *s, bool ipc, size_t size, uint8_t first)
{
    uint8_t head[RP_FRAME_HEAD];
    rp_put_frame_head(head, ipc, size);
    put(s, head, rp_frame_head_size(ipc));
    for (size_t i = 0; i < size; i++)
        s->bytes[s->size++] = (uint8_t)(first + i * 7 + i / 256);
}

/* A read of at most `most` bytes, as readv would do it. False: the stream has ended. */
static bool read_some(rp_frame_reader *r, stream *s, size_t most)
{
    size_t n = s->size - s->at < most ? s->size - s->at : most, room = r->missing + sizeof r->ahead;
    n = n < room ? n : room;
    size_t wanted = n < r->missing ? n : r->missing;
    assert_int_equal(r->ahead_left, 0);
    memcpy(r->to, s->bytes + s->at, wanted);
    memcpy(r->ahead, s->bytes + s->at + wanted, n - wanted);
    rp_frame_got(r, n);
    s->at += n;
    return n > 0;
}

/* The next event that is not RP_READ_MORE; RP_READ_MORE: the stream has ended. */
static rp_read next(rp_frame_reader *r, stream *s, size_t most)
{
    rp_read e;
    while ((e = rp_frame_next(r)) == RP_READ_MORE && read_some(r, s, most))
        ;
    return e;
}

/* Greeting and frames come whole and in order however the reads cut them, and in whatever steps memory is given. */
static void frames_by_reads_of_all_sizes(void **state)
{
    (void)state;
    static rp_frame_reader r;
    static stream s;
    static uint8_t got[MOST];
    static const size_t sizes[] = {4, 9, 100, 5, RP_AHEAD + 500, 44, 44, 44, MOST, 7};
    for (int ipc = 0; ipc < 2; ipc++)
        for (size_t most = 1; most < 4 * RP_AHEAD; most = 3 * most + 1) {
            s.size = s.at = 0;
            put(&s, rp_greeting_req, RP_GREETING);
            for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
                put_frame(&s, ipc, sizes[k], (uint8_t)k);
            rp_frame_init(&r, rp_greeting_req, ipc, MOST);
            assert_int_equal(next(&r, &s, most), RP_READ_GREETED);
            size_t from = RP_GREETING;
            for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
                rp_read e = next(&r, &s, most);
                assert_int_equal(e, RP_READ_BEGUN);
                assert_int_equal(r.size, sizes[k]);
                assert_true(rp_frame_is_inside(&r));
                for (size_t room = 0; e == RP_READ_BEGUN || e == RP_READ_FULL; e = next(&r, &s, most)) {
                    assert_int_equal(r.done, room);
                    rp_frame_into(&r, got + room, STEP);
                    room += STEP;
                }
                assert_int_equal(e, RP_READ_FRAME);
                from += rp_frame_head_size(ipc);
                assert_memory_equal(got, s.bytes + from, sizes[k]);
                from += sizes[k];
            }
            assert_int_equal(next(&r, &s, most), RP_READ_MORE);
            assert_false(rp_frame_is_inside(&r));
        }
}

/* The event behind a right greeting. */
static rp_read first_event(rp_frame_reader *r, bool ipc, const void *bytes, size_t n)
{
    static stream s;
    s.size = s.at = 0;
    put(&s, rp_greeting_rep, RP_GREETING);
    put(&s, bytes, n);
    rp_frame_init(r, rp_greeting_rep, ipc, MOST);
    assert_int_equal(next(r, &s, 100), RP_READ_GREETED);
    return next(r, &s, 100);
}

static void bad_frames_are_typed(void **state)
{
    (void)state;
    static rp_frame_reader r;
    static stream s;
    uint8_t head[RP_FRAME_HEAD] = {7};
    assert_int_equal(first_event(&r, true, head, sizeof head), RP_READ_NO_HEAD);
    for (int ipc = 0; ipc < 2; ipc++) {
        size_t n = rp_frame_head_size(ipc);
        static const struct {
            uint64_t size;
            rp_read event;
        } cases[] = {{0, RP_READ_SHORT},
                     {RP_ROUTE_LEAST - 1, RP_READ_SHORT},
                     {RP_ROUTE_LEAST, RP_READ_BEGUN},
                     {MOST, RP_READ_BEGUN},
                     {MOST + 1, RP_READ_LONG},
                     {UINT64_MAX, RP_READ_LONG}};
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            rp_put_frame_head(head, ipc, cases[i].size);
            assert_int_equal(first_event(&r, ipc, head, n), cases[i].event);
        }
        assert_int_equal(first_event(&r, ipc, head, n - 1), RP_READ_MORE);
        assert_true(rp_frame_is_inside(&r));
        assert_int_equal(first_event(&r, ipc, head, 0), RP_READ_MORE);
        assert_false(rp_frame_is_inside(&r));
    }
    rp_frame_init(&r, rp_greeting_req, true, MOST);
    put(&s, rp_greeting_rep, RP_GREETING);
    assert_int_equal(next(&r, &s, 3), RP_READ_NOT_OURS);
}

/* Of a frame that is too long, the first bytes can be had: they say which request it would be. */
static void first_bytes_of_a_long_frame(void **state)
{
    (void)state;
    static rp_frame_reader r;
    static stream s;
    uint8_t got[72];
    put(&s, rp_greeting_req, RP_GREETING);
    put_frame(&s, true, MOST + 1, 3);
    rp_frame_init(&r, rp_greeting_req, true, MOST);
    assert_int_equal(next(&r, &s, 50), RP_READ_GREETED);
    assert_int_equal(next(&r, &s, 50), RP_READ_LONG);
    rp_frame_into(&r, got, sizeof got);
    assert_int_equal(next(&r, &s, 50), RP_READ_FULL);
    assert_memory_equal(got, s.bytes + RP_GREETING + RP_FRAME_HEAD, sizeof got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greetings),
        cmocka_unit_test(heads),
        cmocka_unit_test(frames_by_reads_of_all_sizes),
        cmocka_unit_test(bad_frames_are_typed),
        cmocka_unit_test(first_bytes_of_a_long_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
