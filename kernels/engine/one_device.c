#include "kernels/engine/one_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- open, stop, close ---- */

/* The option's value; on a GPU at most what the slots leave of device_bytes. The CPU's devices share one memory. */
static uint64_t resident_cap(const rk_device *d, unsigned devices)
{
    const uint64_t half = d->ops->memory_total(d->impl) / 2;
    uint64_t cap = d->o.resident_bytes ? d->o.resident_bytes : d->backend == RP_BACKEND_CUDA ? half : half / devices;
    if (d->backend != RP_BACKEND_CUDA || !d->o.device_bytes)
        return cap;
    rk_stats s = {0};
    d->ops->stats(d->impl, &s);
    uint64_t left = d->o.device_bytes > s.device_cap ? d->o.device_bytes - s.device_cap : 0;
    return cap < left ? cap : left;
}

static void fini(rk_device *d)
{
    rk_inflight_fini(&d->tasks);
    pthread_mutex_destroy(&d->lock);
}

rp_err rk_device_open(rk_device *d, unsigned devices, char *why, size_t why_cap)
{
    rk_inflight_init(&d->tasks, &d->o);
    d->tasks.rate = d->backend == RP_BACKEND_CUDA ? d->o.device_rate / devices : d->o.cpu_rate;
    pthread_mutex_init(&d->lock, NULL);
    rp_err err = d->ops->open(&d->tasks, &d->o, d->info.ordinal, &d->impl, why, why_cap);
    if (err)
        fini(d);
    else
        d->resident_cap = resident_cap(d, devices);
    return err;
}

void rk_device_stop(rk_device *d)
{
    d->ops->stop(d->impl);
    rk_inflight_drop(&d->tasks);
}

void rk_device_close(rk_device *d)
{
    d->ops->close(d->impl);
    fini(d);
}

/* ---- tasks ---- */
void rk_device_locate(const rk_device *d, rk_task *t)
{
    if (t->memory && !t->fill && d->backend == RP_BACKEND_CPU)
        t->data = (const uint8_t *)t->memory->base + t->offset;
}

/* End a task that came in for a lost device. */
static void end_lost(rk_device *d, rk_task *t)
{
    t->backend = (uint8_t)d->backend;
    t->start_ns = rk_now_ns();
    t->copy_ns = t->compute_ns = 0;
    rp_fail(&t->fault, RP_DEVICE_LOST, "device", 0, "device %d (%s) has failed", d->info.ordinal, d->info.name);
    rk_complete(&d->tasks, t);
}

bool rk_device_takes(const rk_device *d, const rk_task *t)
{
    return t->fill || !rp_needs_all(&t->spec) || (d->ops->selects && d->ops->selects(t));
}

/* A task that the device cannot compute. */
static void end_refused(rk_device *d, rk_task *t)
{
    const rk_task *asked = t;
    while (asked->whole)
        asked = asked->whole;
    rk_cpu_begin(t);
    t->compute_ns = 0;
    rp_fail(&t->fault, RP_TYPE, "op", 0, "a device of this daemon does not compute %s of these data%s",
            rp_op_name(asked->spec.op), t->spec.flags & RP_KEYS ? " by key" : "");
    t->fault.index = RP_NO_INDEX;
    rk_complete(&d->tasks, t);
}

void rk_device_submit(rk_device *d, rk_task *t, void (*done)(rk_task *t))
{
    rk_inflight_enter(&d->tasks, t, done);
    rk_device_locate(d, t);
    if (rk_device_is_lost(d))
        end_lost(d, t);
    else if (!rk_device_takes(d, t))
        end_refused(d, t);
    else
        d->ops->submit(d->impl, t);
}

bool rk_device_submit_alone(rk_device *d, rk_task *t, void (*done)(rk_task *t))
{
    if (!rk_device_takes(d, t) || !rk_inflight_enter_alone(&d->tasks, t, done))
        return false;
    rk_device_locate(d, t);
    if (rk_device_is_lost(d))
        end_lost(d, t);
    else if (!d->ops->begin || !d->ops->begin(d->impl, t))
        d->ops->submit(d->impl, t);
    return true;
}

/* ---- memory ---- */
static rp_err no_memory(rp_fault *f) { return rp_fail(f, RP_NO_MEMORY, "memory", 0, "out of memory"); }

static rk_memory *new_memory(rk_device *d, rk_memory_kind kind, size_t bytes)
{
    rk_memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->kind = kind;
    m->device = d;
    m->bytes = bytes;
    return m;
}

uint64_t rk_device_room(rk_device *d)
{
    pthread_mutex_lock(&d->lock);
    uint64_t room = d->resident_cap - d->resident_bytes;
    pthread_mutex_unlock(&d->lock);
    return room;
}

