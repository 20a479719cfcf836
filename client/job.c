/* reduce_run and reduce_submit: one reduction of an array in memory, of any size.
 *
 * A job is a state machine that its calls drive: `advance` starts what can be started, and every answer comes back to it.
 *   pieces  rows that fit a message go as REDUCEs of whole rows, several under way at once;
 *   levels  rows of partial states that do not fit are first merged piece by piece into fewer states, and so on;
 *   stream  a row of elements that does not fit goes as BEGIN, APPENDs (several under way), FINISH; row after row.
 * Everything is repeatable, for the data stay: a stream that was lost begins again. After an error nothing new starts,
 * and the job ends when the last call under way is back; of several errors the one of the lowest row is kept. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"

enum {
    WINDOW = 4,      /* calls of a job under way: one copied here, one on its way, one computed, one coming back */
    MAX_RESTARTS = 8 /* of lost streams */
};

typedef enum { PIECES, STREAM_BEGIN, STREAM_OPEN, STREAM_FINISH, STREAM_LOST } phase;

typedef struct part {
    rc_call call;
    reduce_job *job;
    bool used;
    uint64_t row;    /* first row */
    uint64_t cells;  /* cells of the reply, for `into` */
    uint8_t *into;   /* where they go */
} part;

struct reduce_job {
    reduce_client *c;
    reduce_done callback;
    void *arg;
    pthread_cond_t settled_cond;
    reduce_job *next; /* in the client's list of those to settle */

    /* what to do, at the level of now */
    rp_spec spec; /* flags and index_base as given; rows and row_len of the level */
    uint32_t flags;
    const uint8_t *data;
    uint64_t item;      /* bytes of an element or state */
    uint64_t max_data;  /* bytes for one message */
    uint64_t chunk;     /* bytes for one APPEND */
    uint8_t *out;       /* cells of the job */
    uint8_t *merged;    /* states that an earlier level produced (`data` then), or NULL */
    uint8_t *merging;   /* states that this level produces, or NULL: it produces the cells */
    uint64_t cell;      /* bytes of a cell of this level */

    /* how far it is */
    phase phase;
    uint64_t pieces, next_piece; /* of the level */
    uint64_t per_piece;          /* rows; with `merging`, states */
    uint64_t row;                /* streams: the row of now */
    uint64_t offset;             /* its next element */
    uint64_t stream, session;
    unsigned restarts;
    unsigned under_way;
    part parts[WINDOW];

    uint64_t start_ns, deadline_ns;
    uint64_t bytes_done, bytes_total;
    reduce_result result;
    rp_fault fault; /* code 0: fine so far */
    bool cancelled;
    bool ended;           /* result and fault are final */
    bool settled;         /* and the callback has returned */
    bool in_callback;
    bool free_after;      /* reduce_job_free came from the callback */
    pthread_t callback_thread;
};

static void advance(reduce_job *j);

/* ---- the spec ---- */

size_t rc_item_size(const rp_spec *s)
{
    return s->flags & RP_STATES_IN ? rp_state_size(rp_state_layout(s->op, s->dtype)) : rp_dtype_size(s->dtype);
}

static uint8_t code(int32_t v) { return v >= 0 && v <= UINT8_MAX ? (uint8_t)v : UINT8_MAX; }

int rc_spec(const reduce_spec *g, rp_spec *s, rp_fault *f)
{
    if (!g || g->size != sizeof *g)
        return rc_fail(f, REDUCE_E_ARGUMENT, "spec", "the spec is NULL or not from REDUCE_SPEC_INIT");
    if (g->deadline_ms > RP_MAX_DEADLINE_MS)
        return rc_fail(f, REDUCE_E_ARGUMENT, "deadline_ms", "a deadline above %u ms", RP_MAX_DEADLINE_MS);
    if (g->rows == 0 || g->rows > RP_MAX_COUNT) {
        rc_fail(f, g->rows ? REDUCE_E_TOO_LARGE : REDUCE_E_SHAPE, "rows", "%" PRIu64 " rows", g->rows);
        f->limit = g->rows ? RP_MAX_COUNT : 1;
        return -(int)f->code;
    }
    *s = (rp_spec){.op = code(g->op),
                   .dtype = code(g->dtype),
                   .out = code(g->out),
                   .nan = code(g->nan),
                   .flags = g->flags,
                   .rows = 1,
                   .index_base = g->index_base};
    rp_err err = rp_spec_check(s, f);
    if (err && !f->code)
        f->code = err;
    return -(int)err;
}

