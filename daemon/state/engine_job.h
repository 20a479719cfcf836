/* A task of the engine, its place in the scheduler, and the function to call at its end. */
#ifndef RD_ENGINE_JOB_H
#define RD_ENGINE_JOB_H

#include "daemon/state/sched.h"
#include "kernels/kernels.h"

struct rd_request;
struct rd_requests;

typedef struct rd_job {
    rk_task task;               /* first; task.user points back to the job while the engine has it */
    rd_item item;               /* a request's: its place in the scheduler */
    struct rd_request *request; /* the request that it belongs to; NULL: the daemon's own */
    void (*done)(struct rd_requests *q, struct rd_job *job); /* in the loop; the task is finished, or task.fault says why not */
} rd_job;

#endif
