#include "kernels/cpu/stateless_lines.h"

#include "kernels/cpu/cpu.h"
#include "kernels/exact/line.h"
#include "kernels/exact/op.h"
#include "kernels/exact/runs.h"

enum {
    LEAST_LINES = 16,        /* side by side */
    TURNED_ROW = 128,        /* the most elements of a row that is turned to a column */
    TURNED_BYTES = 32 << 10, /* of such rows: they stay in L1 or L2 */
    APART = 64               /* extra bytes between turned columns, so that they do not share cache sets */
};

typedef struct direct {
    const rk_simd *simd;
    const rp_spec *spec;
    const uint8_t *elements;
    uint8_t *cells;
    size_t size, cell; /* bytes of an element, of a cell */
    uint64_t base;     /* index of a line's first element */
    rk_cells_fn *run;
    rk_rest_fn *rest;
    void *arg;
} direct;

/* Of one element most results are itself, unless it may be left out. */
static bool is_itself(const rp_spec *s)
{
    const bool sums = s->op == RP_OP_SUM || s->op == RP_OP_PROD || (s->op == RP_OP_MEAN && rk_is_float(s->dtype));
    return sums && rk_cpu_elements(s) == 1 && s->dtype != RP_BOOL && s->nan != RP_NAN_OMIT;
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

/* Integers have the default type in the reply. Counts and places have no other. */
static bool has_usual_type(const rp_spec *s)
{
    const int usual = rk_is_signed(s->dtype) ? RP_I64 : RP_U64, kind = kind_of(s);
    return rk_is_float(s->out) || kind == RK_CELLS_COUNTED || kind == RK_CELLS_PLACED ||
           (kind != RK_CELLS_MOMENTS && s->out == usual);
}

/* The loop for a task; NULL: there is none. */
static rk_cells_fn *loop_for(const rk_simd *simd, const rp_spec *s)
{
    const int kind = kind_of(s);
    const uint32_t plain = RP_COLUMNS | RP_WRAP;
    if (kind == RK_CELL_KINDS || s->flags & ~plain || !has_usual_type(s) || rk_in_runs(s))
        return NULL;
    return simd->cells[kind][s->dtype];
}

/* Lines from `first` on, as columns at x */
static void run_lot(const direct *d, const void *x, uint64_t stride, uint64_t rows, uint64_t first, uint64_t columns,
                    bool lines)
{
    const rp_spec *s = d->spec;
    const rk_lot lot = {x,      stride, (size_t)rows, (size_t)columns,    s->op, s->dtype,
                        s->out, s->nan, s->ddof,      s->flags & RP_WRAP, lines, d->base};
    uint16_t left[RK_LOT];
    const size_t n = d->run(&lot, d->cells + first * d->cell, left);
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

/* Rows as they are */
static void run_lines(const direct *d, uint64_t first, uint64_t rows)
{
    const uint64_t n = d->spec->row_len, bytes = n * d->size;
    for (uint64_t row = first, end = first + rows, some; row < end; row += some) {
        some = end - row < RK_LOT ? end - row : RK_LOT;
        run_lot(d, d->elements + row * bytes, bytes, n, row, some, true);
    }
}

/* Rows are turned, some at a time. Rows of one element lie like the columns of one row. */
static void run_rows(const direct *d, uint64_t first, uint64_t rows)
{
    uint8_t turned[TURNED_BYTES + TURNED_ROW * APART];
    const size_t n = (size_t)d->spec->row_len, bytes = n * d->size;
    const uint64_t most = TURNED_BYTES / bytes < RK_LOT ? TURNED_BYTES / bytes : RK_LOT;
    for (uint64_t row = first, end = first + rows, some; row < end; row += some) {
        some = end - row < most ? end - row : most;
        const uint8_t *x = d->elements + row * bytes;
        const size_t apart = (size_t)some * d->size + APART;
        if (n > 1)
            d->simd->turn[__builtin_ctzll(d->size)](turned, apart, x, bytes, (size_t)some, n);
        run_lot(d, n > 1 ? turned : x, apart, n, row, some, false);
    }
}

/* Are rows of float sums so long that they are not turned? */
static bool in_lines(const rp_spec *s)
{
    const int kind = kind_of(s);
    return s->row_len > TURNED_ROW && (kind == RK_CELLS_MOMENTS || (kind == RK_CELLS_TOTAL && rk_is_float(s->dtype)));
}

bool rk_cpu_is_direct(const rk_simd *simd, const rp_spec *s, uint64_t lines)
{
    const bool columns = s->flags & RP_COLUMNS;
    const uint64_t elements = rk_cpu_elements(s), beside = columns && s->row_len < lines ? s->row_len : lines,
                   most = columns       ? RK_LOT_ROWS
                          : in_lines(s) ? RK_LOT_LINE
                                        : TURNED_ROW;
    return beside >= LEAST_LINES && elements >= 1 && elements <= most && loop_for(simd, s);
}

void rk_cpu_direct(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, rk_rest_fn *rest, void *arg)
{
    const rp_spec *s = &t->spec;
    const direct d = {.simd = simd,
                      .spec = s,
                      .elements = rp_spec_parts(s, t->data, t->beside).elements,
                      .cells = t->cells,
                      .size = rp_dtype_size(s->dtype),
                      .cell = rp_cell_size(s),
                      .base = s->index_base + t->base,
                      .run = loop_for(simd, s),
                      .rest = rest,
                      .arg = arg};
    if (s->flags & RP_COLUMNS)
        run_columns(&d, first, lines);
    else if (in_lines(s))
        run_lines(&d, first, lines);
    else
        run_rows(&d, first, lines);
}
