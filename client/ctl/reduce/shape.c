/* Which elements belong to which result: from the options and, for .npy files, the header. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"

static int wrong(char why[CTL_WHY], const char *text)
{
    snprintf(why, CTL_WHY, "%s", text);
    return REDUCE_E_SHAPE;
}

static uint64_t elements(const ctl_input *in) { return in->bytes / reduce_dtype_size(in->dtype); }

/* ---- axes ---- */

/* Add an axis of length `len`, slower than the existing ones. Neighbours of the same kind are one if `join`. */
static void add_axis(ctl_axes *a, uint64_t len, bool reduced, uint64_t place, bool join)
{
    const int last = a->n - 1;
    if (len == 1)
        return;
    if (last >= 0 && a->reduced[last] == reduced && join) {
        a->len[last] *= len;
        return;
    }
    a->len[a->n] = len;
    a->reduced[a->n] = reduced;
    a->place[a->n++] = place;
}

/* Slowest first. */
static void reverse(ctl_axes *a)
{
    for (int i = 0, j = a->n - 1; i < j; i++, j--) {
        const uint64_t len = a->len[i], place = a->place[i];
        const bool reduced = a->reduced[i];
        a->len[i] = a->len[j], a->reduced[i] = a->reduced[j], a->place[i] = a->place[j];
        a->len[j] = len, a->reduced[j] = reduced, a->place[j] = place;
    }
}

/* An array that has elements. In Fortran order the indexes within a result run against memory: then axes stay apart if they
 * are several. So do kept ones, which are put in order at the end. */
static void lay_out(ctl_axes *a, const uint64_t *shape, const bool *reduced, int dims, bool fortran, bool indexes)
{
    uint64_t place[CTL_MAX_DIMS], elements = 1;
    for (int d = dims - 1; d >= 0; d--) {
        place[d] = elements;
        elements *= reduced[d] ? shape[d] : 1;
    }
    *a = (ctl_axes){.turned = fortran};
    for (int i = 0; i < dims; i++) {
        const int d = fortran ? i : dims - 1 - i;
        add_axis(a, shape[d], reduced[d], place[d], !fortran || (reduced[d] && !indexes));
    }
    reverse(a);
    for (int i = 0; i < a->n; i++)
        if (a->reduced[i])
            return;
    a->len[a->n] = a->place[a->n] = 1; /* there must be a reduced axis, even of length 1 */
    a->reduced[a->n++] = true;
}

/* Results of an array, and elements of each; false: more than there may be. */
static bool count_results(ctl_shape *s, const uint64_t *shape, const bool *reduced, int dims)
{
    bool fits = true, empty = false;
    s->lines = s->len = 1;
    for (int d = 0; d < dims; d++) {
        empty |= reduced[d] && shape[d] == 0;
        fits &= !__builtin_mul_overflow(reduced[d] ? s->len : s->lines, shape[d], reduced[d] ? &s->len : &s->lines) ||
                reduced[d];
    }
    s->len = empty ? 0 : s->len;
    return fits && s->lines <= CTL_MAX_COUNT;
}

/* Are the reduced axes the last ones in memory, one after the other, and the results in order? */
static bool are_rows(const ctl_axes *a)
{
    int kept = 0;
    for (int i = 0; i < a->n; i++)
        kept += !a->reduced[i];
    return a->n == kept + 1 && a->reduced[a->n - 1] && !(a->turned && kept > 1);
}

/* Results of an array of `dims` dimensions along the axes that are not reduced. */
static int along(ctl_shape *s, const uint64_t *shape, const bool *reduced, int dims, bool fortran, const ctl_options *o,
                 char why[CTL_WHY])
{
    if (!count_results(s, shape, reduced, dims)) {
        snprintf(why, CTL_WHY, "more than 2^60 results");
        return REDUCE_E_TOO_LARGE;
    }
    s->layout = CTL_LINES; /* also of nothing: empty lines */
    if (s->lines == 0 || s->len == 0)
        return 0;
    lay_out(&s->axes, shape, reduced, dims, fortran, ctl_needs_indexes(o));
    if (!are_rows(&s->axes))
        s->layout = CTL_COLUMNS;
    return 0;
}

/* Which of `dims` axes the user wants reduced. */
static int take_axes(bool reduced[CTL_MAX_DIMS], int dims, const ctl_options *o, char why[CTL_WHY])
{
    memset(reduced, 0, CTL_MAX_DIMS * sizeof *reduced);
    for (int i = 0; i < o->n_axes; i++) {
        const int axis = o->axes[i] < 0 ? o->axes[i] + dims : o->axes[i];
        if ((axis < 0 || axis >= dims) && dims == 1)
            snprintf(why, CTL_WHY, "an array of 1 dimension has axis 0 only");
        else if (axis < 0 || axis >= dims)
            snprintf(why, CTL_WHY, "an array of %d dimensions has no axis %d", dims, o->axes[i]);
        else if (reduced[axis])
            snprintf(why, CTL_WHY, "axis %d is named twice", o->axes[i]);
        else
            reduced[axis] = true;
        if (why[0])
            return REDUCE_E_SHAPE;
    }
    return 0;
}

/* --axis of an array. */
static int array(ctl_shape *s, const uint64_t *shape, int dims, bool fortran, const ctl_options *o, char why[CTL_WHY])
{
    bool reduced[CTL_MAX_DIMS];
    int err = take_axes(reduced, dims, o, why);
    if (err || o->n_axes == dims) /* one result */
        return err;
    s->unit = dims > 2 ? "result" : reduced[0] ? "column" : "row";
    return along(s, shape, reduced, dims, fortran, o, why);
}

