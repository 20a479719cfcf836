/* Elements with their weights, gathered: the loops of simd.c take two contiguous arrays. Weights that are the same for a whole
 * row, or for a whole column, are written out. */
#include "kernels/cpu/loops/sums/near.h"
#include "kernels/cpu/view.h"

#include "kernels/exact/line.h"

enum {
    TOGETHER = 8192,  /* pairs that are gathered together, */
    TILE_BYTES = 128, /* bytes of a row of columns that are turned together, by the wider operand, */
    TILE_ROWS = 1024, /* ... and their rows */
    LOOSE_BYTES = 64  /* what keeping elements may write behind the last one */
};

/* n weights `stride` bytes apart: one behind the other, or 0 for the same one. */
typedef struct weights {
    const uint8_t *at;
    size_t stride;
} weights;

static size_t weight_size(const rk_view *v) { return rp_dtype_size(v->spec->weights); }

/* The weights of elements of a row, from element `place` of the data on. */
static weights of_row(const rk_view *v, uint64_t place)
{
    const rp_spec *s = v->spec;
    const size_t size = weight_size(v);
    if (s->weights_extent == RP_EXTENT_ROW)
        return (weights){v->p.weights + place % s->row_len * size, size};
    if (s->weights_extent == RP_EXTENT_COLUMN)
        return (weights){v->p.weights + place / s->row_len % s->rows * size, 0};
    return (weights){v->p.weights + place * size, size};
}

static void write_out(uint8_t *to, const uint8_t *weight, size_t size, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * size, weight, size);
}

/* Join s with n pairs that are contiguous. */
static void join(rk_pairs_fn *pairs, const rp_spec *spec, rk_state *s, const uint8_t *x, const uint8_t *w, uint64_t n,
                 double *neglected)
{
    rk_state part;
    if (!s->count && !s->special && !s->skipped) { /* as rk_state_init leaves it */
        pairs(s, x, w, n, spec->nan, spec->zero_drops, neglected);
        return;
    }
    rk_state_init(&part, s->layout, s->dtype);
    pairs(&part, x, w, n, spec->nan, spec->zero_drops, neglected);
    rk_state_merge(s, &part);
}

static void add(const rk_view *v, rk_state *s, const uint8_t *x, const uint8_t *w, uint64_t n, double *neglected)
{
    double some = 0;
    join(v->pairs, v->spec, s, x, w, n, neglected ? &some : NULL);
    if (neglected)
        *neglected += some;
}

/* Some elements of a row, of which the mask keeps some. */
static void add_some(const rk_view *v, rk_state *s, const uint8_t *x, weights w, const uint8_t *mask, size_t n,
                     double *neglected)
{
    uint8_t kept[TOGETHER * 8 + LOOSE_BYTES], beside[TOGETHER * 8 + LOOSE_BYTES];
    const size_t size = weight_size(v);
    size_t k = n;
    if (mask) {
        k = v->simd->keep[__builtin_ctzll(v->size)](kept, 0, x, mask, n);
        x = kept;
    }
    if (!w.stride)
        write_out(beside, w.at, size, k);
    else if (mask)
        v->simd->keep[__builtin_ctzll(size)](beside, 0, w.at, mask, n);
    if (k)
        add(v, s, x, !w.stride || mask ? beside : w.at, k, neglected);
}

void rk_add_pairs(const rk_view *v, rk_state *s, uint64_t place, uint64_t n, double *neglected)
{
    const uint8_t *x = v->p.elements + place * v->size, *mask = v->p.mask ? v->p.mask + place : NULL;
    const weights w = n ? of_row(v, place) : (weights){NULL, 0};
    if (w.stride && !mask) {
        add(v, s, x, w.at, n, neglected);
        return;
    }
    for (uint64_t i = 0, some; i < n; i += some) {
        some = n - i < TOGETHER ? n - i : TOGETHER;
        add_some(v, s, x + i * v->size, (weights){w.at + i * w.stride, w.stride}, mask ? mask + i : NULL, (size_t)some,
                 neglected);
    }
}

/* ---- several arrays with the same weights and mask ---- */

