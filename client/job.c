/* reduce_run and reduce_submit: one reduction of an array, of any size and shape. And the bytes of reduce_put, which are cut
 * and travel in the same way.
 *
 * A job is a state machine that its calls drive: `advance` starts what can be started, and every answer comes back to it.
 *   run    all of the job; of segments, one that is too long for a message, or some, one after the other, that are not
 *   level  of a run: tiles (tiling.h), one REDUCE each, WINDOW under way at once; then the level that merges its states
 * Every call may be repeated, for the data stay. After an error nothing new starts, and the job ends when the last call under
 * way is back; of several errors the one of the lowest result is kept. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/internal.h"
#include "client/tiling.h"

enum {
    WINDOW = 4,            /* calls of a job under way: one copied here, one on its way, one computed, one coming back */
    WIDE_WINDOW = RC_SLOTS /* with bulk data, which several cores copy or read at a time */
};

typedef struct part {
    rc_call call;
    reduce_job *job;
    bool used;
    rc_tile tile;
    rc_carrier carrier;
    int slot;      /* RC_STAGE: of the tile's data */
    rp_fault read; /* code 0 unless the tile's data could not be read from the file */
} part;

struct reduce_job {
    reduce_client *c;
    reduce_done callback;
    void *arg;
    pthread_cond_t settled_cond;
    reduce_job *next; /* in the client's list of those to settle */

    rc_sizes sizes;
    rc_level whole; /* what to do, not planned */
    uint8_t *out;   /* its cells */
    rc_target to;   /* handle 0: none; else the elements are not reduced but written there */

    /* how far it is */
    uint64_t first, next_line; /* the lines of the run of now: [first, next_line) */
    rc_level level;
    uint8_t *states;  /* that this level makes, or NULL: it makes cells */
    uint8_t *merging; /* states that it merges, or NULL: its elements are the caller's */
    unsigned under_way;
    rc_datapath bulk;
    part parts[WIDE_WINDOW];

    uint64_t start_ns, deadline_ns;
    uint64_t bytes_done, bytes_total;
    reduce_result result;
    rp_fault fault; /* code 0: fine so far */
    bool cancelled;
    bool ended;   /* result and fault are final */
    bool settled; /* and the callback has returned */
    bool in_callback;
    bool free_after; /* reduce_job_free came from the callback */
    pthread_t callback_thread;
};

static void advance(reduce_job *j);

/* ---- the spec ---- */

enum {
    PUBLIC_FLAGS = REDUCE_STATES_IN | REDUCE_STATES_OUT | REDUCE_WRAP | REDUCE_MASKED | REDUCE_COLUMNS,
    SHAPE_FLAGS = RP_MASK | RP_OFFSETS | RP_COLUMNS
};

static uint8_t code(int32_t v) { return v >= 0 && v <= UINT8_MAX ? (uint8_t)v : UINT8_MAX; }

/* Flags of the wire: those of the spec and what its pointers say. */
static uint32_t wire_flags(const reduce_spec *g)
{
    return g->flags | (g->initial ? RP_INITIAL : 0) | (g->mask ? RP_MASK : 0) | (g->offsets ? RP_OFFSETS : 0);
}

