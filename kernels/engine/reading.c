#include "kernels/engine/reading.h"

/* A rate measured at a bad moment would keep work away from the readers for ever, and would never be measured again. So after
 * so many parts for GPUs one is reduced where it is: with parts of 4 MiB, one in each GiB. */
enum { TRIED_AFTER = 256 };

void rk_reading_begin(rk_reading *r) { __atomic_add_fetch(&r->threads, 1, __ATOMIC_RELAXED); }

void rk_reading_end(rk_reading *r) { __atomic_sub_fetch(&r->threads, 1, __ATOMIC_RELAXED); }

static float *rate_of(rk_reading *r, const rk_task *t) { return &r->rate[t->spec.op][t->spec.dtype]; }

static float known(float *rate)
{
    float now;
    __atomic_load(rate, &now, __ATOMIC_RELAXED);
    return now;
}

/* Count a part that a GPU gets. Is it time to try the other way? */
static bool is_due(rk_reading *r)
{
    if (__atomic_add_fetch(&r->passed, 1, __ATOMIC_RELAXED) <= TRIED_AFTER)
        return false;
    __atomic_store_n(&r->passed, 0, __ATOMIC_RELAXED);
    return true;
}

bool rk_reading_reduces(rk_reading *r, const rk_task *t, double gpus)
{
    const float rate = known(rate_of(r, t));
    const unsigned threads = __atomic_load_n(&r->threads, __ATOMIC_RELAXED);
    if (gpus > 0 && (rate == 0 || (double)rate * threads >= gpus))
        return true;
    return is_due(r);
}

void rk_reading_note(rk_reading *r, const rk_task *t, uint64_t ns)
{
    float *rate = rate_of(r, t), old = known(rate), now = (float)t->bytes / (float)(ns + 1);
    now = old > 0 ? old + (now - old) / 8 : now;
    __atomic_store(rate, &now, __ATOMIC_RELAXED);
}
