/* Inside kernels/: median, quantile and kth of lines that lie on several devices each.
 *
 * A pass counts digits of keys (ranking.h): it is a histogram of the same data whose bounds are keys, which is cut, counted and
 * added as any other one (joint.c). Between passes ranges of keys get narrower: 3 passes find an element of 32 bits, 6 one of
 * 64 bits, whatever the data are. */
#ifndef RK_JOINT_RANKS_H
#define RK_JOINT_RANKS_H

#include "kernels/kernels.h"

/* Lines of a task that are scattered, at most. A pass has counts of each line between the bounds of all, and a device has room
 * for RP_MAX_DATA of them: these are as many lines as one pass has a bracket of each for. */
enum { RK_JOINT_LINES = 15 };

typedef struct rk_joint_ranks rk_joint_ranks;

/* Does a task of several devices, which `ended` takes in any thread, perhaps before this returns. */
typedef void rk_joint_count(void *arg, rk_task *t, void (*ended)(rk_task *t));

/* Of a task whose lines' memory has parts. NULL: no memory. */
rk_joint_ranks *rk_joint_ranks_new(rk_task *t);

/* Begin the task, which `done` takes as above. It is late or stopped between passes, too. */
void rk_joint_ranks_start(rk_joint_ranks *r, rk_joint_count *count, void *arg, void (*done)(rk_task *t));

/* No pass is under way. NULL is fine. */
void rk_joint_ranks_free(rk_joint_ranks *r);

#endif
