/* Tasks whose elements come in parts. Rows come in order: whole ones are finished at once, and the state of a row that is cut
 * is kept until its end. Rows of columns come in any order: a part is added to a state of each column. Every thread that is
 * adding has a set of these states for itself, and the sets are joined at the end. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/engine/cut.h"
#include "kernels/engine/front.h"

typedef struct state_set {
    struct state_set *next;
    rk_state column[];
} state_set;

struct rk_feed {
    rk_task *t;
    rk_device *device;
    rk_reading *reading;
    rk_state row;         /* of the row that is cut */
    pthread_mutex_t lock; /* of `idle` */
    state_set *idle;      /* no thread is adding to these */
    uint64_t compute_ns;  /* atomic; the task's when it ends */
};

enum {
    MOST_COLUMNS = 4096, /* wider ones are worth several threads, */
    LONG_ROW = 16 << 10  /* bytes; shorter rows have cells that cost more than reading them (tuning/cpu-sums.md) */
};

/* Products take so long that several threads should share them. A task that only stores bytes has no dtype, whose size is 0. */
static bool fits(const rk_task *t)
{
    const rp_spec *s = &t->spec;
    const uint32_t plain = RP_STATES_OUT | RP_WRAP | RP_INITIAL | RP_COLUMNS;
    const bool columns = s->flags & RP_COLUMNS, long_rows = s->rows == 1 || s->row_len * rp_dtype_size(s->dtype) >= LONG_ROW,
               fit = rp_planes(s) == 1 && (columns ? s->row_len <= MOST_COLUMNS : long_rows);
    return !t->fill && !t->memory && !(s->flags & ~plain) && s->op != RP_OP_PROD && !rp_is_ranked(s->op) && fit;
}

bool rk_takes_parts(rk_engine *e, const rk_task *t) { return rk_fleet_of(e)->backend == RP_BACKEND_CPU && fits(t); }

/* Bytes a ns of all GPUs that are left; 0: not known of each. */
static double rate_of_gpus(const rk_fleet *v)
{
    double all = 0;
    for (unsigned i = 0; i < v->devices; i++) {
        const double rate = rk_inflight_rate(&v->device[i]->tasks);
        if (rate == 0 && !rk_device_is_lost(v->device[i]))
            return 0;
        all += rk_device_is_lost(v->device[i]) ? 0 : rate;
    }
    return all;
}

/* The device that counts it, if it is reduced in parts. NULL: it is not. */
static rk_device *device_of(rk_engine *e, const rk_fleet *v, const rk_task *t)
{
    if (!fits(t))
        return NULL;
    if (v->backend == RP_BACKEND_CPU)
        return rk_device_for(v, t);
    const bool reduces = v->helper && !t->spec.device && rk_reading_reduces(&e->reading, t, rate_of_gpus(v));
    return reduces ? v->helper : NULL;
}

rk_feed *rk_feed_open(rk_engine *e, rk_task *t)
{
    rk_device *d = device_of(e, rk_fleet_of(e), t);
    rk_feed *x = d ? malloc(sizeof *x) : NULL;
    if (!x)
        return NULL;
    x->t = t;
    x->reading = &e->reading;
    x->device = d;
    x->idle = NULL;
    x->compute_ns = 0;
    rk_state_init(&x->row, rp_spec_layout(&t->spec), rp_spec_state_dtype(&t->spec));
    pthread_mutex_init(&x->lock, NULL);
    t->device = (uint8_t)rk_device_number(x->device);
    rk_cpu_begin(t);
    t->route = rk_cpu_route(rk_simd_best(), t);
    return x;
}

/* ---- parts ---- */

static void note_fault(rk_task *t, uint64_t line, int code, const rk_state *s)
{
    if (code != RP_OK && t->fault.code == RP_OK)
        rk_row_fault(t, line, code, s);
}

/* The task of a piece whose first element is at `x`. */
static rk_task task_of(const rk_task *t, const rk_cut_piece *p, const uint8_t *x)
{
    rk_task piece = *t;
    piece.spec = p->spec;
    piece.data = x;
    piece.base += p->base;
    return piece;
}

static void add_whole(rk_task *t, const rk_cut_piece *p, const uint8_t *x)
{
    rk_task piece = task_of(t, p, x);
    uint64_t bad_row;
    rk_state bad_state;
    piece.cells = (uint8_t *)t->cells + p->line * rp_cell_size(&t->spec);
    const int code = rk_cpu_lines(rk_simd_best(), &piece, 0, rp_results(&p->spec), &bad_row, &bad_state);
    if (code != RP_OK)
        note_fault(t, p->line + bad_row, code, &bad_state);
}

