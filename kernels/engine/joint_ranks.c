#include "kernels/engine/joint_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/order/ranked.h"

/* Bounds of a bracket: where its digits begin, and where it ends. */
enum { BOUNDS = RK_DIGITS + 1 };

_Static_assert(sizeof(uint64_t) * RK_JOINT_LINES * (BOUNDS * RK_JOINT_LINES + RP_APART) <= RP_MAX_DATA &&
                   (int)RK_JOINT_LINES >= (int)RK_BRACKETS && BOUNDS * RK_JOINT_LINES <= RP_MAX_EDGES,
               "a pass has room for a bracket of each line, and for all of one line");

typedef struct ranked_line {
    rk_ranking ranking;
    bool again;  /* its elements are not found so far */
    bool served; /* ... and this pass counts its digits */
} ranked_line;

struct rk_joint_ranks {
    rk_task pass; /* first */
    rk_task *t;
    rk_joint_count *count;
    void *arg;
    void (*done)(rk_task *t);
    uint64_t *bound, *other; /* of this pass, ascending; `other` is as large, to sort them */
    uint64_t bounds, most;
    uint64_t *cells;
    uint64_t lines;
    ranked_line line[];
};

/* ---- bounds of a pass ---- */

/* Bounds that a pass has at most: of one line all brackets; of more a bracket of each. */
static uint64_t most_bounds(uint64_t lines) { return BOUNDS * (lines == 1 ? RK_BRACKETS : RK_JOINT_LINES); }

/* The last bound, behind the bracket, is not one if no key is there. */
static void add_bounds(rk_joint_ranks *r, const rk_bracket *b, uint64_t most_key)
{
    const uint64_t digits = ((b->hi - b->lo) >> b->shift) + 1;
    for (uint64_t d = 0; d < digits; d++)
        r->bound[r->bounds++] = b->lo + (d << b->shift);
    if (b->hi < most_key)
        r->bound[r->bounds++] = b->hi + 1;
}

/* Have the lines the same one bracket, as all have at first? */
static bool is_same(const rk_ranking *a, const rk_ranking *b)
{
    return a->brackets == 1 && b->brackets == 1 && a->bracket->lo == b->bracket->lo && a->bracket->hi == b->bracket->hi;
}

/* In order, and each once. */
static void sort_bounds(rk_joint_ranks *r)
{
    uint64_t *sorted = rk_sort_many(r->bound, r->other, r->bounds), n = 0;
    for (uint64_t i = 0; i < r->bounds; i++)
        if (!i || sorted[i] != sorted[i - 1])
            r->bound[n++] = sorted[i];
    r->bounds = n;
}

/* Brackets of lines that need a pass, as many lines as there is room for: one at least. */
static void choose_bounds(rk_joint_ranks *r)
{
    const rk_ranking *last = NULL;
    r->bounds = 0;
    for (ranked_line *l = r->line; l < r->line + r->lines; l++) {
        const rk_ranking *k = &l->ranking;
        const bool same = last && is_same(k, last);
        l->served = l->again && (same || r->most - r->bounds >= (uint64_t)k->brackets * BOUNDS);
        for (unsigned i = 0; l->served && !same && i < k->brackets; i++)
            add_bounds(r, &k->bracket[i], k->line.size == 1 ? UINT8_MAX : k->keys.most);
        last = l->served ? k : last;
    }
    sort_bounds(r);
}

/* ---- counts of a pass ---- */

/* Elements from bound i to the next one. */
static uint64_t count_of(const rk_joint_ranks *r, const uint64_t *cell, uint64_t i)
{
    return cell[i + 1 < r->bounds ? i : r->bounds - 1 + RP_ABOVE];
}

static void take_digits(const rk_joint_ranks *r, const uint64_t *cell, rk_bracket *b)
{
    uint64_t i = 0;
    while (i < r->bounds && r->bound[i] < b->lo)
        i++;
    for (; i < r->bounds && r->bound[i] <= b->hi; i++)
        b->bins[(r->bound[i] - b->lo) >> b->shift] += count_of(r, cell, i);
}

/* False: no memory. */
static bool take_counts(rk_joint_ranks *r, ranked_line *l, const uint64_t *cell)
{
    rk_ranking *k = &l->ranking;
    for (unsigned i = 0; i < k->brackets; i++)
        take_digits(r, cell, &k->bracket[i]);
    for (uint64_t i = 0; !k->passes && i < r->bounds - 1 + RP_APART; i++)
        k->all += cell[i];
    return rk_ranking_next(k, &l->again);
}

/* ---- the task ---- */

static void no_memory(rp_fault *f) { rp_fail(f, RP_NO_MEMORY, "memory", 0, "no memory to select elements"); }

