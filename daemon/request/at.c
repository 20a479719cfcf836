#include "daemon/request/at.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/request/dispatch.h"
#include "daemon/request/executor.h"
#include "daemon/request/store.h"

/* ---- buffers ---- */
bool rd_buffers_init(rd_buffers *b, rd_users *users, unsigned cap, uint64_t direct_bytes)
{
    *b = (rd_buffers){.cap = cap, .direct_bytes = direct_bytes, .self = rd_user_get(users, geteuid())};
    return b->self != NULL;
}

static rd_buffer *new_buffer(rd_buffers *b, rk_engine *engine)
{
    rd_buffer *x = malloc(sizeof *x);
    void *memory = x ? mmap(NULL, RD_BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) {
        free(x);
        return NULL;
    }
    madvise(memory, RD_BUFFER_BYTES, MADV_HUGEPAGE);
    *x = (rd_buffer){.engine = engine, .memory = memory};
    b->made++;
    return x;
}

/* NULL: all are in use, or there is no memory. */
static rd_buffer *take_buffer(rd_buffers *b, rk_engine *engine)
{
    rd_buffer *x = b->idle;
    if (x)
        b->idle = x->next;
    else if (b->made < b->cap)
        x = new_buffer(b, engine);
    return x;
}

static void give_buffer(rd_buffers *b, rd_buffer *x)
{
    x->next = b->idle;
    b->idle = x;
}

/* A chore, for the device may have to come to rest first. */
static void free_buffer(rd_work *c)
{
    rd_buffer *x = (rd_buffer *)c;
    if (x->pinned)
        rk_unpin(x->engine, x->memory);
    munmap(x->memory, RD_BUFFER_BYTES);
}

static void buffer_freed(rd_server *s, rd_work *c)
{
    s->buffers.made--;
    rd_user_put(&s->users, c->user);
    free(c);
}

void rd_buffers_trim(rd_server *s)
{
    rd_buffers *b = &s->buffers;
    while (b->idle) {
        rd_buffer *x = b->idle;
        b->idle = x->next;
        b->self->refs++;
        x->chore = (rd_work){.run = free_buffer, .done = buffer_freed, .user = b->self};
        rd_workers_add(s, &x->chore);
    }
}

void rd_buffers_fini(rd_server *s)
{
    rd_buffers_trim(s);
    if (s->buffers.self)
        rd_user_put(&s->users, s->buffers.self);
}

/* ---- the chore ---- */
static void read_range(rd_work *c)
{
    rd_read *x = (rd_read *)c;
    rd_buffer *b = x->buffer;
    size_t got = 0;
    x->start_ns = rd_now_ns();
    if (!b->tried) {
        b->tried = true;
        b->pinned = rk_pin(b->engine, b->memory, RD_BUFFER_BYTES);
    }
    if (x->direct)
        got = rd_uncached_read(x->fd, x->data, x->bytes, x->offset);
    while (got < x->bytes) {
        ssize_t n = pread(x->fd, x->data + got, x->bytes - got, (off_t)(x->offset + got));
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            rp_fail(&x->fault, RP_IO, "file", got, n ? "reading failed: %s" : "the file ends before its data do%s",
                    n ? strerror(errno) : "");
            break;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    x->ns = rd_now_ns() - x->start_ns;
}

/* ---- the way of a request ---- */

/* Its session is gone, or its time is over: no work for it any more. */
static bool unwanted(const rd_request *r, rp_fault *f)
{
    if (!r->session->dead)
        return rd_late(r, f);
    rp_fail(f, RP_CANCELLED, "session", 0, "the session has ended");
    return true;
}

static void on_read(rd_server *s, rd_work *c)
{
    rd_read *x = (rd_read *)c;
    rd_request *r = x->request;
    rp_fault f = x->fault;
    rd_sched_end(&s->sched, &r->job.item);
    if (f.code || unwanted(r, &f))
        rd_refuse(s, r, &f);
    else
        rd_schedule(s, r);
}

static void start_reading(rd_server *s, rd_request *r, rd_buffer *b)
{
    r->read.buffer = b;
    r->job.task.data = r->read.data = b->memory + r->read.offset % RD_DIRECT_BLOCK;
    rd_workers_add(s, &r->read.chore);
}

void rd_at_feed(rd_server *s)
{
    rd_buffers *all = &s->buffers;
    while (s->sched.lane[RD_LANE_READ].queued) {
        rd_buffer *b = take_buffer(all, s->engine);
        if (!b && all->made)
            return;
        rd_request *r = rd_request_of_item(rd_sched_next(&s->sched, RD_LANE_READ));
        if (b) {
            start_reading(s, r, b);
            continue;
        }
        rp_fail(&r->read.fault, RP_NO_MEMORY, "buffer", 0, "no memory to read the file into");
        on_read(s, &r->read.chore);
    }
}

void rd_at_end(rd_server *s, rd_request *r)
{
    rd_buffer *b = r->read.buffer;
    rd_handle *x = r->handle;
    if (!x)
        return;
    r->handle = NULL;
    r->read.buffer = NULL;
    rd_handle_release(s, x);
    if (b)
        give_buffer(&s->buffers, b);
}

static rp_err check_range(uint64_t end, const rp_at *a, rp_fault *f)
{
    if (a->offset <= end && a->length <= end - a->offset)
        return RP_OK;
    return rp_fail(f, RP_SHAPE, "offset", end, "bytes %" PRIu64 " + %" PRIu64 " go beyond the end", a->offset, a->length);
}

rp_err rd_at_find(const rd_request *r, const rp_at *a, const char *field, rd_handle **x, rp_fault *f)
{
    *x = rd_handles_find(&r->session->shares, a->handle);
    if (!*x || (*x)->kind == RD_HANDLE_DEVICE)
        return rp_fail(f, RP_BAD_HANDLE, field, 0, "no such file or arena in this session");
    if (a->length > RP_MAX_DATA)
        return rp_fail(f, RP_TOO_LARGE, "length", RP_MAX_DATA, "%" PRIu64 " bytes at once", a->length);
    return check_range((*x)->kind == RD_HANDLE_ARENA ? (*x)->size : INT64_MAX, a, f); /* a file's end shows when it is read */
}

rp_err rd_at_check_memory(const rp_spec *spec, const rp_at *a, uint64_t bytes, rp_fault *f)
{
    size_t size = rp_dtype_size(spec->dtype);
    if (spec->flags & RP_MASK)
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "data in memory of the engine have no mask");
    if (a->offset % size)
        return rp_fail(f, RP_SHAPE, "offset", size, "byte %" PRIu64 " is within an element", a->offset);
    return check_range(bytes, a, f);
}

