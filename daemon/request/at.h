/* REDUCE_AT and WRITE_AT: requests whose data are ranges of a session's files and arenas. The engine reads an arena where
 * it is. A range of a file is read by a chore into a buffer, of which there are a fixed number; the scheduler says who gets
 * the next one. */
#ifndef RD_AT_H
#define RD_AT_H

#include "daemon/base/uncached_read.h"
#include "daemon/base/workers.h"
#include "kernels/kernels.h"
#include "proto/codec.h"

struct rd_request;
struct rd_server;
struct rd_handle;

enum { RD_BUFFER_BYTES = RP_MAX_DATA + 2 * RD_DIRECT_BLOCK }; /* the blocks of a range */

typedef struct rd_buffer {
    rd_work chore; /* first: freeing it */
    rk_engine *engine;
    uint8_t *memory; /* RD_BUFFER_BYTES, page-aligned */
    bool tried, pinned;
    struct rd_buffer *next;
} rd_buffer;

typedef struct rd_buffers {
    rd_buffer *idle;
    unsigned made, cap;
    uint64_t direct_bytes; /* files as large as this are read around the page cache */
    rd_user *self;         /* the daemon's own, for the chores that free them */
} rd_buffers;

/* Reading a range of a file: what the chore may touch. */
typedef struct rd_read {
    rd_work chore; /* first */
    struct rd_request *request;
    int fd;
    bool direct; /* around the page cache, if it is not there */
    uint64_t offset;
    size_t bytes;
    rd_buffer *buffer; /* NULL: not yet */
    uint8_t *data;     /* in it */
    uint64_t start_ns, ns;
    rp_fault fault;
} rd_read;

bool rd_buffers_init(rd_buffers *b, rd_users *users, unsigned cap, uint64_t direct_bytes); /* false: no memory */

/* Free those that nobody uses. */
void rd_buffers_trim(struct rd_server *s);

void rd_buffers_fini(struct rd_server *s);

/* Give free buffers to requests that wait for one. */
void rd_at_feed(struct rd_server *s);

/* The file or arena of the session that `field` of the request names, for a range that lies within it. Errors: BAD_HANDLE,
 * TOO_LARGE, SHAPE. */
rp_err rd_at_find(const struct rd_request *r, const rp_at *a, const char *field, struct rd_handle **x, rp_fault *f);

/* The same for a range of memory of the engine, which has `bytes` bytes: any length. Errors: BAD_MESSAGE, SHAPE. */
rp_err rd_at_check_memory(const rp_spec *spec, const rp_at *a, uint64_t bytes, rp_fault *f);

/* The request's task is for the range, and holds `x` until the request ends. */
void rd_at_use(struct rd_server *s, struct rd_request *r, struct rd_handle *x, const rp_at *a);

/* The task of a REDUCE_AT, but for its cells: checked, and what its handle names is held until the request ends. The loop, or
 * any thread with s->handles. Errors: those of PROTOCOL.md's table that do not need the engine. */
rp_err rd_at_read(struct rd_server *s, struct rd_request *r, rp_fault *f);

/* Get the range, if it is a file's, and queue the request's task, of which nothing else is missing: the request waits. */
void rd_at_submit(struct rd_server *s, struct rd_request *r);

/* A request is about to be answered or dropped: give back what it held of share and buffer. Any thread, unless it waited for a
 * file. */
void rd_at_end(struct rd_server *s, struct rd_request *r);

#endif
