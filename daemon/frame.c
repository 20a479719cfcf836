#include "daemon/frame.h"

#include <string.h>

enum { IPC_MESSAGE = 1, HOP = 4, REQUEST_ID = 0x80 };

const uint8_t rd_greeting[RD_GREETING] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};

bool rd_greeting_fits(const uint8_t greeting[RD_GREETING])
{
    static const uint8_t req[RD_GREETING] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    return memcmp(greeting, req, sizeof req) == 0;
}

size_t rd_frame_head_size(bool ipc) { return ipc ? RD_FRAME_HEAD : RD_FRAME_HEAD - 1; }

void rd_put_frame_head(uint8_t *head, bool ipc, uint64_t length)
{
    if (ipc)
        *head++ = IPC_MESSAGE;
    for (int shift = 56; shift >= 0; shift -= 8)
        *head++ = (uint8_t)(length >> shift);
}

bool rd_get_frame_head(const uint8_t *head, bool ipc, uint64_t *length)
{
    if (ipc && *head++ != IPC_MESSAGE)
        return false;
    *length = 0;
    for (int i = 0; i < 8; i++)
        *length = *length << 8 | head[i];
    return true;
}

rd_route_state rd_get_route(const uint8_t *frame, size_t len, size_t *size)
{
    for (size_t at = 0; at < RD_ROUTE; at += HOP) {
        if (len - at < HOP)
            return RD_ROUTE_BROKEN;
        if (frame[at] & REQUEST_ID) {
            *size = at + HOP;
            return RD_ROUTE_FINE;
        }
    }
    return RD_ROUTE_TOO_LONG;
}
