/* The CPU backend: worker threads that cut tasks into pieces.
 *
 * Rows and segments lie one behind the other on a scale: each takes LINE_BYTES for its cell and then its elements. A piece is
 * an equal share of the scale, so neither one long segment nor many empty ones keep one worker busy while others wait. Lines
 * that end in the piece where they begin are finished by its worker. Each boundary between pieces cuts one line at most:
 * that line's state gathers in the slot of the piece where it begins, and is finished with the task.
 *
 * Of columns a piece has some, whole: of small planes whole planes. Of few long columns it has some rows of all, and each
 * column a slot; rows go through all planes.
 *
 * States are exact, so neither the cut nor the order in which pieces end shows in the result. A task is "open" while it has
 * pieces; the worker that ends the last one finishes the task.
 *
 * A worker opens a queued task only when no open task has a piece left to hand out, and it holds one piece at a time.
 * So at most one open task per worker exists, and the table of jobs is allocated once.
 *
 * Everything here is under `lock` but the reducing itself and finishing a task. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"

enum {
    PIECE_MIN = 128 << 10, /* bytes: some 10 us of work, against 1 us for handing a piece out */
    PIECE_MAX = 4 << 20,   /* bytes: more saves nothing, and closing waits for whole pieces */
    PIECES_PER_THREAD = 4, /* evens out workers that were held up */
    MAX_PIECES = 256,      /* of lines: each may need a slot */
    FEW_COLUMNS = 64,      /* each needs a slot */
    LINE_BYTES = 512,      /* a cell costs about as much as this many bytes of elements */
    MAX_THREADS = 1024
};

typedef enum { LINES, COLUMNS, ROWS_OF_COLUMNS } cutting;

typedef struct job {
    rk_task *t; /* NULL: this entry is free */
    cutting how;
    uint64_t pieces, next, left;
    uint64_t each;    /* units of a piece: elements on the scale of lines, columns of all planes, or their rows */
    uint64_t units;   /* in all */
    uint64_t weight;  /* LINES: units before the elements of a line */
    uint64_t bad_row; /* first line without a result so far, RP_NO_INDEX if none */
    int bad_code;
    rk_state bad_state;
    uint64_t line[MAX_PIECES]; /* whose state is in the slot, RP_NO_INDEX: none */
    rk_state slot[MAX_PIECES];
} job;

typedef struct pool {
    rk_inflight *tasks;
    const rk_simd *simd;
    int threads, started;
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    bool closing;
    rk_task *queue, **queue_end;
    job *jobs; /* `threads` of them */
    uint64_t busy_ns;
} pool;

/* ---- cutting ---- */

