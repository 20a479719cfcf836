#include "daemon/net/reply_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/net/frame_check.h"

_Static_assert(RD_REPLY_FRONT >= RP_FRAME_HEAD + RD_MAX_ROUTE && (RD_REPLY_FRONT + RP_HEADER_SIZE) % 8 == 0, "RD_REPLY_FRONT");

rd_reply_buffer *rd_reply_buffer_new(atomic_uint *unsent, size_t size)
{
    rd_reply_buffer *r = malloc(sizeof *r + RD_REPLY_FRONT + size);
    if (r) {
        *r = (rd_reply_buffer){.unsent = unsent};
        atomic_fetch_add_explicit(unsent, 1, memory_order_relaxed);
    }
    return r;
}

void rd_reply_buffer_frame(rd_reply_buffer *r, bool ipc, const uint8_t *route, size_t route_size, size_t message)
{
    size_t head = rp_frame_head_size(ipc);
    r->at = rd_reply_buffer_message(r) - route_size - head;
    rp_put_frame_head(r->at, ipc, route_size + message);
    memcpy(r->at + head, route, route_size);
    r->left = head + route_size + message;
}

void rd_reply_buffer_free(rd_reply_buffer *r)
{
    while (r) {
        rd_reply_buffer *next = r->next;
        atomic_fetch_sub_explicit(r->unsent, 1, memory_order_relaxed);
        if (r->account)
            rd_account_release(r->account, r->charged);
        free(r);
        r = next;
    }
}
