/* One reduction over many processes with any all-reduce. Each process makes its states, by its daemon or here; the caller's
 * all-reduce joins them; each process finishes the same bytes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/alone.h"
#include "client/block.h"
#include "client/client.h"
#include "client/error.h"
#include "client/message.h"
#include "client/sized.h"
#include "client/spec.h"
#include "client/state.h"
#include "kernels/cpu/threads/here.h"
#include "kernels/exact/check.h"
#include "proto/types.h"

enum { TOGETHER = 8 }; /* items that are reduced at once: masked weights are read once */

/* What follows from a spec and a number of bytes. */
typedef struct plan {
    reduce_spec spec;         /* as this version has it */
    rp_spec wire, run, value; /* it, checked; that of the states; that of one finished result */
    size_t states, cells;     /* bytes: of the states, of the results */
    size_t state, cell;       /* of one of each */
} plan;

typedef struct part {
    reduce_item item;
    plan *plan;  /* of the item, and of those after it with the same spec and number of bytes */
    uint8_t *at; /* the states */
} part;

struct reduce_joint {
    reduce_client *client;
    part *part;
    plan *plan;      /* room for one of each part */
    size_t n, bytes; /* of states */
    uint8_t *states;
    size_t held; /* bytes of them that the first exchange has joined */
    uint32_t rank;
    rc_message mine; /* as this rank sends it */
    rc_message message;
    bool second; /* what is under way is the second exchange, or all is done */
};
typedef struct reduce_joint collective;

/* Errors of one of several items name it. */
static int of_item(const collective *k, size_t i, int err) { return err && k->n > 1 ? rc_within("item", i, err) : err; }

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static int take_item(part *p, const reduce_item *given)
{
    rp_fault f;
    if (rc_take_sized(&p->item, sizeof p->item, _Alignof(reduce_item), given, RC_UP_TO(reduce_item, room), "item", &f))
        return rc_report(&f);
    return 0;
}

/* The spec of an item's states, without the options for finishing. */
static reduce_spec states_spec(const part *p)
{
    reduce_spec s = p->plan->spec;
    s.flags = (s.flags & ~(uint32_t)REDUCE_WRAP) | REDUCE_STATES_OUT;
    s.initial = NULL;
    return s;
}

/* The same of the wire. */
static rp_spec states_wire(rp_spec s)
{
    s.flags = (s.flags & ~(uint32_t)(RP_INITIAL | RP_WRAP)) | RP_STATES_OUT;
    s.initial = 0;
    return s;
}

static rp_spec value_wire(rp_spec s)
{
    s.dtype = (uint8_t)rp_spec_state_dtype(&s);
    s.flags &= RP_INITIAL | RP_WRAP;
    s.weights = s.weights_extent = s.keys = 0;
    s.rows = 1;
    s.planes = s.index_base = 0;
    return s;
}

static int make_plan(plan *p, const reduce_item *item)
{
    uint64_t lines;
    rp_fault f = {0};
    int err = rc_results(item->spec, item->bytes, &p->spec, &p->wire, &lines, &f);
    p->run = states_wire(p->wire);
    if (!err)
        err = -(int)rp_spec_check(&p->run, &f);
    if (err)
        return rc_report(&f);
    p->value = value_wire(p->wire);
    p->state = rp_state_size(rp_spec_layout(&p->value));
    p->cell = rp_cell_size(&p->value);
    if (__builtin_mul_overflow(lines, rp_cell_size(&p->wire), &p->cells) ||
        __builtin_mul_overflow(lines, rp_cell_size(&p->run), &p->states))
        return rc_error(REDUCE_E_TOO_LARGE, "rows", "the states would be over 2^64 bytes");
    return 0;
}

/* `before`: the part before it, or NULL. `room`: for its plan. */
static int plan_item(part *p, const reduce_item *given, const part *before, plan *room)
{
    int err = take_item(p, given);
    if (err)
        return err;
    if (before && p->item.spec == before->item.spec && p->item.bytes == before->item.bytes)
        room = before->plan;
    else
        err = make_plan(room, &p->item);
    p->plan = room;
    if (!err && p->item.out && p->item.room < room->cells)
        err = rc_error(REDUCE_E_ARGUMENT, "room", "%zu bytes are less than the %zu of the results", p->item.room, room->cells);
    return err;
}

