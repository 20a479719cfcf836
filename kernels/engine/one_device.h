/* Inside kernels/: a device of an engine: one backend with its tasks under way and its count of memory. An engine owns its
 * devices (engine.c); devices share nothing. */
#ifndef RK_ONE_DEVICE_H
#define RK_ONE_DEVICE_H

#include "kernels/engine/engine.h"

typedef struct rk_device {
    rk_device_info info;
    rk_options o; /* the engine's, with this device's share of what they divide */
    const rk_backend_ops *ops;
    void *impl;
    int backend; /* rp_backend */
    rk_inflight tasks;
    pthread_mutex_t lock;                           /* of these: */
    uint64_t resident_bytes, resident_cap, imports; /* of rk_memory_new; memories of the others */
} rk_device;

/* Open a device whose options, backend and info are set. Call rk_device_set_number afterwards. Errors: those of rk_open. */
rp_err rk_device_open(rk_device *d, unsigned devices, char *why, size_t why_cap);
void rk_device_stop(rk_device *d);
void rk_device_close(rk_device *d); /* after rk_device_stop */

/* Take the device out of service. Any thread. */
static inline bool rk_device_is_lost(const rk_device *d) { return rk_inflight_lost(&d->tasks); }

/* Set its number among the engine's devices; RK_MAX_DEVICES or more: it is not one of them (the CPU beside GPUs). Any
 * thread. */
static inline unsigned rk_device_number(const rk_device *d) { return rk_inflight_number(&d->tasks); }
static inline void rk_device_set_number(rk_device *d, unsigned n) { __atomic_store_n(&d->tasks.number, n, __ATOMIC_RELAXED); }

/* Can it compute the task? Not every device computes order statistics. */
bool rk_device_takes(const rk_device *d, const rk_task *t);

/* Hand a task to this device until it is polled or handed to `done`. On a lost device it ends at once. */
void rk_device_submit(rk_device *d, rk_task *t, void (*done)(rk_task *t));

/* The same if the device is at rest; false: it is not. */
bool rk_device_submit_alone(rk_device *d, rk_task *t, void (*done)(rk_task *t));

/* The host address of data in the memory of a CPU engine. */
void rk_device_locate(const rk_device *d, rk_task *t);

/* Bytes that rk_device_new may still give. */
uint64_t rk_device_room(rk_device *d);

/* Memory of the device; the caller owns it until rk_device_close_memory. Errors: those of rk_memory_...; open and import need a
 * backend with these calls. */
rp_err rk_device_new(rk_device *d, size_t bytes, rk_memory **m, rp_fault *f);
rp_err rk_device_lend(rk_device *d, void *base, size_t bytes, rk_memory **m, rp_fault *f); /* only for a CPU device */
rp_err rk_device_open_memory(rk_device *d, const uint8_t *handle, rk_memory **m, rp_fault *f);
rp_err rk_device_import(rk_device *d, int fd, size_t bytes, rk_memory **m, rp_fault *f);
void rk_device_close_memory(rk_memory *m);

/* Copy all of rk_device_new's memory to (`out`) or from the host; waits. */
rp_err rk_device_copy(const rk_memory *m, void *host, bool out, rp_fault *f);

void rk_device_stats(rk_device *d, rk_stats *s);

#endif
