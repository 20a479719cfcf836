/* reducectl put, ls, drop; and @NAME as an input. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

/* ---- @NAME ---- */

bool ctl_is_resident(const char *name) { return name[0] == '@'; }

int ctl_open_resident(reduce_client *c, ctl_input *in, const char *name, int dtype, char why[CTL_WHY])
{
    reduce_resident r = REDUCE_RESIDENT_INIT;
    *in = (ctl_input){.name = name, .fd = -1, .resident = name + 1};
    why[0] = 0;
    int err = reduce_find(c, in->resident, &r);
    if (err)
        return err;
    if (dtype && dtype != r.dtype) {
        snprintf(why, CTL_WHY, "holds %s, not %s", reduce_dtype_name(r.dtype), reduce_dtype_name(dtype));
        return REDUCE_E_TYPE;
    }
    in->dtype = r.dtype;
    in->bytes = r.bytes;
    in->sized = true;
    in->npy = r.dims > 0;
    in->dims = (int)r.dims;
    in->fortran = r.order == REDUCE_ORDER_F;
    memcpy(in->shape, r.shape, r.dims * sizeof *r.shape);
    return 0;
}

/* ---- put ---- */

static int put_pipe(reduce_client *c, ctl_input *in, const char *name, const reduce_put_opts *opts, char why[CTL_WHY])
{
    uint8_t *data = NULL;
    size_t bytes;
    reduce_put_opts in_time = *opts;
    int err = ctl_read_all(in, &data, &bytes, why);
    in_time.deadline_ms = ctl_time_left();
    if (!err)
        err = reduce_put(c, name, in->dtype, data, bytes, &in_time);
    in->bytes = bytes;
    free(data);
    return err;
}

static int put_input(reduce_client *c, ctl_input *in, const char *name, const ctl_options *o, char why[CTL_WHY])
{
    reduce_put_opts opts = REDUCE_PUT_OPTS_INIT;
    if (in->keep) {
        snprintf(why, CTL_WHY, "its attributes say which elements are missing, which resident data do not: --no-scale");
        return REDUCE_E_TYPE;
    }
    opts.flags = o->replace ? REDUCE_REPLACE : 0;
    opts.ttl_ms = o->ttl_ms;
    opts.place = o->spread ? REDUCE_PLACE_SPREAD : o->spec.device ? REDUCE_PLACE_DEVICE + o->spec.device - 1 : REDUCE_PLACE_ANY;
    opts.deadline_ms = o->spec.deadline_ms;
    opts.path = o->spec.path;
    if (in->npy && in->dims <= REDUCE_MAX_DIMS) {
        opts.dims = (uint32_t)in->dims;
        opts.order = in->fortran ? REDUCE_ORDER_F : REDUCE_ORDER_C;
        opts.shape = in->shape;
    } else if (ctl_shuffled(in)) {
        snprintf(why, CTL_WHY, "in Fortran order an array may have %d dimensions; this one has %d", REDUCE_MAX_DIMS, in->dims);
        return REDUCE_E_SHAPE;
    }
    if (ctl_in_file(in))
        return reduce_put_file(c, name, in->dtype, in->fd, in->start, in->bytes, &opts);
    return put_pipe(c, in, name, &opts, why);
}

int ctl_put(reduce_client *c, const ctl_options *o)
{
    const char *name = o->files[0];
    char why[CTL_WHY] = "";
    ctl_input in;
    ctl_source source = {.name = o->n_files > 1 ? o->files[1] : "-",
                         .dtype = o->spec.dtype,
                         .swapped = o->swapped,
                         .text = o->text,
                         .no_unpack = o->no_unpack,
                         .no_scale = o->no_scale,
                         .verify = o->verify,
                         .dialect = &o->dialect,
                         .spool = o};
    ctl_start_deadline(o->spec.deadline_ms);
    int err = ctl_open(&in, &source, why);
    bool opened = !err;
    if (opened)
        err = put_input(c, &in, name, o, why);
    ctl_where where = {.name = opened && !why[0] ? name : in.name}; /* which the error is about */
    int code = CTL_OK;
    if (err)
        code = ctl_print_error(o, &where, err, why[0] ? why : NULL);
    else if (o->verbose)
        fprintf(stderr, "reducectl: %s: %" PRIu64 " x %s\n", name, in.bytes / reduce_dtype_size(in.dtype),
                reduce_dtype_name(in.dtype));
    ctl_close(&in);
    return code;
}

/* ---- ls ---- */

typedef struct listing {
    reduce_resident *all;
    size_t n;
} listing;

