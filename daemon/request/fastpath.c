#include "daemon/request/fastpath.h"

#include <string.h>
#include <time.h>

#include "daemon/base/brief_lock.h"
#include "daemon/net/limits.h"
#include "daemon/request/executor.h"
#include "daemon/request/reply.h"
#include "daemon/request/source.h"

enum { LONG_BYTES = 8 << 20 };

bool rd_fastpath_init(rd_fastpath *p)
{
    pthread_rwlockattr_t writers; /* writers come first: a flood of requests must not keep the loop waiting at the gate */
    memset(p, 0, sizeof *p);
    pthread_rwlockattr_init(&writers);
    pthread_rwlockattr_setkind_np(&writers, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    bool ok = pthread_rwlock_init(&p->gate, &writers) == 0;
    pthread_rwlockattr_destroy(&writers);
    return ok && rd_brief_lock_init(&p->lock);
}

void rd_fastpath_fini(rd_fastpath *p)
{
    pthread_mutex_destroy(&p->lock);
    pthread_rwlock_destroy(&p->gate);
}

void rd_fastpath_open(rd_fastpath *p, rd_requests *q, size_t max_bytes)
{
    p->requests = q;
    p->max_bytes = max_bytes;
    rd_fastpath_reopen(p);
}

void rd_fastpath_reopen(rd_fastpath *p)
{
    pthread_rwlock_wrlock(&p->gate);
    p->open = true;
    pthread_rwlock_unlock(&p->gate);
}

void rd_fastpath_close(rd_fastpath *p)
{
    pthread_rwlock_wrlock(&p->gate);
    p->open = false;
    pthread_rwlock_unlock(&p->gate);
}

unsigned rd_fastpath_under_way(const rd_fastpath *p) { return atomic_load(&p->under_way); }

void rd_fastpath_wait(const rd_fastpath *p)
{
    const struct timespec nap = {0, 100000};
    while (rd_fastpath_under_way(p))
        nanosleep(&nap, NULL);
}

void rd_fastpath_limit(rd_fastpath *p, unsigned max_taken, unsigned max_unsent)
{
    atomic_store_explicit(&p->max_taken, max_taken, memory_order_relaxed);
    atomic_store_explicit(&p->max_unsent, max_unsent, memory_order_relaxed);
}

static bool takes(const rd_fastpath *p, uint8_t type)
{
    return type == RP_MSG_REDUCE ||
           (type == RP_MSG_REDUCE_AT && !atomic_load_explicit(&p->requests->crowded, memory_order_relaxed));
}

/* Does its header allow the fast path? Sets the body. */
static bool acceptable(const rd_fastpath *p, rd_request *r)
{
    const rp_header *h = &r->exchange.header;
    if (h->body_len > RP_SPEC_SIZE + p->max_bytes || !takes(p, h->type) || !rp_version_known(h->version) ||
        h->time_ms > RP_MAX_DEADLINE_MS)
        return false;
    r->body = r->exchange.bytes + RP_HEADER_SIZE;
    r->body_len = h->body_len;
    r->deadline_ns = rd_deadline_of(r);
    return true;
}

/* Fills the task of a REDUCE_AT whose data are in the engine's memory. */
static bool read_at(rd_fastpath *p, rd_request *r)
{
    rp_fault f;
    pthread_mutex_lock(&p->requests->holdings->lock);
    bool right = rd_source_read(r, false, &f) == RP_OK;
    pthread_mutex_unlock(&p->requests->holdings->lock);
    return right && r->job.task.memory;
}

static bool read_task(rd_fastpath *p, rd_request *r)
{
    rp_fault f;
    if (r->exchange.header.type == RP_MSG_REDUCE_AT)
        return read_at(p, r);
    if (rp_has_claim_alone(r->body, r->body_len))
        return rd_source_read_message(r, &f) == RP_OK;
    return !rp_has_tagged(r->body, r->body_len) && rd_read_task(r, &f) == RP_OK;
}

/* The task is finished. A request without a result, or with a late one, goes to the loop, which handles it from the start. */
static void finished(rk_task *t)
{
    rd_request *r = ((rd_job *)t)->request; /* a job begins with its task */
    rd_settle_late(r);
    if (t->fault.code == RP_OK) {
        rd_answer_fast(r->all, r);
        return;
    }
    rd_request_release(r);
    rd_session_release(r->session);
    rd_exchange_pass(&r->exchange);
}

/* ---- what the engine has ---- */
static void enlist(rd_fastpath *p, rd_request *r)
{
    pthread_mutex_lock(&p->lock);
    rd_request_link(r, &p->handed_in);
    pthread_mutex_unlock(&p->lock);
}

static void delist(rd_fastpath *p, rd_request *r)
{
    pthread_mutex_lock(&p->lock);
    rd_request_unlink(r);
    pthread_mutex_unlock(&p->lock);
}

void rd_fastpath_each(rd_fastpath *p, void (*each)(void *arg, const rd_request *r), void *arg)
{
    pthread_mutex_lock(&p->lock);
    for (const rd_request *r = p->handed_in; r; r = r->next)
        each(arg, r);
    pthread_mutex_unlock(&p->lock);
}

/* A task is finished. The loop closes the path and then looks. So either this code sees that the path is closed and wakes the
 * loop, or the loop sees that the task is back. */
static void fastpath_back(rd_exchange *e)
{
    rk_task *t = &((rd_request *)e)->job.task;
    rd_fastpath *p = t->user;
    rd_requests *all = p->requests;
    delist(p, (rd_request *)e);
    finished(t);
    if (atomic_fetch_sub(&p->under_way, 1) == 1 && !atomic_load(&p->open))
        all->wake(all->wake_arg);
}

/* A thread of the engine. */
static void fastpath_handed_back(rk_task *t)
{
    rd_exchange *e = &((rd_job *)t)->request->exchange;
    if (!rd_exchange_leave(e, fastpath_back))
        fastpath_back(e);
}

static bool hand_in(rd_fastpath *p, rd_request *r)
{
    rk_engine *e = p->requests->engine;
    rk_task *t = &r->job.task;
    atomic_fetch_add(&p->under_way, 1);
    enlist(p, r);
    t->done = fastpath_handed_back;
    if (rk_submit(e, t, RK_ALONE) == RK_UNDER_WAY)
        return true;
    delist(p, r);
    atomic_fetch_sub(&p->under_way, 1);
    return false;
}

static bool make_room(const rd_fastpath *p, rd_request *r)
{
    rk_task *t = &r->job.task;
    rp_fault f;
    if (rp_results(&t->spec) > p->max_bytes / rp_cell_size(&t->spec) || rd_make_room(r, &t->spec, &f) != RP_OK)
        return false;
    t->cells = r->reply + RP_RESULT_SIZE;
    return true;
}

/* Order statistics of much data take passes of milliseconds on the CPU, and end early with their client, by its CANCEL or at
 * their deadline. The loop sees to these. It takes 40 us more, which is some of the time of a GPU. */
static bool is_long(const rk_task *t) { return rp_is_ranked(t->spec.op) && t->bytes > LONG_BYTES; }

/* Called with the session held, which is released before the request is answered. False: the request is not taken. */
static bool take(rd_fastpath *p, rd_request *r)
{
    rk_task *t = &r->job.task;
    if (!read_task(p, r) || is_long(t) || !make_room(p, r))
        return false;
    const bool alone = !(t->spec.flags & RP_STATES_IN); /* states are the end of a large request */
    t->user = p;
    t->until_ns = r->deadline_ns;
    if (rk_submit(p->requests->engine, t, RK_HERE) != RK_REFUSED)
        finished(t);
    else if (!t->memory || !hand_in(p, r))
        return false;
    if (alone)
        rd_workers_small(p->requests->holdings->workers);
    return true;
}

static bool answer(rd_fastpath *p, rd_request *r)
{
    if (!p->open || !acceptable(p, r))
        return false;
    rd_request_begin(r, p->requests);
    rd_session *x = rd_session_hold(p->requests->sessions, r->exchange.connection, r->exchange.header.session,
                                    atomic_load_explicit(&p->max_taken, memory_order_relaxed),
                                    atomic_load_explicit(&p->max_unsent, memory_order_relaxed));
    if (!x)
        return false;
    if (rd_held(&x->owner->charges, RD_HELD_REPLY_BYTES) > RD_FAST_UNREAD) {
        rd_session_release(x);
        return false;
    }
    r->session = x;
    if (take(p, r))
        return true;
    rd_request_release(r);
    rd_session_release(x);
    return false;
}

bool rd_fastpath_answer(void *fastpath, rd_exchange *e)
{
    rd_fastpath *p = fastpath;
    rd_request *r = (rd_request *)e;
    pthread_rwlock_rdlock(&p->gate);
    bool taken = answer(p, r);
    pthread_rwlock_unlock(&p->gate);
    return taken;
}
