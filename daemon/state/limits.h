/* Limits of what users hold beside those of the protocol (proto/limits.h), each with its reason. */
#ifndef RD_STATE_LIMITS_H
#define RD_STATE_LIMITS_H

#include "kernels/kernels.h"

/* Bytes of unread replies of one user over all its connections. Above this, requests with large replies get BUSY. */
#define RD_MAX_USER_UNREAD (256u << 20)

/* Bytes of the states and extents of one user's streams, which take up to 260 KiB each: 250 of the largest, 10,000 in order. */
#define RD_MAX_USER_STREAM_BYTES (64u << 20)

/* Bytes that one user's order statistics may keep, waiting ones included: 32 of the largest. */
#define RD_MAX_USER_SCRATCH (UINT64_C(32) * RK_ORDER_KEPT)

#endif
