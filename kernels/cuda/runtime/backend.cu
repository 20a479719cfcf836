// The CUDA backend behind kernels/kernels.h.
//
// Threads. The submitter takes tasks from the queue in order, waits for a free slot, copies the data into its staging
// memory and enqueues the chain. The completer watches the events of slots in flight, hands cells back and frees slots. The
// owner's thread only queues. A task that is alone and takes nothing but launches is launched by the thread that brings it, in
// the first slot: waking the submitter would take as long as launching. Who launches has taken the slot, under `lock`, as are
// the queue and `lost`.
//
// Tasks larger than a slot are cut by chunking.cu; the submitter feeds the parts like tasks. A part that joins states
// becomes ready when the others are done, so the completer puts the split back at the head of the queue.
//
// Memory. Slots are opened when they are needed, lowest first, so the open ones are the first ones. When there is no memory
// for another one, the open ones have to do, until the pool is trimmed: then all but the first are closed.
//
// Errors. Out of memory is the task's own. Anything else from CUDA is taken as the context's end: `lost` is set, every
// task answers DEVICE_LOST, and the daemon exits to be restarted (a poisoned context never recovers).
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/runtime/batch.h"
#include "kernels/cuda/runtime/chunking.h"
#include "kernels/cuda/runtime/memory.cuh"
#include "kernels/cuda/runtime/pins.cuh"
#include "kernels/cuda/runtime/slot.cuh"

namespace rk {
namespace {

constexpr int kDefaultSlots = 8, kMaxSlots = 64;
constexpr size_t kLeastChunk = 256 << 10; // staging is made smaller, down to this, where memory is short; nobody gets less
// How the completer waits for the device: it watches without a pause for about as long as 1 GiB takes on an H100, then looks
// every kNapNs, so that some 10 us are lost only of what takes longer. Sleeping in cudaEventSynchronize took 0.1 s a call on a
// virtual machine with an H100 (2026-11-21).
constexpr u64 kWatchNs = 500000;
constexpr long kNapNs = 20000;
constexpr u64 kLingerNs = 100000; // after a batch
// Large copies on the bus at a time: of 4 MiB each two take 52 GB/s of it, one 44, three 49, four 48 (H100, 2026-11-21).
constexpr int kLargeCopies = 2;

struct Backend {
    rk_inflight *tasks;
    const rk_options *options;
    Device device;
    char name[96];
    size_t chunk_bytes;
    int slot_count, slot_limit; // slots that may be open now; at best
    Slot slots[kMaxSlots];
    bool taken[kMaxSlots]; // of these: from before the launch until the landing
    Pins pins;
    BatchFlight batch[RK_BATCH_FLIGHTS]; // memory NULL: no batches

