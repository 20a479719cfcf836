#include "kernels/cpu/column_lines.h"

#include "kernels/cpu/loops/sums/add_to_limbs.h"

enum {
    TILE_BYTES = 256,   /* bytes of a row that are transposed together: wide tiles touch fewer pages for the same bytes */
    TURNED_ROWS = 2048, /* rows of a tile of columns; half as many with a mask */
    LINE_BYTES = 64,    /* of a cache */
    SUMMED_ROWS = 4096, /* rows of columns summed at once: more rarely sum exactly */
    SQUARED_ROWS = 1024 /* the same, squared */
};

uint64_t rk_columns_together(const rk_view *v, uint64_t first, uint64_t columns)
{
    const uint64_t left = v->spec->row_len - first % v->spec->row_len, most = columns < left ? columns : left;
    return most < RK_COLUMNS_TOGETHER ? most : RK_COLUMNS_TOGETHER;
}

/* Room for a tile, and for its mask. */
typedef uint8_t turned_tile[TILE_BYTES * (TURNED_ROWS + 2 * RK_APART)];

/* Joins a state with what is near that of n elements. */
static void add_near(const rk_view *v, const uint8_t *x, size_t n, rk_state *s)
{
    rk_state part;
    double lacks;
    rk_state_init(&part, v->layout, v->dtype);
    v->near(&part, x, n, v->spec->nan, &lacks);
    rk_state_merge(s, &part);
    *v->neglected += lacks;
}

/* Joins rows [i, i + rows) of the columns [first, first + columns), a tile at most, to their states. */
static void add_turned(const rk_view *v, uint64_t first, size_t columns, uint64_t i, size_t rows, uint8_t *turned,
                       rk_state *states)
{
    const uint64_t row_len = v->spec->row_len, at = i * row_len + rk_line_of(v->spec, NULL, first).first;
    const size_t apart = rows * v->size + RK_APART, mask_apart = rows + RK_APART;
    uint8_t *masks = v->p.mask ? turned + columns * apart : NULL;
    v->simd->turn[__builtin_ctzll(v->size)](turned, apart, v->p.elements + at * v->size, row_len * v->size, rows, columns);
    if (masks)
        v->simd->turn[0](masks, mask_apart, v->p.mask + at, row_len, rows, columns);
    for (size_t c = 0; c < columns; c++) {
        uint8_t *x = turned + c * apart;
        const uint8_t *mask = masks ? masks + c * mask_apart : NULL;
        const size_t kept = mask ? v->simd->keep[__builtin_ctzll(v->size)](x, 0, x, mask, rows) : rows;
        if (v->neglected)
            add_near(v, x, rows, &states[c]);
        else if (kept)
            rk_add_gathered(v, &states[c], x, kept, v->base + i, rows, mask);
    }
}

/* Joins rows [from, from + n) of columns, a tile at most, to their states. */
static void add_tile(const rk_view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    turned_tile turned;
    const uint64_t most = v->p.mask ? TURNED_ROWS / 2 : TURNED_ROWS;
    for (uint64_t i = from, end = from + n, rows; i < end; i += rows) {
        rows = end - i < most ? end - i : most;
        add_turned(v, first, columns, i, (size_t)rows, turned, states);
    }
}

/* Join s with the exact sum of n elements, none of them a NaN or an infinity; `sum` is -0.0 if all of them are. */
static void add_sum(rk_state *s, double sum, double other, uint64_t n)
{
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    s->count += n;
    s->nz |= bits != (uint64_t)1 << 63 || other != 0;
    for (int i = 0; i < 2 && !s->special; i++)
        add_number(s->limb, rk_sum_limbs(s->layout), rk_e0(s->dtype), i ? other : sum);
}

/* Where row `from` of column `first` is. */
static const uint8_t *column_at(const rk_view *v, uint64_t first, uint64_t from)
{
    return v->p.elements + (from * v->spec->row_len + rk_line_of(v->spec, NULL, first).first) * v->size;
}

/* Adds the sums of rows [from, from + n) for as many of the first columns as it can; returns how many those are. */
size_t rk_add_sums(const rk_view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    double sum[RK_COLUMNS_TOGETHER], lower[RK_COLUMNS_TOGETHER];
    columns = columns / RK_COLUMN_STEP * RK_COLUMN_STEP;
    if (!columns || !v->sums(column_at(v, first, from), v->spec->row_len * v->size, n, columns, sum, lower))
        return 0;
    for (size_t c = 0; c < columns; c++)
        add_sum(&states[c], sum[c], lower[c], n);
    return columns;
}

typedef double squared[RK_SQUARE_PARTS][RK_COLUMNS_TOGETHER];

