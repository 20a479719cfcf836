#include "client/local.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/error.h"
#include "client/spec.h"
#include "kernels/cpu/threads/here.h"
#include "proto/clock.h"

int rc_local_option(const reduce_open_opts *o, bool *local, rp_fault *f)
{
    const char *text = getenv("REDUCE_LOCAL");
    if (o->local > REDUCE_LOCAL_YES)
        return rc_fail(f, REDUCE_E_ARGUMENT, "local", "unknown value %u", o->local);
    *local = o->local != REDUCE_LOCAL_NO;
    if (o->local != REDUCE_LOCAL_DEFAULT || !text || !*text)
        return 0;
    *local = !strcmp(text, "yes");
    if (*local || !strcmp(text, "no"))
        return 0;
    return rc_fail(f, REDUCE_E_ARGUMENT, "REDUCE_LOCAL", "$REDUCE_LOCAL is yes or no, not '%.40s'", text);
}

/* ---- the daemon's engine ---- */

static int local_on_entry(void *engine, const reduce_entry *e)
{
    rc_engine *x = engine;
    if (e->kind == REDUCE_KIND_TEXT && !strcmp(e->key, "backend"))
        x->cpu = !strcmp(e->text, reduce_backend_name(RP_BACKEND_CPU));
    if (e->kind == REDUCE_KIND_TEXT && !strcmp(e->key, "local"))
        x->small_here = !strcmp(e->text, "small");
    if (e->kind == REDUCE_KIND_U64 && !strcmp(e->key, "threads"))
        x->threads = e->u64 < INT_MAX ? (int)e->u64 : INT_MAX;
    if (e->kind == REDUCE_KIND_U64 && !strcmp(e->key, "devices_opening"))
        x->opening = e->u64 != 0;
    if (e->kind == REDUCE_KIND_U64 && !strcmp(e->key, "limits.max_strided"))
        x->strided = e->u64;
    if (e->kind == REDUCE_KIND_U64 && !strcmp(e->key, "rate.device"))
        x->device_rate = (double)e->u64 * 1e-9;
    if (e->kind == REDUCE_KIND_U64 && !strcmp(e->key, "rate.cpu"))
        x->cpu_rate = (double)e->u64 * 1e-9;
    return 0;
}

int rc_engine_of(reduce_client *c, rc_engine *engine)
{
    rc_enter(c);
    const uint64_t session = c->session;
    *engine = c->engine;
    rc_leave(c);
    if (session && engine->session == session)
        return 0;
    *engine = (rc_engine){.session = session};
    const int err = session ? reduce_query(c, REDUCE_TOPIC_INFO, local_on_entry, engine) : 0;
    if (err || !session) {
        *engine = (rc_engine){0};
        return err == REDUCE_E_INTERRUPTED ? err : 0; /* after other errors the request finds out why */
    }
    if (engine->opening) { /* it does not compute on the CPU for long */
        engine->session = engine->strided = 0;
        return 0;
    }
    rc_enter(c);
    c->engine = *engine;
    rc_leave(c);
    return 0;
}

/* ---- which requests ---- */

/* Bytes that are read. */
static uint64_t bytes_of(const rc_ask *a)
{
    const rc_level *l = &a->whole;
    const uint64_t n = a->bytes / l->item;
    return a->bytes + (l->mask ? n : 0) + (l->offsets ? 8 * (l->lines + 1) : 0) + n * rc_beside_size(l);
}

/* What the request alone says, and the client. */
static const char *own_refusal(const reduce_client *c, const rc_ask *a)
{
    const rc_level *l = &a->whole;
    if (!c->local)
        return "the client leaves all requests to the daemon";
    if (a->in.fd >= 0 || a->in.device || a->in.kept)
        return "the data are not in this process's memory";
    if (a->spec.path && a->spec.path != REDUCE_PATH_LOCAL)
        return "another path was asked for";
    if (a->spec.device)
        return "a device of the daemon was asked for";
    if (a->spec.deadline_ms)
        return "a deadline ends work in the daemon only";
    if (c->opts.priority != REDUCE_PRIORITY_NORMAL)
        return "priorities are among requests of the daemon";
    if (l->lines == 0)
        return "there are no results";
    if (bytes_of(a) <= RP_SMALL_BYTES)
        return NULL;
    return l->spec.flags & RP_STATES_IN ? "many states are merged in the daemon" : NULL;
}

