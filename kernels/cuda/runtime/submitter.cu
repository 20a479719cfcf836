#include "kernels/cuda/runtime/backend.cuh"
#include "kernels/cuda/runtime/keyed_task.cuh"

namespace rk {
namespace {

void start(rk_task *t)
{
    t->backend = RP_BACKEND_CUDA;
    t->route = NULL;
    t->start_ns = rk_now_ns();
    t->copy_ns = t->compute_ns = 0;
}

// Are the partial states that it brings possible? Else its fault says why not.
bool states_fine(rk_task *t) { return t->fill || !(t->spec.flags & RP_STATES_IN) || rk_check_states(t) == RP_OK; }

// It waited here until its deadline, or was stopped meanwhile. All passes of a task are launched together: this is asked once.
bool is_late(rk_task *t) { return !t->fill && rp_needs_all(&t->spec) && rk_task_late(t, &t->fault); }

// Bytes of room that there may be beside slots.
u64 most_room(const Backend *b) { return b->options->device_bytes ? b->options->device_bytes / 4 : kMostRoom; }

void run(Backend *b, rk_task *t)
{
    start(t);
    if (is_lost(b)) {
        fail(b, t, cudaErrorUnknown, "lost already");
        rk_complete(b->tasks, t);
        return;
    }
    if (!states_fine(t) || is_late(t)) {
        rk_complete(b->tasks, t);
        return;
    }
    const u64 room = slot_room(t);
    if (room > most_room(b)) {
        rp_fail(&t->fault, RP_NO_MEMORY, "device", most_room(b), "%llu bytes beside its data: tables of groups, or weights",
                (unsigned long long)room);
        rk_complete(b->tasks, t);
        return;
    }
    cudaError_t err;
    TaskSlot *s = open_slot(b, room, &err);
    if (slot_copies_much(t))
        wait_for_bus(b);
    if (err == cudaSuccess)
        err = slot_launch(s, &b->device, t, pins_hold(&b->pins, t->data, t->bytes));
    take_off(b, s, t, err);
}

// Data of the host, with weights that a slot cannot take, with keys, or of a shape that the device does not select from.
bool is_for_cpu(const rk_task *t)
{
    const bool keyed = t->spec.flags & RP_KEYS;
    const bool has_kernels = rp_is_ranked(t->spec.op) ? selects_on_device(t->spec) : !keyed;
    return !t->memory && !t->fill && (!slot_holds(t) || !has_kernels);
}

// A task of any size.
void run_any(Backend *b, rk_task *t)
{
    if ((t->bytes <= kSlotBytes && !is_for_cpu(t)) || (t->memory && !t->fill)) {
        run(b, t);
        return;
    }
    start(t);
    if (t->fill)
        rp_fail(&t->fault, RP_TOO_LARGE, "data", kSlotBytes, "%zu bytes at once", t->bytes);
    else
        rk_cpu_run(t);
    rk_complete(b->tasks, t);
}

} // namespace

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

void cuda_submit(void *impl, rk_task *t)
{
    Backend *b = (Backend *)impl;
    pthread_mutex_lock(&b->lock);
    queue_back(b, t);
    pthread_cond_signal(&b->work);
    pthread_mutex_unlock(&b->lock);
}

// Data of the host are computed in any case, by the CPU if need be.
bool cuda_selects(const rk_task *t)
{
    if (!t->memory)
        return true;
    return t->spec.flags & RP_KEYS ? keyed_task_fits(t) : rp_is_ranked(t->spec.op) && selects_on_device(t->spec);
}

// In the first slot, which is never closed.
bool cuda_begin(void *impl, rk_task *t)
{
    Backend *b = (Backend *)impl;
    if (!slot_only_launches(&b->slots[0], t))
        return false;
    pthread_mutex_lock(&b->lock);
    TaskSlot *s = b->lost ? NULL : take_of(b, 1);
    pthread_mutex_unlock(&b->lock);
    if (!s)
        return false;
    cudaSetDevice(b->device.id); // any thread may call this
    start(t);
    take_off(b, s, t, slot_launch(s, &b->device, t, false));
    return true;
}

} // namespace rk
