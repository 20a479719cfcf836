// f16 for kernels that compile as C++ (simt.cuh): what kernels/cuda/pass/elements.cuh takes of CUDA's header.
#pragma once

struct __half {
    unsigned short bits;
};

__half __ushort_as_half(unsigned short bits);
unsigned short __half_as_ushort(__half h);
float __half2float(__half h);
__half __float2half_rn(float x);
