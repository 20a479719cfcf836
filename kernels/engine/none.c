/* Stands in for kernels/cuda/ where no nvcc was found. */
#include <stdio.h>

#include "kernels/engine/engine.h"

static rp_err no_open(rk_inflight *tasks, const rk_options *o, void **impl, char *why, size_t why_cap)
{
    (void)tasks, (void)o, (void)impl;
    snprintf(why, why_cap, "CUDA is not compiled in");
    return RP_TYPE;
}

const rk_backend_ops rk_cuda_backend = {.open = no_open};
