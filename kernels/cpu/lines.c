/* Lines of a task - rows, segments, columns - reduced on the calling thread, each by the first route of a table that fits. */
#include "kernels/cpu/column_lines.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/keys/by_key.h"
#include "kernels/cpu/loops/sums/near.h"
#include "kernels/cpu/order/ranked.h"
#include "kernels/cpu/stateless_lines.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/runs.h"
#include "kernels/exact/truths.h"

enum {
    DECIDING = 2048,       /* elements that any and all look at first */
    SHORT = 512,           /* the most elements of a line that chains.h sums */
    NEAR = 1024,           /* the fewest of one whose sum may be near, */
    NEAR_SQUARES = 2048,   /* ... and whose sum of squares may be: to finish these takes longer */
    RUNS_TOGETHER = 64,    /* rows in runs that are reduced together, in the order of memory, */
    RUNS_GATHERED = 16,    /* ... that are gathered together, */
    GATHERED_RUN = 1 << 10 /* ... if a run has no more bytes: each part that is reduced costs some 100 ns or more */
};

/* Does the result follow from the smallest and the largest element? */
static bool goes_by_ends(int layout)
{
    return layout == RP_STATE_MIN || layout == RP_STATE_MAX || layout == RP_STATE_MINMAX || layout == RP_STATE_NORMINF;
}

/* Does it follow from the places of these, and for stats from sums and squares as well? */
static bool goes_by_places(const rk_simd *simd, int layout, int dtype)
{
    return rk_is_arg(layout) || (rk_is_stats(layout) && simd->column_squares[dtype]);
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
    const bool before = !rk_is_arg(x->layout) || x->limb[1] < s->index_base + t->base + from;
    return before && rk_is_settled(x, s->op, first_decides(s));
}

static void view_columns(rk_view *v)
{
    const rp_spec *s = v->spec;
    const rk_simd *simd = v->simd;
    if (v->p.mask || v->pairs)
        return;
    v->sums = v->layout == RP_STATE_SUM32 || v->layout == RP_STATE_SUM64 ? simd->columns[s->dtype] : NULL;
    v->near = s->op == RP_OP_PROD ? rk_cpu_near(simd, s) : NULL;
    v->squares = rk_square_limbs(v->layout) ? simd->column_squares[s->dtype] : NULL;
    v->ends = goes_by_ends(v->layout) ? simd->column_ends[s->dtype] : NULL;
    v->places = goes_by_places(simd, v->layout, s->dtype) ? simd->column_places[s->dtype] : NULL;
}

static rk_view view_of(const rk_simd *simd, const rk_task *t)
{
    const rp_spec *s = &t->spec;
    const int layout = rp_spec_layout(s);
    rk_view v = {.spec = s,
                 .p = rp_spec_parts(s, t->data, t->beside),
                 .layout = layout,
                 .dtype = rp_spec_state_dtype(s),
                 .size = rp_item_size(s),
                 .base = s->index_base + t->base,
                 .reduce = simd->reduce[layout][s->dtype],
                 .pairs = rk_cpu_pairs(simd, s),
                 .simd = simd};
    if (s->flags & RP_COLUMNS) {
        view_columns(&v);
    } else {
        v.product = has_quick_product(s) ? simd->row_product[s->dtype] : NULL;
        v.near = rk_cpu_near(simd, s);
        v.pairs_near = v.pairs && rk_cpu_is_near(simd, s);
        v.first_decides = first_decides(s);
    }
    return v;
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

/* ---- rows and segments ---- */

/* any and all, until they are decided: the state then has those up to there. Pieces grow, so that few elements are read
 * without need, and few calls are made. */
static void reduce_until_decided(const rk_view *v, rk_state *s, const uint8_t *x, uint64_t n)
{
    uint64_t most = DECIDING;
    for (uint64_t i = 0, some; i < n; i += some, most += most) {
        some = n - i < most ? n - i : most;
        rk_add_gathered(v, s, x + i * v->size, some, 0, some, NULL);
        if (rk_is_settled(s, v->spec->op, true))
            return;
    }
}

static void reduce_segment(const rk_view *v, uint64_t first, uint64_t from, uint64_t n, rk_state *s)
{
    const uint8_t *x = v->p.elements + (first + from) * v->size;
    rk_state_init(s, v->layout, v->dtype);
    if (v->spec->flags & RP_STATES_IN)
        merge_states(s, x, n);
    else if (v->pairs)
        rk_add_pairs(v, s, first + from, n, NULL);
    else if (v->p.mask)
        rk_add_masked(v, s, x, v->p.mask + first + from, v->base + from, n);
    else if (v->first_decides)
        reduce_until_decided(v, s, x, n);
    else if (n)
        v->reduce(s, x, n, v->base + from, v->spec->nan);
}

/* n elements, from `first` on, to a state of sums that lack as much as is returned. */
static double near_segment(const rk_view *v, uint64_t first, uint64_t n, rk_state *s)
{
    double neglected = 0;
    rk_state_init(s, v->layout, v->dtype);
    if (v->pairs)
        rk_add_pairs(v, s, first, n, &neglected);
    else if (n)
        v->near(s, v->p.elements + first * v->size, n, v->spec->nan, &neglected);
    return neglected;
}

/* Joins elements [from, from + n) of a row to its state, all in one run. */
static void add_run(const rk_view *v, uint64_t row, uint64_t from, uint64_t n, rk_state *s)
{
    rk_state part;
    reduce_segment(v, rk_place_in_runs(v->spec, row, from) - from, from, n, &part);
    rk_state_merge(s, &part);
}

/* Joins the runs of rows [row, row + rows), RUNS_GATHERED at most, in as many planes as RK_GATHER_BYTES have room for. */
static void gather_runs(const rk_view *v, uint64_t row, uint64_t rows, uint64_t plane, uint64_t planes, rk_state *states)
{
    uint8_t x[RUNS_GATHERED][RK_GATHER_BYTES], masks[RUNS_GATHERED][RK_GATHER_BYTES];
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
            rk_add_gathered(v, &states[k], x[k], kept, v->base + plane * run, n, mask);
    }
}

