/* Opening and closing an engine: which backend, and which of its devices. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/engine/front.h"
#include "kernels/engine/helper.h"
#include "kernels/engine/select.h"

/* A device that is being opened, in parallel with others: a CUDA context takes some 0.15 s. */
typedef struct opening {
    rk_device *d;
    unsigned devices;
    bool probed; /* open it only if a probe gives the right answer */
    sem_t *ended;
    rp_err err;
    char why[160];
} opening;

static void await(sem_t *s)
{
    while (sem_wait(s) != 0) /* a signal */
        ;
}

static void engine_probe_done(rk_task *t) { sem_post(t->user); }

static bool computes_rightly(rk_device *d)
{
    double quads[PROBE_ELEMENTS], cell;
    sem_t done;
    rk_task t;
    rk_probe_fill(&t, quads, &cell);
    t.user = &done;
    sem_init(&done, 0, 0);
    rk_device_submit(d, &t, engine_probe_done);
    await(&done);
    sem_destroy(&done);
    return rk_probe_ok(&t);
}

static void open_device(opening *x)
{
    x->err = rk_device_open(x->d, x->devices, x->why, sizeof x->why);
    if (x->err || !x->probed || computes_rightly(x->d))
        return;
    x->err = RP_INTERNAL;
    snprintf(x->why, sizeof x->why, "device %d: the health check gave a wrong answer", x->d->info.ordinal);
    rk_device_stop(x->d);
    rk_device_close(x->d);
}

static void *engine_open_device(void *arg)
{
    opening *x = arg;
    open_device(x);
    sem_post(x->ended);
    return NULL;
}

static const rk_backend_ops *ops_of(int backend) { return backend == RP_BACKEND_CUDA ? &rk_cuda_backend : &rk_cpu_backend; }

/* The CPU's cores are shared by its devices. */
static int threads_of(const rk_engine *e, int backend, unsigned devices)
{
    if (e->o.threads > 0 || backend != RP_BACKEND_CPU || devices == 1)
        return e->o.threads;
    const int cores = rk_cpu_cores() / (int)devices;
    return cores > 0 ? cores : 1;
}

static rk_device *new_device(const rk_engine *e, int backend, const rk_device_info *info, unsigned devices)
{
    rk_device *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->info = *info;
    d->backend = backend;
    d->ops = ops_of(backend);
    d->o = e->o;
    d->o.threads = threads_of(e, backend, devices);
    return d;
}

/* A single device opens in this thread, several in a thread each. The threads are detached, so a daemon that exits meanwhile
 * need not join them. */
static void open_all(opening *x, unsigned n)
{
    pthread_attr_t detached;
    pthread_t thread;
    sem_t ended;
    unsigned started = 0;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sem_init(&ended, 0, 0);
    for (unsigned i = 0; i < n; i++) {
        x[i].ended = &ended;
        if (n > 1 && pthread_create(&thread, &detached, engine_open_device, &x[i]) == 0)
            started++;
        else
            open_device(&x[i]);
    }
    while (started--)
        await(&ended);
    sem_destroy(&ended);
    pthread_attr_destroy(&detached);
}

/* Devices that opened join the fleet; the others are freed and logged as left out. */
static void keep_open(const rk_engine *e, rk_fleet *v, opening *x, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (!x[i].err) {
            v->device[v->devices++] = x[i].d;
            continue;
        }
        if (n > 1)
            rk_log(&e->o, RK_LOG_WARN, "device %d (%s) is left out: %s", x[i].d->info.ordinal, x[i].d->info.name, x[i].why);
        free(x[i].d);
    }
}

/* A device's number is its index among those that opened; no task runs there before. */
static void number_devices(rk_fleet *v)
{
    for (unsigned i = 0; i < v->devices; i++)
        rk_device_set_number(v->device[i], i);
}

static void explain_devices(const rk_fleet *v, unsigned asked, const char *first, char *why, size_t why_cap)
{
    if (asked == 1)
        snprintf(why, why_cap, "%s", first);
    else
        snprintf(why, why_cap, "%u of %u devices: %.100s, ...", v->devices, asked, first);
}

static rp_err open_devices(const rk_engine *e, rk_fleet *v, int backend, const rk_device_info *info, unsigned n, char *why,
                           size_t why_cap)
{
    opening x[RK_MAX_DEVICES] = {{.d = NULL}};
    for (unsigned i = 0; i < n; i++) {
        x[i].d = new_device(e, backend, &info[i], n);
        x[i].devices = n;
        x[i].probed = v == &e->joined;
        if (!x[i].d) {
            while (i--)
                free(x[i].d);
            snprintf(why, why_cap, "out of memory");
            return RP_NO_MEMORY;
        }
    }
    open_all(x, n);
    keep_open(e, v, x, n);
    number_devices(v);
    v->backend = backend;
    if (v->devices == 0) {
        snprintf(why, why_cap, "%s", x[0].why);
        return x[0].err;
    }
    unsigned first = 0;
    while (x[first].err)
        first++;
    explain_devices(v, n, x[first].why, why, why_cap);
    return RP_OK;
}

