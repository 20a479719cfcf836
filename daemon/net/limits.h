/* Every limit of the daemon on what peers may hold or delay before, or beside, a session's own (proto/limits.h), each with its
 * reason. */
#ifndef RD_LIMITS_H
#define RD_LIMITS_H

#include "proto/limits.h"

/* Deadline of a peer's SP greeting. It needs one round trip, even on the slowest link. */
#define RD_GREETING_LIMIT_MS 10000

/* Deadline of a frame, and of all waiting replies of a connection, from the first byte on: this constant, plus the bytes at
 * RD_LEAST_RATE. 256 KiB a second is a 2 Mbit line. A slower peer has to use smaller messages. */
#define RD_TRANSFER_LIMIT_MS 10000
#define RD_LEAST_RATE (256u << 10) /* bytes a second */

/* After a failed accept: descriptors and memory come back later. */
#define RD_ACCEPT_REST_MS 100

/* After the last reply of a connection that is to end: for the peer to read it and hang up. */
#define RD_LINGER_MS 1000

/* Replies of a connection, and bytes of them, that the kernel has not taken. Above both, the connection is not read until half
 * of them are sent. So this bounds what a client may leave unread in the daemon's memory, in large or small replies. Unanswered
 * messages have such a limit, too. It is above RP_MAX_INFLIGHT, so a client above its limit gets BUSY. */
#define RD_MAX_QUEUED 4
#define RD_MAX_QUEUED_BYTES (4 * RP_MAX_DATA)
#define RD_MAX_UNDER_WAY (2 * RP_MAX_INFLIGHT)

/* Above this many bytes of unread replies a user's requests go to the loop, which knows the quota. One large reply may wait. */
#define RD_FAST_UNREAD RP_MAX_DATA

/* Memory of a frame before its bytes come. When these are filled, it grows by the factor RD_FRAME_GROWTH. Small messages take
 * one step, the largest two. */
#define RD_FRAME_FIRST (64u << 10)
#define RD_FRAME_GROWTH 16

/* Caps on memory of unfinished frames above RD_FRAME_FIRST: of one origin (a user, a network address), and of peers without
 * HELLO together. Frames beyond the cap wait. Sixteen of the largest keep a link busy; before HELLO no peer needs more. */
#define RD_MAX_ORIGIN_FRAMES (64u << 20)
#define RD_MAX_UNAUTHENTICATED_FRAMES (16u << 20)

/* Caps on connections without HELLO: of one origin, and of all local or all network peers. Above a cap the oldest is closed.
 * Programs send HELLO within milliseconds, so few are expected at one moment. Each costs a descriptor and 10 KiB. */
#define RD_MAX_ORIGIN_UNAUTHENTICATED 128
#define RD_MAX_UNAUTHENTICATED 512

/* Processor time of TLS handshakes: one core for all addresses, and a quarter of a core for each, so 62 handshakes a second for
 * an address. One with RSA keys takes 3.7 ms (2026-11-22). Unused time is saved for many programs that start at once: 64
 * handshakes for an address, 256 for all. */
#define RD_HANDSHAKE_NS UINT64_C(4000000)
#define RD_HANDSHAKE_SHARE 4 /* an address has a quarter of a core */
#define RD_HANDSHAKE_BURST_NS UINT64_C(1024000000)
#define RD_HANDSHAKE_LOOK_MS 10 /* the interval at which waiting handshakes are looked at */

#endif
