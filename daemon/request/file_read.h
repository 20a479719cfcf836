/* Ranges of files: a worker reads each into a buffer, of which there are a fixed number; the scheduler says which request gets
 * the next one. */
#ifndef RD_FILE_READ_H
#define RD_FILE_READ_H

#include "daemon/base/uncached_read.h"
#include "daemon/state/holdings.h"

struct rd_request;
struct rd_long;

enum { RD_BUFFER_BYTES = RP_MAX_DATA + 2 * RD_DIRECT_BLOCK }; /* the blocks of a range */

typedef struct rd_buffer {
    rd_work work; /* first: freeing it */
    struct rd_buffers *all;
    uint8_t *memory; /* RD_BUFFER_BYTES, page-aligned */
    bool tried, pinned;
    rd_user *user; /* whose file it is for */
    struct rd_buffer *next;
} rd_buffer;

typedef struct rd_buffers {
    rd_holdings *holdings;
    rd_buffer *idle;
    unsigned made, cap;
    uint64_t direct_bytes;   /* files as large as this are read around the page cache */
    rd_user *self;           /* the daemon's own, for the work of freeing them */
    struct rd_long *reading; /* long ranges (long_read.h) */
} rd_buffers;

/* Reading a range of a file: what the worker may touch, and the request's task. */
typedef struct rd_read {
    rd_work work; /* first; its `done` is the executor's */
    struct rd_request *request;
    bool wanted; /* the request waits for its range, or for a buffer */
    int fd;
    bool direct; /* around the page cache, if it is not there */
    uint64_t offset;
    size_t bytes;
    uint64_t row;          /* bytes of a row of columns, which go as one part; else 0 */
    uint64_t stride;       /* from one row to the next in the file; 0: all bytes follow one another */
    rd_buffer *buffer;     /* NULL until one is free */
    uint8_t *data;         /* in it */
    size_t got;            /* bytes of it so far */
    bool reduced;          /* the task is finished */
    uint64_t start_ns, ns; /* `ns` of what is not reduced here */
    rp_fault fault;
} rd_read;

bool rd_buffers_init(rd_buffers *b, rd_holdings *h, unsigned cap, uint64_t direct_bytes); /* false: no memory */

/* Free those that are not in use. */
void rd_buffers_trim(rd_buffers *b);

void rd_buffers_fini(rd_buffers *b);

/* NULL: all are in use, or, if none was ever made, there is no memory. */
rd_buffer *rd_buffer_take(rd_buffers *b);

/* It counts as the user's until it is given back. */
void rd_buffer_charge(rd_buffer *x, rd_user *user);
void rd_buffer_give(rd_buffer *x);

/* Of columns: how many rows are read at a time, at least one. They stay in a core's cache until they are reduced. */
uint64_t rd_read_rows(const rd_read *r);

/* Read the bytes of the range that `data` lacks, from `got` on. False: `fault` says why. Called by a worker. */
bool rd_read_rest(rd_read *r);

/* A worker reads the range into `x`, where the request's task finds it; then the loop calls r->work.done. `user`: whose file it
 * is. If the engine can reduce the range in parts, the worker does that, too, with each part while it is in the cache. Until
 * then the task is the worker's. */
void rd_read_start(rd_read *r, rd_buffer *x, rd_user *user, void (*done)(rd_work *w));

#endif
