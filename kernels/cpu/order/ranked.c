#include "kernels/cpu/order/ranked.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/exact/line.h"
#include "kernels/exact/runs.h"

enum {
    TURNED_BYTES = 8 << 20, /* columns that are transposed together */
    TURNED = 64,            /* ... and how many at most */
    SHARED_BYTES = 1 << 20  /* a line that threads share has so many for each thread, or more */
};

const char rk_ranked_route[] = "by ranks";

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* ---- lines ---- */

static unsigned ranked_want(const void *spec, uint64_t n, uint64_t rank[RK_MAX_RANKS]) { return rk_order_ranks(spec, n, rank); }

/* What all lines of a task share. */
static void ranking_of(const rk_simd *simd, const rp_spec *s, rk_ranking *r)
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

void rk_ranked_line(const rk_simd *simd, const rk_task *t, uint64_t line, rk_ranking *r)
{
    const rp_parts p = rp_spec_parts(&t->spec, t->data, t->beside);
    ranking_of(simd, &t->spec, r);
    reader_of(&t->spec, &p, line, &r->line);
}

/* ---- cells ---- */

rp_err rk_ranked_finish(const rk_task *t, uint64_t line, const rk_ranking *r, rp_fault *f)
{
    const rp_spec *s = &t->spec;
    uint64_t bits[RK_MAX_RANKS];
    for (unsigned i = 0; i < r->ranks; i++)
        bits[i] = rk_key_bits(s->dtype, r->wanted[i].lo);
    const rp_err err = rk_order_cell(s, r->n, r->nans, bits, (uint8_t *)t->cells + line * rp_cell_size(s));
    if (err)
        rk_order_fault(f, s, line, err, r->n, bits);
    return err;
}

static rp_err no_memory(rp_fault *f)
{
    rp_fail(f, RP_NO_MEMORY, "memory", 0, "no memory to select elements");
    return RP_NO_MEMORY;
}

static rp_err run_line(const rk_task *t, uint64_t line, rk_ranking *r, rp_fault *f)
{
    bool again = true, ok = rk_ranking_open(r);
    while (ok && again) {
        rk_ranking_pass(r, 0, r->line.n);
        ok = rk_ranking_next(r, &again);
    }
    return ok ? rk_ranked_finish(t, line, r, f) : no_memory(f);
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

static rp_err run_turned(const rk_task *t, const rp_parts *p, const turned *to, uint64_t first, uint64_t columns, rk_ranking *r,
                         rp_fault *f)
{
    const rp_spec *s = &t->spec;
    const uint64_t at = rk_line_of(s, NULL, first).first, n = s->rows;
    const size_t size = r->line.size;
    rp_err err = RP_OK;
    r->simd->turn[__builtin_ctzll(size)](to->elements, n * size, p->elements + at * size, s->row_len * size, n, columns);
    if (to->mask)
        r->simd->turn[0](to->mask, n, p->mask + at, s->row_len, n, columns);
    r->line.n = r->line.run = r->line.stride = n;
    for (uint64_t c = 0; c < columns; c++) {
        rp_fault one;
        r->line.x = to->elements + c * n * size;
        r->line.mask = to->mask ? to->mask + c * n : NULL;
        const rp_err e = run_line(t, first + c, r, &one);
        if (e && !err)
            *f = one;
        err = err ? err : e;
    }
    return err;
}

static rp_err run_columns(const rk_task *t, const rp_parts *p, uint64_t first, uint64_t lines, rk_ranking *r, rp_fault *f)
{
    const rp_spec *s = &t->spec;
    const turned to = turned_open(s, p->mask);
    rp_err err = RP_OK;
    for (uint64_t c = first, end = first + lines, some; c < end && !err; c += some) {
        some = least(least(end - c, to.columns), s->row_len - c % s->row_len);
        if (some) {
            err = run_turned(t, p, &to, c, some, r, f);
            continue;
        }
        some = 1;
        reader_of(s, p, c, &r->line);
        err = run_line(t, c, r, f);
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
    rk_ranking *r = calloc(1, sizeof *r);
    if (!r)
        return no_memory(f);
    ranking_of(simd, s, r);
    if (s->flags & RP_COLUMNS)
        err = run_columns(t, &p, first, lines, r, f);
    else
        for (uint64_t line = first; line < first + lines && !err; line++) {
            reader_of(s, &p, line, &r->line);
            err = run_line(t, line, r, f);
        }
    rk_ranking_close(r);
    free(r);
    return err;
}

bool rk_ranked_shares(const rk_task *t, int threads)
{
    const uint64_t lines = rp_results(&t->spec);
    return threads > 1 && lines < (uint64_t)threads * 4 && lines &&
           t->bytes / lines >= (uint64_t)SHARED_BYTES * (uint64_t)threads;
}
