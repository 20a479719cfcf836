// The daemon's page-locked host memory, from which the device copies directly. Any thread.
//
// Memory that one device has locked is locked for all: later devices only note it, without counting its bytes. Memory that
// cannot be unlocked, because a context is broken, is not locked again: the device would read what was there before.
#pragma once

#include <pthread.h>

#include "kernels/cuda/pass/plan.h"

namespace rk {

constexpr int kMaxPins = 4096; // each task's data are looked for among all of them

struct Pins {
    int device;
    pthread_mutex_t lock;
    bool read_only; // the device can lock memory that is mapped for reading only
    struct Range {
        const void *whole; // as it was added
        const unsigned char *base;
        u64 bytes;
        bool ours;      // locked here, not by another device
    } ranges[kMaxPins]; // bytes 0: free
    int used;           // those behind are free
    u64 bytes, cap;     // locked now, and at most
};

cudaError_t pins_open(Pins *p, int device, u64 cap);

// False: not locked.
bool pins_add(Pins *p, const void *base, size_t bytes);
void pins_remove(Pins *p, const void *base);

// Is all of it locked, in one piece?
bool pins_hold(Pins *p, const void *data, size_t bytes);

u64 pins_bytes(Pins *p);

} // namespace rk
