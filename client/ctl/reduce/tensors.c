/* The statistics of all arrays of a file as one table, from one pass over each, several under way at once. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/formats/container.h"
#include "client/ctl/text/screen_text.h"
#include "proto/types.h"

enum {
    UNDER_WAY = 16, /* arrays at once: enough that small ones do not wait for each other's round trips */
    STATE = 872,    /* bytes of the largest state of stats */
    SHOWN = 8,      /* values of a line */
    COLUMNS = SHOWN + 2,
    NANS_LIMB = 5, /* behind the sums: RK_STATS_NANS of PROTOCOL.md, "STATS" */
    OTHER_LIMBS = 6
};

static const char *const NAMES[SHOWN] = {"count", "nans", "zeros", "min", "max", "mean", "std", "norm2"};

typedef struct line {
    const ctl_array *array;
    bool streamed; /* it is sent, because the daemon cannot read it from the file */
    reduce_job *job;
    _Alignas(8) uint8_t state[STATE];
    int err;
    char why[CTL_WHY];
    char text[SHOWN][CTL_MAX_NUMBER];
} line;

typedef struct table {
    reduce_client *c;
    const ctl_options *o;
    const char *file;
    int fd;
    line *lines;
    size_t n;
    ctl_progress progress;
} table;

/* ---- states ---- */

static reduce_spec spec_of(const table *t, int op, int dtype, uint32_t flags)
{
    reduce_spec s = t->o->spec;
    s.op = op;
    s.dtype = dtype;
    s.rows = 1;
    s.flags = flags;
    s.out = 0;
    return s;
}

/* A state of norm2 is the part of a state of stats that holds the sum of squares: PROTOCOL.md has both layouts. */
static void norm2_state(const uint8_t *stats, int dtype, uint8_t *out)
{
    size_t all = reduce_state_size(REDUCE_STATS, dtype), size = reduce_state_size(REDUCE_NORM2, dtype), head = 16;
    const uint8_t *others = stats + all - 8 * OTHER_LIMBS;
    uint64_t nans;
    memcpy(&nans, others + 8 * NANS_LIMB, sizeof nans);
    memcpy(out, stats, head);
    memcpy(out + head, others - (size - head), size - head);
    out[0] = dtype == REDUCE_F64 ? RP_STATE_SQ64 : ctl_is_float(dtype) ? RP_STATE_SQ32 : RP_STATE_SQINT;
    if (stats[1]) /* of a sum: 1 +inf, 2 -inf, 3 both or a NaN; of squares: 1 infinite, 3 a NaN */
        out[1] = nans && !stats[3] ? 3 : 1;
    out[2] = 0;
}

/* This is done here and not by the daemon: with hundreds of tensors two exchanges for each would take half of the time. */
static int finish_state(table *t, int op, int dtype, const uint8_t *state, void *value, size_t room)
{
    reduce_spec s = spec_of(t, op, dtype, 0);
    s.path = 0;
    s.ddof = op == REDUCE_STATS ? s.ddof : 0;
    return reduce_state_finish(state, reduce_state_size(op, dtype), &s, value, room);
}

/* Of which type the least, the largest and the sum of elements are. */
static int type_of_stats(int dtype)
{
    return ctl_is_float(dtype) ? REDUCE_F64 : ctl_is_signed(dtype) ? REDUCE_I64 : REDUCE_U64;
}

static int finish(table *t, line *l)
{
    uint8_t squares[STATE];
    reduce_stats stats;
    double norm2;
    ctl_value v[CTL_MAX_VALUES];
    const int dtype = l->array->dtype;
    bool hex = t->o->format == CTL_HEX;
    norm2_state(l->state, dtype, squares);
    int err = finish_state(t, REDUCE_STATS, dtype, l->state, &stats, sizeof stats);
    if (!err)
        err = finish_state(t, REDUCE_NORM2, dtype, squares, &norm2, sizeof norm2);
    if (err)
        return err;
    int n = ctl_values(v, REDUCE_STATS, type_of_stats(dtype), &stats, sizeof stats, hex);
    for (int i = 0; i < SHOWN - 1; i++)
        for (int k = 0; k < n; k++)
            if (!strcmp(NAMES[i], v[k].name))
                snprintf(l->text[i], CTL_MAX_NUMBER, "%s", v[k].text);
    ctl_number(l->text[SHOWN - 1], REDUCE_F64, &norm2, hex);
    return 0;
}