    pthread_t submitter, completer;
    pthread_mutex_t lock;
    pthread_cond_t work;   // the queue, or the closing flag, changed: submitter
    pthread_cond_t freed;  // a slot was given back: submitter
    pthread_cond_t flying; // a slot was launched, or closing: completer
    rk_task *head, **tail;
    int in_flight;
    bool closing, trimming, submitter_gone, lost;
    u64 busy_ns;
};

void queue_back(Backend *b, rk_task *t)
{
    t->next = NULL;
    *b->tail = t;
    b->tail = &t->next;
}

void queue_front(Backend *b, rk_task *t)
{
    t->next = b->head;
    b->head = t;
    if (!t->next)
        b->tail = &t->next;
}

void device_lost(Backend *b, cudaError_t err, const char *where)
{
    pthread_mutex_lock(&b->lock);
    bool first = !b->lost;
    b->lost = true;
    pthread_mutex_unlock(&b->lock);
    if (first)
        rk_log(b->options, RK_LOG_ERROR, "CUDA failed while %s: %s (%s); the context is given up", where, cudaGetErrorName(err),
               cudaGetErrorString(err));
}

bool is_lost(Backend *b)
{
    pthread_mutex_lock(&b->lock);
    bool lost = b->lost;
    pthread_mutex_unlock(&b->lock);
    return lost;
}

void fail(Backend *b, rk_task *t, cudaError_t err, const char *where)
{
    t->backend = RP_BACKEND_CUDA;
    cudaGetLastError(); // clear what can be cleared
    if (err == cudaErrorMemoryAllocation) {
        rp_fail(&t->fault, RP_NO_MEMORY, "device", 0, "out of device or pinned memory");
        return;
    }
    device_lost(b, err, where);
    rp_fail(&t->fault, RP_DEVICE_LOST, "device", 0, "the device failed; repeat the request");
}

// A task or part is finished: parts report to their split, whole tasks to the engine.
void complete(Backend *b, rk_task *t)
{
    Split *s = (Split *)t->impl;
    if (!s) {
        rk_complete(b->tasks, t);
        return;
    }
    rk_task *parent = NULL;
    pthread_mutex_lock(&b->lock);
    split_done(s, t);
    if (split_finished(s)) {
        parent = split_close(s);
    } else if (rk_task *join = split_join(s)) {
        queue_front(b, join);
        pthread_cond_signal(&b->work);
    }
    pthread_mutex_unlock(&b->lock);
    if (parent) {
        parent->impl = NULL;
        rk_complete(b->tasks, parent);
    }
}

// ---- slots ----

// With the lock: take the first free one of the first `n`. NULL: there is none.
Slot *take_of(Backend *b, int n)
{
    int i = 0;
    while (i < n && b->taken[i])
        i++;
    if (i == n)
        return NULL;
    b->taken[i] = true;
    return &b->slots[i];
}

// With the lock.
void give_back(Backend *b, const Slot *s)
{
    b->taken[s - b->slots] = false;
    pthread_cond_signal(&b->freed);
}

// The task, launched in a slot that was taken, or not because of `err`.
void take_off(Backend *b, Slot *s, rk_task *t, cudaError_t err)
{
    pthread_mutex_lock(&b->lock);
    if (err == cudaSuccess) {
        s->task = t;
        b->in_flight++;
        pthread_cond_signal(&b->flying);
    } else {
        give_back(b, s);
    }
    pthread_mutex_unlock(&b->lock);
    if (err == cudaSuccess)
        return;
    fail(b, t, err, "submitting a task");
    complete(b, t);
}

void start(rk_task *t)
{
    t->backend = RP_BACKEND_CUDA;
    t->start_ns = rk_now_ns();
    t->copy_ns = t->compute_ns = 0;
}

// ---- submitter ----

Slot *take_slot(Backend *b)
{
    Slot *s;
    pthread_mutex_lock(&b->lock);
    while (!(s = take_of(b, b->slot_count)))
        pthread_cond_wait(&b->freed, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return s;
}

// The memory for another slot is not there: do with those that are. False: there is none.
bool do_with_fewer(Backend *b, const Slot *missing)
{
    int open = (int)(missing - b->slots);
    if (open == 0)
        return false;
    cudaGetLastError();
    pthread_mutex_lock(&b->lock);
    b->slot_count = open;
    give_back(b, missing);
    pthread_mutex_unlock(&b->lock);
    rk_log(b->options, RK_LOG_WARN, "memory is short: %d of %d slots have to do", open, b->slot_limit);
    return true;
}

// The slot that was taken, opened. The completer and who asks for counters look at slots meanwhile.
cudaError_t open_taken(Backend *b, Slot *s)
{
    Slot fresh;
    TRY_CUDA(slot_open(&fresh, b->chunk_bytes));
    pthread_mutex_lock(&b->lock);
    *s = fresh;
    pthread_mutex_unlock(&b->lock);
    return cudaSuccess;
}

void close_idle(Backend *b, Slot *s)
{
    pthread_mutex_lock(&b->lock);
    Slot old = *s;
    *s = Slot{};
    pthread_mutex_unlock(&b->lock);
    slot_close(&old);
}

Slot *open_slot(Backend *b, cudaError_t *err)
{
    for (;;) {
        Slot *s = take_slot(b);
        *err = s->open ? cudaSuccess : open_taken(b, s);
        if (*err != cudaErrorMemoryAllocation || !do_with_fewer(b, s))
            return s;
    }
}

// With the lock.
int large_copies(Backend *b)
{
    int n = 0;
    for (Slot *s = b->slots; s < b->slots + b->slot_limit; s++) {
        if (!s->task || !s->copies_much)
            continue;
        s->copies_much = cudaEventQuery(s->copied) == cudaErrorNotReady;
        n += s->copies_much;
    }
    cudaGetLastError(); // it is no error to be found later
    return n;
}

// It takes some 80 us, too short for a nap, during which the bus is busy with the other copy.
void wait_for_bus(Backend *b)
{
    for (bool full = true; full;) {
        pthread_mutex_lock(&b->lock);
        full = large_copies(b) >= kLargeCopies;
        pthread_mutex_unlock(&b->lock);
        if (full)
            sched_yield(); // others want the lock
    }
}

// Are the partial states that it brings possible? Else its fault says why not.
bool states_fine(rk_task *t) { return t->fill || !(t->spec.flags & RP_STATES_IN) || rk_check_states(t) == RP_OK; }

void run(Backend *b, rk_task *t)
{
    start(t);
    if (is_lost(b)) {
        fail(b, t, cudaErrorUnknown, "lost already");
        complete(b, t);
        return;
    }
    if (!states_fine(t)) {
        complete(b, t);
        return;
    }
    cudaError_t err;
    Slot *s = open_slot(b, &err);
    if (slot_copies_much(t))
        wait_for_bus(b);
    if (err == cudaSuccess)
        err = slot_launch(s, &b->device, t, pins_hold(&b->pins, t->data, t->bytes));
    take_off(b, s, t, err);
}

// A task of any size, or a part that the completer put back.
void run_any(Backend *b, rk_task *t)
{
    if (t->impl || t->bytes <= b->chunk_bytes || (t->memory && !t->fill)) {
        run(b, t);
        return;
    }
    if (!t->fill && t->spec.flags & (RP_MASK | RP_OFFSETS | RP_COLUMNS)) { // not to be cut. Rare: memory was short for slots
        rk_cpu_run(t);
        complete(b, t);
        return;
    }
    start(t);
    Split *s = states_fine(t) ? split_open(t, b->chunk_bytes) : NULL;
    if (!s) {
        complete(b, t);
        return;
    }
    for (bool more = true; more;) { // once the last part runs, the completer may finish and free the split
        pthread_mutex_lock(&b->lock);
        rk_task *part = split_next(s, &more);
        pthread_mutex_unlock(&b->lock);
        run(b, part);
    }
}

// Closing: tasks never begun are dropped; a split whose joining part waits goes with it.
void drop_queue(Backend *b)
{
    for (rk_task *t = b->head, *next; t; t = next) {
        next = t->next;
        if (t->impl)
            split_close((Split *)t->impl); // and `t`, which is part of it
    }
}

// Nothing is queued: unless something flies, close all slots but the first.
void trim(Backend *b)
{
    pthread_mutex_lock(&b->lock);
    bool idle = b->in_flight == 0;
    b->trimming = false;
    pthread_mutex_unlock(&b->lock);
    if (!idle)
        return;
    for (int i = 1; i < b->slot_count; i++)
        if (b->slots[i].open)
            close_idle(b, &b->slots[i]);
    pthread_mutex_lock(&b->lock);
    b->slot_count = b->slot_limit;
    pthread_mutex_unlock(&b->lock);
}

void *submitter_main(void *arg)
{
    Backend *b = (Backend *)arg;
    cudaSetDevice(b->device.id);
    for (;;) {
        pthread_mutex_lock(&b->lock);
        while (!b->head && !b->closing && !b->trimming)
            pthread_cond_wait(&b->work, &b->lock);
        bool closing = b->closing;
        rk_task *t = closing ? NULL : b->head;
        if (t) {
            b->head = t->next;
            if (!b->head)
                b->tail = &b->head;
        }
        pthread_mutex_unlock(&b->lock);
        if (closing)
            break;
        if (t)
            run_any(b, t);
        else
            trim(b);
    }
    pthread_mutex_lock(&b->lock);
    b->submitter_gone = true;
    pthread_cond_signal(&b->flying);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

// ---- completer ----

void land(Backend *b, Slot *s, cudaError_t err)
{
    rk_task *t = s->task;
    if (err == cudaSuccess)
        err = slot_finish(s, &b->device);
    if (err != cudaSuccess)
        fail(b, t, err, "running a task");
    pthread_mutex_lock(&b->lock);
    b->busy_ns += t->copy_ns + t->compute_ns;
    s->task = NULL;
    b->in_flight--;
    give_back(b, s);
    pthread_mutex_unlock(&b->lock);
    complete(b, t);
}

// Wait until something is in flight. False: never again.
bool wait_for_flight(Backend *b)
{
    pthread_mutex_lock(&b->lock);
    while (b->in_flight == 0 && !b->submitter_gone)
        pthread_cond_wait(&b->flying, &b->lock);
    bool any = b->in_flight > 0;
    pthread_mutex_unlock(&b->lock);
    return any;
}

// Land every slot that is done. A slot's task is set only after its events were recorded, so querying them is
// meaningful.
bool land_ready(Backend *b)
{
    bool any = false;
    for (int i = 0; i < b->slot_limit; i++) {
        Slot *s = &b->slots[i];
        pthread_mutex_lock(&b->lock);
        bool flying = s->task != NULL;
        pthread_mutex_unlock(&b->lock);
        if (!flying)
            continue;
        cudaError_t err = cudaEventQuery(s->done);
        if (err == cudaErrorNotReady) {
            cudaGetLastError(); // it is no error to be found later, by a launch that explains a fault
            continue;
        }
        land(b, s, err);
        any = true;
    }
    return any;
}

void *completer_main(void *arg)
{
    Backend *b = (Backend *)arg;
    cudaSetDevice(b->device.id);
    prctl(PR_SET_TIMERSLACK, 1000ul); // ns; by default a nap may last 50 us longer
    const struct timespec nap = {0, kNapNs};
    while (wait_for_flight(b)) {
        u64 since = rk_now_ns();
        while (!land_ready(b))
            if (rk_now_ns() - since > kWatchNs)
                nanosleep(&nap, NULL);
    }
    return NULL;
}

// ---- batches: the front's threads launch and land them ----

void cuda_batch_launch(void *impl, unsigned flight, rk_task *tasks)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id); // whatever thread this is
    batch_launch(&b->batch[flight], tasks);
}

bool cuda_batch_landed(void *impl, unsigned flight, rk_task *tasks, bool closely)
{
    Backend *b = (Backend *)impl;
    cudaError_t err = batch_landed(&b->batch[flight], closely);
    if (err == cudaErrorNotReady)
        return false;
    if (err == cudaSuccess)
        batch_finish(&b->batch[flight], tasks);
    for (rk_task *t = err == cudaSuccess ? NULL : tasks; t; t = t->next)
        fail(b, t, err, "running small tasks");
    return true;
}

constexpr rk_batch_ops kBatchOps = {batch_fits, cuda_batch_launch, cuda_batch_landed, kLingerNs, RK_BATCH_FLIGHTS};

// ---- the interface ----

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
    for (int i = 0; i < b->slot_count; i++)
        if (b->slots[i].open)
            slot_close(&b->slots[i]);
    for (BatchFlight &f : b->batch)
        batch_close(&f);
    pthread_cond_destroy(&b->flying);
    pthread_cond_destroy(&b->freed);
    pthread_cond_destroy(&b->work);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

size_t slot_device_bytes(const Backend *b) { return b->chunk_bytes + chain_scratch_bytes() + RP_MAX_DATA; }

// The first slot: the context and the first task's memory now, not later. Smaller chunks where there is little.
cudaError_t open_first(Backend *b)
{
    cudaError_t err;
    while ((err = slot_open(&b->slots[0], b->chunk_bytes)) == cudaErrorMemoryAllocation && b->chunk_bytes / 2 >= kLeastChunk) {
        cudaGetLastError();
        b->chunk_bytes /= 2;
    }
    return err;
}

// As many slots as may be had of `bytes` of device memory; 0: any number. False: not even one.
bool limit_slots(Backend *b, u64 bytes)
{
    u64 most = bytes ? bytes / slot_device_bytes(b) : kMaxSlots;
    if (most < (u64)b->slot_limit)
        b->slot_limit = (int)most;
    b->slot_count = b->slot_limit;
    return most > 0;
}

rp_err cuda_open(rk_inflight *tasks, const rk_options *o, void **impl, char *why, size_t cap)
{
    int count = 0, driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0)
        return no_device(why, cap, "no NVIDIA driver");
    cudaError_t err = cudaGetDeviceCount(&count);
    if (err != cudaSuccess)
        return no_device(why, cap, cudaGetErrorString(err));
    if (o->device < 0 || o->device >= count) {
        snprintf(why, cap, "no device %d (%d found)", o->device, count);
        return RP_TYPE;
    }
    Backend *b = (Backend *)calloc(1, sizeof *b);
    if (!b) {
        snprintf(why, cap, "out of memory");
        return RP_NO_MEMORY;
    }
    b->tasks = tasks;
    b->options = o;
    b->tail = &b->head;
    b->chunk_bytes = o->chunk_bytes == 0 ? RP_MAX_DATA : o->chunk_bytes < kLeastChunk ? kLeastChunk : o->chunk_bytes;
    b->slot_limit = o->slots <= 0 ? kDefaultSlots : o->slots < kMaxSlots ? o->slots : kMaxSlots;
    if (!limit_slots(b, o->device_bytes)) {
        snprintf(why, cap, "device memory: %zu bytes are the least", slot_device_bytes(b));
        free(b);
        return RP_NO_MEMORY;
    }
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->work, NULL);
    pthread_cond_init(&b->freed, NULL);
    pthread_cond_init(&b->flying, NULL);
    cudaSetDevice(o->device);
    err = device_open(&b->device, o->device);
    b->device.slow_doubles |= o->sums == RK_SUMS_INTEGERS;
    b->device.long_sums = o->sums == RK_SUMS_LONG;
    if (err == cudaSuccess)
        err = pins_open(&b->pins, o->device, o->pinned_bytes ? o->pinned_bytes : machine_bytes() / 2);
    if (err == cudaSuccess)
        err = open_first(b);
    for (BatchFlight &f : b->batch)
        if (err == cudaSuccess && o->batch_bytes)
            err = batch_open(&f);
    if (err != cudaSuccess) {
        snprintf(why, cap, "device %d: %s", o->device, cudaGetErrorString(err));
        destroy(b);
        cudaGetLastError();
        return err == cudaErrorMemoryAllocation ? RP_NO_MEMORY : RP_DEVICE_LOST;
    }
    snprintf(b->name, sizeof b->name, "%s (sm_%d%d, %d SMs)", b->device.name, b->device.major, b->device.minor, b->device.sms);
    rp_err started = start_threads(b);
    if (started != RP_OK) {
        snprintf(why, cap, "cannot start threads");
        destroy(b);
        return started;
    }
    snprintf(why, cap, "CUDA device %d: %s", o->device, b->name);
    *impl = b;
    return RP_OK;
}

