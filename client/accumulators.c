/* One state for each group: public names for kernels/cpu/keys. */
#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/sized.h"
#include "client/state.h"
#include "kernels/cpu/keys/keyed.h"
#include "kernels/exact/check.h"
#include "kernels/exact/line.h"

#define MAX_GROUPS ((uint64_t)1 << 32) /* more is a key that was never made dense */

struct reduce_accumulators {
    rk_slots kind;
    size_t groups;
    uint64_t added; /* elements of all groups: no group has more */
    uint64_t open;  /* those of them since the windows were settled */
    uint8_t *slots; /* groups x kind.bytes */
};

static void *slot_at(const reduce_accumulators *a, uint64_t group) { return a->slots + group * a->kind.bytes; }

/* ---- make -------------------------------------------------------------------------------------------------------- */

int reduce_accumulators_grow(reduce_accumulators *a, size_t groups)
{
    if (!a || groups < a->groups)
        return rc_error(REDUCE_E_ARGUMENT, "groups", "%zu groups are fewer than there are", groups);
    if (groups > MAX_GROUPS)
        return rc_error(REDUCE_E_TOO_LARGE, "groups", "%zu groups; at most 2^32", groups);
    void *slots = rk_slots_room(&a->kind, groups);
    if (!slots)
        return rc_error(REDUCE_E_NO_MEMORY, "groups", "no memory for %zu groups of %zu bytes", groups, a->kind.bytes);
    if (a->groups)
        memcpy(slots, a->slots, a->groups * a->kind.bytes);
    free(a->slots);
    a->slots = slots;
    for (; a->groups < groups; a->groups++)
        rk_slot_init(&a->kind, slot_at(a, a->groups));
    return 0;
}

int reduce_accumulators_new(int op, int dtype, int nan, size_t groups, reduce_accumulators **out)
{
    uint8_t room[REDUCE_MAX_STATE] = {0};
    int err = rc_state_room(room, sizeof room, op, dtype);
    if (err)
        return err;
    if (rp_is_paired(op))
        return rc_error(REDUCE_E_BAD_MESSAGE, "op", "%s has no accumulators", rp_op_name(op));
    if (!out)
        return rc_error(REDUCE_E_ARGUMENT, "accumulators", "the pointer to the result is NULL");
    if (rp_nan_name(nan)[0] == '?')
        return rc_error(REDUCE_E_BAD_MESSAGE, "nan", "unknown NaN policy code %d", nan);
    reduce_accumulators *a = calloc(1, sizeof *a);
    if (!a)
        return rc_error(REDUCE_E_NO_MEMORY, "", "no memory");
    rk_slots_of(&a->kind, rp_state_layout(op, dtype), dtype, nan);
    err = reduce_accumulators_grow(a, groups);
    if (err) {
        free(a);
        return err;
    }
    *out = a;
    return 0;
}

size_t reduce_accumulators_groups(const reduce_accumulators *a) { return a ? a->groups : 0; }

void reduce_accumulators_free(reduce_accumulators *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->groups; i++)
        rk_slot_drop(&a->kind, slot_at(a, i));
    free(a->slots);
    free(a);
}

/* ---- add --------------------------------------------------------------------------------------------------------- */

static int no_memory(uint64_t at)
{
    rp_fault f = {0};
    rc_fail(&f, REDUCE_E_NO_MEMORY, "values", "element %llu: no memory for its group's state", (unsigned long long)at);
    f.index = at;
    return rc_report(&f);
}

static rk_keyed keyed(const reduce_batch *b)
{
    return (rk_keyed){.keys = b->keys,
                      .values = b->values,
                      .mask = b->mask,
                      .n = b->count,
                      .first = b->index,
                      .key_dtype = b->key_dtype,
                      .drop_outside = b->flags & REDUCE_DROP_OUTSIDE,
                      .drop_negative = b->flags & REDUCE_DROP_NEGATIVE};
}

/* Look at all keys before one element is added. */
static int check_keys(const reduce_accumulators *a, const reduce_batch *b)
{
    rp_fault f = {0};
    uint64_t key;
    const rk_keyed k = keyed(b);
    const uint64_t at = rk_keyed_wrong(&k, a->groups, &key);
    if (at == b->count)
        return 0;
    const bool negative = rk_is_signed(b->key_dtype) && key >> 63;
    rc_fail(&f, REDUCE_E_SHAPE, "keys",
            negative ? "key %lld at element %llu: groups are 0 to %zu" : "key %llu at element %llu: groups are 0 to %zu",
            (unsigned long long)key, (unsigned long long)at, a->groups - 1);
    f.index = at;
    f.limit = a->groups;
    return rc_report(&f);
}

static int check_batch(const reduce_accumulators *a, const reduce_batch *given, reduce_batch *b)
{
    rp_fault f = {0};
    if (!a)
        return rc_error(REDUCE_E_ARGUMENT, "accumulators", "the pointer to them is NULL");
    if (rc_take_sized(b, sizeof *b, _Alignof(reduce_batch), given, RC_UP_TO(reduce_batch, reserved), "batch", &f))
        return rc_report(&f);
    if (b->count && !b->values)
        return rc_error(REDUCE_E_ARGUMENT, "values", "the pointer to %llu elements is NULL", (unsigned long long)b->count);
    if (b->flags & ~(uint32_t)(REDUCE_DROP_OUTSIDE | REDUCE_DROP_NEGATIVE) || b->reserved)
        return rc_error(REDUCE_E_ARGUMENT, "flags", "unknown flags");
    if (b->keys && (rp_dtype_size(b->key_dtype) == 0 || rk_is_float(b->key_dtype) || b->key_dtype == RP_BOOL))
        return rc_error(REDUCE_E_TYPE, "keys", "keys are of an integer type, not %s", rp_dtype_name(b->key_dtype));
    if (b->index > RP_MAX_COUNT)
        return rc_error(REDUCE_E_TOO_LARGE, "index", "index above 2^60");
    if (b->count > RP_MAX_COUNT - a->added)
        return rc_error(REDUCE_E_TOO_LARGE, "count", "more than 2^60 elements");
    if (b->count && a->groups == 0 && !(b->flags & REDUCE_DROP_OUTSIDE))
        return rc_error(REDUCE_E_SHAPE, "keys", "elements need a group, and the accumulators have 0 groups");
    return b->keys ? check_keys(a, b) : 0;
}