int reduce_result_size(const reduce_spec *spec, size_t *bytes)
{
    rp_spec s;
    rp_fault f = {0};
    if (!bytes)
        return rc_error(REDUCE_E_ARGUMENT, "bytes", "nowhere to put the size");
    if (rc_spec(spec, &s, &f))
        return rc_report(&f);
    uint64_t size;
    if (__builtin_mul_overflow(spec->rows, (uint64_t)rp_cell_size(&s), &size) || size > SIZE_MAX)
        return rc_error(REDUCE_E_TOO_LARGE, "rows", "the result would be over 2^64 bytes");
    *bytes = (size_t)size;
    return 0;
}

/* ---- levels and pieces ---- */

static uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* Choose how to do what job.spec, job.data now describe. False: no memory. */
static bool plan(reduce_job *j)
{
    uint64_t row_bytes = j->spec.row_len * j->item, cells = 1;
    j->next_piece = 0;
    j->merging = NULL;
    j->spec.flags = j->flags;
    if (row_bytes <= j->max_data) {
        j->cell = rp_cell_size(&j->spec);
        uint64_t by_reply = RP_MAX_DATA / j->cell, by_data = row_bytes ? j->max_data / row_bytes : by_reply;
        j->phase = PIECES;
        j->per_piece = by_data < by_reply ? by_data : by_reply;
        j->pieces = divide_up(j->spec.rows, j->per_piece);
        return true;
    }
    if (!(j->flags & RP_STATES_IN)) {
        j->phase = STREAM_BEGIN;
        j->cell = rp_cell_size(&j->spec);
        return true;
    }
    j->spec.flags |= RP_STATES_OUT;
    j->phase = PIECES;
    j->cell = j->item;
    j->per_piece = j->max_data / j->item;
    j->pieces = j->spec.rows * divide_up(j->spec.row_len, j->per_piece);
    if (__builtin_mul_overflow(j->pieces, j->cell, &cells) || cells > SIZE_MAX)
        return false;
    j->merging = malloc((size_t)cells);
    return j->merging != NULL;
}

/* The level is done: the states that it made are the data of the next. */
static bool next_level(reduce_job *j)
{
    free(j->merged);
    j->merged = j->merging;
    j->data = j->merged;
    j->spec.row_len = j->pieces / j->spec.rows;
    return plan(j);
}

/* ---- results ---- */

static void keep_fault(reduce_job *j, const rp_fault *f, uint64_t first_row)
{
    rp_fault mine = *f;
    if (mine.index != RP_NO_INDEX)
        mine.index += first_row;
    rc_drop_row(&mine);
    bool lower = j->fault.index != RP_NO_INDEX && mine.index < j->fault.index;
    if (j->fault.code == RP_OK || lower)
        j->fault = mine;
}

static void add_result(reduce_job *j, const rp_result *r)
{
    j->result.backend = r->backend;
    j->result.path = r->path;
    j->result.queue_ns += r->queue_ns;
    j->result.copy_ns += r->copy_ns;
    j->result.compute_ns += r->compute_ns;
}

