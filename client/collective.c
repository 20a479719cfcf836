/* One reduction over many processes with any all-reduce. Each process makes its states, by its daemon or here; the caller's
 * all-reduce joins them; each process finishes the same bytes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/alone.h"
#include "client/error.h"
#include "client/message.h"
#include "client/sized.h"
#include "client/spec.h"
#include "proto/types.h"

typedef struct part {
    reduce_item item;
    reduce_spec spec;           /* the item's, as this version has it */
    size_t states, cells, cell; /* bytes: of the states, of the results, of one result */
    uint8_t *at;                /* the states */
} part;

typedef struct collective {
    reduce_client *client;
    part *part;
    size_t n, bytes; /* of states */
    uint8_t *states;
    rc_message message;
} collective;

/* Errors of one of several items name it. */
static int of_item(const collective *k, size_t i, int err) { return err && k->n > 1 ? rc_within("item", i, err) : err; }

/* ---- plan -------------------------------------------------------------------------------------------------------- */

static int take_item(part *p, const reduce_item *given)
{
    rp_fault f = {0};
    if (rc_take_sized(&p->item, sizeof p->item, given, RC_UP_TO(reduce_item, room), "item", &f))
        return rc_report(&f);
    if (rc_take_sized(&p->spec, sizeof p->spec, p->item.spec, RC_UP_TO(reduce_spec, offsets), "spec", &f))
        return rc_report(&f);
    p->spec.size = sizeof p->spec;
    p->item.spec = &p->spec;
    return 0;
}

/* The spec of an item's states, without the options for finishing. */
static reduce_spec states_spec(const reduce_item *item)
{
    reduce_spec s = *item->spec;
    s.flags = (s.flags & (REDUCE_STATES_IN | REDUCE_COLUMNS | REDUCE_DROP_ZERO_WEIGHTS)) | REDUCE_STATES_OUT;
    s.initial = NULL;
    return s;
}

static reduce_spec value_spec(const reduce_item *item)
{
    reduce_spec s = *item->spec;
    s.flags &= REDUCE_WRAP;
    s.mask = s.offsets = NULL;
    s.dtype = rc_states_dtype(&s);
    s.weights = NULL;
    s.weights_dtype = s.weights_extent = 0;
    s.rows = 1;
    s.index_base = 0;
    return s;
}

static int plan_part(part *p)
{
    const reduce_item *item = &p->item;
    int err = reduce_result_size(item->spec, item->bytes, &p->cells);
    if (err)
        return err;
    const reduce_spec states = states_spec(item), value = value_spec(item);
    err = reduce_result_size(&states, item->bytes, &p->states);
    if (!err)
        err = reduce_result_size(&value, 0, &p->cell);
    if (!err && item->out && item->room < p->cells)
        err = rc_error(REDUCE_E_ARGUMENT, "room", "%zu bytes are less than the %zu of the results", item->room, p->cells);
    return err;
}

static int plan(collective *k, const reduce_item *items)
{
    for (size_t i = 0; i < k->n; i++) {
        int err = take_item(&k->part[i], &items[i]);
        if (!err)
            err = plan_part(&k->part[i]);
        err = of_item(k, i, err);
        if (!err && __builtin_add_overflow(k->bytes, k->part[i].states, &k->bytes))
            err = rc_error(REDUCE_E_TOO_LARGE, "items", "the states would be over 2^64 bytes");
        if (err)
            return err;
    }
    k->states = malloc(k->bytes ? k->bytes : 1);
    if (!k->states)
        return rc_error(REDUCE_E_NO_MEMORY, "items", "no memory for %zu bytes of states", k->bytes);
    uint8_t *at = k->states;
    for (size_t i = 0; i < k->n; at += k->part[i++].states)
        k->part[i].at = at;
    return 0;
}

/* ---- this rank's states ------------------------------------------------------------------------------------------ */

static bool in_memory(const reduce_item *item) { return item->fd < 0 && !item->device; }

static int ask(reduce_client *c, const part *p)
{
    const reduce_item *item = &p->item;
    const reduce_spec s = states_spec(item);
    if (in_memory(item) && !c)
        return rc_run_alone(&s, item->data, item->bytes, p->at, p->states);
    if (!c)
        return rc_error(REDUCE_E_ARGUMENT, "client", "files and device memory need a client");
    if (item->device)
        return reduce_device(c, &s, item->device, item->offset, item->bytes, p->at, p->states, NULL);
    if (item->fd >= 0)
        return reduce_file(c, &s, item->fd, item->offset, item->bytes, p->at, p->states, NULL);
    return reduce_run(c, &s, item->data, item->bytes, p->at, p->states, NULL);
}

