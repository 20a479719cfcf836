#include "daemon/quick.h"

#include <string.h>

#include "daemon/answered.h"
#include "daemon/server.h"

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

void rd_quick_open(rd_quick *q, rk_engine *engine, rd_sessions *sessions, rd_trace *trace, size_t small_bytes,
                   unsigned max_unsent)
{
    pthread_rwlock_wrlock(&q->gate);
    q->engine = engine;
    q->sessions = sessions;
    q->trace = trace;
    q->small_bytes = small_bytes;
    atomic_store_explicit(&q->max_unsent, max_unsent, memory_order_relaxed);
    q->open = small_bytes > 0;
    pthread_rwlock_unlock(&q->gate);
}

void rd_quick_close(rd_quick *q)
{
    pthread_rwlock_wrlock(&q->gate);
    q->open = false;
    pthread_rwlock_unlock(&q->gate);
}

/* Is this a REDUCE that nothing is wrong with? Fills header, body and task. */
static bool acceptable(const rd_quick *q, rd_request *r)
{
    rp_fault f;
    if (r->len > RP_HEADER_SIZE + RP_SPEC_SIZE + q->small_bytes || rp_get_header(r->bytes, r->len, &r->header, &f))
        return false;
    const rp_header *h = &r->header;
    if (h->reply || h->type != RP_MSG_REDUCE || h->version != RP_WIRE_VERSION || h->time_ms > RP_MAX_DEADLINE_MS)
        return false;
    r->body = r->bytes + RP_HEADER_SIZE;
    r->body_len = r->len - RP_HEADER_SIZE;
    return rd_read_task(r, &f) == RP_OK;
}

static bool compute(const rd_quick *q, rd_request *r)
{
    rk_task *t = &r->job.task;
    size_t cell = rp_cell_size(&t->spec);
    if (rp_results(&t->spec) > q->small_bytes / cell)
        return false;
    uint8_t *reply = rd_reply_alloc(r, RP_RESULT_SIZE + rp_results(&t->spec) * cell);
    if (!reply)
        return false;
    t->cells = reply + RP_RESULT_SIZE;
    if (!rk_run_small(q->engine, t) || t->fault.code != RP_OK)
        return false;
    rp_result x = rd_result_of(r, &t->spec, rp_elements(&t->spec));
    rp_put_result(reply, &x);
    return true;
}

static void count(rd_quick *q, const rd_request *r, const rd_session *x)
{
    rd_answered a = rd_answered_of(r, x, RP_OK, rd_now_ns());
    pthread_mutex_lock(&q->lock);
    rd_tally_op(&q->tally, a.op);
    rd_tally_add(&q->tally, &a);
    pthread_mutex_unlock(&q->lock);
    rd_trace_put(q->trace, &a);
}

static bool answer(rd_quick *q, rd_request *r)
{
    if (!q->open || !acceptable(q, r))
        return false;
    rd_session *x = rd_session_hold(q->sessions, r->pipe, r->header.session,
                                    atomic_load_explicit(&q->max_unsent, memory_order_relaxed));
    if (!x)
        return false;
    bool done = compute(q, r);
    if (done) {
        const rk_task *t = &r->job.task;
        rp_header h = {.version = RP_WIRE_VERSION,
                       .type = RP_MSG_REDUCE,
                       .reply = true,
                       .session = r->header.session,
                       .id = r->header.id,
                       .body_len = RP_RESULT_SIZE + rp_results(&t->spec) * rp_cell_size(&t->spec)};
        count(q, r, x);
        rd_reply_send(r, &h, &x->unsent); /* the request is no longer ours */
    }
    rd_session_release(x);
    return done;
}

bool rd_quick_answer(void *quick, rd_request *r)
{
    rd_quick *q = quick;
    pthread_rwlock_rdlock(&q->gate);
    bool done = answer(q, r);
    pthread_rwlock_unlock(&q->gate);
    return done;
}

void rd_quick_collect(rd_quick *q, rd_tally *to)
{
    pthread_mutex_lock(&q->lock);
    rd_tally_join(to, &q->tally);
    memset(&q->tally, 0, sizeof q->tally);
    pthread_mutex_unlock(&q->lock);
}