int rc_spec(const reduce_spec *g, rp_spec *s, rp_fault *f)
{
    if (!g || g->size != sizeof *g)
        return rc_fail(f, REDUCE_E_ARGUMENT, "spec", "the spec is NULL or not from REDUCE_SPEC_INIT");
    if (g->deadline_ms > RP_MAX_DEADLINE_MS)
        return rc_fail(f, REDUCE_E_ARGUMENT, "deadline_ms", "a deadline above %u ms", RP_MAX_DEADLINE_MS);
    if (g->flags & ~(uint32_t)PUBLIC_FLAGS)
        return rc_fail(f, REDUCE_E_BAD_MESSAGE, "flags", "unknown flags 0x%" PRIx32, g->flags & ~(uint32_t)PUBLIC_FLAGS);
    if ((g->path && reduce_path_name(g->path)[0] == '?') || g->reserved)
        return rc_fail(f, REDUCE_E_ARGUMENT, "path", "unknown path %" PRIi32, g->path);
    if (g->rows == 0 || g->rows > RP_MAX_COUNT) {
        rc_fail(f, g->rows ? REDUCE_E_TOO_LARGE : REDUCE_E_SHAPE, "rows", "%" PRIu64 " rows", g->rows);
        f->limit = g->rows ? RP_MAX_COUNT : 1;
        return -(int)f->code;
    }
    *s = (rp_spec){.op = code(g->op),
                   .dtype = code(g->dtype),
                   .out = code(g->out),
                   .nan = code(g->nan),
                   .flags = wire_flags(g),
                   .ddof = g->ddof,
                   .rows = 1,
                   .index_base = g->index_base};
    if (g->initial)
        memcpy(&s->initial, g->initial, rp_dtype_size(s->dtype)); /* 0 bytes of an unknown type */
    return -(int)rp_spec_check(s, f);
}

/* Lines of a job and how long they are, from the bytes of its data. */
static int shape(rc_level *l, const reduce_spec *g, size_t bytes, rp_fault *f)
{
    bool states = l->spec.flags & RP_STATES_IN;
    uint64_t items = bytes / l->item;
    if (bytes % l->item) {
        rc_fail(f, REDUCE_E_SHAPE, "bytes", "%zu bytes are no multiple of the %" PRIu64 "-byte %s", bytes, l->item,
                states ? "state" : "element");
        f->limit = l->item;
        return REDUCE_E_SHAPE;
    }
    l->lines = g->rows;
    if (g->offsets) {
        rp_spec s = {.rows = g->rows, .row_len = items};
        return -(int)rp_offsets_check(&s, (const uint8_t *)g->offsets, f);
    }
    if (items % g->rows)
        return rc_fail(f, REDUCE_E_SHAPE, "rows", "%" PRIu64 " %s cannot be cut into %" PRIu64 " equal rows", items,
                       states ? "states" : "elements", g->rows);
    l->len = items / g->rows;
    if (l->spec.flags & RP_COLUMNS) {
        l->lines = l->len;
        l->len = g->rows;
    }
    return 0;
}

int reduce_result_size(const reduce_spec *spec, size_t bytes, size_t *room)
{
    rc_level l = {0};
    rp_fault f = {0};
    if (!room)
        return rc_error(REDUCE_E_ARGUMENT, "room", "nowhere to put the size");
    if (rc_spec(spec, &l.spec, &f))
        return rc_report(&f);
    l.item = rp_item_size(&l.spec);
    l.lines = spec->rows;
    if ((l.spec.flags & RP_COLUMNS) && shape(&l, spec, bytes, &f))
        return rc_report(&f);
    if (__builtin_mul_overflow(l.lines, (uint64_t)rp_cell_size(&l.spec), room))
        return rc_error(REDUCE_E_TOO_LARGE, "rows", "the result would be over 2^64 bytes");
    return 0;
}

/* ---- runs and levels ---- */

/* Plan the level and get memory for its states, if it makes some. False: there is none; the job has the fault. */
static bool plan(reduce_job *j)
{
    rc_level *l = &j->level;
    uint64_t bytes;
    rc_tiling(l, &j->sizes);
    if (l->blocks == 1 || j->to.handle)
        return true;
    if (!__builtin_mul_overflow(l->lines * l->blocks, l->cell, &bytes) && bytes <= SIZE_MAX)
        j->states = malloc((size_t)bytes);
    if (!j->states)
        rc_fail(&j->fault, REDUCE_E_NO_MEMORY, "", "no memory for partial states");
    return j->states != NULL;
}

