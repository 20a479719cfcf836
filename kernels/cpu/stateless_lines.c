#include "kernels/cpu/stateless_lines.h"

#include "kernels/cpu/cpu.h"
#include "kernels/exact/line.h"
#include "kernels/exact/op.h"
#include "kernels/exact/runs.h"

enum {
    LEAST_LINES = 16,            /* side by side; a lot with a mask has a multiple of these: the last ones go one by one */
    TURNED_ROW = RK_KEPT_ROWS,   /* the most elements of a row that is turned to a column */
    TURNED_FOR_END = 31,         /* ... if its least or its largest element is wanted, which are soon found in a row, */
    TURNED_FOR_PLACE = 384,      /* ... or the place of these: bytes; */
    TURNED_BOOLS = 7,            /* ... of bools, of which the first ones may decide */
    TURNED_BYTES = RK_KEPT_BYTES /* of such rows: they stay in L1 or L2 */
};

typedef struct direct {
    const rk_simd *simd;
    const rp_spec *spec;
    const uint8_t *elements, *mask;
    uint8_t *cells;
    size_t size, cell; /* bytes of an element, of a cell */
    uint64_t base;     /* index of a line's first element */
    int nan;           /* the loop's policy */
    rk_cells_fn *run;
    rk_kept kept; /* of the next lot, if there is a mask or an initial element */
    rk_rest_fn *rest;
    void *arg;
} direct;

/* Is there a mask, or an initial element? */
static bool is_selective(const rp_spec *s) { return s->flags & (RP_MASK | RP_INITIAL); }

/* Of one element most results are itself, unless it may be left out. */
static bool is_itself(const rp_spec *s)
{
    const bool sums = s->op == RP_OP_SUM || s->op == RP_OP_PROD || (s->op == RP_OP_MEAN && rk_is_float(s->dtype));
    return sums && rk_cpu_elements(s) == 1 && s->dtype != RP_BOOL && s->nan != RP_NAN_OMIT && !is_selective(s);
}

static int kind_of(const rp_spec *s)
{
    const int op = s->op, finisher = rk_finisher_of(op);
    return op == RP_OP_MIN || op == RP_OP_MAX || is_itself(s)                ? RK_CELLS_CHOSEN
           : op == RP_OP_ARGMIN || op == RP_OP_ARGMAX                        ? RK_CELLS_PLACED
           : op == RP_OP_RANGE || op == RP_OP_MINMAX                         ? RK_CELLS_RANGE
           : op == RP_OP_SUM || op == RP_OP_MEAN                             ? RK_CELLS_TOTAL
           : op == RP_OP_COUNT_NONZERO || op == RP_OP_ANY || op == RP_OP_ALL ? RK_CELLS_COUNTED
           : op == RP_OP_PROD                                                ? RK_CELLS_PRODUCT
           : finisher == RK_FINISH_SPREAD || finisher == RK_FINISH_SQUARES   ? RK_CELLS_MOMENTS
                                                                             : RK_CELL_KINDS;
}

/* Integers have the default type in the reply, or their own. Counts and places have no other. */
static bool has_usual_type(const rp_spec *s)
{
    const int usual = rk_is_signed(s->dtype) ? RP_I64 : RP_U64, kind = kind_of(s);
    return rk_is_float(s->out) || kind == RK_CELLS_COUNTED || kind == RK_CELLS_PLACED ||
           (kind != RK_CELLS_MOMENTS && (s->out == usual || s->out == s->dtype));
}

/* Are elements that a mask leaves out replaced by NaNs, which the loop omits and does not count? */
static bool stand_in_is_nan(const rp_spec *s)
{
    const int kind = kind_of(s);
    const bool counts = kind == RK_CELLS_MOMENTS || s->op == RP_OP_MEAN;
    return s->flags & RP_MASK && (counts || (kind == RK_CELLS_TOTAL && rk_is_float(s->dtype)));
}

/* The type of a task's elements in the loop */
static int looped_dtype(const rp_spec *s) { return stand_in_is_nan(s) && !rk_is_float(s->dtype) ? RP_F64 : s->dtype; }

/* The loop for a task; NULL: there is none. */
static rk_cells_fn *loop_for(const rk_simd *simd, const rp_spec *s)
{
    const int kind = kind_of(s);
    const uint32_t plain = RP_COLUMNS | RP_WRAP | RP_MASK | (kind == RK_CELLS_PLACED ? 0 : RP_INITIAL);
    if (kind == RK_CELL_KINDS || s->flags & ~plain || !has_usual_type(s))
        return NULL;
    return simd->cells[kind][looped_dtype(s)];
}

