/* The requests under way at one moment: their clients, what they ask for, their age, and where each one is. QUERY and SIGUSR1
 * show it. */
#ifndef RD_DUMP_H
#define RD_DUMP_H

#include "daemon/request/requests.h"

typedef struct rd_dump_line {
    uint64_t received_ns;
    unsigned exchange; /* its number */
    char text[RP_MAX_VALUE + 1];
} rd_dump_line;

typedef struct rd_dump {
    rd_dump_line *line; /* oldest first */
    size_t n;
} rd_dump;

/* Take those that `viewer` may see (rd_may_see); NULL: all. False: no memory. */
bool rd_dump_take(rd_requests *q, const rd_session *viewer, rd_dump *d);
void rd_dump_free(rd_dump *d);

void rd_dump_log(rd_requests *q);

#endif
