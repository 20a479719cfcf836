#include "kernels/engine/reading.h"

#include "kernels/engine/share.h"

/* GPUs that take twice as long are tried a quarter as often: else their trials would cost some hundredths of the time. */
enum { FAR = 2, RARER = 4 };

void rk_reading_begin(rk_reading *r) { __atomic_add_fetch(&r->threads, 1, __ATOMIC_RELAXED); }

void rk_reading_end(rk_reading *r) { __atomic_sub_fetch(&r->threads, 1, __ATOMIC_RELAXED); }

static float *rate_of(rk_reading *r, const rk_task *t) { return &r->rate[t->spec.op][t->spec.dtype]; }

static float known(float *rate)
{
    float now;
    __atomic_load(rate, &now, __ATOMIC_RELAXED);
    return now;
}

/* The threads that will read at the same time as one that asks. The first threads of a long range see few others, though more
 * are about to come: with the number of that moment alone GPUs got the first parts of each range. */
static double together(rk_reading *r)
{
    const float now = (float)__atomic_load_n(&r->threads, __ATOMIC_RELAXED), before = known(&r->usual),
                usual = before + (now - before) / 16;
    __atomic_store(&r->usual, &usual, __ATOMIC_RELAXED);
    return now > usual ? now : usual;
}

bool rk_reading_reduces(rk_reading *r, const rk_task *t, double gpus)
{
    const double each = known(rate_of(r, t)), all = each * together(r);
    if (gpus > 0 && (each == 0 || all >= gpus))
        return !rk_is_due(&r->reduced, RK_TRIED_AFTER * (all >= FAR * gpus ? RARER : 1), RK_GPU_TRIAL);
    return rk_is_due(&r->passed, RK_TRIED_AFTER, 1);
}

void rk_reading_note(rk_reading *r, const rk_task *t, uint64_t ns)
{
    float *rate = rate_of(r, t), old = known(rate), now = (float)t->bytes / (float)(ns + 1);
    now = old > 0 ? old + (now - old) / 8 : now;
    __atomic_store(rate, &now, __ATOMIC_RELAXED);
}
