/* Streams: one reduction of data that arrives in pieces. The user's thread fills one chunk while the others are under
 * way; what fits into one chunk goes as a single REDUCE in the end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/internal.h"

enum {
    CHUNKS = 4, /* one is filled while three travel, are computed and come back */
    ABORT_MS = 1000
};

typedef struct chunk {
    rc_call call;
    reduce_stream *stream;
    uint8_t *memory;
    bool busy;
} chunk;

struct reduce_stream {
    reduce_client *c;
    rp_spec spec;
    size_t item, capacity; /* bytes of an element; of a chunk, whole elements */
    uint64_t deadline_ns, start_ns;
    chunk chunks[CHUNKS];
    unsigned now;     /* the chunk being filled */
    size_t filled;    /* its bytes */
    uint64_t sent;    /* elements given to APPENDs */
    bool begun;
    uint64_t id, session;
    unsigned busy;
    pthread_cond_t changed;
    rp_fault fault; /* the first error; ends the stream */
};

/* ---- errors: the first one stays ---- */

static int fail(reduce_stream *s, const rp_fault *f)
{
    if (s->fault.code == RP_OK) {
        s->fault = *f;
        rc_drop_row(&s->fault);
    }
    return -(int)s->fault.code;
}

/* What was sent is gone with the daemon's memory of it. */
static bool lost(int err)
{
    return err == REDUCE_E_NO_SESSION || err == REDUCE_E_NO_DAEMON || err == REDUCE_E_BAD_HANDLE ||
           err == REDUCE_E_DEVICE_LOST;
}

static int fail_call(reduce_stream *s, rc_call *call, int err)
{
    if (lost(err) && call->bound) {
        s->begun = false; /* nothing to abort */
        rc_fail(&call->fault, REDUCE_E_STREAM_LOST, "", "the daemon went away during the stream; begin again");
    }
    return fail(s, &call->fault);
}

/* ---- talking; all with the mutex held ---- */

static void on_append(rc_call *call, int err, const uint8_t *body, size_t len)
{
    (void)body;
    (void)len;
    chunk *k = call->owner;
    reduce_stream *s = k->stream;
    k->busy = false;
    s->busy--;
    if (err)
        fail_call(s, call, err);
    pthread_cond_signal(&s->changed);
}

static int begin(reduce_stream *s)
{
    rc_call call = {.type = RP_MSG_BEGIN, .deadline_ns = s->deadline_ns};
    rp_spec spec = s->spec;
    spec.row_len = 0;
    call.head_len = (uint8_t)rp_put_spec(call.head, &spec);
    uint8_t *body;
    size_t len;
    rp_fault bad;
    int err = rc_call_wait_locked(s->c, &call, &body, &len);
    if (err)
        return fail_call(s, &call, err);
    bool malformed = rp_get_u64(body, len, &s->id, "stream", &bad) != RP_OK;
    free(body);
    if (malformed) {
        rc_fail(&bad, REDUCE_E_PROTOCOL, "stream", "malformed reply to begin");
        return fail(s, &bad);
    }
    s->session = call.session;
    s->begun = true;
    return 0;
}

/* Send the chunk of now, which holds whole elements, and move on to the next one. */
static int send_chunk(reduce_stream *s)
{
    if (!s->begun && begin(s))
        return -(int)s->fault.code;
    chunk *k = &s->chunks[s->now];
    k->call = (rc_call){.type = RP_MSG_APPEND,
                        .bound = true,
                        .head_len = RP_APPEND_SIZE,
                        .data = k->memory,
                        .data_len = s->filled,
                        .session = s->session,
                        .deadline_ns = s->deadline_ns,
                        .done = on_append,
                        .owner = k};
    rp_put_append(k->call.head, s->id, s->sent);
    k->busy = true;
    s->busy++;
    s->sent += s->filled / s->item;
    s->filled = 0;
    s->now = (s->now + 1) % CHUNKS;
    rc_call_start(s->c, &k->call);
    return -(int)s->fault.code;
}

/* Wait until at most `busy` chunks are under way and the chunk of now is free. */
static void await(reduce_stream *s, unsigned busy)
{
    while (s->busy > busy || s->chunks[s->now].busy)
        rc_cond_wait(&s->changed, s->c, 0);
}

/* ---- public ---- */

