#include "kernels/cpu/keys/by_key.h"

#include <inttypes.h>
#include <stdlib.h>

#include "kernels/exact/cell.h"
#include "kernels/exact/line.h"

enum {
    TABLES_BYTES = 8 << 20, /* of slots of all threads: they stay in the caches */
    EACH = 64,              /* elements for each of these slots at least, so that joining them costs little */
    MOST_BYTES = 32 << 20,  /* of a thread's slots, and of the states that leave them */
    AT_ONCE = 1 << 20       /* elements between two looks at the clock */
};

const char rk_by_key_route[] = "by key";

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static rk_slots slots_of(const rp_spec *s)
{
    rk_slots k;
    rk_slots_of(&k, rp_spec_layout(s), s->dtype, s->nan);
    return k;
}

static rk_keyed keyed_of(const rk_task *t)
{
    const rp_spec *s = &t->spec;
    const rp_parts p = rp_spec_parts(s, t->data, t->beside);
    return (rk_keyed){.keys = p.keys,
                      .values = p.elements,
                      .mask = p.mask,
                      .n = s->row_len,
                      .first = s->index_base + t->base,
                      .key_dtype = s->keys,
                      .drop_outside = s->flags & RP_DROP_OUTSIDE};
}

bool rk_by_key_shares(const rk_task *t, int threads)
{
    const uint64_t n = (uint64_t)threads, most = least(TABLES_BYTES / slots_of(&t->spec).bytes, t->spec.row_len / EACH);
    return n > 1 && t->spec.rows <= most / n;
}

