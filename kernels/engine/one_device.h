/* Inside kernels/: a device of an engine: one backend, with what is under way there, its batches and the count of its memory.
 * An engine owns its devices (engine.c); nothing of a device is shared with another one. */
#ifndef RK_ONE_DEVICE_H
#define RK_ONE_DEVICE_H

#include "kernels/engine/batch.h"
#include "kernels/engine/engine.h"

typedef struct rk_device {
    rk_device_info info;
    rk_options o; /* the engine's, with this device's share of what they divide */
    const rk_backend_ops *ops;
    void *impl;
    int backend;         /* rp_backend */
    rk_batcher *batcher; /* NULL: no batching */
    rk_inflight tasks;
    pthread_mutex_t lock;                           /* of these: */
    uint64_t resident_bytes, resident_cap, imports; /* of rk_memory_new; memories of the others */
} rk_device;

/* Open one of `devices`, as its options, backend and info say, which are set; rk_device_set_number follows. Errors as of
 * rk_open. */
rp_err rk_device_open(rk_device *d, unsigned devices, char *why, size_t why_cap);
void rk_device_stop(rk_device *d);
void rk_device_close(rk_device *d); /* after rk_device_stop */

/* It takes nothing any more. Any thread. */
static inline bool rk_device_is_lost(const rk_device *d) { return rk_inflight_lost(&d->tasks); }

/* Its number among the engine's devices; RK_MAX_DEVICES or more: it is beside them. Any thread. */
static inline unsigned rk_device_number(const rk_device *d) { return rk_inflight_number(&d->tasks); }
static inline void rk_device_set_number(rk_device *d, unsigned n) { __atomic_store_n(&d->tasks.number, n, __ATOMIC_RELAXED); }

/* The task is this device's, until it is polled or handed to `done`. On a lost device it ends at once. */
void rk_device_submit(rk_device *d, rk_task *t, void (*done)(rk_task *t));

/* ... if the device is at rest. */
bool rk_device_submit_alone(rk_device *d, rk_task *t, void (*done)(rk_task *t));

/* Where a CPU finds data in memory of the engine. */
void rk_device_locate(const rk_device *d, rk_task *t);

/* Bytes that rk_device_new may still give. */
uint64_t rk_device_room(rk_device *d);

/* Memory of the device; the caller's until rk_device_close_memory. Errors as of rk_memory_...; open and import: the backend has
 * them. */
rp_err rk_device_new(rk_device *d, size_t bytes, rk_memory **m, rp_fault *f);
rp_err rk_device_lend(rk_device *d, void *base, size_t bytes, rk_memory **m, rp_fault *f); /* of a device that is a CPU */
rp_err rk_device_open_memory(rk_device *d, const uint8_t *handle, rk_memory **m, rp_fault *f);
rp_err rk_device_import(rk_device *d, int fd, size_t bytes, rk_memory **m, rp_fault *f);
void rk_device_close_memory(rk_memory *m);

/* All of memory that is one's own, to (`out`) or from the host; waits. */
rp_err rk_device_copy(const rk_memory *m, void *host, bool out, rp_fault *f);

void rk_device_stats(rk_device *d, rk_stats *s);

#endif