void cuda_submit(void *impl, rk_task *t)
{
    Backend *b = (Backend *)impl;
    pthread_mutex_lock(&b->lock);
    queue_back(b, t);
    pthread_cond_signal(&b->work);
    pthread_mutex_unlock(&b->lock);
}

// In the first slot, which is never closed.
bool cuda_begin(void *impl, rk_task *t)
{
    Backend *b = (Backend *)impl;
    if (!slot_only_launches(t))
        return false;
    pthread_mutex_lock(&b->lock);
    Slot *s = b->lost ? NULL : take_of(b, 1);
    pthread_mutex_unlock(&b->lock);
    if (!s)
        return false;
    cudaSetDevice(b->device.id); // whatever thread this is
    start(t);
    take_off(b, s, t, slot_launch(s, &b->device, t, false));
    return true;
}

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
    drop_queue(b);
}

void cuda_close(void *impl) { destroy((Backend *)impl); }

void cuda_stats(void *impl, rk_stats *s)
{
    Backend *b = (Backend *)impl;
    pthread_mutex_lock(&b->lock);
    snprintf(s->device, sizeof s->device, "%s", b->name);
    s->lost = b->lost;
    s->slots = (u64)b->slot_count;
    s->slots_busy = (u64)b->in_flight;
    s->busy_ns = b->busy_ns;
    for (int i = 0; i < b->slot_count; i++) {
        s->device_bytes += __atomic_load_n(&b->slots[i].device_bytes, __ATOMIC_RELAXED);
        s->pinned_bytes += __atomic_load_n(&b->slots[i].pinned_bytes, __ATOMIC_RELAXED);
    }
    const u64 batch = b->batch[0].memory ? RK_BATCH_FLIGHTS * batch_pinned_bytes() : 0;
    s->pinned_bytes += batch;
    size_t pinned = b->chunk_bytes + kMappedCells + sizeof(u64) + RP_MAX_DATA;
    s->device_cap = (u64)b->slot_limit * slot_device_bytes(b);
    s->pinned_cap = (u64)b->slot_limit * pinned + batch;
    s->locked_bytes = pins_bytes(&b->pins);
    s->locked_cap = b->pins.cap;
    pthread_mutex_unlock(&b->lock);
}