static int plan_all(collective *k, const reduce_item *items)
{
    const size_t apart = k->n ? items->size : 0; /* of the version of the header that the program has */
    for (size_t i = 0; i < k->n; i++) {
        const void *given = (const uint8_t *)items + i * apart;
        int err = of_item(k, i, plan_item(&k->part[i], given, i ? &k->part[i - 1] : NULL, &k->plan[i]));
        if (!err && __builtin_add_overflow(k->bytes, k->part[i].plan->states, &k->bytes))
            err = rc_error(REDUCE_E_TOO_LARGE, "items", "the states would be over 2^64 bytes");
        if (err)
            return err;
    }
    k->states = malloc(k->bytes ? k->bytes : 1);
    if (!k->states)
        return rc_error(REDUCE_E_NO_MEMORY, "items", "no memory for %zu bytes of states", k->bytes);
    uint8_t *at = k->states;
    for (size_t i = 0; i < k->n; at += k->part[i++].plan->states)
        k->part[i].at = at;
    return 0;
}

/* ---- this rank's states ------------------------------------------------------------------------------------------ */

static bool in_memory(const reduce_item *item) { return item->fd < 0 && !item->device; }

/* One row of memory, whose spec is ready for the engine? What is wrong with it is found by rc_run_alone. */
static bool is_plain(const part *p)
{
    const reduce_spec *s = &p->plan->spec;
    const uint32_t simple = REDUCE_STATES_OUT | REDUCE_WRAP | REDUCE_DROP_ZERO_WEIGHTS;
    return in_memory(&p->item) && !p->item.block && s->rows == 1 && s->planes <= 1 && !(s->flags & ~simple) && !s->offsets &&
           !s->keys_dtype && !s->deadline_ms && s->weights_extent <= REDUCE_EACH_ELEMENT &&
           (!s->weights == !rp_is_paired(s->op)) && p->item.data && p->item.bytes % rp_dtype_size(s->dtype) == 0;
}

static uint64_t elements_of(const part *p) { return p->item.bytes / rp_dtype_size(p->plan->spec.dtype); }

static rp_parts beside(const part *p) { return (rp_parts){.mask = p->plan->spec.mask, .weights = p->plan->spec.weights}; }

/* Bytes of the elements with what is beside them. */
static uint64_t bytes_of(const part *p)
{
    const reduce_spec *s = &p->plan->spec;
    return p->item.bytes + elements_of(p) * ((s->mask ? 1 : 0) + (s->weights ? rp_dtype_size(p->plan->wire.weights) : 0));
}

/* Is one thread enough? */
static bool is_little(const part *p) { return bytes_of(p) < 2 * RK_THREAD_BYTES; }

/* Plain items from p on, up to `end`, with one plan, that need one thread. */
static size_t plain_parts(const part *p, const part *end)
{
    size_t n = 0;
    while (n < TOGETHER && p + n < end && p[n].plan == p->plan && is_plain(p + n))
        n++;
    return n && (is_little(p) || rk_cpu_cores() == 1) ? n : 0;
}

/* rc_run_alone of n such parts, without a second look at the spec. */
static int run_plain(const part *p, size_t n)
{
    rp_fault f = {0};
    rk_state states[TOGETHER];
    const uint8_t *x[TOGETHER];
    const rp_parts with = beside(p);
    rp_spec s = p->plan->run;
    s.row_len = elements_of(p);
    for (size_t i = 0; i < n; i++)
        x[i] = p[i].item.data;
    if (rk_states_here(&s, x, n, &with, s.row_len, states, &f))
        return rc_report(&f);
    for (size_t i = 0; i < n; i++)
        memcpy(p[i].at, &states[i], p->plan->state);
    return 0;
}

static int run_block(const part *p)
{
    const reduce_spec s = states_spec(p);
    if (!in_memory(&p->item))
        return rc_error(REDUCE_E_ARGUMENT, "block", "a block is of an array in memory");
    return rc_run_block(&s, p->item.block, p->item.data, p->item.bytes, p->at);
}

static int ask(reduce_client *c, const part *p)
{
    const reduce_item *item = &p->item;
    if (item->block)
        return run_block(p);
    const reduce_spec s = states_spec(p);
    if (in_memory(item) && !c)
        return rc_run_alone(&s, item->data, item->bytes, p->at, p->plan->states);
    if (!c)
        return rc_error(REDUCE_E_ARGUMENT, "client", "files and device memory need a client");
    if (item->device)
        return c->doors->device(c, &s, item->device, item->offset, item->bytes, p->at, p->plan->states, NULL);
    if (item->fd >= 0)
        return c->doors->file(c, &s, item->fd, item->offset, item->bytes, p->at, p->plan->states, NULL);
    return c->doors->run(c, &s, item->data, item->bytes, p->at, p->plan->states, NULL);
}

