/* The jobs of a client that have ended, for event loops: a queue, and a descriptor that is readable while the queue is not
 * empty. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/error.h"
#include "client/job.h"

/* Each write is an edge, also for EPOLLET. It fails after 2^64 of them. */
void rc_ended_add(reduce_client *c, reduce_job *j)
{
    j->next_ended = NULL;
    j->at_ended = c->ended_end ? &c->ended_end->next_ended : &c->ended;
    *j->at_ended = c->ended_end = j;
    eventfd_write(c->ended_fd, 1);
}

void rc_ended_remove(reduce_client *c, reduce_job *j)
{
    eventfd_t n;
    if (!j->at_ended)
        return;
    *j->at_ended = j->next_ended;
    if (j->next_ended)
        j->next_ended->at_ended = j->at_ended;
    else
        c->ended_end = j->at_ended == &c->ended ? NULL : (reduce_job *)((char *)j->at_ended - offsetof(reduce_job, next_ended));
    j->at_ended = NULL;
    if (!c->ended && c->ended_fd >= 0)
        eventfd_read(c->ended_fd, &n);
}

void rc_ended_close(reduce_client *c)
{
    rc_enter(c);
    if (c->ended_fd >= 0)
        close(c->ended_fd);
    c->ended_fd = -1;
    rc_leave(c);
}

int reduce_ended_fd(reduce_client *c, int *fd)
{
    int err = rc_check_owner(c);
    if (!err && !fd)
        err = rc_error(REDUCE_E_ARGUMENT, "fd", "the pointer for the descriptor is NULL");
    if (err)
        return err;
    rc_enter(c);
    if (c->ended_fd < 0)
        c->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int why = errno;
    *fd = c->ended_fd;
    rc_leave(c);
    return *fd >= 0 ? 0 : rc_error(REDUCE_E_NO_MEMORY, "fd", "no descriptor for ended jobs: %s", strerror(why));
}

int reduce_ended_next(reduce_client *c, reduce_job **job, void **arg)
{
    int err = rc_check_owner(c);
    if (!err && !job)
        err = rc_error(REDUCE_E_ARGUMENT, "job", "the pointer for the job is NULL");
    if (err)
        return err;
    rc_enter(c);
    reduce_job *j = c->ended;
    if (j)
        rc_ended_remove(c, j);
    if (j && arg)
        *arg = j->arg;
    *job = j;
    rc_leave(c);
    return j ? 0 : (int)REDUCE_PENDING;
}