// ---- pins and memory: any thread ----

bool cuda_pin(void *impl, const void *base, size_t bytes)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    return pins_add(&b->pins, base, bytes);
}

void cuda_unpin(void *impl, const void *base)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    pins_remove(&b->pins, base);
}

rp_err memory_fault(Backend *b, cudaError_t err, rp_fault *f)
{
    cudaGetLastError();
    if (err == cudaErrorMemoryAllocation)
        return rp_fail(f, RP_NO_MEMORY, "device", 0, "out of device memory");
    device_lost(b, err, "getting memory");
    return rp_fail(f, RP_DEVICE_LOST, "device", 0, "the device failed; repeat the request");
}

rp_err cuda_memory_new(void *impl, rk_memory *m, rp_fault *f)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_new(m);
    return err == cudaSuccess ? RP_OK : memory_fault(b, err, f);
}

// After an error: does the context still answer a simple question?
cudaError_t ask_context()
{
    size_t idle, total;
    cudaGetLastError();
    return cudaMemGetInfo(&idle, &total);
}

// Another process's memory could not be had. An error is the fault of what it gave, `field`, unless the context is at its end.
rp_err import_fault(Backend *b, cudaError_t err, const char *field, rp_fault *f)
{
    cudaError_t alive = ask_context();
    if (err == cudaErrorMemoryAllocation || alive != cudaSuccess)
        return memory_fault(b, alive == cudaSuccess ? err : alive, f);
    return rp_fail(f, RP_BAD_HANDLE, field, 0, "the device's driver does not take the %s: %s", field, cudaGetErrorString(err));
}

