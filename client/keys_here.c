#include "client/keys_here.h"

#include <stdlib.h>

#include "client/error.h"
#include "kernels/cpu/keys/slots.h"
#include "proto/clock.h"

enum {
    PIECE_BYTES = 16 << 20, /* that several threads are worth */
    MANY_BYTES = 32 << 20   /* of slots, which the engine keeps at a time */
};

bool rc_has_many_groups(const rc_ask *a)
{
    const rp_spec *s = &a->whole.spec;
    rk_slots k;
    if (!(s->flags & RP_KEYS))
        return false;
    rk_slots_of(&k, rp_spec_layout(s), s->dtype, s->nan);
    return a->whole.lines > MANY_BYTES / k.bytes;
}

/* The first elements come from `at` on. An index of the fault is that within the piece. */
static int add(reduce_accumulators *groups, const rc_ask *a, const void *elements, uint64_t at, uint64_t n)
{
    const rc_level *l = &a->whole;
    reduce_batch b = REDUCE_BATCH_INIT;
    b.key_dtype = a->spec.keys_dtype;
    b.keys = l->beside + at * rc_beside_size(l);
    b.values = elements;
    b.mask = l->mask ? l->mask + at : NULL;
    b.count = n;
    b.index = a->spec.index_base + at;
    b.flags = a->spec.flags & REDUCE_DROP_OUTSIDE;
    const int err = reduce_accumulators_add(groups, &b);
    reduce_fault wrong = REDUCE_FAULT_INIT;
    if (err != REDUCE_E_SHAPE || reduce_last_fault(&wrong))
        return err;
    rp_fault f = {.code = RP_SHAPE, .field = "keys", .index = wrong.index + at, .limit = wrong.limit};
    rc_name_element(&f);
    return rc_report(&f);
}

/* `piece`: room for elements of a file; NULL: they are in memory. */
static int add_all(reduce_accumulators *groups, const rc_ask *a, rc_read_piece *read, uint8_t *piece, uint64_t until_ns)
{
    const rc_level *l = &a->whole;
    int err = 0;
    for (uint64_t at = 0, n; at < l->len && !err; at += n) {
        rp_fault f = {0};
        n = l->len - at < PIECE_BYTES / l->item ? l->len - at : PIECE_BYTES / l->item;
        if (until_ns && rp_now_ns() >= until_ns)
            return rc_error(REDUCE_E_DEADLINE, "deadline_ms", "not done before the deadline");
        if (piece && !read(a, at, n, piece, &f))
            return rc_report(&f);
        err = add(groups, a, piece ? piece : l->elements + at * l->item, at, n);
    }
    return err;
}

static int finish(const reduce_accumulators *groups, const rc_ask *a)
{
    const size_t n = (size_t)a->whole.lines, size = rp_cell_size(&a->whole.spec);
    if (a->spec.flags & REDUCE_STATES_OUT) {
        int err = 0;
        for (size_t i = 0; i < n && !err; i++)
            err = reduce_accumulators_state(groups, i, (uint8_t *)a->out + i * size, size);
        return err;
    }
    reduce_spec s = REDUCE_SPEC_INIT;
    s.op = a->spec.op;
    s.dtype = a->spec.dtype;
    s.out = a->spec.out;
    s.nan = a->spec.nan;
    s.ddof = a->spec.ddof;
    s.initial = a->spec.initial;
    s.flags = a->spec.flags & REDUCE_WRAP;
    return reduce_accumulators_finish(groups, &s, 0, n, a->out, n * size);
}

int rc_run_keys_here(const rc_ask *a, rc_read_piece *read, uint64_t until_ns)
{
    reduce_accumulators *groups;
    int err = reduce_accumulators_new(a->spec.op, a->spec.dtype, a->spec.nan, (size_t)a->whole.lines, &groups);
    if (err)
        return err;
    uint8_t *piece = read ? malloc(PIECE_BYTES) : NULL;
    err = !read || piece ? add_all(groups, a, read, piece, until_ns)
                         : rc_error(REDUCE_E_NO_MEMORY, "file", "no memory for a piece of the file");
    if (!err)
        err = finish(groups, a);
    free(piece);
    reduce_accumulators_free(groups);
    return err;
}
