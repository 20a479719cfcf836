/* Counters of the daemon's life. The loop owns them. */
#ifndef RD_STATS_H
#define RD_STATS_H

#include "daemon/histogram.h"
#include "proto/types.h"

enum { RD_MSG_SLOTS = 16, RD_OP_SLOTS = 32, RD_ERR_SLOTS = 32 }; /* above every code of types.def */

typedef struct rd_stats {
    uint64_t started_ns;
    uint64_t sessions;  /* ever */
    uint64_t requests;  /* answered */
    uint64_t by_msg[RD_MSG_SLOTS], by_op[RD_OP_SLOTS];
    uint64_t errors;    /* error replies */
    uint64_t by_err[RD_ERR_SLOTS];
    uint64_t dropped;   /* connections closed for bad framing or for not reading */
    uint64_t bytes_in;  /* bodies received */
    rd_histogram latency; /* receipt to reply, ns */
} rd_stats;

/* An answer leaves. `msg` and `err` may be unknown codes. */
void rd_stats_answered(rd_stats *s, int msg, int err, uint64_t latency_ns, uint64_t bytes);

/* Add all counters of `from`. */
void rd_stats_join(rd_stats *s, const rd_stats *from);

/* A reduction of this (checked) op was accepted: REDUCE or BEGIN. */
static inline void rd_stats_op(rd_stats *s, int op) { s->by_op[op]++; }

#endif
