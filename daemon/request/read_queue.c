#include "daemon/request/read_queue.h"

#include "daemon/request/long_read.h"

void rd_read_queue_put(rd_requests *q, rd_request *r)
{
    const uint64_t cost = RD_TASK_COST + r->job.task.bytes;
    rd_sched_put(&q->sched, &r->session->queues, &r->job.item, RD_QUEUE_READ, cost, cost);
}

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

void rd_read_queue_remove(rd_requests *q, rd_request *r)
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
            rd_read_queue_remove(q, r);
            rd_read_queue_put(q, r);
        }
}

static void start_reading(rd_request *r, rd_buffer *b, rd_read_done *done)
{
    rd_user *user = r->session->owner;
    if (!rd_long_start(&r->read, b, user, done))
        rd_read_start(&r->read, b, user, done);
}

/* Give free buffers to requests that wait for one. */
static void feed_readers(rd_requests *q, rd_read_done *done)
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
            start_reading(r, b, done);
        } else {
            rp_fail(&r->job.task.fault, RP_NO_MEMORY, "buffer", 0, "no memory to read the file into");
            rd_sched_end(&q->sched, &r->job.item, 0);
            r->job.done(q, &r->job);
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

static void read_queue_help(uv_timer_t *t)
{
    rd_requests *q = t->data;
    if (q->buffers.reading)
        uv_timer_start(t, read_queue_help, HELP_MS, 0);
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
        if (rd_abandoned(l->read->request, &f))
            rd_long_stop(l, &f);
    if (q->buffers.reading && !q->sched.queue[RD_QUEUE_READ].queued && !uv_is_active((uv_handle_t *)&q->help_timer))
        uv_timer_start(&q->help_timer, read_queue_help, HELP_MS, 0);
}

void rd_read_queue_feed(rd_requests *q, rd_read_done *done)
{
    feed_readers(q, done);
    watch_long(q);
}

void rd_stop_reading(rd_requests *q, const rp_fault *f)
{
    for (rd_long *l = q->buffers.reading; l; l = l->next)
        rd_long_stop(l, f);
}
