#include "tests/gpu/bench_setup.cuh"

namespace bench {
namespace {

// Reads everything and writes nothing, unless the data have one improbable word.
__global__ void __launch_bounds__(512) read_all(const uint4 *p, size_t n, unsigned *out)
{
    constexpr int kUnroll = 8;
    const size_t threads = (size_t)gridDim.x * blockDim.x, first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned all = 0;
    for (size_t i = first; i < n; i += threads * kUnroll) {
        uint4 v[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            v[u] = i + u * threads < n ? __ldcs(p + i + u * threads) : uint4();
#pragma unroll
        for (int u = 0; u < kUnroll; u++)
            all |= (v[u].x ^ 0x9e3779b9u) & (v[u].y ^ 0x7f4a7c15u) & v[u].z & v[u].w;
    }
    if (all == 0xfedcba98u)
        *out = all;
}

} // namespace

Bench::Bench(const Options &o) : options(o), meter(o)
{
    CK(rk::device_open(&device, 0));
    for (pool_bytes = (size_t)8 << 30; cudaMalloc((void **)&pool, pool_bytes) != cudaSuccess; pool_bytes /= 2)
        CK(pool_bytes < (size_t)1 << 30 ? cudaErrorMemoryAllocation : cudaSuccess);
    cudaGetLastError();
    CK(cudaMalloc((void **)&spare, kSpare));
    CK(cudaMalloc(&scratch, rk::chain_scratch_bytes()));
    CK(rk::chain_scratch_clear(scratch, meter.stream));
    CK(cudaMalloc(&cells, kResults));
    CK(cudaMalloc(&peer_cells, kResults));
    CK(cudaMalloc((void **)&fault, sizeof *fault));
    temp.bytes = (size_t)256 << 20;
    CK(cudaMalloc(&temp.data, temp.bytes));
}

Inputs inputs(const Bench &b, size_t bytes) { return std::make_shared<Rotation>(b.pool, b.pool_bytes, bytes); }

void fill_pool(Bench &b, int dtype) { fill(b.pool, dtype, INTS, b.pool_bytes / rp_dtype_size(dtype), b.meter.stream); }

std::string name_of(int op, int dtype, int log2)
{
    return std::string(rp_op_name(op)) + " " + rp_dtype_name(dtype) + " 2^" + std::to_string(log2);
}

bool wanted(const Bench &b, int dtype, int log2)
{
    return listed(b.options.dtypes, rp_dtype_name(dtype)) && log2 <= b.options.largest &&
           (rp_dtype_size(dtype) << log2) <= b.pool_bytes;
}

rp_spec spec_of(int op, int dtype, size_t rows, size_t row_len, uint32_t flags)
{
    rp_spec s = {};
    s.op = (uint8_t)op;
    s.dtype = (uint8_t)dtype;
    s.flags = flags;
    s.rows = rows;
    s.row_len = row_len;
    return s;
}

Rival ours(Bench &b, std::string name, rp_spec spec, Inputs in, const uint8_t *offsets)
{
    rp_spec one = spec; // checked as a single row: more results than a reply holds are fine here
    one.rows = one.row_len = 1;
    one.planes = 0;
    bool known = rp_spec_check(&one, nullptr) == RP_OK;
    spec.out = one.out;
    CK(known && rp_results(&spec) * rp_cell_size(&spec) > kResults ? cudaErrorInvalidValue : cudaSuccess);
    rk::ChainTask t = {};
    t.spec = spec;
    t.offsets = offsets;
    t.cells = b.cells;
    t.fault = b.fault;
    Rival r = {name, {}, {}};
    auto launch = [&b, known, t, in, route = r.route]() mutable {
        if (!known)
            return cudaErrorNotSupported;
        t.data = in->next();
        return rk::chain_launch(&b.device, t, b.scratch, rk::chain_scratch_bytes(), b.meter.stream, route.get());
    };
    r.launch = launch;
    return r;
}

Rival ours(Bench &b, std::string name, int op, int dtype, size_t n, Inputs in)
{
    return ours(b, name, spec_of(op, dtype, 1, n, 0), in);
}

Rival cub(Bench &b, std::string name, CubReduce reduce, int dtype, size_t n, Inputs in)
{
    return {
        name, [&b, reduce, dtype, n, in] { return reduce(dtype, in->next(), n, b.peer_cells, b.temp, b.meter.stream); }, {}};
}

Rival reader(Bench &b, size_t bytes, Inputs in)
{
    auto launch = [&b, bytes, in] {
        read_all<<<b.device.sms * 4, 512, 0, b.meter.stream>>>((const uint4 *)in->next(), bytes / 16, (unsigned *)b.peer_cells);
        return cudaGetLastError();
    };
    return {"read", launch, {}};
}

Rival copier(Bench &b, size_t bytes, Inputs in)
{
    auto launch = [&b, bytes, in] {
        return cudaMemcpyAsync(b.spare, in->next(), bytes / 2, cudaMemcpyDeviceToDevice, b.meter.stream);
    };
    return {"copy", launch, {}};
}

} // namespace bench