/* One segment that is too long, else as many as there are before the next such. */
static void cut_run(reduce_job *j)
{
    rc_level *l = &j->level;
    const uint8_t *offsets = l->offsets + 8 * j->first;
    uint64_t begin = rc_offset(offsets, 0), end = rc_offset(offsets, 1), n = 0;
    if (rc_is_long(l, &j->sizes, end - begin)) {
        l->offsets = NULL;
        l->elements += begin * l->item;
        l->mask = l->mask ? l->mask + begin : NULL;
        l->lines = 1;
        l->len = end - begin;
        return;
    }
    for (; j->first + n < j->whole.lines; n++, begin = end) {
        end = rc_offset(offsets, n + 1);
        if (rc_is_long(l, &j->sizes, end - begin))
            break;
    }
    l->offsets = offsets;
    l->lines = n;
}

/* The next run's first level. False: there is none, or no memory. */
static bool next_run(reduce_job *j)
{
    j->first = j->next_line;
    if (j->first == j->whole.lines)
        return false;
    j->level = j->whole;
    if (j->level.offsets)
        cut_run(j);
    j->next_line = j->first + j->level.lines;
    return plan(j);
}

/* All tiles of the level are back: go on with what its states, or the next run, ask for. False: nothing is left to do. */
static bool next_level(reduce_job *j)
{
    free(j->merging);
    j->merging = j->states;
    j->states = NULL;
    if (!j->merging)
        return next_run(j);
    rp_spec finish = j->whole.spec;
    finish.flags &= ~(uint32_t)SHAPE_FLAGS;
    rc_next_level(&j->level, j->merging, &finish);
    return plan(j);
}

/* ---- results ---- */

static void keep_fault(reduce_job *j, const rp_fault *f, const rc_tile *t)
{
    rp_fault mine = *f;
    if (mine.index != RP_NO_INDEX)
        mine.index += j->first + t->line;
    rc_drop_row(&mine);
    bool lower = j->fault.index != RP_NO_INDEX && mine.index < j->fault.index;
    if (j->fault.code == RP_OK || lower)
        j->fault = mine;
}

static void add_result(reduce_job *j, const rp_result *r)
{
    j->result.backend = r->backend;
    if (!j->merging && (!j->result.path || r->path < j->result.path)) /* if some went by message, that is told */
        j->result.path = r->path;
    j->result.queue_ns += r->queue_ns;
    j->result.copy_ns += r->copy_ns;
    j->result.compute_ns += r->compute_ns;
    if (r->batch > j->result.batch)
        j->result.batch = r->batch;
}

/* Take the cells of a reply; a fault if they are not what was asked for. */
static int take_cells(reduce_job *j, part *p, const uint8_t *body, size_t len)
{
    const rc_level *l = &j->level;
    rp_result r;
    const uint8_t *cells;
    rp_fault bad;
    if (rp_get_result(body, len, &r, &cells, &bad))
        return rc_fail(&p->call.fault, REDUCE_E_PROTOCOL, bad.field, "malformed result: %s", bad.text);
    int type = l->spec.flags & RP_STATES_OUT ? 0 : l->spec.out;
    if (r.cells != p->tile.lines || r.cell_size != l->cell || r.dtype != type)
        return rc_fail(&p->call.fault, REDUCE_E_PROTOCOL, "cells", "a result of another shape than asked for");
    rc_place_cells(l, &p->tile, cells, j->states ? j->states : j->out + j->first * l->cell);
    add_result(j, &r);
    return 0;
}

static void end(reduce_job *j)
{
    reduce_client *c = j->c;
    j->ended = true;
    j->result.wall_ns = rc_now_ns() - j->start_ns;
    free(j->states);
    free(j->merging);
    j->states = j->merging = NULL;
    rc_datapath_close(c, &j->bulk);
    if (j->fault.code == RP_OK)
        j->bytes_done = j->bytes_total; /* what lies between segments, too */
    if (j->callback) {                  /* rc_leave runs it */
        j->next = c->settling;
        c->settling = j;
        return;
    }
    j->settled = true;
    c->jobs--;
    rc_wake(&j->settled_cond, c);
    rc_wake(&c->changed, c);
}

/* ---- calls ---- */

