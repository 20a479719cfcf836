/* Signals as events of the loop. They are blocked in every thread from here to the end of the process and read from a
 * descriptor: so none of them ever has its default action, not even after the loop is closed, whatever threads libraries have
 * left. */
#ifndef RD_SIGNALS_H
#define RD_SIGNALS_H

#include <stdbool.h>
#include <uv.h>

typedef struct rd_signals {
    int fd;
    uv_poll_t poll;
    void (*got)(void *arg, int number);
    void *arg;
} rd_signals;

/* Call it before any other thread starts. `numbers` ends with 0. False: no descriptor is available. */
bool rd_signals_open(rd_signals *s, uv_loop_t *loop, const int *numbers, void (*got)(void *arg, int number), void *arg);

/* Close the descriptor once the loop has closed its handles. Repeated calls, or calls without open, do nothing. */
void rd_signals_close(rd_signals *s);

#endif
