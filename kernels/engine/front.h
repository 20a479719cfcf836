/* Inside kernels/: the engine as its front's files share it: open_devices.c, engine.c (tasks, health, counters) and
 * placement.c (memory). */
#ifndef RK_FRONT_H
#define RK_FRONT_H

#include "kernels/engine/joint.h"
#include "kernels/engine/noted_pins.h"
#include "kernels/engine/one_device.h"

/* The probe: quadruples (2^900, k, -2^900, 2^-1074), whose exact sum rounds to the sum of all k. */
enum { PROBE_QUADS = 1024, PROBE_ELEMENTS = 4 * PROBE_QUADS };

/* The devices that take tasks. A fleet in service does not change: another one replaces it, and threads that have read the one
 * before go on with that. */
typedef struct rk_fleet {
    int backend; /* rp_backend */
    unsigned devices;
    rk_device *device[RK_MAX_DEVICES];
    rk_device *helper; /* the CPU, beside CUDA's devices, for large data of the host; NULL: none. It has no number of theirs */
} rk_fleet;

typedef enum { RK_SETTLED, RK_OPENING, RK_OPENED } rk_phase;

struct rk_engine {
    rk_options o;
    bool stopped;
    const rk_fleet *now; /* in service; atomic */
    rk_fleet first, joined;
    rk_device *stand_in; /* of an early engine the CPU, which is `first`; it is there until the end. NULL: not an early one */
    rk_phase phase;      /* atomic */
    rp_err join_err;     /* of rk_open_devices, and why */
    char join_why[160];
    rk_noted_pins noted;
    rk_joints joints;
    pthread_mutex_t open_lock; /* held while the driver opens or closes one of these: */
    rk_memory *opened;         /* by rk_memory_open */
    double probe_data[PROBE_ELEMENTS];
    double probe_cell[RK_MAX_DEVICES];
};

static inline const rk_fleet *rk_fleet_of(const rk_engine *e) { return __atomic_load_n(&e->now, __ATOMIC_ACQUIRE); }

/* The one that is or will be in service: of an early engine, once its devices are open. */
static inline const rk_fleet *rk_fleet_to_be(const rk_engine *e) { return e->stand_in ? &e->joined : rk_fleet_of(e); }

/* A task with a known answer, which goes to `cell`, on data for which there is room in `quads`. */
void rk_probe_fill(rk_task *t, double *quads, double *cell);

/* The devices of rk_fleet_to_be are open: page-lock what was to be so meanwhile. */
void rk_pin_noted(rk_engine *e);

#endif