static part *free_part(reduce_job *j)
{
    int window = j->bulk.handle || j->bulk.stage ? WIDE_WINDOW : WINDOW;
    for (int i = 0; i < window; i++)
        if (!j->parts[i].used)
            return &j->parts[i];
    return NULL;
}

/* These run without the mutex: level, tile and slot stay while the call is under way. */

static void fill(const void *data, uint8_t *to)
{
    part *p = (part *)data;
    reduce_job *j = p->job;
    if (j->bulk.fd >= 0 && !j->merging)
        rc_datapath_read(&j->bulk, &p->tile, j->level.item, to, &p->read);
    else
        rc_fill_tile(&j->level, &p->tile, to);
}

/* Where the data are, after they were put there. */
static void fill_place(const void *data, uint8_t *to)
{
    part *p = (part *)data;
    reduce_job *j = p->job;
    rp_at a = {.handle = j->bulk.handle, .length = p->tile.bytes};
    if (p->carrier == RC_STAGE) {
        a.handle = j->c->stage.arena.handle;
        a.offset = rc_datapath_slot_at(j->c, p->slot);
        fill(data, rc_datapath_slot(j->c, p->slot));
    } else {
        a.offset = j->bulk.at + (uint64_t)(j->level.elements - j->whole.elements) + p->tile.at * j->level.item;
    }
    rp_put_place(to, &a);
}

static void start_tile(reduce_job *j, part *p);
static bool going(const reduce_job *j) { return j->fault.code == RP_OK && !j->cancelled && !j->ended; }

static void on_tile(rc_call *call, int err, const uint8_t *body, size_t len)
{
    part *p = call->owner;
    reduce_job *j = p->job;
    if (p->carrier == RC_STAGE)
        rc_datapath_free_slot(j->c, p->slot);
    p->used = false;
    j->under_way--;
    if (p->read.code) {
        call->fault = p->read;
        err = -(int)p->read.code;
    } else if (err == REDUCE_E_BAD_HANDLE && p->carrier != RC_INLINE && !j->bulk.there && !j->to.handle && going(j)) {
        /* of a session that is no more */
        j->bulk.lost = true;
        start_tile(j, p);
        return;
    }
    if (err || (!j->to.handle && take_cells(j, p, body, len)))
        keep_fault(j, &call->fault, &p->tile);
    else if (!j->merging)
        j->bytes_done += p->tile.height * p->tile.width * j->level.item;
    advance(j);
}

static void head_of_reduce(part *p)
{
    p->call.type = p->carrier == RC_INLINE ? RP_MSG_REDUCE : RP_MSG_REDUCE_AT;
    p->call.head_len = RP_SPEC_SIZE;
    rp_put_spec(p->call.head, &p->tile.spec);
}

static void head_of_write(const reduce_job *j, part *p)
{
    p->call.type = p->carrier == RC_INLINE ? RP_MSG_WRITE : RP_MSG_WRITE_AT;
    p->call.bound = true;
    p->call.session = j->to.session;
    p->call.head_len = RP_WRITE_SIZE;
    rp_put_write(p->call.head, j->to.handle, p->tile.at);
}

static void start_tile(reduce_job *j, part *p)
{
    p->used = true;
    j->under_way++;
    p->read.code = RP_OK;
    p->carrier = j->merging ? RC_INLINE : rc_datapath_choose(j->c, &j->bulk, &p->tile, &p->slot);
    if (j->to.handle)
        head_of_write(j, p);
    else
        head_of_reduce(p);
    p->call.fill = p->carrier == RC_INLINE ? fill : fill_place;
    p->call.data = p;
    p->call.data_len = p->carrier == RC_INLINE ? (size_t)p->tile.bytes : RP_PLACE_SIZE;
    p->call.deadline_ns = j->deadline_ns;
    p->call.done = on_tile;
    p->call.owner = p;
    rc_call_start(j->c, &p->call);
}

/* ---- the machine ---- */

