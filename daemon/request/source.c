#include "daemon/request/source.h"

#include <inttypes.h>

#include "daemon/request/beside.h"
#include "daemon/state/resident.h"
#include "proto/clock.h"

static rp_err check_range(uint64_t end, const rp_at *a, rp_fault *f)
{
    if (a->offset <= end && a->length <= end - a->offset)
        return RP_OK;
    return rp_fail(f, RP_SHAPE, "offset", end, "bytes %" PRIu64 " + %" PRIu64 " go beyond the end", a->offset, a->length);
}

rp_err rd_source_find(const rd_request *r, const rp_at *a, const char *field, rd_handle **x, rp_fault *f)
{
    *x = rd_handles_find(&r->session->handles, a->handle);
    if (!*x || (*x)->kind == RD_HANDLE_DEVICE)
        return rp_fail(f, RP_BAD_HANDLE, field, 0, "no such file or arena in this session");
    const uint64_t most = a->stride ? RP_MAX_STRIDED : RP_MAX_DATA;
    if (a->length > most)
        return rp_fail(f, RP_TOO_LARGE, "length", most, "%" PRIu64 " bytes at once", a->length);
    return check_range((*x)->kind == RD_HANDLE_ARENA ? (*x)->size : INT64_MAX, a, f); /* a file's end shows when it is read */
}

/* Check a range of the engine's memory, which has `bytes` bytes. The range may have any length. */
static rp_err check_memory(const rp_spec *spec, const rp_at *a, uint64_t bytes, rp_fault *f)
{
    size_t size = rp_dtype_size(spec->dtype);
    if (a->offset % size)
        return rp_fail(f, RP_SHAPE, "offset", size, "byte %" PRIu64 " is within an element", a->offset);
    return check_range(bytes, a, f);
}

static rp_err check_resident(const rd_resident *x, const rp_spec *spec, const rp_at *a, uint32_t apart, rp_fault *f)
{
    if (spec->dtype != x->dtype)
        return rp_fail(f, RP_TYPE, "dtype", 0, "'%s' holds %s", x->name, rp_dtype_name(x->dtype));
    if (spec->flags & (RP_MASK | RP_WEIGHTS | RP_KEYS) & ~apart)
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "resident data have no mask, weights or keys behind them");
    return check_memory(spec, a, x->bytes, f);
}

/* ---- hold and release ---- */
void rd_source_hold(rd_request *r, rd_resident *x)
{
    r->resident = x;
    r->release = rd_source_release;
    rd_resident_hold(x);
}

void rd_source_use(rd_request *r, rd_handle *x, const rp_at *a)
{
    rk_task *t = &r->job.task;
    r->handle = x;
    if (!r->release)
        r->release = rd_source_release;
    rd_handle_hold(x);
    if (x->kind == RD_HANDLE_DEVICE) {
        t->memory = x->memory;
        t->offset = a->offset;
    } else if (x->kind == RD_HANDLE_ARENA) {
        t->data = x->base + a->offset;
    } else {
        const uint64_t row = t->spec.flags & RP_COLUMNS ? t->spec.row_len * rp_dtype_size(t->spec.dtype) : 0;
        const bool apart = a->stride && a->stride != row;
        r->read = (rd_read){.request = r,
                            .wanted = true,
                            .fd = x->fd,
                            .direct = x->size >= r->all->buffers.direct_bytes && !apart,
                            .offset = a->offset,
                            .row = row,
                            .stride = apart ? a->stride : 0,
                            .bytes = a->length,
                            .fault = {.index = RP_NO_INDEX}};
    }
}

static void use_resident(rd_request *r, rd_resident *x, const rp_at *a)
{
    rd_source_hold(r, x);
    r->job.task.memory = x->memory;
    r->job.task.offset = a->offset;
    r->spread = rk_memory_place(x->memory) == RK_PLACE_SPREAD;
}

void rd_source_release(rd_request *r)
{
    rd_buffer *b = r->read.buffer;
    rd_handle *x = r->handle;
    rd_resident *kept = r->resident;
    rd_beside *beside = r->beside;
    r->release = NULL;
    r->handle = NULL;
    r->resident = NULL;
    r->beside = NULL;
    r->results = NULL;
    r->read.buffer = NULL;
    if (x)
        rd_handle_release(x);
    if (b)
        rd_buffer_give(b);
    if (kept)
        rd_resident_release(kept);
    rd_beside_close(beside);
}

/* ---- REDUCE_AT ---- */
static rp_err read_spec(rd_request *r, rp_spec *spec, rp_at *a, rp_tagged *t, rp_fault *f)
{
    rp_err err = rp_get_at(r->body, r->body_len, spec, a, t, f);
    r->claim = err ? (rp_claim){0} : t->claim;
    if (!err)
        err = rd_check_spec(r, spec, t->apart, f);
    if (err)
        return err;
    /* offsets and states are checked first, and a client could change them later */
    if (spec->flags & RP_STATES_IN || (spec->flags & RP_OFFSETS && !t->companion[RP_ROLE_OFFSETS].where))
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "states travel in messages only, and offsets are not with the elements");
    return rp_tagged_check(spec, t, true, f);
}

