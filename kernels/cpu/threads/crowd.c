#include "kernels/cpu/threads/crowd.h"

#include <limits.h>

enum { PATIENCE = 8, MOST_PATIENCE = 256 };
static const uint64_t MOST_NS = 200000000; /* of calls without helpers, long ones too: a load may have ended meanwhile */

static int get(atomic_int *x) { return atomic_load_explicit(x, memory_order_relaxed); }
static void set(atomic_int *x, int to) { atomic_store_explicit(x, to, memory_order_relaxed); }

static int most_of(rk_crowd *c)
{
    const int most = get(&c->most);
    return most ? most - 1 : INT_MAX;
}

/* Calls until the next trial, after one that was not worth it; a call takes wall_ns. */
static unsigned longer(unsigned patience, uint64_t wall_ns)
{
    const uint64_t twice = patience ? 2 * patience : PATIENCE, fit = MOST_NS / (wall_ns + 1),
                   most = fit < MOST_PATIENCE ? fit : MOST_PATIENCE;
    return (unsigned)(twice < most ? twice : most);
}

int rk_crowd_helpers(rk_crowd *c, int wanted)
{
    const int most = most_of(c);
    if (most > 0 || wanted <= 0)
        return wanted < most ? wanted : most;
    const unsigned calls = atomic_fetch_add_explicit(&c->without, 1, memory_order_relaxed) + 1;
    if (calls < atomic_load_explicit(&c->patience, memory_order_relaxed))
        return 0;
    atomic_store_explicit(&c->without, 0, memory_order_relaxed);
    return 1;
}

void rk_crowd_forget(rk_crowd *c)
{
    set(&c->most, 0);
    atomic_store_explicit(&c->patience, 0, memory_order_relaxed);
}

/* Half of the time is what threads of short calls get on an idle machine, as they start one after the other. */
void rk_crowd_note(rk_crowd *c, int n, uint64_t used_ns, uint64_t wall_ns)
{
    const double got = wall_ns ? (double)used_ns / (double)wall_ns : n + 1.0, share = got / (n + 1.0); /* processors */
    const unsigned patience = atomic_load_explicit(&c->patience, memory_order_relaxed);
    if (share < 0.5) {
        const int left = got < 2 ? 0 : (int)got - 1;
        set(&c->most, left + 1);
        if (left == 0)
            atomic_store_explicit(&c->patience, longer(patience, wall_ns), memory_order_relaxed);
    } else if (share > 0.75 && n >= most_of(c)) {
        set(&c->most, 2 * n + 2);
        if (n > 1)
            atomic_store_explicit(&c->patience, 0, memory_order_relaxed);
    }
}
