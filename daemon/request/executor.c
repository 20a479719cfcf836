#include "daemon/request/executor.h"

#include "daemon/request/read_queue.h"
#include "proto/clock.h"

/* Windows. The large queue's holds one task under way and one ready on few cores, and more where a single task cannot use all
 * cores. On a device it is half of the slots: copies and kernels overlap, and a small task waits for no more than these. The
 * small queue's is the cost of one large task, so neither can starve the other. */
enum { CORE_WINDOW = 256 << 10, SMALL_WINDOW = RP_MAX_DATA };

void rd_executor_open(rd_requests *q)
{
    rd_sched_init(&q->sched, SMALL_WINDOW, 2 * RP_MAX_DATA);
    rd_executor_fit(q);
}

void rd_executor_fit(rd_requests *q)
{
    rk_stats k;
    rk_get_stats(q->engine, &k);
    const unsigned sharers = rk_sharers(q->engine);
    uint64_t large = k.backend == RP_BACKEND_CUDA ? k.slots * RP_MAX_DATA / 2 : (uint64_t)k.threads * CORE_WINDOW;
    large += sharers > k.devices ? 2 * RP_MAX_DATA : 0;
    rd_sched_windows(&q->sched, SMALL_WINDOW, large > RP_MAX_DATA ? large : 2 * RP_MAX_DATA, sharers);
}

/* ---- to the engine and back ---- */
void rd_settle_late(rd_request *r)
{
    if (r->job.task.fault.code == RP_OK)
        rd_late(r, &r->job.task.fault);
}

static void finished(rd_requests *q, rd_job *job)
{
    q->jobs--;
    rd_sched_end(&q->sched, &job->item, rd_price_learn(&q->price, &job->task));
    if (job->task.fault.code == RP_DEVICE_LOST)
        q->device_suspect = true;
    if (job->task.stopped)
        rp_fail(&job->task.fault, RP_CANCELLED, "id", 0, "cancelled by its client");
    else if (job->request)
        rd_settle_late(job->request);
    job->done(q, job);
}

void rd_submit(rd_requests *q, rd_job *job)
{
    job->task.user = job;
    job->task.until_ns = job->request ? job->request->deadline_ns : 0;
    q->jobs++;
    if (rk_submit(q->engine, &job->task, RK_HERE | RK_QUEUED) == RK_FINISHED)
        finished(q, job);
}

void rd_take_finished(rd_requests *q)
{
    rk_task *t;
    while ((t = rk_poll(q->engine)))
        finished(q, t->user);
}

/* ---- queues ---- */
void rd_schedule(rd_requests *q, rd_request *r)
{
    const rk_task *t = &r->job.task;
    rd_sched_session *queues = &r->session->queues;
    uint64_t cost = rd_price_cost(t);
    if (r->read.wanted)
        rd_read_queue_put(q, r);
    else
        rd_sched_put(&q->sched, queues, &r->job.item, cost <= RD_SMALL_COST ? RD_QUEUE_SMALL : RD_QUEUE_LARGE, cost,
                     rd_price_ns(&q->price, t));
    rd_watch_deadline(q, r);
}

/* The task ends without the engine; task.fault has the reason. */
static void end(rd_requests *q, rd_request *r)
{
    rd_sched_end(&q->sched, &r->job.item, 0);
    r->job.done(q, &r->job);
}

/* Has its task failed, or is it abandoned? Then task.fault has the reason. */
static bool unwanted(rd_request *r)
{
    rp_fault *f = &r->job.task.fault;
    return f->code != RP_OK || rd_abandoned(r, f);
}

static void executor_read(rd_work *w)
{
    rd_request *r = ((rd_read *)w)->request;
    rd_requests *q = r->all;
    r->read.wanted = false;
    if (r->read.fault.code)
        r->job.task.fault = r->read.fault;
    if (unwanted(r)) {
        end(q, r);
        return;
    }
    rd_sched_end(&q->sched, &r->job.item, r->job.item.price);
    if (r->read.reduced)
        r->job.done(q, &r->job);
    else
        rd_schedule(q, r);
}

static void feed_queue(rd_requests *q, rd_queue_kind queue)
{
    rd_item *i;
    while ((i = rd_sched_next(&q->sched, queue))) {
        rd_request *r = rd_request_of_item(i);
        if (unwanted(r))
            end(q, r);
        else
            rd_submit(q, &r->job);
    }
}