static int segments(ctl_shape *s, const ctl_input *in, const uint64_t *offsets, uint64_t n, char why[CTL_WHY])
{
    uint64_t count = elements(in);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t least = i ? offsets[i - 1] : 0;
        if (offsets[i] >= least && offsets[i] <= count)
            continue;
        snprintf(why, CTL_WHY, "offset %" PRIu64 " is %" PRIu64 ", %s", i, offsets[i],
                 offsets[i] < least ? "below the one before it" : "after the last element");
        return REDUCE_E_SHAPE;
    }
    s->layout = CTL_LINES;
    s->unit = "segment";
    s->lines = n - 1;
    s->offsets = offsets;
    return 0;
}

/* --rows: the elements, in C order, as rows. */
static int rows(ctl_shape *s, const ctl_input *in, const ctl_options *o, char why[CTL_WHY])
{
    uint64_t n = o->spec.rows, count = elements(in), shape[2] = {n, count / n};
    if (count % n) {
        snprintf(why, CTL_WHY, "%" PRIu64 " elements cannot be cut into %" PRIu64 " equal rows", count, n);
        return REDUCE_E_SHAPE;
    }
    if (o->n_axes)
        return array(s, shape, 2, false, o, why);
    s->layout = CTL_LINES;
    s->unit = "row";
    s->lines = n;
    s->len = count / n;
    return 0;
}

static int axis(ctl_shape *s, const ctl_input *in, const ctl_options *o, char why[CTL_WHY])
{
    if (!in->npy)
        return wrong(why, in->resident ? "these data were put without a shape: --axis needs --rows"
                                       : "--axis of raw elements needs --rows");
    if (in->dims < 1)
        return wrong(why, "--axis needs dimensions; this array has 0");
    return array(s, in->shape, in->dims, in->fortran, o, why);
}

/* Data in Fortran order whose result contains indexes are reduced axis by axis where they are resident or needed at once. */
static int whole_in_order(ctl_shape *s, const ctl_input *in, const ctl_options *o, char why[CTL_WHY])
{
    bool reduced[CTL_MAX_DIMS];
    for (int d = 0; d < in->dims; d++)
        reduced[d] = true;
    return along(s, in->shape, reduced, in->dims, true, o, why);
}

int ctl_find_shape(ctl_shape *s, const ctl_input *in, const ctl_options *o, const uint64_t *offsets, uint64_t n,
                   char why[CTL_WHY])
{
    *s = (ctl_shape){.layout = CTL_WHOLE, .lines = 1};
    const bool by_axes = in->resident || ctl_needs_all(o->spec.op) || o->quantiles;
    if (!offsets && !o->by_rows && (!o->n_axes || o->n_axes == in->dims) && by_axes && ctl_shuffled(in) && ctl_needs_indexes(o))
        return whole_in_order(s, in, o, why);
    if (!offsets && !o->by_rows && !o->n_axes)
        return 0;
    if (!in->sized || in->text)
        return wrong(why, "--rows, --offsets and --axis need a binary file of known size");
    if (ctl_shuffled(in) && (offsets || o->by_rows))
        return wrong(why, "--rows and --offsets need C order; this array is in Fortran order");
    if (offsets)
        return segments(s, in, offsets, n, why);
    return o->by_rows ? rows(s, in, o, why) : axis(s, in, o, why);
}

/* ---- files of offsets ---- */

static int check_offsets(const ctl_input *in, uint64_t n, const uint64_t *offsets, char why[CTL_WHY])
{
    if (n == 0)
        return wrong(why, "the file has no offsets: it needs one more than segments, at least 2");
    if (n == 1)
        return wrong(why, "the file has a single offset: it needs one more than segments, at least 2");
    for (uint64_t i = 0; i < n && in->dtype == REDUCE_I64; i++)
        if (offsets[i] >> 63) {
            snprintf(why, CTL_WHY, "offset %" PRIu64 " is %" PRId64, i, (int64_t)offsets[i]);
            return REDUCE_E_SHAPE;
        }
    return 0;
}

static int load(ctl_input *in, uint64_t **offsets, uint64_t *n, char why[CTL_WHY])
{
    if (in->dtype != REDUCE_U64 && in->dtype != REDUCE_I64) {
        snprintf(why, CTL_WHY, "offsets must be u64 or i64, not %s", reduce_dtype_name(in->dtype));
        return REDUCE_E_TYPE;
    }
    if (!in->sized)
        return wrong(why, "raw offsets must come from a file, not a pipe");
    *n = in->bytes / sizeof **offsets;
    *offsets = malloc((size_t)(in->bytes ? in->bytes : 1));
    if (!*offsets) {
        snprintf(why, CTL_WHY, "no memory for %" PRIu64 " offsets", *n);
        return REDUCE_E_NO_MEMORY;
    }
    if (ctl_read_full(in, *offsets, (size_t)in->bytes, why) < 0)
        return in->err;
    return check_offsets(in, *n, *offsets, why);
}

int ctl_read_offsets(const char *name, uint64_t **offsets, uint64_t *n, char why[CTL_WHY])
{
    ctl_input in;
    ctl_source source = {.name = name, .raw_dtype = REDUCE_U64};
    *offsets = NULL;
    int err = ctl_open(&in, &source, why);
    if (!err && in.npy && in.dims != 1) {
        snprintf(why, CTL_WHY, "offsets have one dimension, not %d", in.dims);
        err = REDUCE_E_SHAPE;
    }
    if (!err)
        err = load(&in, offsets, n, why);
    ctl_close(&in);
    return err;
}
