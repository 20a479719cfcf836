/* The CUDA runtime of cudart.c: how its calls fail. */
#ifndef T_CUDART_H
#define T_CUDART_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern int t_cuda_failure;         /* a cudaError_t: cudaErrorMemoryAllocation passes, others break the context */
extern int t_cuda_devices;         /* 1 to 8; memory of other processes is on the last one */
extern int t_cuda_sms;             /* of each device */
extern int t_cuda_failing;         /* only calls with this device current fail on cue; -1: all do */
extern bool t_cuda_host_breaks;    /* a broken context fails the calls on page-locked memory of all devices */
extern uint64_t t_cuda_latency_ns; /* from recording an event until it is done */
extern void (*t_cuda_look)(void);  /* NULL, or called before cudaMemGetInfo, which looks whether a context is whole */
extern void (*t_cuda_init)(void);  /* NULL, or called by what initialises the driver: as CUDA's first calls do */
void t_cuda_mend(void);            /* a fresh process would have fresh contexts, and nothing page-locked */
void t_cuda_break(int device);     /* as a kernel that traps does. Any thread */
bool t_cuda_stale(const void *p);  /* page-locked from before, though it was to be unlocked */

int t_dynamic_shared(const void *f); /* bytes that a launch of this kernel may have */

/* A kernel is launched. Only programs with tests/device/kernels.cu have it. */
void t_kernel(const void *f, void **args);

#ifdef __cplusplus
}
#endif
#endif
