/* Order statistics of an input, and sums of its elements with weights. They need all elements at once, so these are read into
 * memory, up to a limit. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

enum { FIRST_BLOCK = 1 << 20 };

typedef struct whole_input {
    ctl_work *w;
    const ctl_shape *s;
    reduce_spec spec;
    uint8_t *elements, *mask; /* NULL: they are resident; there is none */
    uint64_t bytes;           /* of the elements */
    uint64_t missing;         /* of a column: elements that the mask leaves out, so that the others keep their indexes */
    uint8_t *weights;         /* NULL: there are none */
    size_t weight_bytes;
    double *edges; /* of a histogram */
    bool in_file;  /* more than may be in memory: the library reads it, again and again */
    uint64_t next; /* the segment that it reads now */
} whole_input;

/* ---- reading ---- */

static int too_much(const whole_input *x, char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "%s needs all elements at once, and they take more than the %" PRIu64 " bytes that --spool allows",
             reduce_op_name(x->spec.op), ctl_spool_limit(x->w->o));
    return REDUCE_E_TOO_LARGE;
}

/* Room for more than the bytes that are there. */
static int grow(whole_input *x, uint64_t *room, char why[CTL_WHY])
{
    const uint64_t limit = ctl_spool_limit(x->w->o);
    if (*room >= limit)
        return too_much(x, why);
    *room = *room ? 2 * *room : FIRST_BLOCK;
    *room = *room < limit ? *room : limit;
    uint8_t *more = realloc(x->elements, (size_t)*room + 1);
    x->elements = more ? more : x->elements;
    if (!more)
        snprintf(why, CTL_WHY, "no memory for %" PRIu64 " bytes of elements", *room);
    return more ? 0 : REDUCE_E_NO_MEMORY;
}

static int read_input(whole_input *x, ctl_input *in, uint64_t *room, char why[CTL_WHY])
{
    for (;;) {
        uint8_t more[8]; /* a whole element */
        const bool full = *room - x->bytes < sizeof more;
        long n = full ? ctl_read(in, more, sizeof more, why)
                      : ctl_read(in, x->elements + x->bytes, (size_t)(*room - x->bytes), why);
        if (n <= 0)
            return n ? in->err : 0;
        if (full) {
            const int err = grow(x, room, why);
            if (err)
                return err;
            if ((uint64_t)n > *room - x->bytes)
                return too_much(x, why);
            memcpy(x->elements + x->bytes, more, (size_t)n);
        }
        x->bytes += (uint64_t)n;
        ctl_progress_add(&x->w->progress, (uint64_t)n);
    }
}

/* An input's elements from `from`, with room and mask for what it misses. Returns how many elements that are. */
static uint64_t spread(const ctl_input *in, const uint8_t *from, uint8_t *to, uint8_t *mask, size_t size)
{
    const ctl_holes *h = &in->holes;
    const uint64_t n = in->done / size + h->count;
    for (uint64_t i = 0, hole = 0; i < n; i++) {
        mask[i] = hole == h->n || h->at[hole] != i;
        hole += !mask[i];
        if (mask[i])
            memcpy(to + i * size, from + (i - hole) * size, size);
    }
    return n;
}

/* Puts what columns miss among their elements, where results have indexes. */
static int put_missing(whole_input *x, size_t size, char why[CTL_WHY])
{
    for (int i = 0; i < x->w->n_in; i++)
        x->missing += x->w->in[i].holes.placed ? x->w->in[i].holes.count : 0;
    if (!x->missing)
        return 0;
    const size_t n = (size_t)(x->bytes / size + x->missing);
    uint8_t *to = calloc(n, size), *mask = calloc(n, 1);
    uint64_t done = 0, at = 0;
    for (int i = 0; i < x->w->n_in && to && mask; i++) {
        at += spread(&x->w->in[i], x->elements + done, to + at * size, mask + at, size);
        done += x->w->in[i].done;
    }
    const bool put = to && mask;
    free(put ? x->elements : to);
    x->elements = put ? to : x->elements;
    x->mask = mask;
    x->bytes = put ? n * size : x->bytes;
    if (!put)
        snprintf(why, CTL_WHY, "no memory for %zu elements", n);
    return put ? 0 : REDUCE_E_NO_MEMORY;
}

