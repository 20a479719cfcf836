/* A column of a table by the texts of others (--by): one result for each group, from libreduce's accumulators. No daemon. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/formats/groups.h"
#include "client/ctl/op_table.h"
#include "kernels/exact/line.h"
#include "kernels/exact/total_order.h"
#include "proto/types.h"

enum { PIECE = 1 << 16 }; /* bytes of elements that are read at once */

typedef struct by {
    const ctl_options *o;
    ctl_input in;
    ctl_groups groups;
    int n; /* operations */
    int op[CTL_MAX_OPS];
    reduce_accumulators *a[CTL_MAX_OPS];
    uint8_t *cells[CTL_MAX_OPS];
    size_t cell[CTL_MAX_OPS];
    int reply[CTL_MAX_OPS];   /* the type of the cells */
    uint32_t *order;          /* of the groups, as they are printed */
    uint64_t *rank;           /* of each group by its first value, for --top: NaNs are the largest */
    bool numbers[CTL_MAX_BY]; /* the texts of this column are all numbers */
} by;

/* ---- columns ----------------------------------------------------------------------------------------------------- */

/* "city,day" in place: names[0..n). 0: there are too many, or one is empty. */
static int split_names(char *list, const char *names[CTL_MAX_BY])
{
    int n = 0;
    for (char *at = list; at; n++) {
        char *comma = strchr(at, ',');
        if (n == CTL_MAX_BY || comma == at || !*at)
            return 0;
        names[n] = at;
        if (comma)
            *comma++ = 0;
        at = comma;
    }
    return n;
}