/* ---- passes over the elements ---- */

static uint64_t bytes_of(const ctl_array *a) { return a->count * reduce_dtype_size(a->dtype); }

/* Keep the error of this thread's last call, if `why` has none of our own. */
static void keep_error(line *l, int err)
{
    reduce_fault f = REDUCE_FAULT_INIT;
    l->err = err;
    if (!err || l->why[0])
        return;
    reduce_last_fault(&f);
    snprintf(l->why, sizeof l->why, "%s", f.text[0] ? f.text : reduce_strerror(err));
}

static void submit(table *t, line *l)
{
    const ctl_array *a = l->array;
    reduce_spec s = spec_of(t, REDUCE_STATS, a->dtype, REDUCE_STATES_OUT);
    s.ddof = 0;
    l->streamed = a->coding != CTL_PLAIN || a->swapped || a->masked || s.path == REDUCE_PATH_STREAM;
    if (a->dtype && !l->streamed)
        keep_error(l, reduce_submit_file(t->c, &s, t->fd, a->offset, bytes_of(a), l->state, STATE, NULL, NULL, &l->job));
}

static void stream(table *t, line *l)
{
    ctl_input in;
    ctl_options o = *t->o;
    ctl_work w = {.c = t->c, .o = &o, .in = &in, .n_in = 1};
    ctl_input mask = {.fd = -1};
    char *name = NULL;
    if (asprintf(&name, "%s:%s", t->file, l->array->name) < 0) {
        keep_error(l, REDUCE_E_NO_MEMORY);
        return;
    }
    ctl_source source = {.name = name, .no_scale = o.no_scale, .array = l->array};
    int err = ctl_open(&in, &source, l->why);
    w.spec = spec_of(t, REDUCE_STATS, l->array->dtype, REDUCE_STATES_OUT);
    w.spec.ddof = 0;
    reduce_result r = REDUCE_RESULT_INIT;
    if (!err && ctl_has_own_mask(&w))
        err = ctl_own_mask(&w, &mask, l->why);
    if (!err)
        err = ctl_stream(&w, &w.spec, UINT64_MAX, l->state, STATE, &r, l->why);
    keep_error(l, err);
    ctl_close(&mask);
    ctl_close(&in);
    free(name);
}

static void take(table *t, line *l)
{
    reduce_result r = REDUCE_RESULT_INIT;
    if (!l->array->dtype || l->err)
        return;
    if (l->streamed)
        stream(t, l);
    else
        keep_error(l, ctl_wait(l->job, NULL, &r)), l->job = NULL;
    if (!l->err)
        keep_error(l, finish(t, l));
    ctl_progress_add(&t->progress, bytes_of(l->array));
}

/* ---- printing ---- */

static const char *cell(const line *l, int column)
{
    static const char *const note[] = {"not supported", "failed"};
    if (column == 0)
        return l->array->name;
    if (column == 1)
        return l->array->type;
    if (!l->array->dtype || l->err)
        return column == 2 ? note[l->array->dtype != 0] : "";
    return l->text[column - 2];
}

static void print_line(const int width[COLUMNS], const char *(*cell_of)(const line *, int), const line *l)
{
    for (int i = 0; i < COLUMNS; i++) {
        const char *text = cell_of(l, i);
        if (!text[0]) /* nothing more in this line */
            break;
        fputs(i ? "  " : "", stdout);
        if (i < 2)
            ctl_put_text(stdout, text, width[i]);
        else
            printf("%*s", width[i], text);
    }
    putchar('\n');
}

static const char *heading(const line *l, int column)
{
    (void)l;
    return column == 0 ? "array" : column == 1 ? "type" : column == 2 ? "elements" : NAMES[column - 2];
}

