/* A result for each column of a matrix that lies row after row in an input. One that is larger than the buffer goes in blocks
 * of rows: the states of a block are merged into those of the blocks before it, so that memory depends on the number of columns
 * alone. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

enum {
    BUFFER = 64 << 20, /* bytes of rows read at a time, or, if that is more, */
    STATES = 16        /* as much of each column as so many of its states: merging is little work then */
};

typedef struct columns {
    ctl_work *w;
    uint64_t columns, rows; /* of the matrix */
    uint64_t block;         /* rows of a block */
    size_t size, state;     /* bytes of an element, of a partial state */
    uint8_t *buffer, *mask;
    uint8_t *sofar, *fresh; /* a state for each column, of the blocks before and of this one */
    uint8_t *pairs;         /* both, column after column */
    uint8_t *cells;         /* the results */
    size_t room;            /* their bytes */
    reduce_result sum;
} columns;

/* Read k rows and reduce them under `spec`. */
static int run_block(columns *x, const reduce_spec *given, uint64_t k, void *out, size_t room, char why[CTL_WHY])
{
    reduce_result r = REDUCE_RESULT_INIT;
    reduce_spec spec = *given;
    int err = ctl_take(x->w, x->buffer, x->mask, k * x->columns, why);
    if (err)
        return err;
    spec.rows = k;
    spec.flags |= REDUCE_COLUMNS;
    spec.mask = x->mask;
    err = ctl_run(x->w->c, &spec, x->buffer, (size_t)(k * x->columns) * x->size, out, room, &r);
    ctl_add_result(&x->sum, &r);
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
    ctl_add_result(&x->sum, &r);
    return err;
}

static void pair(columns *x)
{
    for (uint64_t i = 0; i < x->columns; i++) {
        memcpy(x->pairs + 2 * i * x->state, x->sofar + i * x->state, x->state);
        memcpy(x->pairs + (2 * i + 1) * x->state, x->fresh + i * x->state, x->state);
    }
}

static int run_blocks(columns *x, char why[CTL_WHY])
{
    reduce_spec partial = x->w->spec;
    partial.initial = NULL; /* goes in at the end */
    partial.flags |= REDUCE_STATES_OUT;
    size_t room = (size_t)x->columns * x->state;
    for (uint64_t row = 0; row < x->rows; row += x->block) {
        uint64_t k = x->rows - row < x->block ? x->rows - row : x->block;
        partial.index_base = x->w->spec.index_base + row;
        int err = run_block(x, &partial, k, row ? x->fresh : x->sofar, room, why);
        if (err)
            return err;
        if (row == 0)
            continue;
        pair(x);
        if ((err = merge(x, &partial, x->pairs, 2, x->sofar, room)))
            return err;
    }
    return merge(x, &x->w->spec, x->sofar, 1, x->cells, x->room);
}

static bool get_memory(columns *x)
{
    size_t states = x->block < x->rows ? (size_t)x->columns * x->state : 0;
    size_t elements = (size_t)(x->block * x->columns);
    x->buffer = malloc(elements * x->size + 1);
    x->mask = x->w->mask ? malloc(elements + 1) : NULL;
    x->sofar = malloc(states + 1);
    x->fresh = malloc(states + 1);
    x->pairs = malloc(2 * states + 1);
    x->cells = malloc(x->room + 1);
    return x->buffer && x->sofar && x->fresh && x->pairs && x->cells && (x->mask || !x->w->mask);
}

static int run_resident(columns *x, char why[CTL_WHY])
{
    reduce_result r = REDUCE_RESULT_INIT;
    reduce_spec spec = x->w->spec;
    spec.rows = x->rows;
    spec.flags |= REDUCE_COLUMNS;
    x->cells = malloc(x->room + 1);
    if (!x->cells) {
        snprintf(why, CTL_WHY, "no memory for %" PRIu64 " results", x->columns);
        return REDUCE_E_NO_MEMORY;
    }
    int err = ctl_direct(x->w, &spec, 0, x->w->in[0].bytes, x->cells, x->room, &r);
    ctl_add_result(&x->sum, &r);
    return err;
}

static int run(columns *x, char why[CTL_WHY])
{
    if (x->w->in[0].resident)
        return run_resident(x, why);
    if (!get_memory(x)) {
        snprintf(why, CTL_WHY, "no memory for %" PRIu64 " rows of %" PRIu64 " elements", x->block, x->columns);
        return REDUCE_E_NO_MEMORY;
    }
    if (x->block < x->rows)
        return run_blocks(x, why);
    return run_block(x, &x->w->spec, x->rows, x->cells, x->room, why);
}

static uint64_t rows_of_block(const columns *x)
{
    uint64_t by_buffer = x->columns ? BUFFER / (x->columns * x->size) : x->rows, by_states = STATES * x->state / x->size;
    uint64_t k = by_buffer > by_states ? by_buffer : by_states;
    return k < x->rows ? k : x->rows;
}

int ctl_reduce_columns(ctl_work *w, const ctl_shape *s)
{
    char why[CTL_WHY] = "";
    size_t cell;
    ctl_where where = {.name = w->name, .unit = s->unit};
    if (reduce_result_size(&w->spec, 0, &cell))
        return ctl_print_error(w->o, &where, 0, NULL);
    columns x = {.w = w, .columns = s->lines, .rows = s->len, .sum = REDUCE_RESULT_INIT};
    x.size = reduce_dtype_size(w->spec.dtype);
    x.state = reduce_state_size(w->spec.op, w->spec.dtype);
    x.room = (size_t)s->lines * cell;
    x.block = rows_of_block(&x);
    ctl_progress_start(&w->progress, w->name, w->in[0].bytes, true, w->o->progress);
    int err = run(&x, why);
    ctl_progress_end(&w->progress);
    if (!err) {
        x.sum.cells = s->lines;
        x.sum.cell_size = cell;
        ctl_print_cells(w->o, &where, &x.sum, x.cells);
    }
    free(x.buffer);
    free(x.mask);
    free(x.sofar);
    free(x.fresh);
    free(x.pairs);
    free(x.cells);
    if (err)
        return ctl_print_error(w->o, &where, err, why[0] ? why : NULL);
    if (w->o->verbose)
        ctl_print_details(&w->in[0], &x.sum);
    return CTL_OK;
}
