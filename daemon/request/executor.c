#include "daemon/request/executor.h"

#include "daemon/base/clock.h"
#include "daemon/request/long_read.h"

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
    if (job->request)
        rd_settle_late(job->request);
    job->done(q, job);
}

void rd_submit(rd_requests *q, rd_job *job)
{
    job->task.user = job;
    q->jobs++;
    if (rk_submit(q->engine, &job->task))
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
        rd_sched_put(&q->sched, queues, &r->job.item, RD_QUEUE_READ, RD_TASK_COST + t->bytes, RD_TASK_COST + t->bytes);
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

/* Its session is gone, or its deadline has passed: no more work is done for it. `f` gets the reason. */
static bool is_abandoned(const rd_request *r, rp_fault *f)
{
    if (r->session->dead)
        rp_fail(f, RP_CANCELLED, "session", 0, "the session has ended");
    return r->session->dead || rd_late(r, f);
}

/* Has its task failed, or is it abandoned? Then task.fault has the reason. */
static bool unwanted(rd_request *r)
{
    rp_fault *f = &r->job.task.fault;
    return f->code != RP_OK || is_abandoned(r, f);
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

/* ---- reads that wait for a buffer of their user's ---- */

/* How many more buffers the user may have: three quarters of all at most, since its reads may take long or never end. */
static uint64_t buffers_left(const rd_requests *q, const rd_user *user)
{
    uint64_t most = q->buffers.cap - q->buffers.cap / 4, held = rd_held(&user->charges, RD_HELD_BUFFERS);
    return held < most ? most - held : 0;
}

static void park(rd_requests *q, rd_request *r)
{
    rd_request **at = &r->session->owner->parked;
    rd_sched_end(&q->sched, &r->job.item, 0);
    while (*at)
        at = &(*at)->next_parked;
    *at = r;
    r->next_parked = NULL;
    r->parked = true;
    q->parked++;
}

static void unpark(rd_requests *q, rd_request *r)
{
    rd_request **at = &r->session->owner->parked;
    while (*at != r)
        at = &(*at)->next_parked;
    *at = r->next_parked;
    r->parked = false;
    q->parked--;
}

/* Parked reads whose user may have buffers again go back to the queue. */
static void recall_parked(rd_requests *q)
{
    for (rd_user *user = q->parked ? q->users->first : NULL; user; user = user->next)
        for (uint64_t left = buffers_left(q, user); left && user->parked; left--) {
            rd_request *r = user->parked;
            unpark(q, r);
            rd_schedule(q, r);
        }
}

static void start_reading(rd_request *r, rd_buffer *b)
{
    rd_user *user = r->session->owner;
    if (!rd_long_start(&r->read, b, user, executor_read))
        rd_read_start(&r->read, b, user, executor_read);
}

/* Give free buffers to requests that wait for one. */
static void feed_readers(rd_requests *q)
{
    recall_parked(q);
    while (q->sched.queue[RD_QUEUE_READ].queued) {
        rd_buffer *b = rd_buffer_take(&q->buffers);
        if (!b && q->buffers.made)
            return;
        rd_request *r = rd_request_of_item(rd_sched_next(&q->sched, RD_QUEUE_READ));
        if (b && !buffers_left(q, r->session->owner)) {
            rd_buffer_give(b);
            park(q, r);
        } else if (b) {
            start_reading(r, b);
        } else {
            rp_fail(&r->job.task.fault, RP_NO_MEMORY, "buffer", 0, "no memory to read the file into");
            end(q, r);
        }
    }
}

/* Long ranges get further readers when no other request wants a buffer. A client sends several ranges, one after the other, so
 * this is looked at after a while. */
enum { HELP_MS = 1 };

static bool may_help(const rd_requests *q, const rd_user *user)
{
    return buffers_left(q, user) && rd_held(&user->charges, RD_HELD_BUFFERS) < q->holdings->workers->per_user;
}

/* The range that another reader helps most; NULL: it would help none, or none may have one. */
static rd_long *neediest(const rd_requests *q)
{
    rd_long *best = NULL;
    uint64_t most = 1;
    for (rd_long *l = q->buffers.reading; l; l = l->next) {
        const uint64_t left = rd_long_left(l);
        if (left <= most || !may_help(q, l->user))
            continue;
        best = l;
        most = left;
    }
    return best;
}

static void executor_help(uv_timer_t *t)
{
    rd_requests *q = t->data;
    if (q->buffers.reading)
        uv_timer_start(t, executor_help, HELP_MS, 0);
    while (!q->sched.queue[RD_QUEUE_READ].queued) {
        rd_long *l = neediest(q);
        rd_buffer *b = l ? rd_buffer_take(&q->buffers) : NULL;
        if (!b)
            return;
        if (!rd_long_help(l, b)) {
            rd_buffer_give(b);
            return;
        }
    }
}

static void watch_long(rd_requests *q)
{
    rp_fault f;
    for (rd_long *l = q->buffers.reading; l; l = l->next)
        if (is_abandoned(l->read->request, &f))
            rd_long_stop(l, &f);
    if (q->buffers.reading && !q->sched.queue[RD_QUEUE_READ].queued && !uv_is_active((uv_handle_t *)&q->help_timer))
        uv_timer_start(&q->help_timer, executor_help, HELP_MS, 0);
}

void rd_stop_reading(rd_requests *q, const rp_fault *f)
{
    for (rd_long *l = q->buffers.reading; l; l = l->next)
        rd_long_stop(l, f);
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
    feed_readers(q);
    watch_long(q);
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
        unpark(q, r);
    r->job.task.fault = *f;
    r->job.done(q, &r->job);
}

unsigned rd_withdraw(rd_requests *q, const rd_session *x, const uint64_t *id, const rp_fault *f)
{
    unsigned n = 0;
    for (rd_request *r = q->waiting; r;) {
        bool meant = r->session == x && (!id || r->exchange.header.id == *id) && !has_begun(r);
        if (meant)
            take_back(q, r, f);
        n += meant;
        r = meant ? q->waiting : r->next; /* ending one may end others: start over */
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
    uint64_t now = rd_now_ns(), ms = deadline_ns > now ? (deadline_ns - now) / RD_NS_PER_MS + 1 : 0;
    if (!uv_is_active((uv_handle_t *)&q->deadline_timer) || uv_timer_get_due_in(&q->deadline_timer) > ms)
        uv_timer_start(&q->deadline_timer, executor_deadline, ms, 0);
}

void rd_watch_deadline(rd_requests *q, const rd_request *r)
{
    if (r->deadline_ns)
        watch(q, r->deadline_ns);
}
