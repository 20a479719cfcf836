/* The CPU backend: worker threads that run tasks in pieces (pieces.h).
 *
 * A task is "open" while it has pieces; the worker that ends the last one finishes the task. A worker opens a queued task only
 * when no open task has a piece left to hand out, and it holds one piece at a time.
 * So at most one open task per worker exists, and the table of jobs is allocated once.
 *
 * Everything here runs under `lock`, except the reduction itself and finishing a task. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cpu/threads/pieces.h"

enum { MAX_THREADS = 1024 };

typedef struct pool {
    rk_inflight *tasks;
    const rk_simd *simd;
    int threads, started;
    int cut_for;
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    bool closing;
    rk_task *queue, **queue_end;
    rk_pieces *jobs; /* `threads` of them */
    uint64_t busy_ns;
} pool;

/* ---- pieces ---- */

/* Call without the lock; returns with it held. */
static void finish(pool *p, rk_pieces *j)
{
    rk_task *t = j->t;
    rk_finish_pieces(j);
    rk_complete(p->tasks, t);
    pthread_mutex_lock(&p->lock);
    j->t = NULL;
}

/* Call with the lock held; returns with it. */
static void run_piece(pool *p, rk_pieces *j)
{
    uint64_t start = rk_now_ns();
    rk_progress progress = rk_run_piece(j);
    p->busy_ns += rk_now_ns() - start;
    if (progress == RK_PIECES_AGAIN)
        pthread_cond_broadcast(&p->work);
    if (progress != RK_PIECES_ENDED)
        return;
    pthread_mutex_unlock(&p->lock);
    finish(p, j);
}

/* One worker checks and merges states from outside: such a task has a few MiB at most.
 * Call with the lock held; returns with it. */
static void run_states(pool *p, rk_task *t)
{
    pthread_mutex_unlock(&p->lock);
    rk_cpu_run(t);
    uint64_t ns = t->compute_ns;
    rk_complete(p->tasks, t);
    pthread_mutex_lock(&p->lock);
    p->busy_ns += ns;
}

/* Call with the lock held; returns with it. */
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

static rk_pieces *job_with_piece(pool *p)
{
    for (int i = 0; i < p->threads; i++)
        if (p->jobs[i].t && p->jobs[i].next < p->jobs[i].pieces)
            return &p->jobs[i];
    return NULL;
}

static rk_pieces *free_job(pool *p)
{
    rk_pieces *j = p->jobs;
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
    rk_cpu_begin(t);
    if (t->fill) {
        run_fill(p, t);
        return;
    }
    if (t->spec.flags & RP_STATES_IN) {
        run_states(p, t);
        return;
    }
    rk_pieces *j = free_job(p);
    rk_cut(j, t, p->cut_for, p->simd, &p->lock);
    if (j->pieces > 1)
        pthread_cond_broadcast(&p->work);
    run_piece(p, j);
}

static void *worker(void *arg)
{
    pool *p = arg;
    rk_fp_enter(); /* set until this thread ends */
    pthread_mutex_lock(&p->lock);
    for (;;) {
        rk_pieces *j = job_with_piece(p);
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

static rp_err cpu_open(rk_inflight *tasks, const rk_options *o, int ordinal, void **impl, char *why, size_t why_cap)
{
    (void)ordinal;
    int threads = o->threads > 0 ? o->threads : rk_cpu_cores();
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    pool *p = calloc(1, sizeof *p);
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    rk_pieces *jobs = calloc((size_t)threads, sizeof *jobs);
    if (!p || !thread || !jobs) {
        free(p);
        free(thread);
        free(jobs);
        snprintf(why, why_cap, "out of memory for %d threads", threads);
        return RP_NO_MEMORY;
    }
    *p = (pool){.tasks = tasks, .simd = rk_simd_best(), .threads = threads, .thread = thread, .jobs = jobs};
    p->cut_for = o->cut_for > 0 ? o->cut_for : threads;
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

static bool cpu_selects(const rk_task *t)
{
    (void)t;
    return true;
}

/* ---- resident memory ---- */

static rp_err cpu_memory_new(void *impl, rk_memory *m, rp_fault *f)
{
    (void)impl;
    m->base = calloc(1, m->bytes ? m->bytes : 1);
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

const rk_backend_ops rk_cpu_backend = {.open = cpu_open,
                                       .submit = cpu_submit,
                                       .selects = cpu_selects,
                                       .stop = cpu_stop,
                                       .close = cpu_close,
                                       .stats = cpu_stats,
                                       .memory_new = cpu_memory_new,
                                       .memory_close = cpu_memory_close,
                                       .memory_total = cpu_memory_total};