/* What stands in for elements that the mask leaves out */
static rk_kept kept_for(const rp_spec *s)
{
    const uint64_t one = (uint64_t)0x3ff0 << 48, infinity = (uint64_t)0x7ff0 << 48, nan = (uint64_t)0x7ff8 << 48;
    const int kind = kind_of(s), dtype = looped_dtype(s);
    rk_kept k = {.dtype = dtype, .has_initial = s->flags & RP_INITIAL, .initial = s->initial};
    k.by_first = kind == RK_CELLS_CHOSEN || kind == RK_CELLS_PLACED || kind == RK_CELLS_RANGE;
    if (k.by_first) {
        k.other = s->initial;
    } else if (stand_in_is_nan(s)) {
        k.other = rk_convert_float(RP_F64, nan, dtype);
        k.infinity = rk_is_float(s->dtype) && s->nan != RP_NAN_OMIT ? rk_convert_float(RP_F64, infinity, dtype) : 0;
        k.nan = s->nan == RP_NAN_PROPAGATE ? rk_convert_float(RP_F64, nan, s->out) : 0;
    } else if (s->op == RP_OP_ALL || s->op == RP_OP_PROD) {
        k.other = rk_is_float(dtype) ? rk_convert_float(RP_F64, one, dtype) : 1;
    }
    return k;
}

/* Lines from `first` on, as columns at x, or those of their elements that the mask keeps */
static void run_lot(const direct *d, const void *x, uint64_t stride, uint64_t rows, uint64_t first, uint64_t columns,
                    bool lines)
{
    const rp_spec *s = d->spec;
    const rk_lot lot = {x,      stride, (size_t)rows, (size_t)columns,    s->op, s->dtype,
                        s->out, d->nan, s->ddof,      s->flags & RP_WRAP, lines, d->base};
    uint16_t left[RK_LOT];
    uint8_t *cells = d->cells + first * d->cell;
    const size_t n = d->mask ? d->simd->kept(&lot, &d->kept, d->run, cells, left) : d->run(&lot, cells, left);
    for (size_t k = 0, some; k < n; k += some) {
        for (some = 1; k + some < n && left[k + some] == left[k] + some;)
            some++;
        d->rest(d->arg, first + left[k], some);
    }
}

static void run_columns(const direct *d, uint64_t first, uint64_t columns)
{
    const uint64_t row_len = d->spec->row_len;
    for (uint64_t c = first, end = first + columns, some; c < end; c += some) {
        const uint64_t in_plane = row_len - c % row_len, left = end - c < in_plane ? end - c : in_plane;
        some = left < RK_LOT ? left : RK_LOT;
        run_lot(d, d->elements + rk_line_of(d->spec, NULL, c).first * d->size, row_len * d->size, d->spec->rows, c, some,
                false);
    }
}

/* Are the columns of a plane so few that those of several planes are laid side by side? */
static bool is_narrow(const rp_spec *s) { return s->flags & RP_COLUMNS && s->row_len < LEAST_LINES; }

/* The rows of columns [first, first + columns) at `to`, `apart` bytes from each other, from elements or a mask at x */
static void lay_beside(const rp_spec *s, const uint8_t *x, size_t size, uint64_t first, size_t columns, uint8_t *to,
                       size_t apart)
{
    for (size_t done = 0, some; done < columns; done += some) {
        const uint64_t c = first + done, in_plane = s->row_len - c % s->row_len;
        const uint8_t *from = x + rk_line_of(s, NULL, c).first * size;
        some = columns - done < in_plane ? columns - done : (size_t)in_plane;
        for (uint64_t r = 0; r < s->rows; r++)
            memcpy(to + r * apart + done * size, from + r * s->row_len * size, some * size);
    }
}

/* A tile of turned rows, or its mask */
typedef uint8_t turned_rows[TURNED_BYTES + TURNED_ROW * RK_APART];

/* Joins the runs of each of `some` rows, of which the first is at x. */
static void join_runs(const rp_spec *s, const uint8_t *x, size_t size, uint64_t some, uint8_t *to)
{
    const uint64_t run = s->row_len * size;
    for (uint64_t plane = 0; plane < s->planes; plane++, x += s->rows * run)
        for (uint64_t k = 0; k < some; k++)
            memcpy(to + (k * s->planes + plane) * run, x + k * run, (size_t)run);
}

