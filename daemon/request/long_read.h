/* Long ranges of columns: several workers read and reduce some rows each, and what they have of each column is joined here. So
 * no states of such a range travel, and the range may be as long as a whole column. */
#ifndef RD_LONG_READ_H
#define RD_LONG_READ_H

#include "daemon/request/file_read.h"

typedef struct rd_long {
    rd_read *read; /* of a request that waits; NULL once it is done: late readers find no rows */
    rd_user *user;
    void (*done)(rd_work *w);
    struct rd_long *next, **link; /* those that are read (rd_buffers.reading) */
    unsigned readers;             /* that the loop has not got back */
    pthread_mutex_t lock;         /* of the rest: */
    uint64_t row, rows, each;     /* the next row to read, all of them, and how many make a part */
    unsigned inside;              /* readers that have read rows */
    void *states;                 /* of the rows of readers that have left; NULL: none, or with one that joins them */
    uint64_t copy_ns, compute_ns;
} rd_long;

/* If `r` is such a range, begin to read it, with one reader. False: nothing is done. */
bool rd_long_start(rd_read *r, rd_buffer *x, rd_user *user, void (*done)(rd_work *w));

/* Another reader with this buffer. False: no memory, and nothing is done. */
bool rd_long_help(rd_long *l, rd_buffer *x);

/* No further rows are read, and unless there was an error before, this is the range's. Any thread. */
void rd_long_stop(rd_long *l, const rp_fault *f);

/* How many parts would be left for each reader if there were another one. */
uint64_t rd_long_left(rd_long *l);

#endif
