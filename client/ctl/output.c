/* Result lines on standard output, details and errors on standard error. */
#include <inttypes.h>
#include <string.h>

#include "client/ctl/ctl.h"

/* Numbers are numbers in JSON, NaN and the infinities are strings: it has no others. */
static void json_value(const char *number)
{
    bool word = strchr("ni", number[0]) || !strcmp(number, "-inf");
    printf(word ? "\"%s\"" : "%s", number);
}

static void print_json(const ctl_options *o, const char *name, const reduce_result *r, const char *number, uint64_t row)
{
    fputs("{\"file\":", stdout);
    ctl_json_string(stdout, name);
    if (o->by_rows)
        printf(",\"row\":%" PRIu64, row);
    fputs(",\"value\":", stdout);
    json_value(number);
    printf(",\"op\":\"%s\",\"out\":\"%s\",\"count\":%" PRIu64 ",\"backend\":\"%s\",\"path\":\"%s\"", reduce_op_name(o->spec.op),
           reduce_dtype_name(r->dtype), r->count / r->cells, reduce_backend_name(r->backend), reduce_path_name(r->path));
    printf(",\"queue_ns\":%" PRIu64 ",\"copy_ns\":%" PRIu64 ",\"compute_ns\":%" PRIu64 ",\"wall_ns\":%" PRIu64 "}\n",
           r->queue_ns, r->copy_ns, r->compute_ns, r->wall_ns);
}

static void print_text(const ctl_options *o, const char *name, const char *number, uint64_t row)
{
    bool named = o->n_files > 1 && !o->total;
    if (named && o->by_rows)
        printf("%s  %s[%" PRIu64 "]\n", number, name, row);
    else if (named)
        printf("%s  %s\n", number, name);
    else
        puts(number);
}

void ctl_print_values(const ctl_options *o, const char *name, const reduce_result *r, const void *cells, uint64_t first_row)
{
    if (o->format == CTL_RAW) {
        fwrite(cells, (size_t)r->cell_size, (size_t)r->cells, stdout);
        return;
    }
    char number[CTL_MAX_NUMBER];
    for (uint64_t i = 0; i < r->cells; i++) {
        ctl_number(number, r->dtype, (const uint8_t *)cells + i * r->cell_size, o->format == CTL_HEX);
        if (o->format == CTL_JSON)
            print_json(o, name, r, number, first_row + i);
        else
            print_text(o, name, number, first_row + i);
    }
    fflush(stdout);
}

void ctl_print_details(const ctl_input *in, const reduce_result *r)
{
    double ms = 1e-6, seconds = (double)r->wall_ns * 1e-9;
    double bytes = (double)r->count * (double)reduce_dtype_size(in->dtype);
    fprintf(stderr, "reducectl: %s: %s, %" PRIu64 " x %s%s\n", in->name, in->npy ? ".npy" : in->text ? "text" : "raw bytes",
            r->count, reduce_dtype_name(in->dtype), in->defaulted ? " (the default; --dtype names another)" : "");
    fprintf(stderr, "reducectl: %s: %s via %s, %.3f ms (queue %.3f, copy %.3f, compute %.3f), %.2f GB/s\n", in->name,
            reduce_backend_name(r->backend), reduce_path_name(r->path), (double)r->wall_ns * ms, (double)r->queue_ns * ms,
            (double)r->copy_ns * ms, (double)r->compute_ns * ms, seconds > 0 ? bytes / seconds * 1e-9 : 0);
}

static bool no_daemon(int err)
{
    return err == REDUCE_E_NO_DAEMON || err == REDUCE_E_START || err == REDUCE_E_TIMEOUT || err == REDUCE_E_PROTOCOL ||
           err == REDUCE_E_VERSION || err == REDUCE_E_AUTH;
}

static void json_error(const ctl_options *o, const char *name, const reduce_fault *f, const char *exact)
{
    fputs("{\"file\":", stdout);
    ctl_json_string(stdout, name);
    printf(",\"error\":\"%s\",\"message\":", reduce_errname(f->code));
    ctl_json_string(stdout, f->text);
    if (f->field[0])
        printf(",\"field\":\"%s\"", f->field);
    if (o->by_rows && f->index != REDUCE_NO_INDEX)
        printf(",\"row\":%" PRIu64, f->index);
    if (exact[0])
        printf(",\"exact\":%s", exact);
    fputs("}\n", stdout);
    fflush(stdout);
}

int ctl_print_error(const ctl_options *o, const char *name, int err, const char *why, uint64_t first_row)
{
    reduce_fault f = REDUCE_FAULT_INIT;
    char exact[CTL_MAX_NUMBER] = "", row[32] = "";
    if (why) {
        f.code = err;
        f.index = REDUCE_NO_INDEX;
        snprintf(f.text, sizeof f.text, "%s", why);
    } else {
        reduce_last_fault(&f);
    }
    if (f.code == REDUCE_E_OVERFLOW)
        ctl_int128(exact, f.value_low, f.value_high);
    if (f.index != REDUCE_NO_INDEX)
        f.index += first_row;
    if (o->by_rows && f.index != REDUCE_NO_INDEX)
        snprintf(row, sizeof row, "row %" PRIu64 ": ", f.index);
    fprintf(stderr, "reducectl: %s: %s: %s%s%s%s\n", name, reduce_errname(f.code), row,
            f.text[0] ? f.text : reduce_strerror(f.code), exact[0] ? "; the exact value is " : "", exact);
    if (o->format == CTL_JSON)
        json_error(o, name, &f, exact);
    return no_daemon(f.code) ? CTL_NO_DAEMON : CTL_FAILED;
}
