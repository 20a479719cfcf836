// The pass chain beside CUB on device-resident data, in one run.
//
//     bench_kernels [largest log2 of elements, default 30 [smallest, default 10 [runs, default by size]]]
//
// Each figure is the median of many event-timed runs after a warm-up, ours and CUB's in turn. Inputs rotate through a
// buffer far larger than L2, so each run reads from device memory. CUB's temporary storage is allocated beforehand. The
// results are checked against each other; CUB's float sum is not exact, so there a relative 1e-5 must do.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cub/cub.cuh>

#include "kernels/cuda/chain.cuh"

namespace {

#define CK(call)                                                                               \
    do {                                                                                       \
        cudaError_t err_ = (call);                                                             \
        if (err_ != cudaSuccess) {                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_));      \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

cudaStream_t stream;
int smallest;
size_t fixed_runs;
cudaEvent_t begin_event, end_event;

template <class F> float once(F f)
{
    CK(cudaEventRecord(begin_event, stream));
    f();
    CK(cudaEventRecord(end_event, stream));
    CK(cudaEventSynchronize(end_event));
    float ms;
    CK(cudaEventElapsedTime(&ms, begin_event, end_event));
    return ms * 1e3f;
}

float median(std::vector<float> v)
{
    std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
    return v[v.size() / 2];
}

// Small integers in every type, so that all sums are exact; `wild` fills random bits instead (timing only).
template <class T> __global__ void fill(T *p, size_t n, int wild)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        unsigned long long z = (i + 1) * 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        if (wild)
            memcpy(p + i, &z, sizeof(T));
        else
            p[i] = (T)(int)(z >> 60) - (T)7;
    }
}

struct Bench {
    rk::Device device;
    void *data, *scratch, *temp;
    size_t data_bytes, temp_bytes;
    void *cell;      // on the device, like CUB's
    unsigned *fault; // on the device
    void *cub_out;
};

template <class T> int dtype_of();
template <> int dtype_of<float>() { return RP_F32; }
template <> int dtype_of<double>() { return RP_F64; }
template <> int dtype_of<int>() { return RP_I32; }

template <class T> void run_size(Bench &b, int op, int log2, bool wild)
{
    size_t n = (size_t)1 << log2, bytes = n * sizeof(T), places = b.data_bytes / bytes;
    rk::ChainTask t = {};
    t.spec.op = (uint8_t)op;
    t.spec.dtype = (uint8_t)dtype_of<T>();
    t.spec.rows = 1;
    t.spec.row_len = n;
    rp_fault f;
    if (rp_spec_check(&t.spec, &f) != RP_OK)
        exit(1);
    t.cells = b.cell;
    t.fault = b.fault;
    size_t place = 0;
    auto next = [&] { return (const T *)b.data + (place++ % places) * n; };
    auto ours = [&] {
        t.data = next();
        CK(rk::chain_launch(&b.device, t, b.scratch, rk::chain_scratch_bytes(), stream));
    };
    auto cub = [&] {
        if (op == RP_OP_SUM)
            CK(cub::DeviceReduce::Sum(b.temp, b.temp_bytes, next(), (T *)b.cub_out, n, stream));
        else
            CK(cub::DeviceReduce::Max(b.temp, b.temp_bytes, next(), (T *)b.cub_out, n, stream));
    };
    size_t runs = std::max<size_t>(21, std::min<size_t>(301, ((size_t)1 << 34) / bytes));
    if (fixed_runs)
        runs = fixed_runs;
    std::vector<float> a, c;
    for (size_t i = 0; i < runs + 5; i++) {
        float x = once(ours), y = once(cub);
        if (i >= 5) {
            a.push_back(x);
            c.push_back(y);
        }
    }
    place = 0;
    once(ours);
    unsigned char cell[8];
    CK(cudaMemcpy(cell, b.cell, sizeof cell, cudaMemcpyDeviceToHost));
    double our_value;
    memcpy(&our_value, cell, 8);
    if (t.spec.out == RP_I64) {
        long long v;
        memcpy(&v, cell, 8);
        our_value = (double)v;
    }
    place = 0;
    once(cub);
    T theirs;
    CK(cudaMemcpy(&theirs, b.cub_out, sizeof theirs, cudaMemcpyDeviceToHost));
    bool close = t.spec.dtype == RP_F32 && fabs(our_value - (double)theirs) <= 1e-5 * fabs(our_value);
    float u = median(a), v = median(c);
    const char *check = wild ? "-" : our_value == (double)theirs ? "equal" : close ? "close" : "DIFFERENT";
    printf("%-4s %-4s %-7s 2^%-3d %10.2f us %8.1f GB/s   CUB %10.2f us %8.1f GB/s   ratio %.3f  %s\n", rp_op_name(op),
           rp_dtype_name(t.spec.dtype), wild ? "any" : "ints", log2, u, bytes / u / 1e3, v, bytes / v / 1e3, v / u, check);
    fflush(stdout);
}

template <class T> void run_type(Bench &b, int op, std::initializer_list<int> sizes, int largest, bool wild)
{
    fill<<<2048, 256, 0, stream>>>((T *)b.data, b.data_bytes / sizeof(T), wild);
    CK(cudaStreamSynchronize(stream));
    for (int log2 : sizes)
        if (log2 >= smallest && log2 <= largest && ((size_t)sizeof(T) << log2) <= b.data_bytes)
            run_size<T>(b, op, log2, wild);
}

} // namespace

int main(int argc, char **argv)
{
    int largest = argc > 1 ? atoi(argv[1]) : 30;
    smallest = argc > 2 ? atoi(argv[2]) : 10;
    fixed_runs = argc > 3 ? (size_t)atoi(argv[3]) : 0;
    Bench b = {};
    if (rk::device_open(&b.device, 0) != cudaSuccess) {
        printf("no device\n");
        return 77;
    }
    b.data_bytes = (size_t)4 << 30;
    b.temp_bytes = 64 << 20;
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CK(cudaEventCreate(&begin_event));
    CK(cudaEventCreate(&end_event));
    CK(cudaMalloc(&b.data, b.data_bytes));
    CK(cudaMalloc(&b.scratch, rk::chain_scratch_bytes()));
    CK(cudaMalloc(&b.temp, b.temp_bytes));
    CK(cudaMalloc(&b.cub_out, 64));
    CK(cudaMalloc(&b.cell, 64));
    CK(cudaMalloc((void **)&b.fault, 64));
    float copy = 0;
    for (int i = 0; i < 5; i++)
        copy = once([&] {
            CK(cudaMemcpyAsync(b.data, (char *)b.data + b.data_bytes / 2, b.data_bytes / 2, cudaMemcpyDeviceToDevice, stream));
        });
    printf("device-to-device copy: %.0f GB/s read and written\n", b.data_bytes / copy / 1e3);
    auto sizes = {10, 14, 16, 18, 20, 22, 24, 26, 28, 30};
    run_type<float>(b, RP_OP_SUM, sizes, largest, false);
    run_type<float>(b, RP_OP_SUM, {20, 24, 28}, largest, true);
    run_type<double>(b, RP_OP_SUM, sizes, largest, false);
    run_type<double>(b, RP_OP_SUM, {20, 24, 28}, largest, true);
    run_type<int>(b, RP_OP_SUM, sizes, largest, false);
    run_type<float>(b, RP_OP_MAX, sizes, largest, false);
    return 0;
}
