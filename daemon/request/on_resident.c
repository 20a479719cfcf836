#include "daemon/request/on_resident.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/request/reply.h"
#include "daemon/request/source.h"
#include "daemon/state/resident.h"
#include "proto/clock.h"

/* ---- owners ---- */
static rp_err owner(const rd_request *r, uint64_t *uid, rp_fault *f)
{
    const rd_peer *p = &r->session->peer;
    *uid = p->uid;
    return rd_peer_is_user(p)
               ? RP_OK
               : rp_fail(f, RP_AUTH, "user", 0,
                         "resident data belong to a user, and neither the kernel nor a certificate names this peer's");
}

/* Every look-up begins here: expired data are dropped before it. */
static const rd_users *users_now(rd_requests *q)
{
    rd_residents_expire(q->holdings, rp_now_ns());
    return q->users;
}

/* The data that the body names. */
static rp_err find_named(rd_requests *q, const rd_request *r, rd_resident **x, rp_fault *f)
{
    const char *name;
    uint64_t uid;
    rp_err err = rp_get_name(r->body, r->body_len, &name, f);
    if (!err)
        err = owner(r, &uid, f);
    if (err)
        return err;
    *x = rd_resident_by_name(users_now(q), uid, name, r->body_len);
    return *x ? RP_OK : rp_fail(f, RP_BAD_HANDLE, "name", 0, "no resident data named '%.*s'", (int)r->body_len, name);
}

/* The data that the session writes. */
static rp_err find_written(const rd_request *r, uint64_t id, rd_resident **x, rp_fault *f)
{
    *x = rd_resident_written(r->all->users, r->session->peer.uid, r->session, id);
    return *x ? RP_OK : rp_fail(f, RP_BAD_HANDLE, "handle", 0, "this session does not write data with this handle");
}

/* ---- STORE ---- */
static void on_store_made(rd_work *w)
{
    rd_resident *x = (rd_resident *)w;
    rd_request *r = x->maker;
    rd_requests *q = r->all;
    rp_fault *late = &r->job.task.fault;
    *late = x->fault;
    x->maker = NULL;
    r->resident = x; /* the request takes over the maker's reference */
    r->release = rd_source_release;
    if (!late->code && x->dropped)
        rp_fail(late, RP_CANCELLED, "session", 0, "the session has ended");
    rd_settle_late(r);
    rp_fault f = *late; /* a copy: the exchange of an answered request may hold another one */
    if (!f.code)
        rd_answer_u64(q, r, x->id, &f);
    if (!f.code)
        return;
    rd_resident_drop(x);
    rd_refuse(q, r, &f);
}

rp_err rd_on_store(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_store ask;
    uint64_t uid;
    rp_err err = rp_get_store(r->body, r->body_len, &ask, f);
    if (!err)
        err = owner(r, &uid, f);
    if (!err && rk_opening(q->engine))
        err = RD_LATER;
    if (err)
        return err;
    users_now(q);
    rd_wait(q, r);
    return rd_resident_begin(q->holdings, uid, r->session, &ask, on_store_made, r, f);
}

/* ---- WRITE, WRITE_AT ---- */

/* The bytes that the request claimed have arrived, or have failed to. */
static void on_write_release(rd_request *r)
{
    rd_resident_settle(r->resident, r->offset, r->count, !r->written);
    rd_source_release(r);
}

static void on_write_done(rd_requests *q, rd_job *job)
{
    rd_request *r = job->request;
    rp_fault f = job->task.fault;
    r->written = !f.code;
    if (r->written)
        rd_answer_u64(q, r, r->resident->extents.total, &f);
    if (!f.code)
        return;
    r->written = false;
    rd_refuse(q, r, &f);
}

/* The request's job copies `bytes` bytes to the place that `w` names; they are not there before. */
static rp_err begin_write(rd_request *r, const rp_write *w, uint64_t bytes, rp_fault *f)
{
    rd_resident *x;
    rp_err err = find_written(r, w->handle, &x, f);
    if (!err && bytes == 0)
        err = rp_fail(f, RP_SHAPE, "data", 1, "no bytes to write");
    if (!err)
        err = rd_resident_claim(x, w->offset, bytes, f);
    if (err)
        return err;
    rd_source_hold(r, x);
    r->release = on_write_release;
    r->offset = w->offset;
    r->count = bytes;
    r->written = false;
    r->job.done = on_write_done;
    r->job.task = (rk_task){.memory = x->memory, .offset = w->offset, .bytes = bytes, .fill = true};
    return RP_OK;
}

rp_err rd_on_write(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_write w;
    rp_err err = rp_get_write(r->body, r->body_len, &w, f);
    if (!err)
        err = begin_write(r, &w, w.data_len, f);
    if (err)
        return err;
    r->job.task.data = w.data;
    rd_wait(q, r);
    rd_schedule(q, r);
    return RP_OK;
}

