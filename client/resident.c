/* Resident data: put, list, drop, reduce by name. The bytes of a put travel like those of a reduction (job.c). Their pieces
 * belong to the session in which the put began; if that is lost, the put begins again. */
#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/sized.h"
#include "client/spec.h"
#include "client/submit.h"
#include "proto/clock.h"

enum {
    MAX_LOSSES = 10, /* a put that loses its session so often is given up */
    ABORT_MS = 1000
};

/* ---- names ---- */

static int check_name(const char *name)
{
    rp_fault f;
    if (!name)
        return rc_error(REDUCE_E_ARGUMENT, "name", "the name is NULL");
    return rp_name_check(name, strlen(name), &f) ? rc_report(&f) : 0;
}

static int check_call(reduce_client *c, const char *name)
{
    const int err = rc_check(c);
    return err ? err : check_name(name);
}

/* A call whose body is a name, or nothing. */
static int call_named(reduce_client *c, uint8_t type, const char *name, uint8_t **body, size_t *len, rp_fault *f)
{
    rc_call call = {.type = type, .head_len = (uint8_t)strlen(name)};
    memcpy(call.head, name, call.head_len);
    int err = rc_call_wait(c, &call, body, len);
    *f = call.fault;
    return err;
}

static reduce_resident public_of(const rp_resident *x)
{
    reduce_resident r = REDUCE_RESIDENT_INIT;
    r.dtype = x->dtype;
    r.bytes = x->bytes;
    r.age_ms = x->age_ms;
    r.left_ms = x->left_ms;
    r.uses = x->uses;
    memcpy(r.name, x->name, x->name_len);
    r.dims = x->shape.dims;
    r.order = x->shape.order;
    memcpy(r.shape, x->shape.len, sizeof r.shape);
    r.place = x->place;
    return r;
}

/* What LIST says about it; *r (may be NULL) is the public part. */
static int look_up(reduce_client *c, const char *name, rc_named *found, reduce_resident *r, rp_fault *f)
{
    uint8_t *body;
    size_t len;
    rp_resident x;
    rp_fault bad = {0};
    bool end = false;
    int err = call_named(c, RP_MSG_LIST, name, &body, &len, f);
    if (err)
        return err;
    rp_reader reader = {.body = body, .len = len};
    if (rp_get_resident(&reader, &x, &end, &bad) || end) {
        err = rc_fail(f, REDUCE_E_PROTOCOL, bad.field, "malformed reply to list: %s", bad.text);
    } else {
        *found = (rc_named){.handle = x.handle, .bytes = x.bytes};
        memcpy(found->name, name, strlen(name) + 1);
        if (r)
            *r = public_of(&x);
    }
    free(body);
    return err;
}

/* The last one looked up, of data or of keys, if that is it: most programs reduce the same data again and again. */
static bool remembered(reduce_client *c, const rc_named *last, const char *name, rc_named *found)
{
    rc_enter(c);
    *found = *last;
    rc_leave(c);
    return strcmp(found->name, name) == 0;
}

static void remember(reduce_client *c, rc_named *last, const rc_named *found)
{
    rc_enter(c);
    *last = *found;
    rc_leave(c);
}

/* ---- put ---- */

typedef struct put {
    reduce_client *c;
    const char *name;
    rp_store ask;
    rc_input in;
    int path;
    uint64_t deadline_ns;
    rc_target to;
} put;

static int begin(put *p)
{
    rc_call call = {.type = RP_MSG_STORE, .deadline_ns = p->deadline_ns};
    uint8_t *body;
    size_t len;
    rp_fault bad;
    rp_store ask = p->ask;
    const int version = rc_version(p->c);
    if (version < RP_PLANES_VERSION) /* it keeps none */
        ask.shape = (rp_shape){0};
    if (version < RP_PLANES_VERSION && ask.place)
        return rc_error(REDUCE_E_VERSION, "place", "the daemon speaks version %d of the protocol, which has no place", version);
    call.head_len = (uint8_t)rp_put_store(call.head, &ask);
    if (rc_call_wait(p->c, &call, &body, &len))
        return rc_report(&call.fault);
    bool malformed = rp_get_u64(body, len, &p->to.handle, "handle", &bad) != RP_OK;
    free(body);
    p->to.session = call.session;
    return malformed ? rc_error(REDUCE_E_PROTOCOL, "handle", "malformed reply to store") : 0;
}

/* COMMIT or ABORT. */
static int end(put *p, uint8_t type, uint64_t deadline_ns, rp_fault *f)
{
    rc_call call = {.type = type, .bound = true, .session = p->to.session, .deadline_ns = deadline_ns};
    call.deaf = type == RP_MSG_ABORT;
    call.head_len = (uint8_t)rp_put_u64(call.head, p->to.handle);
    int err = rc_call_wait(p->c, &call, NULL, NULL);
    *f = call.fault;
    return err;
}

