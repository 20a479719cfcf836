/* The first check of a client's frame, before its body is read: its route and its header, or what is wrong with them. */
#ifndef RD_FRAME_CHECK_H
#define RD_FRAME_CHECK_H

#include "proto/codec.h"
#include "proto/frame.h"

enum {
    RD_MAX_FRAME = RP_ROUTE_LEAST + RP_HEADER_SIZE + RP_MAX_BODY,
    RD_MAX_ROUTE = 16 * 4, /* bytes of a route that is returned: nng relays a message 15 times at most */
    RD_FRAME_START = RD_MAX_ROUTE + RP_HEADER_SIZE /* bytes: only these are read of a frame that is too long */
};

typedef struct rd_frame_check {
    size_t route;     /* bytes, which a reply begins with; 0: none is known, and no reply is possible */
    rp_header header; /* all 0 if it cannot be read */
    bool relayed;     /* too often: the connection continues, because it may serve other clients too */
} rd_frame_check;

/* A frame of `size` bytes, of which all are there, or RD_FRAME_START of one above RD_MAX_FRAME. RP_OK: it is a request,
 * with route and header. Errors: those of PROTOCOL.md's bad frames. */
rp_err rd_check_frame(const uint8_t *frame, uint64_t size, rd_frame_check *c, rp_fault *f);

#endif
