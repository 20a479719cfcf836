#include "daemon/base/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void signals_readable(uv_poll_t *p, int status, int events)
{
    rd_signals *s = p->data;
    struct signalfd_siginfo x;
    (void)status;
    (void)events;
    if (read(s->fd, &x, sizeof x) == (ssize_t)sizeof x)
        s->got(s->arg, (int)x.ssi_signo);
}

bool rd_signals_open(rd_signals *s, uv_loop_t *loop, const int *numbers, void (*got)(void *arg, int number), void *arg)
{
    sigset_t set;
    sigemptyset(&set);
    for (; *numbers; numbers++)
        sigaddset(&set, *numbers);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    *s = (rd_signals){.got = got, .arg = arg};
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return false;
    s->fd = fd;
    s->poll.data = s;
    return uv_poll_init(loop, &s->poll, fd) == 0 && uv_poll_start(&s->poll, UV_READABLE, signals_readable) == 0;
}

void rd_signals_close(rd_signals *s)
{
    if (s->fd > 0)
        close(s->fd);
    s->fd = 0;
}
