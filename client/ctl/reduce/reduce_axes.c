/* A result for each position along the kept axes, of an array with any axes in any order. The reduced axes may not be
 * neighbours in memory. Then the first of them is reduced to partial states, which are reordered and merged along the others.
 * States are exact, so each result is rounded once. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/reduce/planes.h"

enum { REPLY = 4 << 20 }; /* bytes of results of a plane that a reply can hold, for data that the daemon has */

typedef struct job {
    ctl_work *w;
    const ctl_axes *a;
    int first;           /* the axis that is reduced first */
    uint64_t lines;      /* results */
    uint64_t inner;      /* states of each */
    size_t cell, state;  /* bytes of a result, of a partial state */
    uint8_t *cells;      /* the results */
    uint8_t *before, *s; /* states in the order of memory, and reordered */
    reduce_result sum;
} job;

static uint64_t product(const ctl_axes *a, int from, int to)
{
    uint64_t n = 1;
    for (int i = from; i < to; i++)
        n *= a->len[i];
    return n;
}

/* ---- the order of states and results ---- */

/* Copy what is along all axes but the first reduced one, kept ones outermost, to C order. */
static void order(const job *x, uint8_t *to, const uint8_t *from, size_t element)
{
    const ctl_axes *a = x->a;
    uint64_t len[CTL_MAX_DIMS], stride[CTL_MAX_DIMS], all[CTL_MAX_DIMS], at = 1;
    int n = 0;
    for (int i = a->n - 1; i >= 0; i--) {
        all[i] = at;
        at *= i == x->first ? 1 : a->len[i];
    }
    for (int k = 0; k < a->n; k++) {
        const int i = a->turned ? a->n - 1 - k : k;
        if (!a->reduced[i])
            len[n] = a->len[i], stride[n++] = all[i];
    }
    for (int i = 0; i < a->n; i++)
        if (a->reduced[i] && i != x->first)
            len[n] = a->len[i], stride[n++] = all[i];
    ctl_permute(to, from, element, n, len, stride);
}

/* How far the elements of the i-th state of a result are from its first one, as indexes count them. */
static uint64_t place_of(const job *x, uint64_t i)
{
    uint64_t place = 0;
    for (int k = x->a->n - 1; k >= 0; k--)
        if (x->a->reduced[k] && k != x->first) {
            place += i % x->a->len[k] * x->a->place[k];
            i /= x->a->len[k];
        }
    return place;
}

static void move_index(const job *x, uint8_t *word, uint64_t place)
{
    uint64_t index;
    memcpy(&index, word, sizeof index);
    if (index == REDUCE_NO_INDEX)
        return;
    index = index * x->a->place[x->first] + place + x->w->spec.index_base;
    memcpy(word, &index, sizeof index);
}

static bool has_indexes(const reduce_spec *s)
{
    return s->op == REDUCE_ARGMIN || s->op == REDUCE_ARGMAX || s->op == REDUCE_STATS;
}

/* Indexes along the first axis become indexes within the result: they are in the last words of a state (PROTOCOL.md). */
static void move_indexes(const job *x)
{
    const bool stats = x->w->spec.op == REDUCE_STATS;
    for (uint64_t i = 0; i < x->lines * x->inner; i++) {
        uint8_t *end = x->s + (i + 1) * x->state;
        const uint64_t place = place_of(x, i % x->inner);
        move_index(x, end - (stats ? 5 : 1) * sizeof place, place);
        if (stats)
            move_index(x, end - 3 * sizeof place, place);
    }
}

/* ---- steps ---- */

static int no_memory(const job *x, char why[CTL_WHY])
{
    snprintf(why, CTL_WHY, "no memory for %" PRIu64 " results", x->lines * x->inner);
    return REDUCE_E_NO_MEMORY;
}

static int run_planes(job *x, const reduce_spec *spec, uint8_t *out, size_t cell, char why[CTL_WHY])
{
    ctl_planes p = {.w = x->w, .spec = *spec, .cells = out, .cell = cell, .sum = REDUCE_RESULT_INIT};
    p.planes = product(x->a, 0, x->first);
    p.rows = x->a->len[x->first];
    p.columns = product(x->a, x->first + 1, x->a->n);
    int err = ctl_planes_run(&p, why);
    x->sum = p.sum;
    return err;
}

/* The results themselves, which may still have to be put in order. */
static int run_one(job *x, char why[CTL_WHY])
{
    int err = run_planes(x, &x->w->spec, x->cells, x->cell, why);
    if (err || !x->a->turned)
        return err;
    uint8_t *turned = malloc((size_t)x->lines * x->cell);
    if (!turned)
        return no_memory(x, why);
    order(x, turned, x->cells, x->cell);
    free(x->cells);
    x->cells = turned;
    return 0;
}

