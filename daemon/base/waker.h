/* How other threads wake the loop: an eventfd that the loop polls. Rings coalesce, so a bell stands beside a queue and never
 * counts anything. (Why not uv_async: DESIGN.md, 2026-11-21.) */
#ifndef RD_WAKER_H
#define RD_WAKER_H

#include <stdbool.h>
#include <uv.h>

typedef struct rd_bell {
    int fd;
    uv_poll_t poll;
    void (*answer)(void *arg);
    void *arg;
} rd_bell;

/* The loop calls `answer` after one or more rings. False: no descriptor. */
bool rd_bell_open(rd_bell *b, uv_loop_t *loop, void (*answer)(void *arg), void *arg);

/* Close the descriptor once the loop has closed its handles. Again, or without open, is fine. */
void rd_bell_close(rd_bell *b);

void rd_bell_ring(void *bell); /* any thread */

#endif
