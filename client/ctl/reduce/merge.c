/* reducectl OP --merge FILE...: files of partial states, as --partial writes them, into values. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "proto/types.h"

/* State i of every file, for all i: rows of `files` states each. */
typedef struct states {
    uint8_t *bytes;
    size_t size;   /* of one */
    uint64_t rows; /* in each file */
    int files, dtype;
} states;

enum { LAYOUT_AT = 0, DTYPE_AT = 4 /* offsets of layout and dtype in a state, see PROTOCOL.md */ };

/* What the states of a layout are of */
static const char *content(int layout)
{
#define X(NAME, name_code, sum, squares, others, of, ...) [RP_STATE_##NAME] = of,
    static const char *const names[RP_LAYOUT_COUNT] = {RP_LAYOUTS(X)};
#undef X
    return layout < RP_LAYOUT_COUNT ? names[layout] : "something unknown";
}

/* Do the bytes look like states of any kind? */
static bool are_states(const uint8_t *bytes, size_t n)
{
    size_t size = n > DTYPE_AT ? rp_state_size(bytes[LAYOUT_AT]) : 0;
    return size && n % size == 0 && reduce_dtype_size(bytes[DTYPE_AT]);
}

static int wrong(char why[CTL_WHY], int err, const char *text)
{
    snprintf(why, CTL_WHY, "%s", text);
    return err;
}

/* Read layout and element type from the first file. */
static int first_file(states *s, const ctl_options *o, const uint8_t *bytes, size_t n, char why[CTL_WHY])
{
    s->dtype = o->spec.dtype ? o->spec.dtype : n > DTYPE_AT ? bytes[DTYPE_AT] : 0;
    s->size = reduce_state_size(o->spec.op, s->dtype);
    if (s->size && are_states(bytes, n) && bytes[LAYOUT_AT] != rp_state_layout(o->spec.op, s->dtype)) {
        snprintf(why, CTL_WHY, "holds states of %s, not of %s", content(bytes[LAYOUT_AT]), reduce_op_name(o->spec.op));
        return REDUCE_E_TYPE;
    }
    if (s->size == 0 || n == 0 || n % s->size) {
        snprintf(why, CTL_WHY, "%zu bytes are not partial states of %s", n, reduce_op_name(o->spec.op));
        return REDUCE_E_SHAPE;
    }
    s->rows = n / s->size;
    if (s->rows > SIZE_MAX / s->size / (size_t)s->files || !(s->bytes = malloc(s->rows * s->size * (size_t)s->files)))
        return wrong(why, REDUCE_E_NO_MEMORY, "no memory for the states");
    return 0;
}

static int take_file(states *s, const ctl_options *o, int file, const uint8_t *bytes, size_t n, char why[CTL_WHY])
{
    int err = file ? 0 : first_file(s, o, bytes, n, why);
    if (err)
        return err;
    if (n != s->rows * s->size) {
        snprintf(why, CTL_WHY, "holds %zu bytes of states, but the first file %" PRIu64, n, s->rows * s->size);
        return REDUCE_E_SHAPE;
    }
    for (uint64_t i = 0; i < s->rows; i++)
        memcpy(s->bytes + (i * (uint64_t)s->files + (uint64_t)file) * s->size, bytes + i * s->size, s->size);
    return 0;
}

static int read_file(states *s, const ctl_options *o, int file, char why[CTL_WHY])
{
    ctl_input in;
    ctl_source source = {.name = o->files[file], .raw_dtype = REDUCE_U8};
    uint8_t *bytes = NULL;
    size_t n = 0;
    int err = ctl_open(&in, &source, why);
    if (!err && (in.npy || in.text))
        err = wrong(why, REDUCE_E_TYPE, "partial states are bytes that --partial wrote");
    if (!err)
        err = ctl_read_all(&in, &bytes, &n, why);
    if (!err)
        err = take_file(s, o, file, bytes, n, why);
    free(bytes);
    ctl_close(&in);
    return err;
}

static int run(reduce_client *c, const ctl_options *o, const states *s, const ctl_where *where)
{
    char why[CTL_WHY] = "";
    size_t room;
    reduce_result r = REDUCE_RESULT_INIT;
    reduce_spec spec = o->spec;
    uint64_t initial;
    spec.dtype = s->dtype;
    spec.flags |= REDUCE_STATES_IN;
    spec.rows = s->rows;
    if (o->initial && !ctl_parse_scalar(o->initial, spec.dtype, &initial, why))
        return ctl_print_error(o, where, REDUCE_E_ARGUMENT, why);
    spec.initial = o->initial ? &initial : NULL;
    if (reduce_result_size(&spec, 0, &room))
        return ctl_print_error(o, where, 0, NULL);
    uint8_t *cells = malloc(room);
    if (!cells)
        return ctl_print_error(o, where, REDUCE_E_NO_MEMORY, "no memory for the results");
    int err = ctl_run(c, &spec, s->bytes, (size_t)(s->rows * (uint64_t)s->files) * s->size, cells, room, &r);
    if (!err)
        ctl_print_cells(o, where, &r, cells);
    free(cells);
    return err ? ctl_print_error(o, where, err, NULL) : CTL_OK;
}

int ctl_merge(reduce_client *c, const ctl_options *o)
{
    states s = {.files = o->n_files};
    char why[CTL_WHY] = "";
    int code = CTL_OK;
    for (int i = 0; i < s.files && code == CTL_OK; i++) {
        int err = read_file(&s, o, i, why);
        if (err)
            code = ctl_print_error(o, &(ctl_where){.name = o->files[i]}, err, why[0] ? why : reduce_strerror(err));
    }
    if (code == CTL_OK)
        code = run(c, o, &s, &(ctl_where){.name = "total", .unit = s.rows > 1 ? "row" : NULL});
    free(s.bytes);
    return code;
}