static int make_states(const collective *k)
{
    int err = 0;
    for (size_t i = 0; i < k->n && !err; i++)
        err = of_item(k, i, ask(k->client, &k->part[i]));
    return err;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

static void fill_message(collective *k, int err, uint32_t rank)
{
    rc_message_init(&k->message, rank);
    if (err) {
        rc_message_fail(&k->message, err, rank);
        return;
    }
    for (size_t i = 0; i < k->n; i++)
        rc_message_add(&k->message, k->part[i].item.spec, k->part[i].at, k->part[i].states);
}

static int exchange_states(collective *k, reduce_exchange exchange, void *arg)
{
    const rc_message mine = k->message;
    int err = exchange(arg, &k->message, sizeof k->message);
    if (err)
        return rc_error(REDUCE_E_IO, "exchange", "the exchange of rank %" PRIu32 " failed with %d", mine.first, err);
    err = rc_message_end(&k->message, &mine);
    if (err)
        return err;
    if (mine.held) /* an error alone has no states */
        memcpy(k->states, k->message.room, mine.held);
    if (mine.held < k->bytes)
        err = exchange(arg, k->states + mine.held, k->bytes - mine.held);
    if (err)
        return rc_error(REDUCE_E_IO, "exchange", "the second exchange of rank %" PRIu32 " failed with %d", mine.first, err);
    return 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static int finish_part(const part *p, uint8_t *cells)
{
    const reduce_spec value = value_spec(&p->item);
    const size_t size = reduce_state_size(value.op, value.dtype);
    int err = 0;
    for (size_t i = 0; i * size < p->states && !err; i++) {
        err = reduce_state_finish(p->at + i * size, size, &value, cells + i * p->cell, p->cell);
        if (err && p->states > size)
            rc_within("row", i, err);
    }
    return err;
}

/* They went through the other ranks. */
static int check_states(const part *p)
{
    const reduce_spec *s = p->item.spec;
    const int dtype = rc_states_dtype(s);
    const size_t size = reduce_state_size(s->op, dtype);
    int err = 0;
    for (size_t at = 0; at < p->states && !err; at += size)
        err = reduce_state_check(p->at + at, size, s->op, dtype);
    return err;
}

static int give_part(const part *p)
{
    if (p->item.spec->flags & REDUCE_STATES_OUT) {
        int wrong = check_states(p);
        if (!wrong && p->item.out)
            memcpy(p->item.out, p->at, p->states);
        return wrong;
    }
    uint8_t *cells = malloc(p->cells ? p->cells : 1); /* for ranks without `out`, and so that an error leaves `out` alone */
    if (!cells)
        return rc_error(REDUCE_E_NO_MEMORY, "out", "no memory for %zu bytes of results", p->cells);
    int err = finish_part(p, cells);
    if (!err && p->item.out)
        memcpy(p->item.out, cells, p->cells);
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

int reduce_collective(reduce_client *c, const reduce_item *items, size_t n, uint32_t rank, reduce_exchange exchange, void *arg)
{
    if (!exchange)
        return rc_error(REDUCE_E_ARGUMENT, "exchange", "the exchange is NULL");
    collective k = {.client = c, .n = n, .part = calloc(n ? n : 1, sizeof *k.part)};
    int err = !k.part            ? rc_error(REDUCE_E_NO_MEMORY, "items", "no memory for %zu items", n)
              : !items && n != 0 ? rc_error(REDUCE_E_ARGUMENT, "items", "the items are NULL")
                                 : plan(&k, items);
    if (!err)
        err = make_states(&k);
    fill_message(&k, err, rank);
    err = exchange_states(&k, exchange, arg);
    if (!err)
        err = give(&k);
    free(k.states);
    free(k.part);
    return err;
}

int reduce_collective_error(int err, uint32_t rank, reduce_exchange exchange, void *arg)
{
    if (!exchange)
        return rc_error(REDUCE_E_ARGUMENT, "exchange", "the exchange is NULL");
    collective none = {0};
    fill_message(&none, err, rank);
    return exchange_states(&none, exchange, arg);
}
