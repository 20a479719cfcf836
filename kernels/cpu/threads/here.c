#include "kernels/cpu/threads/here.h"

#include <pthread.h>
#include <stdlib.h>

#include "kernels/cpu/threads/parts.h"
#include "kernels/cpu/threads/pieces.h"
#include "kernels/cpu/threads/room.h"
#include "kernels/exact/runs.h"

/* Threads that run the pieces of one task. */
typedef struct team {
    rk_pieces pieces;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* pieces that may have to run again */
} team;

static unsigned threads_for(const rk_task *t, int threads)
{
    const size_t most = t->spec.flags & RP_STATES_IN ? 1 : rk_task_size(t) / RK_THREAD_BYTES;
    if (most <= 1 || threads <= 1)
        return 1;
    return rk_parts_at_once((size_t)threads < most ? (unsigned)threads : (unsigned)most);
}

/* Runs pieces until none is left, or until all have ended if they may have to run again. */
static void run_pieces(void *arg, unsigned part)
{
    team *m = arg;
    rk_pieces *j = &m->pieces;
    uint64_t saved = rk_fp_enter();
    (void)part;
    pthread_mutex_lock(&m->lock);
    while (j->next < j->pieces || (rk_pieces_repeat(j) && j->left))
        if (j->next == j->pieces)
            pthread_cond_wait(&m->ended, &m->lock);
        else if (rk_run_piece(j) != RK_PIECES_LEFT)
            pthread_cond_broadcast(&m->ended);
    pthread_mutex_unlock(&m->lock);
    rk_fp_leave(saved);
}

/* False: no memory, and nothing was done. */
static bool run_together(rk_task *t, unsigned threads)
{
    team *m = malloc(sizeof *m);
    if (!m)
        return false;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->ended, NULL);
    rk_cut(&m->pieces, t, (int)threads, rk_simd_best(), &m->lock);
    rk_cpu_begin(t);
    rk_run_parts(threads, run_pieces, m);
    uint64_t saved = rk_fp_enter();
    rk_finish_pieces(&m->pieces);
    rk_fp_leave(saved);
    pthread_cond_destroy(&m->ended);
    pthread_mutex_destroy(&m->lock);
    free(m);
    return true;
}

typedef struct job {
    rk_task t;
    int threads;
} job;

static void here_run(void *arg)
{
    job *e = arg;
    const unsigned threads = threads_for(&e->t, e->threads);
    if (threads == 1 || !run_together(&e->t, threads))
        rk_cpu_run(&e->t);
}

rp_err rk_reduce_here(const rp_spec *s, const void *data, const rp_parts *beside, size_t bytes, int threads, uint64_t until_ns,
                      void *cells, rp_fault *f)
{
    job e = {{.spec = *s, .data = data, .beside = beside, .bytes = bytes, .cells = cells, .until_ns = until_ns}, threads};
    const bool lines = !(s->flags & RP_COLUMNS) && !rk_in_runs(s);
    if (!rk_with_room(lines ? RK_ROOM_LINES : RK_ROOM_COLUMNS, here_run, &e))
        return rp_fail(f, RP_NO_MEMORY, "", 0, "no memory for a thread, and the stack of this one is too small");
    if (e.t.fault.code != RP_OK)
        *f = e.t.fault;
    return (rp_err)e.t.fault.code;
}

typedef struct together {
    const rp_spec *spec;
    const uint8_t *const *x;
    size_t arrays;
    const rp_parts *beside;
    uint64_t n;
    rk_state *states;
} together;

static void together_run(void *arg)
{
    const together *e = arg;
    uint64_t saved = rk_fp_enter();
    rk_cpu_arrays(rk_simd_best(), e->spec, e->x, e->arrays, e->beside, e->n, e->states);
    rk_fp_leave(saved);
}

rp_err rk_states_here(const rp_spec *s, const uint8_t *const *x, size_t arrays, const rp_parts *beside, uint64_t n,
                      rk_state *states, rp_fault *f)
{
    together e = {s, x, arrays, beside, n, states};
    if (!rk_with_room(RK_ROOM_LINES, together_run, &e))
        return rp_fail(f, RP_NO_MEMORY, "", 0, "no memory for a thread, and the stack of this one is too small");
    return RP_OK;
}
