#include "daemon/request/beside.h"

#include <inttypes.h>
#include <stdlib.h>

#include "daemon/state/resident.h"
#include "proto/clock.h"

static const char *name_of(int role) { return rp_role_name(role); }

/* ---- companions ---- */

/* Does the range of the companion lie within these bytes? */
static rp_err check_range(uint64_t end, const rp_companion *c, uint64_t bytes, int role, rp_fault *f)
{
    if (c->offset <= end && bytes <= end - c->offset)
        return RP_OK;
    return rp_fail(f, RP_SHAPE, name_of(role), end, "%" PRIu64 " bytes of %s from byte %" PRIu64 " on go beyond the end", bytes,
                   name_of(role), c->offset);
}

/* May the task read it there? */
static rp_err check_near(const rd_request *r, const rk_memory *m, int role, rp_fault *f)
{
    if (rk_memory_near(r->all->engine, r->job.task.memory, m, (rp_role)role))
        return RP_OK;
    return rp_fail(f, RP_BAD_HANDLE, name_of(role), 0,
                   "the %s must be where the elements are: on their device, if they are on one", name_of(role));
}

/* It is in resident data of the user. */
static rp_err use_resident(const rd_request *r, int role, const rp_companion *c, uint64_t bytes, rd_resident *x,
                           const uint8_t **where, rp_fault *f)
{
    if (x->dtype != c->dtype)
        return rp_fail(f, RP_TYPE, name_of(role), 0, "'%s' holds %s", x->name, rp_dtype_name(x->dtype));
    rp_err err = check_range(x->bytes, c, bytes, role, f);
    if (!err)
        err = check_near(r, x->memory, role, f);
    if (!err)
        *where = rk_memory_at(x->memory, c->offset);
    return err;
}

/* It is in an arena or an allocation of the session. Offsets are checked before they are used, so they must not change. */
static rp_err use_handle(const rd_request *r, int role, const rp_companion *c, uint64_t bytes, const rd_handle *x,
                         const uint8_t **where, rp_fault *f)
{
    if (x->kind == RD_HANDLE_FILE || role == RP_ROLE_OFFSETS)
        return rp_fail(f, RP_BAD_HANDLE, name_of(role), 0,
                       role == RP_ROLE_OFFSETS ? "offsets are in the message or resident, so that they cannot change"
                                               : "the %s cannot be in a file",
                       name_of(role));
    rp_err err = check_range(x->size, c, bytes, role, f);
    if (!err)
        err = check_near(r, x->memory, role, f);
    if (!err)
        *where = x->memory ? rk_memory_at(x->memory, c->offset) : x->base + c->offset;
    return err;
}

static rp_err find_companion(const rd_request *r, rd_beside *b, int role, const rp_companion *c, const uint8_t **where,
                             rp_fault *f)
{
    const uint64_t bytes = rp_role_bytes(&r->job.task.spec, (rp_role)role);
    rd_resident *kept = rd_resident_by_id(r->session->owner, c->handle, rp_now_ns());
    rd_handle *x = kept ? NULL : rd_handles_find(&r->session->handles, c->handle);
    if (!kept && !x)
        return rp_fail(f, RP_BAD_HANDLE, name_of(role), 0, "no resident data, arena or allocation has this handle");
    if (role == RP_ROLE_OFFSETS && bytes > RP_MAX_DATA)
        return rp_fail(f, RP_TOO_LARGE, name_of(role), RP_MAX_DATA, "%" PRIu64 " bytes of offsets", bytes);
    rp_err err = kept ? use_resident(r, role, c, bytes, kept, where, f) : use_handle(r, role, c, bytes, x, where, f);
    if (err)
        return err;
    b->kept[role] = kept;
    b->handle[role] = x;
    if (kept)
        rd_resident_hold(kept);
    else
        rd_handle_hold(x);
    return RP_OK;
}

static rp_err find_companions(const rd_request *r, rd_beside *b, const rp_tagged *t, rp_fault *f)
{
    rp_err err = RP_OK;
    for (int role = 1; !err && role < RP_ROLE_END; role++) {
        const rp_companion *c = &t->companion[role];
        if (c->where == RP_WHERE_MESSAGE)
            err = check_near(r, NULL, role, f);
        else if (c->where == RP_WHERE_HANDLE)
            err = find_companion(r, b, role, c, rp_place_of(&b->parts, (rp_role)role), f);
    }
    return err || !b->parts.offsets ? err : rp_offsets_check(&r->job.task.spec, b->parts.offsets, f);
}

/* ---- results ---- */

/* Would results overwrite what lies at [from, from + bytes) of the same memory? */
static bool overlaps(const rp_at *to, uint64_t handle, uint64_t from, uint64_t bytes)
{
    return to->handle == handle && to->offset < from + bytes && from < to->offset + to->length;
}

