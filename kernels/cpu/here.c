#include "kernels/cpu/here.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "kernels/cpu/pieces.h"

enum {
    HELPER_BYTES = 1 << 20, /* for each thread: to start and join one takes as long as 0.2 to 0.5 MB of a sum of f64 */
    MOST_HELPERS = 63
};

typedef struct team {
    rk_pieces pieces;
    pthread_mutex_t lock;
    pthread_t helper[MOST_HELPERS];
} team;

/* ---- how many ---- */

static atomic_int helping; /* helpers of this process, in all calls */

/* Up to `wanted` helpers; as many as were taken are given back. */
static int take_helpers(int wanted)
{
    const int most = rk_cpu_cores() - 1;
    int busy = atomic_load_explicit(&helping, memory_order_relaxed), n;
    do {
        n = wanted < most - busy ? wanted : most - busy;
    } while (n > 0 && !atomic_compare_exchange_weak_explicit(&helping, &busy, busy + n, memory_order_relaxed,
                                                             memory_order_relaxed));
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

static void *here_work(void *arg)
{
    team *m = arg;
    uint64_t saved = rk_fp_enter();
    pthread_mutex_lock(&m->lock);
    while (m->pieces.next < m->pieces.pieces)
        rk_run_piece(&m->pieces);
    pthread_mutex_unlock(&m->lock);
    rk_fp_leave(saved);
    return NULL;
}

/* Helpers take no signals: those belong to the program's own threads. Returns how many there are. */
static int start_helpers(team *m, int wanted)
{
    sigset_t all, old;
    int n = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (n < wanted && pthread_create(&m->helper[n], NULL, here_work, m) == 0)
        n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return n;
}

static void run_together(team *m, rk_task *t, int helpers)
{
    rk_cpu_begin(t);
    pthread_mutex_init(&m->lock, NULL);
    rk_cut(&m->pieces, t, helpers + 1, rk_simd_best(), &m->lock);
    int n = start_helpers(m, helpers);
    here_work(m);
    while (n > 0)
        pthread_join(m->helper[--n], NULL);
    pthread_mutex_destroy(&m->lock);
    uint64_t saved = rk_fp_enter();
    rk_finish_pieces(&m->pieces);
    rk_fp_leave(saved);
}

rp_err rk_reduce_here(const rp_spec *s, const void *data, size_t bytes, int threads, void *cells, rp_fault *f)
{
    rk_task t = {.spec = *s, .data = data, .bytes = bytes, .cells = cells};
    const int helpers = helpers_for(&t, threads);
    team *m = helpers ? malloc(sizeof *m) : NULL;
    if (m)
        run_together(m, &t, helpers);
    else
        rk_cpu_run(&t);
    free(m);
    give_helpers(helpers);
    if (t.fault.code != RP_OK)
        *f = t.fault;
    return (rp_err)t.fault.code;
}
