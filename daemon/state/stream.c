#include "daemon/state/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What only the chunks have */
enum { BESIDE = RP_MASK | RP_WEIGHTS | RP_KEYS | RP_DROP_OUTSIDE };

/* ---- charges ---- */
static void charge(const rd_stream_list *l, rd_charge_kind kind, uint64_t n)
{
    if (l->user)
        rd_charge_anyway(l->users, l->user, kind, n);
}

static void discharge(const rd_stream_list *l, rd_charge_kind kind, uint64_t n) { charge(l, kind, 0 - n); }

/* ---- the list ---- */
rd_stream *rd_stream_open(rd_stream_list *l, uint64_t id, const rp_spec *spec)
{
    rd_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->id = id;
    s->spec = *spec;
    s->state_size = (size_t)spec->rows * rp_state_size(rp_spec_layout(spec));
    s->list = l;
    s->next = l->first;
    l->first = s;
    l->open++;
    charge(l, RD_HELD_STREAMS, 1);
    charge(l, RD_HELD_STREAM_BYTES, sizeof *s);
    return s;
}

rd_stream *rd_stream_find(const rd_stream_list *l, uint64_t id)
{
    rd_stream *s = l->first;
    while (s && (s->ended || s->id != id))
        s = s->next;
    return s;
}

void rd_stream_end(rd_stream_list *l, rd_stream *s)
{
    if (!s->ended)
        l->open--;
    s->ended = true;
}

void rd_streams_end(rd_stream_list *l)
{
    for (rd_stream *s = l->first; s; s = s->next)
        rd_stream_end(l, s);
}

static void free_stream(rd_stream *s)
{
    discharge(s->list, RD_HELD_STREAM_BYTES, sizeof *s + s->cap * s->state_size + s->folding_bytes);
    discharge(s->list, RD_HELD_STREAMS, 1);
    free(s->states);
    free(s->folding);
    free(s);
}

void rd_streams_sweep(rd_stream_list *l)
{
    for (rd_stream **at = &l->first; *at;) {
        rd_stream *s = *at;
        if (!s->ended || s->jobs || s->finish) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        free_stream(s);
    }
}

bool rd_streams_busy(const rd_stream_list *l)
{
    for (const rd_stream *s = l->first; s; s = s->next)
        if (s->jobs)
            return true;
    return false;
}

void rd_streams_free(rd_stream_list *l)
{
    while (l->first) {
        rd_stream *s = l->first;
        l->first = s->next;
        free_stream(s);
    }
}

/* ---- chunks ---- */
rp_err rd_stream_claim(rd_stream *s, uint64_t offset, size_t bytes, uint64_t *count, rp_fault *f)
{
    const bool masked = s->spec.flags & RP_MASK, paired = s->spec.flags & RP_WEIGHTS;
    const size_t size = rp_dtype_size(s->spec.dtype) + masked + (paired ? rp_dtype_size(s->spec.weights) : 0) +
                        (rd_stream_is_keyed(s) ? rp_dtype_size(s->spec.keys) : 0);
    if (bytes == 0 || bytes % size)
        return rp_fail(f, RP_SHAPE, "data", size, "%zu bytes are not a positive multiple of the %zu-byte element%s%s", bytes,
                       size, masked ? " and mask" : "",
                       paired                  ? " and weight"
                       : rd_stream_is_keyed(s) ? " and key"
                                               : "");
    *count = bytes / size;
    if (offset > RP_MAX_COUNT || *count > RP_MAX_COUNT - offset)
        return rp_fail(f, RP_TOO_LARGE, "offset", RP_MAX_COUNT, "the chunk ends beyond element 2^60");
    return rd_extents_claim(&s->extents, offset, offset + *count, "element", f);
}

void rd_stream_unclaim(rd_stream *s, uint64_t offset, uint64_t count)
{
    rp_fault f;
    if (rd_extents_remove(&s->extents, offset, offset + count))
        return;
    rp_fail(&f, RP_QUOTA, "extents", RP_MAX_EXTENTS, "a late chunk left more than %u separate pieces", RP_MAX_EXTENTS);
    rd_stream_fail(s, &f);
}

void rd_stream_fail(rd_stream *s, const rp_fault *f)
{
    if (s->fault.code == RP_OK)
        s->fault = *f;
}

/* ---- states ---- */
void rd_stream_keep(rd_stream *s, const void *state)
{
    if (rd_stream_is_keyed(s) && s->n) {
        rk_states_join(s->states, state, s->spec.rows, s->state_size / s->spec.rows);
        return;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : rd_stream_is_keyed(s) ? 1 : 16;
        uint8_t *states = realloc(s->states, cap * s->state_size);
        rp_fault f;
        if (!states) {
            rp_fail(&f, RP_NO_MEMORY, "states", 0, "no memory for the states of the stream");
            rd_stream_fail(s, &f);
            return;
        }
        charge(s->list, RD_HELD_STREAM_BYTES, (cap - s->cap) * s->state_size);
        s->states = states;
        s->cap = cap;
    }
    memcpy(s->states + s->n++ * s->state_size, state, s->state_size);
}

rp_spec rd_stream_chunk(const rd_stream *s, uint64_t count)
{
    rp_spec chunk = s->spec;
    chunk.flags = (s->spec.flags & BESIDE) | RP_STATES_OUT;
    chunk.initial = 0; /* the initial value is added at the end */
    chunk.row_len = count;
    return chunk;
}

static void merge_task(const rd_stream *s, rk_task *t, const void *states, size_t n, uint32_t flags, void *cells)
{
    *t = (rk_task){.spec = s->spec, .data = states, .bytes = n * s->state_size, .cells = cells};
    t->spec.dtype = (uint8_t)rp_spec_state_dtype(&s->spec);
    t->spec.flags = RP_STATES_IN | flags;
    if (!(flags & RP_INITIAL))
        t->spec.initial = 0;
    t->spec.row_len = n;
    t->spec.index_base = 0; /* the indexes in the states have their base already */
}

bool rd_stream_fold(rd_stream *s)
{
    if (rd_stream_is_keyed(s) || s->n * s->state_size < RD_FOLD_BYTES || s->folding)
        return false;
    s->folding = s->states;
    s->folding_bytes = s->cap * s->state_size;
    merge_task(s, &s->fold.task, s->folding, s->n, RP_STATES_OUT, s->folded);
    s->states = NULL;
    s->n = s->cap = 0;
    return true;
}

void rd_stream_folded(rd_stream *s)
{
    free(s->folding);
    s->folding = NULL;
    discharge(s->list, RD_HELD_STREAM_BYTES, s->folding_bytes);
    s->folding_bytes = 0;
    if (s->fold.task.fault.code)
        rd_stream_fail(s, &s->fold.task.fault);
    else
        rd_stream_keep(s, s->folded);
}

void rd_stream_merge(const rd_stream *s, rk_task *t, void *cells)
{
    merge_task(s, t, s->states, s->n, s->spec.flags & ~(uint32_t)BESIDE, cells);
}
