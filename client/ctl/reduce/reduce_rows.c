/* Results of many lines (rows or segments) that are stored one after the other in an input, some lines at a time. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

enum {
    BUFFER = 16 << 20,  /* bytes of elements: lines up to this size go in one reduce_run */
    DIRECT = 1 << 30,   /* the same of a file that the daemon reads, which costs no memory here */
    CELLS = 8 << 20,    /* bytes of results of one such run, and */
    MAX_LINES = 1 << 16 /* how many at most */
};

typedef struct lines {
    ctl_work *w;
    const ctl_shape *s;
    bool direct;         /* the daemon reads the file: the buffer is not used */
    uint64_t size, fit;  /* bytes of an element; elements that the buffer holds */
    uint64_t most, cell; /* lines of one run; bytes of a result */
    uint8_t *buffer, *mask, *cells;
    uint64_t *offsets; /* most + 1, of a run */
    uint64_t line, at; /* the next line, the next element to read */
    reduce_result sum; /* of all runs, for -v */
} lines;

static uint64_t start_of(const lines *x, uint64_t line) { return x->s->offsets ? x->s->offsets[line] : line * x->s->len; }

/* Elements between segments are read and dropped. */
static int skip(lines *x, char why[CTL_WHY])
{
    uint64_t to = start_of(x, x->line);
    while (x->at < to) {
        uint64_t n = to - x->at < x->fit ? to - x->at : x->fit;
        int err = ctl_take(x->w, x->buffer, x->mask, n, why);
        if (err)
            return err;
        x->at += n;
    }
    return 0;
}

/* How many lines from the next one on fit the buffer; 0: not even one. */
static uint64_t how_many(const lines *x)
{
    uint64_t n = 0, begin = start_of(x, x->line);
    while (n < x->most && x->line + n < x->s->lines && start_of(x, x->line + n + 1) - begin <= x->fit)
        n++;
    return n;
}

/* Rows that the daemon reads from the file itself. */
static int run_direct(lines *x, const reduce_spec *spec, uint64_t begin, uint64_t n, reduce_result *r)
{
    size_t room = (size_t)(spec->rows * x->cell);
    int err = ctl_direct(x->w, spec, begin * x->size, n * x->size, x->cells, room, r);
    x->at += n;
    return err;
}

static int run(lines *x, uint64_t k, reduce_result *r, char why[CTL_WHY])
{
    uint64_t begin = start_of(x, x->line), n = start_of(x, x->line + k) - begin;
    reduce_spec spec = x->w->spec;
    spec.rows = k;
    if (x->direct)
        return run_direct(x, &spec, begin, n, r);
    int err = ctl_take(x->w, x->buffer, x->mask, n, why);
    if (err)
        return err;
    spec.mask = x->mask;
    if (x->s->offsets) {
        for (uint64_t i = 0; i <= k; i++)
            x->offsets[i] = start_of(x, x->line + i) - begin;
        spec.offsets = x->offsets;
    }
    x->at += n;
    return ctl_run(x->w->c, &spec, x->buffer, (size_t)(n * x->size), x->cells, (size_t)(k * x->cell), r);
}

/* A line that the buffer does not hold. */
static int run_long(lines *x, reduce_result *r, char why[CTL_WHY])
{
    uint64_t n = start_of(x, x->line + 1) - start_of(x, x->line);
    if (x->direct)
        return run_direct(x, &x->w->spec, start_of(x, x->line), n, r);
    x->at += n;
    return ctl_stream(x->w, &x->w->spec, n, x->cells, (size_t)x->cell, r, why);
}

static int run_all(lines *x, char why[CTL_WHY])
{
    while (x->line < x->s->lines) {
        reduce_result r = REDUCE_RESULT_INIT;
        why[0] = 0;
        int err = skip(x, why);
        uint64_t k = how_many(x);
        if (!err)
            err = k ? run(x, k, &r, why) : run_long(x, &r, why);
        if (err)
            return err;
        const ctl_where where = {.name = x->w->name,
                                 .unit = x->s->unit,
                                 .first = x->line,
                                 .offsets = x->s->offsets ? x->s->offsets + x->line : NULL,
                                 .expected = x->w->expected};
        ctl_print_cells(x->w->o, &where, &r, x->cells);
        ctl_add_result(&x->sum, &r);
        x->line += k ? k : 1;
    }
    return 0;
}

static bool get_memory(lines *x)
{
    x->buffer = malloc(x->direct ? 1 : (size_t)(x->fit * x->size));
    x->mask = x->w->mask ? malloc((size_t)x->fit) : NULL;
    x->cells = malloc((size_t)(x->most * x->cell) + 1);
    x->offsets = malloc((size_t)(x->most + 1) * sizeof *x->offsets);
    return x->buffer && x->cells && x->offsets && (x->mask || !x->w->mask);
}

int ctl_reduce_rows(ctl_work *w, const ctl_shape *s)
{
    char why[CTL_WHY] = "";
    size_t cell;
    ctl_where where = {.name = w->name, .unit = s->unit, .expected = w->expected};
    if (reduce_result_size(&w->spec, 0, &cell))
        return ctl_print_error(w->o, &where, 0, NULL);
    lines x = {.w = w, .s = s, .cell = cell, .size = reduce_dtype_size(w->spec.dtype), .sum = REDUCE_RESULT_INIT};
    x.direct = ctl_is_direct(w) && !s->offsets;
    x.fit = (x.direct ? DIRECT : BUFFER) / x.size;
    x.most = CELLS / cell < MAX_LINES ? CELLS / cell : MAX_LINES;
    if (x.most > s->lines)
        x.most = s->lines;
    ctl_progress_start(&w->progress, w->name, w->in[0].bytes, w->o->format == CTL_RAW, w->o->progress);
    int err = REDUCE_E_NO_MEMORY;
    if (get_memory(&x))
        err = run_all(&x, why);
    else
        snprintf(why, sizeof why, "no memory for a block of %ss", s->unit);
    ctl_progress_end(&w->progress);
    free(x.buffer);
    free(x.mask);
    free(x.cells);
    free(x.offsets);
    where.first = x.line;
    if (err)
        return ctl_print_error(w->o, &where, err, why[0] ? why : NULL);
    if (w->o->verbose)
        ctl_print_details(&w->in[0], &x.sum, &w->expected);
    return CTL_OK;
}