/* Take the cells of a reply; a fault if they are not what was asked for. */
static int take_cells(reduce_job *j, part *p, const uint8_t *body, size_t len)
{
    rp_result r;
    const uint8_t *cells;
    rp_fault bad;
    if (rp_get_result(body, len, &r, &cells, &bad))
        return rc_fail(&p->call.fault, REDUCE_E_PROTOCOL, bad.field, "malformed result: %s", bad.text);
    int type = j->spec.flags & RP_STATES_OUT ? 0 : j->spec.out;
    if (r.cells != p->cells || r.cell_size != j->cell || r.dtype != type)
        return rc_fail(&p->call.fault, REDUCE_E_PROTOCOL, "cells", "a result of another shape than asked for");
    memcpy(p->into, cells, (size_t)(r.cells * r.cell_size));
    add_result(j, &r);
    return 0;
}

static void end(reduce_job *j)
{
    reduce_client *c = j->c;
    j->ended = true;
    j->result.wall_ns = rc_now_ns() - j->start_ns;
    free(j->merged);
    free(j->merging);
    j->merged = j->merging = NULL;
    if (j->callback) { /* rc_leave runs it */
        j->next = c->settling;
        c->settling = j;
        return;
    }
    j->settled = true;
    c->jobs--;
    pthread_cond_broadcast(&j->settled_cond);
    pthread_cond_broadcast(&c->changed);
}

/* ---- calls ---- */

static part *free_part(reduce_job *j)
{
    for (int i = 0; i < WINDOW; i++)
        if (!j->parts[i].used)
            return &j->parts[i];
    return NULL;
}

static void start(reduce_job *j, part *p, int type, size_t head_len, const void *data, size_t data_len, rc_call_done done)
{
    p->used = true;
    j->under_way++;
    p->call.type = (uint8_t)type;
    p->call.bound = type == RP_MSG_APPEND || type == RP_MSG_FINISH || type == RP_MSG_ABORT;
    p->call.session = j->session;
    p->call.head_len = (uint8_t)head_len;
    p->call.data = data;
    p->call.data_len = data_len;
    p->call.deadline_ns = type == RP_MSG_ABORT ? 0 : j->deadline_ns;
    p->call.done = done;
    p->call.owner = p;
    rc_call_start(j->c, &p->call);
}

static reduce_job *back(rc_call *call)
{
    part *p = call->owner;
    p->used = false;
    p->job->under_way--;
    return p->job;
}

static void on_piece(rc_call *call, int err, const uint8_t *body, size_t len)
{
    reduce_job *j = back(call);
    part *p = call->owner;
    if (err || take_cells(j, p, body, len))
        keep_fault(j, &call->fault, p->row);
    else if (!j->merged)
        j->bytes_done += call->data_len;
    advance(j);
}

/* Piece k of a level that merges long rows of states: row k / n, its states from k % n * per_piece. */
static void start_merge(reduce_job *j, part *p, uint64_t k)
{
    uint64_t n = j->pieces / j->spec.rows, first = k % n * j->per_piece, left = j->spec.row_len - first;
    rp_spec s = j->spec;
    p->row = k / n;
    p->cells = 1;
    p->into = j->merging + k * j->cell;
    s.rows = 1;
    s.row_len = left < j->per_piece ? left : j->per_piece;
    rp_put_spec(p->call.head, &s);
    const uint8_t *data = j->data + (p->row * j->spec.row_len + first) * j->item;
    start(j, p, RP_MSG_REDUCE, RP_SPEC_SIZE, data, (size_t)(s.row_len * j->item), on_piece);
}

static void start_rows(reduce_job *j, part *p, uint64_t k)
{
    rp_spec s = j->spec;
    uint64_t left = j->spec.rows - k * j->per_piece;
    p->row = k * j->per_piece;
    p->cells = s.rows = left < j->per_piece ? left : j->per_piece;
    p->into = j->out + p->row * j->cell;
    rp_put_spec(p->call.head, &s);
    uint64_t bytes = s.rows * s.row_len * j->item;
    const uint8_t *data = bytes ? j->data + p->row * s.row_len * j->item : NULL;
    start(j, p, RP_MSG_REDUCE, RP_SPEC_SIZE, data, (size_t)bytes, on_piece);
}