/* All inputs, one behind the other, and their mask. */
static int read_all(whole_input *x, char why[CTL_WHY])
{
    const uint64_t size = reduce_dtype_size(x->spec.dtype);
    uint64_t room = 0;
    size_t kept = 0;
    int err = grow(x, &room, why);
    for (int i = 0; i < x->w->n_in && !err; i++)
        err = read_input(x, &x->w->in[i], &room, why);
    if (!err && x->w->mask)
        err = ctl_read_all(x->w->mask, &x->mask, &kept, why);
    if (!err && x->w->weights)
        err = ctl_read_all(x->w->weights, &x->weights, &x->weight_bytes, why);
    if (err)
        return err;
    if (x->bytes % size)
        snprintf(why, CTL_WHY, "the last element is cut");
    else if (x->w->mask && kept != x->bytes / size)
        snprintf(why, CTL_WHY, "the mask has %zu bytes for %" PRIu64 " elements", kept, x->bytes / size);
    else
        return put_missing(x, (size_t)size, why);
    return REDUCE_E_SHAPE;
}

/* ---- shapes ---- */

/* Lengths and strides of the array with the kept axes first, in the order of the results and their indexes. */
static int rearranged(const ctl_axes *a, uint64_t shape[CTL_MAX_DIMS], uint64_t stride[CTL_MAX_DIMS])
{
    uint64_t apart[CTL_MAX_DIMS], elements = 1;
    int n = 0;
    for (int d = a->n - 1; d >= 0; d--) {
        apart[d] = elements;
        elements *= a->len[d];
    }
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < a->n; i++) {
            const int d = a->turned ? a->n - 1 - i : i;
            if (a->reduced[d] != pass)
                continue;
            shape[n] = a->len[d];
            stride[n++] = apart[d];
        }
    return n;
}

static bool permute(uint8_t **data, size_t element, uint64_t bytes, const ctl_axes *a)
{
    uint64_t shape[CTL_MAX_DIMS], stride[CTL_MAX_DIMS];
    uint8_t *to = malloc((size_t)bytes + 1);
    if (!to)
        return false;
    ctl_permute(to, *data, element, rearranged(a, shape, stride), shape, stride);
    free(*data);
    *data = to;
    return true;
}

/* Axes that the spec can say: reduced ones between kept ones, or around them. In Fortran order the `indexes` of several reduced
 * ones run against memory. */
static bool plain_axes(reduce_spec *spec, const ctl_axes *a, bool indexes)
{
    int kept = 0;
    for (int i = 0; i < a->n; i++)
        kept += !a->reduced[i];
    if (a->n > 3 || (a->turned && (kept > 1 || (indexes && a->n - kept > 1))))
        return false;
    const bool planes = a->n == 3 || (a->n == 2 && !a->reduced[0]);
    const int middle = planes && a->n > 1 ? 1 : 0;
    spec->planes = planes ? a->len[0] : 0;
    spec->rows = a->len[middle];
    if (a->reduced[middle])
        spec->flags |= REDUCE_COLUMNS;
    return a->n > 1;
}

