/* Several operations at once. Each pass of an operation over a file leaves its values in a column; at the end all of them are
 * printed. */
#include "client/ctl/reduce/several.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/formats/container.h"
#include "client/ctl/formats/grow.h"
#include "client/ctl/op_table.h"
#include "client/ctl/text/screen_text.h"

typedef struct text {
    char text[CTL_MAX_NUMBER];
} text;

/* Values of one operation, in the order of files and results */
typedef struct column {
    text *value;
    size_t n, room;
} column;

/* Whose values a line has */
typedef struct origin {
    char *name;       /* the line before may have the same */
    const char *unit; /* as in ctl_shape */
    uint64_t index;
} origin;

typedef struct table {
    ctl_sink sink;
    const ctl_options *o;
    int n; /* columns */
    column of[CTL_MAX_OPS];
    bool fused;  /* the pass is one of stats, for all columns */
    int now;     /* if not fused, the column that the pass fills */
    off_t start; /* of standard input, where each pass begins to read it */
    origin *line;
    size_t lines, room;
    bool lost;   /* no memory */
    bool failed; /* a value of stats does not exist for its own operation */
} table;

/* ---- what goes in ---- */

static void add_value(table *t, int k, const char *value)
{
    column *c = &t->of[k];
    if (!ctl_grow(&c->value, &c->room, c->n, 1, sizeof *c->value))
        t->lost = true;
    else
        snprintf(c->value[c->n++].text, CTL_MAX_NUMBER, "%s", value);
}

static void add_line(table *t, const char *name, const char *unit, uint64_t index)
{
    char *before = t->lines ? t->line[t->lines - 1].name : NULL;
    if (!ctl_grow(&t->line, &t->room, t->lines, 1, sizeof *t->line)) {
        t->lost = true;
        return;
    }
    char *own = before && !strcmp(before, name) ? before : strdup(name); /* a copy, because a member's name is freed after its
                                                                            pass */
    t->lost |= !own;
    if (own)
        t->line[t->lines++] = (origin){own, unit, index};
}

/* The column's line has to be there; the first pass makes it. */
static void add(table *t, int k, const ctl_where *w, uint64_t i, const char *value)
{
    add_value(t, k, value);
    if (t->of[k].n > t->lines)
        add_line(t, w->name, w->unit, w->first + i);
}

/* The value of `op` among those of stats. */
static const char *of_stats(const ctl_value *v, int n, int op)
{
    const char *name = op == REDUCE_COUNT_NAN ? "nans" : reduce_op_name(op);
    for (int i = 0; i < n; i++)
        if (!strcmp(v[i].name, name))
            return v[i].text;
    return NULL;
}

/* For an empty array stats says "none" where these operations report an error. */
static bool is_empty(const char *value, int op)
{
    bool chosen = op == REDUCE_MIN || op == REDUCE_MAX || op == REDUCE_ARGMIN || op == REDUCE_ARGMAX;
    return chosen && !strcmp(value, "none");
}

static void tell_empty(table *t, const ctl_where *w, uint64_t i, int op)
{
    char why[CTL_WHY], place[64] = "";
    if (w->unit)
        snprintf(place, sizeof place, "%s %" PRIu64 ": ", w->unit, w->first + i);
    snprintf(why, sizeof why, "%s%s of no elements", place, reduce_op_name(op));
    ctl_print_error(t->o, w, REDUCE_E_EMPTY, why);
    t->failed = true;
}

static void several_take(ctl_sink *s, const ctl_options *o, const ctl_where *w, const reduce_result *r, const void *cells)
{
    table *t = (table *)s;
    ctl_value v[CTL_MAX_VALUES];
    for (uint64_t i = 0; i < r->cells && !t->lost; i++) {
        int n = ctl_values(v, o->spec.op, r->dtype, (const uint8_t *)cells + i * r->cell_size, (size_t)r->cell_size,
                           o->format == CTL_HEX);
        if (!t->fused)
            add(t, t->now, w, i, v[0].text);
        for (int k = 0; k < t->n && t->fused; k++) {
            const char *value = of_stats(v, n, t->o->ops[k]);
            bool empty = is_empty(value, t->o->ops[k]);
            if (empty)
                tell_empty(t, w, i, t->o->ops[k]);
            add(t, k, w, i, empty ? "error" : value);
        }
    }
}

