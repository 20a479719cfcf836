/* The CPU backend: worker threads that cut tasks into pieces.
 *
 * A piece is a range of whole rows, which a worker finishes by itself, or a segment of one long row, whose state joins
 * the row's. States are exact, so neither the cut nor the order in which pieces end shows in the result. A task is
 * "open" while it has pieces; the worker that ends the last one finishes the task.
 *
 * A worker opens a queued task only when no open task has a piece left to hand out, and it holds one piece at a time.
 * So at most one open task per worker exists, and the table of jobs is allocated once.
 *
 * Everything here is under `lock` but the reducing itself and finishing a task. */
#include <cpuid.h>
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
    SEGMENTED_ROWS = 64,   /* tasks of more rows are cut between rows only */
    MAX_THREADS = 1024
};

typedef struct job {
    rk_task *t; /* NULL: this entry is free */
    uint64_t pieces, next, left;
    uint64_t rows_each;    /* rows of a piece; 0 if rows are cut into segments */
    uint64_t segment;      /* elements of a segment, and segments of a row */
    uint64_t row_segments;
    uint64_t bad_row;      /* first row without a result so far, RP_NO_INDEX if none */
    int bad_code;
    rk_state bad_state;
    rk_state rows[SEGMENTED_ROWS];
} job;

typedef struct pool {
    rk_engine *e;
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

static uint64_t piece_bytes(const pool *p, uint64_t bytes)
{
    uint64_t size = bytes / ((uint64_t)p->threads * PIECES_PER_THREAD);
    return size < PIECE_MIN ? PIECE_MIN : size > PIECE_MAX ? PIECE_MAX : size;
}

static void cut(const pool *p, job *j, rk_task *t)
{
    const rp_spec *s = &t->spec;
    uint64_t size = piece_bytes(p, t->bytes), results = rp_results(s), row_bytes = t->bytes / at_least_1(results);
    j->t = t;
    j->next = 0;
    j->bad_row = RP_NO_INDEX;
    j->rows_each = 0;
    if (row_bytes < 2 * size || results > SEGMENTED_ROWS || (s->flags & (RP_OFFSETS | RP_COLUMNS))) {
        /* empty rows still cost a cell each */
        j->rows_each = at_least_1(size / (row_bytes + rp_cell_size(s)));
        j->pieces = at_least_1((results + j->rows_each - 1) / j->rows_each);
    } else {
        j->segment = size / rp_dtype_size(s->dtype);
        j->row_segments = (s->row_len + j->segment - 1) / j->segment;
        j->pieces = s->rows * j->row_segments;
        for (uint64_t row = 0; row < s->rows; row++)
            rk_state_init(&j->rows[row], rp_state_layout(s->op, s->dtype), s->dtype);
    }
    j->left = j->pieces;
}

/* ---- pieces ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void note_bad(job *j, uint64_t row, int code, const rk_state *s)
{
    if (row >= j->bad_row)
        return;
    j->bad_row = row;
    j->bad_code = code;
    j->bad_state = *s;
}

static void run_rows(pool *p, job *j, uint64_t piece)
{
    uint64_t first = piece * j->rows_each, bad_row = 0;
    rk_state bad_state;
    int code = rk_cpu_rows(p->simd, j->t, first, least(j->rows_each, rp_results(&j->t->spec) - first), &bad_row, &bad_state);
    pthread_mutex_lock(&p->lock);
    if (code != RP_OK)
        note_bad(j, bad_row, code, &bad_state);
}

static void run_segment(pool *p, job *j, uint64_t piece)
{
    uint64_t row = piece / j->row_segments, from = piece % j->row_segments * j->segment;
    rk_state s;
    rk_cpu_segment(p->simd, j->t, row, from, least(j->segment, j->t->spec.row_len - from), &s);
    pthread_mutex_lock(&p->lock);
    rk_state_merge(&j->rows[row], &s);
}

static void finish_rows(job *j)
{
    for (uint64_t row = 0; row < j->t->spec.rows; row++) {
        int code = rk_cpu_cell(j->t, row, &j->rows[row]);
        if (code != RP_OK)
            note_bad(j, row, code, &j->rows[row]);
    }
}

/* Enters without the lock, returns with it. */
static void finish(pool *p, job *j)
{
    rk_task *t = j->t;
    if (!j->rows_each)
        finish_rows(j);
    if (j->bad_row != RP_NO_INDEX)
        rk_row_fault(t, j->bad_row, j->bad_code, &j->bad_state);
    t->compute_ns = rk_now_ns() - t->start_ns;
    rk_complete(p->e, t);
    pthread_mutex_lock(&p->lock);
    j->t = NULL;
}

/* Enters and returns with the lock. */
static void run_piece(pool *p, job *j)
{
    uint64_t piece = j->next++, start = rk_now_ns();
    pthread_mutex_unlock(&p->lock);
    if (j->rows_each)
        run_rows(p, j, piece);
    else
        run_segment(p, j, piece);
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
    rk_complete(p->e, t);
    pthread_mutex_lock(&p->lock);
    p->busy_ns += ns;
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

static void cpu_close(void *impl)
{
    pool *p = impl;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->thread[i], NULL);
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

static rp_err cpu_open(rk_engine *e, const rk_options *o, void **impl, char *why, size_t why_cap)
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
    *p = (pool){.e = e, .simd = rk_simd_best(), .threads = threads, .thread = thread, .jobs = jobs};
    p->queue_end = &p->queue;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    start_workers(p);
    if (p->started < threads) {
        snprintf(why, why_cap, "only %d of %d threads could be started", p->started, threads);
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

/* The processor's own name, from CPUID; "x86-64" where it has none. */
static void cpu_name(char *out, size_t cap)
{
    unsigned words[12] = {0};
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        unsigned *w = words + 4 * leaf;
        if (!__get_cpuid(0x80000002u + leaf, &w[0], &w[1], &w[2], &w[3]))
            break;
    }
    char name[sizeof words + 1] = {0};
    memcpy(name, words, sizeof words);
    const char *start = name + strspn(name, " ");
    snprintf(out, cap, "%s", *start ? start : "x86-64");
}

static void cpu_stats(void *impl, rk_stats *s)
{
    pool *p = impl;
    cpu_name(s->device, sizeof s->device);
    snprintf(s->simd, sizeof s->simd, "%s", p->simd->name);
    s->threads = p->threads;
    s->slots = (uint64_t)p->threads;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->threads; i++)
        s->slots_busy += p->jobs[i].t != NULL;
    s->busy_ns = p->busy_ns;
    pthread_mutex_unlock(&p->lock);
}

const rk_backend_ops rk_cpu_backend = {.open = cpu_open, .submit = cpu_submit, .close = cpu_close, .stats = cpu_stats};
