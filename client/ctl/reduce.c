/* reducectl OP FILE...: each input read in chunks and streamed, so that memory stays small whatever the size. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

enum {
    MAX_REPEATS = 3,         /* of a file whose stream the daemon lost */
    ROWS_BUFFER = 16 << 20,  /* whole rows up to this size go in one reduce_run */
    MAX_CELLS = 1 << 16      /* results of one such run */
};

/* One command's work. */
typedef struct work {
    reduce_client *c;
    const ctl_options *o;
    ctl_progress progress;
} work;

/* ---- whole inputs ---- */

/* Feed up to `bytes` bytes of `in` to the stream. 0, 1 at the end of the input, or negative: an error, with
 * `why` set if it is the input's, empty if it is the stream's. */
static int feed(work *w, reduce_stream *s, ctl_input *in, uint64_t bytes, char why[CTL_WHY])
{
    why[0] = 0;
    while (bytes) {
        void *space;
        size_t room;
        int err = reduce_stream_space(s, &space, &room);
        if (err)
            return err;
        if (room > bytes)
            room = (size_t)bytes;
        long n = ctl_read(in, space, room, why);
        if (n < 0)
            return in->err;
        if (n == 0)
            return 1;
        if ((err = reduce_stream_commit(s, (size_t)n)))
            return err;
        bytes -= (uint64_t)n;
        ctl_progress_add(&w->progress, (uint64_t)n);
    }
    return 0;
}

/* Stream inputs [0, n), all of one type, as one array. 0 or an error as in feed. */
static int stream_all(work *w, ctl_input *in, int n, reduce_result *r, void *cell, char why[CTL_WHY])
{
    reduce_stream *s;
    reduce_spec spec = w->o->spec;
    spec.dtype = in[0].dtype;
    int err = reduce_stream_begin(w->c, &spec, &s);
    why[0] = 0;
    if (err)
        return err;
    for (int i = 0; i < n && err >= 0; i++)
        err = feed(w, s, &in[i], UINT64_MAX, why);
    if (err < 0) {
        reduce_stream_abort(s);
        return err;
    }
    return reduce_stream_finish(s, cell, sizeof(uint64_t), r);
}

static bool rewind_all(ctl_input *in, int n)
{
    for (int i = 0; i < n; i++)
        if (!ctl_rewind(&in[i]))
            return false;
    return true;
}

static int whole(work *w, const char *name, ctl_input *in, int n)
{
    uint64_t cell = 0, total = 0;
    bool sized = true;
    char why[CTL_WHY];
    reduce_result r = REDUCE_RESULT_INIT;
    for (int i = 0; i < n; i++) {
        total += in[i].bytes;
        sized &= in[i].sized;
    }
    int err;
    for (int repeats = 0;; repeats++) {
        ctl_progress_start(&w->progress, name, sized ? total : 0, true);
        err = stream_all(w, in, n, &r, &cell, why);
        ctl_progress_end(&w->progress);
        if (err != REDUCE_E_STREAM_LOST || repeats == MAX_REPEATS || !rewind_all(in, n))
            break;
    }
    if (err)
        return ctl_print_error(w->o, name, err, why[0] ? why : NULL, 0);
    ctl_print_values(w->o, name, &r, &cell, 0);
    if (w->o->verbose)
        ctl_print_details(&in[0], &r);
    return CTL_OK;
}

/* ---- rows ---- */

/* Rows of a file, some at a time. */
typedef struct rows {
    ctl_input *in;
    reduce_spec spec;
    uint64_t n, bytes; /* rows; bytes of one */
    uint8_t *buffer, *cells;
    size_t cell;
    reduce_result sum; /* of all runs, for -v */
} rows;

static void add(reduce_result *sum, const reduce_result *r)
{
    sum->dtype = r->dtype;
    sum->backend = r->backend;
    sum->path = r->path;
    sum->cells += r->cells;
    sum->count += r->count;
    sum->queue_ns += r->queue_ns;
    sum->copy_ns += r->copy_ns;
    sum->compute_ns += r->compute_ns;
    sum->wall_ns += r->wall_ns;
}

/* `k` rows that fit the buffer. */
static int run_block(work *w, rows *x, uint64_t k, reduce_result *r, char why[CTL_WHY])
{
    uint64_t want = k * x->bytes, have = 0;
    while (have < want) {
        long n = ctl_read(x->in, x->buffer + have, (size_t)(want - have), why);
        if (n < 0)
            return x->in->err;
        have += (uint64_t)n;
    }
    x->spec.rows = k;
    ctl_progress_add(&w->progress, want);
    return reduce_run(w->c, &x->spec, x->buffer, (size_t)want, x->cells, (size_t)k * x->cell, r);
}

/* One row that does not. */
static int run_long(work *w, rows *x, reduce_result *r, char why[CTL_WHY])
{
    reduce_stream *s;
    x->spec.rows = 1;
    int err = reduce_stream_begin(w->c, &x->spec, &s);
    if (err)
        return err;
    err = feed(w, s, x->in, x->bytes, why);
    if (err < 0) {
        reduce_stream_abort(s);
        return err;
    }
    return reduce_stream_finish(s, x->cells, x->cell, r);
}

