#include "proto/frame.h"

#include <string.h>

enum { IPC_MESSAGE = 1 };

const uint8_t rp_greeting_req[RP_GREETING] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
const uint8_t rp_greeting_rep[RP_GREETING] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

size_t rp_frame_head_size(bool ipc) { return ipc ? RP_FRAME_HEAD : RP_FRAME_HEAD - 1; }

void rp_put_frame_head(uint8_t *head, bool ipc, uint64_t length)
{
    if (ipc)
        *head++ = IPC_MESSAGE;
    for (int shift = 56; shift >= 0; shift -= 8)
        *head++ = (uint8_t)(length >> shift);
}

bool rp_get_frame_head(const uint8_t *head, bool ipc, uint64_t *length)
{
    if (ipc && *head++ != IPC_MESSAGE)
        return false;
    *length = 0;
    for (int i = 0; i < 8; i++)
        *length = *length << 8 | head[i];
    return true;
}

/* ---- the reader ---- */
static void want(rp_frame_reader *r, void *to, size_t size)
{
    r->to = to;
    r->missing = size;
}

static void want_head(rp_frame_reader *r)
{
    r->at = RP_AT_HEAD;
    want(r, r->head, rp_frame_head_size(r->ipc));
}

void rp_frame_init(rp_frame_reader *r, const uint8_t *greeting, bool ipc, uint64_t most)
{
    r->greeting = greeting;
    r->ipc = ipc;
    r->most = most;
    r->at = RP_AT_GREETING;
    r->size = r->done = 0;
    r->ahead_at = r->ahead_left = 0;
    want(r, r->head, RP_GREETING);
}

static void advance(rp_frame_reader *r, size_t n)
{
    r->to += n;
    r->missing -= n;
}

void rp_frame_got(rp_frame_reader *r, size_t n)
{
    size_t wanted = n < r->missing ? n : r->missing;
    advance(r, wanted);
    r->ahead_at = 0;
    r->ahead_left = n - wanted;
}

static void take_ahead(rp_frame_reader *r)
{
    size_t n = r->missing < r->ahead_left ? r->missing : r->ahead_left;
    memcpy(r->to, r->ahead + r->ahead_at, n);
    advance(r, n);
    r->ahead_at += n;
    r->ahead_left -= n;
}

static rp_read end_greeting(rp_frame_reader *r)
{
    if (memcmp(r->head, r->greeting, RP_GREETING) != 0)
        return RP_READ_NOT_OURS;
    want_head(r);
    return RP_READ_GREETED;
}

static rp_read end_head(rp_frame_reader *r)
{
    if (!rp_get_frame_head(r->head, r->ipc, &r->size))
        return RP_READ_NO_HEAD;
    if (r->size < RP_ROUTE_LEAST)
        return RP_READ_SHORT;
    r->at = RP_AT_FRAME;
    r->done = 0;
    return r->size > r->most ? RP_READ_LONG : RP_READ_BEGUN;
}

static rp_read end_piece(rp_frame_reader *r)
{
    if (r->done < r->size)
        return RP_READ_FULL;
    want_head(r);
    return RP_READ_FRAME;
}

rp_read rp_frame_next(rp_frame_reader *r)
{
    take_ahead(r);
    if (r->missing)
        return RP_READ_MORE;
    return r->at == RP_AT_GREETING ? end_greeting(r) : r->at == RP_AT_HEAD ? end_head(r) : end_piece(r);
}

void rp_frame_into(rp_frame_reader *r, void *to, size_t room)
{
    uint64_t left = r->size - r->done;
    want(r, to, left < room ? (size_t)left : room);
    r->done += r->missing;
}

bool rp_frame_is_inside(const rp_frame_reader *r)
{
    return r->at == RP_AT_FRAME || (r->at == RP_AT_HEAD && (r->to != r->head || r->ahead_left));
}