void rd_executor_feed(rd_requests *q)
{
    rd_read_queue_feed(q, executor_read);
    feed_queue(q, RD_QUEUE_SMALL);
    feed_queue(q, RD_QUEUE_LARGE);
    bool crowded = q->jobs > 0 || q->sched.queue[RD_QUEUE_SMALL].queued || q->sched.queue[RD_QUEUE_LARGE].queued;
    atomic_store_explicit(&q->crowded, crowded, memory_order_relaxed);
}

const char *rd_whereabouts(const rd_request *r)
{
    static const char *const names[RD_QUEUES] = {"small", "large", "read"};
    const rd_item *i = &r->job.item;
    if (r->held)
        return "device";
    if (r->parked)
        return names[RD_QUEUE_READ];
    if (i->taker)
        return names[i->queue];
    if (i->running)
        return i->queue == RD_QUEUE_READ ? "file" : "engine";
    return r->stream ? "stream" : "memory";
}

/* ---- taking back ---- */

/* Has it begun: is it with a reader, in the engine, or waiting for memory? A request that is held until there are devices has
 * not, nor has a FINISH that waits for its stream's chunks. */
static bool has_begun(const rd_request *r)
{
    bool waits = r->held || r->parked || (r->exchange.header.type == RP_MSG_FINISH && !r->job.item.running);
    return !waits && !r->job.item.taker;
}

static void take_back(rd_requests *q, rd_request *r, const rp_fault *f)
{
    rd_sched_remove(&q->sched, &r->job.item);
    if (r->parked)
        rd_read_queue_remove(q, r);
    r->job.task.fault = *f;
    r->job.done(q, &r->job);
}

/* The engine has it, and looks between parts of a pass whether it was stopped. False: it ends as it would have. */
static bool stop(rd_request *r)
{
    rk_task *t = &r->job.task;
    const rd_item *i = &r->job.item;
    if (!i->running || i->queue == RD_QUEUE_READ || t->fill || t->stopped || !rp_needs_all(&t->spec))
        return false;
    rk_task_stop(t);
    return true;
}

unsigned rd_withdraw(rd_requests *q, const rd_session *x, const uint64_t *id, const rp_fault *f)
{
    unsigned n = 0;
    for (rd_request *r = q->waiting; r;) {
        const bool meant = r->session == x && (!id || r->exchange.header.id == *id), waits = meant && !has_begun(r);
        if (waits)
            take_back(q, r, f);
        n += waits || (meant && stop(r));
        r = waits ? q->waiting : r->next; /* ending one may end others: start over */
    }
    return n;
}

/* ---- deadlines ---- */

/* Take back late requests. Returns the next deadline, 0 if there is none. */
static uint64_t expire(rd_requests *q)
{
    uint64_t next = 0;
    for (rd_request *r = q->waiting; r;) {
        rp_fault f;
        if (!r->deadline_ns || has_begun(r)) {
            r = r->next;
        } else if (rd_late(r, &f)) {
            take_back(q, r, &f);
            next = 0;
            r = q->waiting;
        } else {
            next = next && next < r->deadline_ns ? next : r->deadline_ns;
            r = r->next;
        }
    }
    return next;
}

static void watch(rd_requests *q, uint64_t deadline_ns);

static void executor_deadline(uv_timer_t *t)
{
    rd_requests *q = t->data;
    uint64_t next = expire(q);
    if (next)
        watch(q, next);
    q->wake(q->wake_arg); /* withdrawn requests may have made room */
}

static void watch(rd_requests *q, uint64_t deadline_ns)
{
    uint64_t now = rp_now_ns(), ms = deadline_ns > now ? (deadline_ns - now) / RP_NS_PER_MS + 1 : 0;
    if (!uv_is_active((uv_handle_t *)&q->deadline_timer) || uv_timer_get_due_in(&q->deadline_timer) > ms)
        uv_timer_start(&q->deadline_timer, executor_deadline, ms, 0);
}

void rd_watch_deadline(rd_requests *q, const rd_request *r)
{
    if (r->deadline_ns)
        watch(q, r->deadline_ns);
}
