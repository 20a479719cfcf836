/* Result lines on standard output, details and errors on standard error. */
#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"

/* ---- results ---- */

static void json_values(const ctl_options *o, const ctl_value *v, int n)
{
    char open = v[0].name ? '{' : '[';
    if (n == 1) {
        ctl_json_value(o, v[0].text);
        return;
    }
    for (int i = 0; i < n; i++) {
        putchar(i ? ',' : open);
        if (v[i].name)
            printf("\"%s\":", v[i].name);
        ctl_json_value(o, v[i].text);
    }
    putchar(v[0].name ? '}' : ']');
}

static uint64_t elements_of(const ctl_where *w, const reduce_result *r, uint64_t i)
{
    return w->offsets ? w->offsets[i + 1] - w->offsets[i] : r->count / r->cells;
}

static ctl_listed listed_of(const ctl_options *o, const ctl_where *w, const reduce_result *r)
{
    return (ctl_listed){
        .o = o, .dtype = r->dtype, .size = r->cell_size, .k = (uint64_t)o->spec.k, .edges = w->edges, .n_edges = w->n_edges};
}

/* `v`: NULL if the cell has many. */
static void print_json(const ctl_options *o, const ctl_where *w, const reduce_result *r, const ctl_value *v, int n, uint64_t i,
                       const uint8_t *cell)
{
    const ctl_listed l = listed_of(o, w, r);
    fputs("{\"file\":", stdout);
    ctl_json_string(stdout, w->name);
    if (w->unit)
        printf(",\"%s\":%" PRIu64, w->unit, w->first + i);
    fputs(",\"value\":", stdout);
    if (v)
        json_values(o, v, n);
    else
        ctl_json_listed(&l, cell);
    printf(",\"op\":\"%s\",\"out\":\"%s\",\"count\":%" PRIu64 ",\"backend\":\"%s\",\"path\":\"%s\"", reduce_op_name(o->spec.op),
           reduce_dtype_name(r->dtype), elements_of(w, r, i), reduce_backend_name(r->backend), reduce_path_name(r->path));
    printf(",\"queue_ns\":%" PRIu64 ",\"copy_ns\":%" PRIu64 ",\"compute_ns\":%" PRIu64 ",\"wall_ns\":%" PRIu64, r->queue_ns,
           r->copy_ns, r->compute_ns, r->wall_ns);
    if (w->expected.way)
        printf(",\"way\":\"%s\",\"expected_ns\":%" PRIu64, w->expected.way, w->expected.ns);
    puts("}");
}

/* With several files or lines: which one the value belongs to. */
static bool is_named(const ctl_options *o) { return (o->n_files > 1 || o->members) && !o->total && !o->merge; }

static void print_origin(const ctl_options *o, const ctl_where *w, uint64_t i)
{
    if (is_named(o))
        fputs("  ", stdout), ctl_put_text(stdout, w->name, 0);
    if (is_named(o) && w->unit)
        printf("[%" PRIu64 "]", w->first + i);
}

static void print_line(const ctl_options *o, const ctl_where *w, const char *value)
{
    fputs(value, stdout);
    print_origin(o, w, 0);
    putchar('\n');
}

static void print_lines(const ctl_options *o, const ctl_where *w, const reduce_result *r, const void *cells)
{
    ctl_print_lines(&(ctl_lines){o->spec.op, r->dtype, o->format == CTL_HEX, w->unit, w->first, cells, r->cells, r->cell_size});
}

/* Values with names, after a line that says which input they belong to. */
static void print_named(const ctl_options *o, const ctl_where *w, const reduce_result *r, const uint8_t *cells)
{
    reduce_result one = *r;
    ctl_where where = *w;
    one.cells = 1;
    for (uint64_t i = 0; i < r->cells; i++, where.first++) {
        printf("%-7s ", "file");
        ctl_put_text(stdout, w->name, 0);
        putchar('\n');
        print_lines(o, &where, &one, cells + i * r->cell_size);
    }
}

