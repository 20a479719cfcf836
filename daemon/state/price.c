#include "daemon/state/price.h"

#include "daemon/state/sched.h"

enum { WEIGHT = 8 /* a new time moves the rate by an eighth of the difference */ };

uint64_t rd_price_cost(const rk_task *t)
{
    uint64_t results = t->fill ? 0 : rp_results(&t->spec) * rp_cell_size(&t->spec);
    return RD_TASK_COST + t->bytes + results;
}

static unsigned length_of(const rk_task *t)
{
    uint64_t results = rp_results(&t->spec), each = results ? t->bytes / results : 0;
    return each > 4096 ? 3 : each > 256 ? 2 : each > 16;
}

static unsigned kind_of(const rk_task *t)
{
    return t->fill ? 0 : (t->spec.op * RD_PRICE_DTYPES + t->spec.dtype) * RD_PRICE_LENGTHS + length_of(t);
}

uint64_t rd_price_ns(const rd_price *p, const rk_task *t)
{
    uint64_t rate = p->rate[kind_of(t)];
    return rate ? rate * rd_price_cost(t) / 1000 : RD_WINDOW_NS;
}

/* A first time is taken as it is. */
static void approach(uint64_t *rate, uint64_t now) { *rate = *rate ? *rate - *rate / WEIGHT + now / WEIGHT : now; }

uint64_t rd_price_learn(rd_price *p, const rk_task *t)
{
    if (!t->start_ns)
        return 0;
    uint64_t ns = t->copy_ns + t->compute_ns;
    if (t->fault.code == RP_OK)
        approach(&p->rate[kind_of(t)], ns * 1000 / rd_price_cost(t));
    return ns;
}
