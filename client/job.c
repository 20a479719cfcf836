/* A job is a state machine that its calls drive: `advance` starts what can be started, and every answer comes back to it.
 *   run    all of the job; of segments, one that is too long for a message, or some, one after the other, that are not
 *   level  of a run: tiles (tiling.h), one REDUCE each, RC_UNDER_WAY at once; then the level that merges its states
 * Every call may be repeated, because the data stay. After an error nothing new starts, and the job ends when the last call
 * under way is back. Of several errors the one of the lowest result is kept. */
#include "client/job.h"
#include "client/spec.h"

#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/local.h"
#include "proto/clock.h"

enum {
    SHAPE_FLAGS = RP_MASK | RP_OFFSETS | RP_COLUMNS | RP_WEIGHTS | RP_KEYS | RP_DROP_OUTSIDE,
    MERGERS = 16,            /* messages of states, */
    LEAST_STATES = 128 << 10 /* if each has so many bytes */
};

static void advance(reduce_job *j);

/* ---- runs and levels ---- */

/* Cut the level and get memory for its states, if it makes some. False: there is none; the job has the fault. */
static bool cut_level(reduce_job *j)
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

/* A segment that is too long, else all segments before the next such one. */
static void cut_run(reduce_job *j)
{
    rc_level *l = &j->level;
    const uint8_t *offsets = l->offsets + 8 * j->first;
    uint64_t begin = rc_offset(offsets, 0), end = rc_offset(offsets, 1), n = 0;
    if (rc_is_long(l, &j->sizes, end - begin)) {
        l->offsets = NULL;
        l->elements += begin * l->item;
        l->mask = l->mask ? l->mask + begin : NULL;
        l->beside = l->beside ? l->beside + begin * rc_beside_size(l) : NULL;
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
    return cut_level(j);
}

/* States of a file's columns travel in several messages, for one thread merges each of them. */
static void set_sizes_of_states(reduce_job *j)
{
    const uint64_t even = j->level.lines * j->level.len * j->level.item / MERGERS,
                   least = even < LEAST_STATES ? LEAST_STATES : even, most = least < RP_MAX_DATA ? least : RP_MAX_DATA;
    if (j->path.fd < 0 || j->sizes.most <= most)
        return;
    j->sizes.most = most;
    j->sizes.chunk = j->sizes.chunk < most ? j->sizes.chunk : most;
}

/* All tiles of the level are back: continue with the level that merges its states, or with the next run. False: nothing is left
 * to do. */
static bool next_level(reduce_job *j)
{
    free(j->merging);
    j->merging = j->states;
    j->states = NULL;
    if (!j->merging)
        return next_run(j);
    rp_spec finish = j->whole.spec;
    finish.dtype = (uint8_t)rp_spec_state_dtype(&finish);
    finish.flags &= ~(uint32_t)SHAPE_FLAGS;
    rc_next_level(&j->level, j->merging, &finish);
    set_sizes_of_states(j);
    return cut_level(j);
}

/* ---- results ---- */

static void keep_fault(reduce_job *j, const rp_fault *f, const rc_tile *t)
{
    rp_fault mine = *f;
    const bool key = !strcmp(mine.field, "keys"); /* of an element, not a result */
    if (mine.index != RP_NO_INDEX)
        mine.index += key ? t->at : j->first + t->line;
    rc_drop_row(&mine);
    if (key)
        rc_name_element(&mine);
    bool lower = j->fault.index != RP_NO_INDEX && mine.index < j->fault.index;
    if (j->fault.code == RP_OK || lower)
        j->fault = mine;
}

static void add_result(reduce_job *j, const rp_result *r)
{
    if (!j->merging) /* a few states are merged by the CPU, whatever reduced the elements */
        j->result.backend = r->backend;
    if (!j->merging && (!j->result.path || r->path < j->result.path)) /* a mix of paths is reported as messages */
        j->result.path = r->path;
    j->result.queue_ns += r->queue_ns;
    j->result.copy_ns += r->copy_ns;
    j->result.compute_ns += r->compute_ns;
}

/* Take the cells of a reply; a fault if they are not of the requested form. */
static int take_cells(reduce_job *j, rc_tile_call *p, const uint8_t *body, size_t len)
{
    const rc_level *l = &j->level;
    rp_result r;
    const uint8_t *cells;
    rp_fault bad;
    if (rp_get_result(body, len, &r, &cells, &bad))
        return rc_fail(&p->call.fault, REDUCE_E_PROTOCOL, bad.field, "malformed result: %s", bad.text);
    int type = l->spec.flags & RP_STATES_OUT ? 0 : l->spec.out;
    if (!cells && j->results.bytes)
        cells = j->results.base + p->tile.line * l->cell;
    if (!cells || r.cells != p->tile.lines || r.cell_size != l->cell || r.dtype != type)
        return rc_fail(&p->call.fault, REDUCE_E_PROTOCOL, "cells", "the result has another shape than was asked for");
    rc_place_cells(l, &p->tile, cells, j->states ? j->states : j->out + j->first * l->cell);
    add_result(j, &r);
    return 0;
}

static void settle(reduce_job *j)
{
    j->settled = true;
    j->c->jobs--;
    rc_wake(&j->changed, j->c);
    rc_wake(&j->c->changed, j->c);
}

static void end(reduce_job *j)
{
    reduce_client *c = j->c;
    j->result.wall_ns = rp_now_ns() - j->start_ns;
    free(j->states);
    free(j->merging);
    j->states = j->merging = NULL;
    rc_datapath_close(c, &j->path);
    rc_results_close(c, &j->results);
    if (j->fault.code == RP_OK)
        j->bytes_done = j->bytes_total; /* including elements between segments */
    j->ended = true;
    if (j->queues)
        rc_ended_add(c, j);
    if (j->callback) { /* rc_leave runs it */
        rc_end_later(c, &j->ending);
        rc_wake(&j->changed, c);
        return;
    }
    settle(j);
}

/* ---- calls ---- */

static rc_tile_call *free_call(reduce_job *j)
{
    int most = j->path.handle || j->path.stage ? j->c->stage.parts : RC_UNDER_WAY;
    for (int i = 0; i < most; i++)
        if (!j->calls[i].used)
            return &j->calls[i];
    return NULL;
}

/* These run without the mutex: level, tile and part of the stage stay while the call is under way. */

static void job_fill(const void *data, uint8_t *to)
{
    rc_tile_call *p = (rc_tile_call *)data;
    reduce_job *j = p->job;
    if (j->path.fd < 0 || j->merging) {
        rc_fill_tile(&j->level, &p->tile, to);
        return;
    }
    rc_datapath_read(&j->path, &p->tile, j->level.item, to, &p->read);
    rc_fill_beside(&j->level, &p->tile, to + p->tile.height * p->tile.width * j->level.item);
}

/* What the message of the tile says beside the spec and the place of its elements. */
static rp_tagged parts_of(reduce_job *j, const rc_tile_call *p)
{
    rp_tagged t = {.claim = p->claim};
    if (!p->tagged)
        return t;
    t.stride = p->apart ? p->tile.stride * j->level.item : 0;
    t.apart = j->results.bytes;
    rc_parameters(&t, &j->whole.spec, j->words);
    if (t.apart)
        t.result = (rp_at){j->results.handle, p->tile.line * j->level.cell, p->tile.lines * j->level.cell, 0};
    if (j->path.mask)
        t.companion[RP_ROLE_MASK] = (rp_companion){.where = RP_WHERE_HANDLE,
                                                   .dtype = RP_U8,
                                                   .extent = RP_EXTENT_ELEMENTS,
                                                   .handle = j->path.mask_handle,
                                                   .offset = j->path.mask_offset + p->tile.at};
    const rp_spec *s = &j->level.spec;
    if (j->level.beside && !(s->flags & RP_KEYS))
        t.companion[RP_ROLE_WEIGHTS] = (rp_companion){.where = RP_WHERE_DATA, .dtype = s->weights, .extent = s->weights_extent};
    if (s->flags & RP_KEYS)
        t.companion[RP_ROLE_KEYS] = (rp_companion){.where = !j->level.beside ? RP_WHERE_HANDLE
                                                            : j->level.stays ? RP_WHERE_MESSAGE
                                                                             : RP_WHERE_DATA,
                                                   .dtype = s->keys,
                                                   .extent = RP_EXTENT_ELEMENTS,
                                                   .handle = j->path.keys,
                                                   .offset = j->path.keys_offset};
    return t;
}

/* The parts of a message that has its data, and the data. */
static void job_fill_message(const void *data, uint8_t *to)
{
    const rc_tile_call *p = data;
    const rp_tagged t = parts_of(p->job, p);
    to += rp_put_tagged(to, &t);
    job_fill(data, to);
}

/* Where the data are, after they were put there. */
static void job_fill_place(const void *data, uint8_t *to)
{
    rc_tile_call *p = (rc_tile_call *)data;
    reduce_job *j = p->job;
    rp_at a = {.handle = j->path.handle, .length = j->level.stays ? p->tile.width * j->level.item : p->tile.bytes};
    if (p->carrier == RC_STAGE) {
        a.handle = j->c->stage.arena.handle;
        a.offset = rc_datapath_part_at(j->c, p->part);
        job_fill(data, rc_datapath_part(j->c, p->part));
    } else {
        a.offset = j->path.at + (uint64_t)(j->level.elements - j->whole.elements) + p->tile.at * j->level.item;
    }
    to += rp_put_place(to, &a);
    if (j->to.handle || !p->tile.spec.tagged_len)
        return;
    const rp_tagged t = parts_of(j, p);
    to += rp_put_tagged(to, &t);
    if (j->level.stays)
        rc_fill_beside(&j->level, &p->tile, to);
}

static void start_tile(reduce_job *j, rc_tile_call *p);
static bool going(const reduce_job *j) { return j->fault.code == RP_OK && !j->cancelled && !j->ended && !j->anew; }

/* Does the error say that the daemon, perhaps another one by now, cannot read so long a tile? */
static bool refused_as_long(const reduce_job *j, const rc_tile_call *p, int err)
{
    return (err == REDUCE_E_BAD_HANDLE || err == REDUCE_E_TOO_LARGE) && p->tile.bytes > RP_MAX_DATA && j->strided &&
           !j->merging;
}

static void job_on_tile(rc_call *call, int err, const uint8_t *body, size_t len)
{
    rc_tile_call *p = call->owner;
    reduce_job *j = p->job;
    if (p->carrier == RC_STAGE)
        rc_datapath_free_part(j->c, p->part);
    p->used = false;
    j->under_way--;
    if (p->read.code) {
        call->fault = p->read;
        err = -(int)p->read.code;
    } else if (refused_as_long(j, p, err)) {
        j->anew = true;
        j->path.lost |= err == REDUCE_E_BAD_HANDLE;
        advance(j);
        return;
    } else if (err == REDUCE_E_BAD_HANDLE && p->carrier != RC_INLINE && !j->path.there && !j->to.handle && going(j)) {
        /* of a session that has ended */
        j->path.lost = true;
        start_tile(j, p);
        return;
    }
    if (err || (!j->to.handle && take_cells(j, p, body, len)))
        keep_fault(j, &call->fault, &p->tile);
    else if (!j->merging)
        j->bytes_done += p->tile.height * p->tile.width * j->level.item;
    advance(j);
}

/* Bytes of data that the tile's message has. */
static uint64_t sent_bytes(const rc_tile_call *p) { return p->carrier == RC_INLINE || p->job->level.stays ? p->tile.bytes : 0; }

static void head_of_reduce(rc_tile_call *p)
{
    reduce_job *j = p->job;
    const bool ranked = rp_is_ranked(j->whole.spec.op) && j->whole.spec.op != RP_OP_MEDIAN;
    p->tagged = ranked || j->level.beside || j->level.spec.flags & RP_KEYS ||
                (p->carrier != RC_INLINE && (p->apart || j->path.mask || j->results.bytes));
    p->claim = (rp_claim){0};
    rp_tagged t = parts_of(j, p);
    p->claim = t.claim = rc_local_claim(j->c, sent_bytes(p) + rp_tagged_size(&t));
    p->tile.spec.tagged_len = rp_tagged_size(&t);
    if (p->carrier != RC_INLINE && j->path.mask)
        p->tile.spec.flags |= RP_MASK;
    p->call.type = p->carrier == RC_INLINE ? RP_MSG_REDUCE : RP_MSG_REDUCE_AT;
    p->call.head_len = RP_SPEC_SIZE;
    rp_put_spec(p->call.head, &p->tile.spec);
}

static void head_of_write(const reduce_job *j, rc_tile_call *p)
{
    p->call.type = p->carrier == RC_INLINE ? RP_MSG_WRITE : RP_MSG_WRITE_AT;
    p->call.bound = true;
    p->call.session = j->to.session;
    p->call.head_len = RP_WRITE_SIZE;
    rp_put_write(p->call.head, j->to.handle, p->tile.at);
}

static void start_tile(reduce_job *j, rc_tile_call *p)
{
    p->carrier = j->merging ? RC_INLINE : rc_datapath_choose(j->c, &j->path, &p->tile, &p->part);
    if (j->strided && p->tile.bytes > RP_MAX_DATA && p->carrier != RC_FILE) {
        j->anew = true;
        return;
    }
    p->used = true;
    j->under_way++;
    p->read.code = RP_OK;
    p->apart = p->carrier == RC_FILE && (!rc_is_contiguous(&p->tile) || p->tile.bytes > RP_MAX_DATA);
    if (j->to.handle)
        head_of_write(j, p);
    else
        head_of_reduce(p);
    const uint32_t parts = j->to.handle ? 0 : p->tile.spec.tagged_len;
    p->call.fill = p->carrier != RC_INLINE ? job_fill_place : parts ? job_fill_message : job_fill;
    p->call.data = p;
    p->call.copies = p->carrier == RC_STAGE;
    p->call.data_len = (size_t)sent_bytes(p) + parts + (p->carrier == RC_INLINE ? 0 : RP_PLACE_SIZE);
    p->call.deadline_ns = j->deadline_ns;
    p->call.done = job_on_tile;
    p->call.owner = p;
    rc_call_start(j->c, &p->call);
}

/* ---- the machine ---- */

static void set_sizes(reduce_job *j);

/* Cut the job again, into tiles that any daemon takes. False: it ends all the same. */
static bool begin_anew(reduce_job *j)
{
    j->anew = false;
    j->strided = 0;
    free(j->states);
    j->states = NULL;
    j->next_line = j->bytes_done = 0;
    set_sizes(j);
    return going(j) && next_run(j);
}

/* Start what can be started; end the job if nothing is left. Calls may come back inside rc_call_start, that is, from
 * within here: the inner advance then does the work, and the outer one finds it done. */
static void advance(reduce_job *j)
{
    do {
        rc_tile_call *p;
        while (going(j) && (p = free_call(j)) && rc_next_tile(&j->level, &p->tile))
            start_tile(j, p);
        if (j->ended || j->under_way)
            return;
    } while ((j->anew && begin_anew(j)) || (going(j) && next_level(j)));
    if (j->fault.code == RP_OK && j->cancelled)
        rc_fail(&j->fault, REDUCE_E_CANCELLED, "", "cancelled before it was done");
    end(j);
}

/* ---- start and end ---- */

/* Make the tiles of a file's columns long, if the daemon takes long ranges and they are worth it. */
static void set_file_columns(reduce_job *j)
{
    uint64_t panel, most = rc_long_tile(&j->whole, j->bytes_total, j->strided, &panel);
    if (j->sizes.most < RP_MAX_DATA || !most) {
        j->sizes.panel = rc_panel_of_file(&j->whole, j->sizes.most);
        return;
    }
    j->sizes.most = j->sizes.chunk = most;
    j->sizes.panel = panel;
}

/* Bytes of data in a message, also before there is a session. */
static uint64_t most_of(const reduce_client *c)
{
    const uint64_t most = c->welcome.max_data;
    return most && most < RP_MAX_DATA ? most : RP_MAX_DATA;
}

uint64_t rc_ranked_most(const reduce_client *c, const rp_spec *s) { return most_of(c) - rc_parameter_bytes(s); }

/* The same of weights or keys, also without their elements, in memory that ends with a whole word. */
uint64_t rc_beside_most(const reduce_client *c)
{
    return most_of(c) -
           (RP_PLACE_SIZE + RP_PART_SIZE + RP_COMPANION_SIZE + RP_PART_SIZE + RP_RESULT_AT_SIZE + sizeof(uint64_t));
}

/* Many groups go in one message, whatever the parts of the stage have room for. */
static uint64_t beside_most_of(const reduce_job *j)
{
    const uint64_t most = rc_beside_most(j->c), stage = j->path.stage;
    const bool keyed = j->whole.spec.flags & RP_KEYS;
    return stage && stage < most && (!keyed || rc_keys_fit(&j->whole, stage)) ? stage : most;
}

static void set_sizes(reduce_job *j)
{
    const rp_welcome *w = &j->c->welcome;
    j->sizes.most = most_of(j->c);
    j->sizes.chunk = w->chunk_hint && w->chunk_hint < j->sizes.most ? w->chunk_hint : j->sizes.most;
    j->sizes.cells = j->results.bytes;
    if (j->path.there && !j->whole.stays)
        j->sizes.most = j->sizes.chunk = UINT64_MAX; /* no data travel */
    else if (rp_is_ranked(j->whole.spec.op))
        j->sizes.most = j->sizes.chunk = rc_ranked_most(
            j->c, &j->whole.spec); /* in messages where the stage has no part of this size */
    else if (j->whole.beside)
        j->sizes.most = j->sizes.chunk = beside_most_of(j);
    else if (j->path.stage)
        j->sizes.most = j->sizes.chunk = j->path.stage < j->sizes.most ? j->path.stage : j->sizes.most;
    else if (j->path.handle)
        j->sizes.chunk = j->sizes.most; /* nothing is copied here: the fewer messages the better */
    if (j->sizes.chunk < RC_LEAST_DATA)
        j->sizes.chunk = RC_LEAST_DATA;
    if (j->path.fd >= 0 && j->whole.spec.flags & RP_COLUMNS && !rp_is_ranked(j->whole.spec.op))
        set_file_columns(j);
}

void rc_job_start(reduce_job *j)
{
    j->c->refs++;
    j->c->jobs++;
    set_sizes(j);
    advance(j);
}

/* Calls may come back at once, so the list is read anew each time. */
void rc_job_cancel(reduce_job *j)
{
    j->cancelled = true;
    for (int i = 0; i < RC_MOST_UNDER_WAY && !j->ended; i++)
        if (j->calls[i].used)
            rc_call_cancel(j->c, &j->calls[i].call);
}

/* One job at a time: its callback may wait for those after it, which settles them. */
static void job_settle(reduce_client *c, rc_ending *e)
{
    reduce_job *j = (reduce_job *)((char *)e - offsetof(reduce_job, ending));
    j->in_callback = true;
    j->callback_thread = pthread_self();
    int err = -(int)j->fault.code;
    pthread_mutex_unlock(&c->lock);
    rc_connection_interrupt(c->connection); /* it may free another job, whose callback it then waits for */
    if (err)
        rc_report_of(&j->fault, rc_is_whole(&j->whole));
    j->callback(j->arg, j, err);
    rc_enter(c);
    j->in_callback = false;
    settle(j);
    if (!j->free_after)
        return;
    c->refs--; /* never the last: reduce_close waits for c->jobs before it lets go of its own */
    rc_job_free(j);
}

static void set_input(reduce_job *j, const rc_input *in)
{
    j->whole.elements = in->data;
    j->path.fd = in->fd;
    j->path.device = in->device;
    j->path.there = in->device || in->kept;
    j->path.handle = in->kept;
    j->path.offset = j->path.at = in->offset;
    j->path.mask = in->mask;
    j->path.mask_offset = in->mask_offset;
    j->path.keys = in->keys;
    j->path.keys_offset = in->keys_offset;
}

reduce_job *rc_job_new(reduce_client *c, const rc_input *in)
{
    reduce_job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->c = c;
    j->start_ns = rp_now_ns();
    j->result = (reduce_result)REDUCE_RESULT_INIT;
    j->fault.index = RP_NO_INDEX;
    j->ending.run = job_settle;
    set_input(j, in);
    for (int i = 0; i < RC_MOST_UNDER_WAY; i++)
        j->calls[i].job = j;
    rp_cond_init(&j->changed);
    return j;
}

void rc_job_free(reduce_job *j)
{
    pthread_cond_destroy(&j->changed);
    free(j);
}