/* One or two values, and which input they belong to. */
static void print_of_input(const ctl_options *o, const ctl_where *w, const ctl_value *v, int n, uint64_t i)
{
    for (int k = 0; k < n; k++)
        printf("%s%s", k ? " " : "", v[k].text);
    print_origin(o, w, i);
    putchar('\n');
}

static void print_values(const ctl_options *o, const ctl_where *w, const reduce_result *r, const uint8_t *cells)
{
    ctl_value v[CTL_MAX_VALUES];
    for (uint64_t i = 0; i < r->cells; i++) {
        int n = ctl_values(v, o->spec.op, r->dtype, cells + i * r->cell_size, (size_t)r->cell_size, o->format == CTL_HEX);
        if (o->format == CTL_JSON)
            print_json(o, w, r, v, n, i, NULL);
        else
            print_of_input(o, w, v, n, i);
    }
}

static void print_listed(const ctl_options *o, const ctl_where *w, const reduce_result *r, const uint8_t *cells)
{
    ctl_listed l = listed_of(o, w, r);
    l.name = is_named(o) ? w->name : NULL;
    if (o->format != CTL_JSON)
        ctl_print_listed(&l, w, cells, r->cells);
    for (uint64_t i = 0; i < r->cells && o->format == CTL_JSON; i++)
        print_json(o, w, r, NULL, 0, i, cells + i * r->cell_size);
}

void ctl_print_cells(const ctl_options *o, const ctl_where *w, const reduce_result *r, const void *cells)
{
    if (o->sink) {
        o->sink->take(o->sink, o, w, r, cells);
        return;
    }
    if (o->format == CTL_RAW) {
        fwrite(cells, (size_t)r->cell_size, (size_t)r->cells, stdout);
        return;
    }
    if (ctl_is_listed(o->spec.op))
        print_listed(o, w, r, cells);
    else if (o->format == CTL_JSON || (is_named(o) && !ctl_value_name(o->spec.op, 0)))
        print_values(o, w, r, cells);
    else if (is_named(o))
        print_named(o, w, r, cells);
    else
        print_lines(o, w, r, cells);
    fflush(stdout);
}

void ctl_print_text(const ctl_options *o, const ctl_where *w, const char *value, const char *type, uint64_t count)
{
    if (o->sink) {
        o->sink->take_exact(o->sink, w, value);
    } else if (o->format == CTL_JSON) {
        fputs("{\"file\":", stdout);
        ctl_json_string(stdout, w->name);
        fputs(",\"value\":", stdout);
        ctl_json_value(o, value);
        printf(",\"op\":\"%s\",\"out\":\"%s\",\"count\":%" PRIu64 "}\n", reduce_op_name(o->spec.op), type, count);
    } else {
        print_line(o, w, value);
    }
}

/* "reducectl: NAME: ", before what is said of an input. */
static void put_subject(const char *name)
{
    fputs("reducectl: ", stderr);
    ctl_put_text(stderr, name, 0);
    fputs(": ", stderr);
}

void ctl_print_details(const ctl_input *in, const reduce_result *r, const ctl_expected *e)
{
    double ms = 1e-6, seconds = (double)r->wall_ns * 1e-9;
    double bytes = (double)r->count * (double)reduce_dtype_size(in->dtype);
    put_subject(in->name);
    fprintf(stderr, "%s, %" PRIu64 " x %s%s\n", in->resident ? "resident" : in->kind, r->count, reduce_dtype_name(in->dtype),
            in->swapped ? ", big-endian" : "");
    if (!r->cells) /* nobody was asked */
        return;
    put_subject(in->name);
    fprintf(stderr, "%s via %s, %.3f ms (queue %.3f, copy %.3f, compute %.3f), %.2f GB/s\n", reduce_backend_name(r->backend),
            reduce_path_name(r->path), (double)r->wall_ns * ms, (double)r->queue_ns * ms, (double)r->copy_ns * ms,
            (double)r->compute_ns * ms, seconds > 0 ? bytes / seconds * 1e-9 : 0);
    if (e->way) {
        put_subject(in->name);
        fprintf(stderr, "the way: %s, expected to take %.3f ms\n", e->way, (double)e->ns * ms);
    }
}

/* ---- errors ---- */