static int merge(job *x)
{
    reduce_result r = REDUCE_RESULT_INIT;
    reduce_spec spec = x->w->spec;
    spec.rows = x->lines;
    spec.flags |= REDUCE_STATES_IN;
    size_t bytes = (size_t)(x->lines * x->inner) * x->state;
    int err = ctl_run(x->w->c, &spec, x->s, bytes, x->cells, (size_t)x->lines * x->cell, &r);
    r.count = r.cells = 0; /* states are not elements */
    ctl_add_result(&x->sum, &r);
    return err;
}

static int run_several(job *x, char why[CTL_WHY])
{
    reduce_spec partial = x->w->spec;
    partial.initial = NULL; /* goes in at the end */
    partial.index_base = 0;
    partial.flags |= REDUCE_STATES_OUT;
    x->before = malloc((size_t)(x->lines * x->inner) * x->state);
    x->s = malloc((size_t)(x->lines * x->inner) * x->state);
    if (!x->before || !x->s)
        return no_memory(x, why);
    int err = run_planes(x, &partial, x->before, x->state, why);
    if (err)
        return err;
    order(x, x->s, x->before, x->state);
    if (has_indexes(&partial))
        move_indexes(x);
    return merge(x);
}

/* ---- all of it ---- */

/* For data that the daemon has: does a reply hold the results of a plane, if axis i is reduced? */
static bool is_given(const job *x, int i) { return !x->w->in[0].resident || product(x->a, i + 1, x->a->n) <= REPLY / x->state; }

/* The longest: it leaves the fewest states. */
static int choose_first(const job *x)
{
    const ctl_axes *a = x->a;
    int best = -1;
    for (int i = 0; i < a->n; i++)
        if (a->reduced[i] && (best < 0 || is_given(x, i) > is_given(x, best) ||
                              (is_given(x, i) == is_given(x, best) && a->len[i] > a->len[best])))
            best = i;
    return best;
}

/* The number of the result that is the i-th to come. */
static uint64_t number_of(const job *x, uint64_t i)
{
    uint64_t number = 0, coordinate[CTL_MAX_DIMS] = {0};
    for (int k = x->a->n - 1; k >= 0; k--)
        if (!x->a->reduced[k]) {
            coordinate[k] = i % x->a->len[k];
            i /= x->a->len[k];
        }
    for (int k = x->a->n - 1; k >= 0; k--)
        if (!x->a->reduced[k])
            number = number * x->a->len[k] + coordinate[k];
    return number;
}

/* Translate an error's result number to its place in the reordered results. */
static uint64_t misplaced_by(const job *x)
{
    reduce_fault f = REDUCE_FAULT_INIT;
    reduce_last_fault(&f);
    return x->a->turned && x->inner == 1 && f.index < x->lines ? number_of(x, f.index) - f.index : 0;
}

int ctl_reduce_axes(ctl_work *w, const ctl_shape *s)
{
    char why[CTL_WHY] = "";
    ctl_where where = {.name = w->name, .unit = s->unit, .expected = w->expected};
    job x = {.w = w, .a = &s->axes, .lines = s->lines, .sum = REDUCE_RESULT_INIT};
    if (reduce_result_size(&w->spec, 0, &x.cell))
        return ctl_print_error(w->o, &where, 0, NULL);
    x.state = reduce_state_size(w->spec.op, w->spec.dtype);
    x.first = choose_first(&x);
    x.inner = s->len / x.a->len[x.first];
    x.cells = malloc((size_t)s->lines * x.cell);
    ctl_progress_start(&w->progress, w->name, w->in[0].bytes, true, w->o->progress);
    int err = !x.cells ? no_memory(&x, why) : x.inner == 1 ? run_one(&x, why) : run_several(&x, why);
    ctl_progress_end(&w->progress);
    if (!err) {
        x.sum.cells = s->lines;
        x.sum.cell_size = x.cell;
        ctl_print_cells(w->o, &where, &x.sum, x.cells);
    }
    free(x.cells);
    free(x.before);
    free(x.s);
    if (err) {
        where.first = why[0] ? 0 : misplaced_by(&x);
        return ctl_print_error(w->o, &where, err, why[0] ? why : NULL);
    }
    if (w->o->verbose)
        ctl_print_details(&w->in[0], &x.sum, &w->expected);
    return CTL_OK;
}
