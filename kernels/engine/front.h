/* Inside kernels/: the engine as its front's files share it: open_devices.c, engine.c (tasks, health, counters) and
 * placement.c (memory). */
#ifndef RK_FRONT_H
#define RK_FRONT_H

#include "kernels/engine/joint.h"
#include "kernels/engine/one_device.h"

/* The probe: quadruples (2^900, k, -2^900, 2^-1074), whose exact sum rounds to the sum of all k. */
enum { PROBE_QUADS = 1024, PROBE_ELEMENTS = 4 * PROBE_QUADS };

struct rk_engine {
    rk_options o;
    int backend; /* rp_backend */
    bool stopped;
    unsigned devices;
    rk_device *device[RK_MAX_DEVICES];
    rk_device *helper; /* the CPU, beside CUDA's devices, for large data of the host; NULL: none. It has no number of theirs */
    rk_joints joints;
    pthread_mutex_t open_lock; /* held while the driver opens or closes one of these: */
    rk_memory *opened;         /* by rk_memory_open */
    double probe_data[PROBE_ELEMENTS];
    double probe_cell[RK_MAX_DEVICES];
};

#endif