/* Count `bytes` more as resident, if the cap allows it. */
static rp_err take_resident(rk_device *d, size_t bytes, rp_fault *f)
{
    pthread_mutex_lock(&d->lock);
    bool fits = bytes <= d->resident_cap - d->resident_bytes;
    d->resident_bytes += fits ? bytes : 0;
    pthread_mutex_unlock(&d->lock);
    if (fits)
        return RP_OK;
    return rp_fail(f, RP_QUOTA, "resident", d->resident_cap, "no room for %zu more bytes of resident data", bytes);
}

static void give_resident(rk_device *d, size_t bytes)
{
    pthread_mutex_lock(&d->lock);
    d->resident_bytes -= bytes;
    pthread_mutex_unlock(&d->lock);
}

static void count_imports(rk_device *d, int more)
{
    pthread_mutex_lock(&d->lock);
    d->imports += (uint64_t)(int64_t)more;
    pthread_mutex_unlock(&d->lock);
}

rp_err rk_device_new(rk_device *d, size_t bytes, rk_memory **out, rp_fault *f)
{
    rk_memory *m = new_memory(d, RK_MEMORY_NEW, bytes);
    if (!m)
        return no_memory(f);
    rp_err err = take_resident(d, bytes, f);
    if (!err && (err = d->ops->memory_new(d->impl, m, f)))
        give_resident(d, bytes);
    if (err)
        free(m);
    else
        *out = m;
    return err;
}

rp_err rk_device_lend(rk_device *d, void *base, size_t bytes, rk_memory **out, rp_fault *f)
{
    rk_memory *m = new_memory(d, RK_MEMORY_LENT, bytes);
    if (!m)
        return no_memory(f);
    m->base = base;
    rp_err err = take_resident(d, bytes, f);
    if (err)
        free(m);
    else
        *out = m;
    return err;
}

rp_err rk_device_copy(const rk_memory *m, void *host, bool out, rp_fault *f)
{
    const rk_device *d = m->device;
    if (d->ops->memory_copy)
        return d->ops->memory_copy(d->impl, m, host, out, f);
    memcpy(out ? host : m->base, out ? m->base : host, m->bytes);
    return RP_OK;
}

/* The backend has opened `m`; or `err` says why not, and `m` is freed. */
static rp_err count_opened(rk_memory *m, rp_err err, rk_memory **out)
{
    if (err) {
        free(m);
        return err;
    }
    count_imports(m->device, 1);
    *out = m;
    return RP_OK;
}

rp_err rk_device_open_memory(rk_device *d, const uint8_t *handle, rk_memory **out, rp_fault *f)
{
    rk_memory *m = new_memory(d, RK_MEMORY_OPENED, 0);
    if (!m)
        return no_memory(f);
    memcpy(m->handle, handle, sizeof m->handle);
    return count_opened(m, d->ops->memory_open(d->impl, handle, m, f), out);
}

rp_err rk_device_import(rk_device *d, int fd, size_t bytes, rk_memory **out, rp_fault *f)
{
    rk_memory *m = new_memory(d, RK_MEMORY_IMPORTED, bytes);
    if (!m)
        return no_memory(f);
    return count_opened(m, d->ops->memory_import(d->impl, fd, m, f), out);
}

void rk_device_close_memory(rk_memory *m)
{
    rk_device *d = m->device;
    if (m->kind != RK_MEMORY_LENT)
        d->ops->memory_close(d->impl, m);
    if (m->kind == RK_MEMORY_NEW || m->kind == RK_MEMORY_LENT)
        give_resident(d, m->bytes);
    else
        count_imports(d, -1);
    free(m);
}

/* ---- counters ---- */
void rk_device_stats(rk_device *d, rk_stats *s)
{
    memset(s, 0, sizeof *s);
    d->ops->stats(d->impl, s);
    s->backend = d->backend;
    s->devices = 1;
    s->lost = s->lost || rk_inflight_lost(&d->tasks);
    s->devices_lost = s->lost;
    s->ordinal = d->info.ordinal;
    snprintf(s->uuid, sizeof s->uuid, "%s", d->info.name);
    rk_inflight_stats(&d->tasks, s);
    *(d->backend == RP_BACKEND_CUDA ? &s->device_rate : &s->cpu_rate) = (uint64_t)(rk_inflight_rate(&d->tasks) * 1e9);
    pthread_mutex_lock(&d->lock);
    s->resident_bytes = d->resident_bytes;
    s->resident_cap = d->resident_cap;
    s->imports = d->imports;
    pthread_mutex_unlock(&d->lock);
}
