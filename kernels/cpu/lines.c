/* Lines of a task - rows, segments, columns - reduced on the calling thread. The loops of simd.c take contiguous elements;
 * lines with a mask or a stride are gathered into a buffer, piece by piece, and the pieces' states merged. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loops/sums/add_to_limbs.h"
#include "kernels/cpu/loops/sums/near.h"
#include "kernels/cpu/stateless_lines.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/runs.h"
#include "kernels/exact/truths.h"

enum {
    GATHER_BYTES = 16 << 10, /* kept elements of a masked line: stays in L1 */
    TILE_BYTES = 256,        /* bytes of a row that are transposed together: wide tiles touch fewer pages for the same bytes */
    TURNED_ROWS = 2048,      /* rows of a tile of columns; half as many with a mask */
    LINE_BYTES = 64,         /* of a cache */
    APART = 64,              /* extra bytes between transposed columns, so that they do not share cache sets */
    SUMMED_ROWS = 4096,      /* rows of columns summed at once: more rarely sum exactly */
    SQUARED_ROWS = 1024,     /* the same, squared */
    DECIDING = 2048,         /* elements that any and all look at first */
    SHORT = 512,             /* the most elements of a line that chains.h sums */
    NEAR = 1024,             /* the fewest of one whose sum may be near */
    RUNS_TOGETHER = 64,      /* rows in runs that are reduced together, in the order of memory, */
    RUNS_GATHERED = 16,      /* ... that are gathered together, */
    GATHERED_RUN = 1 << 10   /* ... if a run has no more bytes: each part that is reduced costs some 100 ns or more */
};

/* Values that all lines of a task share. */
typedef struct view {
    const rp_spec *spec;
    rp_parts p;
    int layout;
    size_t size;   /* bytes of an element or state */
    uint64_t base; /* index of a line's first element */
    rk_reduce_fn *reduce;
    rk_columns_fn *sums; /* of columns, as the next three; NULL: not usable for this task */
    rk_column_squares_fn *squares;
    rk_column_ends_fn *ends;
    rk_column_places_fn *places;
    rk_row_product_fn *product; /* of rows; NULL, too */
    rk_near_fn *near;           /* likewise */
    bool first_decides;         /* any, all */
    const rk_simd *simd;
} view;

/* Does the result follow from the smallest and the largest element? */
static bool goes_by_ends(int layout)
{
    return layout == RP_STATE_MIN || layout == RP_STATE_MAX || layout == RP_STATE_MINMAX || layout == RP_STATE_NORMINF;
}

static bool is_arg(int layout) { return layout == RP_STATE_ARGMIN || layout == RP_STATE_ARGMAX; }

/* Does it follow from the places of these, and for stats from sums and squares as well? */
static bool goes_by_places(const rk_simd *simd, int layout, int dtype)
{
    return is_arg(layout) || (rk_is_stats(layout) && simd->column_squares[dtype]);
}

/* Can a row's product be finished without a state? Integers have their usual type in the reply. */
static bool has_quick_product(const rp_spec *s)
{
    const int usual = rk_is_signed(s->dtype) ? RP_I64 : RP_U64;
    return s->op == RP_OP_PROD && !(s->flags & ~(uint32_t)(RP_OFFSETS | RP_WRAP)) && (rk_is_float(s->dtype) || s->out == usual);
}

/* Do elements decide a result of any or all, whatever follows? Not if a NaN that follows is an error. */
static bool first_decides(const rp_spec *s)
{
    return (s->op == RP_OP_ANY || s->op == RP_OP_ALL) && !(s->flags & RP_STATES_OUT) &&
           (!rk_is_float(s->dtype) || s->nan != RP_NAN_ERROR);
}

bool rk_cpu_may_settle(const rp_spec *s)
{
    const bool one_bool = s->dtype == RP_BOOL && rk_truth_decides(rp_state_layout(s->op, s->dtype)) != RK_DECIDES_NONE;
    return !(s->flags & RP_MASK) && (one_bool || first_decides(s));
}

bool rk_cpu_settled(const rk_task *t, const rk_state *x, uint64_t from)
{
    const rp_spec *s = &t->spec;
    const bool before = !is_arg(x->layout) || x->limb[1] < s->index_base + t->base + from;
    return before && rk_is_settled(x, s->op, first_decides(s));
}

