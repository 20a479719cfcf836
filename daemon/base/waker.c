#include "daemon/base/waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

static void waker_rung(uv_poll_t *p, int status, int events)
{
    rd_waker *w = p->data;
    uint64_t rings;
    (void)status;
    (void)events;
    if (read(w->fd, &rings, sizeof rings) == (ssize_t)sizeof rings) /* before the queues are looked at */
        w->answer(w->arg);
}

bool rd_waker_open(rd_waker *w, uv_loop_t *loop, void (*answer)(void *arg), void *arg)
{
    *w = (rd_waker){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .answer = answer, .arg = arg};
    if (w->fd < 0)
        return false;
    w->poll.data = w;
    return uv_poll_init(loop, &w->poll, w->fd) == 0 && uv_poll_start(&w->poll, UV_READABLE, waker_rung) == 0;
}

void rd_waker_close(rd_waker *w)
{
    if (w->fd > 0)
        close(w->fd);
    w->fd = -1;
}

void rd_waker_ring(void *waker)
{
    const uint64_t one = 1;
    ssize_t n = write(((rd_waker *)waker)->fd, &one, sizeof one);
    (void)n; /* it can fail only when 2^64 - 1 rings are pending */
}
