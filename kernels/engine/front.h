/* Inside kernels/: the engine as its front's files share it: open_devices.c, engine.c (tasks, health, counters),
 * in_parts.c (feeds) and placement.c (memory). */
#ifndef RK_FRONT_H
#define RK_FRONT_H

#include "kernels/engine/joint.h"
#include "kernels/engine/noted_pins.h"
#include "kernels/engine/one_device.h"
#include "kernels/engine/reading.h"

/* The probe: quadruples (2^900, k, -2^900, 2^-1074), whose exact sum rounds to the sum of all k. */
enum { PROBE_QUADS = 1024, PROBE_ELEMENTS = 4 * PROBE_QUADS };

/* The devices that take tasks. A fleet in service never changes: it is replaced by another one, and threads that read the old
 * one continue with it. */
typedef struct rk_fleet {
    int backend; /* rp_backend */
    unsigned devices;
    rk_device *device[RK_MAX_DEVICES];
    rk_device *helper; /* the CPU, beside CUDA's devices, for large data of the host; NULL: none. It has no device number */
} rk_fleet;

typedef enum { RK_SETTLED, RK_OPENING, RK_OPENED } rk_phase;

struct rk_engine {
    rk_options o;
    rk_busy busy; /* everything that any thread does for a request */
    bool stopped;
    const rk_fleet *now; /* in service; atomic */
    rk_fleet first, joined;
    rk_device *stand_in; /* an early engine's CPU, which is `first` and stays open; NULL: not an early engine */
    rk_phase phase;      /* atomic */
    rp_err join_err;     /* the result of rk_open_devices, and its reason */
    char join_why[160];
    rk_noted_pins noted;
    rk_joints joints;
    rk_reading reading;
    pthread_mutex_t open_lock; /* held while the driver opens or closes one of `opened` */
    rk_memory *opened;         /* by rk_memory_open */
    double probe_data[PROBE_ELEMENTS];
    double probe_cell[RK_MAX_DEVICES];
};

static inline const rk_fleet *rk_fleet_of(const rk_engine *e) { return __atomic_load_n(&e->now, __ATOMIC_ACQUIRE); }

/* The fleet that is or will be in service; an early engine's is in service once its devices are open. */
static inline const rk_fleet *rk_fleet_to_be(const rk_engine *e) { return e->stand_in ? &e->joined : rk_fleet_of(e); }

/* The device for a task. Tasks for lost devices end there with a fault. */
rk_device *rk_device_for(const rk_fleet *v, const rk_task *t);

/* Makes a task with a known answer: its data are in `quads`, its result goes to `cell`. */
void rk_probe_fill(rk_task *t, double *quads, double *cell);

/* The devices of rk_fleet_to_be are open: page-lock the memory that was noted meanwhile. */
void rk_pin_noted(rk_engine *e);

#endif
