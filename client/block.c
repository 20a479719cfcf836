/* A block is gathered in pieces that stay in the cache: its elements, their mask and their weights alike. */
#include "client/block.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/alone.h"
#include "client/error.h"
#include "client/sized.h"
#include "kernels/exact/state.h"

enum { TOGETHER = 8192 }; /* elements that are gathered together */

/* Dimensions from the farthest to the nearest. */
typedef struct walk {
    uint32_t dims;
    uint64_t count[REDUCE_MAX_DIMS], step[REDUCE_MAX_DIMS]; /* elements; from one to the next, in elements of the array */
    uint64_t at[REDUCE_MAX_DIMS];                           /* which is next */
    uint64_t left;                                          /* elements */
} walk;

/* What is gathered of one array. */
typedef struct gathered {
    const uint8_t *from; /* NULL: there is none. At the element where the walk begins */
    uint8_t *to;
    size_t size; /* bytes of an element */
} gathered;

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static int check_spec(const reduce_spec *s)
{
    const char *what = s->rows != 1 || s->planes > 1             ? "rows"
                       : s->offsets                              ? "offsets"
                       : s->keys_dtype                           ? "keys"
                       : s->flags & REDUCE_COLUMNS               ? "columns"
                       : s->flags & REDUCE_STATES_IN             ? "states"
                       : s->flags & REDUCE_MASKED                ? "mask behind its elements"
                       : s->weights_extent > REDUCE_EACH_ELEMENT ? "weights of another shape"
                                                                 : NULL;
    return what ? rc_error(REDUCE_E_ARGUMENT, "block", "a block has no %s", what) : 0;
}

static int take_block(reduce_block *b, const reduce_block *given)
{
    rp_fault f = {0};
    if (rc_take_sized(b, sizeof *b, _Alignof(reduce_block), given, sizeof *b, "block", &f))
        return rc_report(&f);
    if (b->dims < 1 || b->dims > REDUCE_MAX_DIMS)
        return rc_error(REDUCE_E_ARGUMENT, "dims", "a block of %" PRIu32 " dimensions; 1 to %d are possible", b->dims,
                        REDUCE_MAX_DIMS);
    if (!b->shape || !b->count || b->first_nearest > 1 || b->reserved)
        return rc_error(REDUCE_E_ARGUMENT, "block", "the block has no shape, no count, or an unknown option");
    return 0;
}

/* Is the block within dimension d of its array? */
static int check_dimension(const reduce_block *b, uint32_t d)
{
    const uint64_t start = b->start ? b->start[d] : 0, stride = b->stride ? b->stride[d] : 1, count = b->count[d];
    if (stride == 0)
        return rc_error(REDUCE_E_ARGUMENT, "stride", "the stride of dimension %" PRIu32 " is 0", d);
    if (count && (start >= b->shape[d] || (count - 1) > (b->shape[d] - 1 - start) / stride))
        return rc_error(REDUCE_E_SHAPE, "block",
                        "dimension %" PRIu32 " has %" PRIu64 " elements; a block of %" PRIu64 " from %" PRIu64
                        " in steps of %" PRIu64 " goes beyond",
                        d, b->shape[d], count, start, stride);
    return 0;
}