static view view_of(const rk_simd *simd, const rk_task *t)
{
    const rp_spec *s = &t->spec;
    int layout = rp_state_layout(s->op, s->dtype);
    return (view){.spec = s,
                  .p = rp_spec_parts(s, t->data, t->beside),
                  .layout = layout,
                  .size = rp_item_size(s),
                  .base = s->index_base + t->base,
                  .reduce = simd->reduce[layout][s->dtype],
                  .sums = layout == RP_STATE_SUM32 || layout == RP_STATE_SUM64 ? simd->columns[s->dtype] : NULL,
                  .squares = rk_square_limbs(layout) ? simd->column_squares[s->dtype] : NULL,
                  .ends = goes_by_ends(layout) ? simd->column_ends[s->dtype] : NULL,
                  .places = goes_by_places(simd, layout, s->dtype) ? simd->column_places[s->dtype] : NULL,
                  .product = has_quick_product(s) ? simd->row_product[s->dtype] : NULL,
                  .near = rk_cpu_near(simd, s),
                  .first_decides = first_decides(s),
                  .simd = simd};
}

static void merge_states(rk_state *s, const uint8_t *p, uint64_t n)
{
    size_t size = rp_state_size(s->layout);
    rk_state other;
    for (uint64_t i = 0; i < n; i++, p += size) {
        memcpy(&other, p, size);
        rk_state_merge(s, &other);
    }
}

/* ---- gathered elements ---- */

/* Counts the nonzero bytes of 8. */
static unsigned let_in(const uint8_t *mask)
{
    const uint64_t ones = UINT64_MAX / 255, low = ones * 127;
    uint64_t m;
    memcpy(&m, mask, sizeof m);
    return (unsigned)((((((m & low) + low) | m) >> 7 & ones) * ones) >> 56);
}

/* The index of the k-th element, of n, that the mask keeps. If a client changes the mask in shared memory meanwhile, there may
 * be fewer: then the last index. */
static uint64_t kept_index(const uint8_t *mask, uint64_t n, uint64_t k)
{
    uint64_t i = 0;
    for (unsigned some; i + 8 < n && (some = let_in(mask + i)) <= k; i += 8)
        k -= some;
    while (i + 1 < n && !(mask[i] && k-- == 0))
        i++;
    return i;
}

/* Join s with n gathered elements. They are elements [index, index + of) of the line, or those of them that the mask keeps,
 * which begins there. */
static void add_gathered(const view *v, rk_state *s, const void *x, uint64_t n, uint64_t index, uint64_t of,
                         const uint8_t *mask)
{
    rk_state part;
    rk_state_init(&part, v->layout, v->spec->dtype);
    v->reduce(&part, x, n, mask ? 0 : index, v->spec->nan);
    if (mask && part.count && is_arg(v->layout))
        part.limb[1] = index + kept_index(mask, of, part.limb[1]);
    if (mask && part.count && rk_is_stats(v->layout)) {
        uint64_t *other = part.limb + rk_sum_limbs(v->layout) + rk_square_limbs(v->layout);
        other[RK_STATS_MIN_INDEX] = index + kept_index(mask, of, other[RK_STATS_MIN_INDEX]);
        other[RK_STATS_MAX_INDEX] = index + kept_index(mask, of, other[RK_STATS_MAX_INDEX]);
    }
    rk_state_merge(s, &part);
}

/* Elements [from, from + n) of a contiguous line with a mask. x and mask begin at `from`. */
static void add_masked(const view *v, rk_state *s, const uint8_t *x, const uint8_t *mask, uint64_t from, uint64_t n)
{
    uint8_t kept[GATHER_BYTES];
    const size_t room = GATHER_BYTES / v->size, least = room / 8;
    rk_keep_fn *keep = v->simd->keep[__builtin_ctzll(v->size)];
    for (uint64_t i = 0, start; i < n;) {
        size_t k = 0, take;
        for (start = i; i < n && room - k >= least; i += take) {
            take = n - i < room - k ? (size_t)(n - i) : room - k;
            k = keep(kept, k, x + i * v->size, mask + i, take);
        }
        if (k)
            add_gathered(v, s, kept, k, from + start, i - start, mask + start);
    }
}

