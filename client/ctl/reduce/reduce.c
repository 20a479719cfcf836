/* reducectl OP FILE...: open the inputs, find their shape, and reduce them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/formats/container.h"

/* ---- masks ---- */

/* Does a mask with a shape have that of the inputs? Of several, joined along the first axis; one dimension has any of them in
 * order. */
static bool has_shape_of(const ctl_input *mask, const ctl_work *w)
{
    uint64_t length = 0;
    for (int i = 0; i < w->n_in; i++) {
        const ctl_input *in = &w->in[i];
        if (!in->npy || (w->n_in > 1 && mask->dims == 1))
            return true;
        if (mask->dims != in->dims ||
            (in->dims && memcmp(mask->shape + 1, in->shape + 1, (size_t)(in->dims - 1) * sizeof *in->shape)))
            return false;
        length += in->dims ? in->shape[0] : 1;
    }
    return mask->dims == 0 || length == mask->shape[0];
}

/* Are mask and elements stored in the same order? Bytes without a shape, and arrays that are joined, have C order. */
static bool has_order_of(const ctl_input *mask, const ctl_work *w)
{
    bool shuffled = ctl_shuffled(mask);
    for (int i = 0; i < w->n_in; i++)
        shuffled |= ctl_shuffled(&w->in[i]);
    return !shuffled || (w->n_in == 1 && mask->npy && w->in[0].npy && mask->fortran == w->in[0].fortran);
}

/* Does `mask` have a byte for each element of the inputs, in the order in which they are stored? */
static int check_mask(const ctl_work *w, char why[CTL_WHY])
{
    const ctl_input *mask = w->mask, *in = &w->in[0];
    uint64_t count = 0;
    bool sized = mask->sized;
    if (mask->dtype != REDUCE_BOOL && mask->dtype != REDUCE_U8 && mask->dtype != REDUCE_I8) {
        snprintf(why, CTL_WHY, "a mask must be bool, u8 or i8, not %s", reduce_dtype_name(mask->dtype));
        return REDUCE_E_TYPE;
    }
    for (int i = 0; i < w->n_in; i++) {
        count += w->in[i].bytes / reduce_dtype_size(w->in[i].dtype);
        sized &= w->in[i].sized;
    }
    if (sized && mask->bytes != count)
        snprintf(why, CTL_WHY, "the mask has %" PRIu64 " bytes for %" PRIu64 " elements", mask->bytes, count);
    else if (!has_order_of(mask, w) || (mask->npy && in->npy && !has_shape_of(mask, w)))
        snprintf(why, CTL_WHY, "mask and elements must have the same shape and order (C or Fortran)");
    else
        return 0;
    return REDUCE_E_SHAPE;
}

static int open_mask(ctl_work *w, ctl_input *mask, char why[CTL_WHY])
{
    ctl_source source = {.name = w->o->mask, .raw_dtype = REDUCE_U8, .no_scale = w->o->no_scale, .spool = w->o};
    int err = ctl_open(mask, &source, why);
    w->mask = mask;
    mask->beside = true;
    err = err ? err : check_mask(w, why);
    return err ? err : ctl_all_there(mask, "an element of the mask", why);
}

/* ---- weights ---- */

/* ":area" is that column, or member, of the input's own file. *made: what has to be freed. */
static const char *name_of_weights(const ctl_work *w, char **made)
{
    const char *name = w->o->weights, *member = ctl_member_of(w->name);
    *made = NULL;
    if (name[0] != ':')
        return name;
    const int file = member ? (int)(member - w->name) - 1 : (int)strlen(w->name);
    return asprintf(made, "%.*s%s", file, w->name, name) < 0 ? NULL : *made;
}

/* Does the second array suit the first? */
static int check_weights(const ctl_work *w, const ctl_input *weights, char why[CTL_WHY])
{
    const ctl_input *in = &w->in[0];
    if (weights->dtype != in->dtype && !(weights->dtype == REDUCE_F64 && in->dtype == REDUCE_F32)) {
        snprintf(why, CTL_WHY, "weights are of the type of the elements, or f64 beside f32, not %s beside %s",
                 reduce_dtype_name(weights->dtype), reduce_dtype_name(in->dtype));
        return REDUCE_E_TYPE;
    }
    if (weights->dims == 1 && in->dims > 1)
        return 0;
    if (has_order_of(weights, w) && (!weights->npy || !in->npy || has_shape_of(weights, w)))
        return 0;
    snprintf(why, CTL_WHY, "weights must have the shape and order (C or Fortran) of the elements, or one dimension");
    return REDUCE_E_SHAPE;
}