/* ABORT without waiting for its answer. Returns the error of the put. */
static int leave_it(put *p)
{
    rc_enter(p->c);
    rc_call_tell(p->c, RP_MSG_ABORT, p->to.session, p->to.handle);
    rc_leave(p->c);
    return REDUCE_E_INTERRUPTED;
}

/* COMMIT was not answered. 0 if it came through, also to the error `err` if it did not, or cannot be known. */
static int after_commit(put *p, int err)
{
    rc_named found;
    rp_fault f;
    const int lost = look_up(p->c, p->name, &found, NULL, &f);
    if (lost == REDUCE_E_INTERRUPTED)
        return rc_report(&f);
    return !lost && found.handle == p->to.handle ? 0 : err;
}

/* 0, or the error, reported; *again: the session was lost on the way. */
static int put_once(put *p, bool *again)
{
    rp_fault f;
    *again = false;
    int err = begin(p);
    if (err)
        return err;
    err = rc_run_write(p->c, &p->to, &p->in, p->ask.bytes, p->path, p->deadline_ns);
    bool written = !err;
    if (written && end(p, RP_MSG_COMMIT, p->deadline_ns, &f))
        err = rc_report(&f);
    *again = err && rc_call_lost(err) && !(p->c->opts.flags & REDUCE_NO_RETRY);
    if (*again && written) {
        err = after_commit(p, err);
        *again = err && err != REDUCE_E_INTERRUPTED;
    }
    if (!err || *again)
        return err;
    if (err == REDUCE_E_INTERRUPTED)
        return leave_it(p);
    int gone = end(p, RP_MSG_ABORT, rp_deadline_after(ABORT_MS), &f); /* the error before it stays reported */
    /* A COMMIT that was not answered in time: it came before ABORT, and where nothing is left to abort it was done. */
    return written && err == REDUCE_E_DEADLINE && gone == REDUCE_E_BAD_HANDLE ? 0 : err;
}

static int take_shape(rp_shape *s, const reduce_put_opts *o)
{
    if (o->dims > RP_MAX_DIMS || (o->dims && !o->shape))
        return rc_error(REDUCE_E_ARGUMENT, "dims", "a shape of %u dimensions, at most %u, without lengths", o->dims,
                        RP_MAX_DIMS);
    if (o->order >= RP_ORDER_COUNT)
        return rc_error(REDUCE_E_ARGUMENT, "order", "unknown order %u", o->order);
    s->dims = (uint8_t)o->dims;
    s->order = o->dims ? (uint8_t)o->order : 0;
    if (o->dims)
        memcpy(s->len, o->shape, o->dims * sizeof *s->len);
    return 0;
}

static int take_opts(put *p, const reduce_put_opts *given)
{
    reduce_put_opts mine = REDUCE_PUT_OPTS_INIT, *o = &mine;
    rp_fault f;
    if (given && rc_take_sized(o, sizeof *o, _Alignof(reduce_put_opts), given, RC_UP_TO(reduce_put_opts, place), "opts", &f))
        return rc_report(&f);
    if (o->flags & ~(uint32_t)REDUCE_REPLACE)
        return rc_error(REDUCE_E_ARGUMENT, "flags", "unknown flags in 0x%x", o->flags);
    if (o->place >= REDUCE_PLACE_DEVICE + RP_MAX_GPUS)
        return rc_error(REDUCE_E_ARGUMENT, "place", "no daemon has a device %u", o->place - REDUCE_PLACE_DEVICE);
    if (o->deadline_ms > RP_MAX_DEADLINE_MS)
        return rc_error(REDUCE_E_ARGUMENT, "deadline_ms", "the deadline is above %u ms", RP_MAX_DEADLINE_MS);
    if (o->path && reduce_path_name(o->path)[0] == '?')
        return rc_error(REDUCE_E_ARGUMENT, "path", "unknown path %d", o->path);
    p->ask.replace = o->flags & REDUCE_REPLACE;
    p->ask.ttl_ms = o->ttl_ms;
    p->ask.place = (uint8_t)o->place;
    p->path = o->path;
    p->deadline_ns = rp_deadline_after(o->deadline_ms);
    return take_shape(&p->ask.shape, o);
}

static int run(reduce_client *c, const char *name, int dtype, const rc_input *in, uint64_t bytes, const reduce_put_opts *opts)
{
    put p = {.c = c, .name = name, .in = *in, .ask = {.bytes = bytes}};
    bool again = true;
    int err = check_call(c, name);
    if (!err)
        err = take_opts(&p, opts);
    if (err)
        return err;
    p.ask.dtype = rp_dtype_size(dtype) ? (uint8_t)dtype : 0; /* the daemon refuses 0 */
    p.ask.name = name;
    p.ask.name_len = (uint16_t)strlen(name);
    for (int losses = 0; again && losses < MAX_LOSSES; losses++)
        err = put_once(&p, &again);
    return err;
}