/* ---- streams: a row at a time ---- */

/* Did the stream die with its session, so that the row can begin again? */
static bool lost(int err)
{
    return err == REDUCE_E_NO_SESSION || err == REDUCE_E_NO_DAEMON || err == REDUCE_E_DEVICE_LOST ||
           err == REDUCE_E_BAD_HANDLE;
}

static void stream_failed(reduce_job *j, rc_call *call, int err)
{
    bool again = lost(err) && !(j->c->opts.flags & REDUCE_NO_RETRY) && !j->cancelled && j->restarts < MAX_RESTARTS;
    if (again)
        j->phase = STREAM_LOST;
    else
        keep_fault(j, &call->fault, j->row);
}

static void on_begin(rc_call *call, int err, const uint8_t *body, size_t len)
{
    reduce_job *j = back(call);
    rp_fault bad;
    if (!err && rp_get_u64(body, len, &j->stream, "stream", &bad))
        err = rc_fail(&call->fault, REDUCE_E_PROTOCOL, bad.field, "malformed reply to begin: %s", bad.text);
    if (err) {
        keep_fault(j, &call->fault, j->row);
    } else {
        j->session = call->session;
        j->phase = STREAM_OPEN;
    }
    advance(j);
}

static void on_append(rc_call *call, int err, const uint8_t *body, size_t len)
{
    (void)body;
    (void)len;
    reduce_job *j = back(call);
    if (err) {
        stream_failed(j, call, err);
    } else {
        j->bytes_done += call->data_len;
    }
    advance(j);
}

static void on_finish(rc_call *call, int err, const uint8_t *body, size_t len)
{
    reduce_job *j = back(call);
    j->stream = 0;
    if (!err)
        err = take_cells(j, call->owner, body, len);
    if (err) {
        stream_failed(j, call, err);
    } else {
        j->row++;
        j->phase = STREAM_BEGIN;
    }
    advance(j);
}

static void on_abort(rc_call *call, int err, const uint8_t *body, size_t len)
{
    (void)err;
    (void)body;
    (void)len;
    advance(back(call));
}

static void start_begin(reduce_job *j)
{
    part *p = &j->parts[0]; /* nothing is under way */
    rp_spec s = j->spec;
    s.rows = 1;
    s.row_len = 0;
    j->offset = 0;
    rp_put_spec(p->call.head, &s);
    start(j, p, RP_MSG_BEGIN, RP_SPEC_SIZE, NULL, 0, on_begin);
}

static void start_append(reduce_job *j, part *p)
{
    uint64_t left = j->spec.row_len - j->offset, most = j->chunk / j->item, n = left < most ? left : most;
    rp_put_append(p->call.head, j->stream, j->offset);
    const uint8_t *data = j->data + (j->row * j->spec.row_len + j->offset) * j->item;
    j->offset += n;
    start(j, p, RP_MSG_APPEND, RP_APPEND_SIZE, data, (size_t)(n * j->item), on_append);
}

static void start_finish(reduce_job *j)
{
    part *p = &j->parts[0]; /* nothing is under way */
    p->row = j->row;
    p->cells = 1;
    p->into = j->out + j->row * j->cell;
    j->phase = STREAM_FINISH;
    rp_finish x = {j->stream, j->spec.row_len};
    rp_put_finish(p->call.head, &x);
    start(j, p, RP_MSG_FINISH, RP_FINISH_SIZE, NULL, 0, on_finish);
}

static void start_abort(reduce_job *j)
{
    part *p = &j->parts[0]; /* nothing is under way */
    rp_put_u64(p->call.head, j->stream);
    j->stream = 0;
    start(j, p, RP_MSG_ABORT, RP_STREAM_SIZE, NULL, 0, on_abort);
}