static int check(const reduce_stream *s)
{
    if (!s)
        return rc_error(REDUCE_E_ARGUMENT, "stream", "the stream is NULL");
    return rc_check(s->c);
}

static int new_stream(reduce_client *c, const rp_spec *spec, uint32_t deadline_ms, reduce_stream **made)
{
    reduce_stream *s = calloc(1, sizeof *s);
    if (!s)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a stream");
    s->c = c;
    s->spec = *spec;
    s->item = rp_dtype_size(spec->dtype);
    s->start_ns = rc_now_ns();
    s->deadline_ns = rc_deadline_after(deadline_ms);
    s->fault.index = RP_NO_INDEX;
    for (int i = 0; i < CHUNKS; i++)
        s->chunks[i].stream = s;
    rc_cond_init(&s->changed);
    rc_enter(c);
    uint32_t hint = c->welcome.chunk_hint, most = c->welcome.max_data < RP_MAX_DATA ? c->welcome.max_data : RP_MAX_DATA;
    s->capacity = (hint && hint < most ? hint : most) / s->item * s->item;
    if (s->capacity == 0)
        s->capacity = s->item;
    c->refs++;
    rc_leave(c);
    *made = s;
    return 0;
}

static void free_stream(reduce_stream *s)
{
    for (int i = 0; i < CHUNKS; i++)
        free(s->chunks[i].memory);
    pthread_cond_destroy(&s->changed);
    reduce_client *c = s->c;
    free(s);
    rc_unref(c);
}

int reduce_stream_begin(reduce_client *c, const reduce_spec *spec, reduce_stream **made)
{
    rp_spec checked;
    rp_fault f = {0};
    if (!made)
        return rc_error(REDUCE_E_ARGUMENT, "s", "nowhere to put the stream");
    *made = NULL;
    int err = rc_check(c);
    if (err)
        return err;
    if (rc_spec(spec, &checked, &f))
        return rc_report(&f);
    if (spec->rows != 1)
        return rc_error(REDUCE_E_SHAPE, "rows", "a stream is one row, not %" PRIu64, spec->rows);
    if (spec->flags & REDUCE_STATES_IN)
        return rc_error(REDUCE_E_ARGUMENT, "flags", "a stream takes elements, not partial states");
    return new_stream(c, &checked, spec->deadline_ms, made);
}

int reduce_stream_space(reduce_stream *s, void **space, size_t *room)
{
    int err = check(s);
    if (err)
        return err;
    if (!space || !room)
        return rc_error(REDUCE_E_ARGUMENT, space ? "room" : "space", "a pointer is NULL");
    rc_enter(s->c);
    await(s, CHUNKS - 1);
    err = -(int)s->fault.code;
    rc_leave(s->c);
    if (err)
        return rc_report(&s->fault);
    chunk *k = &s->chunks[s->now];
    if (!k->memory && !(k->memory = malloc(s->capacity)))
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a chunk of %zu bytes", s->capacity);
    *space = k->memory + s->filled;
    *room = s->capacity - s->filled;
    return 0;
}

int reduce_stream_commit(reduce_stream *s, size_t bytes)
{
    int err = check(s);
    if (err)
        return err;
    if (bytes > (s->chunks[s->now].memory ? s->capacity - s->filled : 0))
        return rc_error(REDUCE_E_ARGUMENT, "bytes", "%zu bytes are more than the room there was", bytes);
    s->filled += bytes;
    if (s->filled < s->capacity)
        return 0;
    rc_enter(s->c);
    err = send_chunk(s);
    rc_leave(s->c);
    return err ? rc_report(&s->fault) : 0;
}

int reduce_stream_append(reduce_stream *s, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    if (!data && bytes)
        return rc_error(REDUCE_E_ARGUMENT, "data", "the pointer is NULL");
    int err = check(s);
    while (!err && bytes) {
        void *space;
        size_t room;
        if ((err = reduce_stream_space(s, &space, &room)))
            break;
        size_t n = bytes < room ? bytes : room;
        memcpy(space, from, n);
        from += n;
        bytes -= n;
        err = reduce_stream_commit(s, n);
    }
    return err;
}

