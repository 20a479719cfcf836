/* Replaces kernels/cuda/ in builds without nvcc. */
#include <stdio.h>
#include <unistd.h>

#include "kernels/engine/engine.h"

static rp_err none_list(rk_device_info *out, unsigned cap, unsigned *n, char *why, size_t why_cap)
{
    (void)out, (void)cap, (void)n;
    const bool driver = access("/proc/driver/nvidia/version", F_OK) == 0;
    snprintf(why, why_cap, "CUDA is not compiled in%s", driver ? ", though an NVIDIA driver is here: build with CUDA=yes" : "");
    return RP_TYPE;
}

static bool none_present(void) { return false; }

const rk_backend_ops rk_cuda_backend = {.present = none_present, .list = none_list};
