/* Ctrl-C cancels the work under way, and the command ends with exit code 130. A second Ctrl-C ends it at once. The deadline of
 * a file ends its reading, too. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "proto/clock.h"

enum { EVERY_MS = 100 }; /* between two looks at progress and interruption */

static volatile sig_atomic_t interrupted;
static uint64_t deadline; /* of the file that is read, of rp_now_ns; 0: none */
static pthread_t reader;  /* the main thread, whose reads the signal must cut short */

static void on_interrupt(int number)
{
    if (!pthread_equal(pthread_self(), reader)) {
        pthread_kill(reader, number);
    } else if (interrupted) {
        signal(number, SIG_DFL);
        raise(number);
    } else {
        interrupted = 1;
    }
}

void ctl_take_interrupts(void)
{
    struct sigaction a = {.sa_handler = on_interrupt}; /* without SA_RESTART */
    reader = pthread_self();
    sigaction(SIGINT, &a, NULL);
}

bool ctl_interrupted(void) { return interrupted; }

static bool is_late(void) { return deadline && rp_now_ns() >= deadline; }

void ctl_start_deadline(uint32_t ms) { deadline = ms ? rp_after_ms(ms) : 0; }

uint32_t ctl_time_left(void)
{
    const uint64_t now = rp_now_ns();
    return !deadline ? 0 : now >= deadline ? 1 : (uint32_t)((deadline - now + RP_NS_PER_MS - 1) / RP_NS_PER_MS);
}

/* Is there something to read, or the end of the file? Without a deadline read itself waits. */
static bool is_ready(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return !deadline || poll(&p, 1, (int)ctl_time_left()) > 0;
}

long ctl_read_some(int fd, void *space, size_t room, int *err, char why[CTL_WHY])
{
    while (!interrupted && !is_late()) {
        if (!is_ready(fd))
            continue;
        const ssize_t n = read(fd, space, room);
        if (n >= 0)
            return (long)n;
        if (errno != EINTR) {
            *err = REDUCE_E_IO;
            snprintf(why, CTL_WHY, "cannot read: %s", strerror(errno));
            return -1;
        }
    }
    *err = interrupted ? REDUCE_E_IO : REDUCE_E_DEADLINE;
    snprintf(why, CTL_WHY, interrupted ? "interrupted" : "its deadline passed while it was read");
    return -1;
}

int ctl_wait(reduce_job *job, ctl_progress *p, reduce_result *r)
{
    uint64_t before = p ? p->done : 0, done;
    int err;
    do {
        err = reduce_wait(job, EVERY_MS, r);
        reduce_job_progress(job, &done, NULL);
        if (p)
            ctl_progress_add(p, before + done - p->done);
        if (interrupted)
            reduce_cancel(job);
    } while (err == REDUCE_PENDING);
    reduce_job_free(job);
    return err;
}

int ctl_run(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *cells, size_t room,
            reduce_result *r)
{
    reduce_job *job;
    int err = reduce_submit(c, spec, data, bytes, cells, room, NULL, NULL, &job);
    return err ? err : ctl_wait(job, NULL, r);
}