void rd_at_use(rd_server *s, rd_request *r, rd_handle *x, const rp_at *a)
{
    r->handle = x;
    rd_handle_hold(x);
    if (x->kind == RD_HANDLE_DEVICE) {
        r->job.task.memory = x->memory;
        r->job.task.offset = a->offset;
    } else if (x->kind == RD_HANDLE_ARENA) {
        r->job.task.data = x->base + a->offset;
    } else {
        r->read = (rd_read){.chore = {.run = read_range, .done = on_read, .user = x->chore.user},
                            .request = r,
                            .fd = x->fd,
                            .direct = x->size >= s->buffers.direct_bytes,
                            .offset = a->offset,
                            .bytes = a->length,
                            .fault = {.index = RP_NO_INDEX}};
    }
}

void rd_at_submit(rd_server *s, rd_request *r)
{
    rd_wait(s, r);
    if (!r->handle || r->handle->kind != RD_HANDLE_FILE) {
        rd_schedule(s, r);
        return;
    }
    rd_sched_put(&s->sched, &r->session->queues, &r->job.item, RD_LANE_READ, RD_TASK_COST + r->read.bytes);
    rd_watch_deadline(s, r);
}

/* ---- REDUCE_AT ---- */
static void reduced(rd_server *s, rd_job *job)
{
    rd_request *r = rd_request_of(job);
    rp_fault f;
    if (r->path == RP_PATH_FILE) { /* the time before the engine is part of the whole */
        job->task.copy_ns += r->read.ns;
        job->task.start_ns = r->read.start_ns;
    }
    if (job->task.fault.code)
        rd_refuse(s, r, &job->task.fault);
    else if (rd_late(r, &f))
        rd_refuse(s, r, &f);
    else
        rd_answer_result(s, r, &job->task.spec, rp_elements(&job->task.spec));
}

static rp_err read_spec(const rd_request *r, rp_spec *spec, rp_at *a, rp_fault *f)
{
    rp_err err = rp_get_at(r->body, r->body_len, spec, a, f);
    if (!err)
        err = rp_spec_check(spec, f);
    if (err)
        return err;
    if (spec->flags & (RP_STATES_IN | RP_OFFSETS)) /* they must be checked first and stay as they were then */
        return rp_fail(f, RP_BAD_MESSAGE, "flags", 0, "states and offsets travel in messages only");
    return RP_OK;
}

/* What the handle names: resident data of the user, or of the session memory on the device, or a file or an arena. */
static rp_err find(const rd_request *r, const rp_spec *spec, const rp_at *a, rd_resident **kept, rd_handle **x, rp_fault *f)
{
    rd_handle *device = rd_handles_find(&r->session->shares, a->handle);
    rp_err err;
    if ((*kept = rd_resident_by_id(r->session->owner, a->handle, rd_now_ns()))) {
        err = rd_store_check(*kept, spec, a, f);
    } else if (device && device->kind == RD_HANDLE_DEVICE) {
        *x = device;
        err = rd_at_check_memory(spec, a, device->size, f);
    } else {
        err = rd_at_find(r, a, "handle", x, f);
    }
    return err ? err : rp_spec_match(spec, a->length, f);
}

rp_err rd_at_read(rd_server *s, rd_request *r, rp_fault *f)
{
    static const rp_path paths[] = {
        [RD_HANDLE_FILE] = RP_PATH_FILE, [RD_HANDLE_ARENA] = RP_PATH_SHM, [RD_HANDLE_DEVICE] = RP_PATH_DEVICE};
    rp_spec spec;
    rp_at a;
    rd_handle *x = NULL;
    rd_resident *kept = NULL;
    rp_err err = read_spec(r, &spec, &a, f);
    if (!err)
        err = find(r, &spec, &a, &kept, &x, f);
    if (err)
        return err;
    r->path = kept ? RP_PATH_RESIDENT : paths[x->kind];
    r->job.task = (rk_task){.spec = spec, .bytes = a.length};
    if (kept)
        rd_store_use(r, kept, &a);
    else
        rd_at_use(s, r, x, &a);
    return RP_OK;
}

rp_err rd_on_reduce_at(rd_server *s, rd_request *r, rp_fault *f)
{
    const rp_spec *spec = &r->job.task.spec;
    rp_err err = rd_at_read(s, r, f);
    if (!err && rd_late(r, f))
        err = RP_DEADLINE;
    if (!err)
        err = rd_make_room(r, spec, f);
    if (err)
        return err;
    rd_tally_op(&s->stats.tally, spec->op);
    r->job.done = reduced;
    r->job.task.cells = r->reply + RP_RESULT_SIZE;
    rd_at_submit(s, r);
    return RP_OK;
}