/* ---- columns ---- */

/* The number of columns from `first` on that are reduced together. Column numbers run through all planes, but columns of a tile
 * lie in one plane. */
static uint64_t columns_together(const view *v, uint64_t first, uint64_t columns)
{
    const uint64_t left = v->spec->row_len - first % v->spec->row_len, most = columns < left ? columns : left;
    return most < RK_COLUMNS_TOGETHER ? most : RK_COLUMNS_TOGETHER;
}

/* Room for a tile, and for its mask. */
typedef uint8_t turned_tile[TILE_BYTES * (TURNED_ROWS + 2 * APART)];

/* Joins rows [i, i + rows) of the columns [first, first + columns), a tile at most, to their states. */
static void add_turned(const view *v, uint64_t first, size_t columns, uint64_t i, size_t rows, uint8_t *turned,
                       rk_state *states)
{
    const uint64_t row_len = v->spec->row_len, at = i * row_len + rk_line_of(v->spec, NULL, first).first;
    const size_t apart = rows * v->size + APART, mask_apart = rows + APART;
    uint8_t *masks = v->p.mask ? turned + columns * apart : NULL;
    v->simd->turn[__builtin_ctzll(v->size)](turned, apart, v->p.elements + at * v->size, row_len * v->size, rows, columns);
    if (masks)
        v->simd->turn[0](masks, mask_apart, v->p.mask + at, row_len, rows, columns);
    for (size_t c = 0; c < columns; c++) {
        uint8_t *x = turned + c * apart;
        const uint8_t *mask = masks ? masks + c * mask_apart : NULL;
        const size_t kept = mask ? v->simd->keep[__builtin_ctzll(v->size)](x, 0, x, mask, rows) : rows;
        if (kept)
            add_gathered(v, &states[c], x, kept, v->base + i, rows, mask);
    }
}

