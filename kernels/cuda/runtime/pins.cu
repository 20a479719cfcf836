#include "kernels/cuda/runtime/pins.cuh"

#include <cstring>

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/kernels.h"

namespace rk {
namespace {

constexpr u64 kPiece = 1ull << 38; // 256 GiB: drivers refuse to lock 512 GiB and more at once

bool take(Pins *p, u64 bytes)
{
    pthread_mutex_lock(&p->lock);
    const bool fits = bytes <= p->cap - p->bytes;
    p->bytes += fits ? bytes : 0;
    pthread_mutex_unlock(&p->lock);
    return fits;
}

void give_back(Pins *p, u64 bytes)
{
    pthread_mutex_lock(&p->lock);
    p->bytes -= bytes;
    pthread_mutex_unlock(&p->lock);
}

// False: the list is full.
bool insert(Pins *p, Pins::Range r)
{
    pthread_mutex_lock(&p->lock);
    int i = 0;
    while (i < p->used && p->ranges[i].bytes)
        i++;
    const bool room = i < kMaxPins;
    if (room)
        p->ranges[i] = r;
    if (room && i == p->used)
        p->used++;
    pthread_mutex_unlock(&p->lock);
    return room;
}

// Take one piece of the memory at `whole` out of the list. False: there is none.
bool remove_one(Pins *p, const void *whole, Pins::Range *r)
{
    pthread_mutex_lock(&p->lock);
    int i = 0;
    while (i < p->used && !(p->ranges[i].bytes && p->ranges[i].whole == whole))
        i++;
    const bool found = i < p->used;
    if (found) {
        *r = p->ranges[i];
        p->ranges[i].bytes = 0;
    }
    while (p->used && !p->ranges[p->used - 1].bytes)
        p->used--;
    pthread_mutex_unlock(&p->lock);
    return found;
}

// ---- what all devices share: page-locked memory is the process's ----

constexpr int kMaxStale = 1024;
pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
int opened[RK_MAX_DEVICES], n_opened; // devices with a context
struct {
    const unsigned char *base;
    u64 bytes;
} stale[kMaxStale]; // that no context could unlock: CUDA takes what is mapped there next for what was there before
int n_stale;        // above kMaxStale: there were too many to know them

void note_opened(int device)
{
    pthread_mutex_lock(&shared_lock);
    int i = 0;
    while (i < n_opened && opened[i] != device)
        i++;
    if (i == n_opened && n_opened < RK_MAX_DEVICES)
        opened[n_opened++] = device;
    pthread_mutex_unlock(&shared_lock);
}

void note_stale(const Pins::Range &r)
{
    pthread_mutex_lock(&shared_lock);
    if (n_stale < kMaxStale)
        stale[n_stale] = {r.base, r.bytes};
    n_stale += n_stale <= kMaxStale;
    pthread_mutex_unlock(&shared_lock);
}

bool is_stale(const unsigned char *base, u64 bytes)
{
    pthread_mutex_lock(&shared_lock);
    bool found = n_stale > kMaxStale;
    for (int i = 0; i < n_stale && !found; i++)
        found = stale[i].base < base + bytes && base < stale[i].base + stale[i].bytes;
    pthread_mutex_unlock(&shared_lock);
    return found;
}

// By the context of `device`.
bool unlock_by(int device, const unsigned char *base)
{
    cudaSetDevice(device);
    const cudaError_t err = cudaHostUnregister((void *)base);
    return err == cudaSuccess || err == cudaErrorHostMemoryNotRegistered;
}

// The context that locked it may be broken; those of other devices can unlock it, too.
bool unlock(int device, const unsigned char *base)
{
    int others[RK_MAX_DEVICES];
    bool done = unlock_by(device, base);
    pthread_mutex_lock(&shared_lock);
    const int n = n_opened;
    memcpy(others, opened, sizeof others);
    pthread_mutex_unlock(&shared_lock);
    for (int i = 0; i < n && !done; i++)
        done = others[i] != device && unlock_by(others[i], base);
    cudaSetDevice(device);
    return done;
}

// Unlock the pieces that this device locked.
void release(Pins *p, const Pins::Range &r)
{
    if (!r.ours)
        return;
    if (!unlock(p->device, r.base))
        note_stale(r);
    give_back(p, r.bytes);
}

// Its bytes are taken. They are given back where another device has locked them, or nobody can.
bool lock_piece(Pins *p, const void *whole, const unsigned char *base, u64 bytes)
{
    if (is_stale(base, bytes)) {
        give_back(p, bytes);
        return false;
    }
    const unsigned flags = cudaHostRegisterPortable | (p->read_only ? cudaHostRegisterReadOnly : 0);
    const cudaError_t err = cudaHostRegister((void *)base, bytes, flags);
    const Pins::Range r = {whole, base, bytes, err == cudaSuccess};
    if (err != cudaSuccess) {
        cudaGetLastError();
        give_back(p, bytes);
    }
    if (err != cudaSuccess && err != cudaErrorHostMemoryAlreadyRegistered)
        return false;
    if (insert(p, r))
        return true;
    release(p, r);
    return false;
}

} // namespace

cudaError_t pins_open(Pins *p, int device, u64 cap)
{
    int read_only;
    TRY_CUDA(cudaDeviceGetAttribute(&read_only, cudaDevAttrHostRegisterReadOnlySupported, device));
    *p = Pins{};
    p->lock = PTHREAD_MUTEX_INITIALIZER;
    p->read_only = read_only;
    p->cap = cap;
    p->device = device;
    note_opened(device);
    return cudaSuccess;
}

bool pins_add(Pins *p, const void *base, size_t bytes)
{
    if (!take(p, bytes))
        return false;
    for (u64 from = 0; from < bytes; from += kPiece) {
        const u64 piece = bytes - from < kPiece ? bytes - from : kPiece;
        if (lock_piece(p, base, (const unsigned char *)base + from, piece))
            continue;
        give_back(p, bytes - from - piece);
        pins_remove(p, base);
        return false;
    }
    return true;
}

void pins_remove(Pins *p, const void *base)
{
    Pins::Range r = {};
    while (remove_one(p, base, &r))
        release(p, r);
    cudaGetLastError();
}

bool pins_hold(Pins *p, const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)data;
    bool held = false;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->used && !held; i++) {
        const Pins::Range &r = p->ranges[i];
        held = at >= r.base && bytes <= r.bytes && (u64)(at - r.base) <= r.bytes - bytes;
    }
    pthread_mutex_unlock(&p->lock);
    return held;
}

u64 pins_bytes(Pins *p)
{
    pthread_mutex_lock(&p->lock);
    const u64 bytes = p->bytes;
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

} // namespace rk