static void several_take_exact(ctl_sink *s, const ctl_where *w, const char *value)
{
    table *t = (table *)s;
    add(t, t->now, w, 0, value);
}

static void several_take_column(ctl_sink *s, const ctl_where *w, int k, const char *value) { add((table *)s, k, w, 0, value); }

/* ---- passes ---- */

/* The options of one pass, without options that only apply to other operations of the list. */
static ctl_options of_pass(table *t, int op)
{
    ctl_options one = *t->o;
    one.spec.op = op;
    one.sink = &t->sink;
    if (!ctl_has_ddof(op))
        one.spec.ddof = 0;
    if (op == REDUCE_QUANTILE) {
        one.spec.q = &t->o->ops_q[t->now];
        one.spec.quantiles = 1;
    } else {
        one.spec.method = 0;
    }
    if (op != REDUCE_KTH)
        one.spec.k = 0;
    if (op != REDUCE_PROD)
        one.spec.flags &= ~(uint32_t)REDUCE_WRAP;
    if (op != REDUCE_ARGMIN && op != REDUCE_ARGMAX && op != REDUCE_STATS)
        one.spec.index_base = 0;
    return one;
}

/* Every column as long as the longest: an operation that failed leaves its places. An array without results has none. */
static void even(table *t, const char *name, size_t before, int code)
{
    if (t->lines == before && code != CTL_OK)
        add_line(t, name, NULL, 0);
    for (int k = 0; k < t->n; k++)
        while (t->of[k].n < t->lines && !t->lost)
            add_value(t, k, "error");
}

/* All operations on what `files` names: one file, its member `array`, or the total of all. */
static int run(reduce_client *c, table *t, char **files, int n, bool total, const ctl_array *array)
{
    size_t before = t->lines;
    int worst = CTL_OK, passes = t->fused ? 1 : t->n;
    for (t->now = 0; t->now < passes && worst != CTL_NO_DAEMON && !ctl_interrupted(); t->now++) {
        lseek(STDIN_FILENO, t->start, SEEK_SET); /* a pipe has no place */
        ctl_options one = of_pass(t, t->fused ? REDUCE_STATS : t->o->ops[t->now]);
        one.files = files;
        one.n_files = n;
        one.total = total;
        int code = array ? ctl_reduce_array(c, &one, files[0], array) : ctl_reduce(c, &one);
        worst = code > worst ? code : worst;
    }
    even(t, total ? "total" : files[0], before, worst);
    return worst;
}

/* A file, or each array of it if there are several: an operation that fails on one of them leaves the lines of the others. */
static int run_file(reduce_client *c, table *t, char **file)
{
    ctl_directory d = {0};
    char why[CTL_WHY] = "";
    int worst = CTL_OK, err = ctl_is_resident(*file) || t->o->text ? 0 : ctl_arrays(*file, t->o, &d, why);
    if (err) {
        worst = ctl_print_error(t->o, &(ctl_where){.name = *file}, err, why);
        even(t, *file, t->lines, worst);
    } else if (d.n <= 1) {
        worst = run(c, t, file, 1, false, NULL);
    }
    for (size_t i = 0; i < d.n && d.n > 1 && worst != CTL_NO_DAEMON && !ctl_interrupted() && !t->lost; i++) {
        char *name = NULL;
        if (asprintf(&name, "%s:%s", *file, d.arrays[i].name) < 0) {
            t->lost = true;
            break;
        }
        int code = run(c, t, &name, 1, false, &d.arrays[i]);
        worst = code > worst ? code : worst;
        free(name);
    }
    ctl_directory_free(&d);
    return worst;
}

/* ---- what comes out ---- */

enum { COLUMN_NAME = 32 };

