#include "kernels/cpu/order/ranked.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/order/short_lines.h"
#include "kernels/exact/line.h"
#include "kernels/exact/runs.h"

enum {
    TURNED_BYTES = 8 << 20, /* columns that are transposed together */
    TURNED = 64,            /* ... and how many at most */
    PART_BYTES = 8 << 20,   /* of a pass at least; between parts a task may end: a millisecond */
    SHARED_BYTES = 1 << 20  /* a line that threads share has so many for each thread, or more */
};

const char rk_ranked_route[] = "by ranks";

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- lines ---- */

static unsigned ranked_want(const void *spec, uint64_t n, uint64_t rank[RK_MAX_RANKS]) { return rk_order_ranks(spec, n, rank); }

void rk_ranking_of(const rk_simd *simd, const rp_spec *s, rk_ranking *r)
{
    r->simd = simd;
    r->keys = rk_keys_of(s->dtype);
    r->truths = s->dtype == RP_BOOL;
    r->want = ranked_want;
    r->want_arg = s;
    r->want_all = true;
    r->line.size = rp_dtype_size(s->dtype);
    r->line.keep = simd->keep[__builtin_ctzll(r->line.size)];
}

bool rk_selection_init(rk_selection *o, const rk_simd *simd, const rk_task *t)
{
    const rp_spec *s = &t->spec;
    o->t = t;
    o->line = rp_is_top(s->op) ? &o->best.line : s->op == RP_OP_HISTOGRAM ? &o->bins.line : &o->ranking.line;
    o->line->size = rp_dtype_size(s->dtype);
    o->line->keep = simd->keep[__builtin_ctzll(o->line->size)];
    o->best.spec = o->bins.spec = s;
    o->best.simd = o->bins.simd = simd;
    const rk_keys keys = rk_keys_of(s->dtype);
    if (s->op == RP_OP_HISTOGRAM)
        return t->bounds ? rk_bins_of_keys(&o->bins, &keys, t->bounds) : rk_bins_init(&o->bins);
    if (rp_is_top(s->op))
        rk_best_init(&o->best);
    else
        rk_ranking_of(simd, s, &o->ranking);
    return true;
}

static void reader_of(const rp_spec *s, const rp_parts *p, uint64_t line, rk_reader *r)
{
    const rk_line l = rk_line_of(s, p->offsets, line);
    uint64_t first = l.first;
    r->n = r->run = r->stride = l.n;
    if (rk_in_runs(s)) {
        first = line * s->row_len;
        r->n = rk_row_elements(s);
        r->run = s->row_len;
        r->stride = s->rows * s->row_len;
    } else if (l.stride != 1) {
        r->run = 1;
        r->stride = l.stride;
    }
    r->x = p->elements + first * r->size;
    r->mask = p->mask ? p->mask + first : NULL;
}

void rk_selection_line(rk_selection *o, uint64_t line)
{
    const rp_parts p = rp_spec_parts(&o->t->spec, o->t->data, o->t->beside);
    reader_of(&o->t->spec, &p, line, o->line);
}

bool rk_selection_open(rk_selection *o)
{
    const int op = o->t->spec.op;
    if (op == RP_OP_HISTOGRAM)
        rk_bins_open(&o->bins);
    return op == RP_OP_HISTOGRAM || (rp_is_top(op) ? rk_best_open(&o->best) : rk_ranking_open(&o->ranking));
}

void rk_selection_pass(rk_selection *o, uint64_t from, uint64_t to)
{
    const int op = o->t->spec.op;
    if (op == RP_OP_HISTOGRAM)
        rk_bins_pass(&o->bins, from, to);
    else if (rp_is_top(op))
        rk_best_pass(&o->best, from, to);
    else
        rk_ranking_pass(&o->ranking, from, to);
}

bool rk_selection_next(rk_selection *o, bool *again)
{
    const int op = o->t->spec.op;
    *again = false;
    return op == RP_OP_HISTOGRAM || (rp_is_top(op) ? rk_best_next(&o->best, again) : rk_ranking_next(&o->ranking, again));
}

void rk_selection_close(rk_selection *o)
{
    const int op = o->t ? o->t->spec.op : 0;
    rk_ranking_close(&o->ranking);
    if (rp_is_top(op))
        rk_best_close(&o->best);
    else if (op == RP_OP_HISTOGRAM)
        rk_bins_close(&o->bins);
}

/* ---- cells ---- */

static rp_err no_memory(rp_fault *f)
{
    rp_fail(f, RP_NO_MEMORY, "memory", 0, "no memory to select elements");
    return RP_NO_MEMORY;
}

static rp_err ranked_cell(const rk_selection *o, uint64_t line, uint8_t *cell, rp_fault *f)
{
    const rp_spec *s = &o->t->spec;
    const rk_ranking *r = &o->ranking;
    uint64_t bits[RK_MAX_RANKS];
    for (unsigned i = 0; i < r->ranks; i++)
        bits[i] = rk_key_bits(s->dtype, r->wanted[i].lo);
    const rp_err err = rk_order_cell(s, r->n, r->nans, bits, cell);
    if (err)
        rk_order_fault(f, s, line, err, r->n, bits);
    return err;
}

