/* Opening and closing an engine: which backend, and which of its devices. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/engine/front.h"
#include "kernels/engine/select.h"

/* A device that is being opened, side by side with others: a context of CUDA takes some 0.15 s. */
typedef struct opening {
    rk_device *d;
    unsigned devices;
    pthread_t thread;
    bool threaded;
    rp_err err;
    char why[160];
} opening;

static void *engine_open_device(void *arg)
{
    opening *x = arg;
    x->err = rk_device_open(x->d, x->devices, x->why, sizeof x->why);
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

/* One opens here, several each in a thread. */
static void open_all(opening *x, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        x[i].threaded = n > 1 && pthread_create(&x[i].thread, NULL, engine_open_device, &x[i]) == 0;
    for (unsigned i = 0; i < n; i++)
        if (x[i].threaded)
            pthread_join(x[i].thread, NULL);
        else
            engine_open_device(&x[i]);
}

/* Those that opened are the engine's; the others are freed, and said to be left out. */
static void keep_open(rk_engine *e, opening *x, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (!x[i].err) {
            e->device[e->devices++] = x[i].d;
            continue;
        }
        if (n > 1)
            rk_log(&e->o, RK_LOG_WARN, "device %d (%s) is left out: %s", x[i].d->info.ordinal, x[i].d->info.name, x[i].why);
        free(x[i].d);
    }
}

/* Numbers are places among those that were kept: nothing runs there so far. */
static void number_devices(rk_engine *e)
{
    for (unsigned i = 0; i < e->devices; i++)
        e->device[i]->number = e->device[i]->tasks.number = i;
}

static void explain_devices(const rk_engine *e, unsigned asked, const char *first, char *why, size_t why_cap)
{
    if (asked == 1)
        snprintf(why, why_cap, "%s", first);
    else
        snprintf(why, why_cap, "%u of %u devices: %.100s, ...", e->devices, asked, first);
}

static rp_err open_devices(rk_engine *e, int backend, const rk_device_info *info, unsigned n, char *why, size_t why_cap)
{
    opening x[RK_MAX_DEVICES] = {{.d = NULL}};
    for (unsigned i = 0; i < n; i++) {
        x[i].d = new_device(e, backend, &info[i], n);
        x[i].devices = n;
        if (!x[i].d) {
            while (i--)
                free(x[i].d);
            snprintf(why, why_cap, "out of memory");
            return RP_NO_MEMORY;
        }
    }
    open_all(x, n);
    keep_open(e, x, n);
    number_devices(e);
    e->backend = backend;
    if (e->devices == 0) {
        snprintf(why, why_cap, "%s", x[0].why);
        return x[0].err;
    }
    unsigned first = 0;
    while (x[first].err)
        first++;
    explain_devices(e, n, x[first].why, why, why_cap);
    return RP_OK;
}

static rp_err open_cpus(rk_engine *e, const char *devices, char *why, size_t why_cap)
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
    return open_devices(e, RP_BACKEND_CPU, info, n, why, why_cap);
}

/* *named_wrong: the option's list is wrong, which is not the lack of a device. */
static rp_err open_cuda(rk_engine *e, bool *named_wrong, char *why, size_t why_cap)
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
    return open_devices(e, RP_BACKEND_CUDA, chosen, count, why, why_cap);
}

/* CUDA if it opens, else the CPU; `why` then says both why not the one and what the other is. Devices with names that CUDA does
 * not know are an error. */
static rp_err open_any(rk_engine *e, char *why, size_t why_cap)
{
    char no_cuda[80];
    bool named_wrong;
    rp_err err = open_cuda(e, &named_wrong, why, why_cap);
    if (err == RP_OK || named_wrong)
        return err;
    snprintf(no_cuda, sizeof no_cuda, "%.*s", (int)sizeof no_cuda - 1, why);
    err = open_cpus(e, NULL, why, why_cap);
    size_t used = strlen(why);
    snprintf(why + used, why_cap - used, "; no CUDA: %s", no_cuda);
    return err;
}

