/* REDUCE_AT: reductions of ranges of a session's files and arenas. The engine reads an arena where it is. A range of a file
 * is read by a chore into a buffer, of which there are a fixed number; requests wait for one in the order of coming. */
#ifndef RD_AT_H
#define RD_AT_H

#include "daemon/chores.h"
#include "kernels/kernels.h"

struct rd_request;
struct rd_server;

typedef struct rd_buffer {
    uint8_t *memory; /* RP_MAX_DATA bytes, page-aligned */
    bool tried, pinned;
    struct rd_buffer *next;
} rd_buffer;

typedef struct rd_buffers {
    rd_buffer *idle;
    unsigned made, cap;
    struct rd_request *waiting, **waiting_end;
} rd_buffers;

/* Reading a range of a file: what the chore may touch. */
typedef struct rd_read {
    rd_chore chore; /* first */
    struct rd_request *request;
    rk_engine *engine;
    int fd;
    uint64_t offset;
    size_t bytes;
    rd_buffer *buffer; /* NULL: not yet */
    uint64_t start_ns, ns;
    rp_fault fault;
    bool waiting;
    struct rd_request *next; /* in the list of those that wait for a buffer */
} rd_read;

void rd_buffers_init(rd_buffers *b, unsigned cap);

/* Free those that nobody uses. */
void rd_buffers_trim(struct rd_server *s);

/* A request is about to be answered or dropped: give back what it held of share and buffer. */
void rd_at_end(struct rd_server *s, struct rd_request *r);

#endif
