#include "kernels/cuda/runtime/backend.cuh"

namespace rk {

void device_lost(Backend *b, cudaError_t err, const char *where)
{
    pthread_mutex_lock(&b->lock);
    bool first = !b->lost;
    b->lost = true;
    pthread_mutex_unlock(&b->lock);
    rk_inflight_lose(b->tasks);
    const char *call = failed_call(err);
    if (first)
        rk_log(b->options, RK_LOG_ERROR, "CUDA failed on device %d while %s: %s (%s)%s%s; the context is lost", b->device.id,
               where, cudaGetErrorName(err), cudaGetErrorString(err), *call ? " of " : "", call);
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

} // namespace rk
