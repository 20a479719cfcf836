/* The front of the engines: picks the backend, runs small tasks at once, keeps count of memory.
 *
 * Threads: the owner's thread calls rk_submit, rk_poll, rk_get_stats and rk_close; backend threads call rk_complete
 * (inflight.c); any calls rk_submit_alone and rk_memory_*. What several touch is under `lock`. */
#include "kernels/engine/engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"
#include "kernels/engine/batch.h"
#include "kernels/engine/inflight.h"

/* The probe: quadruples (2^900, k, -2^900, 2^-1074), whose exact sum rounds to the sum of all k. */
enum { PROBE_QUADS = 1024, PROBE_ELEMENTS = 4 * PROBE_QUADS };

struct rk_engine {
    rk_options o;
    const rk_backend_ops *ops;
    void *impl;
    int backend;         /* rp_backend */
    rk_batcher *batcher; /* NULL: no batching */
    bool stopped;
    rk_inflight tasks;
    pthread_mutex_t lock;                           /* of these: */
    uint64_t resident_bytes, resident_cap, imports; /* of rk_memory_new; memories of the others */
    pthread_mutex_t open_lock;                      /* held while the driver opens or closes one of these: */
    rk_memory *opened;                              /* by rk_memory_open */
    double probe_data[PROBE_ELEMENTS];
    double probe_cell;
};

/* ---- open ---- */

/* What the option says, and on a device no more than its slots leave of device_bytes. */
static uint64_t resident_cap(const rk_engine *e)
{
    uint64_t cap = e->o.resident_bytes ? e->o.resident_bytes : e->ops->memory_total(e->impl) / 2;
    if (e->backend != RP_BACKEND_CUDA || !e->o.device_bytes)
        return cap;
    rk_stats s = {0};
    e->ops->stats(e->impl, &s);
    uint64_t left = e->o.device_bytes > s.device_cap ? e->o.device_bytes - s.device_cap : 0;
    return cap < left ? cap : left;
}

static rp_err open_backend(rk_engine *e, int backend, char *why, size_t why_cap)
{
    const rk_backend_ops *ops = backend == RP_BACKEND_CUDA ? &rk_cuda_backend : &rk_cpu_backend;
    rp_err err = ops->open(&e->tasks, &e->o, &e->impl, why, why_cap);
    if (err)
        return err;
    e->ops = ops;
    e->backend = backend;
    e->resident_cap = resident_cap(e);
    return RP_OK;
}

/* CUDA if it opens, else the CPU; `why` then says both why not the one and what the other is. */
static rp_err open_any(rk_engine *e, char *why, size_t why_cap)
{
    char no_cuda[80];
    rp_err err = open_backend(e, RP_BACKEND_CUDA, why, why_cap);
    if (err == RP_OK)
        return RP_OK;
    snprintf(no_cuda, sizeof no_cuda, "%.*s", (int)sizeof no_cuda - 1, why);
    err = open_backend(e, RP_BACKEND_CPU, why, why_cap);
    size_t used = strlen(why);
    snprintf(why + used, why_cap - used, "; no CUDA: %s", no_cuda);
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
    case RP_BACKEND_CUDA:
        return open_backend(e, e->o.backend, why, why_cap);
    default:
        snprintf(why, why_cap, "unknown backend code %d", e->o.backend);
        return RP_TYPE;
    }
}

static rp_err open_batcher(rk_engine *e, char *why, size_t why_cap)
{
    if (e->o.batch_bytes == 0)
        return RP_OK;
    e->batcher = rk_batch_open(e->ops->batch, e->impl, &e->tasks.busy, e->o.batch_bytes, sysconf(_SC_NPROCESSORS_ONLN));
    if (e->batcher)
        return RP_OK;
    e->ops->stop(e->impl);
    e->ops->close(e->impl);
    snprintf(why, why_cap, "no memory or thread for batches");
    return RP_NO_MEMORY;
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
    rk_inflight_init(&e->tasks, &e->o);
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->open_lock, NULL);
    rp_err err = open_chosen(e, why, why_cap);
    if (!err)
        err = open_batcher(e, why, why_cap);
    if (err) {
        rk_inflight_fini(&e->tasks);
        pthread_mutex_destroy(&e->open_lock);
        pthread_mutex_destroy(&e->lock);
        free(e);
        return err;
    }
    *out = e;
    return RP_OK;
}

void rk_trim(rk_engine *e)
{
    if (e->ops->trim)
        e->ops->trim(e->impl);
}

void rk_stop(rk_engine *e)
{
    if (!e || e->stopped)
        return;
    e->stopped = true;
    rk_batch_stop(e->batcher);
    e->ops->stop(e->impl);
    rk_inflight_drop(&e->tasks);
}

