#include "proto/frame.h"

#include <string.h>

enum { IPC_MESSAGE = 1, HOP = 4 };

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

rp_route_state rp_get_route(const uint8_t *frame, size_t len, size_t *size)
{
    for (size_t at = 0; at < RP_ROUTE; at += HOP) {
        if (len - at < HOP)
            return RP_ROUTE_BROKEN;
        if (frame[at] & RP_ROUTE_END) {
            *size = at + HOP;
            return RP_ROUTE_FINE;
        }
    }
    return RP_ROUTE_TOO_LONG;
}

void rp_intake_want(rp_intake *in, void *to, size_t size)
{
    in->to = to;
    in->missing = size;
}

static void advance(rp_intake *in, size_t n)
{
    in->to += n;
    in->missing -= n;
}

void rp_intake_got(rp_intake *in, size_t n)
{
    size_t wanted = n < in->missing ? n : in->missing;
    advance(in, wanted);
    in->ahead_at = 0;
    in->ahead_left = n - wanted;
}

bool rp_intake_take(rp_intake *in)
{
    size_t n = in->missing < in->ahead_left ? in->missing : in->ahead_left;
    memcpy(in->to, in->ahead + in->ahead_at, n);
    advance(in, n);
    in->ahead_at += n;
    in->ahead_left -= n;
    return in->missing == 0;
}
