#include "client/spec.h"

#include <inttypes.h>
#include <string.h>

#include "client/error.h"
#include "client/sized.h"
#include "proto/tagged.h"

enum {
    WIRE_FLAGS = REDUCE_STATES_IN | REDUCE_STATES_OUT | REDUCE_WRAP | REDUCE_MASKED | REDUCE_COLUMNS | REDUCE_DROP_OUTSIDE,
    PUBLIC_FLAGS = WIRE_FLAGS | REDUCE_DROP_ZERO_WEIGHTS
};

static uint8_t code(int32_t v) { return v >= 0 && v <= UINT8_MAX ? (uint8_t)v : UINT8_MAX; }

/* Flags of the wire: those of the spec and what its pointers say. */
static uint32_t wire_flags(const reduce_spec *g)
{
    return (g->flags & WIRE_FLAGS) | (g->initial ? RP_INITIAL : 0) | (g->mask ? RP_MASK : 0) | (g->offsets ? RP_OFFSETS : 0) |
           (g->weights ? RP_WEIGHTS : 0) | (g->keys_dtype ? RP_KEYS : 0);
}

int rc_states_dtype(const reduce_spec *g) { return g->weights && g->weights_dtype == REDUCE_F64 ? REDUCE_F64 : g->dtype; }

static int weights_dtype(const reduce_spec *g) { return g->weights_dtype ? g->weights_dtype : g->dtype; }

/* Does the operation take weights, and these? */
static int check_weights(const reduce_spec *g, rp_fault *f)
{
    if (!g->weights)
        return g->weights_dtype || g->weights_extent
                   ? rc_fail(f, REDUCE_E_ARGUMENT, "weights", "a type or extent of weights, which are NULL")
                   : 0;
    if (!rp_is_paired(code(g->op)))
        return rc_fail(f, REDUCE_E_ARGUMENT, "weights", "%s takes no weights", rp_op_name(code(g->op)));
    if (!rp_weights_suit(g->dtype, weights_dtype(g)))
        return rc_fail(f, REDUCE_E_TYPE, "weights_dtype", "weights of %s with elements of %s", rp_dtype_name(g->weights_dtype),
                       rp_dtype_name(g->dtype));
    if (g->weights_extent < 0 || g->weights_extent > REDUCE_EACH_ROW)
        return rc_fail(f, REDUCE_E_ARGUMENT, "weights_extent", "unknown extent %" PRIi32, g->weights_extent);
    if (g->offsets && g->weights_extent > REDUCE_EACH_ELEMENT)
        return rc_fail(f, REDUCE_E_SHAPE, "weights_extent", "segments take a weight for each element");
    return 0;
}

/* Are there keys, of a type that they may have, and do the states of all groups have room? */
static int check_keys(const reduce_spec *g, const rp_spec *s, rp_fault *f)
{
    if (g->keys_reserved)
        return rc_fail(f, REDUCE_E_ARGUMENT, "keys_reserved", "it is not 0");
    if (!g->keys_dtype)
        return g->keys || g->keys_name || g->keys_offset ? rc_fail(f, REDUCE_E_ARGUMENT, "keys_dtype", "keys of no type") : 0;
    if (!rp_keys_suit(s->keys))
        return rc_fail(f, REDUCE_E_TYPE, "keys_dtype", "keys are of an integer type, not %s", rp_dtype_name(g->keys_dtype));
    if (g->keys_offset % rp_dtype_size(s->keys))
        return rc_fail(f, REDUCE_E_ARGUMENT, "keys_offset", "byte %" PRIu64 " is within a key", g->keys_offset);
    rp_spec all = *s;
    all.rows = g->rows;
    return -(int)rp_spec_check_large(&all, f);
}

int rc_check_paired(const rp_spec *s, rp_fault *f)
{
    if (!rp_is_paired(s->op) || s->flags & (RP_WEIGHTS | RP_STATES_IN))
        return 0;
    return rc_fail(f, REDUCE_E_ARGUMENT, "weights", "%s needs a second array, `weights`", rp_op_name(s->op));
}

