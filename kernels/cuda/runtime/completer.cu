#include "kernels/cuda/runtime/backend.cuh"

#include <sys/prctl.h>
#include <time.h>

namespace rk {
namespace {

// How the completer waits for the device: it watches without a pause for about as long as 8 GiB take on an H100, then looks
// every kNapNs, so that some 40 us are lost only of what takes longer. Sleeping in cudaEventSynchronize took 0.1 s a call on a
// virtual machine with an H100 (2026-11-21).
constexpr u64 kWatchNs = 3000000;
constexpr long kNapNs = 20000;

void land(Backend *b, TaskSlot *s, cudaError_t err)
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
    rk_complete(b->tasks, t);
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
        TaskSlot *s = &b->slots[i];
        pthread_mutex_lock(&b->lock);
        bool flying = s->task != NULL;
        pthread_mutex_unlock(&b->lock);
        if (!flying)
            continue;
        cudaError_t err = cudaEventQuery(s->done);
        if (err == cudaErrorNotReady) {
            cudaGetLastError(); // not an error that a later launch should find
            continue;
        }
        land(b, s, err);
        any = true;
    }
    return any;
}

} // namespace

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

} // namespace rk
