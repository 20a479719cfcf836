#include "kernels/engine/cut.h"

#include "kernels/exact/runs.h"

typedef struct cutting {
    const rp_spec *s;
    rk_cut_piece *out;
    unsigned n;
} cutting;

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* A piece that leaves states, of `planes` matrices of rows x row_len elements. */
static rk_cut_piece *add_states(cutting *c, uint64_t from, uint64_t rows, uint64_t row_len, uint64_t planes)
{
    rk_cut_piece *p = &c->out[c->n++];
    *p = (rk_cut_piece){.spec = *c->s, .from = from};
    p->spec.flags = (p->spec.flags & ~(uint32_t)(RP_INITIAL | RP_WRAP)) | RP_STATES_OUT; /* these flags apply only at the end */
    p->spec.rows = rows;
    p->spec.row_len = row_len;
    p->spec.planes = planes > 1 ? planes : 0;
    return p;
}

/* ---- rows ---- */

static void cut_row(cutting *c, uint64_t from, uint64_t to)
{
    rk_cut_piece *p = add_states(c, from, 1, to - from, 0);
    p->base = from % c->s->row_len;
    p->line = from / c->s->row_len;
}

static void cut_rows(cutting *c, uint64_t from, uint64_t to)
{
    const uint64_t len = c->s->row_len, first = (from + len - 1) / len, end = to / len; /* whole ones */
    if (from % len)
        cut_row(c, from, least(first * len, to));
    if (end > first) {
        c->out[c->n] = (rk_cut_piece){.spec = *c->s, .from = first * len, .line = first, .whole = true};
        c->out[c->n++].spec.rows = end - first;
    }
    if (to % len && end >= first)
        cut_row(c, end * len, to);
}

/* ---- columns, and rows in runs ---- */

/* The piece begins with element `at` of row `row` of the matrices. */
static void begin_at(const cutting *c, rk_cut_piece *p, uint64_t row, uint64_t at)
{
    const uint64_t first = row / c->s->rows * c->s->row_len + at;
    const bool columns = c->s->flags & RP_COLUMNS;
    p->base = columns ? row % c->s->rows : first;
    p->line = columns ? first : row % c->s->rows;
}

/* A part of a row of the matrix. */
static void cut_part(cutting *c, uint64_t from, uint64_t to)
{
    const uint64_t len = c->s->row_len;
    begin_at(c, add_states(c, from, 1, to - from, 0), from / len, from % len);
}

/* Rows [row, row + n) of a plane, or of `planes` whole ones. */
static void cut_plane(cutting *c, uint64_t row, uint64_t n, uint64_t planes)
{
    if (n && planes)
        begin_at(c, add_states(c, row * c->s->row_len, n, c->s->row_len, planes), row, 0);
}

/* Whole rows [row, end) of all planes' matrices. */
static void cut_planes(cutting *c, uint64_t row, uint64_t end)
{
    const uint64_t rows = c->s->rows, head = row % rows ? least(rows - row % rows, end - row) : 0;
    const uint64_t planes = (end - row - head) / rows, tail = end - row - head - planes * rows;
    cut_plane(c, row, head, 1);
    cut_plane(c, row + head, rows, planes);
    cut_plane(c, row + head + planes * rows, tail, 1);
}

static void cut_matrices(cutting *c, uint64_t from, uint64_t to)
{
    const uint64_t len = c->s->row_len, first = (from + len - 1) / len, end = to / len;
    if (from % len)
        cut_part(c, from, least(first * len, to));
    if (end > first)
        cut_planes(c, first, end);
    if (to % len && end >= first)
        cut_part(c, end * len, to);
}

bool rk_cut_scatters(const rp_spec *s) { return s->flags & RP_COLUMNS || rk_in_runs(s); }

unsigned rk_cut_range(const rp_spec *s, uint64_t from, uint64_t to, rk_cut_piece out[RK_CUT_PIECES])
{
    cutting c = {s, out, 0};
    if (to - from == rp_elements(s))
        c.out[c.n++] = (rk_cut_piece){.spec = *s, .whole = true};
    else if (rk_cut_scatters(s))
        cut_matrices(&c, from, to);
    else
        cut_rows(&c, from, to);
    return c.n;
}
