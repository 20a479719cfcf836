#include "kernels/engine/utilisation.h"

#include "kernels/engine/clock.h"
#include "kernels/engine/spin.h"

void rk_busy_init(rk_busy *b)
{
    *b = (rk_busy){.n = 0};
    rk_spin_lock_init(&b->lock);
}

void rk_busy_fini(rk_busy *b) { pthread_mutex_destroy(&b->lock); }

void rk_busy_begin(rk_busy *b)
{
    if (b->all)
        rk_busy_begin(b->all);
    pthread_mutex_lock(&b->lock);
    if (b->n++ == 0)
        b->since_ns = rk_now_ns();
    pthread_mutex_unlock(&b->lock);
}

void rk_busy_end(rk_busy *b)
{
    pthread_mutex_lock(&b->lock);
    if (--b->n == 0)
        b->total_ns += rk_now_ns() - b->since_ns;
    pthread_mutex_unlock(&b->lock);
    if (b->all)
        rk_busy_end(b->all);
}

uint64_t rk_busy_ns(rk_busy *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t ns = b->total_ns + (b->n ? rk_now_ns() - b->since_ns : 0);
    pthread_mutex_unlock(&b->lock);
    return ns;
}