/* Joins the runs of some rows in planes [plane, end). */
static void add_planes(const rk_view *v, uint64_t row, uint64_t rows, uint64_t plane, uint64_t end, rk_state *states)
{
    const uint64_t run = v->spec->row_len, bytes = run * v->size;
    const bool gathered = bytes <= GATHERED_RUN && !v->pairs;
    for (uint64_t planes; plane < end; plane += planes) {
        planes = !gathered ? 1 : end - plane < RK_GATHER_BYTES / bytes ? end - plane : RK_GATHER_BYTES / bytes;
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
static void add_runs(const rk_view *v, uint64_t row, uint64_t from, uint64_t n, rk_state *s)
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
    rk_view v = view_of(simd, t);
    if (!rk_in_runs(v.spec)) {
        reduce_segment(&v, rk_line_of(v.spec, v.p.offsets, row).first, from, n, s);
        return;
    }
    rk_state_init(s, v.layout, v.dtype);
    add_runs(&v, row, from, n, s);
}

void rk_cpu_arrays(const rk_simd *simd, const rp_spec *s, const uint8_t *const *x, size_t arrays, const rp_parts *beside,
                   uint64_t n, rk_state *states)
{
    const rk_task t = {.spec = *s, .data = x[0], .beside = beside};
    rk_view v = view_of(simd, &t);
    const bool together = v.pairs && v.p.mask && arrays > 1;
    for (size_t i = 0; i < arrays; i++) {
        v.p.elements = x[i];
        reduce_segment(&v, 0, 0, together ? 0 : n, &states[i]);
    }
    if (together)
        rk_add_pairs_together(simd, s, x, arrays, beside, n, states);
}

double rk_cpu_near_segment(const rk_simd *simd, const rk_task *t, uint64_t row, uint64_t from, uint64_t n, rk_state *s)
{
    rk_view v = view_of(simd, t);
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

/* Runs lines [first, first + lines) of a task. */
struct route; /* below */
typedef void run_fn(const struct route *r, const rk_view *v, const rk_task *t, uint64_t first, uint64_t lines, verdict *bad);

enum { ROWS = 1, RUNS = 2, COLUMNS = 4 }; /* shapes of a task; ROWS: of segments, too */

/* A way to reduce lines. */
typedef struct route {
    const char *name;
    int shapes;
    bool (*fits)(const rk_view *v, uint64_t lines); /* NULL: all of these shapes */
    run_fn *run;
    rk_add_rows_fn *add; /* for rk_cpu_join_columns, too */
} route;

static void lines_columns(const route *r, const rk_view *v, const rk_task *t, uint64_t first, uint64_t columns, verdict *bad)
{
    for (uint64_t c = first, end = first + columns, some; c < end; c += some) {
        rk_state states[RK_COLUMNS_TOGETHER];
        rk_view w = *v;
        double neglected = 0;
        w.neglected = v->near ? &neglected : NULL;
        some = rk_columns_together(v, c, end - c);
        for (uint64_t k = 0; k < some; k++)
            rk_state_init(&states[k], v->layout, v->dtype);
        rk_add_columns(&w, r->add, c, (size_t)some, 0, v->spec->rows, states);
        w.near = NULL;
        for (uint64_t k = 0; k < some; k++)
            if (neglected == 0)
                put_cell(t, c + k, &states[k], bad);
            else if (!rk_cpu_near_cell(t, c + k, &states[k], neglected))
                lines_columns(r, &w, t, c + k, 1, bad);
    }
}

static void whole_row(const rk_view *v, const rk_task *t, uint64_t row, rk_line l, verdict *bad)
{
    rk_state s;
    reduce_segment(v, l.first, 0, l.n, &s);
    put_cell(t, row, &s, bad);
}

static void lines_rows(const route *r, const rk_view *v, const rk_task *t, uint64_t first, uint64_t rows, verdict *bad)
{
    (void)r;
    for (uint64_t row = first; row < first + rows; row++)
        whole_row(v, t, row, rk_line_of(v->spec, v->p.offsets, row), bad);
}

/* Finishes the product of a row without a state. False: that is not certain. */
static bool put_product(const rk_view *v, const rk_task *t, uint64_t row, rk_line l)
{
    const size_t size = rp_dtype_size(v->spec->out);
    uint64_t cell;
    if (!v->product(v->p.elements + l.first * v->size, l.n, v->spec->out, v->spec->flags & RP_WRAP, &cell))
        return false;
    memcpy((uint8_t *)t->cells + row * size, &cell, size);
    return true;
}

static void lines_products(const route *r, const rk_view *v, const rk_task *t, uint64_t first, uint64_t rows, verdict *bad)
{
    (void)r;
    for (uint64_t row = first; row < first + rows; row++) {
        const rk_line l = rk_line_of(v->spec, v->p.offsets, row);
        if (!put_product(v, t, row, l))
            whole_row(v, t, row, l, bad);
    }
}

/* Finishes a row whose sum is near. False: that is not certain. */
static bool put_near(const rk_view *v, const rk_task *t, uint64_t row, rk_line l)
{
    rk_state s;
    return rk_cpu_near_cell(t, row, &s, near_segment(v, l.first, l.n, &s));
}

/* The fewest elements of a line that may be near. */
static uint64_t fewest_near(const rk_view *v) { return rk_square_limbs(v->layout) && !v->pairs ? NEAR_SQUARES : NEAR; }

static void lines_near(const route *r, const rk_view *v, const rk_task *t, uint64_t first, uint64_t rows, verdict *bad)
{
    (void)r;
    for (uint64_t row = first; row < first + rows; row++) {
        const rk_line l = rk_line_of(v->spec, v->p.offsets, row);
        if (l.n < fewest_near(v) || !put_near(v, t, row, l))
            whole_row(v, t, row, l, bad);
    }
}

/* Some rows at a time, plane by plane. */
static void runs_together(const rk_view *v, const rk_task *t, uint64_t first, uint64_t rows, verdict *bad)
{
    for (uint64_t row = first, end = first + rows, some; row < end; row += some) {
        rk_state states[RUNS_TOGETHER];
        some = end - row < RUNS_TOGETHER ? end - row : RUNS_TOGETHER;
        for (uint64_t k = 0; k < some; k++)
            rk_state_init(&states[k], v->layout, v->dtype);
        if (v->spec->row_len)
            add_planes(v, row, some, 0, v->spec->planes, states);
        for (uint64_t k = 0; k < some; k++)
            put_cell(t, row + k, &states[k], bad);
    }
}

/* Finishes the product of a row in runs, which are gathered first. False: that is not certain, or there are too many. */
static bool put_product_of_runs(const rk_view *v, const rk_task *t, uint64_t row)
{
    const uint64_t run = v->spec->row_len * v->size, apart = v->spec->rows * run;
    uint8_t x[2 * RK_GATHER_BYTES];
    rk_view gathered = *v;
    if (v->p.mask || v->spec->planes * run > sizeof x)
        return false;
    for (uint64_t plane = 0; plane < v->spec->planes; plane++)
        memcpy(x + plane * run, v->p.elements + plane * apart + row * run, (size_t)run);
    gathered.p.elements = x;
    return put_product(&gathered, t, row, (rk_line){.n = v->spec->planes * v->spec->row_len, .stride = 1});
}

static void lines_runs(const route *r, const rk_view *v, const rk_task *t, uint64_t first, uint64_t rows, verdict *bad)
{
    (void)r;
    if (!v->product) {
        runs_together(v, t, first, rows, bad);
        return;
    }
    for (uint64_t row = first; row < first + rows; row++)
        if (!put_product_of_runs(v, t, row))
            runs_together(v, t, row, 1, bad);
}

/* ---- lines that need no state, or leave it to the next route that fits ---- */

/* Runs lines that could not be finished without states. */
static void run_rest(const rk_view *v, const rk_task *t, uint64_t first, uint64_t lines, verdict *bad);

typedef struct remaining {
    const rk_view *v;
    const rk_task *t;
    verdict *bad;
} remaining;

static void lines_rest(void *arg, uint64_t first, uint64_t lines)
{
    const remaining *r = arg;
    run_rest(r->v, r->t, first, lines, r->bad);
}

static void lines_direct(const route *r, const rk_view *v, const rk_task *t, uint64_t first, uint64_t lines, verdict *bad)
{
    remaining others = {v, t, bad};
    (void)r;
    rk_cpu_direct(v->simd, t, first, lines, lines_rest, &others);
}

/* Sums RK_CHAINS lines. False, and nothing is done, if they are not short. */
static bool sum_chains(const rk_view *v, const rk_task *t, uint64_t first, verdict *bad)
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
    unsigned right = v->simd->chains[v->spec->dtype](x, n, stride * v->size, sum);
    for (int j = 0; j < RK_CHAINS; j++)
        if (right >> j & 1)
            memcpy((uint8_t *)t->cells + 8 * (first + (uint64_t)j), &sum[j], sizeof sum[j]);
        else
            run_rest(v, t, first + (uint64_t)j, 1, bad);
    return true;
}

static void lines_chained(const route *r, const rk_view *v, const rk_task *t, uint64_t first, uint64_t lines, verdict *bad)
{
    (void)r;
    for (; lines >= RK_CHAINS; first += RK_CHAINS, lines -= RK_CHAINS)
        if (!sum_chains(v, t, first, bad))
            run_rest(v, t, first, RK_CHAINS, bad);
    run_rest(v, t, first, lines, bad);
}

/* ---- which lines go which way ---- */

static bool lines_fit_direct(const rk_view *v, uint64_t lines) { return rk_cpu_is_direct(v->simd, v->spec, lines); }

/* Sums of many short lines to f64; segments may have any length. */
static bool lines_fit_chains(const rk_view *v, uint64_t lines)
{
    const rp_spec *s = v->spec;
    const uint64_t most = s->flags & RP_OFFSETS ? 0 : rk_cpu_elements(s);
    return lines >= RK_CHAINS && s->op == RP_OP_SUM && s->out == RP_F64 && most <= SHORT &&
           !(s->flags & ~(uint32_t)(RP_OFFSETS | RP_COLUMNS)) && v->simd->chains[s->dtype];
}

static bool lines_fit_stats(const rk_view *v, uint64_t lines) { return (void)lines, v->places && v->squares; }
static bool lines_fit_places(const rk_view *v, uint64_t lines) { return (void)lines, v->places; }
static bool lines_fit_squares(const rk_view *v, uint64_t lines) { return (void)lines, v->squares; }
static bool lines_fit_ends(const rk_view *v, uint64_t lines) { return (void)lines, v->ends; }
static bool lines_fit_sums(const rk_view *v, uint64_t lines) { return (void)lines, v->sums; }
static bool lines_fit_states(const rk_view *v, uint64_t lines) { return (void)lines, v->spec->flags & RP_STATES_IN; }
static bool lines_fit_pairs(const rk_view *v, uint64_t lines) { return (void)lines, v->pairs; }
static bool lines_fit_mask(const rk_view *v, uint64_t lines) { return (void)lines, v->p.mask; }
static bool lines_fit_decided(const rk_view *v, uint64_t lines) { return (void)lines, v->first_decides; }
static bool lines_fit_products(const rk_view *v, uint64_t lines) { return (void)lines, v->product; }
static bool lines_fit_near(const rk_view *v, uint64_t lines)
{
    return (void)lines, (v->near || v->pairs_near) && (v->spec->flags & RP_OFFSETS || v->spec->row_len >= fewest_near(v));
}

/* The first one that fits wins. The routes before WITH_STATES finish lines without states, and leave those for which that is
 * not certain to the first later one that fits. */
enum { WITH_STATES = 2 };
/* clang-format off */
static const route routes[] = {
    {"without states",     ROWS | RUNS | COLUMNS, lines_fit_direct, lines_direct,   NULL},
    {"chains",             ROWS | COLUMNS, lines_fit_chains,  lines_chained,  NULL},
    {"stats of columns",   COLUMNS,        lines_fit_stats,   lines_columns,  rk_add_stats},
    {"places of columns",  COLUMNS,        lines_fit_places,  lines_columns,  rk_add_places},
    {"squares of columns", COLUMNS,        lines_fit_squares, lines_columns,  rk_add_squares},
    {"ends of columns",    COLUMNS,        lines_fit_ends,    lines_columns,  rk_add_ends},
    {"sums of columns",    COLUMNS,        lines_fit_sums,    lines_columns,  rk_add_sums},
    {"columns of pairs",   COLUMNS,        lines_fit_pairs,   lines_columns,  NULL},
    {"turned columns",     COLUMNS,        NULL,              lines_columns,  NULL},
    {"runs",               RUNS,           NULL,              lines_runs,     NULL},
    {"states",             ROWS,           lines_fit_states,  lines_rows,     NULL},
    {"products",           ROWS,           lines_fit_products, lines_products, NULL},
    {"near sums",          ROWS,           lines_fit_near,    lines_near,     NULL},
    {"rows of pairs",      ROWS,           lines_fit_pairs,   lines_rows,     NULL},
    {"masked rows",        ROWS,           lines_fit_mask,    lines_rows,     NULL},
    {"until decided",      ROWS,           lines_fit_decided, lines_rows,     NULL},
    {"rows",               ROWS,           NULL,              lines_rows,     NULL},
};
/* clang-format on */

/* The first route from `r` on for `lines` lines. */
static const route *route_from(const route *r, const rk_view *v, uint64_t lines)
{
    const int shape = v->spec->flags & RP_COLUMNS ? COLUMNS : rk_in_runs(v->spec) ? RUNS : ROWS;
    while (!(r->shapes & shape) || (r->fits && !r->fits(v, lines)))
        r++;
    return r;
}

static void run_rest(const rk_view *v, const rk_task *t, uint64_t first, uint64_t lines, verdict *bad)
{
    const route *r = route_from(routes + WITH_STATES, v, lines);
    r->run(r, v, t, first, lines, bad);
}

int rk_cpu_lines(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, uint64_t *bad_row, rk_state *bad_state)
{
    const rk_view v = view_of(simd, t);
    verdict bad = {RP_OK, bad_row, bad_state};
    const route *r = route_from(routes, &v, lines);
    r->run(r, &v, t, first, lines, &bad);
    return bad.code;
}

int rk_cpu_all_lines(const rk_simd *simd, rk_task *t, uint64_t *bad_row, rk_state *bad_state)
{
    const rk_view v = view_of(simd, t);
    verdict bad = {RP_OK, bad_row, bad_state};
    const uint64_t lines = rp_results(&t->spec);
    const route *r = route_from(routes, &v, lines);
    t->route = r->name;
    r->run(r, &v, t, 0, lines, &bad);
    return bad.code;
}

const char *rk_cpu_route(const rk_simd *simd, const rk_task *t)
{
    if (t->spec.flags & RP_KEYS)
        return rk_by_key_route;
    if (rp_is_ranked(t->spec.op))
        return rk_ranked_route;
    const rk_view v = view_of(simd, t);
    return route_from(routes, &v, rp_results(&t->spec))->name;
}

/* ---- states of columns ---- */

static void join_columns(const rk_view *v, uint64_t first, uint64_t columns, uint64_t from, uint64_t n, rk_state *states)
{
    const route *r = route_from(routes + WITH_STATES, v, columns);
    for (uint64_t c = 0, some; c < columns; c += some) {
        some = rk_columns_together(v, first + c, columns - c);
        rk_add_columns(v, r->add, first + c, (size_t)some, from, n, states + c);
    }
}

void rk_cpu_columns(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t columns, uint64_t from, uint64_t n,
                    rk_state *states, double *neglected)
{
    rk_view v = view_of(simd, t);
    v.neglected = neglected;
    for (uint64_t c = 0; c < columns; c++)
        rk_state_init(&states[c], v.layout, v.dtype);
    join_columns(&v, first, columns, from, n, states);
}

void rk_cpu_join_columns(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t columns, uint64_t from, uint64_t n,
                         rk_state *states)
{
    const rk_view v = view_of(simd, t);
    join_columns(&v, first, columns, from, n, states);
}