/* Joins rows [from, from + n) of columns, a tile at most, to their states. */
static void add_tile(const view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
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
static const uint8_t *column_at(const view *v, uint64_t first, uint64_t from)
{
    return v->p.elements + (from * v->spec->row_len + rk_line_of(v->spec, NULL, first).first) * v->size;
}

/* Adds the sums of rows [from, from + n) for as many of the first columns as it can; returns how many those are. */
static size_t add_sums(const view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
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

/* Like add_sums, for results that follow from sums of squares, or from both sums. */
static size_t add_squares(const view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
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

/* Like add_sums, for stats. */
static size_t add_stats(const view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
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

/* Like add_sums, for the place of an end. */
static size_t add_places(const view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
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

/* Like add_sums, for results that follow from the smallest and the largest element. It does not pay for less than a cache line
 * of a row. */
static size_t add_ends(const view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    uint64_t ends[2 * RK_COLUMNS_TOGETHER]; /* of any type */
    if (!n || columns * v->size < LINE_BYTES ||
        !v->ends(column_at(v, first, from), v->spec->row_len * v->size, n, columns, ends))
        return 0;
    for (size_t c = 0; c < columns; c++) {
        rk_state part;
        rk_state_init(&part, v->layout, v->spec->dtype);
        v->reduce(&part, (const uint8_t *)ends + 2 * c * v->size, 2, 0, v->spec->nan);
        part.count = n;
        rk_state_merge(&states[c], &part);
    }
    return columns;
}

/* Joins rows to as many of the first columns as can be taken row by row; returns how many those are. */
typedef size_t add_by_rows_fn(const view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states);

/* How columns are taken row by row, and how many rows at once; NULL: they are not. */
static add_by_rows_fn *by_rows(const view *v, uint64_t *rows)
{
    *rows = v->places ? RK_PLACED_ROWS(v->size) : v->squares ? SQUARED_ROWS : SUMMED_ROWS;
    if (v->p.mask)
        return NULL;
    if (v->places)
        return v->squares ? add_stats : add_places;
    return v->squares ? add_squares : v->ends ? add_ends : v->sums ? add_sums : NULL;
}

/* Joins rows [from, from + n) of the columns [first, first + columns), at most RK_COLUMNS_TOGETHER, to their states. */
static void add_columns(const view *v, uint64_t first, size_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    const size_t tile = TILE_BYTES / v->size;
    uint64_t most;
    add_by_rows_fn *add = by_rows(v, &most);
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

void rk_cpu_columns(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t columns, uint64_t from, uint64_t n,
                    rk_state *states)
{
    const int layout = rp_state_layout(t->spec.op, t->spec.dtype);
    for (uint64_t c = 0; c < columns; c++)
        rk_state_init(&states[c], layout, t->spec.dtype);
    rk_cpu_join_columns(simd, t, first, columns, from, n, states);
}

void rk_cpu_join_columns(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t columns, uint64_t from, uint64_t n,
                         rk_state *states)
{
    view v = view_of(simd, t);
    for (uint64_t c = 0, some; c < columns; c += some) {
        some = columns_together(&v, first + c, columns - c);
        add_columns(&v, first + c, (size_t)some, from, n, states + c);
    }
}

/* ---- rows and segments ---- */

/* any and all, until they are decided: the state then has only as many elements. Pieces grow, so that many are not read in
 * vain, and few calls are made. */
static void reduce_until_decided(const view *v, rk_state *s, const uint8_t *x, uint64_t n)
{
    uint64_t most = DECIDING;
    for (uint64_t i = 0, some; i < n; i += some, most += most) {
        some = n - i < most ? n - i : most;
        add_gathered(v, s, x + i * v->size, some, 0, some, NULL);
        if (rk_is_settled(s, v->spec->op, true))
            return;
    }
}

static void reduce_segment(const view *v, uint64_t first, uint64_t from, uint64_t n, rk_state *s)
{
    const uint8_t *x = v->p.elements + (first + from) * v->size;
    rk_state_init(s, v->layout, v->spec->dtype);
    if (v->spec->flags & RP_STATES_IN)
        merge_states(s, x, n);
    else if (v->p.mask)
        add_masked(v, s, x, v->p.mask + first + from, v->base + from, n);
    else if (v->first_decides)
        reduce_until_decided(v, s, x, n);
    else if (n)
        v->reduce(s, x, n, v->base + from, v->spec->nan);
}

/* n elements, from `first` on, to a state of sums that lack as much as is returned. */
static double near_segment(const view *v, uint64_t first, uint64_t n, rk_state *s)
{
    double neglected = 0;
    rk_state_init(s, v->layout, v->spec->dtype);
    if (n)
        v->near(s, v->p.elements + first * v->size, n, v->spec->nan, &neglected);
    return neglected;
}

/* Joins elements [from, from + n) of a row to its state, all in one run. */
static void add_run(const view *v, uint64_t row, uint64_t from, uint64_t n, rk_state *s)
{
    rk_state part;
    reduce_segment(v, rk_place_in_runs(v->spec, row, from) - from, from, n, &part);
    rk_state_merge(s, &part);
}

/* Joins the runs of rows [row, row + rows), RUNS_GATHERED at most, in as many planes as GATHER_BYTES have room for. */
static void gather_runs(const view *v, uint64_t row, uint64_t rows, uint64_t plane, uint64_t planes, rk_state *states)
{
    uint8_t x[RUNS_GATHERED][GATHER_BYTES], masks[RUNS_GATHERED][GATHER_BYTES];
    const uint64_t run = v->spec->row_len, n = planes * run;
    for (uint64_t p = 0; p < planes; p++) {
        uint64_t at = ((plane + p) * v->spec->rows + row) * run;
        for (uint64_t k = 0; k < rows; k++, at += run) {
            memcpy(x[k] + p * run * v->size, v->p.elements + at * v->size, (size_t)(run * v->size));
            if (v->p.mask)
                memcpy(masks[k] + p * run, v->p.mask + at, (size_t)run);
        }
    }
    for (uint64_t k = 0; k < rows; k++) {
        const uint8_t *mask = v->p.mask ? masks[k] : NULL;
        const size_t kept = mask ? v->simd->keep[__builtin_ctzll(v->size)](x[k], 0, x[k], mask, (size_t)n) : (size_t)n;
        if (kept)
            add_gathered(v, &states[k], x[k], kept, v->base + plane * run, n, mask);
    }
}

/* Joins the runs of some rows in planes [plane, end). */
static void add_planes(const view *v, uint64_t row, uint64_t rows, uint64_t plane, uint64_t end, rk_state *states)
{
    const uint64_t run = v->spec->row_len, bytes = run * v->size;
    const bool gathered = bytes <= GATHERED_RUN;
    for (uint64_t planes; plane < end; plane += planes) {
        planes = !gathered ? 1 : end - plane < GATHER_BYTES / bytes ? end - plane : GATHER_BYTES / bytes;
        for (uint64_t k = 0, some; k < rows; k += some) {
            some = !gathered ? 1 : rows - k < RUNS_GATHERED ? rows - k : RUNS_GATHERED;
            if (gathered)
                gather_runs(v, row + k, some, plane, planes, states + k);
            else
                add_run(v, row + k, plane * run, run, states + k);
        }
    }
}

/* Joins elements [from, from + n) of a row: the end of a run, whole runs, the start of one. */
static void add_runs(const view *v, uint64_t row, uint64_t from, uint64_t n, rk_state *s)
{
    const uint64_t run = v->spec->row_len, to = from + n, before = run ? (run - from % run) % run : 0,
                   head = before < n ? before : n;
    if (head)
        add_run(v, row, from, head, s);
    if (head == n)
        return;
    add_planes(v, row, 1, (from + head) / run, to / run, s);
    if (to % run)
        add_run(v, row, to / run * run, to % run, s);
}

void rk_cpu_segment(const rk_simd *simd, const rk_task *t, uint64_t row, uint64_t from, uint64_t n, rk_state *s)
{
    view v = view_of(simd, t);
    if (!rk_in_runs(v.spec)) {
        reduce_segment(&v, rk_line_of(v.spec, v.p.offsets, row).first, from, n, s);
        return;
    }
    rk_state_init(s, v.layout, v.spec->dtype);
    add_runs(&v, row, from, n, s);
}

double rk_cpu_near_segment(const rk_simd *simd, const rk_task *t, uint64_t row, uint64_t from, uint64_t n, rk_state *s)
{
    view v = view_of(simd, t);
    return near_segment(&v, rk_line_of(v.spec, v.p.offsets, row).first + from, n, s);
}

/* ---- cells ---- */

int rk_cpu_cell(const rk_task *t, uint64_t result, rk_state *s)
{
    return rk_cell_write(s, &t->spec, (uint8_t *)t->cells + result * rp_cell_size(&t->spec));
}

/* The first line of a range without a result, and why it has none. */
typedef struct verdict {
    int code;
    uint64_t *bad_row;
    rk_state *bad_state;
} verdict;

static void put_cell(const rk_task *t, uint64_t result, rk_state *s, verdict *first)
{
    int code = rk_cpu_cell(t, result, s);
    if (code == RP_OK || first->code != RP_OK)
        return;
    first->code = code;
    *first->bad_row = result;
    *first->bad_state = *s;
}

/* ---- whole lines ---- */

static void whole_columns(const view *v, const rk_task *t, uint64_t first, uint64_t columns, verdict *bad)
{
    for (uint64_t c = first, end = first + columns, some; c < end; c += some) {
        rk_state states[RK_COLUMNS_TOGETHER];
        some = columns_together(v, c, end - c);
        for (uint64_t k = 0; k < some; k++)
            rk_state_init(&states[k], v->layout, v->spec->dtype);
        add_columns(v, c, (size_t)some, 0, v->spec->rows, states);
        for (uint64_t k = 0; k < some; k++)
            put_cell(t, c + k, &states[k], bad);
    }
}

/* Finishes the product of a row without a state. False: that is not certain. */
static bool put_product(const view *v, const rk_task *t, uint64_t row, rk_line l)
{
    const size_t size = rp_dtype_size(v->spec->out);
    uint64_t cell;
    if (!v->product(v->p.elements + l.first * v->size, l.n, v->spec->out, v->spec->flags & RP_WRAP, &cell))
        return false;
    memcpy((uint8_t *)t->cells + row * size, &cell, size);
    return true;
}

/* Finishes a row whose sum is near. False: that is not certain. */
static bool put_near(const view *v, const rk_task *t, uint64_t row, rk_line l)
{
    rk_state s;
    return rk_cpu_near_cell(t, row, &s, near_segment(v, l.first, l.n, &s));
}

static void whole_rows(const view *v, const rk_task *t, uint64_t first, uint64_t rows, verdict *bad)
{
    for (uint64_t row = first; row < first + rows; row++) {
        rk_state s;
        rk_line l = rk_line_of(v->spec, v->p.offsets, row);
        if ((v->product && put_product(v, t, row, l)) || (v->near && l.n >= NEAR && put_near(v, t, row, l)))
            continue;
        reduce_segment(v, l.first, 0, l.n, &s);
        put_cell(t, row, &s, bad);
    }
}

/* Some rows at a time, plane by plane. */
static void whole_runs(const view *v, const rk_task *t, uint64_t first, uint64_t rows, verdict *bad)
{
    for (uint64_t row = first, end = first + rows, some; row < end; row += some) {
        rk_state states[RUNS_TOGETHER];
        some = end - row < RUNS_TOGETHER ? end - row : RUNS_TOGETHER;
        for (uint64_t k = 0; k < some; k++)
            rk_state_init(&states[k], v->layout, v->spec->dtype);
        if (v->spec->row_len)
            add_planes(v, row, some, 0, v->spec->planes, states);
        for (uint64_t k = 0; k < some; k++)
            put_cell(t, row + k, &states[k], bad);
    }
}

static void whole_lines(const view *v, const rk_task *t, uint64_t first, uint64_t lines, verdict *bad)
{
    if (v->spec->flags & RP_COLUMNS)
        whole_columns(v, t, first, lines, bad);
    else if (rk_in_runs(v->spec))
        whole_runs(v, t, first, lines, bad);
    else
        whole_rows(v, t, first, lines, bad);
}

/* Sums of many short lines to f64 are computed RK_CHAINS at a time, without states. */
static rk_chains_fn *chains_for(const view *v)
{
    const rp_spec *s = v->spec;
    uint32_t plain = RP_OFFSETS | RP_COLUMNS;
    if (rk_in_runs(s) || (s->flags & RP_COLUMNS && s->rows > SHORT))
        return NULL;
    return s->op == RP_OP_SUM && s->out == RP_F64 && !(s->flags & ~plain) ? v->simd->chains[s->dtype] : NULL;
}

/* Sums RK_CHAINS lines. False, and nothing is done, if they are not short. */
static bool short_lines(const view *v, const rk_task *t, rk_chains_fn *chains, uint64_t first, verdict *bad)
{
    const uint8_t *x[RK_CHAINS];
    uint64_t n[RK_CHAINS], stride = 1;
    double sum[RK_CHAINS];
    for (int j = 0; j < RK_CHAINS; j++) {
        rk_line l = rk_line_of(v->spec, v->p.offsets, first + (uint64_t)j);
        x[j] = v->p.elements + l.first * v->size;
        n[j] = l.n;
        stride = l.stride;
        if (l.n > SHORT)
            return false;
    }
    unsigned right = chains(x, n, stride * v->size, sum);
    for (int j = 0; j < RK_CHAINS; j++)
        if (right >> j & 1)
            memcpy((uint8_t *)t->cells + 8 * (first + (uint64_t)j), &sum[j], sizeof sum[j]);
        else
            whole_lines(v, t, first + (uint64_t)j, 1, bad);
    return true;
}

/* Lines that could not be finished without states. */
typedef struct remaining {
    const view *v;
    const rk_task *t;
    verdict *bad;
} remaining;

static void lines_rest(void *arg, uint64_t first, uint64_t lines)
{
    const remaining *r = arg;
    whole_lines(r->v, r->t, first, lines, r->bad);
}

int rk_cpu_lines(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, uint64_t *bad_row, rk_state *bad_state)
{
    view v = view_of(simd, t);
    verdict bad = {RP_OK, bad_row, bad_state};
    remaining others = {&v, t, &bad};
    rk_chains_fn *chains = chains_for(&v);
    if (rk_cpu_direct(simd, t, first, lines, lines_rest, &others))
        return bad.code;
    for (; chains && lines >= RK_CHAINS; first += RK_CHAINS, lines -= RK_CHAINS)
        if (!short_lines(&v, t, chains, first, &bad))
            whole_lines(&v, t, first, RK_CHAINS, &bad);
    whole_lines(&v, t, first, lines, &bad);
    return bad.code;
}