void rk_add_pairs_together(const rk_simd *simd, const rp_spec *s, const uint8_t *const *x, size_t arrays,
                           const rp_parts *beside, uint64_t n, rk_state *states)
{
    uint8_t kept[TOGETHER * 8 + LOOSE_BYTES], by[TOGETHER * 8 + LOOSE_BYTES];
    const size_t size = rp_dtype_size(s->dtype), weight = rp_dtype_size(s->weights);
    rk_pairs_fn *pairs = rk_cpu_pairs(simd, s);
    rk_keep_fn *keep = simd->keep[__builtin_ctzll(size)], *keep_weights = simd->keep[__builtin_ctzll(weight)];
    for (uint64_t i = 0, some; i < n; i += some) {
        some = n - i < TOGETHER ? n - i : TOGETHER;
        const size_t k = keep_weights(by, 0, beside->weights + i * weight, beside->mask + i, (size_t)some);
        for (size_t a = 0; a < arrays && k; a++) {
            keep(kept, 0, x[a] + i * size, beside->mask + i, (size_t)some);
            join(pairs, s, &states[a], kept, by, k, NULL);
        }
    }
}

/* ---- columns ---- */

typedef struct pair_tile {
    uint8_t x[TILE_BYTES * (TILE_ROWS + LOOSE_BYTES)], w[TILE_BYTES * (TILE_ROWS + LOOSE_BYTES)];
    uint8_t mask[TILE_BYTES * (TILE_ROWS + LOOSE_BYTES) / 2];
} pair_tile;

/* The weights of row `row` on of column c of a tile: these of its own were turned. */
static weights of_column(const rk_view *v, const pair_tile *t, uint64_t first, size_t c, uint64_t row, size_t apart)
{
    const size_t size = weight_size(v);
    if (v->spec->weights_extent == RP_EXTENT_ROW)
        return (weights){v->p.weights + (first + c) % v->spec->row_len * size, 0};
    if (v->spec->weights_extent == RP_EXTENT_COLUMN)
        return (weights){v->p.weights + row * size, size};
    return (weights){t->w + c * apart, size};
}

static void turn(const rk_view *v, size_t size, uint8_t *to, size_t apart, const uint8_t *from, size_t rows, size_t columns)
{
    v->simd->turn[__builtin_ctzll(size)](to, apart, from, v->spec->row_len * size, rows, columns);
}

/* Bytes between turned columns, so that they do not share cache sets. */
static size_t apart_of(size_t size, size_t rows) { return rows * size + LOOSE_BYTES; }

static void add_tile(const rk_view *v, uint64_t first, size_t columns, uint64_t row, size_t rows, rk_state *states)
{
    pair_tile t;
    const uint64_t at = row * v->spec->row_len + rk_line_of(v->spec, NULL, first).first;
    const size_t size = weight_size(v), apart = apart_of(v->size, rows), beside = apart_of(size, rows),
                 bytes = apart_of(1, rows);
    turn(v, v->size, t.x, apart, v->p.elements + at * v->size, rows, columns);
    if (v->spec->weights_extent == RP_EXTENT_ELEMENTS)
        turn(v, size, t.w, beside, v->p.weights + at * size, rows, columns);
    if (v->p.mask)
        turn(v, 1, t.mask, bytes, v->p.mask + at, rows, columns);
    for (size_t c = 0; c < columns; c++)
        add_some(v, &states[c], t.x + c * apart, of_column(v, &t, first, c, row, beside), v->p.mask ? t.mask + c * bytes : NULL,
                 rows, NULL);
}

void rk_add_pair_columns(const rk_view *v, uint64_t first, uint64_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    const size_t size = weight_size(v), most = TILE_BYTES / (size > v->size ? size : v->size), narrow = TILE_BYTES / 2;
    const uint64_t tile = most < narrow ? most : narrow;
    for (uint64_t i = from, end = from + n, rows; i < end; i += rows) {
        rows = end - i < TILE_ROWS ? end - i : TILE_ROWS;
        for (uint64_t c = 0, some; c < columns; c += some) {
            some = columns - c < tile ? columns - c : tile;
            add_tile(v, first + c, (size_t)some, i, (size_t)rows, states + c);
        }
    }
}