static void close_devices(rk_engine *e)
{
    for (unsigned i = 0; i < e->devices; i++) {
        rk_device_close(e->device[i]);
        free(e->device[i]);
    }
    if (e->helper) {
        rk_device_close(e->helper);
        free(e->helper);
    }
}

/* Beside CUDA's devices. Two threads a device bring data to it, so that they need cores of their own. */
static rp_err open_helper(rk_engine *e, char *why, size_t why_cap)
{
    const rk_device_info info = {.name = "CPU"};
    const size_t used = strlen(why);
    if (!e->o.hybrid)
        return RP_OK;
    rk_device *d = new_device(e, RP_BACKEND_CPU, &info, 1);
    if (!d) {
        snprintf(why, why_cap, "out of memory");
        return RP_NO_MEMORY;
    }
    const int left = rk_cpu_cores() - 2 * (int)e->devices;
    d->number = e->devices;
    d->o.threads = e->o.threads > 0 ? e->o.threads : left > 0 ? left : 1;
    d->o.batch_bytes = 0;
    snprintf(why + used, why_cap - used, "; and ");
    rp_err err = rk_device_open(d, 1, why + strlen(why), why_cap - strlen(why));
    if (err) {
        free(d);
        return err;
    }
    d->tasks.number = d->number;
    e->helper = d;
    return RP_OK;
}

/* CUDA, and with `hybrid` the CPU. */
static rp_err open_named(rk_engine *e, char *why, size_t why_cap)
{
    bool named_wrong;
    rp_err err = open_cuda(e, &named_wrong, why, why_cap);
    if (err || !(err = open_helper(e, why, why_cap)))
        return err;
    rk_stop(e);
    close_devices(e);
    return err;
}

static rp_err open_chosen(rk_engine *e, char *why, size_t why_cap)
{
    char test[80];
    if (!rk_cpu_self_test(test, sizeof test)) {
        snprintf(why, why_cap, "the CPU self-test failed: %s", test);
        return RP_INTERNAL;
    }
    switch (e->o.backend) {
    case 0:
        return open_any(e, why, why_cap);
    case RP_BACKEND_CPU:
        return open_cpus(e, e->o.devices, why, why_cap);
    case RP_BACKEND_CUDA:
        return open_named(e, why, why_cap);
    default:
        snprintf(why, why_cap, "unknown backend code %d", e->o.backend);
        return RP_TYPE;
    }
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
    if (e->o.batch_bytes > RK_MAX_BATCH_BYTES)
        e->o.batch_bytes = RK_MAX_BATCH_BYTES;
    if (e->o.batch_bytes <= e->o.small_bytes) /* those run at once */
        e->o.batch_bytes = 0;
    rk_joints_init(&e->joints, &e->o);
    pthread_mutex_init(&e->open_lock, NULL);
    rp_err err = open_chosen(e, why, why_cap);
    e->o.devices = NULL; /* the caller's */
    if (err) {
        rk_joints_fini(&e->joints);
        pthread_mutex_destroy(&e->open_lock);
        free(e);
        return err;
    }
    *out = e;
    return RP_OK;
}

void rk_trim(rk_engine *e)
{
    for (unsigned i = 0; i < e->devices; i++)
        if (e->device[i]->ops->trim)
            e->device[i]->ops->trim(e->device[i]->impl);
}

void rk_stop(rk_engine *e)
{
    if (!e || e->stopped)
        return;
    e->stopped = true;
    for (unsigned i = 0; i < e->devices; i++)
        rk_device_stop(e->device[i]);
    if (e->helper)
        rk_device_stop(e->helper);
    rk_joints_drop(&e->joints);
}

void rk_close(rk_engine *e)
{
    if (!e)
        return;
    rk_stop(e);
    close_devices(e);
    rk_joints_fini(&e->joints);
    pthread_mutex_destroy(&e->open_lock);
    free(e);
}