static rp_err open_cpus(const rk_engine *e, rk_fleet *v, const char *devices, char *why, size_t why_cap)
{
    rk_device_info info[RK_MAX_DEVICES];
    unsigned n;
    rp_err err = rk_select_cpus(devices, &n, why, why_cap);
    if (err)
        return err;
    for (unsigned i = 0; i < n; i++) {
        info[i] = (rk_device_info){.ordinal = (int)i};
        snprintf(info[i].name, sizeof info[i].name, "CPU-%u", i);
    }
    return open_devices(e, v, RP_BACKEND_CPU, info, n, why, why_cap);
}

/* *named_wrong: the option's list is wrong, as opposed to a missing device. */
static rp_err open_cuda(const rk_engine *e, rk_fleet *v, bool *named_wrong, char *why, size_t why_cap)
{
    rk_device_info there[RK_MAX_DEVICES], chosen[RK_MAX_DEVICES];
    unsigned n = 0, place[RK_MAX_DEVICES], count;
    *named_wrong = false;
    rp_err err = rk_cuda_backend.list(there, RK_MAX_DEVICES, &n, why, why_cap);
    if (err)
        return err;
    err = rk_select(there, n, e->o.devices, place, &count, why, why_cap);
    *named_wrong = err != RP_OK;
    if (err)
        return err;
    for (unsigned i = 0; i < count; i++)
        chosen[i] = there[place[i]];
    return open_devices(e, v, RP_BACKEND_CUDA, chosen, count, why, why_cap);
}

static void stop_devices(rk_fleet *v)
{
    for (unsigned i = 0; i < v->devices; i++)
        rk_device_stop(v->device[i]);
    if (v->helper)
        rk_device_stop(v->helper);
}

static void close_devices(rk_fleet *v)
{
    for (unsigned i = 0; i < v->devices; i++) {
        rk_device_close(v->device[i]);
        free(v->device[i]);
    }
    if (v->helper) {
        rk_device_close(v->helper);
        free(v->helper);
    }
    *v = (rk_fleet){.devices = 0};
}

/* The CPU beside CUDA's devices. Many tasks come at once, so each is cut for few workers. */
static rp_err open_helper(const rk_engine *e, rk_fleet *v, char *why, size_t why_cap)
{
    const rk_device_info info = {.name = "CPU"};
    const size_t used = strlen(why);
    rk_device *d = new_device(e, RP_BACKEND_CPU, &info, 1);
    if (!d) {
        snprintf(why, why_cap, "out of memory");
        return RP_NO_MEMORY;
    }
    d->o.threads = e->o.threads > 0 ? e->o.threads : rk_helper_threads(rk_cpu_cores(), (int)v->devices);
    d->o.cut_for = 1;
    snprintf(why + used, why_cap - used, "; and ");
    rp_err err = rk_device_open(d, 1, why + strlen(why), why_cap - strlen(why));
    if (err) {
        free(d);
        return err;
    }
    rk_device_set_number(d, RK_MAX_DEVICES);
    v->helper = d;
    return RP_OK;
}

/* CUDA and, beside it, the CPU. */
static rp_err open_both(const rk_engine *e, rk_fleet *v, bool *named_wrong, char *why, size_t why_cap)
{
    rp_err err = open_cuda(e, v, named_wrong, why, why_cap);
    if (err || !(err = open_helper(e, v, why, why_cap)))
        return err;
    stop_devices(v);
    close_devices(v);
    return err;
}

/* CUDA if it opens, else the CPU; `why` then says why CUDA did not open and what the CPU is. Unknown device names are an
 * error. */
static rp_err open_any(rk_engine *e, char *why, size_t why_cap)
{
    char no_cuda[80];
    bool named_wrong;
    rp_err err = open_both(e, &e->first, &named_wrong, why, why_cap);
    if (err == RP_OK || named_wrong)
        return err;
    snprintf(no_cuda, sizeof no_cuda, "%.*s", (int)sizeof no_cuda - 1, why);
    err = open_cpus(e, &e->first, NULL, why, why_cap);
    size_t used = strlen(why);
    snprintf(why + used, why_cap - used, "; no CUDA: %s", no_cuda);
    return err;
}

/* ---- devices that join ---- */