void rk_close(rk_engine *e)
{
    if (!e)
        return;
    rk_stop(e);
    rk_batch_close(e->batcher);
    e->ops->close(e->impl);
    rk_inflight_fini(&e->tasks);
    pthread_mutex_destroy(&e->open_lock);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* ---- tasks ---- */

/* Small enough for the submitter's thread? The probe never is: it is there to try the backend. Nor are partial states, where
 * there is a device: what its passes left is joined and finished by its passes. Nor what lies on the device. */
static bool is_small(const rk_engine *e, const rk_task *t)
{
    if (t->fill || (t->memory && e->backend == RP_BACKEND_CUDA))
        return false;
    if (e->backend == RP_BACKEND_CUDA && (t->spec.flags & RP_STATES_IN))
        return false;
    return t->data != e->probe_data && rk_task_size(t) <= e->o.small_bytes;
}

/* Where a CPU finds data in memory of the engine. */
static void locate(const rk_engine *e, rk_task *t)
{
    if (t->memory && !t->fill && e->backend == RP_BACKEND_CPU)
        t->data = (const uint8_t *)t->memory->base + t->offset;
}

bool rk_run_small(rk_engine *e, rk_task *t)
{
    locate(e, t);
    if (!is_small(e, t))
        return false;
    rk_cpu_run(t);
    rk_inflight_small(&e->tasks, t);
    return true;
}

bool rk_submit(rk_engine *e, rk_task *t)
{
    if (rk_run_small(e, t))
        return true;
    rk_inflight_enter(&e->tasks, t);
    e->ops->submit(e->impl, t);
    return false;
}

bool rk_submit_alone(rk_engine *e, rk_task *t, void (*done)(rk_task *t))
{
    if (!rk_inflight_enter_alone(&e->tasks, t, done))
        return false;
    locate(e, t);
    if (!e->ops->begin || !e->ops->begin(e->impl, t))
        e->ops->submit(e->impl, t);
    return true;
}

bool rk_submit_batched(rk_engine *e, rk_task *t, void (*done)(rk_task *t))
{
    return e->batcher && rk_batch_submit(e->batcher, t, done);
}

rk_task *rk_poll(rk_engine *e) { return rk_inflight_poll(&e->tasks); }

bool rk_pin(rk_engine *e, const void *base, size_t bytes) { return e->ops->pin && e->ops->pin(e->impl, base, bytes); }

void rk_unpin(rk_engine *e, const void *base) { e->ops->unpin(e->impl, base); }

/* ---- memory ---- */

/* Count `bytes` more as resident, if they are within the cap. */
static rp_err take_resident(rk_engine *e, size_t bytes, rp_fault *f)
{
    pthread_mutex_lock(&e->lock);
    bool fits = bytes <= e->resident_cap - e->resident_bytes;
    e->resident_bytes += fits ? bytes : 0;
    pthread_mutex_unlock(&e->lock);
    if (fits)
        return RP_OK;
    return rp_fail(f, RP_QUOTA, "resident", e->resident_cap, "no room for %zu more bytes of resident data", bytes);
}

static void give_resident(rk_engine *e, size_t bytes)
{
    pthread_mutex_lock(&e->lock);
    e->resident_bytes -= bytes;
    pthread_mutex_unlock(&e->lock);
}

static void count_imports(rk_engine *e, int more)
{
    pthread_mutex_lock(&e->lock);
    e->imports += (uint64_t)(int64_t)more;
    pthread_mutex_unlock(&e->lock);
}

static rp_err no_memory(rp_fault *f) { return rp_fail(f, RP_NO_MEMORY, "memory", 0, "out of memory"); }

rp_err rk_memory_new(rk_engine *e, size_t bytes, rk_memory **out, rp_fault *f)
{
    rk_memory *m = calloc(1, sizeof *m);
    if (!m)
        return no_memory(f);
    m->bytes = bytes;
    rp_err err = take_resident(e, bytes, f);
    if (err) {
        free(m);
        return err;
    }
    err = e->ops->memory_new(e->impl, m, f);
    if (err) {
        give_resident(e, bytes);
        free(m);
        return err;
    }
    *out = m;
    return RP_OK;
}

rp_err rk_memory_lend(rk_engine *e, void *base, size_t bytes, rk_memory **out, rp_fault *f)
{
    if (e->backend == RP_BACKEND_CUDA)
        return rp_fail(f, RP_TYPE, "device", 0, "this engine computes on a device");
    rk_memory *m = calloc(1, sizeof *m);
    if (!m)
        return no_memory(f);
    rp_err err = take_resident(e, bytes, f);
    if (err) {
        free(m);
        return err;
    }
    m->kind = RK_MEMORY_LENT;
    m->base = base;
    m->bytes = bytes;
    *out = m;
    return RP_OK;
}

rp_err rk_memory_read(rk_engine *e, const rk_memory *m, void *to, rp_fault *f)
{
    if (e->ops->memory_copy)
        return e->ops->memory_copy(e->impl, m, to, true, f);
    memcpy(to, m->base, m->bytes);
    return RP_OK;
}

rp_err rk_memory_write(rk_engine *e, rk_memory *m, const void *from, rp_fault *f)
{
    if (e->ops->memory_copy)
        return e->ops->memory_copy(e->impl, m, (void *)from, false, f);
    memcpy(m->base, from, m->bytes);
    return RP_OK;
}

/* With open_lock: where the memory of this handle is in the list, or would be. */
static rk_memory **find_opened(rk_engine *e, const uint8_t *handle)
{
    rk_memory **at = &e->opened;
    while (*at && memcmp((*at)->handle, handle, RP_DEVICE_HANDLE) != 0)
        at = &(*at)->next;
    return at;
}

/* The backend has opened `m`, or `err` says why not: then it is freed. */
static rp_err count_opened(rk_engine *e, rk_memory *m, rp_err err, rk_memory **out)
{
    if (err) {
        free(m);
        return err;
    }
    count_imports(e, 1);
    *out = m;
    return RP_OK;
}

/* With open_lock. */
static rp_err open_handle(rk_engine *e, const uint8_t *handle, rk_memory **out, rp_fault *f)
{
    rk_memory *m = calloc(1, sizeof *m);
    if (!m)
        return no_memory(f);
    m->kind = RK_MEMORY_OPENED;
    memcpy(m->handle, handle, sizeof m->handle);
    return count_opened(e, m, e->ops->memory_open(e->impl, handle, m, f), out);
}

static rp_err no_device(rp_fault *f)
{
    return rp_fail(f, RP_TYPE, "device", 0, "this engine computes on the CPU: it cannot reach memory on a device");
}

rp_err rk_memory_open(rk_engine *e, const uint8_t handle[RP_DEVICE_HANDLE], rk_memory **out, rp_fault *f)
{
    if (!e->ops->memory_open)
        return no_device(f);
    pthread_mutex_lock(&e->open_lock);
    rk_memory **at = find_opened(e, handle);
    rp_err err = *at ? RP_OK : open_handle(e, handle, at, f);
    if (!err) {
        (*at)->uses++;
        *out = *at;
    }
    pthread_mutex_unlock(&e->open_lock);
    return err;
}

rp_err rk_memory_import(rk_engine *e, int fd, size_t bytes, rk_memory **out, rp_fault *f)
{
    if (!e->ops->memory_import)
        return no_device(f);
    rk_memory *m = calloc(1, sizeof *m);
    if (!m)
        return no_memory(f);
    m->kind = RK_MEMORY_IMPORTED;
    m->bytes = bytes;
    return count_opened(e, m, e->ops->memory_import(e->impl, fd, m, f), out);
}

size_t rk_memory_bytes(const rk_memory *m) { return m->bytes; }

static void close_memory(rk_engine *e, rk_memory *m)
{
    if (m->kind != RK_MEMORY_LENT)
        e->ops->memory_close(e->impl, m);
    if (m->kind == RK_MEMORY_NEW || m->kind == RK_MEMORY_LENT)
        give_resident(e, m->bytes);
    else
        count_imports(e, -1);
    free(m);
}

static void close_opened(rk_engine *e, rk_memory *m)
{
    pthread_mutex_lock(&e->open_lock);
    if (--m->uses == 0) {
        *find_opened(e, m->handle) = m->next;
        close_memory(e, m);
    }
    pthread_mutex_unlock(&e->open_lock);
}

void rk_memory_close(rk_engine *e, rk_memory *m)
{
    if (m && m->kind == RK_MEMORY_OPENED)
        close_opened(e, m);
    else if (m)
        close_memory(e, m);
}

/* ---- health and counters ---- */

void rk_probe(rk_engine *e, rk_task *t)
{
    for (int k = 0; k < PROBE_QUADS; k++) {
        double quad[4] = {0x1p900, k, -0x1p900, 0x1p-1074};
        memcpy(e->probe_data + 4 * k, quad, sizeof quad);
    }
    e->probe_cell = 0;
    memset(t, 0, sizeof *t);
    t->spec = (rp_spec){.op = RP_OP_SUM, .dtype = RP_F64, .out = RP_F64, .rows = 1, .row_len = PROBE_ELEMENTS};
    t->data = e->probe_data;
    t->bytes = sizeof e->probe_data;
    t->cells = &e->probe_cell;
}

bool rk_probe_ok(const rk_task *t)
{
    double want = PROBE_QUADS * (PROBE_QUADS - 1) / 2, got;
    memcpy(&got, t->cells, sizeof got);
    return t->fault.code == RP_OK && got == want;
}

void rk_get_stats(rk_engine *e, rk_stats *s)
{
    memset(s, 0, sizeof *s);
    e->ops->stats(e->impl, s);
    s->backend = e->backend;
    rk_inflight_stats(&e->tasks, s);
    pthread_mutex_lock(&e->lock);
    s->resident_bytes = e->resident_bytes;
    s->resident_cap = e->resident_cap;
    s->imports = e->imports;
    pthread_mutex_unlock(&e->lock);
    if (e->batcher)
        rk_batch_stats(e->batcher, s);
}
