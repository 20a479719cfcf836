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

/* Lines of a stored matrix of `rows` rows: its rows, or its columns. */
static void matrix(ctl_shape *s, uint64_t rows, uint64_t columns, bool reduce_columns, const char *unit)
{
    s->unit = unit;
    s->layout = reduce_columns && rows ? CTL_COLUMNS : CTL_LINES; /* columns without rows: empty lines */
    s->lines = reduce_columns ? columns : rows;
    s->len = reduce_columns ? rows : columns;
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

/* --rows: the elements, in C order, as so many rows. */
static int rows(ctl_shape *s, const ctl_input *in, const ctl_options *o, char why[CTL_WHY])
{
    uint64_t n = o->spec.rows, count = elements(in);
    if (count % n) {
        snprintf(why, CTL_WHY, "%" PRIu64 " elements cannot be cut into %" PRIu64 " equal rows", count, n);
        return REDUCE_E_SHAPE;
    }
    matrix(s, n, count / n, o->axis == 0, o->axis == 0 ? "column" : "row");
    return 0;
}

/* --axis of a .npy: in Fortran order its columns lie one after the other. */
static int axis(ctl_shape *s, const ctl_input *in, const ctl_options *o, char why[CTL_WHY])
{
    if (!in->npy)
        return wrong(why,
                     in->resident ? "resident data have no shape: --axis needs --rows" : "--axis of raw elements needs --rows");
    if (in->dims < 1 || in->dims > 2) {
        snprintf(why, CTL_WHY, "--axis is for 1 or 2 dimensions; this .npy has %d", in->dims);
        return REDUCE_E_SHAPE;
    }
    if (o->axis >= in->dims)
        return wrong(why, "a .npy of 1 dimension has axis 0 only");
    if (in->dims == 1)
        return 0;
    const char *unit = o->axis == 0 ? "column" : "row";
    if (in->fortran)
        matrix(s, in->shape[1], in->shape[0], o->axis == 1, unit);
    else
        matrix(s, in->shape[0], in->shape[1], o->axis == 0, unit);
    return 0;
}

int ctl_find_shape(ctl_shape *s, const ctl_input *in, const ctl_options *o, const uint64_t *offsets, uint64_t n,
                   char why[CTL_WHY])
{
    *s = (ctl_shape){.layout = CTL_WHOLE, .lines = 1};
    if (!offsets && !o->by_rows && o->axis == CTL_NO_AXIS)
        return 0;
    if (!in->sized || in->text)
        return wrong(why, "--rows, --offsets and --axis need a binary file of known size");
    if (ctl_shuffled(in) && (offsets || o->by_rows))
        return wrong(why, "--rows and --offsets need C order; this .npy is in Fortran order");
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
    if (!err)
        err = load(&in, offsets, n, why);
    ctl_close(&in);
    return err;
}