/* The windows of all groups have room for n more elements, or are settled. */
static int make_room(reduce_accumulators *a, uint64_t n)
{
    if (n > RK_SLOT_MOST)
        return rc_error(REDUCE_E_TOO_LARGE, "count", "a batch of more than 2^47 elements");
    for (size_t i = 0; a->open + n > RK_SLOT_MOST && i < a->groups; i++)
        if (!rk_slot_settle(&a->kind, slot_at(a, i)))
            return no_memory(0);
    a->open = a->open + n > RK_SLOT_MOST ? n : a->open + n;
    return 0;
}

int reduce_accumulators_add(reduce_accumulators *a, const reduce_batch *batch)
{
    reduce_batch b;
    int err = check_batch(a, batch, &b);
    if (!err)
        err = make_room(a, b.count);
    if (err)
        return err;
    a->added += b.count;
    if (!b.keys && !b.mask && a->groups) /* the loops over elements are faster */
        return rk_slot_add_all(&a->kind, a->slots, b.values, b.index, b.count) ? 0 : no_memory(0);
    const rk_keyed k = keyed(&b);
    const uint64_t at = rk_keyed_add(&k, &(rk_groups){&a->kind, a->slots, 0, a->groups});
    return at == b.count ? 0 : no_memory(at);
}

/* ---- merge ------------------------------------------------------------------------------------------------------- */

static int check_group(const reduce_accumulators *a, size_t group)
{
    if (!a)
        return rc_error(REDUCE_E_ARGUMENT, "accumulators", "the pointer to them is NULL");
    if (group >= a->groups)
        return rc_error(REDUCE_E_SHAPE, "group", "group %zu is not one of %zu groups", group, a->groups);
    return 0;
}

int reduce_accumulators_merge(reduce_accumulators *into, const reduce_accumulators *from)
{
    if (!into || !from || into == from)
        return rc_error(REDUCE_E_ARGUMENT, "accumulators", "a pointer is NULL, or both are the same");
    if (into->kind.layout != from->kind.layout || into->kind.dtype != from->kind.dtype)
        return rc_error(REDUCE_E_BAD_MESSAGE, "layout", "accumulators of different operations or element types");
    if (from->groups > into->groups)
        return rc_error(REDUCE_E_SHAPE, "groups", "%zu groups into %zu", from->groups, into->groups);
    if (from->added > RP_MAX_COUNT - into->added)
        return rc_error(REDUCE_E_TOO_LARGE, "count", "more than 2^60 elements");
    int err = make_room(into, from->open);
    if (err)
        return err;
    for (size_t i = 0; i < from->groups; i++)
        if (!rk_slot_join(&into->kind, slot_at(into, i), slot_at(from, i)))
            return no_memory(i);
    into->added += from->added;
    return 0;
}

int reduce_accumulators_state(const reduce_accumulators *a, size_t group, void *state, size_t size)
{
    rk_state s;
    int err = check_group(a, group);
    if (err)
        return err;
    if (!state || size < rp_state_size(a->kind.layout))
        return rc_error(REDUCE_E_ARGUMENT, "size", "a state needs %zu bytes", rp_state_size(a->kind.layout));
    rk_slot_state(&a->kind, slot_at(a, group), &s);
    rc_state_give(state, &s);
    return 0;
}

int reduce_accumulators_merge_state(reduce_accumulators *a, size_t group, const void *state, size_t size)
{
    rk_state s, mine;
    rp_fault f = {0};
    int err = check_group(a, group);
    if (!err)
        err = rc_state_take(&s, state, size);
    if (err)
        return err;
    rk_slot_state(&a->kind, slot_at(a, group), &mine);
    if (rc_state_pair(&mine, &s, &f))
        return rc_report(&f);
    if (s.count > RP_MAX_COUNT - a->added)
        return rc_error(REDUCE_E_TOO_LARGE, "count", "more than 2^60 elements");
    if (!rk_slot_merge(&a->kind, slot_at(a, group), &s))
        return no_memory(group);
    a->added += s.count;
    return 0;
}

/* ---- finish ------------------------------------------------------------------------------------------------------ */

int reduce_accumulators_finish(const reduce_accumulators *a, const reduce_spec *spec, size_t first, size_t count, void *results,
                               size_t room)
{
    rk_state s;
    rp_spec checked;
    if (!a || first > a->groups || count > a->groups - first)
        return rc_error(REDUCE_E_SHAPE, "groups", "groups %zu to %zu of %zu", first, first + count, a ? a->groups : 0);
    int err = rc_state_spec(spec, &checked, results, count, room);
    const size_t size = err ? 0 : rp_cell_size(&checked);
    for (size_t i = 0; !err && i < count; i++) {
        uint8_t *at = (uint8_t *)results + i * size;
        if (rk_slot_write_sum(&a->kind, slot_at(a, first + i), &checked, at))
            continue;
        rk_slot_state(&a->kind, slot_at(a, first + i), &s);
        err = rc_state_value(&s, first + i, a->groups, &checked, size, at);
    }
    return err;
}