/* Neither elements nor companions lie where the results go. */
static rp_err check_apart(const rd_request *r, const rp_tagged *t, const rp_at *at, rp_fault *f)
{
    bool together = at && overlaps(&t->result, at->handle, at->offset, at->length);
    for (int role = 1; role < RP_ROLE_END; role++) {
        const rp_companion *c = &t->companion[role];
        together |= c->where == RP_WHERE_HANDLE &&
                    overlaps(&t->result, c->handle, c->offset, rp_role_bytes(&r->job.task.spec, (rp_role)role));
    }
    return together ? rp_fail(f, RP_SHAPE, "result", 0, "the results would overwrite what they are made from") : RP_OK;
}

static rp_err find_arena(rd_beside *b, rd_handle *x, const rp_at *to, rp_fault *f)
{
    if (x->kind != RD_HANDLE_ARENA)
        return rp_fail(f, RP_BAD_HANDLE, "result", 0, "results go into an arena or an array that the session writes");
    if (to->offset > x->size || to->length > x->size - to->offset)
        return rp_fail(f, RP_SHAPE, "result", x->size,
                       "%" PRIu64 " bytes of results from byte %" PRIu64 " on go beyond the end", to->length, to->offset);
    uint8_t *base = rd_handle_writable(x);
    if (!base)
        return rp_fail(f, RP_NO_MEMORY, "result", 0, "no memory to write results to");
    b->cells = base + to->offset;
    b->arena = x;
    rd_handle_hold(x);
    return RP_OK;
}

/* The results are a WRITE to it. */
static rp_err find_written(const rd_request *r, rd_beside *b, const rp_at *to, rp_fault *f)
{
    rd_resident *x = rd_resident_written(r->all->users, r->session->peer.uid, r->session, to->handle);
    if (!x)
        return rp_fail(f, RP_BAD_HANDLE, "result", 0, "no arena, nor an array that this session writes");
    if (!to->length)
        return rp_fail(f, RP_SHAPE, "result", 1, "no results to write");
    if (!rk_takes_large(r->all->engine, x->memory, false))
        return rp_fail(f, RP_BAD_HANDLE, "result", 0, "results do not go to memory of a device");
    const rp_err err = rd_resident_claim(x, to->offset, to->length, f);
    if (err)
        return err;
    b->cells = (uint8_t *)rk_memory_at(x->memory, to->offset);
    b->written = x;
    b->offset = to->offset;
    b->bytes = to->length;
    rd_resident_hold(x);
    return RP_OK;
}

static rp_err find_result(const rd_request *r, rd_beside *b, const rp_tagged *t, const rp_at *at, rp_fault *f)
{
    const rp_spec *spec = &r->job.task.spec;
    const uint64_t bytes = rp_results(spec) * rp_cell_size(spec);
    if (t->result.length != bytes)
        return rp_fail(f, RP_SHAPE, "result", bytes, "%" PRIu64 " bytes for %" PRIu64 " bytes of results", t->result.length,
                       bytes);
    if (!rk_takes_large(r->all->engine, r->job.task.memory, spec->flags & RP_KEYS))
        return rp_fail(f, RP_TYPE, "result", 0, "a device puts its results into the reply");
    rd_handle *x = rd_handles_find(&r->session->handles, t->result.handle);
    rp_err err = check_apart(r, t, at, f);
    if (!err)
        err = x ? find_arena(b, x, &t->result, f) : find_written(r, b, &t->result, f);
    return err;
}

/* ---- public ---- */
rp_err rd_beside_open(rd_request *r, const rp_tagged *t, const rp_at *at, const uint8_t *data, size_t bytes, rp_fault *f)
{
    if (rk_opening(r->all->engine))
        return RD_LATER; /* where tasks will run is not known before */
    rd_beside *b = calloc(1, sizeof *b);
    if (!b)
        return rp_fail(f, RP_NO_MEMORY, "parts", 0, "no memory for the parts of a request");
    rp_err err = rp_tagged_data(&r->job.task.spec, t, data, bytes, &b->parts, f);
    if (!err)
        err = find_companions(r, b, t, f);
    if (!err && t->apart)
        err = find_result(r, b, t, at, f);
    if (err) {
        rd_beside_close(b);
        return err;
    }
    r->beside = b;
    r->job.task.beside = &b->parts;
    r->results = b->cells;
    return RP_OK;
}

void rd_beside_close(rd_beside *b)
{
    for (int role = 1; b && role < RP_ROLE_END; role++) {
        if (b->handle[role])
            rd_handle_release(b->handle[role]);
        if (b->kept[role])
            rd_resident_release(b->kept[role]);
    }
    if (b && b->arena)
        rd_handle_release(b->arena);
    if (b && b->written) {
        rd_resident_settle(b->written, b->offset, b->bytes, !b->complete);
        rd_resident_release(b->written);
    }
    free(b);
}
