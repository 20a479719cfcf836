#include "kernels/cuda/runtime/backend.cuh"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/engine/select.h"

namespace rk {
namespace {

constexpr int kDefaultSlots = 8;

// ---- open ----

rp_err no_device(char *why, size_t cap, const char *text)
{
    snprintf(why, cap, "%s", text);
    cudaGetLastError();
    return RP_TYPE;
}

u64 machine_bytes() { return (u64)sysconf(_SC_PHYS_PAGES) * (u64)sysconf(_SC_PAGESIZE); }

rp_err start_threads(Backend *b)
{
    if (pthread_create(&b->submitter, NULL, submitter_main, b) != 0)
        return RP_NO_MEMORY;
    if (pthread_create(&b->completer, NULL, completer_main, b) == 0)
        return RP_OK;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_signal(&b->work);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->submitter, NULL);
    return RP_NO_MEMORY;
}

void destroy(Backend *b)
{
    note_closed(b);
    for (int i = 0; i < b->slot_count; i++)
        if (b->slots[i].open)
            slot_close(&b->slots[i]);
    pthread_cond_destroy(&b->flying);
    pthread_cond_destroy(&b->freed);
    pthread_cond_destroy(&b->work);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

// Which device it is: that needs no context.
cudaError_t device_identify(rk_device_info *info, int id)
{
    cudaDeviceProp p;
    TRY_CUDA(cudaGetDeviceProperties(&p, id));
    *info = rk_device_info{};
    info->ordinal = id;
    static_assert(sizeof info->uuid == sizeof p.uuid, "16 bytes");
    memcpy(info->uuid, &p.uuid, sizeof info->uuid);
    rk_uuid_text(info->uuid, strstr(p.name, " MIG ") ? "MIG-" : "GPU-", info->name);
    return cudaSuccess;
}

// This is asked before the daemon serves, so it does not use the runtime, whose first call starts the driver (0.23 s on a host
// of two H200). It is quick if there is no driver's library. The library stays loaded, because the runtime loads it anyway.
bool cuda_present()
{
    int driver = 0;
    return dlopen("libcuda.so.1", RTLD_LAZY) || (cudaDriverGetVersion(&driver) == cudaSuccess && driver != 0);
}

rp_err cuda_list(rk_device_info *out, unsigned cap, unsigned *n, char *why, size_t why_cap)
{
    int count = 0, driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0)
        return no_device(why, why_cap, "no NVIDIA driver");
    cudaError_t err = cudaGetDeviceCount(&count);
    *n = (unsigned)count < cap ? (unsigned)count : cap;
    for (unsigned i = 0; err == cudaSuccess && i < *n; i++)
        err = device_identify(&out[i], (int)i);
    return err == cudaSuccess ? RP_OK : no_device(why, why_cap, cudaGetErrorString(err));
}

rp_err cuda_open(rk_inflight *tasks, const rk_options *o, int ordinal, void **impl, char *why, size_t cap)
{
    Backend *b = (Backend *)calloc(1, sizeof *b);
    if (!b) {
        snprintf(why, cap, "out of memory");
        return RP_NO_MEMORY;
    }
    b->tasks = tasks;
    b->options = o;
    b->tail = &b->head;
    b->slot_limit = o->slots <= 0 ? kDefaultSlots : o->slots < kMaxSlots ? o->slots : kMaxSlots;
    if (!limit_slots(b, o->device_bytes)) {
        snprintf(why, cap, "device memory: %zu bytes are the least", slot_device_bytes());
        free(b);
        return RP_NO_MEMORY;
    }
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->work, NULL);
    pthread_cond_init(&b->freed, NULL);
    pthread_cond_init(&b->flying, NULL);
    cudaSetDevice(ordinal);
    cudaError_t err = device_open(&b->device, ordinal);
    b->device.slow_doubles |= o->sums == RK_SUMS_INTEGERS;
    b->device.long_sums = o->sums == RK_SUMS_LONG;
    if (err == cudaSuccess)
        err = pins_open(&b->pins, ordinal, o->pinned_bytes ? o->pinned_bytes : machine_bytes() / 2);
    if (err == cudaSuccess)
        err = slot_open(&b->slots[0]); // the context and the first task's memory now, not later
    if (err != cudaSuccess) {
        snprintf(why, cap, "device %d: %s", ordinal, cudaGetErrorString(err));
        destroy(b);
        cudaGetLastError();
        return err == cudaErrorMemoryAllocation ? RP_NO_MEMORY : RP_DEVICE_LOST;
    }
    snprintf(b->name, sizeof b->name, "%s (sm_%d%d, %d SMs)", b->device.name, b->device.major, b->device.minor, b->device.sms);
    rp_err started = start_threads(b);
    if (started != RP_OK) {
        snprintf(why, cap, "the threads cannot be started");
        destroy(b);
        return started;
    }
    snprintf(why, cap, "CUDA device %d: %s", ordinal, b->name);
    note_open(b);
    *impl = b;
    return RP_OK;
}

// ---- the rest of the interface ----

void cuda_trim(void *impl)
{
    Backend *b = (Backend *)impl;
    pthread_mutex_lock(&b->lock);
    b->trimming = true;
    pthread_cond_signal(&b->work);
    pthread_mutex_unlock(&b->lock);
}

void cuda_stop(void *impl)
{
    Backend *b = (Backend *)impl;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_signal(&b->work);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->submitter, NULL);
    pthread_join(b->completer, NULL);
}

void cuda_close(void *impl)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    destroy(b);
}

void cuda_stats(void *impl, rk_stats *s)
{
    Backend *b = (Backend *)impl;
    pthread_mutex_lock(&b->lock);
    snprintf(s->device, sizeof s->device, "%s", b->name);
    s->memory_peak = b->device.peak;
    s->lost = b->lost;
    s->slots = (u64)b->slot_count;
    s->slots_busy = (u64)b->in_flight;
    s->busy_ns = b->busy_ns;
    for (int i = 0; i < b->slot_count; i++) {
        s->device_bytes += __atomic_load_n(&b->slots[i].device_bytes, __ATOMIC_RELAXED);
        s->pinned_bytes += __atomic_load_n(&b->slots[i].pinned_bytes, __ATOMIC_RELAXED);
    }
    size_t pinned = kSlotBytes + kMappedCells + sizeof(u64) + RP_MAX_DATA;
    s->device_cap = (u64)b->slot_limit * slot_device_bytes();
    s->pinned_cap = (u64)b->slot_limit * pinned;
    s->locked_bytes = pins_bytes(&b->pins);
    s->locked_cap = b->pins.cap;
    pthread_mutex_unlock(&b->lock);
}

uint64_t cuda_memory_total(void *impl) { return ((Backend *)impl)->device.bytes; }

} // namespace
} // namespace rk

extern "C" const rk_backend_ops rk_cuda_backend = {
    .present = rk::cuda_present,
    .list = rk::cuda_list,
    .open = rk::cuda_open,
    .submit = rk::cuda_submit,
    .begin = rk::cuda_begin,
    .selects = rk::cuda_selects,
    .trim = rk::cuda_trim,
    .stop = rk::cuda_stop,
    .close = rk::cuda_close,
    .stats = rk::cuda_stats,
    .pin = rk::cuda_pin,
    .unpin = rk::cuda_unpin,
    .memory_new = rk::cuda_memory_new,
    .memory_open = rk::cuda_memory_open,
    .memory_import = rk::cuda_memory_import,
    .settle = rk::cuda_settle,
    .memory_copy = rk::cuda_memory_copy,
    .memory_close = rk::cuda_memory_close,
    .memory_total = rk::cuda_memory_total,
};