static void restart_row(reduce_job *j)
{
    j->restarts++;
    j->stream = 0;
    j->bytes_done = j->row * j->spec.row_len * j->item;
    j->phase = STREAM_BEGIN;
}

/* ---- the machine ---- */

static bool going(const reduce_job *j) { return j->fault.code == RP_OK && !j->cancelled && !j->ended; }

static void advance_pieces(reduce_job *j)
{
    part *p;
    while (going(j) && j->next_piece < j->pieces && (p = free_part(j))) {
        uint64_t k = j->next_piece++;
        if (j->merging)
            start_merge(j, p, k);
        else
            start_rows(j, p, k);
    }
}

static void advance_stream(reduce_job *j)
{
    part *p;
    if (j->phase == STREAM_LOST && j->under_way == 0)
        restart_row(j);
    if (j->phase == STREAM_BEGIN && j->under_way == 0 && j->row < j->spec.rows)
        start_begin(j);
    while (going(j) && j->phase == STREAM_OPEN && j->offset < j->spec.row_len && (p = free_part(j)))
        start_append(j, p);
    if (going(j) && j->phase == STREAM_OPEN && j->offset == j->spec.row_len && j->under_way == 0)
        start_finish(j);
}

/* Start what can be started; end the job if nothing is left. Calls may come back inside rc_call_start, that is, from
 * within here: the inner advance then does the work, and the outer one finds it done. */
static void advance(reduce_job *j)
{
    if (j->ended)
        return;
    if (going(j) && j->phase == PIECES)
        advance_pieces(j);
    else if (going(j))
        advance_stream(j);
    if (j->ended || j->under_way)
        return;
    if (j->fault.code == RP_OK && j->cancelled)
        rc_fail(&j->fault, REDUCE_E_CANCELLED, "", "cancelled before it was done");
    if (j->fault.code != RP_OK && j->stream && !j->c->closing) {
        start_abort(j);
        return;
    }
    bool more = j->fault.code == RP_OK && j->merging;
    if (more && next_level(j)) {
        advance(j);
        return;
    }
    if (more)
        rc_fail(&j->fault, REDUCE_E_NO_MEMORY, "", "no memory for partial states");
    end(j);
}

/* ---- start and end ---- */

/* Set up what the arguments say. 0 or the error, in `f`. */
static int prepare(reduce_job *j, const reduce_spec *spec, size_t bytes, size_t room, rp_fault *f)
{
    int err = rc_spec(spec, &j->spec, f);
    if (err)
        return err;
    uint64_t need;
    j->flags = j->spec.flags;
    j->item = rc_item_size(&j->spec);
    if (__builtin_mul_overflow(spec->rows, (uint64_t)rp_cell_size(&j->spec), &need) || need > room)
        return rc_fail(f, REDUCE_E_ARGUMENT, "room", "%" PRIu64 " rows of %zu bytes do not fit the %zu given", spec->rows,
                       rp_cell_size(&j->spec), room);
    if (bytes % j->item) {
        rc_fail(f, REDUCE_E_SHAPE, "bytes", "%zu bytes are no multiple of the %" PRIu64 "-byte %s", bytes, j->item,
                j->flags & RP_STATES_IN ? "state" : "element");
        f->limit = j->item;
        return REDUCE_E_SHAPE;
    }
    if (bytes / j->item % spec->rows)
        return rc_fail(f, REDUCE_E_SHAPE, "rows", "%" PRIu64 " %s cannot be cut into %" PRIu64 " equal rows",
                       bytes / j->item, j->flags & RP_STATES_IN ? "states" : "elements", spec->rows);
    j->spec.rows = spec->rows;
    j->spec.row_len = bytes / j->item / spec->rows;
    j->result.dtype = j->flags & RP_STATES_OUT ? 0 : j->spec.out;
    j->result.cell_size = rp_cell_size(&j->spec);
    j->result.cells = spec->rows;
    j->result.count = bytes / j->item;
    j->bytes_total = bytes;
    j->deadline_ns = rc_deadline_after(spec->deadline_ms);
    return 0;
}