/* Where in memory is the first NaN that counts? REDUCE_NO_INDEX: that is not known. */
static uint64_t first_nan(const part *p)
{
    const reduce_spec *s = &p->plan->spec;
    const size_t size = rp_dtype_size(s->dtype);
    const bool known = in_memory(&p->item) && !p->item.block &&
                       p->plan->states == rp_state_size(rp_spec_layout(&p->plan->wire)) && !s->offsets && !s->weights &&
                       !s->keys_dtype && !(s->flags & REDUCE_STATES_IN);
    for (uint64_t i = 0; known && i < p->item.bytes / size; i++) {
        uint64_t bits = 0;
        memcpy(&bits, (const uint8_t *)p->item.data + i * size, size);
        if (rk_is_nan(s->dtype, bits) && (!s->mask || ((const uint8_t *)s->mask)[i]))
            return s->index_base + i;
    }
    return REDUCE_NO_INDEX;
}

/* NaNs that are errors: the merged states do not say whose they were. */
static int refuse_nans(const part *p)
{
    const size_t size = p->plan->state;
    for (size_t at = 0; at < p->plan->states; at += size) {
        rk_state s;
        memcpy(&s, p->at + at, RK_STATE_HEAD);
        if (!s.skipped)
            continue;
        const uint64_t index = first_nan(p);
        const int err = index == REDUCE_NO_INDEX ? rc_error(REDUCE_E_NAN, "data", "there is a NaN")
                                                 : rc_error(REDUCE_E_NAN, "data", "element %" PRIu64 " is a NaN", index);
        return p->plan->states > size ? rc_within("row", at / size, err) : err;
    }
    return 0;
}

/* The states of some parts from i on; how many it were goes to *made. */
static int make_some(const collective *k, size_t i, size_t *made)
{
    const part *p = &k->part[i];
    const size_t plain = k->client ? 0 : plain_parts(p, k->part + k->n);
    *made = plain ? plain : 1;
    int err = of_item(k, i, plain ? run_plain(p, plain) : ask(k->client, p));
    for (size_t j = i; j < i + *made && !err; j++)
        if (k->part[j].plan->spec.nan == REDUCE_NAN_ERROR && !(k->part[j].plan->wire.flags & RP_STATES_OUT))
            err = of_item(k, j, refuse_nans(&k->part[j]));
    return err;
}