/* Rows as they are */
static void run_lines(const direct *d, uint64_t first, uint64_t rows)
{
    turned_rows joined;
    const bool runs = rk_in_runs(d->spec);
    const uint64_t n = rk_cpu_elements(d->spec), bytes = n * d->size, most = runs ? TURNED_BYTES / bytes : RK_LOT;
    for (uint64_t row = first, end = first + rows, some; row < end; row += some) {
        const uint8_t *x = d->elements + row * d->spec->row_len * d->size;
        some = end - row < most ? end - row : most;
        if (runs)
            join_runs(d->spec, x, d->size, some, joined);
        run_lot(d, runs ? joined : x, bytes, n, row, some, true);
    }
}

/* Rows at x as columns, `apart` bytes from each other; the runs of each plane below those of the one before */
static void lay_turned(const direct *d, size_t size, const uint8_t *x, size_t rows, uint8_t *to, size_t apart)
{
    const rp_spec *s = d->spec;
    const size_t run = (size_t)s->row_len;
    for (uint64_t plane = rp_planes(s); plane; plane--, to += run * apart, x += s->rows * run * size)
        d->simd->turn[__builtin_ctzll(size)](to, apart, x, run * size, rows, run);
}

/* Rows at x as columns at `turned`. Those of one element lie so already. Returns where they are. */
static const uint8_t *turn_rows(const direct *d, size_t size, const uint8_t *x, uint64_t rows, size_t n, turned_rows turned)
{
    if (n > 1)
        lay_turned(d, size, x, (size_t)rows, turned, (size_t)rows * size + RK_APART);
    return n > 1 ? turned : x;
}

/* Rows are turned, some at a time. */
static void run_rows(const direct *d, uint64_t first, uint64_t rows)
{
    turned_rows turned;
    const size_t n = (size_t)rk_cpu_elements(d->spec), bytes = n * d->size;
    const uint64_t most = TURNED_BYTES / bytes < RK_LOT ? TURNED_BYTES / bytes : RK_LOT;
    for (uint64_t row = first, end = first + rows, some; row < end; row += some) {
        some = end - row < most ? end - row : most;
        const uint8_t *x = turn_rows(d, d->size, d->elements + row * d->spec->row_len * d->size, some, n, turned);
        run_lot(d, x, some * d->size + RK_APART, n, row, some, false);
    }
}

/* Columns of narrow planes, some at a time */
static void run_planes(const direct *d, uint64_t first, uint64_t columns)
{
    turned_rows tile;
    const rp_spec *s = d->spec;
    const size_t room = TURNED_BYTES / (s->rows * d->size), most = room < RK_LOT ? room : RK_LOT;
    for (uint64_t c = first, end = first + columns, some; c < end; c += some) {
        some = end - c < most ? end - c : most;
        const size_t apart = some * d->size + RK_APART;
        lay_beside(s, d->elements, d->size, c, (size_t)some, tile, apart);
        run_lot(d, tile, apart, s->rows, c, some, false);
    }
}

/* n times the initial element */
static void put_initial(const direct *d, uint8_t *out, size_t n)
{
    memcpy(out, &d->spec->initial, d->size);
    for (size_t done = 1, some; done < n; done += some) {
        some = n - done < done ? n - done : done;
        memcpy(out + done * d->size, out, some * d->size);
    }
}

/* `some` lines at x, as columns, after a row of initial elements */
static void run_initial(const direct *d, const uint8_t *x, size_t n, uint64_t line, size_t some)
{
    turned_rows tile;
    const bool columns = d->spec->flags & RP_COLUMNS;
    const size_t apart = some * d->size + RK_APART;
    uint8_t *rows = tile + apart;
    put_initial(d, tile, some);
    if (!columns)
        lay_turned(d, d->size, x, some, rows, apart);
    else
        lay_beside(d->spec, d->elements, d->size, line, some, rows, apart);
    run_lot(d, tile, apart, n + 1, line, some, false);
}