/* Joins s with the parts of column c, or with the squares alone if it has no other sum. */
static void add_parts(rk_state *s, squared parts, size_t c, uint64_t n)
{
    const int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    if (sum)
        add_sum(s, parts[RK_COLUMN_LOWER][c], parts[RK_COLUMN_SUM][c], n);
    else
        s->count += n;
    for (int k = RK_COLUMN_SQUARES; k < RK_SQUARE_PARTS && !s->special; k++)
        if (parts[k][c] != 0)
            add_number(s->limb + sum, squares, 2 * rk_e0(s->dtype), parts[k][c]);
}

/* Like rk_add_sums, for results that follow from sums of squares, or from both sums. */
size_t rk_add_squares(const rk_view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    squared parts;
    columns = columns / RK_COLUMN_STEP * RK_COLUMN_STEP;
    if (!columns || !v->squares(column_at(v, first, from), v->spec->row_len * v->size, n, columns, parts))
        return 0;
    for (size_t c = 0; c < columns; c++)
        add_parts(&states[c], parts, c, n);
    return columns;
}

/* Joins both ends and the zeros of column c. `count` is not joined, and does not include these elements. */
static void add_both_places(rk_state *s, const rk_column_places *p, size_t c, uint64_t index)
{
    const uint64_t ends[4] = {p->bits[0][c], index + p->row[0][c], p->bits[1][c], index + p->row[1][c]};
    uint64_t *other = rk_summary_others(s);
    rk_summary_ends(s, other, ends);
    other[RK_STATS_ZEROS] += p->zeros[c];
}

/* Like rk_add_sums, for stats. */
size_t rk_add_stats(const rk_view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    squared parts;
    rk_column_places p;
    const uint8_t *x = column_at(v, first, from);
    const uint64_t stride = v->spec->row_len * v->size;
    columns = columns / RK_COLUMN_STEP * RK_COLUMN_STEP;
    if (!columns || !v->squares(x, stride, n, columns, parts) ||
        !v->places(x, stride, n, columns, RK_WANT_LEAST | RK_WANT_LARGEST | RK_WANT_ZEROS, &p))
        return 0;
    for (size_t c = 0; c < columns; c++) {
        add_both_places(&states[c], &p, c, v->base + from);
        add_parts(&states[c], parts, c, n);
    }
    return columns;
}

/* Like rk_add_sums, for the place of an end. */
size_t rk_add_places(const rk_view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    rk_column_places p;
    const int end = v->layout == RP_STATE_ARGMAX;
    if (!n || columns * v->size < LINE_BYTES ||
        !v->places(column_at(v, first, from), v->spec->row_len * v->size, n, columns, RK_WANT_LEAST << end, &p))
        return 0;
    for (size_t c = 0; c < columns; c++) {
        rk_choice_join(&states[c], p.bits[end][c], v->base + from + p.row[end][c]);
        states[c].count += n;
    }
    return columns;
}

/* Like rk_add_sums, for results that follow from the smallest and the largest element. It does not pay for less than a cache
 * line of a row. */
size_t rk_add_ends(const rk_view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    uint64_t ends[2 * RK_COLUMNS_TOGETHER]; /* of any type */
    if (!n || columns * v->size < LINE_BYTES ||
        !v->ends(column_at(v, first, from), v->spec->row_len * v->size, n, columns, ends))
        return 0;
    for (size_t c = 0; c < columns; c++) {
        rk_state part;
        rk_state_init(&part, v->layout, v->dtype);
        v->reduce(&part, (const uint8_t *)ends + 2 * c * v->size, 2, 0, v->spec->nan);
        part.count = n;
        rk_state_merge(&states[c], &part);
    }
    return columns;
}

void rk_add_columns(const rk_view *v, rk_add_rows_fn *add, uint64_t first, size_t columns, uint64_t from, uint64_t n,
                    rk_state *states)
{
    const size_t tile = TILE_BYTES / v->size;
    if (v->pairs) {
        rk_add_pair_columns(v, first, columns, from, n, states);
        return;
    }
    const uint64_t most = v->places ? RK_PLACED_ROWS(v->size) : v->squares ? SQUARED_ROWS : SUMMED_ROWS;
    for (uint64_t i = from, end = from + n, rows; i < end; i += rows) {
        rows = end - i < most ? end - i : most;
        size_t c = add ? add(v, first, columns, i, rows, states) : 0;
        if (!c) /* more of them can be turned together */
            rows = end - i < SUMMED_ROWS ? end - i : SUMMED_ROWS;
        for (size_t some; c < columns; c += some) {
            some = columns - c < tile ? columns - c : tile;
            add_tile(v, first + c, some, i, rows, states + c);
        }
    }
}

uint64_t rk_cpu_tile(const rp_spec *s) { return TILE_BYTES / rp_dtype_size(s->dtype); }