static int make_states(const collective *k)
{
    int err = 0;
    for (size_t i = 0, made; i < k->n && !err; i += made)
        err = make_some(k, i, &made);
    return err;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

static void fill_message(collective *k, int err)
{
    rc_message_init(&k->message, k->rank);
    size_t used = 0;
    if (err)
        rc_message_fail(&k->message, err, k->rank);
    for (size_t i = 0; i < k->n && !err; i++)
        rc_message_add(&k->message, &used, &k->part[i].plan->spec, k->part[i].at, k->part[i].plan->state,
                       k->part[i].plan->states);
    k->mine = k->message;
}

/* What this rank has for the others: its states, or its error. */
static void begin(collective *k, const reduce_item *items)
{
    k->part = reallocarray(NULL, k->n + !k->n, sizeof *k->part + sizeof *k->plan);
    k->plan = (plan *)(void *)(k->part + k->n);
    int err = !k->part              ? rc_error(REDUCE_E_NO_MEMORY, "items", "no memory for %zu items", k->n)
              : !items && k->n != 0 ? rc_error(REDUCE_E_ARGUMENT, "items", "the items are NULL")
                                    : plan_all(k, items);
    if (!err)
        err = make_states(k);
    fill_message(k, err);
}

static void *buffer_of(collective *k, size_t *bytes)
{
    *bytes = k->second ? k->bytes - k->held : sizeof k->message;
    return k->second ? (void *)(k->states + k->held) : &k->message;
}

/* The exchange is over, and `failed` is not 0 if it failed. 1: there is a second one; 0: no more; or the reported error. */
static int exchanged(collective *k, int failed)
{
    if (failed)
        return rc_error(REDUCE_E_IO, "exchange", "the %sexchange of rank %" PRIu32 " failed with %d",
                        k->second ? "second " : "", k->rank, failed);
    if (k->second)
        return 0;
    int err = rc_message_end(&k->message, &k->mine);
    if (!err)
        err = rc_message_states(&k->message, k->states, k->bytes, &k->held);
    k->second = !err;
    return err ? err : k->held < k->bytes;
}

static int exchange_states(collective *k, reduce_exchange exchange, void *arg)
{
    int more;
    do {
        size_t bytes;
        void *buffer = buffer_of(k, &bytes);
        more = exchanged(k, exchange(arg, buffer, bytes));
    } while (more > 0);
    return more;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static int finish_part(const part *p, uint8_t *cells)
{
    const size_t size = p->plan->state, cell = p->plan->cell, n = p->plan->states / size;
    int err = 0;
    for (size_t i = 0; i < n && !err; i++) {
        rk_state s;
        err = rc_state_take(&s, p->at + i * size, size);
        if (!err)
            err = rc_state_value(&s, i, 1, &p->plan->value, cell, cells + i * cell);
        if (err && n > 1)
            rc_within("row", i, err);
    }
    return err;
}

/* They went through the other ranks. */
static int check_states(const part *p)
{
    const size_t size = p->plan->state;
    int err = 0;
    for (size_t at = 0; at < p->plan->states && !err; at += size)
        err = reduce_state_check(p->at + at, size, p->plan->value.op, p->plan->value.dtype);
    return err;
}

static int give_part(const part *p)
{
    uint64_t one[RP_MAX_CELL_WORDS];
    if (p->plan->wire.flags & RP_STATES_OUT) {
        int wrong = check_states(p);
        if (!wrong && p->item.out)
            memcpy(p->item.out, p->at, p->plan->states);
        return wrong;
    }
    /* for ranks without `out`, and so that an error leaves `out` alone */
    uint8_t *cells = p->plan->cells <= sizeof one ? (uint8_t *)one : malloc(p->plan->cells);
    if (!cells)
        return rc_error(REDUCE_E_NO_MEMORY, "out", "no memory for %zu bytes of results", p->plan->cells);
    int err = finish_part(p, cells);
    if (!err && p->item.out)
        memcpy(p->item.out, cells, p->plan->cells);
    if (cells != (uint8_t *)one)
        free(cells);
    return err;
}

static int give(const collective *k)
{
    int err = 0;
    for (size_t i = 0; i < k->n && !err; i++)
        err = of_item(k, i, give_part(&k->part[i]));
    return err;
}

static void release(const collective *k)
{
    free(k->states);
    free(k->part);
}

int reduce_collective(reduce_client *c, const reduce_item *items, size_t n, uint32_t rank, reduce_exchange exchange, void *arg)
{
    if (!exchange)
        return rc_error(REDUCE_E_ARGUMENT, "exchange", "the exchange is NULL");
    collective k = {.client = c, .n = n, .rank = rank};
    begin(&k, items);
    int err = exchange_states(&k, exchange, arg);
    if (!err)
        err = give(&k);
    release(&k);
    return err;
}

int reduce_joint_begin(reduce_joint **joint, reduce_client *c, const reduce_item *items, size_t n, uint32_t rank)
{
    if (!joint)
        return rc_error(REDUCE_E_ARGUMENT, "joint", "the pointer is NULL");
    collective *k = *joint = malloc(sizeof *k);
    if (!k)
        return rc_error(REDUCE_E_NO_MEMORY, "joint", "no memory for a collective call");
    *k = (collective){.client = c, .n = n, .rank = rank};
    begin(k, items);
    return 0;
}

void *reduce_joint_buffer(reduce_joint *joint, size_t *bytes) { return buffer_of(joint, bytes); }

int reduce_joint_next(reduce_joint *joint, int failed)
{
    int err = exchanged(joint, failed);
    if (err == 1)
        return err;
    if (!err)
        err = give(joint);
    release(joint);
    free(joint);
    return err;
}

int reduce_collective_error(int err, uint32_t rank, reduce_exchange exchange, void *arg)
{
    if (!exchange)
        return rc_error(REDUCE_E_ARGUMENT, "exchange", "the exchange is NULL");
    collective none = {.rank = rank};
    fill_message(&none, err);
    return exchange_states(&none, exchange, arg);
}