/* The walk, and the element where it begins. */
static int plan(walk *w, const reduce_block *b, uint64_t elements, uint64_t *first)
{
    uint64_t pitch = 1;
    bool beyond = false;
    *w = (walk){.dims = b->dims, .left = 1};
    *first = 0;
    for (uint32_t i = b->dims; i-- > 0;) {
        const uint32_t d = b->first_nearest ? b->dims - 1 - i : i;
        const int err = check_dimension(b, d);
        if (err)
            return err;
        w->count[i] = b->count[d];
        w->step[i] = pitch * (b->stride ? b->stride[d] : 1);
        w->left *= b->count[d]; /* no more than the array has, if that is not beyond */
        *first += pitch * (b->start ? b->start[d] : 0);
        beyond |= __builtin_mul_overflow(pitch, b->shape[d], &pitch);
    }
    if (beyond || pitch != elements)
        return rc_error(REDUCE_E_SHAPE, "shape", "the array of the block has not the %" PRIu64 " elements that are given",
                        elements);
    return 0;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void copy(const gathered *g, uint64_t at, uint64_t step, size_t place, size_t n)
{
    const uint8_t *from = g->from + at * g->size;
    uint8_t *to = g->to + place * g->size;
    if (step == 1) {
        memcpy(to, from, n * g->size);
        return;
    }
    for (size_t i = 0; i < n; i++, from += step * g->size)
        memcpy(to + i * g->size, from, g->size);
}

/* Go on by n elements of the nearest dimension, no more than it has. */
static void advance(walk *w, uint64_t n)
{
    w->left -= n;
    w->at[w->dims - 1] += n;
    for (uint32_t i = w->dims; i-- > 1 && w->at[i] == w->count[i];) {
        w->at[i] = 0;
        w->at[i - 1]++;
    }
}

/* Gather some elements of all three arrays; returns how many. */
static size_t gather(walk *w, const gathered g[3])
{
    size_t n = 0;
    const uint32_t nearest = w->dims - 1;
    while (w->left && n < TOGETHER) {
        const uint64_t run = w->count[nearest] - w->at[nearest], some = run < TOGETHER - n ? run : TOGETHER - n;
        uint64_t at = 0;
        for (uint32_t i = 0; i < w->dims; i++)
            at += w->at[i] * w->step[i];
        for (int a = 0; a < 3; a++)
            if (g[a].from)
                copy(&g[a], at, w->step[nearest], n, (size_t)some);
        advance(w, some);
        n += (size_t)some;
    }
    return n;
}

/* Join the elements of the walk, piece by piece. */
static int run_pieces(const reduce_spec *spec, walk *w, const gathered g[3], void *state)
{
    reduce_spec s = *spec;
    rk_state all, piece;
    bool first = true;
    int err = 0;
    s.mask = g[1].from ? g[1].to : NULL;
    s.weights = g[2].from ? g[2].to : NULL;
    do {
        const size_t n = gather(w, g);
        err = rc_run_alone(&s, g[0].to, n * g[0].size, &piece, sizeof piece);
        if (!err && first)
            all = piece;
        else if (!err)
            rk_state_merge(&all, &piece);
        first = false;
        s.index_base += n;
    } while (!err && w->left);
    if (!err)
        memcpy(state, &all, rp_state_size(all.layout));
    return err;
}

int rc_run_block(const reduce_spec *spec, const reduce_block *given, const void *data, size_t bytes, void *state)
{
    reduce_block b;
    walk w;
    uint64_t first = 0;
    const size_t size = rp_dtype_size(spec->dtype),
                 beside = spec->weights ? rp_dtype_size(spec->weights_dtype ? spec->weights_dtype : spec->dtype) : 0;
    int err = check_spec(spec);
    if (!err)
        err = take_block(&b, given);
    if (!err && bytes % size)
        err = rc_error(REDUCE_E_SHAPE, "bytes", "%zu bytes are not a multiple of the %zu-byte element", bytes, size);
    if (!err && bytes && !data)
        err = rc_error(REDUCE_E_ARGUMENT, "data", "the pointer to the data is NULL");
    if (!err)
        err = plan(&w, &b, bytes / size, &first);
    if (err)
        return err;
    uint8_t *room = malloc(TOGETHER * (size + 1 + beside));
    if (!room)
        return rc_error(REDUCE_E_NO_MEMORY, "block", "no memory to gather a block");
    const uint8_t *mask = spec->mask, *weights = spec->weights;
    const gathered g[3] = {{(const uint8_t *)data + (w.left ? first * size : 0), room, size},
                           {mask && w.left ? mask + first : mask, room + TOGETHER * (size + beside), 1},
                           {weights && w.left ? weights + first * beside : weights, room + TOGETHER * size, beside}};
    err = run_pieces(spec, &w, g, state);
    free(room);
    return err;
}