int rc_threads_beside(const rc_engine *e)
{
    const int cores = rk_cpu_cores();
    return e->cpu && e->threads && e->threads < cores ? e->threads : cores;
}

void rc_weigh(reduce_client *c, rc_ask *a, const rc_engine *e)
{
    a->work = (rc_work){.op = (uint8_t)a->spec.op,
                        .dtype = (uint8_t)a->spec.dtype,
                        .bytes = bytes_of(a),
                        .threads = a->threads,
                        .distant = c->distant,
                        .shared = rc_is_shared(c, a->in.data, a->bytes),
                        .all = rp_needs_all(&a->whole.spec),
                        .file = a->in.fd >= 0,
                        .cpu = e->cpu,
                        .reads = a->in.fd >= 0 && !e->small_here,
                        .device_rate = e->device_rate,
                        .cpu_rate = e->cpu_rate};
}

/* A trial of this way has all threads: their number after the last calls here says nothing of the load now. */
static bool is_here_faster(reduce_client *c, const rc_ask *a)
{
    rc_enter(c);
    const bool here = rc_ways_choose(&c->ways, &a->work) == RC_HERE, trial = rc_ways_tries(&c->ways, &a->work, RC_HERE);
    rc_leave(c);
    if (here && trial)
        rk_forget_load();
    return here;
}

int rc_local_refusal(reduce_client *c, rc_ask *a, const char **why)
{
    const bool small = bytes_of(a) <= RP_SMALL_BYTES, distant = c->distant;
    rc_engine engine = {0};
    *why = own_refusal(c, a);
    a->threads = 1;
    if (*why || small)
        return 0;
    if (!distant)
        c->connect(c, false);
    const int err = distant || !atomic_load(&c->connected) ? 0 : rc_engine_of(c, &engine);
    if (err)
        return err;
    if (engine.small_here)
        *why = "the daemon's configuration leaves only small arrays to its clients";
    if (*why)
        return 0;
    a->threads = rc_threads_beside(&engine);
    a->weighed = true;
    rc_weigh(c, a, &engine);
    const bool known = distant || engine.session; /* else it is gone, or its GPUs are opening */
    if (a->spec.path == REDUCE_PATH_LOCAL || engine.cpu || !known)
        return 0; /* the daemon's processors would do no better */
    if (!is_here_faster(c, a))
        *why = "the way through the daemon is expected to take less time";
    return 0;
}

void rc_local_note(reduce_client *c, rc_ask *a, bool here)
{
    if (!a->weighed && a->in.fd < 0) /* small requests need no clock for this */
        return;
    const uint64_t ns = rp_now_ns() - a->start_ns;
    rc_enter(c);
    const rc_engine e = c->engine;
    const bool known = e.session && e.session == c->session;
    rc_leave(c);
    if (!a->weighed) { /* a file */
        if (!known)
            return;
        a->threads = rc_threads_beside(&e);
        rc_weigh(c, a, &e);
    }
    rc_enter(c);
    rc_ways_note(&c->ways, &a->work, here ? RC_HERE : RC_THERE, ns);
    rc_leave(c);
}

rp_claim rc_local_claim(reduce_client *c, uint64_t used)
{
    const bool fits = used + RP_PART_SIZE + RP_CLAIM_SIZE <= c->welcome.max_data;
    if (!fits || rc_version(c) < RP_PLANES_VERSION || !atomic_load_explicit(&c->requests_here, memory_order_relaxed))
        return (rp_claim){0};
    return (rp_claim){atomic_exchange_explicit(&c->requests_here, 0, memory_order_relaxed),
                      atomic_exchange_explicit(&c->bytes_here, 0, memory_order_relaxed)};
}
