/* reduce_explain: the ways that a reduction could take, and how long each is expected to take. */
#include <math.h>
#include <string.h>

#include "client/ask.h"
#include "client/error.h"
#include "client/local.h"

typedef struct explanation {
    int (*each)(void *arg, const reduce_way *way);
    void *arg;
} explanation;

/* `why` it is not possible; NULL: it is. */
static int tell(const explanation *x, const char *name, double ns, bool taken, const char *why)
{
    const reduce_way way = {
        .size = sizeof way, .taken = taken, .expected_ns = why ? 0 : (uint64_t)ns, .name = name, .why = why};
    return x->each(x->arg, &way);
}

static const char *const by_names[RC_ENGINES] = {[RC_BY_CPU] = "cpu", [RC_BY_GPU] = "gpu", [RC_BY_BOTH] = "shared"};

static const char *why_not(const rc_engine *e, bool connected, rc_by by)
{
    if (!connected)
        return "no daemon listens";
    if (by == RC_BY_CPU)
        return "the daemon has a GPU, which its CPU helps with large data or files";
    return e->cpu ? "the daemon has no GPU" : "the CPU has no share of little data";
}

/* The ways through the daemon; it takes the fastest. */
static int tell_daemon(reduce_client *c, const rc_ask *a, const rc_engine *e, bool here, const explanation *x)
{
    const bool connected = c->distant || e->session;
    double ns[RC_ENGINES];
    rc_by best = RC_BY_CPU;
    rc_enter(c);
    for (rc_by by = RC_BY_CPU; by < RC_ENGINES; by++) {
        ns[by] = rc_ways_expected_by(&c->ways, &a->work, by);
        best = ns[by] < ns[best] ? by : best;
    }
    rc_leave(c);
    int stop = 0;
    for (rc_by by = RC_BY_CPU; by < RC_ENGINES && !stop; by++) {
        const bool possible = connected && isfinite(ns[by]);
        stop = tell(x, by_names[by], ns[by], !here && possible && by == best, possible ? NULL : why_not(e, connected, by));
    }
    return stop;
}

int reduce_explain(reduce_client *c, const reduce_spec *spec, int fd, uint64_t bytes,
                   int (*each)(void *arg, const reduce_way *way), void *arg)
{
    const explanation x = {each, arg};
    const rc_input in = {.fd = fd};
    const char *why;
    rp_fault f = {0};
    rc_engine engine = {0};
    rc_ask a;
    int err = rc_check_owner(c);
    if (!err && !each)
        err = rc_error(REDUCE_E_ARGUMENT, "each", "the function is NULL");
    if (err)
        return err;
    if (rc_ask_for(&a, spec, &in, (size_t)bytes, SIZE_MAX, &f))
        return rc_report(&f);
    c->connect(c, false);
    if ((err = rc_local_refusal(c, &a, &why)) || (atomic_load(&c->connected) && (err = rc_engine_of(c, &engine))))
        return err;
    if (why) /* else it was not asked how many there are */
        a.threads = rc_threads_beside(&engine);
    rc_weigh(c, &a, &engine);
    rc_enter(c);
    const double here = rc_ways_expected(&c->ways, &a.work, RC_HERE);
    rc_leave(c);
    const bool possible = !why || a.weighed;
    const int stop = tell(&x, "process", here, !why, possible ? NULL : why);
    return stop ? stop : tell_daemon(c, &a, &engine, !why, &x);
}
