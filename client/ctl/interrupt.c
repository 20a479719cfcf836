/* Ctrl-C cancels the work under way, and the command ends with exit code 130. A second Ctrl-C ends it at once. */
#include <pthread.h>
#include <signal.h>

#include "client/ctl/ctl.h"

enum { EVERY_MS = 100 }; /* between two looks at progress and interruption */

static volatile sig_atomic_t interrupted;
static pthread_t reader; /* the main thread, whose reads the signal must cut short */

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