static const char *column_name(const table *t, int k, char space[COLUMN_NAME])
{
    if (t->o->ops[k] != REDUCE_QUANTILE)
        return reduce_op_name(t->o->ops[k]);
    snprintf(space, COLUMN_NAME, "p%.13g", 100 * t->o->ops_q[k]);
    return space;
}

static int width_of(const table *t, int k)
{
    char name[COLUMN_NAME];
    size_t most = strlen(column_name(t, k, name));
    for (size_t i = 0; i < t->lines; i++) {
        size_t n = strlen(t->of[k].value[i].text);
        most = n > most ? n : most;
    }
    return (int)most;
}

static void print_columns(const table *t)
{
    bool named = t->o->n_files > 1;
    const char *unit = NULL;
    int names = 4, width[CTL_MAX_OPS];
    char name[COLUMN_NAME];
    for (size_t i = 0; i < t->lines; i++) {
        int n = ctl_columns(t->line[i].name);
        names = n > names ? n : names;
        unit = t->line[i].unit ? t->line[i].unit : unit;
        named |= strcmp(t->line[i].name, t->line[0].name) != 0; /* members of one file */
    }
    if (named)
        printf("%-*s  ", names, "file");
    if (unit)
        printf("%8s  ", unit);
    for (int k = 0; k < t->n; k++) {
        width[k] = width_of(t, k);
        printf("%*s%s", width[k], column_name(t, k, name), k + 1 < t->n ? "  " : "\n");
    }
    for (size_t i = 0; i < t->lines; i++) {
        if (named)
            ctl_put_text(stdout, t->line[i].name, names + 2);
        if (unit)
            printf("%8" PRIu64 "  ", t->line[i].index);
        for (int k = 0; k < t->n; k++)
            printf("%*s%s", width[k], t->of[k].value[i].text, k + 1 < t->n ? "  " : "\n");
    }
}

static void print_objects(const table *t)
{
    char name[COLUMN_NAME];
    for (size_t i = 0; i < t->lines; i++) {
        fputs("{\"file\":", stdout);
        ctl_json_string(stdout, t->line[i].name);
        if (t->line[i].unit)
            printf(",\"%s\":%" PRIu64, t->line[i].unit, t->line[i].index);
        fputs(",\"value\":{", stdout);
        for (int k = 0; k < t->n; k++) {
            printf("%s\"%s\":", k ? "," : "", column_name(t, k, name));
            ctl_json_value(t->o, t->of[k].value[i].text);
        }
        fputs("},\"op\":\"", stdout);
        for (int k = 0; k < t->n; k++)
            printf("%s%s", k ? "," : "", column_name(t, k, name));
        fputs("\"}\n", stdout);
    }
}

int ctl_reduce_several(reduce_client *c, const ctl_options *o)
{
    table t = {.sink = {.take = several_take, .take_exact = several_take_exact, .take_column = several_take_column},
               .o = o,
               .n = o->n_ops,
               .fused = ctl_is_one_pass(o),
               .start = lseek(STDIN_FILENO, 0, SEEK_CUR)};
    int worst = CTL_OK;
    for (int i = 0; i < o->n_files && worst != CTL_NO_DAEMON && !ctl_interrupted(); i++) {
        int code = run_file(c, &t, o->files + i);
        worst = code > worst ? code : worst;
    }
    if (o->total && worst != CTL_NO_DAEMON && !ctl_interrupted()) {
        int code = run(c, &t, o->files, o->n_files, true, NULL);
        worst = code > worst ? code : worst;
    }
    if (t.lost) {
        fputs("reducectl: no memory for the table\n", stderr);
        worst = CTL_FAILED;
    } else {
        (o->format == CTL_JSON ? print_objects : print_columns)(&t);
    }
    for (int k = 0; k < t.n; k++)
        free(t.of[k].value);
    for (size_t i = 0; i < t.lines; i++)
        if (i + 1 == t.lines || t.line[i].name != t.line[i + 1].name)
            free(t.line[i].name);
    free(t.line);
    return t.failed && worst == CTL_OK ? CTL_FAILED : worst;
}
