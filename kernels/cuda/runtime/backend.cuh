// The CUDA backend behind kernels/kernels.h, as its files share it. backend.cu opens and closes it and has the table of the
// interface.
//
// Threads. The submitter (submitter.cu) takes tasks from the queue in order, waits for a free slot, copies the data into its
// staging memory and enqueues the chain. The completer (completer.cu) watches the events of slots in flight, hands cells back
// and frees slots. The owner's thread only queues. A task that is alone and needs nothing but launches is launched by the
// thread that brings it, in the first slot: waking the submitter would take as long as launching. A thread that launches has
// taken the slot under `lock`, which guards the queue and `lost` too.
//
// A slot has room for one message's data. Only an engine without a device accepts larger data of the host. If a device has
// joined meanwhile, the CPU reduces them.
//
// Memory. Slots (slot_pool.cu) are opened when they are needed, lowest first, so the open ones are the first ones. When there
// is no memory for another one, the open ones must suffice until the pool is trimmed, which closes all but the first.
//
// Errors (outcome.cu). Out of memory is the task's own. Any other error of CUDA is taken as the context's end: `lost` is set,
// every task answers DEVICE_LOST, and the daemon exits to be restarted (a poisoned context never recovers).
#pragma once

#include <pthread.h>

#include "kernels/cuda/runtime/pins.cuh"
#include "kernels/cuda/runtime/slot.cuh"

namespace rk {

constexpr int kMaxSlots = 64;

struct Backend {
    rk_inflight *tasks;
    const rk_options *options;
    Device device;
    char name[96];
    int slot_count, slot_limit; // slots that may be open now; at best
    TaskSlot slots[kMaxSlots];
    bool taken[kMaxSlots]; // of these: from before the launch until the landing
    Pins pins;

    pthread_t submitter, completer;
    pthread_mutex_t lock;
    pthread_cond_t work;   // the queue, or the closing flag, changed: submitter
    pthread_cond_t freed;  // a slot was given back: submitter
    pthread_cond_t flying; // a slot was launched, or closing: completer
    rk_task *head, **tail;
    int in_flight;
    bool closing, trimming, submitter_gone, lost;
    u64 busy_ns;
    Backend *next_open; // outcome.cu
};

inline void queue_back(Backend *b, rk_task *t)
{
    t->next = NULL;
    *b->tail = t;
    b->tail = &t->next;
}

// ---- outcome.cu: how tasks end ----

// Backends whose context device_lost looks at.
void note_open(Backend *b);
void note_closed(const Backend *b);

// Give up the context, and others that are found to be broken. Call without the lock.
void device_lost(Backend *b, cudaError_t err, const char *where);
bool is_lost(Backend *b);
void cuda_settle();

// The task's fault, by CUDA's error.
void fail(Backend *b, rk_task *t, cudaError_t err, const char *where);

// ---- slot_pool.cu ----

// With the lock: take the first free slot of the first `n`. NULL: there is none.
TaskSlot *take_of(Backend *b, int n);

// With the lock.
void give_back(Backend *b, const TaskSlot *s);

// The task was launched in the taken slot, or could not be because of `err`.
void take_off(Backend *b, TaskSlot *s, rk_task *t, cudaError_t err);

// Wait for a slot, or for the first one; returns it taken and open.
TaskSlot *open_slot(Backend *b, bool first, cudaError_t *err);

// Wait until another large copy does not slow down those under way.
void wait_for_bus(Backend *b);

// Nothing is queued: unless a task is in flight, close all slots but the first.
void trim(Backend *b);

// Set the number of slots that `bytes` of device memory allow; 0: no limit. False: not even one fits.
bool limit_slots(Backend *b, u64 bytes);
size_t slot_device_bytes();

// ---- submitter.cu ----
void *submitter_main(void *arg);
void cuda_submit(void *impl, rk_task *t);
bool cuda_begin(void *impl, rk_task *t);
bool cuda_selects(const rk_task *t);

// ---- completer.cu ----
void *completer_main(void *arg);

// ---- device_memory.cu: pins and memory, for any thread ----
bool cuda_pin(void *impl, const void *base, size_t bytes);
void cuda_unpin(void *impl, const void *base);
rp_err cuda_memory_new(void *impl, rk_memory *m, rp_fault *f);
rp_err cuda_memory_open(void *impl, const uint8_t *handle, rk_memory *m, rp_fault *f);
rp_err cuda_memory_import(void *impl, int fd, rk_memory *m, rp_fault *f);
rp_err cuda_memory_copy(void *impl, const rk_memory *m, void *host, bool out, rp_fault *f);
void cuda_memory_close(void *impl, rk_memory *m);

} // namespace rk
