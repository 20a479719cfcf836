#include "kernels/cuda/runtime/backend.cuh"

namespace rk {
namespace {

pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
Backend *open_backends; // with open_lock

// False: it was lost before.
bool give_up(Backend *b, cudaError_t err, const char *where)
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
    return first;
}

// With open_lock.
void give_up_broken(const Backend *lost)
{
    for (Backend *b = open_backends; b; b = b->next_open) {
        if (b == lost || is_lost(b))
            continue;
        cudaSetDevice(b->device.id);
        const cudaError_t err = context_error();
        if (err != cudaSuccess)
            give_up(b, err, "looking at it after another device failed");
    }
    cudaSetDevice(lost->device.id);
}

} // namespace

void note_open(Backend *b)
{
    pthread_mutex_lock(&open_lock);
    b->next_open = open_backends;
    open_backends = b;
    pthread_mutex_unlock(&open_lock);
}

void note_closed(const Backend *b)
{
    pthread_mutex_lock(&open_lock);
    for (Backend **at = &open_backends; *at; at = &(*at)->next_open)
        if (*at == b) {
            *at = b->next_open;
            break;
        }
    pthread_mutex_unlock(&open_lock);
}

// An exception in a kernel breaks the contexts of all devices of the process (H200, CUDA 13, 2026-11-22). Whoever reports this
// device as lost waits for the look at the others (cuda_settle), and knows then whether one is left.
void device_lost(Backend *b, cudaError_t err, const char *where)
{
    pthread_mutex_lock(&open_lock);
    if (give_up(b, err, where))
        give_up_broken(b);
    pthread_mutex_unlock(&open_lock);
}

void cuda_settle()
{
    pthread_mutex_lock(&open_lock);
    pthread_mutex_unlock(&open_lock);
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

} // namespace rk