/* Are the parameters there that the operation needs, and no others? */
static int check_parameters(const reduce_spec *g, const rp_spec *s, rp_fault *f)
{
    const uint32_t given = (g->quantiles ? RP_TAKE_Q : 0) | (g->method ? RP_TAKE_METHOD : 0) |
                           (g->k || g->op == REDUCE_KTH || rp_is_top(code(g->op)) ? RP_TAKE_K : 0) |
                           (g->n_edges ? RP_TAKE_EDGES : 0) |
                           (g->flags & REDUCE_DROP_ZERO_WEIGHTS ? RP_TAKE_ZERO_WEIGHTS_DROP : 0);
    rp_err err = rp_takes_check(code(g->op), given, f);
    if (err)
        return -(int)err;
    if (g->n_edges > RP_MAX_EDGES) {
        rc_fail(f, REDUCE_E_TOO_LARGE, "edges", "%" PRIu64 " edges", g->n_edges);
        f->limit = RP_MAX_EDGES;
        return REDUCE_E_TOO_LARGE;
    }
    if (g->n_edges && !g->edges)
        return rc_fail(f, REDUCE_E_ARGUMENT, "edges", "the pointer to the edges is NULL");
    if (g->quantiles > RP_MAX_QUANTILES) {
        rc_fail(f, REDUCE_E_TOO_LARGE, "quantiles", "%" PRIu32 " quantiles at once", g->quantiles);
        f->limit = RP_MAX_QUANTILES;
        return REDUCE_E_TOO_LARGE;
    }
    if (g->quantiles && !g->q)
        return rc_fail(f, REDUCE_E_ARGUMENT, "q", "the pointer to the quantiles is NULL");
    if (rp_method_name(g->method)[0] == '?')
        return rc_fail(f, REDUCE_E_BAD_MESSAGE, "method", "unknown method %" PRIi32 " of quantiles", g->method);
    for (uint32_t i = 0; i < g->quantiles; i++)
        if (!(g->q[i] >= 0 && g->q[i] <= 1))
            return rc_fail(f, REDUCE_E_BAD_MESSAGE, "q", "quantile %" PRIu32 " is not from 0 to 1", i);
    return -(int)rp_order_check(s, f);
}

int rc_take_spec(const reduce_spec *given, reduce_spec *mine, rp_fault *f)
{
    return rc_take_sized(mine, sizeof *mine, _Alignof(reduce_spec), given, RC_UP_TO(reduce_spec, offsets), "spec", f);
}

/* The spec that was taken, on the wire. */
static int put_spec(const reduce_spec *g, rp_spec *s, rp_fault *f)
{
    if (g->deadline_ms > RP_MAX_DEADLINE_MS)
        return rc_fail(f, REDUCE_E_ARGUMENT, "deadline_ms", "the deadline is above %u ms", RP_MAX_DEADLINE_MS);
    if (g->flags & ~(uint32_t)PUBLIC_FLAGS)
        return rc_fail(f, REDUCE_E_BAD_MESSAGE, "flags", "unknown flags 0x%" PRIx32, g->flags & ~(uint32_t)PUBLIC_FLAGS);
    if (g->device > UINT16_MAX)
        return rc_fail(f, REDUCE_E_ARGUMENT, "device", "no daemon has a device %" PRIu32, g->device - 1);
    if (g->path && reduce_path_name(g->path)[0] == '?')
        return rc_fail(f, REDUCE_E_ARGUMENT, "path", "unknown path %" PRIi32, g->path);
    if (g->rows == 0 || g->rows > RP_MAX_COUNT) {
        rc_fail(f, g->rows ? REDUCE_E_TOO_LARGE : REDUCE_E_SHAPE, "rows", "%" PRIu64 " rows", g->rows);
        f->limit = g->rows ? RP_MAX_COUNT : 1;
        return -(int)f->code;
    }
    *s = (rp_spec){.op = code(g->op),
                   .dtype = code(g->dtype),
                   .out = code(g->out),
                   .nan = code(g->nan),
                   .flags = wire_flags(g),
                   .ddof = g->ddof,
                   .rows = 1,
                   .planes = g->planes > 1 || (g->flags & REDUCE_COLUMNS) ? g->planes : 0,
                   .index_base = g->index_base,
                   .device = (uint16_t)g->device,
                   .keys = code(g->keys_dtype),
                   .k = g->k,
                   .method = code(g->method),
                   .quantiles = code((int32_t)g->quantiles),
                   .edges = (const uint8_t *)g->edges,
                   .n_edges = g->n_edges <= RP_MAX_EDGES ? (uint32_t)g->n_edges : 0};
    if (g->weights) {
        s->weights = code(weights_dtype(g));
        s->weights_extent = g->weights_extent ? code(g->weights_extent) : RP_EXTENT_ELEMENTS;
        s->zero_drops = g->flags & REDUCE_DROP_ZERO_WEIGHTS;
    }
    if (g->initial)
        memcpy(&s->initial, g->initial, rp_dtype_size(s->dtype)); /* 0 bytes of an unknown type */
    int err = check_weights(g, f);
    if (!err)
        err = -(int)rp_spec_check(s, f);
    if (!err)
        err = check_keys(g, s, f);
    return err ? err : check_parameters(g, s, f);
}

int rc_spec(const reduce_spec *given, reduce_spec *mine, rp_spec *s, rp_fault *f)
{
    const int err = rc_take_spec(given, mine, f);
    return err ? err : put_spec(mine, s, f);
}