static void print_table(const table *t)
{
    int width[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        width[i] = ctl_columns(heading(NULL, i));
        for (size_t k = 0; k < t->n; k++) {
            const int columns = ctl_columns(cell(&t->lines[k], i));
            width[i] = columns > width[i] ? columns : width[i];
        }
    }
    if (t->o->n_files > 1)
        ctl_put_text(stdout, t->file, 0), putchar('\n');
    print_line(width, heading, NULL);
    for (size_t k = 0; k < t->n; k++)
        print_line(width, cell, &t->lines[k]);
    fflush(stdout);
}

static void print_json(const table *t, const line *l)
{
    if (l->err) /* ctl_print_error has reported it */
        return;
    fputs("{\"file\":", stdout);
    ctl_json_string(stdout, t->file);
    fputs(",\"array\":", stdout);
    ctl_json_string(stdout, l->array->name);
    fputs(",\"type\":", stdout);
    ctl_json_string(stdout, l->array->type);
    fputs(",\"shape\":[", stdout);
    for (int i = 0; i < l->array->dims; i++)
        printf("%s%" PRIu64, i ? "," : "", l->array->shape[i]);
    fputs(l->array->dtype ? "],\"value\":{" : "],\"value\":null", stdout);
    for (int i = 0; i < SHOWN && l->array->dtype; i++) {
        printf("%s\"%s\":", i ? "," : "", NAMES[i]);
        ctl_json_value(t->o, l->text[i]);
    }
    puts(l->array->dtype ? "}}" : "}");
}

static int print_error(const table *t, const line *l)
{
    char *name = NULL;
    if (asprintf(&name, "%s:%s", t->file, l->array->name) < 0)
        return CTL_FAILED;
    int code = ctl_print_error(t->o, &(ctl_where){.name = name}, l->err, l->why);
    free(name);
    return code;
}

static int print_all(const table *t)
{
    int worst = CTL_OK;
    if (t->o->format != CTL_JSON)
        print_table(t);
    for (size_t i = 0; i < t->n; i++) {
        if (t->o->format == CTL_JSON)
            print_json(t, &t->lines[i]);
        int code = t->lines[i].err ? print_error(t, &t->lines[i]) : CTL_OK;
        worst = code > worst ? code : worst;
    }
    return worst;
}

/* ---- public ---- */

bool ctl_is_table(const ctl_options *o)
{
    const reduce_spec *s = &o->spec;
    return s->op == REDUCE_STATS && !o->explain && !o->quantiles && o->format != CTL_RAW && !o->mask && !o->offsets &&
           !o->initial && !o->by_rows && !o->n_axes && !o->verify && !s->flags && !s->dtype;
}

static void run(table *t)
{
    uint64_t total = 0;
    for (size_t i = 0; i < t->n; i++)
        total += t->lines[i].array->dtype ? bytes_of(t->lines[i].array) : 0;
    ctl_progress_start(&t->progress, t->file, total, true, t->o->progress);
    for (size_t i = 0; i < t->n + UNDER_WAY && !ctl_interrupted(); i++) {
        if (i < t->n)
            submit(t, &t->lines[i]);
        if (i >= UNDER_WAY)
            take(t, &t->lines[i - UNDER_WAY]);
    }
    ctl_progress_end(&t->progress);
}

int ctl_reduce_tensors(reduce_client *c, const ctl_options *o, const char *name, const ctl_directory *d)
{
    table t = {.c = c, .o = o, .file = name, .n = d->n, .fd = open(name, O_RDONLY | O_CLOEXEC)};
    int code = CTL_FAILED;
    t.lines = calloc(d->n, sizeof *t.lines);
    for (size_t i = 0; i < d->n && t.lines; i++)
        t.lines[i].array = &d->arrays[i];
    if (t.fd < 0 || !t.lines) {
        code = ctl_print_error(o, &(ctl_where){.name = name}, t.fd < 0 ? REDUCE_E_IO : REDUCE_E_NO_MEMORY,
                               "cannot open it again");
    } else {
        run(&t);
        for (size_t i = 0; i < t.n; i++) /* jobs that an interruption left */
            reduce_job_free(t.lines[i].job);
        code = ctl_interrupted() ? CTL_INTERRUPTED : print_all(&t);
    }
    free(t.lines);
    if (t.fd >= 0)
        close(t.fd);
    return code;
}