static void add_to_row(rk_feed *f, const rk_cut_piece *p, const uint8_t *x)
{
    rk_task *t = f->t;
    rk_task piece = task_of(t, p, x);
    rk_state some;
    piece.spec.flags = t->spec.flags; /* without STATES_OUT any and all stop at an element that decides */
    rk_cpu_segment(rk_simd_best(), &piece, 0, 0, p->spec.row_len, &some);
    rk_state_merge(&f->row, &some);
    if (p->base + p->spec.row_len < t->spec.row_len)
        return;
    note_fault(t, p->line, rk_cpu_cell(t, p->line, &f->row), &f->row);
    rk_state_init(&f->row, f->row.layout, f->row.dtype);
}

static state_set *new_set(const rk_task *t)
{
    state_set *s = malloc(sizeof *s + (size_t)t->spec.row_len * sizeof s->column[0]);
    for (uint64_t c = 0; s && c < t->spec.row_len; c++)
        rk_state_init(&s->column[c], rp_spec_layout(&t->spec), rp_spec_state_dtype(&t->spec));
    return s;
}

/* Call with the lock held. */
static state_set *take_idle(rk_feed *f)
{
    state_set *s = f->idle;
    f->idle = s ? s->next : NULL;
    return s;
}

static void give_back(rk_feed *f, state_set *s)
{
    pthread_mutex_lock(&f->lock);
    s->next = f->idle;
    f->idle = s;
    pthread_mutex_unlock(&f->lock);
}

static bool add_to_columns(rk_feed *f, const rk_cut_piece *p, const uint8_t *x)
{
    const rk_task piece = task_of(f->t, p, x);
    pthread_mutex_lock(&f->lock);
    state_set *s = take_idle(f);
    pthread_mutex_unlock(&f->lock);
    if (!s)
        s = new_set(f->t);
    if (!s)
        return false;
    rk_cpu_join_columns(rk_simd_best(), &piece, 0, p->spec.row_len, 0, p->spec.rows, s->column + p->line);
    give_back(f, s);
    return true;
}

static bool add_piece(rk_feed *f, const rk_cut_piece *p, const uint8_t *x)
{
    if (!p->whole && f->t->spec.flags & RP_COLUMNS)
        return add_to_columns(f, p, x);
    if (p->whole)
        add_whole(f->t, p, x);
    else
        add_to_row(f, p, x);
    return true;
}

static void note_time(rk_feed *f, uint64_t start) { __atomic_fetch_add(&f->compute_ns, rk_now_ns() - start, __ATOMIC_RELAXED); }

bool rk_feed_add(rk_feed *f, const void *data, uint64_t from, uint64_t n, rp_fault *fault)
{
    const uint64_t start = rk_now_ns(), saved = rk_fp_enter();
    const size_t size = rp_dtype_size(f->t->spec.dtype);
    rk_cut_piece piece[RK_CUT_PIECES];
    const unsigned pieces = rk_cut_range(&f->t->spec, from, from + n, piece);
    bool added = true;
    for (unsigned i = 0; added && i < pieces; i++)
        added = add_piece(f, &piece[i], (const uint8_t *)data + (piece[i].from - from) * size);
    rk_fp_leave(saved);
    note_time(f, start);
    if (!added)
        rp_fail(fault, RP_NO_MEMORY, "columns", 0, "no memory for the states of columns");
    return added;
}

/* ---- the end ---- */

void rk_feed_join(rk_feed *f)
{
    const uint64_t start = rk_now_ns();
    for (;;) {
        pthread_mutex_lock(&f->lock);
        state_set *s = f->idle && f->idle->next ? take_idle(f) : NULL, *other = s ? take_idle(f) : NULL;
        pthread_mutex_unlock(&f->lock);
        if (!s)
            break;
        for (uint64_t c = 0; c < f->t->spec.row_len; c++)
            rk_state_merge(&s->column[c], &other->column[c]);
        free(other);
        give_back(f, s);
    }
    note_time(f, start);
}

static void finish_columns(rk_task *t, state_set *s)
{
    for (uint64_t c = 0; c < t->spec.row_len; c++)
        note_fault(t, c, rk_cpu_cell(t, c, &s->column[c]), &s->column[c]);
}

static void finish(rk_feed *f)
{
    const uint64_t start = rk_now_ns(), saved = rk_fp_enter();
    const rk_cut_piece all = {.spec = f->t->spec, .whole = true};
    if (rp_elements(&f->t->spec) == 0) /* so no part came */
        add_whole(f->t, &all, NULL);
    else if (f->idle)
        finish_columns(f->t, f->idle);
    rk_fp_leave(saved);
    note_time(f, start);
}

void rk_feed_end(rk_feed *f, bool complete)
{
    if (complete) {
        rk_feed_join(f);
        finish(f);
        f->t->compute_ns = f->compute_ns;
        rk_reading_note(f->reading, f->t, f->compute_ns);
        rk_inflight_past(&f->device->tasks, f->t, false);
    }
    for (state_set *s; (s = take_idle(f));)
        free(s);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
