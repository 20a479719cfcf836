#include "daemon/net/frame_check.h"

#include <string.h>

enum { WORD = 4 };

/* Bytes of a route, which ends with the request's id; the id has its top bit set. 0: there is none. */
static size_t route_of(const uint8_t *frame, uint64_t size)
{
    for (size_t at = 0; at < RD_MAX_ROUTE && size - at >= WORD; at += WORD)
        if (frame[at] & RP_ROUTE_END)
            return at + WORD;
    return 0;
}

/* Bytes before the magic of a message. If a client forgot the id's top bit, the position of its message shows it. 0: there is
 * no magic. */
static size_t magic_at(const uint8_t *frame, uint64_t size)
{
    static const uint8_t magic[WORD] = {RP_MAGIC & 0xff, RP_MAGIC >> 8 & 0xff, RP_MAGIC >> 16 & 0xff, RP_MAGIC >> 24};
    for (size_t at = WORD; at < RD_MAX_ROUTE && size - at >= WORD && !(frame[at - WORD] & RP_ROUTE_END); at += WORD)
        if (memcmp(frame + at, magic, WORD) == 0)
            return at;
    return 0;
}

static rp_err check_header(const uint8_t *message, uint64_t size, bool too_long, rp_header *h, rp_fault *f)
{
    rp_err err = rp_get_header(message, size, h, f);
    if (too_long && (!err || strcmp(f->field, "body_len") == 0))
        return rp_fail(f, RP_TOO_LARGE, "body_len", RP_MAX_BODY, "a message has at most %u bytes after its header",
                       RP_MAX_BODY);
    if (!err && h->reply)
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "a reply instead of a request");
    return err;
}

/* The frame has no right header after its route. */
static rp_err find_message(const uint8_t *frame, uint64_t size, rd_frame_check *c, rp_fault *f)
{
    rp_fault ignored;
    size_t at = magic_at(frame, size);
    if (!at)
        return c->route ? f->code : rp_fail(f, RP_BAD_MESSAGE, "request_id", 0, "no request id");
    *c = (rd_frame_check){.route = at};
    rp_get_header(frame + at, size - at, &c->header, &ignored);
    return rp_fail(f, RP_BAD_MESSAGE, "request_id", 0, "the request id before the message lacks its top bit");
}

rp_err rd_check_frame(const uint8_t *frame, uint64_t size, rd_frame_check *c, rp_fault *f)
{
    size_t route = route_of(frame, size);
    *c = (rd_frame_check){.route = route, .relayed = route ? route > RP_ROUTE : size >= RD_MAX_ROUTE};
    rp_err err = route ? check_header(frame + route, size - route, size > RD_MAX_FRAME, &c->header, f) : RP_BAD_MESSAGE;
    if (err)
        err = find_message(frame, size, c, f);
    if (!c->relayed || !c->route)
        return err;
    return rp_fail(f, RP_TOO_LARGE, "relays", RP_ROUTE / WORD - 1, "%zu relays instead of at most %d", route / WORD - 1,
                   RP_ROUTE / WORD - 1);
}