/* Start what can be started; end the job if nothing is left. Calls may come back inside rc_call_start, that is, from
 * within here: the inner advance then does the work, and the outer one finds it done. */
static void advance(reduce_job *j)
{
    do {
        part *p;
        while (going(j) && (p = free_part(j)) && rc_next_tile(&j->level, &p->tile))
            start_tile(j, p);
        if (j->ended || j->under_way)
            return;
    } while (going(j) && next_level(j));
    if (j->fault.code == RP_OK && j->cancelled)
        rc_fail(&j->fault, REDUCE_E_CANCELLED, "", "cancelled before it was done");
    end(j);
}

/* ---- start and end ---- */

/* Set up what the arguments say. 0 or the error, in `f`. */
static int prepare(reduce_job *j, const reduce_spec *spec, size_t bytes, size_t room, rp_fault *f)
{
    rc_level *l = &j->whole;
    uint64_t need;
    int err = rc_spec(spec, &l->spec, f);
    if (err)
        return err;
    if (spec->flags & REDUCE_MASKED)
        return rc_fail(f, REDUCE_E_ARGUMENT, "flags", "REDUCE_MASKED is for streams; here `mask` is an array");
    size_t cell = rp_cell_size(&l->spec);
    l->item = rp_item_size(&l->spec);
    err = shape(l, spec, bytes, f);
    if (err)
        return err;
    if (__builtin_mul_overflow(l->lines, (uint64_t)cell, &need) || need > room)
        return rc_fail(f, REDUCE_E_ARGUMENT, "room", "%" PRIu64 " results of %zu bytes do not fit the %zu given", l->lines,
                       cell, room);
    j->result.dtype = l->spec.flags & RP_STATES_OUT ? 0 : l->spec.out;
    j->result.cell_size = cell;
    j->result.cells = l->lines;
    j->result.count = bytes / l->item;
    j->bytes_total = bytes;
    j->deadline_ns = rc_deadline_after(spec->deadline_ms);
    l->spec.flags &= ~(uint32_t)(RP_MASK | RP_OFFSETS); /* each tile says its own */
    l->mask = spec->mask;
    l->offsets = (const uint8_t *)spec->offsets;
    return 0;
}

static void set_sizes(reduce_job *j)
{
    const rp_welcome *w = &j->c->welcome;
    j->sizes.most = w->max_data < RP_MAX_DATA ? w->max_data : RP_MAX_DATA;
    j->sizes.chunk = w->chunk_hint && w->chunk_hint < j->sizes.most ? w->chunk_hint : j->sizes.most;
    if (j->bulk.there)
        j->sizes.most = j->sizes.chunk = UINT64_MAX; /* nothing travels */
    else if (j->bulk.stage)
        j->sizes.most = j->sizes.chunk = j->bulk.stage < j->sizes.most ? j->bulk.stage : j->sizes.most;
    else if (j->bulk.handle)
        j->sizes.chunk = j->sizes.most; /* nothing is copied here: the fewer messages the better */
    if (j->sizes.chunk < RC_LEAST_DATA)
        j->sizes.chunk = RC_LEAST_DATA;
}

static reduce_job *new_job(reduce_client *c)
{
    reduce_job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->c = c;
    j->start_ns = rc_now_ns();
    j->result = (reduce_result)REDUCE_RESULT_INIT;
    j->fault.index = RP_NO_INDEX;
    j->bulk.fd = -1;
    for (int i = 0; i < WIDE_WINDOW; i++)
        j->parts[i].job = j;
    rc_cond_init(&j->settled_cond);
    return j;
}

static void free_job(reduce_job *j)
{
    pthread_cond_destroy(&j->settled_cond);
    free(j);
}

static int check_fd(int fd) { return fd < 0 ? rc_error(REDUCE_E_ARGUMENT, "fd", "no descriptor: %d", fd) : 0; }

