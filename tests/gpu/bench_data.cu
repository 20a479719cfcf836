#include "tests/gpu/bench_data.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/gpu/bench.cuh"

namespace bench {
namespace {

// The bits of a float type: where its exponent starts, and its exponent field all ones.
template <class T> struct Float;
template <> struct Float<__half> {
    using Bits = uint16_t;
    static constexpr int mantissa = 10;
    static constexpr Bits infinity = 0x7c00;
};
template <> struct Float<__nv_bfloat16> {
    using Bits = uint16_t;
    static constexpr int mantissa = 7;
    static constexpr Bits infinity = 0x7f80;
};
template <> struct Float<float> {
    using Bits = uint32_t;
    static constexpr int mantissa = 23;
    static constexpr Bits infinity = 0x7f800000;
};
template <> struct Float<double> {
    using Bits = uint64_t;
    static constexpr int mantissa = 52;
    static constexpr Bits infinity = 0x7ff0000000000000;
};

// splitmix64: 64 random bits for index i.
__device__ u64 random_bits(u64 i)
{
    u64 z = (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

template <class T> __device__ T from_float(float v) { return (T)v; }
template <> __device__ __half from_float(float v) { return __float2half(v); }
template <> __device__ __nv_bfloat16 from_float(float v) { return __float2bfloat16(v); }

template <class T> __device__ typename Float<T>::Bits float_bits(Kind kind, u64 z)
{
    using F = Float<T>;
    using Bits = typename F::Bits;
    constexpr Bits sign = (Bits)1 << (8 * sizeof(T) - 1), one_ulp_exponent = (Bits)1 << F::mantissa;
    Bits bits = (Bits)z;
    switch (kind) {
    case FULL_RANGE:
        return (bits & F::infinity) == F::infinity ? bits ^ one_ulp_exponent : bits;
    case NEGATIVE_ZEROS:
        return sign;
    case SUBNORMALS:
        return bits & (sign | (one_ulp_exponent - 1));
    default:
        break;
    }
    if (kind == SPECIALS && z >> 54 < 3)
        return z >> 54 == 0 ? F::infinity | 1 : z >> 54 == 1 ? F::infinity : sign | F::infinity;
    // [1, 2) has all the mantissa's bits random; one less is in [0, 1)
    T one_to_two, result;
    Bits raw = (bits & (one_ulp_exponent - 1)) | ((F::infinity >> 1) & ~(one_ulp_exponent - 1));
    memcpy(&one_to_two, &raw, sizeof raw);
    result = one_to_two - from_float<T>(1.0f);
    memcpy(&bits, &result, sizeof bits);
    return bits;
}

// Of the normal distribution with mean 0 and variance 1 (Box and Muller 1958).
template <class T> __device__ T normal(u64 z)
{
    const double u = ((double)(uint32_t)(z >> 32) + 1) * 0x1p-32, turn = (double)(uint32_t)z * 0x1p-31;
    return (T)(sqrt(-2 * log(u)) * cospi(turn));
}
template <> __device__ __half normal(u64 z) { return __float2half(normal<float>(z)); }
template <> __device__ __nv_bfloat16 normal(u64 z) { return __float2bfloat16(normal<float>(z)); }

template <class T> __global__ void fill_normal(T *p, size_t n)
{
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = normal<T>(random_bits(i));
}

template <class T> __global__ void fill_ints(T *p, size_t n)
{
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = from_float<T>((float)(int)(random_bits(i) >> 60) - 7.0f);
}

template <class T> __global__ void fill_floats(T *p, Kind kind, size_t n)
{
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        ((typename Float<T>::Bits *)p)[i] = float_bits<T>(kind, random_bits(i));
}

template <class T> void fill_any(void *data, Kind kind, size_t n, cudaStream_t stream)
{
    if (kind == INTS)
        fill_ints<<<2048, 256, 0, stream>>>((T *)data, n);
    else if (kind == NORMAL)
        fill_normal<<<2048, 256, 0, stream>>>((T *)data, n);
    else
        fill_floats<<<2048, 256, 0, stream>>>((T *)data, kind, n);
}

template <class T> __global__ void add_up(const T *p, size_t n, Moments *m)
{
    long long sum = 0, squares = 0;
    int least = 127, most = -128;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        int v = (int)(float)p[i];
        sum += v;
        squares += v * v;
        least = min(least, v);
        most = max(most, v);
    }
    atomicAdd((u64 *)&m->sum, (u64)sum);
    atomicAdd((u64 *)&m->squares, (u64)squares);
    atomicMin(&m->least, (long long)least);
    atomicMax(&m->most, (long long)most);
}

// The unknown type is a mistake of the caller's.
[[noreturn]] void no_such(int dtype)
{
    fprintf(stderr, "no data of type %s\n", rp_dtype_name(dtype));
    exit(1);
}

} // namespace

const char *kind_name(Kind kind)
{
    static const char *const names[] = {"ints", "uniform", "normal", "full-range", "specials", "negative-zeros", "subnormals"};
    return names[kind];
}

void fill(void *data, int dtype, Kind kind, size_t n, cudaStream_t stream)
{
    switch (dtype) {
    case RP_I8:
        fill_ints<<<2048, 256, 0, stream>>>((int8_t *)data, n);
        break;
    case RP_I16:
        fill_ints<<<2048, 256, 0, stream>>>((int16_t *)data, n);
        break;
    case RP_I32:
        fill_ints<<<2048, 256, 0, stream>>>((int32_t *)data, n);
        break;
    case RP_F16:
        fill_any<__half>(data, kind, n, stream);
        break;
    case RP_BF16:
        fill_any<__nv_bfloat16>(data, kind, n, stream);
        break;
    case RP_F32:
        fill_any<float>(data, kind, n, stream);
        break;
    case RP_F64:
        fill_any<double>(data, kind, n, stream);
        break;
    default:
        no_such(dtype);
    }
    CK(cudaGetLastError());
}

Moments moments_of(const void *data, int dtype, size_t n, cudaStream_t stream)
{
    static Moments *m; // one for the program, visible to host and device
    if (!m)
        CK(cudaMallocHost((void **)&m, sizeof *m));
    *m = {(long long)n, 0, 0, INT64_MAX, INT64_MIN};
    switch (dtype) {
    case RP_I8:
        add_up<<<1024, 256, 0, stream>>>((const int8_t *)data, n, m);
        break;
    case RP_I16:
        add_up<<<1024, 256, 0, stream>>>((const int16_t *)data, n, m);
        break;
    case RP_I32:
        add_up<<<1024, 256, 0, stream>>>((const int32_t *)data, n, m);
        break;
    case RP_F16:
        add_up<<<1024, 256, 0, stream>>>((const __half *)data, n, m);
        break;
    case RP_BF16:
        add_up<<<1024, 256, 0, stream>>>((const __nv_bfloat16 *)data, n, m);
        break;
    case RP_F32:
        add_up<<<1024, 256, 0, stream>>>((const float *)data, n, m);
        break;
    case RP_F64:
        add_up<<<1024, 256, 0, stream>>>((const double *)data, n, m);
        break;
    default:
        no_such(dtype);
    }
    CK(cudaGetLastError());
    CK(cudaStreamSynchronize(stream));
    return *m;
}

double expected(int op, const Moments &m)
{
    const double n = (double)m.count;
    const __int128 spread = (__int128)m.count * m.squares - (__int128)m.sum * m.sum; // n^2 times the variance
    const double var = (double)spread / (n * n); // n is a power of two wherever this is asked for
    switch (op) {
    case RP_OP_SUM:
        return (double)m.sum;
    case RP_OP_MIN:
        return (double)m.least;
    case RP_OP_MAX:
        return (double)m.most;
    case RP_OP_MEAN:
        return (double)m.sum / n;
    case RP_OP_SUMSQ:
        return (double)m.squares;
    case RP_OP_NORM2:
        return sqrt((double)m.squares);
    case RP_OP_VAR:
        return var;
    case RP_OP_STD:
        return sqrt(var); // rounded twice: the last bit may differ
    default:
        return NAN;
    }
}

} // namespace bench