rp_err rd_on_write_at(rd_requests *q, rd_request *r, rp_fault *f)
{
    rp_write w;
    rp_at a;
    rd_handle *x = NULL;
    rp_err err = rp_get_write_at(r->body, r->body_len, &w, &a, f);
    if (!err)
        err = rd_source_find(r, &a, "from", &x, f);
    if (!err)
        err = begin_write(r, &w, a.length, f);
    if (err)
        return err;
    rd_source_use(r, x, &a);
    rd_wait(q, r);
    rd_schedule(q, r);
    return RP_OK;
}

/* ---- COMMIT, ABORT ---- */
/* Data that outlive the daemon are sealed now, or could not be because there was too little memory. */
static void on_commit_sealed(rd_work *w)
{
    rd_resident *x = (rd_resident *)w;
    rd_request *r = x->maker;
    rd_requests *q = r->all;
    rp_fault *late = &r->job.task.fault, f;
    x->maker = NULL;
    r->resident = x; /* the request takes over the work's reference */
    r->release = rd_source_release;
    *late = (rp_fault){.index = RP_NO_INDEX};
    rd_settle_late(r);
    f = *late;
    if (!f.code && x->dropped)
        rp_fail(&f, RP_CANCELLED, "session", 0, "the session has ended");
    users_now(q);
    if (!f.code && rd_resident_commit(x, rp_now_ns(), &f) == RP_OK && rd_answer_empty(q, r, &f) == RP_OK)
        return;
    rd_refuse(q, r, &f);
}

rp_err rd_on_commit(rd_requests *q, rd_request *r, rp_fault *f)
{
    uint64_t id;
    rd_resident *x = NULL;
    rp_err err = rp_get_u64(r->body, r->body_len, &id, "handle", f);
    if (!err)
        err = find_written(r, id, &x, f);
    if (err)
        return err;
    if (rd_resident_may_seal(x, f)) {
        rd_wait(q, r);
        rd_resident_seal(x, rp_now_ns(), on_commit_sealed, r);
        return RP_OK;
    }
    users_now(q);
    err = rd_resident_commit(x, rp_now_ns(), f);
    return err ? err : rd_answer_empty(q, r, f);
}

bool rd_resident_abort(const rd_request *r, uint64_t id)
{
    rd_resident *x;
    if (find_written(r, id, &x, NULL))
        return false;
    rd_resident_drop(x);
    return true;
}

/* ---- LIST, DROP ---- */

/* No entry for a single device, nor for data in the host's memory beside devices. */
static uint8_t place_of(const rd_resident *x, uint8_t version)
{
    if (version < RP_PLANES_VERSION || rk_devices(x->holdings->engine) == 1)
        return RP_PLACE_ANY;
    const int place = rk_memory_place(x->memory);
    if (place == RK_PLACE_ANY)
        return RP_PLACE_ANY;
    return place == RK_PLACE_SPREAD ? RP_PLACE_SPREAD : (uint8_t)(RP_PLACE_DEVICE + place);
}

static rp_resident entry_of(const rd_resident *x, uint64_t now_ns, uint8_t version)
{
    const uint64_t left = x->until_ns > now_ns ? x->until_ns - now_ns : 0;
    return (rp_resident){.handle = x->id,
                         .bytes = x->bytes,
                         .age_ms = (now_ns - x->since_ns) / RP_NS_PER_MS,
                         .left_ms = x->until_ns == UINT64_MAX ? UINT64_MAX : left / RP_NS_PER_MS,
                         .uses = atomic_load_explicit(&x->refs, memory_order_relaxed) - 1,
                         .dtype = x->dtype,
                         .name_len = (uint8_t)strlen(x->name),
                         .place = place_of(x, version),
                         .name = x->name,
                         .shape = version >= RP_PLANES_VERSION ? x->shape : (rp_shape){0}};
}

static rp_err answer_list(rd_requests *q, rd_request *r, const rd_resident *first, bool all, rp_fault *f)
{
    uint64_t now = rp_now_ns();
    size_t n = 0, used = 0;
    for (const rd_resident *x = first; x; x = all ? x->next : NULL)
        n++;
    uint8_t *body = rd_exchange_reply(&r->exchange, n * RP_RESIDENT_MAX);
    if (!body)
        return rd_no_memory(f);
    for (const rd_resident *x = first; x; x = all ? x->next : NULL) {
        if (x->session)
            continue;
        rp_resident e = entry_of(x, now, r->exchange.header.version);
        used += rp_put_resident(body + used, &e);
    }
    rd_answer(q, r, used);
    return RP_OK;
}

rp_err rd_on_list(rd_requests *q, rd_request *r, rp_fault *f)
{
    uint64_t uid;
    rd_resident *one = NULL;
    if (r->body_len) {
        rp_err err = find_named(q, r, &one, f);
        return err ? err : answer_list(q, r, one, false, f);
    }
    rp_err err = owner(r, &uid, f);
    if (err)
        return err;
    const rd_user *user = rd_user_find(users_now(q), uid);
    return answer_list(q, r, user ? user->resident : NULL, true, f);
}

rp_err rd_on_drop(rd_requests *q, rd_request *r, rp_fault *f)
{
    rd_resident *x = NULL;
    rp_err err = find_named(q, r, &x, f);
    if (err)
        return err;
    rd_resident_drop(x);
    return rd_answer_empty(q, r, f);
}
