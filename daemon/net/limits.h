/* Every limit of the daemon on what peers may hold or delay before, or beside, a session's own (proto/limits.h), each with its
 * reason. */
#ifndef RD_LIMITS_H
#define RD_LIMITS_H

#include "proto/limits.h"

/* For a peer to say that it speaks SP. The slowest link needs one round trip. */
#define RD_GREETING_LIMIT_MS 10000

/* For a frame, and for all replies that wait in a connection, from the first byte on: so long, and longer by what so slow a
 * link takes. 256 KiB a second is a 2 Mbit line. A slower peer has to use smaller messages. */
#define RD_TRANSFER_LIMIT_MS 10000
#define RD_LEAST_RATE (256u << 10) /* bytes a second */

/* After the last reply of a connection that is to end: for the peer to read it and hang up. */
#define RD_LINGER_MS 1000

/* A connection with more replies, and more bytes of them, that the kernel has not taken is not read until there are half as
 * many: this is what a client may keep waiting in the daemon's memory, be its replies large or small. The same holds for
 * messages that are not answered: there are more than RP_MAX_INFLIGHT, so that a client above its limit gets BUSY. */
#define RD_MAX_QUEUED 4
#define RD_MAX_QUEUED_BYTES (4 * RP_MAX_DATA)
#define RD_MAX_UNDER_WAY (2 * RP_MAX_INFLIGHT)

/* A user with more bytes of unread replies is handled by the loop, which knows the user's quota. One large reply may wait. */
#define RD_FAST_UNREAD RP_MAX_DATA

/* Memory of a frame before its bytes come. Once they are there, it gets room for RD_FRAME_GROWTH times as many. Small messages
 * take one step, the largest two. */
#define RD_FRAME_FIRST (64u << 10)
#define RD_FRAME_GROWTH 16

/* Room of unfinished frames above RD_FRAME_FIRST: of the peers of one origin (a user, a network address), and of all strangers
 * together. Frames beyond wait. Sixteen of the largest keep a link busy; strangers have no reason for large frames. */
#define RD_MAX_ORIGIN_FRAMES (64u << 20)
#define RD_MAX_STRANGER_FRAMES (16u << 20)

/* Connections that have not said HELLO, of one origin, and of all local or all network peers: one more, and the oldest of them
 * goes. A program says it within milliseconds, so these are many at one moment; each costs a descriptor and 10 KiB. */
#define RD_MAX_ORIGIN_STRANGERS 128
#define RD_MAX_STRANGERS 512

/* Processor time of TLS handshakes: one core's for all addresses, and a quarter of one for each, so 62 handshakes a second of
 * an address. One with RSA keys takes 3.7 ms. Time that was not used is kept for a start of many programs at once: 64
 * handshakes of an address, 256 of all. */
#define RD_HANDSHAKE_NS UINT64_C(4000000)
#define RD_HANDSHAKE_SHARE 4 /* an address has a quarter of a core */
#define RD_HANDSHAKE_BURST_NS UINT64_C(1024000000)
#define RD_HANDSHAKE_LOOK_MS 10 /* the interval at which waiting handshakes are looked at */

#endif
