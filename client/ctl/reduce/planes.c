/* Planes go several at a time as far as the buffer holds them. One that is larger goes in blocks of rows: the states of a block
 * are merged into those of the blocks before it, so that memory depends on the number of results alone. */
#include "client/ctl/reduce/planes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER = 64 << 20, /* bytes of rows read at a time, or, if that is more, */
    STATES = 16        /* a part of a column is at least as large as 16 of its states: then merging is little work */
};

typedef struct columns {
    ctl_planes *p;
    ctl_work *w;
    uint64_t columns;
    uint64_t block;     /* rows of a block, within a plane; or of some whole planes */
    size_t size, state; /* bytes of an element, of a partial state */
    uint8_t *buffer, *mask;
    uint8_t *sofar, *fresh; /* a state for each column, of the blocks before and of this one */
    uint8_t *pairs;         /* both, column after column */
} columns;

/* Read k rows of `planes` planes and reduce them under `spec`. */
static int run_block(columns *x, const reduce_spec *given, uint64_t planes, uint64_t k, void *out, size_t room,
                     char why[CTL_WHY])
{
    reduce_result r = REDUCE_RESULT_INIT;
    reduce_spec spec = *given;
    int err = ctl_take(x->w, x->buffer, x->mask, planes * k * x->columns, why);
    if (err)
        return err;
    spec.rows = k;
    spec.planes = planes;
    spec.flags |= REDUCE_COLUMNS;
    spec.mask = x->mask;
    err = ctl_run(x->w->c, &spec, x->buffer, (size_t)(planes * k * x->columns) * x->size, out, room, &r);
    ctl_add_result(&x->p->sum, &r);
    return err;
}

/* States of `per` rows for each column to `out`. */
static int merge(columns *x, const reduce_spec *given, const uint8_t *states, uint64_t per, void *out, size_t room)
{
    reduce_result r = REDUCE_RESULT_INIT;
    reduce_spec spec = *given;
    spec.rows = x->columns;
    spec.flags |= REDUCE_STATES_IN;
    int err = ctl_run(x->w->c, &spec, states, (size_t)(x->columns * per) * x->state, out, room, &r);
    r.count = r.cells = 0; /* states are not elements */
    ctl_add_result(&x->p->sum, &r);
    return err;
}

static void pair(columns *x)
{
    for (uint64_t i = 0; i < x->columns; i++) {
        memcpy(x->pairs + 2 * i * x->state, x->sofar + i * x->state, x->state);
        memcpy(x->pairs + (2 * i + 1) * x->state, x->fresh + i * x->state, x->state);
    }
}

/* One plane. */
static int run_blocks(columns *x, void *out, size_t out_room, char why[CTL_WHY])
{
    const ctl_planes *p = x->p;
    reduce_spec partial = p->spec;
    partial.initial = NULL; /* added at the end */
    partial.flags |= REDUCE_STATES_OUT;
    size_t room = (size_t)x->columns * x->state;
    for (uint64_t row = 0; row < p->rows; row += x->block) {
        uint64_t k = p->rows - row < x->block ? p->rows - row : x->block;
        partial.index_base = p->spec.index_base + row;
        int err = run_block(x, &partial, 1, k, row ? x->fresh : x->sofar, room, why);
        if (err)
            return err;
        if (row == 0)
            continue;
        pair(x);
        if ((err = merge(x, &partial, x->pairs, 2, x->sofar, room)))
            return err;
    }
    return merge(x, &p->spec, x->sofar, 1, out, out_room);
}

static bool get_memory(columns *x)
{
    size_t states = x->block < x->p->rows ? (size_t)x->columns * x->state : 0;
    size_t elements = (size_t)(x->block * x->columns);
    x->buffer = malloc(elements * x->size + 1);
    x->mask = x->w->mask ? malloc(elements + 1) : NULL;
    x->sofar = malloc(states + 1);
    x->fresh = malloc(states + 1);
    x->pairs = malloc(2 * states + 1);
    return x->buffer && x->sofar && x->fresh && x->pairs && (x->mask || !x->w->mask);
}

/* For data that the daemon has, or reads itself. */
static int run_direct(ctl_planes *p)
{
    reduce_result r = REDUCE_RESULT_INIT;
    reduce_spec spec = p->spec;
    spec.rows = p->rows;
    spec.planes = p->planes;
    spec.flags |= REDUCE_COLUMNS;
    int err = ctl_direct(p->w, &spec, 0, p->w->in[0].bytes, p->cells, (size_t)(p->planes * p->columns) * p->cell, &r);
    ctl_add_result(&p->sum, &r);
    return err;
}

/* Some planes at a time, or each in blocks. */
static int run_planes(columns *x, char why[CTL_WHY])
{
    const ctl_planes *p = x->p;
    const bool whole = x->block >= p->rows;
    const uint64_t most = whole ? x->block / p->rows : 1;
    int err = 0;
    for (uint64_t plane = 0, k; plane < p->planes && !err; plane += k) {
        k = p->planes - plane < most ? p->planes - plane : most;
        uint8_t *out = p->cells + (size_t)(plane * p->columns) * p->cell;
        size_t room = (size_t)(k * p->columns) * p->cell;
        err = whole ? run_block(x, &p->spec, k, p->rows, out, room, why) : run_blocks(x, out, room, why);
    }
    return err;
}

/* Rows of a block; of whole planes all of theirs. */
static uint64_t rows_of_block(const columns *x)
{
    const ctl_planes *p = x->p;
    uint64_t by_buffer = BUFFER / (x->columns * x->size), by_states = STATES * x->state / x->size;
    uint64_t k = by_buffer > by_states ? by_buffer : by_states;
    if (k < p->rows)
        return k;
    k /= p->rows;
    return (k < p->planes ? k : p->planes) * p->rows;
}

int ctl_planes_run(ctl_planes *p, char why[CTL_WHY])
{
    if (ctl_is_direct(p->w))
        return run_direct(p);
    columns x = {.p = p, .w = p->w, .columns = p->columns};
    x.size = reduce_dtype_size(p->spec.dtype);
    x.state = reduce_state_size(p->spec.op, p->spec.dtype);
    x.block = rows_of_block(&x);
    int err = REDUCE_E_NO_MEMORY;
    if (get_memory(&x))
        err = run_planes(&x, why);
    else
        snprintf(why, CTL_WHY, "no memory for %" PRIu64 " rows of %" PRIu64 " elements", x.block, x.columns);
    free(x.buffer);
    free(x.mask);
    free(x.sofar);
    free(x.fresh);
    free(x.pairs);
    return err;
}
