#include "kernels/cuda/runtime/backend.cuh"

#include <sched.h>

namespace rk {
namespace {

// Large copies on the bus at a time: of 4 MiB each two take 52 GB/s of it, one 44, three 49, four 48 (H100, 2026-11-21).
constexpr int kLargeCopies = 2;

TaskSlot *take_slot(Backend *b, bool first)
{
    TaskSlot *s;
    pthread_mutex_lock(&b->lock);
    while (!(s = take_of(b, first ? 1 : b->slot_count)))
        pthread_cond_wait(&b->freed, &b->lock);
    pthread_mutex_unlock(&b->lock);
    return s;
}

// No memory for another slot: work with the open ones. False: none is open.
bool do_with_fewer(Backend *b, const TaskSlot *missing)
{
    int open = (int)(missing - b->slots);
    if (open == 0)
        return false;
    cudaGetLastError();
    pthread_mutex_lock(&b->lock);
    b->slot_count = open;
    give_back(b, missing);
    pthread_mutex_unlock(&b->lock);
    rk_log(b->options, RK_LOG_WARN, "memory is short: working with %d of %d slots", open, b->slot_limit);
    return true;
}

// The slot that was taken, opened. The completer and readers of counters look at slots meanwhile.
cudaError_t open_taken(Backend *b, TaskSlot *s)
{
    TaskSlot fresh;
    TRY_CUDA(slot_open(&fresh));
    pthread_mutex_lock(&b->lock);
    *s = fresh;
    pthread_mutex_unlock(&b->lock);
    return cudaSuccess;
}

void close_idle(Backend *b, TaskSlot *s)
{
    pthread_mutex_lock(&b->lock);
    TaskSlot old = *s;
    *s = TaskSlot{};
    pthread_mutex_unlock(&b->lock);
    slot_close(&old);
}

// The room of the first slot, which is never closed, unless a thread has taken it.
void close_room(Backend *b)
{
    pthread_mutex_lock(&b->lock);
    TaskSlot *s = b->slots[0].room ? take_of(b, 1) : NULL;
    pthread_mutex_unlock(&b->lock);
    if (!s)
        return;
    cudaFree(s->room);
    s->room = NULL;
    s->room_bytes = 0;
    pthread_mutex_lock(&b->lock);
    give_back(b, s);
    pthread_mutex_unlock(&b->lock);
}

// With the lock.
int large_copies(Backend *b)
{
    int n = 0;
    for (TaskSlot *s = b->slots; s < b->slots + b->slot_limit; s++) {
        if (!s->task || !s->copies_much)
            continue;
        s->copies_much = cudaEventQuery(s->arrived) == cudaErrorNotReady;
        n += s->copies_much;
    }
    cudaGetLastError(); // not an error that a later call should find
    return n;
}

} // namespace

TaskSlot *take_of(Backend *b, int n)
{
    int i = 0;
    while (i < n && b->taken[i])
        i++;
    if (i == n)
        return NULL;
    b->taken[i] = true;
    return &b->slots[i];
}

void give_back(Backend *b, const TaskSlot *s)
{
    b->taken[s - b->slots] = false;
    pthread_cond_signal(&b->freed);
}

void take_off(Backend *b, TaskSlot *s, rk_task *t, cudaError_t err)
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
    rk_complete(b->tasks, t);
}

TaskSlot *open_slot(Backend *b, bool first, cudaError_t *err)
{
    for (;;) {
        TaskSlot *s = take_slot(b, first);
        *err = s->open ? cudaSuccess : open_taken(b, s);
        if (*err != cudaErrorMemoryAllocation || !do_with_fewer(b, s))
            return s;
    }
}

// A copy takes some 80 us, too short for a nap; meanwhile the bus is busy with the other one.
void wait_for_bus(Backend *b)
{
    for (bool full = true; full;) {
        pthread_mutex_lock(&b->lock);
        full = large_copies(b) >= kLargeCopies;
        pthread_mutex_unlock(&b->lock);
        if (full)
            sched_yield(); // other threads need the lock
    }
}

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
    close_room(b);
    pthread_mutex_lock(&b->lock);
    b->slot_count = b->slot_limit;
    pthread_mutex_unlock(&b->lock);
}

size_t slot_device_bytes() { return kSlotBytes + chain_scratch_bytes() + RP_MAX_DATA; }

bool limit_slots(Backend *b, u64 bytes)
{
    u64 most = bytes ? bytes / slot_device_bytes() : kMaxSlots;
    if (most < (u64)b->slot_limit)
        b->slot_limit = (int)most;
    b->slot_count = b->slot_limit;
    return most > 0;
}

} // namespace rk