/* Lines with a mask or an initial element, some at a time */
static void run_selected(direct *d, uint64_t first, uint64_t lines)
{
    turned_rows turned, masks;
    const rp_spec *s = d->spec;
    const bool columns = s->flags & RP_COLUMNS, narrow = is_narrow(s);
    const size_t n = (size_t)rk_cpu_elements(s), bytes = (n + d->kept.has_initial) * rp_dtype_size(d->kept.dtype),
                 room = TURNED_BYTES / bytes < RK_LOT ? TURNED_BYTES / bytes : RK_LOT, most = room / LEAST_LINES * LEAST_LINES;
    for (uint64_t line = first, end = first + lines, some; line < end; line += some) {
        const uint64_t beside = columns && !narrow ? s->row_len - line % s->row_len : most,
                       left = end - line < beside ? end - line : beside;
        const uint64_t at = rk_line_of(s, NULL, line).first;
        const uint8_t *x = d->elements + at * d->size;
        some = left < most ? left : most;
        if (!d->mask) {
            run_initial(d, x, n, line, (size_t)some);
            continue;
        }
        const bool as_they_are = columns && !narrow;
        d->kept.mask = as_they_are ? d->mask + at : narrow ? masks : turn_rows(d, 1, d->mask + at, some, n, masks);
        d->kept.stride = as_they_are ? s->row_len : some + RK_APART;
        if (narrow) {
            lay_beside(s, d->mask, 1, line, (size_t)some, masks, some + RK_APART);
            lay_beside(s, d->elements, d->size, line, (size_t)some, turned, some * d->size + RK_APART);
            x = turned;
        } else if (!columns) {
            x = turn_rows(d, d->size, x, some, n, turned);
        }
        run_lot(d, x, as_they_are ? s->row_len * d->size : some * d->size + RK_APART, n, line, some, false);
    }
}

/* The most elements of a row that is turned where there is a loop for rows, too */
static uint64_t longest_turned(const rp_spec *s)
{
    const int kind = kind_of(s);
    const uint64_t placed = s->dtype == RP_BOOL ? TURNED_BOOLS : TURNED_FOR_PLACE / rp_dtype_size(s->dtype);
    if (is_selective(s) || (s->dtype == RP_BOOL && kind != RK_CELLS_PLACED))
        return UINT64_MAX;
    if (kind == RK_CELLS_PLACED)
        return placed < TURNED_ROW ? placed : TURNED_ROW;
    const bool by_sums = kind == RK_CELLS_MOMENTS || (kind == RK_CELLS_TOTAL && rk_is_float(s->dtype));
    return kind == RK_CELLS_CHOSEN ? TURNED_FOR_END : by_sums ? TURNED_ROW : UINT64_MAX;
}

static bool in_lines(const rp_spec *s) { return rk_cpu_elements(s) > longest_turned(s); }

bool rk_cpu_is_direct(const rk_simd *simd, const rp_spec *s, uint64_t lines)
{
    const bool columns = s->flags & RP_COLUMNS;
    const uint64_t elements = rk_cpu_elements(s), beside = columns && !is_narrow(s) && s->row_len < lines ? s->row_len : lines,
                   most = is_selective(s) ? RK_KEPT_ROWS
                          : is_narrow(s)  ? TURNED_ROW
                          : columns       ? (s->op == RP_OP_PROD ? UINT64_MAX : RK_LOT_ROWS)
                          : in_lines(s)   ? RK_LOT_LINE
                                          : TURNED_ROW;
    return beside >= LEAST_LINES && elements >= 1 && elements <= most && loop_for(simd, s);
}

void rk_cpu_direct(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, rk_rest_fn *rest, void *arg)
{
    const rp_spec *s = &t->spec;
    const rp_parts p = rp_spec_parts(s, t->data, t->beside);
    direct d = {.simd = simd,
                .spec = s,
                .elements = p.elements,
                .mask = p.mask,
                .cells = t->cells,
                .size = rp_dtype_size(s->dtype),
                .cell = rp_cell_size(s),
                .base = s->index_base + t->base,
                .nan = stand_in_is_nan(s) ? RP_NAN_OMIT : s->nan,
                .run = loop_for(simd, s),
                .kept = kept_for(s),
                .rest = rest,
                .arg = arg};
    if (is_selective(s))
        run_selected(&d, first, lines);
    else if (is_narrow(s))
        run_planes(&d, first, lines);
    else if (s->flags & RP_COLUMNS)
        run_columns(&d, first, lines);
    else if (in_lines(s))
        run_lines(&d, first, lines);
    else
        run_rows(&d, first, lines);
}