static int each_block(work *w, rows *x, uint64_t *row, char why[CTL_WHY])
{
    uint64_t most = x->bytes ? ROWS_BUFFER / x->bytes : MAX_CELLS;
    if (most > MAX_CELLS)
        most = MAX_CELLS;
    while (*row < x->n) {
        reduce_result r = REDUCE_RESULT_INIT;
        uint64_t k = x->n - *row < most ? x->n - *row : most;
        why[0] = 0;
        int err = most ? run_block(w, x, k, &r, why) : run_long(w, x, &r, why);
        if (err)
            return err;
        ctl_print_values(w->o, x->in->name, &r, x->cells, *row);
        add(&x->sum, &r);
        *row += most ? k : 1;
    }
    return 0;
}

/* Can the input be cut into the rows asked for? */
static int check_rows(const work *w, const ctl_input *in, char why[CTL_WHY])
{
    uint64_t n = w->o->spec.rows, count = in->bytes / reduce_dtype_size(in->dtype);
    if (!in->sized || in->text)
        snprintf(why, CTL_WHY, "--rows needs a binary file of known size");
    else if (in->shuffled)
        snprintf(why, CTL_WHY, "--rows needs C order; this .npy is in Fortran order");
    else if (count % n)
        snprintf(why, CTL_WHY, "%" PRIu64 " elements cannot be cut into %" PRIu64 " equal rows", count, n);
    else
        return 0;
    return REDUCE_E_SHAPE;
}

static int by_rows(work *w, ctl_input *in)
{
    char why[CTL_WHY];
    rows x = {.in = in, .spec = w->o->spec, .n = w->o->spec.rows, .sum = REDUCE_RESULT_INIT};
    int err = check_rows(w, in, why);
    if (err)
        return ctl_print_error(w->o, in->name, err, why, 0);
    uint64_t row = 0;
    x.spec.dtype = in->dtype;
    x.spec.rows = 1;
    x.bytes = in->bytes / x.n;
    if (reduce_result_size(&x.spec, &x.cell))
        return ctl_print_error(w->o, in->name, 0, NULL, 0);
    x.buffer = malloc(x.bytes && x.bytes <= ROWS_BUFFER ? ROWS_BUFFER : 1);
    x.cells = malloc(MAX_CELLS * x.cell);
    ctl_progress_start(&w->progress, in->name, in->bytes, w->o->format == CTL_RAW);
    if (x.buffer && x.cells)
        err = each_block(w, &x, &row, why);
    else
        err = REDUCE_E_NO_MEMORY, snprintf(why, sizeof why, "no memory for a block of rows");
    ctl_progress_end(&w->progress);
    free(x.buffer);
    free(x.cells);
    if (err)
        return ctl_print_error(w->o, in->name, err, why[0] ? why : NULL, row);
    if (w->o->verbose)
        ctl_print_details(in, &x.sum);
    return CTL_OK;
}

/* ---- inputs ---- */

/* An index into Fortran order is not an index into the array. */
static int check_order(const work *w, const ctl_input *in)
{
    if (in->shuffled && (w->o->spec.op == REDUCE_ARGMIN || w->o->spec.op == REDUCE_ARGMAX))
        return ctl_print_error(w->o, in->name, REDUCE_E_SHAPE, "indexes need C order; this .npy is in Fortran order", 0);
    return CTL_OK;
}

static int open_one(const work *w, ctl_input *in, const char *name)
{
    char why[CTL_WHY] = "";
    int err = ctl_open(in, name, w->o, why);
    if (err)
        return ctl_print_error(w->o, in->name, err, why[0] ? why : reduce_strerror(err), 0);
    return check_order(w, in);
}

static int one(work *w, const char *name)
{
    ctl_input in;
    int code = open_one(w, &in, name);
    if (code == CTL_OK)
        code = w->o->by_rows ? by_rows(w, &in) : whole(w, in.name, &in, 1);
    ctl_close(&in);
    return code;
}

static int total(work *w)
{
    int n = w->o->n_files, code = CTL_OK, opened = 0;
    ctl_input *in = calloc((size_t)n, sizeof *in);
    if (!in)
        return ctl_print_error(w->o, "total", REDUCE_E_NO_MEMORY, "no memory for the list of files", 0);
    for (; opened < n && code == CTL_OK; opened++) {
        char why[CTL_WHY];
        code = open_one(w, &in[opened], w->o->files[opened]);
        if (code == CTL_OK && in[opened].dtype != in[0].dtype) {
            snprintf(why, sizeof why, "holds %s, the files before it %s: no total of mixed types",
                     reduce_dtype_name(in[opened].dtype), reduce_dtype_name(in[0].dtype));
            code = ctl_print_error(w->o, in[opened].name, REDUCE_E_TYPE, why, 0);
        }
    }
    if (code == CTL_OK)
        code = whole(w, "total", in, n);
    for (int i = 0; i < opened; i++)
        ctl_close(&in[i]);
    free(in);
    return code;
}

int ctl_reduce(reduce_client *c, const ctl_options *o)
{
    work w = {.c = c, .o = o};
    if (o->total)
        return total(&w);
    int worst = CTL_OK;
    for (int i = 0; i < o->n_files && worst != CTL_NO_DAEMON; i++) {
        int code = one(&w, o->files[i]);
        if (code > worst)
            worst = code;
    }
    return worst;
}