rp_err rk_selection_cell(rk_selection *o, uint64_t line, rp_fault *f)
{
    const rp_spec *s = &o->t->spec;
    uint8_t *cell = (uint8_t *)o->t->cells + line * rp_cell_size(s);
    uint64_t bad = 0;
    if (s->op != RP_OP_HISTOGRAM && !rp_is_top(s->op))
        return ranked_cell(o, line, cell, f);
    const rp_err err = rp_is_top(s->op) ? rk_best_cell(&o->best, cell, &bad) : rk_bins_cell(&o->bins, cell);
    if (err == RP_NO_MEMORY)
        return no_memory(f);
    if (err)
        rk_order_fault(f, s, line, err, 0, &bad);
    return err;
}

/* A part has counts or a list of its own, which are joined at its end: the longer they are, the longer is the part. */
static uint64_t part_bytes(const rk_selection *o)
{
    const rp_spec *s = &o->t->spec;
    const uint64_t own = rp_is_top(s->op)           ? (uint64_t)s->k
                         : s->op == RP_OP_HISTOGRAM ? s->n_edges
                         : o->ranking.slots != NULL ? RK_RANK_SLOTS
                                                    : 0;
    return PART_BYTES * (1 + own / 256);
}

/* False: the task is late or stopped. */
static bool whole_pass(rk_selection *o, rp_fault *f)
{
    const uint64_t n = o->line->n, each = part_bytes(o) / o->line->size;
    uint64_t at = 0;
    do {
        if (rk_task_late(o->t, f))
            return false;
        rk_selection_pass(o, at, least(at + each, n));
        at += each;
    } while (at < n);
    return true;
}

static rp_err run_line(uint64_t line, rk_selection *o, rp_fault *f)
{
    bool again = true, ok = rk_selection_open(o);
    while (ok && again) {
        if (!whole_pass(o, f))
            return f->code;
        ok = rk_selection_next(o, &again);
    }
    return ok ? rk_selection_cell(o, line, f) : no_memory(f);
}

/* ---- columns: transposed together, as the cache has them ---- */

typedef struct turned {
    uint8_t *elements, *mask;
    uint64_t columns; /* at most; 0: they are too long */
} turned;

static turned turned_open(const rp_spec *s, bool mask)
{
    const uint64_t size = rp_dtype_size(s->dtype), column = s->rows * (size + mask);
    turned t = {.columns = s->rows ? least(least(TURNED_BYTES / column, TURNED), s->row_len) : 0};
    t.elements = t.columns ? malloc((size_t)(t.columns * column)) : NULL;
    t.mask = t.elements && mask ? t.elements + t.columns * s->rows * size : NULL;
    t.columns = t.elements ? t.columns : 0;
    return t;
}

static rp_err run_turned(const rk_simd *simd, const rk_task *t, const rp_parts *p, const turned *to, uint64_t first,
                         uint64_t columns, rk_selection *o, rp_fault *f)
{
    const rp_spec *s = &t->spec;
    const uint64_t at = rk_line_of(s, NULL, first).first, n = s->rows;
    rk_reader *r = o->line;
    const size_t size = r->size;
    rp_err err = RP_OK;
    simd->turn[__builtin_ctzll(size)](to->elements, n * size, p->elements + at * size, s->row_len * size, n, columns);
    if (to->mask)
        simd->turn[0](to->mask, n, p->mask + at, s->row_len, n, columns);
    r->n = r->run = r->stride = n;
    for (uint64_t c = 0; c < columns; c++) {
        rp_fault one;
        r->x = to->elements + c * n * size;
        r->mask = to->mask ? to->mask + c * n : NULL;
        const rp_err e = run_line(first + c, o, &one);
        if (e && !err)
            *f = one;
        err = err ? err : e;
    }
    return err;
}

static rp_err run_columns(const rk_simd *simd, const rk_task *t, const rp_parts *p, uint64_t first, uint64_t lines,
                          rk_selection *o, rp_fault *f)
{
    const rp_spec *s = &t->spec;
    const turned to = turned_open(s, p->mask);
    rp_err err = RP_OK;
    for (uint64_t c = first, end = first + lines, some; c < end && !err; c += some) {
        some = least(least(end - c, to.columns), s->row_len - c % s->row_len);
        if (some) {
            err = run_turned(simd, t, p, &to, c, some, o, f);
            continue;
        }
        some = 1;
        reader_of(s, p, c, o->line);
        err = run_line(c, o, f);
    }
    free(to.elements);
    return err;
}

/* ---- public ---- */

rp_err rk_ranked_lines(const rk_simd *simd, const rk_task *t, uint64_t first, uint64_t lines, rp_fault *f)
{
    const rp_spec *s = &t->spec;
    const rp_parts p = rp_spec_parts(s, t->data, t->beside);
    rp_err err = RP_OK;
    if (rk_lines_are_short(s, lines))
        return rk_short_lines(simd, t, first, lines, f);
    rk_selection *o = calloc(1, sizeof *o);
    if (!o)
        return no_memory(f);
    o->ranking.memory = RK_ORDER_KEPT / least(RK_ORDER_LINES, rp_results(s) | 1);
    if (!rk_selection_init(o, simd, t))
        err = no_memory(f);
    else if (s->flags & RP_COLUMNS)
        err = run_columns(simd, t, &p, first, lines, o, f);
    else
        for (uint64_t line = first; line < first + lines && !err; line++) {
            reader_of(s, &p, line, o->line);
            err = run_line(line, o, f);
        }
    rk_selection_close(o);
    free(o);
    return err;
}

bool rk_ranked_shares(const rk_task *t, int threads)
{
    const uint64_t lines = rp_results(&t->spec);
    return threads > 1 && lines < (uint64_t)threads * 4 && lines &&
           t->bytes / lines >= (uint64_t)SHARED_BYTES * (uint64_t)threads;
}