static int resident_collect(void *arg, const reduce_resident *r)
{
    listing *l = arg;
    reduce_resident *more = realloc(l->all, (l->n + 1) * sizeof *more);
    if (!more)
        return REDUCE_E_NO_MEMORY;
    l->all = more;
    l->all[l->n++] = *r;
    return 0;
}

static int resident_by_name(const void *a, const void *b)
{
    return strcmp(((const reduce_resident *)a)->name, ((const reduce_resident *)b)->name);
}

/* "3x4", "3x4 F" in Fortran order, or "-". */
static void put_shape(const reduce_resident *r)
{
    for (uint32_t d = 0; d < r->dims; d++)
        printf("%s%" PRIu64, d ? "x" : "", r->shape[d]);
    printf("%s", !r->dims ? "-" : r->order == REDUCE_ORDER_F && r->dims > 1 ? " F" : "");
}

/* On which of several devices. */
static void put_place(const reduce_resident *r)
{
    if (r->place == REDUCE_PLACE_SPREAD)
        fputs("  on all devices", stdout);
    else if (r->place >= REDUCE_PLACE_DEVICE)
        printf("  on device %" PRIu64, r->place - REDUCE_PLACE_DEVICE);
    putchar('\n');
}

static void resident_line(const reduce_resident *r)
{
    char left[24] = "-";
    if (r->left_ms != UINT64_MAX)
        snprintf(left, sizeof left, "%" PRIu64, r->left_ms / 1000);
    ctl_put_text(stdout, r->name, 24);
    printf(" %-5s %14" PRIu64 " %16" PRIu64 " %8" PRIu64 " %8s %5" PRIu32 "  ", reduce_dtype_name(r->dtype),
           r->bytes / reduce_dtype_size(r->dtype), r->bytes, r->age_ms / 1000, left, r->uses);
    put_shape(r);
    put_place(r);
}

static void json_shape(const reduce_resident *r)
{
    if (!r->dims)
        return;
    fputs(",\"shape\":[", stdout);
    for (uint32_t d = 0; d < r->dims; d++)
        printf("%s%" PRIu64, d ? "," : "", r->shape[d]);
    printf("],\"order\":\"%s\"", r->order == REDUCE_ORDER_F ? "F" : "C");
}

static void resident_json(const reduce_resident *r)
{
    fputs("{\"name\":", stdout);
    ctl_json_string(stdout, r->name);
    printf(",\"dtype\":\"%s\",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"age_ms\":%" PRIu64, reduce_dtype_name(r->dtype),
           r->bytes / reduce_dtype_size(r->dtype), r->bytes, r->age_ms);
    if (r->left_ms == UINT64_MAX)
        fputs(",\"left_ms\":null", stdout);
    else
        printf(",\"left_ms\":%" PRIu64, r->left_ms);
    json_shape(r);
    if (r->place == REDUCE_PLACE_SPREAD)
        fputs(",\"device\":\"all\"", stdout);
    else if (r->place >= REDUCE_PLACE_DEVICE)
        printf(",\"device\":%" PRIu64, r->place - REDUCE_PLACE_DEVICE);
    printf(",\"uses\":%" PRIu32 "}\n", r->uses);
}

int ctl_ls(reduce_client *c, const ctl_options *o)
{
    listing l = {0};
    int err = reduce_list(c, resident_collect, &l);
    if (err) {
        free(l.all);
        return ctl_print_error(o, &(ctl_where){.name = "ls"}, err, err == REDUCE_E_NO_MEMORY ? "no memory for the list" : NULL);
    }
    if (l.n)
        qsort(l.all, l.n, sizeof *l.all, resident_by_name);
    if (l.n && o->format != CTL_JSON)
        printf("%-24s %-5s %14s %16s %8s %8s %5s  shape\n", "name", "type", "elements", "bytes", "age s", "left s", "uses");
    for (size_t i = 0; i < l.n; i++)
        (o->format == CTL_JSON ? resident_json : resident_line)(&l.all[i]);
    free(l.all);
    return CTL_OK;
}

/* ---- drop ---- */

int ctl_drop(reduce_client *c, const ctl_options *o)
{
    int worst = CTL_OK;
    for (int i = 0; i < o->n_files && worst != CTL_NO_DAEMON; i++) {
        int code = CTL_OK;
        if (reduce_drop(c, o->files[i]))
            code = ctl_print_error(o, &(ctl_where){.name = o->files[i]}, 0, NULL);
        if (code > worst)
            worst = code;
    }
    return worst;
}