int reduce_put(reduce_client *c, const char *name, int dtype, const void *data, size_t bytes, const reduce_put_opts *opts)
{
    if (!data && bytes)
        return rc_error(REDUCE_E_ARGUMENT, "data", "a pointer is NULL");
    return run(c, name, dtype, &(rc_input){.data = data, .fd = -1}, bytes, opts);
}

int reduce_put_file(reduce_client *c, const char *name, int dtype, int fd, uint64_t offset, uint64_t bytes,
                    const reduce_put_opts *opts)
{
    const rc_input in = {.fd = fd, .offset = offset};
    int err = rc_check_file(&in, bytes);
    return err ? err : run(c, name, dtype, &in, bytes, opts);
}

/* ---- list, find, drop ---- */

static int each_resident(const uint8_t *body, size_t len, int (*each)(void *, const reduce_resident *), void *arg)
{
    rp_reader r = {.body = body, .len = len};
    rp_resident x;
    rp_fault f;
    for (bool over;;) {
        if (rp_get_resident(&r, &x, &over, &f))
            return rc_error(REDUCE_E_PROTOCOL, f.field, "malformed reply to list: %s", f.text);
        if (over)
            return 0;
        reduce_resident entry = public_of(&x);
        int stop = each(arg, &entry);
        if (stop)
            return stop;
    }
}

int reduce_list(reduce_client *c, int (*each)(void *arg, const reduce_resident *r), void *arg)
{
    uint8_t *body;
    size_t len;
    rp_fault f;
    if (!each)
        return rc_error(REDUCE_E_ARGUMENT, "each", "the function is NULL");
    int err = rc_check(c);
    if (err)
        return err;
    if (call_named(c, RP_MSG_LIST, "", &body, &len, &f))
        return rc_report(&f);
    err = each_resident(body, len, each, arg);
    free(body);
    return err;
}

/* A reduce_named that follows need not ask for it again. */
int reduce_find(reduce_client *c, const char *name, reduce_resident *r)
{
    rc_named found;
    reduce_resident mine;
    rp_fault f;
    int err = check_call(c, name);
    if (err)
        return err;
    if (rc_check_sized(r, RC_UP_TO(reduce_resident, name), "r", &f) || look_up(c, name, &found, &mine, &f))
        return rc_report(&f);
    remember(c, &c->named, &found);
    rc_give_sized(r, &mine, sizeof mine);
    return 0;
}

int reduce_drop(reduce_client *c, const char *name)
{
    rp_fault f;
    const int err = check_call(c, name);
    if (err)
        return err;
    return call_named(c, RP_MSG_DROP, name, NULL, NULL, &f) ? rc_report(&f) : 0;
}

/* ---- reduce ---- */

/* Is this the field of the reported fault? */
static bool is_about(const char *field)
{
    reduce_fault f = REDUCE_FAULT_INIT;
    return !reduce_last_fault(&f) && !strcmp(f.field, field);
}

/* Find the data of a name, asking for them again if `anew`. 0, or the reported error. */
static int find_named(reduce_client *c, rc_named *last, const char *name, bool anew, rc_named *found)
{
    rp_fault f;
    if (!anew && remembered(c, last, name, found))
        return 0;
    if (look_up(c, name, found, NULL, &f))
        return rc_report(&f);
    remember(c, last, found);
    return 0;
}

int reduce_named(reduce_client *c, const reduce_spec *spec, const char *name, uint64_t offset, uint64_t bytes, void *out,
                 size_t room, reduce_result *result)
{
    rc_named found, keys = {0};
    reduce_spec mine;
    rp_fault f = {0};
    int err = check_call(c, name);
    if (!err && rc_take_spec(spec, &mine, &f))
        err = rc_report(&f);
    if (!err && mine.keys_name)
        err = check_name(mine.keys_name);
    if (err)
        return err;
    for (bool anew = false;; anew = true) {
        err = find_named(c, &c->named, name, anew, &found);
        if (!err && mine.keys_name)
            err = find_named(c, &c->named_keys, mine.keys_name, anew, &keys);
        if (err)
            return err;
        uint64_t rest = offset < found.bytes ? found.bytes - offset : 0;
        const rc_input in = {
            .fd = -1, .offset = offset, .kept = found.handle, .keys = keys.handle, .keys_offset = mine.keys_offset};
        err = rc_run(c, spec, &in, (size_t)(bytes == REDUCE_REST ? rest : bytes), out, room, result);
        if (err != REDUCE_E_BAD_HANDLE || is_about("device")) /* that of a device that the daemon does not have */
            return err;
        if (anew && is_about("keys")) /* they are where it cannot group by them */
            return err;
        if (anew)
            return rc_error(err, "name", "resident data '%s' were dropped or replaced meanwhile", name);
    }
}
