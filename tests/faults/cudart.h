/* The CUDA runtime of cudart.c: how its calls fail. */
#ifndef T_CUDART_H
#define T_CUDART_H

extern int t_cuda_failure; /* a cudaError_t: cudaErrorMemoryAllocation passes, others break the context */
extern int t_cuda_devices; /* 1 to 8; memory of other processes is on the last one */
void t_cuda_mend(void);    /* a fresh process would have a fresh context */

#endif