/* One for each element, or for each place along the axis that is reduced, or along the others. */
static int set_weights(whole_input *x, char why[CTL_WHY])
{
    reduce_spec *spec = &x->spec;
    const bool columns = spec->flags & REDUCE_COLUMNS;
    const uint64_t size = reduce_dtype_size(x->w->weights->dtype), n = x->weight_bytes / size,
                   all = x->bytes / reduce_dtype_size(spec->dtype), planes = spec->planes ? spec->planes : 1,
                   row_len = spec->offsets || !spec->rows ? all : all / spec->rows / planes;
    spec->weights = x->weights;
    spec->weights_dtype = x->w->weights->dtype;
    if (n == all && x->weight_bytes % size == 0)
        return 0;
    if (!spec->offsets && n == (columns ? spec->rows : row_len))
        spec->weights_extent = columns ? REDUCE_EACH_ROW : REDUCE_EACH_COLUMN;
    else if (!spec->offsets && n == (columns ? row_len : spec->rows))
        spec->weights_extent = columns ? REDUCE_EACH_COLUMN : REDUCE_EACH_ROW;
    else
        snprintf(why, CTL_WHY, "%" PRIu64 " weights for %" PRIu64 " elements: as many, or one for each place along an axis", n,
                 all);
    return why[0] ? REDUCE_E_SHAPE : 0;
}

/* Puts the shape into the spec; elements in memory are put in order where the spec cannot say it. */
static int set_shape(whole_input *x, char why[CTL_WHY])
{
    const ctl_shape *s = x->s;
    x->spec.rows = s->layout == CTL_WHOLE ? 1 : s->lines;
    x->spec.offsets = s->offsets;
    if (s->layout != CTL_COLUMNS || plain_axes(&x->spec, &s->axes, ctl_needs_indexes(x->w->o)))
        return 0;
    x->spec.rows = s->lines;
    x->spec.planes = 0;
    x->spec.flags &= ~(uint32_t)REDUCE_COLUMNS;
    if (!x->elements) {
        snprintf(why, CTL_WHY, "these axes of resident data have no %s", reduce_op_name(x->spec.op));
        return REDUCE_E_SHAPE;
    }
    const size_t size = reduce_dtype_size(x->spec.dtype), n = (size_t)x->bytes / size;
    const size_t weight = x->weights ? reduce_dtype_size(x->w->weights->dtype) : 0;
    if (permute(&x->elements, size, x->bytes, &s->axes) && (!x->mask || permute(&x->mask, 1, n, &s->axes)) &&
        (!weight || x->weight_bytes != n * weight || permute(&x->weights, weight, x->weight_bytes, &s->axes)))
        return 0;
    snprintf(why, CTL_WHY, "no memory for twice the array, which these axes need");
    return REDUCE_E_NO_MEMORY;
}

/* Is there too much for memory, but in a file that can be read again, with lines that lie in one piece each, or columns? */
static bool stays_in_file(const ctl_work *w, const ctl_shape *s)
{
    const ctl_input *in = &w->in[0];
    reduce_spec spec = w->spec;
    return w->n_in == 1 && !in->resident && ctl_in_file(in) && in->bytes > ctl_spool_limit(w->o) && !w->mask && !w->weights &&
           (s->layout != CTL_COLUMNS ||
            (plain_axes(&spec, &s->axes, ctl_needs_indexes(w->o)) && spec.flags & REDUCE_COLUMNS)) &&
           !(ctl_shuffled(in) && ctl_needs_indexes(w->o));
}

/* ---- running ---- */

/* Segments of a file, one after the other. */
static int run_segments(whole_input *x, const reduce_spec *spec, uint8_t *cells, size_t room, reduce_result *r)
{
    const ctl_input *in = &x->w->in[0];
    const uint64_t size = reduce_dtype_size(spec->dtype), cell = room / spec->rows;
    reduce_spec one = *spec;
    one.offsets = NULL;
    one.rows = 1;
    for (x->next = 0; x->next < spec->rows; x->next++) {
        const uint64_t *at = spec->offsets + x->next;
        reduce_result part = REDUCE_RESULT_INIT;
        one.deadline_ms = ctl_time_left();
        const int err = reduce_file(x->w->c, &one, in->fd, in->start + at[0] * size, (at[1] - at[0]) * size,
                                    cells + x->next * cell, (size_t)cell, &part);
        if (err)
            return err;
        if (r) {
            ctl_add_result(r, &part);
            r->cell_size = part.cell_size;
        }
    }
    x->next = 0;
    return 0;
}

