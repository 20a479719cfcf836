/* Descriptors that the service manager passes at the start: listening sockets, and those that it kept (notify.h). */
#ifndef RD_PASSED_H
#define RD_PASSED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rd_passed {
    int n;
    int *fds;     /* -1: taken */
    char **names; /* of FDNAME, or of the unit */
} rd_passed;

/* Takes over the descriptors that are meant for this process, if any. Call it once. False: `why` has the reason. */
bool rd_passed_get(rd_passed *p, char *why, size_t cap);

bool rd_passed_is_socket(const rd_passed *p, int i);

/* The caller owns the descriptor from now on. */
int rd_passed_take(rd_passed *p, int i);

void rd_passed_close(rd_passed *p); /* closes those that were not taken */

#endif
