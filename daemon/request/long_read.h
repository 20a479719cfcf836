/* Long ranges of columns. Several workers read and reduce some rows each. So no states of such a range travel, and the range
 * may hold whole columns. */
#ifndef RD_LONG_READ_H
#define RD_LONG_READ_H

#include "daemon/request/file_read.h"

typedef struct rd_long {
    rd_read *read; /* of a waiting request; NULL once the range is done: late readers find no rows */
    rd_user *user;
    void (*done)(rd_work *w);
    struct rd_long *next, **link; /* the ranges being read (rd_buffers.reading) */
    rk_feed *feed;                /* NULL: it has ended */
    unsigned readers;             /* with workers: their `done` has not been called for the last time */
    pthread_mutex_t lock;         /* of what follows */
    uint64_t row, rows, each;     /* the next row to read, all of them, and how many make a part */
    unsigned inside;              /* readers that have read rows */
    uint64_t copy_ns;             /* of readers that have left */
} rd_long;

/* Begin to read `r` with one reader, if it is such a range. Otherwise false, and nothing is done. */
bool rd_long_start(rd_read *r, rd_buffer *x, rd_user *user, void (*done)(rd_work *w));

/* Add a reader, with this buffer. False: no memory, and nothing is done. */
bool rd_long_help(rd_long *l, rd_buffer *x);

/* No further rows are read. `f` is the range's error, unless it has an earlier one. Any thread. */
void rd_long_stop(rd_long *l, const rp_fault *f);

/* How many parts would be left for each reader if another one were added. */
uint64_t rd_long_left(rd_long *l);

#endif