int rc_check_file(const rc_input *in, uint64_t bytes)
{
    struct stat st;
    int err = check_fd(in->fd);
    if (err)
        return err;
    if (in->offset > INT64_MAX || bytes > INT64_MAX - in->offset)
        return rc_error(REDUCE_E_ARGUMENT, "offset", "offset and bytes end beyond 2^63");
    if (fstat(in->fd, &st))
        return rc_error(REDUCE_E_IO, "file", "the descriptor: %s", strerror(errno));
    return S_ISREG(st.st_mode) ? 0 : rc_error(REDUCE_E_IO, "file", "no regular file: use a stream");
}

static int check_file(const reduce_spec *spec, const rc_input *in, uint64_t bytes)
{
    if (spec->mask || spec->offsets || (spec->flags & (REDUCE_STATES_IN | REDUCE_COLUMNS)))
        return rc_error(REDUCE_E_ARGUMENT, "spec", "of a file: elements in rows, without mask, offsets, columns or states");
    return rc_check_file(in, bytes);
}

/* Of data that the daemon has, on its device or resident. */
static int check_there(const reduce_spec *spec, const rc_level *l, int path, rp_fault *f)
{
    size_t cell = rp_cell_size(&l->spec);
    if (spec->mask || spec->offsets || (spec->flags & REDUCE_STATES_IN))
        return rc_fail(f, REDUCE_E_ARGUMENT, "spec", "of data that the daemon has: elements, without mask, offsets or states");
    if (spec->path && spec->path != path)
        return rc_fail(f, REDUCE_E_ARGUMENT, "path", "data that the daemon has go no other way");
    if (!(spec->flags & REDUCE_COLUMNS) || l->lines <= RP_MAX_DATA / cell)
        return 0;
    rc_fail(f, REDUCE_E_TOO_LARGE, "columns", "%" PRIu64 " columns of data that the daemon has", l->lines);
    f->limit = RP_MAX_DATA / cell;
    return REDUCE_E_TOO_LARGE;
}

static void set_input(reduce_job *j, const rc_input *in)
{
    j->whole.elements = in->data;
    j->bulk.fd = in->fd;
    j->bulk.device = in->device;
    j->bulk.there = in->device || in->kept;
    j->bulk.handle = in->kept;
    j->bulk.offset = j->bulk.at = in->offset;
}

/* Choose the way of data that are to travel. */
static int open_bulk(reduce_job *j, const rc_input *in, size_t bytes, bool gathered, int path)
{
    reduce_client *c = j->c;
    if (rc_datapath_open(c, &j->bulk, in->data, bytes, gathered, path))
        return 0;
    rc_enter(c);
    int err = rc_error(REDUCE_E_ARGUMENT, "path", "path %s cannot be had here%s%.90s", reduce_path_name(path),
                       c->side.why[0] ? ": " : "", c->side.why);
    rc_leave(c);
    return err;
}

/* Make a job, or report why not. */
static int make(reduce_client *c, const reduce_spec *spec, const rc_input *in, size_t bytes, void *out, size_t room,
                reduce_job **made)
{
    int err = rc_check(c);
    if (err)
        return err;
    bool file = in->fd >= 0;
    bool there = in->device || in->kept;
    if ((!in->data && bytes && !file && !there) || (!out && room))
        return rc_error(REDUCE_E_ARGUMENT, file || in->data || !bytes ? "out" : "data", "a pointer is NULL");
    reduce_job *j = new_job(c);
    if (!j)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a job");
    rp_fault f = {0};
    set_input(j, in);
    if (prepare(j, spec, bytes, room, &f) ||
        (there && check_there(spec, &j->whole, in->kept ? REDUCE_PATH_RESIDENT : REDUCE_PATH_DEVICE, &f)) ||
        (in->device && rc_device_open(c, &j->bulk, &f))) {
        free_job(j);
        return rc_report(&f);
    }
    if (file && (err = check_file(spec, in, bytes))) {
        free_job(j);
        return err;
    }
    j->out = out;
    bool gathered = spec->mask || spec->offsets || (spec->flags & REDUCE_COLUMNS);
    if (!there && (err = open_bulk(j, in, bytes, gathered, spec->path))) {
        free_job(j);
        return err;
    }
    *made = j;
    return 0;
}