static bool no_daemon(int err)
{
    return err == REDUCE_E_NO_DAEMON || err == REDUCE_E_START || err == REDUCE_E_TIMEOUT || err == REDUCE_E_PROTOCOL ||
           err == REDUCE_E_VERSION || err == REDUCE_E_AUTH;
}

/* The value of an OVERFLOW. */
typedef struct exact {
    bool overflow, known; /* not known: products beyond 64 bits, sums of squares of 2^127 or more */
    char text[CTL_MAX_NUMBER];
} exact;

static exact exact_of(const reduce_fault *f)
{
    exact e = {.overflow = f->code == REDUCE_E_OVERFLOW};
    e.known = e.overflow && !(f->value_low == UINT64_MAX && f->value_high == INT64_MAX);
    ctl_int128(e.text, f->value_low, f->value_high);
    return e;
}

bool ctl_print_exact(const ctl_options *o, const ctl_where *w)
{
    reduce_fault f = REDUCE_FAULT_INIT;
    reduce_last_fault(&f);
    exact e = exact_of(&f);
    if (!e.known || (!o->sink && o->format != CTL_DECIMAL && o->format != CTL_HEX))
        return false;
    if (o->sink)
        o->sink->take_exact(o->sink, w, e.text);
    else
        print_line(o, w, e.text);
    return true;
}

static void json_error(const ctl_options *o, const ctl_where *w, const reduce_fault *f)
{
    exact e = exact_of(f);
    fputs("{\"file\":", stdout);
    ctl_json_string(stdout, w->name);
    printf(",\"error\":\"%s\",\"message\":", reduce_errname(f->code));
    ctl_json_string(stdout, f->text);
    if (f->field[0]) {
        fputs(",\"field\":", stdout);
        ctl_json_string(stdout, f->field);
    }
    if (w->unit && f->index != REDUCE_NO_INDEX)
        printf(",\"%s\":%" PRIu64, w->unit, f->index);
    if (f->limit)
        printf(",\"limit\":%" PRIu64, f->limit);
    if (e.overflow)
        fputs(",\"exact\":", stdout);
    if (e.known)
        ctl_json_value(o, e.text);
    else if (e.overflow)
        fputs("null", stdout);
    fputs("}\n", stdout);
    fflush(stdout);
}

static void text_error(const ctl_where *w, const reduce_fault *f)
{
    exact e = exact_of(f);
    char unit[40] = "";
    if (w->unit && f->index != REDUCE_NO_INDEX)
        snprintf(unit, sizeof unit, "%s %" PRIu64 ": ", w->unit, f->index);
    put_subject(w->name);
    fprintf(stderr, "%s: %s", reduce_errname(f->code), unit);
    ctl_put_text(stderr, f->text[0] ? f->text : reduce_strerror(f->code), 0);
    if (e.known)
        fprintf(stderr, "; the exact value is %s", e.text);
    else if (e.overflow)
        fputs("; the exact value has more than 64 bits", stderr);
    if (f->limit && (f->code == REDUCE_E_QUOTA || f->code == REDUCE_E_TOO_LARGE))
        fprintf(stderr, "; the cap is %" PRIu64, f->limit);
    fputc('\n', stderr);
}

int ctl_print_error(const ctl_options *o, const ctl_where *w, int err, const char *why)
{
    reduce_fault f = REDUCE_FAULT_INIT, last = REDUCE_FAULT_INIT;
    if (why) {
        reduce_last_fault(&last);
        if (last.code == err) { /* in other words */
            f.value_low = last.value_low;
            f.value_high = last.value_high;
        }
        f.code = err;
        f.index = REDUCE_NO_INDEX;
        snprintf(f.text, sizeof f.text, "%s", why);
    } else {
        reduce_last_fault(&f);
    }
    if (f.index != REDUCE_NO_INDEX)
        f.index += w->first;
    text_error(w, &f);
    if (o->format == CTL_JSON)
        json_error(o, w, &f);
    return no_daemon(f.code) ? CTL_NO_DAEMON : f.code == REDUCE_E_ARGUMENT ? CTL_USAGE : CTL_FAILED;
}
