/* A trace of every answered request as a file that chrome://tracing and Perfetto show (trace event format, JSON).
 *
 * The thread that answers puts a record into a ring; a thread of its own writes them. When the disk is slower than the requests
 * the ring fills, and what does not fit is counted and left out: no thread waits. The file is whole JSON after each write, so
 * the daemon may even crash. */
#ifndef RD_TRACE_H
#define RD_TRACE_H

#include "daemon/telemetry/stats.h"

typedef struct rd_trace rd_trace;

typedef struct rd_trace_counts {
    uint64_t written, dropped; /* requests */
} rd_trace_counts;

/* Begin the file anew. Times in it count from `zero_ns`; it stays below `max_bytes`. NULL: `why` says why. */
rd_trace *rd_trace_open(const char *path, uint64_t zero_ns, uint64_t max_bytes, char *why, size_t cap);

/* Any thread; NULL: nothing. */
void rd_trace_put(rd_trace *t, const rd_record *a);

rd_trace_counts rd_trace_counted(rd_trace *t);

/* Write what is in the ring and end the thread. Takes as long as the disk does. NULL is fine. */
void rd_trace_close(rd_trace *t);

#endif
