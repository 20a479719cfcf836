#include "daemon/base/waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

static void on_ring(uv_poll_t *p, int status, int events)
{
    rd_waker *b = p->data;
    uint64_t rings;
    (void)status;
    (void)events;
    if (read(b->fd, &rings, sizeof rings) == (ssize_t)sizeof rings) /* before the queues are looked at */
        b->answer(b->arg);
}

bool rd_waker_open(rd_waker *b, uv_loop_t *loop, void (*answer)(void *arg), void *arg)
{
    *b = (rd_waker){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .answer = answer, .arg = arg};
    if (b->fd < 0)
        return false;
    b->poll.data = b;
    return uv_poll_init(loop, &b->poll, b->fd) == 0 && uv_poll_start(&b->poll, UV_READABLE, on_ring) == 0;
}

void rd_waker_close(rd_waker *b)
{
    if (b->fd > 0)
        close(b->fd);
    b->fd = -1;
}

void rd_waker_ring(void *bell)
{
    const uint64_t one = 1;
    ssize_t n = write(((rd_waker *)bell)->fd, &one, sizeof one);
    (void)n; /* it can fail only when 2^64 - 1 rings are pending */
}