/* The elements of a line are found. Returns whether it has a result; else the fault is set. */
static bool put_cell(rk_joint_ranks *r, uint64_t line)
{
    const rk_ranking *k = &r->line[line].ranking;
    const rp_spec *s = &r->t->spec;
    uint64_t bits[RK_MAX_RANKS];
    for (unsigned i = 0; i < k->ranks; i++)
        bits[i] = rk_key_bits(s->dtype, k->wanted[i].lo);
    const rp_err err = rk_order_cell(s, k->n, k->nans, bits, (uint8_t *)r->t->cells + line * rp_cell_size(s));
    if (err)
        rk_order_fault(&r->t->fault, s, line, err, k->n, bits);
    return err == RP_OK;
}

static void put_cells(rk_joint_ranks *r)
{
    const uint64_t saved = rk_fp_enter();
    for (uint64_t line = 0; line < r->lines && put_cell(r, line); line++)
        ;
    rk_fp_leave(saved);
}

static void pass_ended(rk_task *pass);

static void next_pass(rk_joint_ranks *r)
{
    rk_task *t = r->t;
    if (rk_task_late(t, &t->fault)) {
        r->done(t);
        return;
    }
    choose_bounds(r);
    r->pass.spec.n_edges = (uint32_t)r->bounds;
    r->count(r->arg, &r->pass, pass_ended);
}

static void note_pass(rk_task *t, const rk_task *pass)
{
    t->backend = pass->backend;
    t->route = pass->route;
    t->start_ns = t->start_ns ? t->start_ns : pass->start_ns;
    t->copy_ns += pass->copy_ns;
    t->compute_ns += pass->compute_ns;
}

/* Any thread. */
static void pass_ended(rk_task *pass)
{
    rk_joint_ranks *r = (rk_joint_ranks *)pass;
    rk_task *t = r->t;
    const size_t words = rp_cell_size(&pass->spec) / sizeof(uint64_t);
    const uint64_t since = rk_now_ns();
    bool again = false;
    note_pass(t, pass);
    t->fault = pass->fault;
    for (uint64_t i = 0; i < r->lines && t->fault.code == RP_OK; i++) {
        if (r->line[i].served && !take_counts(r, &r->line[i], r->cells + i * words))
            no_memory(&t->fault);
        again |= r->line[i].again;
    }
    if (!again && t->fault.code == RP_OK)
        put_cells(r);
    t->compute_ns += rk_now_ns() - since;
    if (again && t->fault.code == RP_OK)
        next_pass(r);
    else
        r->done(t);
}

/* ---- life ---- */

static rp_spec counting(const rp_spec *s)
{
    rp_spec c = *s;
    c.op = RP_OP_HISTOGRAM;
    c.out = RP_U64;
    c.nan = RP_NAN_OMIT;
    c.k = 0;
    c.edges = NULL;
    return c;
}

static bool open_line(rk_joint_ranks *r, ranked_line *l)
{
    rk_ranking_of(rk_simd_best(), &r->t->spec, &l->ranking);
    l->ranking.in_parts = l->again = true;
    return rk_ranking_open(&l->ranking);
}

rk_joint_ranks *rk_joint_ranks_new(rk_task *t)
{
    const uint64_t lines = rp_results(&t->spec), most = most_bounds(lines);
    rk_joint_ranks *r = calloc(1, sizeof *r + lines * sizeof r->line[0]);
    if (!r)
        return NULL;
    r->t = t;
    r->lines = lines;
    r->most = most;
    r->bound = malloc(2 * most * sizeof *r->bound);
    r->cells = malloc(lines * (most + RP_APART) * sizeof *r->cells);
    bool made = r->bound && r->cells;
    for (uint64_t i = 0; i < lines && made; i++)
        made = open_line(r, &r->line[i]);
    if (!made) {
        rk_joint_ranks_free(r);
        return NULL;
    }
    r->other = r->bound + most;
    r->pass = *t;
    r->pass.whole = t;
    r->pass.spec = counting(&t->spec);
    r->pass.bounds = r->bound;
    r->pass.cells = r->cells;
    return r;
}

void rk_joint_ranks_start(rk_joint_ranks *r, rk_joint_count *count, void *arg, void (*done)(rk_task *t))
{
    r->count = count;
    r->arg = arg;
    r->done = done;
    r->t->start_ns = r->t->copy_ns = r->t->compute_ns = 0;
    r->t->fault.code = RP_OK;
    next_pass(r);
}

void rk_joint_ranks_free(rk_joint_ranks *r)
{
    if (!r)
        return;
    for (uint64_t i = 0; i < r->lines; i++)
        rk_ranking_close(&r->line[i].ranking);
    free(r->bound);
    free(r->cells);
    free(r);
}
