/* How other threads wake the loop: an eventfd that the loop polls. Rings coalesce, so they count nothing; a queue beside the
 * waker does. (Why not uv_async: DESIGN.md, 2026-11-21.) */
#ifndef RD_WAKER_H
#define RD_WAKER_H

#include <stdbool.h>
#include <uv.h>

typedef struct rd_waker {
    int fd;
    uv_poll_t poll;
    void (*answer)(void *arg);
    void *arg;
} rd_waker;

/* The loop calls `answer` after one or more rings. False: no descriptor. */
bool rd_waker_open(rd_waker *w, uv_loop_t *loop, void (*answer)(void *arg), void *arg);

/* Close the descriptor once the loop has closed its handles. Again, or without open, is fine. */
void rd_waker_close(rd_waker *w);

void rd_waker_ring(void *waker); /* any thread */

#endif
