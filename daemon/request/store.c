#include "daemon/request/store.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"

/* ---- whose ---- */
static rp_err owner(const rd_request *r, uint64_t *uid, rp_fault *f)
{
    const rd_peer *p = &r->session->peer;
    *uid = p->uid;
    return p->local ? RP_OK : rp_fail(f, RP_AUTH, "user", 0, "resident data belong to a user, whom only ipc tells");
}

/* Users and not expired data: what every look-up begins with. */
static const rd_users *users_now(rd_server *s)
{
    rd_residents_expire(s, rd_now_ns());
    return &s->users;
}

/* The data that the body names. */
static rp_err find_named(rd_server *s, const rd_request *r, rd_resident **x, rp_fault *f)
{
    const char *name;
    uint64_t uid;
    rp_err err = rp_get_name(r->body, r->body_len, &name, f);
    if (!err)
        err = owner(r, &uid, f);
    if (err)
        return err;
    *x = rd_resident_by_name(users_now(s), uid, name, r->body_len);
    return *x ? RP_OK : rp_fail(f, RP_BAD_HANDLE, "name", 0, "no resident data named '%.*s'", (int)r->body_len, name);
}

static rd_resident *find_written(const rd_server *s, const rd_request *r, uint64_t id)
{
    return rd_resident_written(&s->users, r->session->peer.uid, r->session, id);
}

static void hold(rd_request *r, rd_resident *x)
{
    r->resident = x;
    rd_resident_hold(x);
}

void rd_store_end(rd_server *s, rd_request *r)
{
    rd_resident *x = r->resident;
    if (!x)
        return;
    r->resident = NULL;
    if (r->header.type == RP_MSG_WRITE || r->header.type == RP_MSG_WRITE_AT)
        rd_resident_settle(s, x, r->offset, r->count, !r->written);
    rd_resident_release(s, x);
}

/* ---- STORE ---- */
static void made(rd_server *s, rd_work *c)
{
    rd_resident *x = (rd_resident *)c;
    rd_request *r = x->maker;
    rp_fault f = x->fault;
    x->maker = NULL;
    r->resident = x; /* the reference of the maker is the request's */
    if (!f.code && x->dropped)
        rp_fail(&f, RP_CANCELLED, "session", 0, "the session has ended");
    else if (!f.code && !rd_late(r, &f))
        rd_answer_u64(s, r, x->id, &f);
    if (!f.code)
        return;
    rd_resident_drop(s, x);
    rd_refuse(s, r, &f);
}

rp_err rd_on_store(rd_server *s, rd_request *r, rp_fault *f)
{
    rp_store ask;
    uint64_t uid;
    rp_err err = rp_get_store(r->body, r->body_len, &ask, f);
    if (!err)
        err = owner(r, &uid, f);
    if (err)
        return err;
    users_now(s);
    rd_wait(s, r);
    return rd_resident_begin(s, uid, r->session, &ask, made, r, f);
}

/* ---- WRITE, WRITE_AT ---- */
static void written(rd_server *s, rd_job *job)
{
    rd_request *r = rd_request_of(job);
    rp_fault f = job->task.fault;
    r->written = !f.code && !rd_late(r, &f);
    if (r->written)
        rd_answer_u64(s, r, r->resident->extents.total, &f);
    if (!f.code)
        return;
    r->written = false;
    rd_refuse(s, r, &f);
}

/* The request's job copies `bytes` bytes to where `w` tells; the bytes are missing yet. */
static rp_err begin_write(const rd_server *s, rd_request *r, const rp_write *w, uint64_t bytes, rp_fault *f)
{
    rd_resident *x = find_written(s, r, w->handle);
    if (!x)
        return rp_fail(f, RP_BAD_HANDLE, "handle", 0, "this session writes no data of this handle");
    if (bytes == 0)
        return rp_fail(f, RP_SHAPE, "data", 1, "nothing to write");
    if (rd_late(r, f))
        return RP_DEADLINE;
    rp_err err = rd_resident_claim(x, w->offset, bytes, f);
    if (err)
        return err;
    hold(r, x);
    r->offset = w->offset;
    r->count = bytes;
    r->written = false;
    r->job.done = written;
    r->job.task = (rk_task){.memory = x->memory, .offset = w->offset, .bytes = bytes, .fill = true};
    return RP_OK;
}