rp_err cuda_memory_open(void *impl, const uint8_t *handle, rk_memory *m, rp_fault *f)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_open(handle, m);
    return err == cudaSuccess ? RP_OK : import_fault(b, err, "handle", f);
}

rp_err cuda_memory_import(void *impl, int fd, rk_memory *m, rp_fault *f)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_import(fd, m);
    return err == cudaSuccess ? RP_OK : import_fault(b, err, "descriptor", f);
}

void cuda_memory_close(void *impl, rk_memory *m)
{
    Backend *b = (Backend *)impl;
    cudaSetDevice(b->device.id);
    cudaError_t err = memory_close(m);
    if (err == cudaSuccess)
        return;
    cudaError_t alive = ask_context();
    if (alive != cudaSuccess)
        device_lost(b, alive, "giving memory back");
    else
        rk_log(b->options, RK_LOG_WARN, "device memory is not given back: %s", cudaGetErrorString(err));
}

uint64_t cuda_memory_total(void *impl) { return ((Backend *)impl)->device.bytes; }

} // namespace
} // namespace rk

extern "C" const rk_backend_ops rk_cuda_backend = {
    .open = rk::cuda_open,
    .submit = rk::cuda_submit,
    .begin = rk::cuda_begin,
    .trim = rk::cuda_trim,
    .stop = rk::cuda_stop,
    .close = rk::cuda_close,
    .stats = rk::cuda_stats,
    .pin = rk::cuda_pin,
    .unpin = rk::cuda_unpin,
    .memory_new = rk::cuda_memory_new,
    .memory_open = rk::cuda_memory_open,
    .memory_import = rk::cuda_memory_import,
    .memory_close = rk::cuda_memory_close,
    .memory_total = rk::cuda_memory_total,
    .batch = &rk::kBatchOps,
};
