/* Streams: one reduction of data that arrives in pieces. The user's thread fills one chunk while the others are under
 * way; what fits into one chunk goes as a single REDUCE in the end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/error.h"
#include "client/local.h"
#include "client/quantiles.h"
#include "client/sized.h"
#include "client/spec.h"
#include "proto/clock.h"

enum {
    CHUNKS = 4, /* one is filled while three travel, are computed and come back */
    ABORT_MS = 1000
};

typedef struct chunk {
    rc_call call;
    reduce_stream *stream;
    uint8_t *memory; /* `capacity` bytes of elements, then with REDUCE_MASKED their mask, then the weights of pairs or keys */
    size_t bytes;    /* of the elements in it, once it is sent */
    bool busy;
} chunk;

struct reduce_stream {
    reduce_client *c;
    rp_spec spec;
    size_t item, capacity; /* bytes of an element; of the elements of a chunk, whole ones */
    size_t beside;         /* bytes of a weight or key; 0: there are none */
    bool masked;
    rp_tagged parts; /* weights and what is done with them, or keys */
    uint8_t words[16];
    uint64_t deadline_ns, start_ns;
    chunk chunks[CHUNKS];
    unsigned now;  /* the chunk being filled */
    size_t filled; /* bytes of its elements */
    size_t given;  /* bytes that may be committed: what follows them may be under way, or was never written */
    uint64_t sent; /* elements given to APPENDs */
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
        if (!strcmp(f->field, "keys") && f->index != RP_NO_INDEX)
            rc_name_element(&s->fault);
    }
    return -(int)s->fault.code;
}

static int fail_call(reduce_stream *s, rc_call *call, int err)
{
    if (call->bound && !call->cancelled && rc_call_lost(err)) {
        s->begun = false; /* nothing to abort */
        rc_fail(&call->fault, REDUCE_E_STREAM_LOST, "", "the daemon went away during the stream; begin again");
    }
    return fail(s, &call->fault);
}

/* ---- chunks ---- */

static chunk *current(reduce_stream *s) { return &s->chunks[s->now]; }

/* What `bytes` bytes of elements take with their mask and weights or keys. */
static size_t with_beside(const reduce_stream *s, size_t bytes) { return bytes + bytes / s->item * (s->masked + s->beside); }

/* Where the mask, and the weights or keys, of the chunk are. */
static uint8_t *mask_of(const reduce_stream *s, const chunk *k) { return k->memory + s->capacity; }

static uint8_t *weights_of(const reduce_stream *s, const chunk *k)
{
    return mask_of(s, k) + (s->masked ? s->capacity / s->item : 0);
}

static void stream_fill(const void *data, uint8_t *to)
{
    const chunk *k = data;
    const reduce_stream *s = k->stream;
    const size_t n = k->bytes / s->item;
    if (!k->bytes)
        return;
    memcpy(to, k->memory, k->bytes);
    to += k->bytes;
    if (s->masked)
        memcpy(to, mask_of(s, k), n);
    to += s->masked ? n : 0;
    if (s->beside)
        memcpy(to, weights_of(s, k), n * s->beside);
}

/* The spec with its parts, before data of this many elements. */
static uint8_t put_head(const reduce_stream *s, uint8_t *head, uint64_t n)
{
    rp_spec spec = s->spec;
    rp_tagged t = s->parts;
    t.claim = rc_local_claim(s->c, with_beside(s, n * s->item) + rp_tagged_size(&t));
    spec.row_len = n;
    spec.tagged_len = rp_tagged_size(&t);
    const size_t used = rp_put_spec(head, &spec);
    return (uint8_t)(used + rp_put_tagged(head + used, &t));
}

/* ---- talking; all with the mutex held ---- */

static void stream_on_append(rc_call *call, int err, const uint8_t *body, size_t len)
{
    (void)body;
    (void)len;
    chunk *k = call->owner;
    reduce_stream *s = k->stream;
    k->busy = false;
    s->busy--;
    if (err)
        fail_call(s, call, err);
    rc_wake(&s->changed, s->c);
}

