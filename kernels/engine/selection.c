#include "kernels/engine/selection.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/exact/line.h"
#include "kernels/exact/runs.h"

enum { LINES_TOGETHER = 64 << 10, MEMORY = 128 << 20 };

/* Memory of one batch of lines. */
typedef struct room {
    uint64_t lines;        /* of a batch, at most */
    unsigned ranks;        /* of a line, at most */
    rk_line_count *count;  /* [lines] */
    uint64_t *bits, *rank; /* [lines x ranks] each */
    uint64_t shared[RK_MAX_RANKS];
} room;

static bool room_open(room *r, const rp_spec *s)
{
    const uint64_t lines = rp_results(s);
    r->ranks = s->op == RP_OP_QUANTILE ? 2 * s->quantiles : s->op == RP_OP_MEDIAN ? 2 : 1;
    const uint64_t each = sizeof *r->count + 2 * r->ranks * sizeof *r->bits, most = MEMORY / each;
    r->lines = lines < LINES_TOGETHER ? lines : LINES_TOGETHER;
    r->lines = r->lines < most ? r->lines : most;
    r->count = malloc((size_t)(r->lines * each + 1));
    r->bits = (uint64_t *)(r->count ? r->count + r->lines : NULL);
    r->rank = r->bits ? r->bits + r->lines * r->ranks : NULL;
    return r->count;
}

/* Elements of each line, if all have the same number: no mask, no segments. */
static bool same_length(const rp_spec *s, uint64_t *n)
{
    *n = s->flags & RP_COLUMNS ? s->rows : rk_row_elements(s);
    return !(s->flags & (RP_MASK | RP_OFFSETS));
}

/* ---- rounds ---- */

/* Selects for lines that all have the length `of`, or, with `of` unknown, only counts. */
static rp_err first_round(rk_selection *q, room *r, const rp_spec *s, bool known, uint64_t of, rk_select_fn *select, void *impl,
                          rp_fault *f)
{
    q->own = false;
    q->of = of;
    q->ranks = known ? rk_order_ranks(s, of, r->shared) : 0;
    q->rank = r->shared;
    return select(impl, q, f);
}

static bool needs_own(const rp_spec *s, const rk_line_count *c, bool known, uint64_t of)
{
    return rk_order_needs(s, c->n, c->nans) && !(known && c->n == of);
}

/* The ranks of each line, its last one repeated; n: it needs none. Returns the most ranks that a line has. */
static unsigned own_ranks(room *r, const rp_spec *s, uint64_t lines, bool known, uint64_t of)
{
    unsigned most = 0;
    for (uint64_t i = 0; i < lines; i++) {
        uint64_t *rank = r->rank + i * r->ranks;
        unsigned n = needs_own(s, &r->count[i], known, of) ? rk_order_ranks(s, r->count[i].n, rank) : 0;
        most = n > most ? n : most;
        if (n == 0)
            rank[n++] = r->count[i].n;
        for (; n < r->ranks; n++)
            rank[n] = rank[n - 1];
    }
    return most;
}

/* Selects for the lines that the first round left. Their elements replace those of the first round, whose other lines get
 * cells before. */
static rp_err second_round(rk_selection *q, room *r, rk_select_fn *select, void *impl, rp_fault *f)
{
    q->own = true;
    q->ranks = r->ranks;
    q->rank = r->rank;
    return select(impl, q, f);
}

/* ---- cells ---- */

static void put_cell(rk_task *t, const rk_selection *q, uint64_t i)
{
    const rp_spec *s = &t->spec;
    const uint64_t line = q->first + i, n = q->count[i].n, *bits = q->bits + i * q->ranks;
    const rp_err err = rk_order_cell(s, n, q->count[i].nans, bits, (uint8_t *)t->cells + line * rp_cell_size(s));
    if (err && (!t->fault.code || line < t->fault.index))
        rk_order_fault(&t->fault, s, line, err, n, bits);
}

/* Cells of lines that have needed ranks of their own, or of the others. */
static void put_cells(rk_task *t, const rk_selection *q, bool own, bool known, uint64_t of)
{
    for (uint64_t i = 0; i < q->lines; i++)
        if (needs_own(&t->spec, &q->count[i], known, of) == own)
            put_cell(t, q, i);
}

static rp_err run_batch(rk_task *t, room *r, uint64_t first, uint64_t lines, rk_select_fn *select, void *impl, rp_fault *f)
{
    uint64_t of;
    const bool known = same_length(&t->spec, &of);
    rk_selection q = {.task = t, .first = first, .lines = lines, .count = r->count, .bits = r->bits};
    rp_err err = first_round(&q, r, &t->spec, known, of, select, impl, f);
    if (err)
        return err;
    put_cells(t, &q, false, known, of);
    const unsigned more = own_ranks(r, &t->spec, lines, known, of);
    if (more)
        err = second_round(&q, r, select, impl, f);
    if (!err)
        put_cells(t, &q, true, known, of);
    return err;
}

void rk_select_task(rk_task *t, rk_select_fn *select, void *impl)
{
    const uint64_t lines = rp_results(&t->spec);
    room r = {0};
    rp_fault f;
    rp_err err = RP_OK;
    if (!room_open(&r, &t->spec)) {
        rp_fail(&t->fault, RP_NO_MEMORY, "memory", 0, "no memory to select elements");
        return;
    }
    for (uint64_t first = 0, some; !err && first < lines; first += some) {
        some = lines - first < r.lines ? lines - first : r.lines;
        err = run_batch(t, &r, first, some, select, impl, &f);
    }
    if (err)
        t->fault = f;
    free(r.count);
}