/* With the mutex held. */
static void launch(reduce_job *j)
{
    j->c->refs++;
    j->c->jobs++;
    set_sizes(j);
    advance(j);
}

void rc_job_settle(reduce_client *c)
{
    reduce_job *j = c->settling; /* one: its callback may wait for those behind it, which settles them */
    c->settling = j->next;
    j->in_callback = true;
    j->callback_thread = pthread_self();
    int err = -(int)j->fault.code;
    pthread_mutex_unlock(&c->lock);
    rc_connection_interrupt(c->link); /* it may free another job, whose callback it then waits for */
    if (err)
        rc_report(&j->fault);
    j->callback(j->arg, j, err);
    rc_enter(c);
    j->in_callback = false;
    j->settled = true;
    c->jobs--;
    rc_wake(&j->settled_cond, c);
    rc_wake(&c->changed, c);
    if (!j->free_after)
        return;
    c->refs--; /* never the last: reduce_close waits for c->jobs before it lets go of its own */
    free_job(j);
}

/* With the mutex held: cancel what is under way. Calls may come back at once, so look anew each time. */
static void cancel(reduce_job *j)
{
    j->cancelled = true;
    for (int i = 0; i < WIDE_WINDOW && !j->ended; i++)
        if (j->parts[i].used)
            rc_call_cancel(j->c, &j->parts[i].call);
}

static bool own_callback(const reduce_job *j) { return j->in_callback && pthread_equal(j->callback_thread, pthread_self()); }

/* With the mutex held: wait for the end until `until` (0: no limit); the deadline cancels. */
static bool await_end(reduce_job *j, uint64_t until)
{
    bool expired = false;
    while (!j->settled) {
        uint64_t next = until;
        if (j->deadline_ns && !expired && !j->ended && (!next || j->deadline_ns < next))
            next = j->deadline_ns;
        if ((j->callback ? rc_cond_wait : rc_reply_wait)(&j->settled_cond, j->c, next) || j->settled)
            continue;
        if (next == until)
            return false;
        expired = true;
        if (j->fault.code == RP_OK)
            rc_fail(&j->fault, REDUCE_E_DEADLINE, "deadline_ms", "not done before the deadline");
        cancel(j);
    }
    return true;
}

/* With the mutex held: what the job ended with. */
static int outcome(const reduce_job *j, reduce_result *result)
{
    if (j->fault.code != RP_OK)
        return rc_report(&j->fault);
    if (result)
        *result = j->result;
    return 0;
}

static int check_result(const reduce_result *result)
{
    if (result && result->size != sizeof *result)
        return rc_error(REDUCE_E_ARGUMENT, "result", "result.size is %u: use REDUCE_RESULT_INIT", result->size);
    return 0;
}

/* ---- public ---- */

/* Launch a job, wait for its end and free it. */
static int run_job(reduce_job *j, reduce_result *result)
{
    reduce_client *c = j->c;
    rc_enter(c);
    launch(j);
    await_end(j, 0);
    int err = outcome(j, result);
    c->refs--; /* not the last: the caller holds the client */
    rc_leave(c);
    free_job(j);
    return err;
}

int rc_job_run(reduce_client *c, const reduce_spec *spec, const rc_input *in, size_t bytes, void *out, size_t room,
               reduce_result *result)
{
    reduce_job *j;
    int err = check_result(result);
    if (!err)
        err = make(c, spec, in, bytes, out, room, &j);
    return err ? err : run_job(j, result);
}

int rc_job_write(reduce_client *c, const rc_target *to, const rc_input *in, uint64_t bytes, int path, uint64_t deadline_ns)
{
    reduce_job *j = new_job(c);
    if (!j)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a job");
    set_input(j, in);
    j->to = *to;
    /* cut as a count of the bytes would be */
    j->whole.spec = (rp_spec){.op = RP_OP_COUNT, .dtype = RP_U8, .out = RP_U64, .rows = 1};
    j->whole.item = 1;
    j->whole.lines = 1;
    j->whole.len = j->bytes_total = bytes;
    j->deadline_ns = deadline_ns;
    int err = open_bulk(j, in, (size_t)bytes, false, path);
    if (!err)
        return run_job(j, NULL);
    free_job(j);
    return err;
}

