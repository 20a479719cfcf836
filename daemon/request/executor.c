#include "daemon/request/executor.h"

#include "daemon/request/dispatch.h"

/* Windows. The large lane's: one task under way and one ready on few cores, more where a task is not enough work for all;
 * on a device half of its slots, so that copies and kernels overlap while at most so many are ahead of a small task. The small
 * lane's is one large task's worth, so that neither can starve the other. */
enum { CORE_WINDOW = 256 << 10, SMALL_WINDOW = RP_MAX_DATA };

void rd_executor_open(rd_server *s)
{
    rk_stats k;
    rk_get_stats(s->engine, &k);
    uint64_t large = k.backend == RP_BACKEND_CUDA ? k.slots * RP_MAX_DATA / 2 : (uint64_t)k.threads * CORE_WINDOW;
    rd_sched_init(&s->sched, SMALL_WINDOW, large > RP_MAX_DATA ? large : 2 * RP_MAX_DATA);
}

/* ---- to the engine and back ---- */
static void finished(rd_server *s, rd_job *job)
{
    s->jobs--;
    rd_sched_end(&s->sched, &job->item);
    if (job->task.fault.code == RP_DEVICE_LOST)
        s->device_suspect = true;
    job->done(s, job);
}

void rd_submit(rd_server *s, rd_job *job)
{
    job->task.user = job;
    s->jobs++;
    if (rk_submit(s->engine, &job->task))
        finished(s, job);
}

void rd_take_finished(rd_server *s)
{
    rk_task *t;
    while ((t = rk_poll(s->engine)))
        finished(s, t->user);
}

/* ---- queues ---- */
void rd_schedule(rd_server *s, rd_request *r)
{
    const rk_task *t = &r->job.task;
    uint64_t cost = RD_TASK_COST + t->bytes + rp_results(&t->spec) * rp_cell_size(&t->spec);
    rd_sched_put(&s->sched, &r->session->queues, &r->job.item, cost <= RD_SMALL_COST ? RD_LANE_SMALL : RD_LANE_LARGE, cost);
    rd_watch_deadline(s, r);
}

static void feed_lane(rd_server *s, rd_lane_kind lane)
{
    rd_item *i;
    while ((i = rd_sched_next(&s->sched, lane))) {
        rd_request *r = rd_request_of_item(i);
        if (rd_late(r, &r->job.task.fault)) {
            rd_sched_end(&s->sched, i);
            r->job.done(s, &r->job);
        } else {
            rd_submit(s, &r->job);
        }
    }
}

void rd_executor(rd_server *s)
{
    rd_at_feed(s);
    feed_lane(s, RD_LANE_SMALL);
    feed_lane(s, RD_LANE_LARGE);
    rd_fastpath_crowd(&s->fastpath, s->jobs > 0 || s->sched.lane[RD_LANE_SMALL].queued || s->sched.lane[RD_LANE_LARGE].queued);
}

/* ---- taking back ---- */

/* Waits for its stream's chunks? */
static bool is_finish(const rd_request *r) { return r->stream && r->stream->finish == r; }

static bool has_begun(const rd_request *r) { return !is_finish(r) && !r->job.item.taker; }

static void take_back(rd_server *s, rd_request *r, const rp_fault *f)
{
    if (is_finish(r)) {
        r->stream->finish = NULL; /* its jobs are under way: the last one frees it */
        rd_refuse(s, r, f);
        return;
    }
    rd_sched_remove(&s->sched, &r->job.item);
    r->job.task.fault = *f;
    r->job.done(s, &r->job);
}

unsigned rd_withdraw(rd_server *s, const rd_session *x, const uint64_t *id, const rp_fault *f)
{
    unsigned n = 0;
    for (rd_request *r = s->waiting; r;) {
        bool meant = r->session == x && (!id || r->header.id == *id) && !has_begun(r);
        if (meant)
            take_back(s, r, f);
        n += meant;
        r = meant ? s->waiting : r->next; /* one that ends may end others: anew */
    }
    return n;
}

/* ---- deadlines ---- */

/* Take back what is late. The next deadline, 0 if there is none. */
static uint64_t expire(rd_server *s)
{
    uint64_t next = 0;
    for (rd_request *r = s->waiting; r;) {
        rp_fault f;
        if (!r->deadline_ns || has_begun(r)) {
            r = r->next;
        } else if (rd_late(r, &f)) {
            take_back(s, r, &f);
            next = 0;
            r = s->waiting;
        } else {
            next = next && next < r->deadline_ns ? next : r->deadline_ns;
            r = r->next;
        }
    }
    return next;
}

static void watch(rd_server *s, uint64_t deadline_ns);

static void on_deadline(uv_timer_t *t)
{
    rd_server *s = t->data;
    uint64_t next = expire(s);
    if (next)
        watch(s, next);
    rd_turn(s); /* what was taken back may have made room */
}

static void watch(rd_server *s, uint64_t deadline_ns)
{
    uint64_t now = rd_now_ns(), ms = deadline_ns > now ? (deadline_ns - now) / 1000000 + 1 : 0;
    if (!uv_is_active((uv_handle_t *)&s->deadline_timer) || uv_timer_get_due_in(&s->deadline_timer) > ms)
        uv_timer_start(&s->deadline_timer, on_deadline, ms, 0);
}

void rd_watch_deadline(rd_server *s, const rd_request *r)
{
    if (r->deadline_ns)
        watch(s, r->deadline_ns);
}