uint64_t rk_by_key_groups(const rk_task *t, int threads)
{
    const rk_slots k = slots_of(&t->spec);
    const uint64_t most = MOST_BYTES / k.bytes, n = (uint64_t)threads;
    return least((t->spec.rows + n - 1) / n, most);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static int order_of(const rp_fault *f)
{
    return f->code == RP_OK                                                               ? 3
           : f->code == RP_NO_MEMORY || f->code == RP_DEADLINE || f->code == RP_CANCELLED ? 0
           : f->code == RP_SHAPE                                                          ? 1
                                                                                          : 2;
}

bool rk_by_key_precedes(const rp_fault *a, const rp_fault *b)
{
    const int x = order_of(a), y = order_of(b);
    return x < y || (x == y && x < 3 && a->index < b->index);
}

static rp_err no_memory(rp_fault *f) { return rp_fail(f, RP_NO_MEMORY, "memory", 0, "no memory for the states of groups"); }

rp_err rk_by_key_wrong(rp_fault *f, const rp_spec *s, uint64_t key, uint64_t at)
{
    rp_fail(f, RP_SHAPE, "keys", s->rows,
            rk_is_signed(s->keys) && key >> 63 ? "key %" PRId64 " at element %" PRIu64 ": groups are 0 to %" PRIu64
                                               : "key %" PRIu64 " at element %" PRIu64 ": groups are 0 to %" PRIu64,
            key, at, s->rows - 1);
    f->index = at;
    return RP_SHAPE;
}

/* Are the keys of elements [from, to) groups? */
static rp_err check_keys(const rk_task *t, const rk_keyed *k, uint64_t from, uint64_t to, rp_fault *f)
{
    uint64_t key;
    const uint64_t at = k->drop_outside ? to : rk_keyed_find(k, t->spec.rows, from, to, &key);
    return at == to ? RP_OK : rk_by_key_wrong(f, &t->spec, key, at + t->base);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static void *slot_at(const rk_groups *g, uint64_t i) { return g->slots + i * g->kind->bytes; }

static void init_all(const rk_groups *g)
{
    for (uint64_t i = 0; i < g->n; i++)
        rk_slot_init(g->kind, slot_at(g, i));
}

static void drop_all(const rk_groups *g)
{
    for (uint64_t i = 0; i < g->n; i++)
        rk_slot_drop(g->kind, slot_at(g, i));
}

/* Cells of all groups; the fault of the first one without a result. */
static rp_err finish(const rk_task *t, const rk_groups *g, rp_fault *f)
{
    rp_err err = RP_OK;
    for (uint64_t i = 0; i < g->n; i++) {
        rk_state s;
        uint8_t *cell = (uint8_t *)t->cells + (g->first + i) * rp_cell_size(&t->spec);
        if (rk_slot_write_sum(g->kind, slot_at(g, i), &t->spec, cell))
            continue;
        rk_slot_state(g->kind, slot_at(g, i), &s);
        const int code = rk_cell_write(&s, &t->spec, cell);
        if (code && !err)
            rk_cell_fault(f, &s, &t->spec, g->first + i, code);
        err = err ? err : (rp_err)code;
    }
    return err;
}

/* Add elements [from, to), and look at their keys if `check`: beforehand if the groups are not all, else if not all elements
 * were added. */
static rp_err add(const rk_task *t, const rk_groups *g, uint64_t from, uint64_t to, bool check, rp_fault *f)
{
    const rk_keyed k = keyed_of(t);
    const bool all = g->n == t->spec.rows;
    for (uint64_t end, added = 0; from < to; from = end, added = 0) {
        end = least(to, from + AT_ONCE);
        if (rk_task_late(t, f))
            return f->code;
        if (check && !all && check_keys(t, &k, from, end, f))
            return RP_SHAPE;
        if (rk_keyed_add_range(&k, g, from, end, &added) < end)
            return no_memory(f);
        if (check && all && added < end - from && check_keys(t, &k, from, end, f))
            return RP_SHAPE;
    }
    return RP_OK;
}

/* *full: there was no room for the states of all these groups. */
static rp_err run_some(const rk_task *t, uint64_t first, uint64_t n, bool *full, rp_fault *f)
{
    uint64_t room = MOST_BYTES;
    rk_slots k = slots_of(&t->spec);
    k.room = &room;
    const rk_groups g = {&k, rk_slots_room(&k, n), first, n};
    *full = false;
    if (!g.slots)
        return no_memory(f);
    init_all(&g);
    rp_err err = add(t, &g, 0, t->spec.row_len, first == 0, f);
    err = err ? err : finish(t, &g, f);
    *full = err == RP_NO_MEMORY && room < rp_state_size(k.layout);
    drop_all(&g);
    free(g.slots);
    return err;
}

/* Of most data few elements leave their windows. Else there are as many groups at a time as have room for all their states. */
rp_err rk_by_key_run(const rk_task *t, uint64_t first, uint64_t n, rp_fault *f)
{
    bool full;
    const uint64_t end = first + n, each = MOST_BYTES / rp_state_size(rp_spec_layout(&t->spec));
    rp_err err = run_some(t, first, n, &full, f);
    if (!full)
        return err;
    for (err = RP_OK; first < end && !err; first += n) {
        n = least(each, end - first);
        err = run_some(t, first, n, &full, f);
    }
    return err;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static rk_groups groups_of(const rk_task *t, const rk_slots *k, rk_table *x)
{
    return (rk_groups){k, (uint8_t *)x->slots, 0, t->spec.rows};
}

static rk_table *new_table(const rk_task *t, const rk_slots *k)
{
    rk_table *x = aligned_alloc(_Alignof(rk_table), (sizeof *x + (size_t)(t->spec.rows * k->bytes) + 63) / 64 * 64);
    if (!x)
        return NULL;
    const rk_groups g = groups_of(t, k, x);
    init_all(&g);
    return x;
}

rp_err rk_by_key_add(const rk_task *t, rk_table **table, uint64_t from, uint64_t to, rp_fault *f)
{
    const rk_slots k = slots_of(&t->spec);
    if (!*table)
        *table = new_table(t, &k);
    if (!*table)
        return no_memory(f);
    const rk_groups g = groups_of(t, &k, *table);
    return add(t, &g, from, to, true, f);
}

/* False: no memory. */
static bool join(const rk_groups *into, const rk_groups *from)
{
    bool fine = true;
    for (uint64_t i = 0; i < into->n && fine; i++)
        fine = rk_slot_join(into->kind, slot_at(into, i), slot_at(from, i));
    return fine;
}

rp_err rk_by_key_end(const rk_task *t, rk_table *tables, rp_fault *f)
{
    const rk_slots k = slots_of(&t->spec);
    rp_err err = t->fault.code;
    if (!tables)
        return err;
    const rk_groups all = groups_of(t, &k, tables);
    for (rk_table *x = tables->next, *next; x; x = next) {
        const rk_groups g = groups_of(t, &k, x);
        next = x->next;
        if (!err && !join(&all, &g))
            err = no_memory(f);
        drop_all(&g);
        free(x);
    }
    if (!err)
        err = finish(t, &all, f);
    drop_all(&all);
    free(tables);
    return err;
}