/* Everything is sent but the tail in the chunk of now: get the result. With the mutex held. */
static int finish(reduce_stream *s, uint8_t **body, size_t *len)
{
    rc_call call = {.deadline_ns = s->deadline_ns};
    if (s->begun) {
        rp_finish x = {s->id, s->sent};
        call.type = RP_MSG_FINISH;
        call.bound = true;
        call.session = s->session;
        call.head_len = (uint8_t)rp_put_finish(call.head, &x);
    } else {
        rp_spec spec = s->spec;
        spec.row_len = s->filled / s->item;
        call.type = RP_MSG_REDUCE;
        call.head_len = (uint8_t)rp_put_spec(call.head, &spec);
        call.data = s->chunks[s->now].memory;
        call.data_len = s->filled;
    }
    int err = rc_call_wait_locked(s->c, &call, body, len);
    s->begun = false; /* FINISH ends the stream also on an error */
    return err ? fail_call(s, &call, err) : 0;
}

static int take_result(reduce_stream *s, const uint8_t *body, size_t len, uint64_t count, void *out, size_t cell,
                       reduce_result *result)
{
    rp_result r;
    const uint8_t *cells;
    rp_fault bad;
    if (rp_get_result(body, len, &r, &cells, &bad) || r.cells != 1 || r.cell_size != cell) {
        rc_fail(&bad, REDUCE_E_PROTOCOL, "cells", "malformed result");
        return fail(s, &bad);
    }
    memcpy(out, cells, cell);
    if (result)
        *result = (reduce_result){.size = sizeof *result,
                                  .dtype = r.dtype,
                                  .backend = r.backend,
                                  .path = r.path,
                                  .cell_size = cell,
                                  .cells = 1,
                                  .count = count,
                                  .queue_ns = r.queue_ns,
                                  .copy_ns = r.copy_ns,
                                  .compute_ns = r.compute_ns,
                                  .wall_ns = rc_now_ns() - s->start_ns};
    return 0;
}

/* With the mutex held: wait for the chunks, then drop the stream in the daemon. */
static void drop(reduce_stream *s)
{
    for (int i = 0; i < CHUNKS; i++)
        if (s->chunks[i].busy)
            rc_call_cancel(s->c, &s->chunks[i].call);
    await(s, 0);
    if (!s->begun || s->c->closing)
        return;
    rc_call call = {.type = RP_MSG_ABORT, .bound = true, .session = s->session, .deadline_ns = rc_deadline_after(ABORT_MS)};
    call.head_len = (uint8_t)rp_put_u64(call.head, s->id);
    rc_call_wait_locked(s->c, &call, NULL, NULL); /* whatever comes back */
}

int reduce_stream_finish(reduce_stream *s, void *out, size_t room, reduce_result *result)
{
    int err = check(s);
    if (err)
        return err;
    size_t cell = rp_cell_size(&s->spec), cut = s->filled % s->item;
    rp_fault f = {0};
    if (!out || room < cell)
        fail(s, (rc_fail(&f, REDUCE_E_ARGUMENT, out ? "room" : "out", "the result needs %zu bytes", cell), &f));
    if (result && result->size != sizeof *result)
        fail(s, (rc_fail(&f, REDUCE_E_ARGUMENT, "result", "result.size: use REDUCE_RESULT_INIT"), &f));
    if (cut) {
        rc_fail(&f, REDUCE_E_SHAPE, "bytes", "the last element is cut: %zu of %zu bytes", cut, s->item);
        f.limit = s->item;
        fail(s, &f);
    }
    uint8_t *body = NULL;
    size_t len = 0;
    rc_enter(s->c);
    uint64_t count = s->sent + s->filled / s->item;
    if (s->fault.code == RP_OK && s->begun && s->filled)
        send_chunk(s);
    if (s->fault.code == RP_OK)
        await(s, 0);
    if (s->fault.code == RP_OK)
        finish(s, &body, &len);
    if (s->fault.code != RP_OK)
        drop(s);
    rc_leave(s->c);
    if (s->fault.code == RP_OK)
        take_result(s, body, len, count, out, cell, result);
    free(body);
    err = s->fault.code == RP_OK ? 0 : rc_report(&s->fault);
    free_stream(s);
    return err;
}

void reduce_stream_abort(reduce_stream *s)
{
    if (!s || check(s))
        return;
    rc_enter(s->c);
    drop(s);
    rc_leave(s->c);
    free_stream(s);
}
