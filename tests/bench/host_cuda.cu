// What a program does by itself that has its data in memory: cudaMemcpy, CUB's sum, the value back.
//
//     host_cuda pageable|pinned BYTES RUNS     prints the microseconds of each sum of that many bytes of f32, one a line
//
// The context, device memory and CUB's temporary storage are there before; exit code 77 means that there is no device.
#include <cuda_runtime.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "proto/types.h"
#include "tests/gpu/bench.cuh"
#include "tests/gpu/cub_peer.cuh"

int main(int argc, char **argv)
{
    using clock = std::chrono::steady_clock;
    int devices = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: host_cuda pageable|pinned BYTES RUNS\n");
        return 2;
    }
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        fprintf(stderr, "no device\n");
        return 77;
    }
    size_t bytes = strtoull(argv[2], nullptr, 10), n = bytes / sizeof(float);
    float *host, *device, *out, sum;
    if (strcmp(argv[1], "pinned") == 0)
        CK(cudaMallocHost((void **)&host, bytes));
    else if (!(host = (float *)malloc(bytes)))
        return 1;
    cub_peer::Temp temp = {nullptr, (size_t)16 << 20};
    CK(cudaMalloc((void **)&device, bytes));
    CK(cudaMalloc((void **)&out, sizeof *out));
    CK(cudaMalloc(&temp.data, temp.bytes));
    double want = 0;
    for (size_t i = 0; i < n; i++)
        want += host[i] = (float)(i % 16);
    for (int i = -1, runs = atoi(argv[3]); i < runs; i++) { // the first run warms up
        auto begin = clock::now();
        CK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
        CK(cub_peer::sum(RP_F32, device, n, out, temp, nullptr));
        CK(cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost));
        if (i >= 0)
            printf("%.3f\n", std::chrono::duration<double, std::micro>(clock::now() - begin).count());
        if (!(fabs(sum - want) <= 1e-5 * want)) {
            fprintf(stderr, "host_cuda: wrong sum\n");
            return 1;
        }
    }
    return 0;
}
