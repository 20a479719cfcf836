/* Any bytes as what a peer sends on its connection: byte 0 says ipc or not, which side is greeted and how the reads cut the
 * rest. The reader gives the same frames whatever the cuts and stays within the memory that it was given. The daemon's check
 * accepts what the codec accepts, and its answers have a route of the frame. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/net/frame_check.h"

enum { MOST = 1 << 16, FIRST_BYTES = 72, MAX_EVENTS = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

typedef struct {
    rp_read kind;
    uint64_t size;
    uint32_t sum; /* of the frame's bytes */
} event;

typedef struct {
    rp_frame_reader reader;
    const uint8_t *bytes;
    size_t left, cut; /* bytes of one read */
    uint8_t *frame;   /* a block of its own, so that a sanitizer sees its end */
    size_t room, step;
    event events[MAX_EVENTS];
    size_t n;
} side;

/* The route of at most RP_ROUTE bytes that a frame begins with, by PROTOCOL.md. 0: there is none. */
static size_t route_of(const uint8_t *frame, size_t len)
{
    for (size_t end = RP_ROUTE_LEAST; end <= RP_ROUTE && end <= len; end += RP_ROUTE_LEAST)
        if (frame[end - RP_ROUTE_LEAST] & RP_ROUTE_END)
            return end;
    return 0;
}

static void check_request(const uint8_t *frame, size_t len)
{
    rd_frame_check c;
    rp_header h;
    rp_fault f, why;
    const size_t route = route_of(frame, len);
    bool right = route && rp_get_header(frame + route, len - route, &h, &why) == RP_OK && !h.reply;
    rp_err err = rd_check_frame(frame, len, &c, &f);
    if (right && (err || c.route != route || c.header.id != h.id || c.header.body_len != len - route - RP_HEADER_SIZE))
        fail("a right request is refused");
    if (!right && !err)
        fail("a wrong request is accepted");
    if (c.route > len || c.route > RD_MAX_ROUTE || c.route % 4 || (err && !f.field[0]))
        fail("an error without its place");
}

static void grow(side *s)
{
    uint64_t left = s->reader.size - s->room;
    size_t more = left < s->step ? (size_t)left : s->step;
    uint8_t *frame = realloc(s->frame, s->room + more);
    if (!frame)
        abort();
    if (s->reader.done != s->room)
        fail("the reader lost count");
    s->frame = frame;
    rp_frame_into(&s->reader, frame + s->room, more);
    s->room += more;
}

static void drop_frame(side *s)
{
    free(s->frame);
    s->frame = NULL;
    s->room = 0;
}

static void note(side *s, rp_read kind)
{
    event e = {.kind = kind, .size = kind == RP_READ_NOT_OURS || kind == RP_READ_GREETED ? 0 : s->reader.size};
    if (kind == RP_READ_FRAME) {
        check_request(s->frame, s->room);
        for (size_t i = 0; i < s->room; i++)
            e.sum = e.sum * 31 + s->frame[i];
    }
    if (s->n < MAX_EVENTS)
        s->events[s->n++] = e;
}

/* False: the bytes are all read. */
static bool read_some(side *s)
{
    rp_frame_reader *r = &s->reader;
    size_t n = s->left < s->cut ? s->left : s->cut, room = r->missing + sizeof r->ahead;
    n = n < room ? n : room;
    size_t wanted = n < r->missing ? n : r->missing;
    if (r->ahead_left)
        fail("more is wanted than was used");
    memcpy(r->to, s->bytes, wanted);
    memcpy(r->ahead, s->bytes + wanted, n - wanted);
    rp_frame_got(r, n);
    s->bytes += n;
    s->left -= n;
    return n > 0;
}

/* False: nothing comes after this event. */
static bool step(side *s)
{
    rp_read e = rp_frame_next(&s->reader);
    if (e == RP_READ_MORE)
        return read_some(s);
    if (e != RP_READ_FULL)
        note(s, e);
    if (e == RP_READ_BEGUN || e == RP_READ_FULL)
        grow(s);
    if (e == RP_READ_FRAME)
        drop_frame(s);
    return e <= RP_READ_FRAME;
}

static void run(side *s, const uint8_t *data, size_t size, size_t cut, size_t memory)
{
    s->bytes = data + 1;
    s->left = size - 1;
    s->cut = cut;
    s->step = memory;
    s->n = 0;
    rp_frame_init(&s->reader, data[0] & 2 ? rp_greeting_rep : rp_greeting_req, data[0] & 1, MOST);
    while (step(s))
        ;
    drop_frame(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static side whole, cut;
    if (size < 1)
        return 0;
    run(&whole, data, size, size, MOST);
    run(&cut, data, size, 1u << (data[0] >> 5), 1 + (data[0] >> 2) * 16);
    if (whole.n != cut.n)
        fail("the cuts of the reads change what comes");
    for (size_t i = 0; i < whole.n; i++)
        if (whole.events[i].kind != cut.events[i].kind || whole.events[i].size != cut.events[i].size ||
            whole.events[i].sum != cut.events[i].sum)
            fail("the cuts of the reads change an event");
    return 0;
}
