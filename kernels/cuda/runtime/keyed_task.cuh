// Tasks by key of data on the device, in a slot.
//
// Tables, and more cells than a reply has, are in the slot's `input`, or in `room` of the first slot, which alone has one.
// It grows to what a task needs and stays until the pool is trimmed. Behind the kernels the head of the tables, which says what
// went wrong, comes to mapped memory.
#pragma once

#include "kernels/cuda/runtime/slot.cuh"

namespace rk {

// Does the device compute it? Not of elements or keys of the host, nor with tables of more than kMostRoom.
constexpr u64 kMostRoom = 1 << 30;
bool keyed_task_fits(const rk_task *t);

// Bytes of `room` that it needs; 0: none.
u64 keyed_task_room(const rk_task *t);

// Does it take launches only, as slot_only_launches?
bool keyed_task_only_launches(const TaskSlot *s, const rk_task *t);

// Enqueue it, with the copy of cells that a reply has.
cudaError_t keyed_task_launch(TaskSlot *s, Device *d, rk_task *t);

// After that: its cells, or its fault.
cudaError_t keyed_task_finish(TaskSlot *s, Device *d, rk_task *t);

} // namespace rk
