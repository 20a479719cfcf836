#include "kernels/cpu/threads/here.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/cpu/threads/pieces.h"

enum {
    HELPER_BYTES = 2 << 20, /* for each thread: a core sums them in some 200 us, and to start and join one takes 50 */
    MOST_HELPERS = 63
};

/* State of one call. The call does not wait for helpers that start when no piece is left: on a busy machine that takes
 * milliseconds. So the last thread to leave frees it. */
typedef struct team {
    rk_pieces pieces;
    pthread_mutex_t lock;
    pthread_cond_t done;
    int members;
} team;

/* ---- how many ---- */

static atomic_int helping; /* helpers of all calls of this process; too high for good in a child that is forked meanwhile */

/* Reserves up to `wanted` helpers and returns how many; the caller gives these back. */
static int take_helpers(int wanted)
{
    const int most = rk_cpu_cores() - 1;
    int busy = atomic_load_explicit(&helping, memory_order_relaxed), n;
    do {
        n = wanted < most - busy ? wanted : most - busy;
    } while (n > 0 &&
             !atomic_compare_exchange_weak_explicit(&helping, &busy, busy + n, memory_order_relaxed, memory_order_relaxed));
    return n > 0 ? n : 0;
}

static void give_helpers(int n) { atomic_fetch_sub_explicit(&helping, n, memory_order_relaxed); }

static int helpers_for(const rk_task *t, int threads)
{
    const size_t most = t->spec.flags & RP_STATES_IN ? 1 : rk_task_size(t) / HELPER_BYTES;
    int wanted = threads - 1 < MOST_HELPERS ? threads - 1 : MOST_HELPERS;
    if (most <= 1 || wanted < 1)
        return 0;
    return take_helpers((size_t)wanted < most - 1 ? wanted : (int)(most - 1));
}

/* ---- together ---- */

static team *team_new(rk_task *t, int members)
{
    team *m = malloc(sizeof *m);
    if (!m)
        return NULL;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->done, NULL);
    m->members = members;
    rk_cut(&m->pieces, t, members, rk_simd_best(), &m->lock);
    return m;
}

static void leave(team *m, int members)
{
    pthread_mutex_lock(&m->lock);
    m->members -= members;
    const bool last = m->members == 0;
    pthread_mutex_unlock(&m->lock);
    if (!last)
        return;
    pthread_cond_destroy(&m->done);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* Runs pieces until none is left, or until all have ended if they may have to run again. Call with the lock held; returns with
 * it. */
static void run_pieces(team *m)
{
    rk_pieces *j = &m->pieces;
    uint64_t saved = rk_fp_enter();
    while (j->next < j->pieces || (rk_pieces_repeat(j) && j->left))
        if (j->next == j->pieces)
            pthread_cond_wait(&m->done, &m->lock);
        else if (rk_run_piece(j) != RK_PIECES_LEFT)
            pthread_cond_broadcast(&m->done);
    rk_fp_leave(saved);
}

static void *here_help(void *arg)
{
    team *m = arg;
    pthread_mutex_lock(&m->lock);
    run_pieces(m);
    pthread_mutex_unlock(&m->lock);
    leave(m, 1);
    give_helpers(1);
    return NULL;
}

/* Helpers take no signals: those belong to the program's own threads. Returns how many were started. */
static int start_helpers(team *m, int wanted)
{
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, old;
    int n = 0;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (n < wanted && pthread_create(&thread, &detached, here_help, m) == 0)
        n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&detached);
    return n;
}

static void run_together(team *m, rk_task *t, int helpers)
{
    rk_cpu_begin(t);
    const int missing = helpers - start_helpers(m, helpers);
    pthread_mutex_lock(&m->lock);
    run_pieces(m);
    while (m->pieces.left)
        pthread_cond_wait(&m->done, &m->lock);
    pthread_mutex_unlock(&m->lock);
    uint64_t saved = rk_fp_enter();
    rk_finish_pieces(&m->pieces);
    rk_fp_leave(saved);
    leave(m, 1 + missing);
    give_helpers(missing);
}

rp_err rk_reduce_here(const rp_spec *s, const void *data, const rp_parts *beside, size_t bytes, int threads, void *cells,
                      rp_fault *f)
{
    rk_task t = {.spec = *s, .data = data, .beside = beside, .bytes = bytes, .cells = cells};
    const int helpers = helpers_for(&t, threads);
    team *m = helpers ? team_new(&t, helpers + 1) : NULL;
    if (m) {
        run_together(m, &t, helpers);
    } else {
        give_helpers(helpers);
        rk_cpu_run(&t);
    }
    if (t.fault.code != RP_OK)
        *f = t.fault;
    return (rp_err)t.fault.code;
}