int reduce_run(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
               reduce_result *result)
{
    return rc_job_run(c, spec, &(rc_input){.data = data, .fd = -1}, bytes, out, room, result);
}

int reduce_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out, size_t room,
                reduce_result *result)
{
    int err = check_fd(fd);
    return err ? err : rc_job_run(c, spec, &(rc_input){.fd = fd, .offset = offset}, (size_t)bytes, out, room, result);
}

static int submit(reduce_client *c, const reduce_spec *spec, const rc_input *in, size_t bytes, void *out, size_t room,
                  reduce_done done, void *arg, reduce_job **job)
{
    reduce_job *j;
    if (!job)
        return rc_error(REDUCE_E_ARGUMENT, "job", "nowhere to put the job");
    *job = NULL;
    int err = make(c, spec, in, bytes, out, room, &j);
    if (err)
        return err;
    j->callback = done;
    j->arg = arg;
    *job = j;
    rc_enter(c);
    launch(j);
    rc_leave(c);
    return 0;
}

int reduce_submit(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
                  reduce_done done, void *arg, reduce_job **job)
{
    return submit(c, spec, &(rc_input){.data = data, .fd = -1}, bytes, out, room, done, arg, job);
}

int reduce_submit_file(reduce_client *c, const reduce_spec *spec, int fd, uint64_t offset, uint64_t bytes, void *out,
                       size_t room, reduce_done done, void *arg, reduce_job **job)
{
    int err = check_fd(fd);
    return err ? err : submit(c, spec, &(rc_input){.fd = fd, .offset = offset}, (size_t)bytes, out, room, done, arg, job);
}

static int check_job(const reduce_job *j)
{
    if (!j)
        return rc_error(REDUCE_E_ARGUMENT, "job", "the job is NULL");
    return rc_check(j->c);
}

int reduce_poll(reduce_job *j, reduce_result *result)
{
    int err = check_job(j);
    if (!err)
        err = check_result(result);
    if (err)
        return err;
    rc_enter(j->c);
    err = j->settled || own_callback(j) ? outcome(j, result) : (int)REDUCE_PENDING;
    rc_leave(j->c);
    return err;
}

int reduce_wait(reduce_job *j, uint32_t wait_ms, reduce_result *result)
{
    int err = check_job(j);
    if (!err)
        err = check_result(result);
    if (err)
        return err;
    uint64_t until = wait_ms == UINT32_MAX ? 0 : rc_now_ns() + wait_ms * UINT64_C(1000000);
    rc_enter(j->c);
    err = own_callback(j) || await_end(j, until) ? outcome(j, result) : (int)REDUCE_PENDING;
    rc_leave(j->c);
    return err;
}

int reduce_job_progress(const reduce_job *j, uint64_t *done, uint64_t *total)
{
    int err = check_job(j);
    if (err)
        return err;
    rc_enter(j->c);
    if (done)
        *done = j->bytes_done;
    if (total)
        *total = j->bytes_total;
    rc_leave(j->c);
    return 0;
}

void reduce_cancel(reduce_job *j)
{
    if (check_job(j))
        return;
    rc_enter(j->c);
    if (!j->ended)
        cancel(j);
    rc_leave(j->c);
}

void reduce_job_free(reduce_job *j)
{
    if (!j || check_job(j))
        return;
    reduce_client *c = j->c;
    rc_enter(c);
    if (own_callback(j)) {
        j->free_after = true;
        rc_leave(c);
        return;
    }
    if (!j->ended)
        cancel(j);
    await_end(j, 0);
    rc_leave(c);
    free_job(j);
    rc_unref(c);
}
