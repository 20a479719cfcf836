#include "kernels/cpu/threads/crowd.h"

#include <limits.h>
#include <stdbool.h>

enum { PATIENCE = 8, MOST_PATIENCE = 256 };
static const uint64_t MOST_NS = 200000000; /* without helpers, however few calls: a load may have ended meanwhile */

static int get(atomic_int *x) { return atomic_load_explicit(x, memory_order_relaxed); }
static void set(atomic_int *x, int to) { atomic_store_explicit(x, to, memory_order_relaxed); }

static int most_of(rk_crowd *c)
{
    const int most = get(&c->most);
    return most ? most - 1 : INT_MAX;
}

/* Calls until the next trial, after one that was not worth it. */
static unsigned longer(unsigned patience)
{
    const unsigned twice = patience ? 2 * patience : PATIENCE;
    return twice < MOST_PATIENCE ? twice : MOST_PATIENCE;
}

/* Is a helper tried again? */
static bool is_due(rk_crowd *c, uint64_t now_ns)
{
    const unsigned calls = atomic_fetch_add_explicit(&c->without, 1, memory_order_relaxed) + 1;
    if (calls < atomic_load_explicit(&c->patience, memory_order_relaxed) &&
        now_ns - atomic_load_explicit(&c->helped_ns, memory_order_relaxed) < MOST_NS)
        return false;
    atomic_store_explicit(&c->without, 0, memory_order_relaxed);
    return true;
}

int rk_crowd_helpers(rk_crowd *c, int wanted, uint64_t now_ns)
{
    const int most = most_of(c), n = wanted <= 0 ? 0 : most <= 0 ? is_due(c, now_ns) : wanted < most ? wanted : most;
    if (n > 0)
        atomic_store_explicit(&c->helped_ns, now_ns, memory_order_relaxed);
    return n;
}

void rk_crowd_forget(rk_crowd *c)
{
    set(&c->most, 0);
    atomic_store_explicit(&c->patience, 0, memory_order_relaxed);
}

/* Half of the time is what threads of short calls get on an idle machine, as they start one after the other. Several may get
 * less of it there; only one by itself shows that none is worth its start. */
void rk_crowd_note(rk_crowd *c, int n, uint64_t used_ns, uint64_t wall_ns)
{
    const double got = wall_ns ? (double)used_ns / (double)wall_ns : n + 1.0, share = got / (n + 1.0); /* processors */
    const unsigned patience = atomic_load_explicit(&c->patience, memory_order_relaxed);
    if (share < 0.5) {
        const int left = got < 2 ? n > 1 : (int)got - 1;
        set(&c->most, left + 1);
        if (left == 0)
            atomic_store_explicit(&c->patience, longer(patience), memory_order_relaxed);
    } else if (share > 0.75 && n >= most_of(c)) {
        set(&c->most, 2 * n + 2);
        if (n > 1)
            atomic_store_explicit(&c->patience, 0, memory_order_relaxed);
    }
}