/* Rows that lie apart, in a file: of a matching spec of columns. */
static rp_err check_stride(const rd_request *r, const rd_handle *x, const rp_spec *spec, const rp_at *a, rp_fault *f)
{
    const uint64_t row = a->length / spec->rows;
    uint64_t before;
    if (!x || x->kind != RD_HANDLE_FILE || spec->flags & (RP_MASK | RP_WEIGHTS) || spec->planes > 1)
        return rp_fail(f, RP_BAD_MESSAGE, "stride", 0,
                       "only rows of one plane of a file, without a mask or weights, may lie apart");
    if (a->length > RP_MAX_DATA && !rk_takes_parts(r->all->engine, &(rk_task){.spec = *spec}))
        return rp_fail(f, RP_TOO_LARGE, "length", RP_MAX_DATA, "%" PRIu64 " bytes at once", a->length);
    if (a->stride < row)
        return rp_fail(f, RP_SHAPE, "stride", row, "rows of %" PRIu64 " bytes are %" PRIu64 " bytes apart", row, a->stride);
    if (__builtin_mul_overflow(spec->rows - 1, a->stride, &before) || before > INT64_MAX - row)
        return rp_fail(f, RP_SHAPE, "offset", INT64_MAX, "the rows go beyond the end");
    return check_range(INT64_MAX, &(rp_at){.offset = a->offset, .length = before + row}, f);
}

/* Look up the handle: the user's resident data, or the session's device memory, files and arenas. */
static rp_err find(const rd_request *r, const rp_spec *spec, const rp_at *a, uint32_t apart, rd_resident **kept, rd_handle **x,
                   rp_fault *f)
{
    rd_handle *device = rd_handles_find(&r->session->handles, a->handle);
    rp_err err;
    if ((*kept = rd_resident_by_id(r->session->owner, a->handle, rp_now_ns()))) {
        err = check_resident(*kept, spec, a, apart, f);
    } else if (device && device->kind == RD_HANDLE_DEVICE) {
        *x = device;
        err = spec->flags & (RP_WEIGHTS | RP_KEYS) & ~apart
                  ? rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "data on a device have no weights or keys behind them")
                  : check_memory(spec, a, device->size, f);
    } else {
        err = rd_source_find(r, a, "handle", x, f);
    }
    if (!err)
        err = rp_spec_match(spec, apart, a->length, f);
    return err || !a->stride ? err : check_stride(r, *x, spec, a, f);
}

rp_err rd_source_read(rd_request *r, bool loop, rp_fault *f)
{
    static const rp_path paths[] = {
        [RD_HANDLE_FILE] = RP_PATH_FILE, [RD_HANDLE_ARENA] = RP_PATH_SHM, [RD_HANDLE_DEVICE] = RP_PATH_DEVICE};
    rp_spec spec;
    rp_at a;
    rp_tagged t;
    rd_handle *x = NULL;
    rd_resident *kept = NULL;
    rp_err err = read_spec(r, &spec, &a, &t, f);
    const uint32_t apart = err ? 0 : rp_tagged_flags(&t);
    const bool beside = !err && (apart || t.apart);
    if (!err && ((t.apart && !loop) || (beside && rk_opening(r->all->engine))))
        err = RD_LATER;
    if (!err)
        err = find(r, &spec, &a, apart, &kept, &x, f);
    if (err)
        return err;
    r->path = kept ? RP_PATH_RESIDENT : paths[x->kind];
    r->job.task = (rk_task){.spec = spec, .bytes = a.length};
    if (kept)
        use_resident(r, kept, &a);
    else
        rd_source_use(r, x, &a);
    const size_t before = RP_AT_SIZE + spec.tagged_len;
    if (!beside && r->body_len == before)
        return RP_OK;
    return rd_beside_open(r, &t, &a, r->body + before, r->body_len - before, f);
}

rp_err rd_source_read_message(rd_request *r, rp_fault *f)
{
    rk_task *t = &r->job.task;
    rp_tagged tagged;
    r->path = RP_PATH_INLINE;
    *t = (rk_task){0};
    rp_err err = rp_get_spec(r->body, r->body_len, &t->spec, f);
    const size_t before = RP_SPEC_SIZE + (size_t)t->spec.tagged_len;
    if (!err)
        err = rp_get_tagged(r->body + RP_SPEC_SIZE, r->body_len - RP_SPEC_SIZE, t->spec.tagged_len, &tagged, f);
    if (err)
        return err;
    r->claim = tagged.claim;
    rp_tagged_take(&t->spec, &tagged);
    err = rd_check_spec(r, &t->spec, tagged.apart, f);
    if (!err)
        err = rp_tagged_check(&t->spec, &tagged, false, f);
    if (err)
        return err;
    const uint32_t apart = rp_tagged_flags(&tagged);
    t->data = r->body + before;
    t->bytes = r->body_len - before;
    err = rp_spec_match(&t->spec, apart, t->bytes, f);
    if (!err && (t->spec.flags & ~apart & RP_OFFSETS))
        err = rp_offsets_check(&t->spec, rp_spec_parts(&t->spec, t->data, NULL).offsets, f);
    if (err || !(apart || tagged.apart))
        return err;
    err = rd_beside_open(r, &tagged, NULL, NULL, 0, f);
    if (!err)
        r->release = rd_source_release;
    return err;
}