static int open_table(by *b, char why[CTL_WHY])
{
    ctl_source source = {.name = b->o->files[0],
                         .dtype = b->o->spec.dtype,
                         .omit = b->o->spec.nan == REDUCE_NAN_OMIT,
                         .places = ctl_needs_indexes(b->o),
                         .no_unpack = b->o->no_unpack,
                         .dialect = &b->o->dialect,
                         .groups = &b->groups};
    int err = ctl_open(&b->in, &source, why);
    if (err)
        return err;
    if (!b->in.column)
        snprintf(why, CTL_WHY, "--by is for columns of tables, as in FILE:COLUMN");
    else if (!b->in.dtype)
        snprintf(why, CTL_WHY, "integers beyond 64 bits have no groups; --dtype f64 rounds them");
    else
        return 0;
    return REDUCE_E_TYPE;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int make(by *b)
{
    for (int k = 0; k < b->n; k++) {
        const int err = reduce_accumulators_new(b->op[k], b->in.dtype, b->o->spec.nan, 0, &b->a[k]);
        if (err)
            return err;
    }
    return 0;
}

/* Room for the groups that are known: twice as many, so that few moves are needed. */
static int make_room(by *b)
{
    for (int k = 0; k < b->n; k++) {
        const int err = reduce_accumulators_groups(b->a[k]) < b->groups.n
                            ? reduce_accumulators_grow(b->a[k], 2 * (size_t)b->groups.n)
                            : 0;
        if (err)
            return err;
    }
    return 0;
}

static int add(by *b, const void *elements, size_t n, uint64_t index)
{
    reduce_batch batch = REDUCE_BATCH_INIT;
    batch.key_dtype = REDUCE_U32;
    batch.keys = ctl_groups_take(&b->groups, n);
    batch.values = elements;
    batch.count = n;
    batch.index = index;
    int err = make_room(b);
    for (int k = 0; k < b->n && !err; k++)
        err = reduce_accumulators_add(b->a[k], &batch);
    return err;
}

static int read_all(by *b, char why[CTL_WHY])
{
    const size_t size = reduce_dtype_size(b->in.dtype);
    uint8_t piece[PIECE];
    uint64_t index = 0;
    int err = make(b);
    while (!err && !ctl_interrupted()) {
        const long n = ctl_read(&b->in, piece, sizeof piece, why);
        if (n <= 0)
            return n ? b->in.err : 0;
        for (size_t at = 0, some; at < (size_t)n / size && !err; at += some) {
            some = ctl_pass_holes(&b->in.holes, 0, &index, (size_t)n / size - at);
            err = add(b, piece + at * size, some, index);
            index += some;
        }
    }
    return err;
}

/* ---- finishing --------------------------------------------------------------------------------------------------- */

/* The type of the values. */
static int reply_type(const reduce_spec *spec)
{
    rp_spec s = {.op = (uint8_t)spec->op, .dtype = (uint8_t)spec->dtype, .out = (uint8_t)spec->out, .rows = 1};
    rp_fault f;
    return rp_spec_check(&s, &f) ? 0 : s.out;
}

static int finish(by *b, int k)
{
    reduce_spec spec = b->o->spec;
    spec.op = b->op[k];
    spec.dtype = b->in.dtype;
    if (b->o->n_ops && !ctl_has_ddof(spec.op))
        spec.ddof = 0;
    if (b->o->n_ops && spec.op != REDUCE_PROD)
        spec.flags &= ~(uint32_t)REDUCE_WRAP;
    const int err = reduce_result_size(&spec, 0, &b->cell[k]);
    if (err)
        return err;
    b->reply[k] = reply_type(&spec);
    b->cells[k] = malloc((size_t)b->groups.n * b->cell[k] + 1);
    if (!b->cells[k])
        return REDUCE_E_NO_MEMORY;
    return reduce_accumulators_finish(b->a[k], &spec, 0, b->groups.n, b->cells[k], (size_t)b->groups.n * b->cell[k]);
}

/* ---- the order of the lines: that of the keys, or with --top of the first values ------------------------------------- */

static const by *sorted; /* qsort has no argument */

static int compare_keys(uint32_t x, uint32_t y)
{
    int d = 0;
    for (int c = 0; c < sorted->groups.columns && !d; c++) {
        const char *one = ctl_groups_text(&sorted->groups, x, c), *other = ctl_groups_text(&sorted->groups, y, c);
        if (sorted->numbers[c]) {
            const double a = strtod(one, NULL), b = strtod(other, NULL);
            d = (a > b) - (a < b);
        }
        d = d ? d : strcmp(one, other);
    }
    return d;
}

static int by_key(const void *x, const void *y) { return compare_keys(*(const uint32_t *)x, *(const uint32_t *)y); }

static int by_value(const void *x, const void *y)
{
    const uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    const uint64_t a = sorted->rank[i], b = sorted->rank[j];
    return a != b ? (a < b) - (a > b) : compare_keys(i, j);
}

/* NaNs have no order. */
static bool are_numbers(const by *b, int c)
{
    for (uint32_t i = 0; i < b->groups.n; i++) {
        char *rest;
        const char *text = ctl_groups_text(&b->groups, i, c);
        const double value = strtod(text, &rest);
        if (rest == text || *rest || value != value)
            return false;
    }
    return true;
}

static bool sort(by *b)
{
    b->order = calloc((size_t)b->groups.n + 1, sizeof *b->order);
    b->rank = calloc((size_t)b->groups.n + 1, sizeof *b->rank);
    if (!b->order || !b->rank)
        return false;
    for (uint32_t i = 0; i < b->groups.n; i++) {
        b->order[i] = i;
        b->rank[i] = rk_rank(b->reply[0], 0, rk_load(b->cells[0] + i * b->cell[0], rk_bytes(b->reply[0])));
    }
    for (int c = 0; c < b->groups.columns; c++)
        b->numbers[c] = are_numbers(b, c);
    sorted = b;
    qsort(b->order, b->groups.n, sizeof *b->order, b->o->top ? by_value : by_key);
    return true;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static void value_text(const by *b, int k, uint32_t i, ctl_value v[CTL_MAX_VALUES])
{
    ctl_values(v, b->op[k], b->reply[k], b->cells[k] + i * b->cell[k], b->cell[k], b->o->format == CTL_HEX);
}

static const char *value_name(const by *b, int k, int i)
{
    const char *name = ctl_value_name(b->op[k], i);
    if (b->op[k] == REDUCE_MINMAX)
        return i ? "max" : "min";
    return name ? name : reduce_op_name(b->op[k]);
}

static const char *label(const by *b, int c) { return b->groups.name[c] + (strchr("#=", b->groups.name[c][0]) != NULL); }

static void print_objects(const by *b, uint32_t lines)
{
    ctl_value v[CTL_MAX_VALUES];
    for (uint32_t l = 0; l < lines; l++) {
        for (int c = 0; c < b->groups.columns; c++) {
            fputs(c ? "," : "{\"by\":{", stdout);
            ctl_json_string(stdout, label(b, c));
            putchar(':');
            ctl_json_string(stdout, ctl_groups_text(&b->groups, b->order[l], c));
        }
        fputs("},\"value\":{", stdout);
        for (int k = 0; k < b->n; k++) {
            const int n = ctl_count_values(b->op[k], b->reply[k], b->cell[k]);
            value_text(b, k, b->order[l], v);
            for (int i = 0; i < n; i++) {
                printf("%s\"%s\":", k + i ? "," : "", value_name(b, k, i));
                ctl_json_value(b->o, v[i].text);
            }
        }
        puts("}}");
    }
}

/* Columns with tabs between, and their names above: a table that other programs read, too. */
static void print_table(const by *b, uint32_t lines)
{
    ctl_value v[CTL_MAX_VALUES];
    for (int c = 0; c < b->groups.columns; c++) {
        ctl_put_text(stdout, label(b, c), 0);
        putchar('\t');
    }
    for (int k = 0; k < b->n; k++) {
        const int n = ctl_count_values(b->op[k], b->reply[k], b->cell[k]);
        for (int i = 0; i < n; i++)
            printf("%s%s", value_name(b, k, i), k + 1 < b->n || i + 1 < n ? "\t" : "\n");
    }
    for (uint32_t l = 0; l < lines; l++) {
        for (int c = 0; c < b->groups.columns; c++) {
            ctl_put_text(stdout, ctl_groups_text(&b->groups, b->order[l], c), 0);
            putchar('\t');
        }
        for (int k = 0; k < b->n; k++) {
            const int n = ctl_count_values(b->op[k], b->reply[k], b->cell[k]);
            value_text(b, k, b->order[l], v);
            for (int i = 0; i < n; i++)
                printf("%s%s", v[i].text, k + 1 < b->n || i + 1 < n ? "\t" : "\n");
        }
    }
}

static int reduce(by *b, char why[CTL_WHY])
{
    int err = open_table(b, why);
    if (!err)
        err = read_all(b, why);
    if (!err)
        err = make_room(b);
    for (int k = 0; k < b->n && !err; k++)
        err = finish(b, k);
    if (!err && !sort(b))
        err = REDUCE_E_NO_MEMORY;
    return err;
}

/* The group that has no value, before the error. */
static void name_group(const by *b, char why[CTL_WHY])
{
    reduce_fault f = REDUCE_FAULT_INIT;
    reduce_last_fault(&f);
    if (f.index >= b->groups.n)
        return;
    char clean[64];
    ctl_clean(clean, sizeof clean, ctl_groups_text(&b->groups, (uint32_t)f.index, 0));
    snprintf(why, CTL_WHY, "group '%s': %.180s", clean, f.text);
}

int ctl_reduce_by(const ctl_options *o)
{
    char why[CTL_WHY] = "", *list = strdup(o->by);
    by b = {.o = o, .n = o->n_ops ? o->n_ops : 1, .op = {o->spec.op}, .in = {.fd = -1}};
    int err = list ? 0 : REDUCE_E_NO_MEMORY;
    if (o->n_ops)
        memcpy(b.op, o->ops, sizeof b.op);
    if (!err && !(b.groups.columns = split_names(list, b.groups.name))) {
        snprintf(why, sizeof why, "--by needs 1 to %d columns, as in --by city,day", CTL_MAX_BY);
        err = REDUCE_E_ARGUMENT;
    }
    if (!err)
        err = reduce(&b, why);
    if ((err == REDUCE_E_EMPTY || err == REDUCE_E_OVERFLOW || err == REDUCE_E_NAN) && !why[0])
        name_group(&b, why);
    int code = err ? ctl_print_error(o, &(ctl_where){.name = o->n_files ? o->files[0] : "-"}, err, why[0] ? why : NULL)
                   : CTL_OK;
    const uint32_t lines = o->top && o->top < b.groups.n ? (uint32_t)o->top : b.groups.n;
    if (!err && !ctl_interrupted())
        (o->format == CTL_JSON ? print_objects : print_table)(&b, lines);
    for (int k = 0; k < b.n; k++) {
        reduce_accumulators_free(b.a[k]);
        free(b.cells[k]);
    }
    ctl_close(&b.in);
    ctl_groups_free(&b.groups);
    free(b.order);
    free(b.rank);
    free(list);
    return ctl_interrupted() ? CTL_INTERRUPTED : code;
}
