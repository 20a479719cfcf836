/* Any bytes as what a peer sends on its connection (byte 0: ipc or not): greeting, then frames, each with its route. The
 * parsers stay within what came; a head that is accepted is written the same again, and a route ends with an id. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

/* A block of its own, so that a sanitizer sees its end. */
static void check_route(const uint8_t *bytes, size_t len)
{
    uint8_t *frame = malloc(len ? len : 1);
    size_t size = 0;
    if (!frame)
        abort();
    memcpy(frame, bytes, len);
    rp_route_state state = rp_get_route(frame, len, &size);
    if (state == RP_ROUTE_FINE && (size < RP_ROUTE_LEAST || size > RP_ROUTE || size > len || !(frame[size - 4] & 0x80)))
        fail("a route without an id at its end");
    if (state == RP_ROUTE_TOO_LONG && len < RP_ROUTE)
        fail("a route longer than its frame");
    free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 + RP_GREETING)
        return 0;
    bool ipc = data[0] & 1;
    size_t head = rp_frame_head_size(ipc), at = 1 + RP_GREETING;
    while (size - at >= head) {
        uint8_t again[RP_FRAME_HEAD];
        uint64_t length;
        if (!rp_get_frame_head(data + at, ipc, &length))
            return 0;
        rp_put_frame_head(again, ipc, length);
        if (memcmp(again, data + at, head) != 0)
            fail("a head is written to other bytes");
        at += head;
        size_t here = length < size - at ? (size_t)length : size - at;
        check_route(data + at, here);
        at += here;
    }
    return 0;
}
