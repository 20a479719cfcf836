#include "daemon/request/fastpath.h"

#include <string.h>

#include "daemon/net/limits.h"
#include "daemon/request/dispatch.h"
#include "daemon/request/record.h"
#include "daemon/request/store.h"

bool rd_fastpath_init(rd_fastpath *q)
{
    pthread_rwlockattr_t writers; /* a flood of requests must not keep the loop waiting at the gate */
    memset(q, 0, sizeof *q);
    pthread_rwlockattr_init(&writers);
    pthread_rwlockattr_setkind_np(&writers, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    bool ok = pthread_rwlock_init(&q->gate, &writers) == 0;
    pthread_rwlockattr_destroy(&writers);
    return ok && pthread_mutex_init(&q->lock, NULL) == 0;
}

void rd_fastpath_fini(rd_fastpath *q)
{
    pthread_mutex_destroy(&q->lock);
    pthread_rwlock_destroy(&q->gate);
}

void rd_fastpath_open(rd_fastpath *q, rd_server *s, size_t max_bytes)
{
    pthread_rwlock_wrlock(&q->gate);
    q->server = s;
    q->max_bytes = max_bytes;
    q->open = max_bytes > 0;
    pthread_rwlock_unlock(&q->gate);
}

void rd_fastpath_close(rd_fastpath *q)
{
    pthread_rwlock_wrlock(&q->gate);
    q->open = false;
    pthread_rwlock_unlock(&q->gate);
}

unsigned rd_fastpath_under_way(const rd_fastpath *q) { return atomic_load(&q->under_way); }

void rd_fastpath_limit(rd_fastpath *q, unsigned max_taken, unsigned max_unsent)
{
    atomic_store_explicit(&q->max_taken, max_taken, memory_order_relaxed);
    atomic_store_explicit(&q->max_unsent, max_unsent, memory_order_relaxed);
}

void rd_fastpath_crowd(rd_fastpath *q, bool crowded) { atomic_store_explicit(&q->crowded, crowded, memory_order_relaxed); }

static bool takes(const rd_fastpath *q, uint8_t type)
{
    return type == RP_MSG_REDUCE || (type == RP_MSG_REDUCE_AT && !atomic_load_explicit(&q->crowded, memory_order_relaxed));
}

/* Is this one that may be taken, as far as the header tells? Fills header and body. */
static bool acceptable(const rd_fastpath *q, rd_request *r)
{
    rp_fault f;
    if (r->exchange.len > RP_HEADER_SIZE + RP_SPEC_SIZE + q->max_bytes ||
        rp_get_header(r->exchange.bytes, r->exchange.len, &r->header, &f))
        return false;
    const rp_header *h = &r->header;
    if (h->reply || !takes(q, h->type) || h->version != RP_WIRE_VERSION || h->time_ms > RP_MAX_DEADLINE_MS)
        return false;
    r->body = r->exchange.bytes + RP_HEADER_SIZE;
    r->body_len = r->exchange.len - RP_HEADER_SIZE;
    r->deadline_ns = rd_deadline_of(r);
    return true;
}

/* Let go of what the request holds. From here on the loop may read it anew, or it is answered. */
static void let_go(rd_fastpath *q, rd_request *r)
{
    rd_at_end(q->server, r);
    rd_store_end(q->server, r);
}

/* The task of a REDUCE_AT whose data the engine has. */
static bool read_at(rd_fastpath *q, rd_request *r)
{
    rp_fault f;
    pthread_mutex_lock(&q->server->handles);
    bool right = rd_at_read(q->server, r, &f) == RP_OK;
    pthread_mutex_unlock(&q->server->handles);
    return right && r->job.task.memory;
}

static bool read_task(rd_fastpath *q, rd_request *r)
{
    rp_fault f;
    return r->header.type == RP_MSG_REDUCE_AT ? read_at(q, r) : rd_read_task(r, &f) == RP_OK;
}

static void count(rd_fastpath *q, const rd_request *r)
{
    rd_record a = rd_record_of(r, r->session, RP_OK, rd_now_ns());
    pthread_mutex_lock(&q->lock);
    rd_tally_op(&q->tally, a.op);
    rd_tally_add(&q->tally, &a);
    pthread_mutex_unlock(&q->lock);
    rd_trace_put(q->server->trace, &a);
}

/* The result of the finished task, whose cells are in the reply. */
static void reply(rd_fastpath *q, rd_request *r)
{
    const rp_spec *spec = &r->job.task.spec;
    rd_session *session = r->session;
    rp_result x = rd_result_of(r, spec, rp_elements(spec));
    rp_header h = {.version = RP_WIRE_VERSION,
                   .type = r->header.type,
                   .reply = true,
                   .session = r->header.session,
                   .id = r->header.id,
                   .body_len = RP_RESULT_SIZE + x.cells * x.cell_size};
    rp_put_result(r->reply, &x);
    count(q, r);
    rd_account_charge(&session->unsent, rd_exchange_size(&h)); /* keeps it from here on */
    rd_session_release(session);
    rd_exchange_send(&r->exchange, &h, &session->unsent); /* the request is no longer ours */
}

/* The task is finished. The session is released first: its client may have sent the next request, and the loop may count this
 * one again, before the call that answers or passes it on returns. */
static void finished(rk_task *t)
{
    rd_fastpath *q = t->user;
    rd_request *r = rd_request_of((rd_job *)t); /* a job begins with its task */
    rp_fault f;
    let_go(q, r);
    if (t->fault.code == RP_OK && !rd_late(r, &f)) {
        reply(q, r);
        return;
    }
    rd_session_release(r->session);
    rd_exchange_pass(&r->exchange);
}

/* A thread of the engine: a task that was handed in is finished. Either this sees that no more are taken, or the loop, which
 * closes first and looks then, sees that it is back. */
static void handed_back(rk_task *t)
{
    rd_fastpath *q = t->user;
    finished(t);
    if (atomic_fetch_sub(&q->under_way, 1) == 1 && !atomic_load(&q->open))
        rd_waker_ring(&q->server->waker);
}

static bool hand_in(rd_fastpath *q, rk_task *t)
{
    rk_engine *e = q->server->engine;
    atomic_fetch_add(&q->under_way, 1);
    if (t->memory ? rk_submit_alone(e, t, handed_back) : rk_submit_batched(e, t, handed_back))
        return true;
    atomic_fetch_sub(&q->under_way, 1);
    return false;
}

static bool make_room(const rd_fastpath *q, rd_request *r)
{
    rk_task *t = &r->job.task;
    rp_fault f;
    if (rp_results(&t->spec) > q->max_bytes / rp_cell_size(&t->spec) || rd_make_room(r, &t->spec, &f) != RP_OK)
        return false;
    t->cells = r->reply + RP_RESULT_SIZE;
    return true;
}

/* With its session held, which is released before the request is answered. False: the request is not taken. */
static bool take(rd_fastpath *q, rd_request *r)
{
    rk_task *t = &r->job.task;
    if (!read_task(q, r) || !make_room(q, r))
        return false;
    t->user = q;
    if (!rk_run_small(q->server->engine, t))
        return hand_in(q, t);
    finished(t);
    return true;
}

static bool answer(rd_fastpath *q, rd_request *r)
{
    if (!q->open || !acceptable(q, r))
        return false;
    rd_session *x = rd_session_hold(&q->server->sessions, r->exchange.connection, r->header.session,
                                    atomic_load_explicit(&q->max_taken, memory_order_relaxed),
                                    atomic_load_explicit(&q->max_unsent, memory_order_relaxed));
    if (!x)
        return false;
    if (rd_account_bytes(&x->owner->unsent) > RD_FAST_UNREAD) {
        rd_session_release(x);
        return false;
    }
    r->session = x;
    r->handle = NULL;
    r->resident = NULL;
    if (take(q, r))
        return true;
    let_go(q, r);
    rd_session_release(x);
    return false;
}

bool rd_fastpath_answer(void *fastpath, rd_exchange *e)
{
    rd_fastpath *q = fastpath;
    rd_request *r = (rd_request *)e;
    pthread_rwlock_rdlock(&q->gate);
    bool taken = answer(q, r);
    pthread_rwlock_unlock(&q->gate);
    return taken;
}

void rd_fastpath_collect(rd_fastpath *q, rd_tally *to)
{
    pthread_mutex_lock(&q->lock);
    rd_tally_join(to, &q->tally);
    memset(&q->tally, 0, sizeof q->tally);
    pthread_mutex_unlock(&q->lock);
}
