/* The memory of an arriving frame. It grows with the bytes that have come: a head alone does not justify much. Above
 * RD_FRAME_FIRST it is charged to the peer's origin, and a frame that finds no room there starves until another one ends. */
#ifndef RD_FRAME_ROOM_H
#define RD_FRAME_ROOM_H

#include "daemon/net/connection.h"

/* Where the frame is read to: at this offset the elements of a REDUCE, after route, header and spec, are aligned to 16
 * bytes. */
enum { RD_MESSAGE_AT = 4 };

/* Makes room for more bytes of the current frame. */
rd_step rd_frame_room_grow(rd_connection *c);

/* Gives the memory of a whole frame to the caller, who frees it by rd_frame_room_free. It stops being charged. */
uint8_t *rd_frame_room_take(rd_connection *c);

/* `size` of the frame. NULL is fine. */
void rd_frame_room_free(uint8_t *frame, size_t size);

/* Frees the frame's memory. */
void rd_frame_room_drop(rd_connection *c);

#endif
