#include "daemon/quick.h"

#include <string.h>

#include "daemon/answered.h"
#include "daemon/dispatch.h"

bool rd_quick_init(rd_quick *q)
{
    pthread_rwlockattr_t writers; /* a flood of requests must not keep the loop waiting at the gate */
    memset(q, 0, sizeof *q);
    pthread_rwlockattr_init(&writers);
    pthread_rwlockattr_setkind_np(&writers, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    bool ok = pthread_rwlock_init(&q->gate, &writers) == 0;
    pthread_rwlockattr_destroy(&writers);
    return ok && pthread_mutex_init(&q->lock, NULL) == 0;
}

void rd_quick_fini(rd_quick *q)
{
    pthread_mutex_destroy(&q->lock);
    pthread_rwlock_destroy(&q->gate);
}

void rd_quick_open(rd_quick *q, rk_engine *engine, rd_sessions *sessions, rd_trace *trace, size_t max_bytes)
{
    pthread_rwlock_wrlock(&q->gate);
    q->engine = engine;
    q->sessions = sessions;
    q->trace = trace;
    q->max_bytes = max_bytes;
    q->open = max_bytes > 0;
    pthread_rwlock_unlock(&q->gate);
}

void rd_quick_close(rd_quick *q)
{
    pthread_rwlock_wrlock(&q->gate);
    q->open = false;
    pthread_rwlock_unlock(&q->gate);
}

void rd_quick_limit(rd_quick *q, unsigned max_taken, unsigned max_unsent)
{
    atomic_store_explicit(&q->max_taken, max_taken, memory_order_relaxed);
    atomic_store_explicit(&q->max_unsent, max_unsent, memory_order_relaxed);
}

/* Is this a REDUCE that nothing is wrong with? Fills header, body and task. */
static bool acceptable(const rd_quick *q, rd_request *r)
{
    rp_fault f;
    if (r->len > RP_HEADER_SIZE + RP_SPEC_SIZE + q->max_bytes || rp_get_header(r->bytes, r->len, &r->header, &f))
        return false;
    const rp_header *h = &r->header;
    if (h->reply || h->type != RP_MSG_REDUCE || h->version != RP_WIRE_VERSION || h->time_ms > RP_MAX_DEADLINE_MS)
        return false;
    r->body = r->bytes + RP_HEADER_SIZE;
    r->body_len = r->len - RP_HEADER_SIZE;
    r->deadline_ns = rd_deadline_of(r);
    return rd_read_task(r, &f) == RP_OK;
}

static void count(rd_quick *q, const rd_request *r)
{
    rd_answered a = rd_answered_of(r, r->session, RP_OK, rd_now_ns());
    pthread_mutex_lock(&q->lock);
    rd_tally_op(&q->tally, a.op);
    rd_tally_add(&q->tally, &a);
    pthread_mutex_unlock(&q->lock);
    rd_trace_put(q->trace, &a);
}

/* The result of the finished task, whose cells are in the reply. */
static void reply(rd_quick *q, rd_request *r)
{
    const rp_spec *spec = &r->job.task.spec;
    rp_result x = rd_result_of(r, spec, rp_elements(spec));
    rp_header h = {.version = RP_WIRE_VERSION,
                   .type = RP_MSG_REDUCE,
                   .reply = true,
                   .session = r->header.session,
                   .id = r->header.id,
                   .body_len = RP_RESULT_SIZE + x.cells * x.cell_size};
    rp_put_result(r->reply, &x);
    count(q, r);
    rd_reply_send(r, &h, &r->session->unsent); /* the request is no longer ours */
}

/* A thread of the engine: back from its batch. */
static void batched(rk_task *t)
{
    rd_request *r = (rd_request *)t;
    rd_session *x = r->session;
    rp_fault f;
    if (t->fault.code != RP_OK || rd_late(r, &f))
        rd_request_pass(r);
    else
        reply(t->user, r);
    rd_session_release(x);
}

static bool make_room(const rd_quick *q, rd_request *r)
{
    rk_task *t = &r->job.task;
    rp_fault f;
    if (rp_results(&t->spec) > q->max_bytes / rp_cell_size(&t->spec) || rd_make_room(r, &t->spec, &f) != RP_OK)
        return false;
    t->cells = r->reply + RP_RESULT_SIZE;
    return true;
}

/* With its session held, which is released when the request is answered. False: the request is not taken. */
static bool take(rd_quick *q, rd_request *r)
{
    rk_task *t = &r->job.task;
    if (!make_room(q, r))
        return false;
    if (!rk_run_small(q->engine, t)) {
        t->user = q;
        return rk_submit_batched(q->engine, t, batched);
    }
    if (t->fault.code != RP_OK)
        return false;
    rd_session *x = r->session;
    reply(q, r);
    rd_session_release(x);
    return true;
}

static bool answer(rd_quick *q, rd_request *r)
{
    if (!q->open || !acceptable(q, r))
        return false;
    rd_session *x = rd_session_hold(q->sessions, r->pipe, r->header.session,
                                    atomic_load_explicit(&q->max_taken, memory_order_relaxed),
                                    atomic_load_explicit(&q->max_unsent, memory_order_relaxed));
    if (!x)
        return false;
    r->session = x;
    bool taken = take(q, r);
    if (!taken)
        rd_session_release(x);
    return taken;
}

bool rd_quick_answer(void *quick, rd_request *r)
{
    rd_quick *q = quick;
    pthread_rwlock_rdlock(&q->gate);
    bool taken = answer(q, r);
    pthread_rwlock_unlock(&q->gate);
    return taken;
}

void rd_quick_collect(rd_quick *q, rd_tally *to)
{
    pthread_mutex_lock(&q->lock);
    rd_tally_join(to, &q->tally);
    memset(&q->tally, 0, sizeof q->tally);
    pthread_mutex_unlock(&q->lock);
}
