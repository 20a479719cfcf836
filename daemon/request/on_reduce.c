/* REDUCE and REDUCE_AT. */
#include "daemon/request/beside.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/request/reply.h"
#include "daemon/request/source.h"

/* The total includes the time before the engine. */
static void add_reading(rd_request *r)
{
    if (r->path != RP_PATH_FILE || !r->job.task.start_ns)
        return;
    r->job.task.copy_ns += r->read.ns;
    r->job.task.start_ns = r->read.start_ns;
}

static void on_reduce_done(rd_requests *q, rd_job *job)
{
    rd_beside *beside = job->request->beside;
    add_reading(job->request);
    if (beside)
        beside->complete = !job->task.fault.code;
    rd_answer_job(q, job);
}

/* What order statistics may keep is charged until the reply. */
static rp_err charge_scratch(rd_requests *q, rd_request *r, rp_fault *f)
{
    const rk_task *t = &r->job.task;
    const bool keeps = rp_is_ranked(t->spec.op) && !rp_is_top(t->spec.op) && t->spec.op != RP_OP_HISTOGRAM;
    const uint64_t bytes = !keeps ? 0 : t->bytes < RK_ORDER_KEPT ? t->bytes : RK_ORDER_KEPT;
    const rp_err err = rd_charge(q->users, r->session->owner, RD_HELD_SCRATCH_BYTES, bytes, f);
    r->scratch = err ? 0 : bytes;
    return err;
}

/* The task is parsed: make room for its cells, and queue it. */
static rp_err enqueue(rd_requests *q, rd_request *r, rp_fault *f)
{
    rk_task *t = &r->job.task;
    rp_err err = charge_scratch(q, r, f);
    if (!err)
        err = rd_make_room(r, &t->spec, f);
    if (err)
        return err;
    rd_tally_op(&q->stats->tally, t->spec.op);
    r->job.done = on_reduce_done;
    t->cells = r->results ? r->results : r->reply + RP_RESULT_SIZE;
    rd_wait(q, r);
    rd_schedule(q, r);
    return RP_OK;
}

rp_err rd_on_reduce(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_err err = rp_has_tagged(r->body, r->body_len) ? rd_source_read_message(r, f) : rd_read_task(r, f);
    return err ? err : enqueue(q, r, f);
}

rp_err rd_on_reduce_at(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_err err = rd_source_read(r, true, f);
    return err ? err : enqueue(q, r, f);
}