static int run_spec(whole_input *x, reduce_spec *spec, void *cells, size_t room, reduce_result *r)
{
    const char *name = x->w->in[0].resident;
    spec->mask = x->mask;
    spec->deadline_ms = ctl_time_left(); /* reading took some of it */
    if (name)
        return reduce_named(x->w->c, spec, name, 0, x->w->in[0].bytes, cells, room, r);
    if (x->in_file && spec->offsets)
        return run_segments(x, spec, cells, room, r);
    if (x->in_file)
        return reduce_file(x->w->c, spec, x->w->in[0].fd, x->w->in[0].start, x->w->in[0].bytes, cells, room, r);
    return reduce_run(x->w->c, spec, x->elements, (size_t)x->bytes, cells, room, r);
}

/* Cells of stats, and quartiles behind each. */
static int run_stats(whole_input *x, uint8_t *cells, uint64_t lines, reduce_result *r)
{
    static const double q[CTL_QUARTILES] = {0.25, 0.5, 0.75};
    const size_t stats = sizeof(reduce_stats), quartiles = sizeof q, each = stats + quartiles;
    reduce_spec spec = x->spec;
    uint8_t *other = malloc(lines * quartiles);
    int err = other ? run_spec(x, &x->spec, cells, lines * stats, r) : REDUCE_E_NO_MEMORY;
    if (!err && x->missing) { /* of a column, which has one result */
        reduce_stats s;
        memcpy(&s, cells, sizeof s);
        s.nans += x->missing;
        memcpy(cells, &s, sizeof s);
    }
    spec.op = REDUCE_QUANTILE;
    spec.ddof = 0;
    spec.index_base = 0;
    spec.q = q;
    spec.quantiles = CTL_QUARTILES;
    if (!err)
        err = run_spec(x, &spec, other, lines * quartiles, NULL);
    for (uint64_t i = lines; !err && i-- > 0;) {
        memmove(cells + i * each, cells + i * stats, stats);
        memcpy(cells + i * each + stats, other + i * quartiles, quartiles);
    }
    r->cell_size = each;
    free(other);
    return err;
}

static int run(whole_input *x, uint8_t *cells, uint64_t lines, size_t cell, reduce_result *r)
{
    return x->w->o->quantiles ? run_stats(x, cells, lines, r) : run_spec(x, &x->spec, cells, (size_t)(lines * cell), r);
}

/* ---- edges ---- */

/* A whole number as a double that is not above it, or with `up` not below it. */
static double outwards(__int128 v, bool up)
{
    const double d = (double)v;
    const bool beyond = up ? (__int128)d < v : (__int128)d > v;
    return beyond ? nextafter(d, up ? INFINITY : -INFINITY) : d;
}

/* The least and the largest element, or doubles around them; 0 and 1 if there are none. */
static int find_ends(whole_input *x, double ends[2], char why[CTL_WHY])
{
    reduce_spec spec = x->spec;
    spec.op = REDUCE_MINMAX;
    spec.nan = REDUCE_NAN_OMIT;
    spec.out = 0;
    spec.edges = NULL;
    spec.n_edges = 0;
    spec.flags = 0;
    spec.rows = 1;
    spec.planes = 0;
    spec.offsets = NULL;
    union {
        double f64[2];
        int64_t i64[2];
        uint64_t u64[2];
    } v;
    reduce_result r = REDUCE_RESULT_INIT;
    const int err = run_spec(x, &spec, &v, sizeof v, &r);
    for (int i = 0; i < 2; i++)
        ends[i] = err                     ? i
                  : r.dtype == REDUCE_F64 ? v.f64[i]
                                          : outwards(r.dtype == REDUCE_I64 ? (__int128)v.i64[i] : (__int128)v.u64[i], i);
    if (err && err != REDUCE_E_EMPTY)
        return err;
    if (ends[1] - ends[0] <= DBL_MAX && ends[0] >= -DBL_MAX && ends[1] <= DBL_MAX)
        return 0;
    snprintf(why, CTL_WHY, "the elements reach from %g to %g, which equal bins cannot: --edges names them", ends[0], ends[1]);
    return REDUCE_E_SHAPE;
}