static int open_weights(ctl_work *w, ctl_input *weights, char why[CTL_WHY])
{
    char *made;
    const ctl_options *o = w->o;
    ctl_source source = {.name = name_of_weights(w, &made),
                         .dtype = o->text || w->in[0].column ? w->in[0].dtype : 0,
                         .raw_dtype = w->in[0].dtype,
                         .swapped = o->swapped,
                         .text = o->text,
                         .floats = true,
                         .no_unpack = o->no_unpack,
                         .no_scale = o->no_scale,
                         .verify = o->verify,
                         .dialect = &o->dialect,
                         .spool = o};
    if (!source.name) {
        snprintf(why, CTL_WHY, "no memory for a name");
        return REDUCE_E_NO_MEMORY;
    }
    int err = ctl_open(weights, &source, why);
    w->weights = weights;
    err = err ? err : check_weights(w, weights, why);
    weights->name = o->weights;
    weights->beside = true;
    free(made);
    return err;
}

/* Do elements and weights go to the daemon as they are read, however many? Not where files say that there are fewer weights. */
static bool are_streamed(const ctl_work *w, const ctl_shape *s)
{
    const ctl_input *x = &w->in[0], *y = w->weights;
    if (!y || s->layout != CTL_WHOLE || (w->spec.path != REDUCE_PATH_AUTO && w->spec.path != REDUCE_PATH_STREAM))
        return false;
    return !x->sized || !y->sized || x->bytes / reduce_dtype_size(x->dtype) == y->bytes / reduce_dtype_size(y->dtype);
}

/* ---- one array ---- */

static int fail(const ctl_work *w, const char *name, int err, const char *why)
{
    return ctl_print_error(w->o, &(ctl_where){.name = name}, err, why[0] ? why : reduce_strerror(err));
}

static int run_shape(ctl_work *w)
{
    char why[CTL_WHY] = "";
    ctl_shape s;
    uint64_t *offsets = NULL, n = 0;
    int err = w->o->offsets ? ctl_read_offsets(w->o->offsets, &offsets, &n, why) : 0, code;
    if (err) {
        free(offsets);
        return fail(w, w->o->offsets, err, why);
    }
    err = ctl_find_shape(&s, &w->in[0], w->o, offsets, n, why);
    if (!err)
        ctl_expect(w);
    if (err)
        code = fail(w, w->name, err, why);
    else if (w->o->explain)
        code = ctl_explain(w);
    else if ((ctl_needs_all(w->spec.op) || w->o->quantiles) && !are_streamed(w, &s))
        code = ctl_reduce_at_once(w, &s);
    else
        code = s.layout == CTL_LINES     ? ctl_reduce_rows(w, &s)
               : s.layout == CTL_COLUMNS ? ctl_reduce_axes(w, &s)
                                         : ctl_reduce_whole(w);
    free(offsets);
    return code;
}

/* The inputs are open: complete the spec, open the mask. */
static int run_array(ctl_work *w)
{
    char why[CTL_WHY] = "";
    ctl_input mask = {.fd = -1}, weights = {.fd = -1};
    if (!w->in[0].dtype && w->o->quantiles)
        return fail(w, w->name, REDUCE_E_TYPE, "--quantiles of integers beyond 64 bits are not possible");
    if (!w->in[0].dtype)
        return ctl_reduce_wide(w);
    w->spec = w->o->spec;
    w->spec.dtype = w->in[0].dtype;
    w->spec.rows = 1;
    if (w->o->initial) {
        if (!ctl_parse_scalar(w->o->initial, w->spec.dtype, &w->initial, why))
            return fail(w, "--initial", REDUCE_E_ARGUMENT, why);
        w->spec.initial = &w->initial;
    }
    int err = w->o->weights ? open_weights(w, &weights, why) : 0;
    const char *at = w->o->weights;
    const bool own = ctl_has_own_mask(w) || (weights.keep && !w->o->mask);
    if (!err && !own)
        err = ctl_all_there(&weights, "a weight beside a mask", why);
    if (!err) {
        at = !own ? w->o->mask : ctl_has_own_mask(w) ? w->name : w->o->weights;
        err = own ? ctl_own_mask(w, &mask, why) : w->o->mask ? open_mask(w, &mask, why) : 0;
    }
    const int code = err ? fail(w, at, err, why) : run_shape(w);
    ctl_close(&weights);
    ctl_close(&mask);
    return code;
}

