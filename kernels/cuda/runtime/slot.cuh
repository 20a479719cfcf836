// A slot: everything one task on the device needs. Slots are the engine's pool of streams, pinned staging and device
// memory; each is opened on first use and belongs to one task at a time.
//
//   host `staging` -> device `input` -> chain with `scratch` -> cells, straight into mapped host memory when they are
//   few, else through device `cells_device` into pinned `cells_host`.
//
// Page-locked data need no staging; data in memory of the engine are reduced where they are, whatever their size.
#pragma once

#include "kernels/cuda/launch/launch.h"
#include "kernels/engine/engine.h"

namespace rk {

constexpr size_t kSlotBytes = RP_MAX_DATA; // of a task's data
constexpr size_t kMappedCells = 4096;      // replies up to this size skip the copy back: a kernel writes them over the bus
constexpr size_t kMappedHead = kMappedCells + 2 * sizeof(u64), kMappedBytes = kMappedHead + 4 * sizeof(u64);

struct TaskSlot {
    bool open;
    cudaStream_t stream, clock;
    cudaEvent_t begin, copied, done; // timed
    cudaEvent_t arrived;             // not timed: what `copied` waits for, on `clock`, if much is copied
    void *staging, *input, *scratch; // kSlotBytes pinned; kSlotBytes, chain_scratch_bytes() on the device
    void *mapped;                    // kMappedBytes, pinned and visible to the device: cells, a fault word, a head by key
    u32 *fault;                      // behind the cells of `mapped`
    void *cells_host, *cells_device; // RP_MAX_DATA each, opened by the first task that needs them
    void *room; // of the first slot, room_bytes on the device: tables of tasks by key (keyed_task.cuh), or weights
    u64 room_bytes;
    bool cells_plain;               // cells_host is plain memory: page-locked memory could not be had
    u64 pinned_bytes, device_bytes; // atomic: a task that opens cells adds to them while the owner asks
    rk_task *task;                  // that was launched, until it has landed; else NULL
    bool copies_much;               // it does, until that was seen to be over
};

// Open streams and memory. On error everything is closed again.
cudaError_t slot_open(TaskSlot *s);
void slot_close(TaskSlot *s);

// Has a slot room for the weights that come with the task's data?
bool slot_holds(const rk_task *t);

// Bytes of `room` that a task needs; 0: none. slot_room.cuh opens it.
u64 slot_room(const rk_task *t);

// Does the task copy so much that the bus is busy for long?
bool slot_copies_much(const rk_task *t);

// Does the task take launches only: no copy by the host, and no memory that a slot opens late?
bool slot_only_launches(const TaskSlot *s, const rk_task *t);

// Enqueue what the task takes: copy in, chain, copy back; `done` is recorded last. `pinned`: its data are page-locked.
// Returns without waiting.
cudaError_t slot_launch(TaskSlot *s, Device *d, rk_task *t, bool pinned);

// After `done`: hand the cells to the task and fill its times and fault.
cudaError_t slot_finish(TaskSlot *s, Device *d);

} // namespace rk
