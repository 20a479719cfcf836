/* Inside kernels/: tasks on memory that lies in parts on several devices. Each device reduces what it has, where it lies, and
 * the states are joined here. States are exact, so nobody sees the cut. */
#ifndef RK_JOINT_H
#define RK_JOINT_H

#include "kernels/engine/one_device.h"

typedef struct rk_joints {
    rk_inflight tasks; /* whole tasks; their parts are with the devices */
    pthread_mutex_t lock;
    struct rk_joint *first; /* under way */
} rk_joints;

void rk_joints_init(rk_joints *all, const rk_options *o);

/* The devices are stopped: what is under way never ends. */
void rk_joints_drop(rk_joints *all);
void rk_joints_fini(rk_joints *all);

/* The task, whose memory has parts, is under way: to be polled from all->tasks. */
void rk_joints_submit(rk_joints *all, rk_task *t);

#endif