/* Bins of equal width, as numpy.histogram has them for doubles. */
static int equal_bins(whole_input *x, uint64_t bins, char why[CTL_WHY])
{
    double ends[2];
    const int err = find_ends(x, ends, why);
    if (!err && ends[0] == ends[1]) {
        ends[0] -= 0.5;
        ends[1] += 0.5;
    }
    const double step = (ends[1] - ends[0]) / (double)bins;
    for (uint64_t i = 0; i <= bins; i++)
        x->edges[i] = (step != 0 ? (double)i * step : (double)i / (double)bins * (ends[1] - ends[0])) + ends[0];
    x->edges[bins] = ends[1];
    return err;
}

static int find_edges(whole_input *x, char why[CTL_WHY])
{
    const ctl_options *o = x->w->o;
    if (x->spec.op != REDUCE_HISTOGRAM)
        return 0;
    x->edges = calloc(REDUCE_MAX_EDGES, sizeof *x->edges);
    x->spec.edges = x->edges;
    x->spec.n_edges = o->bins ? o->bins + 1 : ctl_parse_edges(NULL, o->edges, why);
    if (!x->edges) {
        snprintf(why, CTL_WHY, "no memory for edges");
        return REDUCE_E_NO_MEMORY;
    }
    if (o->bins)
        return equal_bins(x, o->bins, why);
    ctl_parse_edges(x->edges, o->edges, why);
    return 0;
}

static int print(const whole_input *x, int err, const char *why, const reduce_result *r, const void *cells)
{
    const ctl_options *o = x->w->o;
    const ctl_where where = {.name = x->w->name,
                             .unit = x->s->unit,
                             .first = err ? x->next : 0,
                             .offsets = x->s->offsets,
                             .expected = x->w->expected,
                             .edges = x->edges,
                             .n_edges = x->spec.n_edges};
    if (err && x->w->in[0].reader && ctl_reader_mistaken(x->w->in[0].reader)) {
        x->w->mistaken = true;
        return CTL_FAILED;
    }
    if (err)
        return ctl_print_error(o, &where, err, why[0] ? why : NULL);
    ctl_print_cells(o, &where, r, cells);
    if (o->verbose)
        ctl_print_details(&x->w->in[0], r, &x->w->expected);
    return CTL_OK;
}

int ctl_reduce_at_once(ctl_work *w, const ctl_shape *s)
{
    whole_input x = {.w = w, .s = s, .spec = w->spec};
    char why[CTL_WHY] = "";
    reduce_result r = REDUCE_RESULT_INIT;
    const uint64_t lines = s->layout == CTL_WHOLE ? 1 : s->lines;
    size_t cell = 0;
    uint8_t *cells = NULL;
    ctl_progress_start(&w->progress, w->name, w->in[0].sized ? w->in[0].bytes : 0, true, w->o->progress);
    x.in_file = stays_in_file(w, s);
    int err = w->in[0].resident || x.in_file ? 0 : read_all(&x, why);
    ctl_progress_end(&w->progress);
    if (!err)
        err = find_edges(&x, why);
    if (!err)
        err = reduce_result_size(&x.spec, 0, &cell);
    if (!err)
        err = set_shape(&x, why);
    if (!err && w->weights)
        err = set_weights(&x, why);
    if (w->o->quantiles)
        cell += CTL_QUARTILES * sizeof(double);
    if (!err && !(cells = malloc((size_t)(lines * cell) + 1))) {
        snprintf(why, sizeof why, "no memory for %" PRIu64 " results", lines);
        err = REDUCE_E_NO_MEMORY;
    }
    if (!err && lines)
        err = run(&x, cells, lines, cell, &r);
    const int code = lines || err ? print(&x, err, why, &r, cells) : CTL_OK;
    free(x.elements);
    free(x.mask);
    free(x.edges);
    free(x.weights);
    free(cells);
    return code;
}