/* ---- files ---- */

/* Would a text of integers have a type that the user's other options exclude? */
static bool needs_floats(const ctl_options *o)
{
    size_t cell;
    reduce_spec spec = o->spec;
    uint64_t bits;
    char why[CTL_WHY];
    if (o->initial && !ctl_parse_scalar(o->initial, REDUCE_I64, &bits, why) &&
        !ctl_parse_scalar(o->initial, REDUCE_U64, &bits, why))
        return true;
    spec.dtype = REDUCE_I64;
    if (!spec.out || !reduce_result_size(&spec, 0, &cell))
        return false;
    spec.dtype = REDUCE_F64;
    return !reduce_result_size(&spec, 0, &cell);
}

/* Would text be added to a state here, as a whole? Then elements may be left out. */
static bool is_added_here(const ctl_options *o)
{
    return !o->by_rows && !o->n_axes && !o->offsets && !o->mask && !o->weights && o->spec.path == REDUCE_PATH_AUTO &&
           !o->spec.deadline_ms;
}

/* `array`: the member that the name says, or NULL. `brief`: as of ctl_source. */
static int open_one(const ctl_work *w, ctl_input *in, const char *name, const ctl_array *array, bool brief)
{
    char why[CTL_WHY] = "";
    ctl_source source = {.name = name,
                         .dtype = w->o->spec.dtype,
                         .swapped = w->o->swapped,
                         .text = w->o->text,
                         .wide = true,
                         .brief = brief,
                         .floats = !w->o->spec.dtype && (w->o->weights || needs_floats(w->o)),
                         .omit = w->o->spec.nan == REDUCE_NAN_OMIT && is_added_here(w->o),
                         .places = ctl_needs_indexes(w->o),
                         .no_unpack = w->o->no_unpack,
                         .no_scale = w->o->no_scale,
                         .verify = w->o->verify,
                         .dialect = &w->o->dialect,
                         .array = array,
                         .spool = w->o};
    if (w->o->text && source.floats)
        source.dtype = REDUCE_F64;
    if (ctl_is_resident(name)) {
        int err = ctl_open_resident(w->c, in, name, w->o->spec.dtype, why);
        return err ? ctl_print_error(w->o, &(ctl_where){.name = name}, err, why[0] ? why : NULL) : CTL_OK;
    }
    int err = ctl_open(in, &source, why);
    return err ? fail(w, in->name, err, why) : CTL_OK;
}

static int reduce_array(ctl_work *w, const char *name, const ctl_array *array, bool brief)
{
    ctl_input in;
    w->in = &in;
    int code = open_one(w, &in, name, array, brief);
    w->name = in.name;
    if (code == CTL_OK)
        code = run_array(w);
    if (w->mistaken && in.regular) /* it is read again: standard input from where it was */
        lseek(in.fd, (off_t)in.start, SEEK_SET);
    ctl_close(&in);
    return code;
}

/* Can the reduction begin again: one result, printed at the end, and only the file must be read again? */
static bool can_begin_again(const ctl_options *o)
{
    return !o->by_rows && !o->n_axes && !o->offsets && !o->mask && !o->weights;
}

int ctl_reduce_array(reduce_client *c, const ctl_options *o, const char *name, const ctl_array *array)
{
    ctl_work w = {.c = c, .o = o, .n_in = 1};
    ctl_start_deadline(o->spec.deadline_ms);
    int code = reduce_array(&w, name, array, can_begin_again(o));
    if (w.mistaken)
        code = reduce_array(&w, name, array, false);
    ctl_start_deadline(0); /* the tensors of a file have their own, in their requests */
    return code;
}