bool rk_may_be_early(const rk_options *o)
{
    const bool named = o->devices && o->devices[0] && strcmp(o->devices, "all") != 0;
    return o->backend == 0 && !named && (!rk_cuda_backend.present || rk_cuda_backend.present());
}

/* Opens the CPU, which is the whole engine until the devices join, and works beside them afterwards. */
static rp_err open_stand_in(rk_engine *e, char *why, size_t why_cap)
{
    rp_err err = open_cpus(e, &e->first, NULL, why, why_cap);
    if (err)
        return err;
    e->stand_in = e->first.device[0];
    rk_device_set_number(e->stand_in, RK_MAX_DEVICES);
    e->phase = RK_OPENING;
    return RP_OK;
}

void rk_open_devices(rk_engine *e)
{
    if (!e->stand_in)
        return;
    bool named_wrong; /* none is named */
    e->join_err = open_both(e, &e->joined, &named_wrong, e->join_why, sizeof e->join_why);
    rk_pin_noted(e);
    __atomic_store_n(&e->phase, RK_OPENED, __ATOMIC_RELEASE);
}

bool rk_join(rk_engine *e, rp_err *err, char *why, size_t why_cap)
{
    if (__atomic_load_n(&e->phase, __ATOMIC_ACQUIRE) != RK_OPENED)
        return false;
    *err = e->join_err;
    if (e->join_err) {
        rk_device_set_number(e->stand_in, 0);
        const size_t used = strlen(why);
        snprintf(why + used, why_cap - used, "; no CUDA: %.80s", e->join_why);
    } else {
        snprintf(why, why_cap, "%s", e->join_why);
        __atomic_store_n(&e->now, &e->joined, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&e->phase, RK_SETTLED, __ATOMIC_RELEASE);
    return true;
}

static rp_err open_chosen(rk_engine *e, char *why, size_t why_cap)
{
    char test[80];
    bool named_wrong;
    if (!rk_cpu_self_test(test, sizeof test)) {
        snprintf(why, why_cap, "the CPU self-test failed: %s", test);
        return RP_INTERNAL;
    }
    if (e->o.early && rk_may_be_early(&e->o))
        return open_stand_in(e, why, why_cap);
    switch (e->o.backend) {
    case 0:
        return open_any(e, why, why_cap);
    case RP_BACKEND_CPU:
        return open_cpus(e, &e->first, e->o.devices, why, why_cap);
    case RP_BACKEND_CUDA:
        return open_cuda(e, &e->first, &named_wrong, why, why_cap);
    default:
        snprintf(why, why_cap, "unknown backend code %d", e->o.backend);
        return RP_TYPE;
    }
}

static void fini(rk_engine *e)
{
    rk_noted_pins_fini(&e->noted);
    rk_joints_fini(&e->joints);
    rk_busy_fini(&e->busy);
    pthread_mutex_destroy(&e->open_lock);
    free(e);
}

rp_err rk_open(rk_engine **out, const rk_options *o, char *why, size_t why_cap)
{
    char unread[160];
    if (!why) {
        why = unread;
        why_cap = sizeof unread;
    }
    *out = NULL;
    why[0] = 0;
    rk_engine *e = calloc(1, sizeof *e);
    if (!e) {
        snprintf(why, why_cap, "out of memory");
        return RP_NO_MEMORY;
    }
    e->o = *o;
    rk_busy_init(&e->busy);
    e->o.busy = &e->busy;
    e->now = &e->first;
    rk_joints_init(&e->joints, &e->o);
    pthread_mutex_init(&e->open_lock, NULL);
    rp_err err = open_chosen(e, why, why_cap);
    rk_noted_pins_init(&e->noted, e->stand_in != NULL);
    e->o.devices = NULL; /* the caller's string is valid only during the call */
    if (err) {
        fini(e);
        return err;
    }
    *out = e;
    return RP_OK;
}

void rk_trim(rk_engine *e)
{
    const rk_fleet *v = rk_fleet_of(e);
    for (unsigned i = 0; i < v->devices; i++)
        if (v->device[i]->ops->trim)
            v->device[i]->ops->trim(v->device[i]->impl);
}

/* Devices that have not joined have nothing to finish; rk_close ends them. */
void rk_stop(rk_engine *e)
{
    if (!e || e->stopped)
        return;
    e->stopped = true;
    stop_devices(&e->first);
    if (rk_fleet_of(e) == &e->joined)
        stop_devices(&e->joined);
    rk_joints_drop(&e->joints);
}

void rk_close(rk_engine *e)
{
    if (!e)
        return;
    rk_stop(e);
    if (rk_fleet_of(e) != &e->joined)
        stop_devices(&e->joined);
    close_devices(&e->joined);
    close_devices(&e->first);
    fini(e);
}
