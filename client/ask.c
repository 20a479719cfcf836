#include "client/ask.h"

#include <inttypes.h>

#include "client/error.h"
#include "client/quantiles.h"
#include "client/spec.h"
#include "proto/clock.h"

int rc_check_pointers(const rc_input *in, size_t bytes, const void *out, size_t room, rp_fault *f)
{
    const bool elsewhere = in->fd >= 0 || in->device || in->kept;
    if ((in->data || !bytes || elsewhere) && (out || !room))
        return 0;
    const bool given = in->data || !bytes || elsewhere;
    return rc_fail(f, REDUCE_E_ARGUMENT, given ? "out" : "data", "the pointer to the %s is NULL", given ? "results" : "data");
}

/* Are the keys where those of the input may be? */
static int check_keys(const reduce_spec *s, const rc_input *in, size_t bytes, rp_fault *f)
{
    if (!s->keys_dtype)
        return 0;
    if (in->device)
        return rc_fail(f, REDUCE_E_ARGUMENT, "keys_dtype",
                       "data on a device have no keys: put data and keys, and use reduce_named, or use reduce_cuda.h");
    if (s->keys_name && !in->kept)
        return rc_fail(f, REDUCE_E_ARGUMENT, "keys_name", "resident keys are for resident data: use reduce_named");
    if (s->keys && s->keys_name)
        return rc_fail(f, REDUCE_E_ARGUMENT, "keys", "the keys are in memory or resident, not both");
    if (!s->keys && !s->keys_name && bytes)
        return rc_fail(f, REDUCE_E_ARGUMENT, "keys", "the pointer to the keys is NULL");
    return 0;
}

int rc_ask_for(rc_ask *a, const reduce_spec *given, const rc_input *in, size_t bytes, size_t room, rp_fault *f)
{
    *a = (rc_ask){.in = *in, .bytes = bytes, .start_ns = rp_now_ns(), .result = REDUCE_RESULT_INIT};
    const reduce_spec *spec = &a->spec;
    rc_level *l = &a->whole;
    uint64_t need;
    int err = rc_spec(given, &a->spec, &l->spec, f);
    if (err)
        return err;
    rc_put_decimals(a->q, spec->q, spec->quantiles);
    l->spec.q = a->q;
    const uint32_t behind = spec->flags & REDUCE_MASKED; /* the elements is their mask */
    if (behind && in->mask)
        return rc_fail(f, REDUCE_E_ARGUMENT, "flags", "REDUCE_MASKED is for a mask behind the elements, not one with a handle");
    if (behind && !in->device)
        return rc_fail(f, REDUCE_E_ARGUMENT, "flags",
                       "REDUCE_MASKED is for streams and data on the device; here `mask` is an array");
    size_t cell = rp_cell_size(&l->spec);
    l->item = rp_item_size(&l->spec);
    err = rc_check_paired(&l->spec, f);
    if (!err)
        err = check_keys(spec, in, bytes, f);
    if (err)
        return err;
    err = rc_shape(l, spec, bytes, f);
    if (err)
        return err;
    if (__builtin_mul_overflow(l->lines, (uint64_t)cell, &need) || need > room)
        return rc_fail(f, REDUCE_E_ARGUMENT, "room", "%" PRIu64 " results of %zu bytes do not fit the %zu given", l->lines,
                       cell, room);
    a->result.dtype = l->spec.flags & RP_STATES_OUT ? 0 : l->spec.out;
    a->result.cell_size = cell;
    a->result.cells = l->lines;
    a->result.count = bytes / (l->item + (behind ? 1 : 0));
    l->elements = in->data;
    l->spec.flags &= ~(uint32_t)(RP_MASK | RP_OFFSETS); /* each tile says its own */
    l->spec.flags |= behind ? RP_MASK : 0;              /* there is one */
    l->mask = spec->mask;
    l->beside = spec->keys_dtype ? spec->keys : spec->weights;
    if (spec->keys_dtype && !spec->keys && !spec->keys_name) /* of no elements none is read */
        l->beside = (const uint8_t *)spec;
    l->offsets = (const uint8_t *)spec->offsets;
    return 0;
}
