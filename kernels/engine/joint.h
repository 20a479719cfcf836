/* Inside kernels/: tasks on memory that lies in parts on several devices. Each device reduces its own part in place, and the
 * states are joined here. States are exact, so the cut does not show in results. */
#ifndef RK_JOINT_H
#define RK_JOINT_H

#include "kernels/engine/one_device.h"

typedef struct rk_joints {
    rk_inflight tasks; /* whole tasks; their pieces are in the devices' rk_inflight */
    pthread_mutex_t lock;
    struct rk_joint *first; /* under way */
} rk_joints;

void rk_joints_init(rk_joints *all, const rk_options *o);

/* The devices are stopped: drop the tasks that will never end. */
void rk_joints_drop(rk_joints *all);
void rk_joints_fini(rk_joints *all);

/* Submit a task whose memory has parts; it is polled from all->tasks. */
void rk_joints_submit(rk_joints *all, rk_task *t);

#endif