static int begin(reduce_stream *s)
{
    rc_call call = {.type = RP_MSG_BEGIN, .deadline_ns = s->deadline_ns};
    call.head_len = put_head(s, call.head, 0);
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

/* Send the current chunk, which holds whole elements, and move on to the next one. */
static int send_chunk(reduce_stream *s)
{
    bool failed = s->fault.code != RP_OK; /* a chunk under way may have, since the room for this one was given */
    if (failed || (!s->begun && begin(s)))
        return -(int)s->fault.code;
    chunk *k = current(s);
    k->bytes = s->filled;
    k->call = (rc_call){.type = RP_MSG_APPEND,
                        .bound = true,
                        .head_len = RP_APPEND_SIZE,
                        .fill = stream_fill,
                        .data = k,
                        .data_len = with_beside(s, k->bytes),
                        .session = s->session,
                        .deadline_ns = s->deadline_ns,
                        .done = stream_on_append,
                        .owner = k};
    rp_put_append(k->call.head, s->id, s->sent);
    k->busy = true;
    s->busy++;
    s->sent += s->filled / s->item;
    s->filled = 0;
    rc_call_start(s->c, &k->call);
    return -(int)s->fault.code;
}

/* If the current chunk is under way, the first free one becomes it: with a quick daemon, memory that is in the cache. False:
 * all are under way. */
static bool find_free(reduce_stream *s)
{
    for (unsigned i = 0; i < CHUNKS && current(s)->busy; i++)
        s->now = s->chunks[i].busy ? s->now : i;
    return !current(s)->busy;
}

/* Wait until at most `busy` chunks are under way and the current chunk is free. An interruption is an error of the stream;
 * then, or with an `ask` of 0, the program is not asked any more. */
static void await(reduce_stream *s, unsigned busy, uint64_t ask)
{
    rp_fault f;
    while (s->busy > busy || !find_free(s)) {
        rc_cond_wait(&s->changed, s->c, ask);
        if (rc_interrupted(s->c, &ask)) {
            rc_fail_interrupted(&f);
            fail(s, &f);
            return;
        }
    }
}

/* ---- public ---- */

static int check(const reduce_stream *s)
{
    if (!s)
        return rc_error(REDUCE_E_ARGUMENT, "stream", "the stream is NULL");
    return rc_check(s->c);
}

/* Bytes of elements for one chunk: whole elements, with what is beside them no more than the daemon likes. If it stays the only
 * one, the parts are before it. */
static size_t chunk_capacity(const reduce_stream *s)
{
    const reduce_client *c = s->c;
    uint32_t hint = c->welcome.chunk_hint, most = c->welcome.max_data < RP_MAX_DATA ? c->welcome.max_data : RP_MAX_DATA;
    size_t n = ((hint && hint < most ? hint : most) - rp_tagged_size(&s->parts)) / with_beside(s, s->item);
    return (n ? n : 1) * s->item;
}

static int new_stream(reduce_client *c, const rp_spec *spec, uint64_t groups, uint32_t deadline_ms, reduce_stream **made)
{
    const bool keyed = spec->flags & RP_KEYS;
    reduce_stream *s = calloc(1, sizeof *s);
    if (!s)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory for a stream");
    s->c = c;
    s->spec = *spec;
    s->spec.rows = groups;
    s->item = rp_dtype_size(spec->dtype);
    s->masked = spec->flags & RP_MASK;
    s->beside = rp_dtype_size(keyed ? spec->keys : spec->weights);
    rc_parameters(&s->parts, &s->spec, s->words);
    if (s->beside)
        s->parts.companion[keyed ? RP_ROLE_KEYS : RP_ROLE_WEIGHTS] = (rp_companion){
            .where = RP_WHERE_DATA, .dtype = keyed ? spec->keys : spec->weights, .extent = RP_EXTENT_ELEMENTS};
    s->start_ns = rp_now_ns();
    s->deadline_ns = rp_deadline_after(deadline_ms);
    s->fault.index = RP_NO_INDEX;
    for (int i = 0; i < CHUNKS; i++)
        s->chunks[i].stream = s;
    rp_cond_init(&s->changed);
    rc_enter(c);
    s->capacity = chunk_capacity(s);
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

static int too_many_groups(uint64_t groups, uint64_t most)
{
    rp_fault f = {0};
    rc_fail(&f, REDUCE_E_TOO_LARGE, "rows", "%" PRIu64 " groups of a stream: add its pieces to reduce_accumulators", groups);
    f.limit = most;
    return rc_report(&f);
}

int reduce_stream_begin(reduce_client *c, const reduce_spec *given, reduce_stream **made)
{
    reduce_spec spec;
    rp_spec checked;
    rp_fault f = {0};
    if (!made)
        return rc_error(REDUCE_E_ARGUMENT, "s", "the pointer for the stream is NULL");
    *made = NULL;
    int err = rc_check(c);
    if (err)
        return err;
    if (rc_spec_in_pieces(given, &spec, &checked, &f))
        return rc_report(&f);
    if (rc_has_states(spec.op))
        return REDUCE_E_BAD_MESSAGE;
    if (spec.path != REDUCE_PATH_AUTO && spec.path != REDUCE_PATH_STREAM)
        return rc_error(REDUCE_E_ARGUMENT, "path", "the path of a stream must be stream, not %s", reduce_path_name(spec.path));
    const bool keyed = spec.keys_dtype;
    const uint64_t most = RP_MAX_STREAM_GROUPS_BYTES / rp_state_size(rp_spec_layout(&checked));
    if (keyed && spec.rows > most)
        return too_many_groups(spec.rows, most);
    if (spec.rows != 1 && !keyed)
        return rc_error(REDUCE_E_SHAPE, "rows", "a stream must be one row, not %" PRIu64, spec.rows);
    if (spec.planes > 1)
        return rc_error(REDUCE_E_SHAPE, "planes", "a stream must be one row, not one in %" PRIu64 " runs", spec.planes);
    if (spec.flags & (REDUCE_STATES_IN | REDUCE_COLUMNS))
        return rc_error(REDUCE_E_ARGUMENT, "flags", "a stream takes elements of one row, not partial states or columns");
    if (spec.mask || spec.offsets)
        return rc_error(REDUCE_E_ARGUMENT, spec.mask ? "mask" : "offsets",
                        "a stream has no offsets, and its mask comes with the pieces (REDUCE_MASKED)");
    if (spec.weights || spec.weights_extent > REDUCE_EACH_ELEMENT)
        return rc_error(REDUCE_E_ARGUMENT, spec.weights ? "weights" : "weights_extent",
                        "the weights of a stream come with the pieces, one for each element (reduce_stream_append_pairs)");
    if (spec.keys || spec.keys_name)
        return rc_error(REDUCE_E_ARGUMENT, spec.keys ? "keys" : "keys_name",
                        "the keys of a stream come with the pieces (reduce_stream_append_keyed)");
    return new_stream(c, &checked, spec.rows, spec.deadline_ms, made);
}

/* Wait for a chunk to fill; its memory is there afterwards. */
static int next_chunk(reduce_stream *s)
{
    rc_enter(s->c);
    if (s->fault.code == RP_OK)
        await(s, CHUNKS - 1, rc_ask_at(s->c));
    chunk *k = current(s);
    size_t bytes = with_beside(s, s->capacity);
    rp_fault f = {0};
    if (s->fault.code == RP_OK && !k->memory && !(k->memory = malloc(bytes))) {
        rc_fail(&f, REDUCE_E_NO_MEMORY, "", "no memory for a chunk of %zu bytes", bytes);
        fail(s, &f); /* a part of the piece may be in the chunk before */
    }
    int err = -(int)s->fault.code;
    rc_leave(s->c);
    return err ? rc_report_of(&s->fault, true) : 0;
}

/* `bytes` more of the current chunk are filled: send it if that was the last room. */
static int filled(reduce_stream *s, size_t bytes)
{
    s->filled += bytes;
    if (s->filled < s->capacity)
        return 0;
    rc_enter(s->c);
    int err = send_chunk(s);
    rc_leave(s->c);
    return err ? rc_report_of(&s->fault, true) : 0;
}

/* What a stream has beside its elements */
typedef enum { NOTHING, WEIGHTS, KEYS } companion;

/* Is it a stream with these companions and with (without) masks? */
static int check_beside(const reduce_stream *s, companion with, bool masked)
{
    int err = check(s);
    const companion has = err || !s->beside ? NOTHING : s->spec.flags & RP_KEYS ? KEYS : WEIGHTS;
    if (!err && has != with)
        err = rc_error(REDUCE_E_ARGUMENT, "stream", "%s %s", rp_op_name(s->spec.op),
                       has == KEYS      ? "by key needs keys with each piece: reduce_stream_append_keyed"
                       : has == WEIGHTS ? "needs weights with each piece: reduce_stream_append_pairs"
                       : with == KEYS   ? "of this stream takes no keys: its spec has no keys_dtype"
                                        : "takes no weights");
    if (!err && s->masked != masked)
        err = rc_error(REDUCE_E_ARGUMENT, "stream",
                       masked ? "a stream without REDUCE_MASKED takes no mask"
                              : "a stream with REDUCE_MASKED needs a mask with each piece");
    return err;
}

int reduce_stream_space(reduce_stream *s, void **space, size_t *room)
{
    int err = check_beside(s, NOTHING, false);
    if (err)
        return err;
    if (!space || !room)
        return rc_error(REDUCE_E_ARGUMENT, space ? "room" : "space", "a pointer is NULL");
    err = next_chunk(s);
    if (err)
        return err;
    *space = current(s)->memory + s->filled;
    *room = s->given = s->capacity - s->filled;
    return 0;
}

int reduce_stream_commit(reduce_stream *s, size_t bytes)
{
    int err = check_beside(s, NOTHING, false);
    if (err)
        return err;
    if (bytes > s->given)
        return rc_error(REDUCE_E_ARGUMENT, "bytes", "%zu bytes are more than the room of %zu that was given", bytes, s->given);
    s->given -= bytes;
    return filled(s, bytes);
}

int reduce_stream_append(reduce_stream *s, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    if (!data && bytes)
        return rc_error(REDUCE_E_ARGUMENT, "data", "the pointer is NULL");
    int err = check_beside(s, NOTHING, false);
    if (!err && bytes)
        s->given = 0;
    while (!err && bytes) {
        if ((err = next_chunk(s)))
            break;
        size_t room = s->capacity - s->filled, n = bytes < room ? bytes : room;
        memcpy(current(s)->memory + s->filled, from, n);
        from += n;
        bytes -= n;
        err = filled(s, n);
    }
    return err;
}

/* Whole elements, with the arrays beside them that are not NULL. */
static int append_with(reduce_stream *s, const uint8_t *from, const uint8_t *mask, const uint8_t *weights, size_t n)
{
    int err = 0;
    while (!err && n) {
        if ((err = next_chunk(s)))
            break;
        chunk *k = current(s);
        size_t at = s->filled / s->item, room = s->capacity / s->item - at, some = n < room ? n : room;
        memcpy(k->memory + s->filled, from, some * s->item);
        from += some * s->item;
        if (mask)
            memcpy(mask_of(s, k) + at, mask, some);
        mask = mask ? mask + some : NULL;
        if (weights)
            memcpy(weights_of(s, k) + at * s->beside, weights, some * s->beside);
        weights = weights ? weights + some * s->beside : NULL;
        n -= some;
        err = filled(s, some * s->item);
    }
    return err;
}

int reduce_stream_append_masked(reduce_stream *s, const void *elements, const void *mask, size_t n)
{
    if ((!elements || !mask) && n)
        return rc_error(REDUCE_E_ARGUMENT, elements ? "mask" : "elements", "the pointer is NULL");
    const int err = check_beside(s, NOTHING, true);
    return err ? err : append_with(s, elements, mask, NULL, n);
}

int reduce_stream_append_pairs(reduce_stream *s, const void *elements, const void *weights, const void *mask, size_t n)
{
    if ((!elements || !weights) && n)
        return rc_error(REDUCE_E_ARGUMENT, elements ? "weights" : "elements", "the pointer is NULL");
    const int err = check_beside(s, WEIGHTS, n ? mask != NULL : s && s->masked);
    return err ? err : append_with(s, elements, mask, weights, n);
}

int reduce_stream_append_keyed(reduce_stream *s, const void *elements, const void *keys, const void *mask, size_t n)
{
    if ((!elements || !keys) && n)
        return rc_error(REDUCE_E_ARGUMENT, elements ? "keys" : "elements", "the pointer is NULL");
    const int err = check_beside(s, KEYS, n ? mask != NULL : s && s->masked);
    return err ? err : append_with(s, elements, mask, keys, n);
}

/* Everything is sent but the tail in the current chunk: get the result. With the mutex held. */
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
        current(s)->bytes = s->filled;
        call.type = RP_MSG_REDUCE;
        call.head_len = put_head(s, call.head, s->filled / s->item);
        call.fill = stream_fill;
        call.data = current(s);
        call.data_len = with_beside(s, s->filled);
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
    if (rp_get_result(body, len, &r, &cells, &bad) || !cells || r.cells != s->spec.rows || r.cell_size != cell) {
        rc_fail(&bad, REDUCE_E_PROTOCOL, "cells", "malformed result");
        return fail(s, &bad);
    }
    memcpy(out, cells, cell * s->spec.rows);
    reduce_result mine = {.dtype = r.dtype,
                          .backend = r.backend,
                          .path = r.path,
                          .cell_size = cell,
                          .cells = r.cells,
                          .count = count,
                          .queue_ns = r.queue_ns,
                          .copy_ns = r.copy_ns,
                          .compute_ns = r.compute_ns,
                          .wall_ns = rp_now_ns() - s->start_ns};
    if (result)
        rc_give_sized(result, &mine, sizeof mine);
    return 0;
}

/* With the mutex held: wait for the chunks, which end at once, then drop the stream in the daemon. */
static void drop(reduce_stream *s)
{
    for (int i = 0; i < CHUNKS; i++)
        if (s->chunks[i].busy)
            rc_call_cancel(s->c, &s->chunks[i].call);
    await(s, 0, 0);
    if (!s->begun || s->c->closing)
        return;
    if (-(int)s->fault.code == REDUCE_E_INTERRUPTED) {
        rc_call_tell(s->c, RP_MSG_ABORT, s->session, s->id);
        return;
    }
    rc_call call = {
        .type = RP_MSG_ABORT, .bound = true, .session = s->session, .deadline_ns = rp_deadline_after(ABORT_MS), .deaf = true};
    call.head_len = (uint8_t)rp_put_u64(call.head, s->id);
    rc_call_wait_locked(s->c, &call, NULL, NULL); /* whatever comes back */
}

int reduce_stream_finish(reduce_stream *s, void *out, size_t room, reduce_result *result)
{
    int err = check(s);
    if (err)
        return err;
    size_t cell = rp_cell_size(&s->spec), all = cell * s->spec.rows, cut = s->filled % s->item;
    rp_fault f = {0};
    rc_enter(s->c); /* replies to chunks may fail it, too */
    if (!out || room < all)
        fail(s, (rc_fail(&f, REDUCE_E_ARGUMENT, out ? "room" : "out", "the result needs %zu bytes", all), &f));
    if (result && rc_check_sized(result, RC_RESULT_FIRST, "result", &f))
        fail(s, &f);
    if (cut) {
        rc_fail(&f, REDUCE_E_SHAPE, "bytes", "the last element is cut: %zu of %zu bytes", cut, s->item);
        f.limit = s->item;
        fail(s, &f);
    }
    uint8_t *body = NULL;
    size_t len = 0;
    uint64_t count = s->sent + s->filled / s->item;
    if (s->fault.code == RP_OK && s->begun && s->filled)
        send_chunk(s);
    if (s->fault.code == RP_OK)
        await(s, 0, rc_ask_at(s->c));
    if (s->fault.code == RP_OK)
        finish(s, &body, &len);
    if (s->fault.code != RP_OK)
        drop(s);
    rc_leave(s->c);
    if (s->fault.code == RP_OK)
        take_result(s, body, len, count, out, cell, result);
    free(body);
    err = s->fault.code == RP_OK ? 0 : rc_report_of(&s->fault, !(s->spec.flags & RP_KEYS));
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