/* Each array of a file by itself. */
static int members(reduce_client *c, const ctl_options *given, const char *file, const ctl_directory *d)
{
    ctl_options o = *given;
    int worst = CTL_OK;
    o.members = true;
    for (size_t i = 0; i < d->n && worst != CTL_NO_DAEMON && !ctl_interrupted(); i++) {
        char *name = NULL;
        if (asprintf(&name, "%s:%s", file, d->arrays[i].name) < 0)
            return ctl_print_error(&o, &(ctl_where){.name = file}, REDUCE_E_NO_MEMORY, "no memory for a name");
        int code = ctl_reduce_array(c, &o, name, &d->arrays[i]);
        free(name);
        worst = code > worst ? code : worst;
    }
    return worst;
}

/* A file, and all arrays of it if there are several. */
static int file(reduce_client *c, const ctl_options *o, const char *name)
{
    ctl_directory d = {0};
    char why[CTL_WHY] = "";
    int err = ctl_is_resident(name) || o->text ? 0 : ctl_arrays(name, o, &d, why), code;
    if (err)
        return ctl_print_error(o, &(ctl_where){.name = name}, err, why);
    if (d.n > 1)
        code = ctl_is_table(o) ? ctl_reduce_tensors(c, o, name, &d) : members(c, o, name, &d);
    else
        code = ctl_reduce_array(c, o, name, NULL);
    ctl_directory_free(&d);
    return code;
}

/* Can input i be part of the total? */
static int check_part(const ctl_work *w, int i)
{
    const ctl_input *in = &w->in[i];
    char why[CTL_WHY];
    if (in->dtype != w->in[0].dtype) {
        snprintf(why, sizeof why, "holds %s, but the files before it hold %s: a total needs one type",
                 reduce_dtype_name(in->dtype), reduce_dtype_name(w->in[0].dtype));
        return fail(w, in->name, REDUCE_E_TYPE, why);
    }
    if (ctl_shuffled(in) && ctl_needs_indexes(w->o))
        return fail(w, in->name, REDUCE_E_SHAPE, "indexes in a total need C order; this .npy is in Fortran order");
    return CTL_OK;
}

/* Texts whose types were determined get a common type. */
static int agree(ctl_work *w)
{
    int dtype = 0;
    ctl_reader **readers = calloc((size_t)w->n_in, sizeof *readers);
    if (!readers)
        return fail(w, "total", REDUCE_E_NO_MEMORY, "no memory for the list of files");
    for (int i = 0; i < w->n_in; i++)
        readers[i] = w->in[i].reader;
    ctl_reader_agree(readers, w->n_in, &dtype);
    free(readers);
    for (int i = 0; i < w->n_in; i++)
        w->in[i].dtype = dtype;
    return CTL_OK;
}

/* Keep this shard's part of the open inputs. */
static int cut(ctl_work *w, ctl_options *mine, int *opened)
{
    char why[CTL_WHY];
    int err = ctl_cut_shard(mine, w->in, opened, &mine->spec.index_base, why);
    w->n_in = *opened;
    return err ? fail(w, "--shard", err, why) : CTL_OK;
}

static int total(reduce_client *c, const ctl_options *o)
{
    int n = o->n_files, code = CTL_OK, opened = 0;
    ctl_options mine = *o;
    ctl_input *in = calloc((size_t)n, sizeof *in);
    ctl_work w = {.c = c, .o = &mine, .name = "total", .in = in, .n_in = n};
    if (!in)
        return fail(&w, "total", REDUCE_E_NO_MEMORY, "no memory for the list of files");
    ctl_start_deadline(o->spec.deadline_ms);
    for (; opened < n && code == CTL_OK; opened++) {
        code = open_one(&w, &in[opened], o->files[opened], NULL, false);
        in[opened].beside = true;
        if (code == CTL_OK && !in[opened].guessed)
            code = check_part(&w, opened);
    }
    if (code == CTL_OK && in[0].guessed)
        code = agree(&w);
    if (code == CTL_OK && o->shards)
        code = cut(&w, &mine, &opened);
    if (code == CTL_OK)
        code = run_array(&w);
    for (int i = 0; i < opened; i++)
        ctl_close(&in[i]);
    free(in);
    return code;
}

int ctl_reduce(reduce_client *c, const ctl_options *o)
{
    if (o->merge)
        return ctl_merge(c, o);
    if (o->total)
        return total(c, o);
    int worst = CTL_OK;
    for (int i = 0; i < o->n_files && worst != CTL_NO_DAEMON && !ctl_interrupted(); i++) {
        int code = file(c, o, o->files[i]);
        if (code > worst)
            worst = code;
    }
    return worst;
}