/* Message sizes as the daemon wants them, in whole items. */
static void set_sizes(reduce_job *j)
{
    const rp_welcome *w = &j->c->welcome;
    j->max_data = w->max_data < RP_MAX_DATA ? w->max_data : RP_MAX_DATA;
    j->chunk = w->chunk_hint && w->chunk_hint < j->max_data ? w->chunk_hint : j->max_data;
    if (j->chunk < j->item)
        j->chunk = j->item;
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
    for (int i = 0; i < WINDOW; i++)
        j->parts[i].job = j;
    rc_cond_init(&j->settled_cond);
    return j;
}

static void free_job(reduce_job *j)
{
    pthread_cond_destroy(&j->settled_cond);
    free(j);
}

/* Make a job, or report why not. */
static int make(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
                reduce_job **made)
{
    int err = rc_check(c);
    if (err)
        return err;
    if ((!data && bytes) || !out)
        return rc_error(REDUCE_E_ARGUMENT, out ? "data" : "out", "a pointer is NULL");
    reduce_job *j = new_job(c);
    if (!j)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a job");
    rp_fault f = {0};
    if (prepare(j, spec, bytes, room, &f)) {
        free_job(j);
        return rc_report(&f);
    }
    j->data = data;
    j->out = out;
    *made = j;
    return 0;
}

/* With the mutex held. */
static void launch(reduce_job *j)
{
    j->c->refs++;
    j->c->jobs++;
    set_sizes(j);
    if (plan(j)) {
        advance(j);
    } else {
        rc_fail(&j->fault, REDUCE_E_NO_MEMORY, "", "no memory for partial states");
        end(j);
    }
}

void rc_job_settle(reduce_client *c, reduce_job *j)
{
    while (j) {
        reduce_job *next = j->next;
        rc_enter(c);
        j->in_callback = true;
        j->callback_thread = pthread_self();
        int err = -(int)j->fault.code;
        pthread_mutex_unlock(&c->lock);
        if (err)
            rc_report(&j->fault);
        j->callback(j->arg, j, err);
        rc_enter(c);
        j->in_callback = false;
        j->settled = true;
        bool gone = j->free_after;
        c->jobs--;
        pthread_cond_broadcast(&j->settled_cond);
        pthread_cond_broadcast(&c->changed);
        if (gone)
            c->refs--; /* never the last: reduce_close waits for c->jobs before it lets go of its own */
        pthread_mutex_unlock(&c->lock);
        if (gone)
            free_job(j);
        j = next;
    }
}

/* With the mutex held: cancel what is under way. Calls may come back at once, so look anew each time. */
static void cancel(reduce_job *j)
{
    j->cancelled = true;
    for (int i = 0; i < WINDOW && !j->ended; i++)
        if (j->parts[i].used && j->parts[i].call.type != RP_MSG_ABORT)
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
        if (rc_cond_wait(&j->settled_cond, j->c, next) || j->settled)
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

int reduce_run(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
               reduce_result *result)
{
    reduce_job *j;
    int err = check_result(result);
    if (!err)
        err = make(c, spec, data, bytes, out, room, &j);
    if (err)
        return err;
    rc_enter(c);
    launch(j);
    await_end(j, 0);
    err = outcome(j, result);
    c->refs--; /* not the last: the caller holds the client */
    rc_leave(c);
    free_job(j);
    return err;
}

int reduce_submit(reduce_client *c, const reduce_spec *spec, const void *data, size_t bytes, void *out, size_t room,
                  reduce_done done, void *arg, reduce_job **job)
{
    reduce_job *j;
    if (!job)
        return rc_error(REDUCE_E_ARGUMENT, "job", "nowhere to put the job");
    *job = NULL;
    int err = make(c, spec, data, bytes, out, room, &j);
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