rp_err rd_on_write(rd_server *s, rd_request *r, rp_fault *f)
{
    rp_write w;
    rp_err err = rp_get_write(r->body, r->body_len, &w, f);
    if (!err)
        err = begin_write(s, r, &w, w.data_len, f);
    if (err)
        return err;
    r->job.task.data = w.data;
    rd_wait(s, r);
    rd_schedule(s, r);
    return RP_OK;
}

rp_err rd_on_write_at(rd_server *s, rd_request *r, rp_fault *f)
{
    rp_write w;
    rp_at a;
    rd_handle *x = NULL;
    rp_err err = rp_get_write_at(r->body, r->body_len, &w, &a, f);
    if (!err)
        err = rd_at_find(r, &a, "from", &x, f);
    if (!err)
        err = begin_write(s, r, &w, a.length, f);
    if (err)
        return err;
    rd_at_use(s, r, x, &a);
    rd_at_submit(s, r);
    return RP_OK;
}

/* ---- COMMIT, ABORT ---- */
rp_err rd_on_commit(rd_server *s, rd_request *r, rp_fault *f)
{
    uint64_t id;
    rp_err err = rp_get_u64(r->body, r->body_len, &id, "handle", f);
    if (err)
        return err;
    rd_resident *x = find_written(s, r, id);
    if (!x)
        return rp_fail(f, RP_BAD_HANDLE, "handle", 0, "this session writes no data of this handle");
    users_now(s);
    err = rd_resident_commit(s, x, rd_now_ns(), f);
    return err ? err : rd_answer_empty(s, r, f);
}

bool rd_store_abort(rd_server *s, const rd_request *r, uint64_t id)
{
    rd_resident *x = find_written(s, r, id);
    if (x)
        rd_resident_drop(s, x);
    return x != NULL;
}

/* ---- LIST, DROP ---- */
static rp_resident entry_of(const rd_resident *x, uint64_t now_ns)
{
    const uint64_t ms = 1000000, left = x->until_ns > now_ns ? x->until_ns - now_ns : 0;
    return (rp_resident){.handle = x->id,
                         .bytes = x->bytes,
                         .age_ms = (now_ns - x->since_ns) / ms,
                         .left_ms = x->until_ns == UINT64_MAX ? UINT64_MAX : left / ms,
                         .uses = atomic_load_explicit(&x->refs, memory_order_relaxed) - 1,
                         .dtype = x->dtype,
                         .name_len = (uint8_t)strlen(x->name),
                         .name = x->name};
}

static rp_err answer_list(rd_server *s, rd_request *r, const rd_resident *first, bool all, rp_fault *f)
{
    uint64_t now = rd_now_ns();
    size_t n = 0, used = 0;
    for (const rd_resident *x = first; x; x = all ? x->next : NULL)
        n++;
    uint8_t *body = rd_exchange_reply(&r->exchange, n * (RP_RESIDENT_SIZE + RP_MAX_NAME));
    if (!body)
        return rd_no_memory(f);
    for (const rd_resident *x = first; x; x = all ? x->next : NULL) {
        if (x->session)
            continue;
        rp_resident e = entry_of(x, now);
        used += rp_put_resident(body + used, &e);
    }
    rd_answer(s, r, used);
    return RP_OK;
}

rp_err rd_on_list(rd_server *s, rd_request *r, rp_fault *f)
{
    uint64_t uid;
    rd_resident *one = NULL;
    if (r->body_len) {
        rp_err err = find_named(s, r, &one, f);
        return err ? err : answer_list(s, r, one, false, f);
    }
    rp_err err = owner(r, &uid, f);
    if (err)
        return err;
    const rd_user *user = rd_user_find(users_now(s), uid);
    return answer_list(s, r, user ? user->resident : NULL, true, f);
}

rp_err rd_on_drop(rd_server *s, rd_request *r, rp_fault *f)
{
    rd_resident *x = NULL;
    rp_err err = find_named(s, r, &x, f);
    if (err)
        return err;
    rd_resident_drop(s, x);
    return rd_answer_empty(s, r, f);
}

/* ---- REDUCE_AT ---- */
rp_err rd_store_check(const rd_resident *x, const rp_spec *spec, const rp_at *a, rp_fault *f)
{
    if (spec->dtype != x->dtype)
        return rp_fail(f, RP_TYPE, "dtype", 0, "'%s' holds %s", x->name, rp_dtype_name(x->dtype));
    return rd_at_check_memory(spec, a, x->bytes, f);
}

void rd_store_use(rd_request *r, rd_resident *x, const rp_at *a)
{
    hold(r, x);
    r->job.task.memory = x->memory;
    r->job.task.offset = a->offset;
}