int rc_spec_in_pieces(const reduce_spec *given, reduce_spec *mine, rp_spec *s, rp_fault *f)
{
    const int err = rc_take_spec(given, mine, f);
    if (err)
        return err;
    const bool come = rp_is_paired(code(mine->op)) && !mine->weights && !(mine->flags & REDUCE_STATES_IN);
    if (come)
        mine->weights = mine; /* not read, but there */
    const int bad = put_spec(mine, s, f);
    mine->weights = come ? NULL : mine->weights;
    return bad;
}

int rc_has_states(int op)
{
    if (!rp_is_ranked(code(op)))
        return 0;
    return rc_error(REDUCE_E_BAD_MESSAGE, "op",
                    "%s has no partial states and no streams: it needs all elements at once, as "
                    "reduce_run, reduce_file and reduce_named have them",
                    rp_op_name(op));
}

static int not_rows(uint64_t items, bool states, const reduce_spec *g, rp_fault *f)
{
    const char *what = states ? "states" : "elements";
    if (g->planes > 1)
        return rc_fail(f, REDUCE_E_SHAPE, "rows", "%" PRIu64 " %s cannot be cut into %" PRIu64 " x %" PRIu64 " equal rows",
                       items, what, g->planes, g->rows);
    return rc_fail(f, REDUCE_E_SHAPE, "rows", "%" PRIu64 " %s cannot be cut into %" PRIu64 " equal rows", items, what, g->rows);
}

/* Do weights depend on the place within a plane alone? */
static bool weighs_planes(const rc_level *l)
{
    return l->spec.flags & RP_WEIGHTS && l->spec.weights_extent != RP_EXTENT_ELEMENTS;
}

/* The lines are the columns, of all planes. Columns of one element, and planes of one column, are simpler than that. */
static void shape_columns(rc_level *l, uint64_t columns, uint64_t rows, uint64_t planes)
{
    l->lines = columns * planes;
    l->len = rows;
    l->width = rows == 1 && !weighs_planes(l) ? l->lines : columns;
    l->spec.planes = 0; /* each tile's */
    if (columns == 1 && planes > 1 && !weighs_planes(l))
        l->spec.flags &= ~(uint32_t)RP_COLUMNS;
}

/* A row has a run in each plane, unless they all follow one another. */
static void shape_rows(rc_level *l, uint64_t planes)
{
    l->runs = planes > 1 && (l->lines > 1 || weighs_planes(l)) && l->len ? planes : 0;
    l->len *= planes;
    l->spec.planes = 0; /* each tile's */
}

int rc_shape(rc_level *l, const reduce_spec *g, size_t bytes, rp_fault *f)
{
    bool states = l->spec.flags & RP_STATES_IN, masked = g->flags & REDUCE_MASKED;
    uint64_t unit = l->item + masked, items = bytes / unit, rows;
    if (bytes % unit) {
        rc_fail(f, REDUCE_E_SHAPE, "bytes", "%zu bytes are not a multiple of the %" PRIu64 "-byte %s", bytes, unit,
                states   ? "state"
                : masked ? "element and mask"
                         : "element");
        f->limit = unit;
        return REDUCE_E_SHAPE;
    }
    l->lines = g->rows;
    l->len = items;
    if (l->spec.flags & RP_KEYS)
        return 0;
    if (g->offsets) {
        rp_spec s = {.rows = g->rows, .row_len = items};
        return -(int)rp_offsets_check(&s, (const uint8_t *)g->offsets, f);
    }
    if (__builtin_mul_overflow(g->rows, rp_planes(&l->spec), &rows) || items % rows)
        return not_rows(items, states, g, f);
    l->len = items / rows;
    if (l->spec.flags & RP_COLUMNS)
        shape_columns(l, l->len, g->rows, rp_planes(&l->spec));
    else
        shape_rows(l, rp_planes(&l->spec));
    return 0;
}

int rc_results(const reduce_spec *given, size_t bytes, reduce_spec *mine, rp_spec *s, uint64_t *results, rp_fault *f)
{
    rc_level l = {0};
    int err = rc_spec_in_pieces(given, mine, s, f);
    l.spec = *s;
    l.item = rp_item_size(s);
    l.lines = mine->rows;
    if (!err && (s->flags & RP_COLUMNS))
        err = rc_shape(&l, mine, bytes, f);
    *results = l.lines;
    return err;
}

int reduce_result_size(const reduce_spec *given, size_t bytes, size_t *room)
{
    reduce_spec mine;
    rp_spec s;
    uint64_t results;
    rp_fault f = {0};
    if (!room)
        return rc_error(REDUCE_E_ARGUMENT, "room", "the pointer for the size is NULL");
    if (rc_results(given, bytes, &mine, &s, &results, &f))
        return rc_report(&f);
    if (__builtin_mul_overflow(results, (uint64_t)rp_cell_size(&s), room))
        return rc_error(REDUCE_E_TOO_LARGE, "rows", "the result would be over 2^64 bytes");
    return 0;
}
