#include "kernels/cuda/runtime/keyed_task.cuh"

#include <cstring>

#include "kernels/cuda/launch/keyed.h"
#include "kernels/cuda/pass/keyed_args.h"
#include "kernels/cuda/runtime/slot_room.cuh"

namespace rk {
namespace {

constexpr u64 kRoomAlign = 256;

u64 aligned(u64 bytes) { return (bytes + kRoomAlign - 1) / kRoomAlign * kRoomAlign; }

u64 cells_bytes(const rk_task *t) { return rp_results(&t->spec) * rp_cell_size(&t->spec); }

// Offsets in the room: tables, keys that lie at an odd address, and cells that a reply has no room for.
struct Room {
    u64 keys, cells, end;
};

rp_parts parts_of(const rk_task *t) { return rp_spec_parts(&t->spec, (const u8 *)t->memory->base + t->offset, t->beside); }

bool are_odd(const rk_task *t) { return (uintptr_t)parts_of(t).keys % rp_dtype_size(t->spec.keys); }

Room room_of(const rk_task *t)
{
    Room r;
    r.keys = aligned(keyed_bytes(t->spec, t->spec.rows));
    r.cells = r.keys + (are_odd(t) ? aligned(rp_role_bytes(&t->spec, RP_ROLE_KEYS)) : 0);
    r.end = r.cells + (cells_bytes(t) > RP_MAX_DATA ? aligned(cells_bytes(t)) : 0);
    return r;
}

// Where its room is: what a slot has anyhow, if it is enough.
u8 *memory_of(const TaskSlot *s, const Room &r) { return (u8 *)(r.end <= kSlotBytes ? s->input : s->room); }

rk_keyed_launch launch_of(const TaskSlot *s, const rk_task *t, void *cells)
{
    const rp_parts p = parts_of(t);
    const Room r = room_of(t);
    u8 *memory = memory_of(s, r);
    rk_keyed_launch l = {};
    l.spec = t->spec;
    l.spec.flags &= RP_STATES_OUT | RP_INITIAL;
    l.data = p.elements;
    l.keys = are_odd(t) ? memory + r.keys : p.keys;
    l.mask = p.mask;
    l.count = t->spec.row_len;
    l.groups = t->spec.rows;
    l.key_dtype = t->spec.keys;
    l.drop_outside = t->spec.flags & RP_DROP_OUTSIDE;
    l.cells = (u8 *)cells;
    l.workspace = memory;
    return l;
}

void *cells_of(const TaskSlot *s, const rk_task *t)
{
    const Room r = room_of(t);
    return cells_bytes(t) <= kMappedCells  ? s->mapped
           : cells_bytes(t) <= RP_MAX_DATA ? s->cells_device
                                           : memory_of(s, r) + r.cells;
}

const KeyedHead *head_of(const TaskSlot *s) { return (const KeyedHead *)((u8 *)s->mapped + kMappedHead); }

// From the device, to any memory. Waits.
cudaError_t fetch(TaskSlot *s, void *to, const void *from, size_t bytes)
{
    TRY_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s->stream));
    return cudaStreamSynchronize(s->stream);
}

// The first key that is not a group.
cudaError_t explain_key(TaskSlot *s, rk_task *t, u64 at)
{
    const size_t size = rp_dtype_size(t->spec.keys);
    u64 key = 0;
    TRY_CUDA(fetch(s, &key, parts_of(t).keys + at * size, size));
    if (rk_is_signed(t->spec.keys))
        key = rk_sign_extend(key, (int)size);
    rk_by_key_wrong(&t->fault, &t->spec, key, at);
    return cudaSuccess;
}

// A group without a result: its state, from the tables, says why.
cudaError_t explain_group(TaskSlot *s, Device *d, rk_task *t, u64 group)
{
    rk_state state;
    TRY_CUDA(keyed_state(d, launch_of(s, t, s->mapped), group, s->stream));
    TRY_CUDA(cudaStreamSynchronize(s->stream));
    memcpy(&state, s->mapped, rp_state_size(rp_spec_layout(&t->spec)));
    rk_explain(t, group, &state);
    return cudaSuccess;
}

} // namespace

bool keyed_task_fits(const rk_task *t)
{
    return t->memory && keyed_on_device(t->spec) && t->spec.row_len <= RK_MOST_KEYED && room_of(t).end <= kMostRoom;
}

u64 keyed_task_room(const rk_task *t)
{
    const u64 bytes = t->fill || !(t->spec.flags & RP_KEYS) ? 0 : room_of(t).end;
    return bytes <= kSlotBytes ? 0 : bytes;
}

bool keyed_task_only_launches(const TaskSlot *s, const rk_task *t)
{
    const u64 bytes = room_of(t).end;
    return cells_bytes(t) <= kMappedCells && (bytes <= kSlotBytes || bytes <= s->room_bytes);
}

cudaError_t keyed_task_launch(TaskSlot *s, Device *d, rk_task *t)
{
    const Room r = room_of(t);
    if (r.end > kSlotBytes)
        TRY_CUDA(slot_open_room(s, r.end));
    t->route = rk_by_key_route;
    if (are_odd(t))
        TRY_CUDA(cudaMemcpyAsync(memory_of(s, r) + r.keys, parts_of(t).keys, rp_role_bytes(&t->spec, RP_ROLE_KEYS),
                                 cudaMemcpyDeviceToDevice, s->stream));
    TRY_CUDA(keyed_launch(d, launch_of(s, t, cells_of(s, t)), s->stream));
    return cudaMemcpyAsync((void *)head_of(s), memory_of(s, r), sizeof(KeyedHead), cudaMemcpyDeviceToHost, s->stream);
}

cudaError_t keyed_task_finish(TaskSlot *s, Device *d, rk_task *t)
{
    const KeyedHead head = *head_of(s);
    if (head.wrong != RP_NO_INDEX)
        return explain_key(s, t, head.wrong);
    if (head.fault != kNoFault)
        return explain_group(s, d, t, head.fault);
    if (cells_bytes(t) > RP_MAX_DATA)
        return fetch(s, t->cells, cells_of(s, t), cells_bytes(t));
    memcpy(t->cells, cells_bytes(t) <= kMappedCells ? s->mapped : s->cells_host, cells_bytes(t));
    return cudaSuccess;
}

} // namespace rk