static uint64_t at_least_1(uint64_t v) { return v ? v : 1; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t round_up(uint64_t v, uint64_t by) { return (v + by - 1) / by * by; }

static uint64_t piece_bytes(const pool *p, uint64_t bytes)
{
    uint64_t size = bytes / ((uint64_t)p->threads * PIECES_PER_THREAD);
    return size < PIECE_MIN ? PIECE_MIN : size > PIECE_MAX ? PIECE_MAX : size;
}

/* Where a line begins on the scale; that of the line behind the last is its end. */
static uint64_t line_start(const job *j, const rp_parts *p, uint64_t line)
{
    const rp_spec *s = &j->t->spec;
    uint64_t elements = s->flags & RP_OFFSETS ? rk_offset(p->offsets, line) - rk_offset(p->offsets, 0) : line * s->row_len;
    return elements + line * j->weight;
}

static void cut_lines(job *j, uint64_t bytes, size_t size)
{
    rp_parts p = rp_spec_parts(&j->t->spec, j->t->data);
    j->how = LINES;
    j->weight = LINE_BYTES / size;
    j->units = line_start(j, &p, j->t->spec.rows);
    j->each = bytes / size;
    if (j->units / MAX_PIECES >= j->each)
        j->each = j->units / MAX_PIECES + 1;
}

/* Whole tiles, or whole planes, of columns, where each ends what is read from memory together. */
static uint64_t whole_columns(const rp_spec *s, uint64_t columns)
{
    const uint64_t tile = least(rk_cpu_tile(s), at_least_1(s->row_len));
    return round_up(columns, columns < s->row_len ? tile : at_least_1(s->row_len));
}

static void cut_columns(job *j, uint64_t bytes, size_t size)
{
    const rp_spec *s = &j->t->spec;
    uint64_t row_bytes = s->row_len * size, column_bytes = s->rows * size + LINE_BYTES, columns = rp_results(s);
    if (columns <= FEW_COLUMNS && rp_elements(s) * size >= 2 * bytes) {
        j->how = ROWS_OF_COLUMNS;
        j->units = rp_planes(s) * s->rows;
        j->each = at_least_1(bytes / at_least_1(row_bytes));
    } else {
        j->how = COLUMNS;
        j->units = columns;
        j->each = whole_columns(s, at_least_1(bytes / column_bytes));
    }
}

static void cut(const pool *p, job *j, rk_task *t)
{
    size_t size = rp_dtype_size(t->spec.dtype);
    uint64_t bytes = piece_bytes(p, t->bytes + rp_results(&t->spec) * LINE_BYTES);
    j->t = t;
    j->next = 0;
    j->bad_row = RP_NO_INDEX;
    if (t->spec.flags & RP_COLUMNS)
        cut_columns(j, bytes, size);
    else
        cut_lines(j, bytes, size);
    j->pieces = j->left = at_least_1((j->units + j->each - 1) / j->each);
    for (int i = 0; i < MAX_PIECES; i++)
        j->line[i] = RP_NO_INDEX;
}

/* ---- pieces: they enter without the lock and return with it ---- */

static void note_bad(job *j, uint64_t row, int code, const rk_state *s)
{
    if (row >= j->bad_row)
        return;
    j->bad_row = row;
    j->bad_code = code;
    j->bad_state = *s;
}

/* With the lock. */
static void join_slot(job *j, uint64_t i, uint64_t line, const rk_state *s)
{
    if (j->line[i] == RP_NO_INDEX)
        j->slot[i] = *s;
    else
        rk_state_merge(&j->slot[i], s);
    j->line[i] = line;
}

/* The part of a line that lies in [from, to) of the scale. */
static void run_part(pool *p, job *j, uint64_t line, uint64_t start, uint64_t from, uint64_t to)
{
    uint64_t elements = start + j->weight, first = from > elements ? from - elements : 0;
    rk_state s;
    rk_cpu_segment(p->simd, j->t, line, first, to > elements + first ? to - elements - first : 0, &s);
    pthread_mutex_lock(&p->lock);
    join_slot(j, start / j->each, line, &s);
    pthread_mutex_unlock(&p->lock);
}

static void run_whole(pool *p, job *j, uint64_t first, uint64_t lines)
{
    uint64_t bad_row = 0;
    rk_state bad_state;
    int code = rk_cpu_lines(p->simd, j->t, first, lines, &bad_row, &bad_state);
    pthread_mutex_lock(&p->lock);
    if (code != RP_OK)
        note_bad(j, bad_row, code, &bad_state);
}

/* The first line in [low, rows] that begins at `unit` or behind. */
static uint64_t line_from(const job *j, const rp_parts *p, uint64_t unit)
{
    uint64_t low = 0, high = j->t->spec.rows;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (line_start(j, p, middle) < unit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void run_lines(pool *p, job *j, uint64_t from, uint64_t to)
{
    rp_parts parts = rp_spec_parts(&j->t->spec, j->t->data);
    uint64_t first = line_from(j, &parts, from), end = line_from(j, &parts, to);
    uint64_t begin = line_start(j, &parts, first), last = end > first ? line_start(j, &parts, end - 1) : 0;
    if (begin > from) /* a line from a piece before reaches in here */
        run_part(p, j, first - 1, line_start(j, &parts, first - 1), from, least(begin, to));
    if (end > first && line_start(j, &parts, end) > to) { /* one that begins here reaches out */
        run_part(p, j, end - 1, last, last, to);
        end--;
    }
    run_whole(p, j, first, end > first ? end - first : 0);
}

/* Rows [from, to) of all planes. */
static void run_columns(pool *p, job *j, uint64_t from, uint64_t to)
{
    const rp_spec *s = &j->t->spec;
    uint64_t first = from / s->rows * s->row_len, columns = ((to - 1) / s->rows + 1) * s->row_len - first;
    rk_state states[FEW_COLUMNS];
    for (uint64_t row = from, n, c = 0; row < to; row += n, c += s->row_len) {
        n = least(s->rows - row % s->rows, to - row);
        rk_cpu_columns(p->simd, j->t, first + c, s->row_len, row % s->rows, n, states + c);
    }
    pthread_mutex_lock(&p->lock);
    for (uint64_t c = 0; c < columns; c++)
        join_slot(j, first + c, first + c, &states[c]);
}

/* Lines in slots are whole now. */
static void finish_slots(job *j)
{
    for (int i = 0; i < MAX_PIECES; i++) {
        if (j->line[i] == RP_NO_INDEX)
            continue;
        int code = rk_cpu_cell(j->t, j->line[i], &j->slot[i]);
        if (code != RP_OK)
            note_bad(j, j->line[i], code, &j->slot[i]);
    }
}

/* Enters without the lock, returns with it. */
static void finish(pool *p, job *j)
{
    rk_task *t = j->t;
    finish_slots(j);
    if (j->bad_row != RP_NO_INDEX)
        rk_row_fault(t, j->bad_row, j->bad_code, &j->bad_state);
    t->compute_ns = rk_now_ns() - t->start_ns;
    rk_complete(p->tasks, t);
    pthread_mutex_lock(&p->lock);
    j->t = NULL;
}

/* Enters and returns with the lock. */
static void run_piece(pool *p, job *j)
{
    uint64_t from = j->next++ * j->each, to = least(from + j->each, j->units), start = rk_now_ns();
    pthread_mutex_unlock(&p->lock);
    if (j->how == LINES)
        run_lines(p, j, from, to);
    else if (j->how == COLUMNS)
        run_whole(p, j, from, to - from);
    else
        run_columns(p, j, from, to);
    p->busy_ns += rk_now_ns() - start;
    if (--j->left)
        return;
    pthread_mutex_unlock(&p->lock);
    finish(p, j);
}

/* States from outside are checked and merged by one worker: a task of them is a few MiB at most.
 * Enters and returns with the lock. */
static void run_states(pool *p, rk_task *t)
{
    pthread_mutex_unlock(&p->lock);
    rk_cpu_run(t);
    uint64_t ns = t->compute_ns;
    rk_complete(p->tasks, t);
    pthread_mutex_lock(&p->lock);
    p->busy_ns += ns;
}

/* Enters and returns with the lock. */
static void run_fill(pool *p, rk_task *t)
{
    pthread_mutex_unlock(&p->lock);
    memcpy((uint8_t *)t->memory->base + t->offset, t->data, t->bytes);
    t->copy_ns = rk_now_ns() - t->start_ns;
    t->compute_ns = 0;
    rk_complete(p->tasks, t);
    pthread_mutex_lock(&p->lock);
}

/* ---- workers ---- */

static job *job_with_piece(pool *p)
{
    for (int i = 0; i < p->threads; i++)
        if (p->jobs[i].t && p->jobs[i].next < p->jobs[i].pieces)
            return &p->jobs[i];
    return NULL;
}

static job *free_job(pool *p)
{
    job *j = p->jobs;
    while (j->t)
        j++;
    return j;
}

static rk_task *dequeue(pool *p)
{
    rk_task *t = p->queue;
    p->queue = t->next;
    if (!p->queue)
        p->queue_end = &p->queue;
    t->next = NULL;
    return t;
}

static void open_task(pool *p)
{
    rk_task *t = dequeue(p);
    t->start_ns = rk_now_ns();
    t->copy_ns = 0;
    t->backend = RP_BACKEND_CPU;
    t->fault.code = RP_OK;
    if (t->fill) {
        run_fill(p, t);
        return;
    }
    if (t->spec.flags & RP_STATES_IN) {
        run_states(p, t);
        return;
    }
    job *j = free_job(p);
    cut(p, j, t);
    if (j->pieces > 1)
        pthread_cond_broadcast(&p->work);
    run_piece(p, j);
}

static void *worker(void *arg)
{
    pool *p = arg;
    rk_fp_enter(); /* for the life of this thread */
    pthread_mutex_lock(&p->lock);
    for (;;) {
        job *j = job_with_piece(p);
        if (j)
            run_piece(p, j);
        else if (p->closing)
            break;
        else if (p->queue)
            open_task(p);
        else
            pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- the backend ---- */

static void cpu_stop(void *impl)
{
    pool *p = impl;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->thread[i], NULL);
}

static void cpu_close(void *impl)
{
    pool *p = impl;
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->thread);
    free(p->jobs);
    free(p);
}

static int available_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return (int)sysconf(_SC_NPROCESSORS_ONLN); /* more processors than the set can hold */
    return CPU_COUNT(&set);
}

/* Workers take no signals: those belong to the program's own threads. */
static void start_workers(pool *p)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (p->started < p->threads && pthread_create(&p->thread[p->started], NULL, worker, p) == 0)
        p->started++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static rp_err cpu_open(rk_inflight *tasks, const rk_options *o, void **impl, char *why, size_t why_cap)
{
    int threads = o->threads > 0 ? o->threads : available_cores();
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    pool *p = calloc(1, sizeof *p);
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    job *jobs = calloc((size_t)threads, sizeof *jobs);
    if (!p || !thread || !jobs) {
        free(p);
        free(thread);
        free(jobs);
        snprintf(why, why_cap, "out of memory for %d threads", threads);
        return RP_NO_MEMORY;
    }
    *p = (pool){.tasks = tasks, .simd = rk_simd_best(), .threads = threads, .thread = thread, .jobs = jobs};
    p->queue_end = &p->queue;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    start_workers(p);
    if (p->started < threads) {
        snprintf(why, why_cap, "only %d of %d threads could be started", p->started, threads);
        cpu_stop(p);
        cpu_close(p);
        return RP_NO_MEMORY;
    }
    snprintf(why, why_cap, "cpu: %s, %d threads", p->simd->name, threads);
    *impl = p;
    return RP_OK;
}

static void cpu_submit(void *impl, rk_task *t)
{
    pool *p = impl;
    pthread_mutex_lock(&p->lock);
    *p->queue_end = t;
    p->queue_end = &t->next;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

static void cpu_stats(void *impl, rk_stats *s)
{
    pool *p = impl;
    rk_cpu_name(s->device, sizeof s->device);
    snprintf(s->simd, sizeof s->simd, "%s", p->simd->name);
    s->threads = p->threads;
    s->slots = (uint64_t)p->threads;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->threads; i++)
        s->slots_busy += p->jobs[i].t != NULL;
    s->busy_ns = p->busy_ns;
    pthread_mutex_unlock(&p->lock);
}

/* ---- resident memory ---- */

static rp_err cpu_memory_new(void *impl, rk_memory *m, rp_fault *f)
{
    (void)impl;
    m->base = calloc(1, at_least_1(m->bytes));
    return m->base ? RP_OK : rp_fail(f, RP_NO_MEMORY, "memory", 0, "no memory of %zu bytes", m->bytes);
}

static void cpu_memory_close(void *impl, rk_memory *m)
{
    (void)impl;
    free(m->base);
}

static uint64_t cpu_memory_total(void *impl)
{
    (void)impl;
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- batches: their thread takes one task after the other ---- */

static bool cpu_batch_fits(const rk_task *t)
{
    (void)t;
    return true;
}

static void cpu_batch_launch(void *impl, unsigned flight, rk_task *tasks)
{
    (void)impl;
    (void)flight;
    (void)tasks;
}

static bool cpu_batch_landed(void *impl, unsigned flight, rk_task *tasks, bool closely)
{
    (void)impl;
    (void)flight;
    (void)closely;
    for (rk_task *t = tasks; t; t = t->next)
        rk_cpu_run(t);
    return true;
}

static const rk_batch_ops cpu_batch = {cpu_batch_fits, cpu_batch_launch, cpu_batch_landed, .flights = 1};

const rk_backend_ops rk_cpu_backend = {.open = cpu_open,
                                       .submit = cpu_submit,
                                       .stop = cpu_stop,
                                       .close = cpu_close,
                                       .stats = cpu_stats,
                                       .memory_new = cpu_memory_new,
                                       .memory_close = cpu_memory_close,
                                       .memory_total = cpu_memory_total,
                                       .batch = &cpu_batch};
