// The pass chain beside CUB on device-resident data, in one run.
//
//     bench_kernels [--only GROUP,...] [--types DTYPE,...] [--largest LOG2] [--smallest LOG2] [--runs N] [--json FILE]
//
// Each case prints a line: our median time and rate, then each peer's with, in brackets, its time over ours. Inputs
// rotate through a pool far larger than L2, so each run reads from device memory. Results stay on the device; CUB's
// temporary storage is allocated beforehand. What is computed is checked: `exact` is the exact value, DIFFERENT is not.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "kernels/cuda/chain.cuh"
#include "tests/gpu/bench.cuh"
#include "tests/gpu/bench_data.cuh"
#include "tests/gpu/cub_peer.cuh"

namespace {

using namespace bench;

constexpr size_t kMiB = (size_t)1 << 20, kPool = 8192 * kMiB, kSpare = 2048 * kMiB, kResults = 64 * kMiB;
constexpr size_t kTemp = 256 * kMiB;

struct Bench {
    const Options options;
    Meter meter;
    rk::Device device;
    char *pool;        // the inputs
    size_t pool_bytes;
    char *spare;       // kSpare bytes: copies go here
    void *scratch;     // the chain's
    void *cells;       // kResults bytes each
    void *peer_cells;
    unsigned *fault;
    cub_peer::Temp temp;

    explicit Bench(const Options &o) : options(o), meter(o) {}
};

// Arrays of `bytes` one after another out of a part of the pool, the next one each time.
class Rotation {
public:
    Rotation(const void *first, size_t space, size_t bytes)
        : base((const char *)first), stride((bytes + 255) / 256 * 256), places(std::max<size_t>(1, space / stride))
    {
    }
    size_t count() const { return places; }
    const void *place(size_t i) const { return base + stride * i; }
    const void *next() { return place(at++ % places); }

private:
    const char *base;
    size_t stride, places, at = 0;
};

// Several rivals may take turns with one rotation.
using Inputs = std::shared_ptr<Rotation>;

Inputs inputs(const Bench &b, size_t bytes) { return std::make_shared<Rotation>(b.pool, b.pool_bytes, bytes); }

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

Rival ours(Bench &b, std::string name, rp_spec spec, Inputs in)
{
    rp_fault f;
    bool known = rp_spec_check(&spec, &f) == RP_OK;
    rk::ChainTask t = {};
    t.spec = spec;
    t.cells = b.cells;
    t.fault = b.fault;
    auto launch = [&b, known, t, in]() mutable {
        if (!known)
            return cudaErrorNotSupported;
        t.data = in->next();
        return rk::chain_launch(&b.device, t, b.scratch, rk::chain_scratch_bytes(), b.meter.stream);
    };
    return {name, launch, {}};
}

// One array, one result.
Rival ours(Bench &b, std::string name, int op, int dtype, size_t n, Inputs in)
{
    return ours(b, name, spec_of(op, dtype, 1, n, 0), in);
}

using CubReduce = cudaError_t (*)(int, const void *, size_t, void *, cub_peer::Temp, cudaStream_t);

Rival cub(Bench &b, std::string name, CubReduce reduce, int dtype, size_t n, Inputs in)
{
    return {name,
            [&b, reduce, dtype, n, in] { return reduce(dtype, in->next(), n, b.peer_cells, b.temp, b.meter.stream); },
            {}};
}

// ---- ceilings: what the memory gives ----

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

Rival reader(Bench &b, size_t bytes, Inputs in)
{
    auto launch = [&b, bytes, in] {
        read_all<<<b.device.sms * 4, 512, 0, b.meter.stream>>>((const uint4 *)in->next(), bytes / 16,
                                                               (unsigned *)b.peer_cells);
        return cudaGetLastError();
    };
    return {"read", launch, {}};
}

// Moves `bytes`: reads half as much and writes as much again.
Rival copier(Bench &b, size_t bytes, Inputs in)
{
    auto launch = [&b, bytes, in] {
        return cudaMemcpyAsync(b.spare, in->next(), bytes / 2, cudaMemcpyDeviceToDevice, b.meter.stream);
    };
    return {"copy", launch, {}};
}

void ceilings(Bench &b)
{
    for (int log2 : {28, 30, 32}) {
        size_t bytes = std::min((size_t)1 << log2, 2 * kSpare);
        Inputs in = inputs(b, bytes);
        Case c = {"ceiling", "ceiling " + std::to_string(bytes >> 20) + " MiB", bytes, {}};
        c.rivals = {copier(b, bytes, in), reader(b, bytes, in)};
        b.meter.measure(c);
        b.meter.report(c, "-");
    }
}

// ---- one array, one result ----

// Our result for the first array of the pool beside the exact one.
const char *check(Bench &b, int op, int dtype, size_t n)
{
    double want = expected(op, moments_of(b.pool, dtype, n, b.meter.stream)), got = NAN;
    if (std::isnan(want) || ours(b, "", op, dtype, n, inputs(b, n * rp_dtype_size(dtype))).launch() != cudaSuccess)
        return "-";
    unsigned char cell[8];
    CK(cudaStreamSynchronize(b.meter.stream));
    CK(cudaMemcpy(cell, b.cells, sizeof cell, cudaMemcpyDeviceToHost));
    long long integer;
    memcpy(&integer, cell, 8);
    memcpy(&got, cell, 8);
    if (rp_dtype_class(dtype) != RP_CLASS_FLOAT) // i64 replies to integers, f64 to floats
        got = (double)integer;
    return got == want ? "exact" : fabs(got - want) <= 0x1p-52 * fabs(want) ? "close" : "DIFFERENT";
}

std::string name_of(int op, int dtype, int log2)
{
    return std::string(rp_op_name(op)) + " " + rp_dtype_name(dtype) + " 2^" + std::to_string(log2);
}

bool wanted(const Bench &b, int dtype, int log2)
{
    return listed(b.options.dtypes, rp_dtype_name(dtype)) && log2 <= b.options.largest &&
           (rp_dtype_size(dtype) << log2) <= b.pool_bytes;
}

void fill_pool(Bench &b, int dtype)
{
    fill(b.pool, dtype, INTS, b.pool_bytes / rp_dtype_size(dtype), b.meter.stream);
}

using Peers = std::vector<std::pair<const char *, CubReduce>>;

// One of our reductions and the peers that do it on the same arrays.
void reduce(Bench &b, const char *group, int op, int dtype, int log2, const Peers &peers)
{
    size_t n = (size_t)1 << log2, bytes = n * rp_dtype_size(dtype);
    Inputs in = inputs(b, bytes);
    Case c = {group, name_of(op, dtype, log2), bytes, {ours(b, "reduced", op, dtype, n, in)}};
    for (const auto &p : peers)
        c.rivals.push_back(cub(b, p.first, p.second, dtype, n, in));
    b.meter.measure(c);
    b.meter.report(c, check(b, op, dtype, n));
}

void through_sizes(Bench &b, const char *group, int op, int dtype, CubReduce peer, bool reproducible)
{
    if (!listed(b.options.dtypes, rp_dtype_name(dtype)))
        return;
    fill_pool(b, dtype);
    for (int log2 = 10; log2 <= 30; log2 += 2)
        if (wanted(b, dtype, log2) && log2 >= b.options.smallest) {
            Peers peers = {{"cub", peer}};
            if (reproducible && log2 % 4 == 0) // 2^12, 16, 20, 24, 28
                peers.push_back({"cub-gpu-to-gpu", cub_peer::reproducible_sum});
            reduce(b, group, op, dtype, log2, peers);
        }
}

void sums(Bench &b)
{
    through_sizes(b, "sum", RP_OP_SUM, RP_F32, cub_peer::sum, true);
    through_sizes(b, "sum", RP_OP_SUM, RP_F64, cub_peer::sum, true);
    through_sizes(b, "sum", RP_OP_SUM, RP_I32, cub_peer::sum, false);
}

void maxima(Bench &b) { through_sizes(b, "max", RP_OP_MAX, RP_F32, cub_peer::max, false); }

// What frameworks are asked for; tests/bench/peers_gpu.py measures them on the same cases.
void framework_ops(Bench &b)
{
    for (int dtype : {RP_F32, RP_F16}) {
        if (!wanted(b, dtype, 28))
            continue;
        fill_pool(b, dtype);
        for (int op : {RP_OP_MAX, RP_OP_ARGMAX, RP_OP_STD})
            if (dtype == RP_F16 || op == RP_OP_ARGMAX) // the others belong to other groups
                reduce(b, "framework", op, dtype, 28, {});
    }
}

// ---- any data at the same speed ----

void adversarial_case(Bench &b, int dtype, int log2, Kind kind)
{
    size_t n = (size_t)1 << log2, bytes = n * rp_dtype_size(dtype), half = b.pool_bytes / 2;
    fill(b.pool + half, dtype, kind, half / rp_dtype_size(dtype), b.meter.stream);
    Inputs easy = std::make_shared<Rotation>(b.pool, half, bytes);
    Inputs hard = std::make_shared<Rotation>(b.pool + half, half, bytes);
    Case c = {"adversarial", name_of(RP_OP_SUM, dtype, log2) + " " + kind_name(kind), bytes, {}};
    c.rivals = {ours(b, "reduced", RP_OP_SUM, dtype, n, hard),
                ours(b, "reduced-uniform", RP_OP_SUM, dtype, n, easy),
                cub(b, "cub", cub_peer::sum, dtype, n, hard), cub(b, "cub-uniform", cub_peer::sum, dtype, n, easy)};
    b.meter.measure(c);
    b.meter.report(c, "-");
}

void adversarial(Bench &b)
{
    for (int dtype : {RP_F32, RP_F64}) {
        int log2 = dtype == RP_F32 ? 28 : 27; // 1 GiB
        if (!wanted(b, dtype, log2))
            continue;
        fill(b.pool, dtype, UNIFORM, b.pool_bytes / 2 / rp_dtype_size(dtype), b.meter.stream);
        for (Kind kind : {FULL_RANGE, SPECIALS, NEGATIVE_ZEROS, SUBNORMALS})
            adversarial_case(b, dtype, log2, kind);
    }
}

// ---- narrow elements: bytes a second beside what the memory gives ----

void narrow_types(Bench &b)
{
    for (int dtype : {RP_I8, RP_I16, RP_I32, RP_F16, RP_BF16}) {
        if (!wanted(b, dtype, 28))
            continue;
        size_t n = (size_t)1 << 28, bytes = n * rp_dtype_size(dtype);
        fill_pool(b, dtype);
        Inputs in = inputs(b, bytes);
        Case c = {"types", "wide " + name_of(RP_OP_SUM, dtype, 28), bytes, {}};
        c.rivals = {ours(b, "reduced", RP_OP_SUM, dtype, n, in), copier(b, bytes, in), reader(b, bytes, in),
                    cub(b, "cub-widened", cub_peer::wide_sum, dtype, n, in)};
        b.meter.measure(c);
        b.meter.report(c, check(b, RP_OP_SUM, dtype, n));
    }
}

// ---- moments: more arithmetic for the same bytes ----

void moments(Bench &b)
{
    for (int dtype : {RP_F32, RP_F64}) {
        int log2 = dtype == RP_F32 ? 28 : 27; // 1 GiB
        if (!wanted(b, dtype, log2))
            continue;
        fill_pool(b, dtype);
        for (int op : {RP_OP_MEAN, RP_OP_VAR, RP_OP_STD, RP_OP_NORM2, RP_OP_SUMSQ, RP_OP_STATS}) {
            size_t n = (size_t)1 << log2, bytes = n * rp_dtype_size(dtype);
            Inputs in = inputs(b, bytes);
            Case c = {"moments", name_of(op, dtype, log2), bytes, {}};
            c.rivals = {ours(b, "reduced", op, dtype, n, in), ours(b, "reduced-sum", RP_OP_SUM, dtype, n, in),
                        cub(b, "cub-sum", cub_peer::sum, dtype, n, in)};
            b.meter.measure(c);
            b.meter.report(c, check(b, op, dtype, n));
        }
    }
}

// ---- rows: many results ----

// Both results of `rows` rows of ours (f64) and CUB's (f32) from the last runs on the same input.
const char *check_rows(Bench &b, Rival &our, Rival &peer, size_t rows)
{
    CK(our.launch());
    if (peer.launch() != cudaSuccess)
        return "-";
    CK(cudaStreamSynchronize(b.meter.stream));
    std::vector<double> x(rows);
    std::vector<float> y(rows);
    CK(cudaMemcpy(x.data(), b.cells, rows * sizeof(double), cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(y.data(), b.peer_cells, rows * sizeof(float), cudaMemcpyDeviceToHost));
    bool close = false;
    for (size_t i = 0; i < rows; i++)
        if (!(x[i] == (double)y[i])) {
            if (!(fabs(x[i] - (double)y[i]) <= 1e-5 * fabs(x[i])))
                return "DIFFERENT";
            close = true;
        }
    return close ? "close" : "exact";
}

// Offsets of rows of `least` to `most` elements.
std::vector<long long> row_offsets(size_t rows, size_t least, size_t most)
{
    std::vector<long long> offsets(rows + 1);
    u64 random = 1;
    for (size_t i = 0; i < rows; i++) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        offsets[i + 1] = offsets[i] + (long long)(least + (random >> 33) % (most - least + 1));
    }
    return offsets;
}

void to_device(void *to, const std::vector<long long> &v)
{
    CK(cudaMemcpy(to, v.data(), v.size() * sizeof v[0], cudaMemcpyHostToDevice));
}

Rival cub_segmented(Bench &b, size_t rows, const long long *offsets, Inputs in)
{
    auto launch = [&b, rows, offsets, in] {
        return cub_peer::segmented_sum((const float *)in->next(), rows, offsets, (float *)b.peer_cells, b.temp,
                                       b.meter.stream);
    };
    return {"cub-segmented", launch, {}};
}

Rival cub_fixed_segments(Bench &b, size_t rows, size_t length, Inputs in)
{
    auto launch = [&b, rows, length, in] {
        return cub_peer::fixed_segmented_sum((const float *)in->next(), rows, length, (float *)b.peer_cells, b.temp,
                                             b.meter.stream);
    };
    return {"cub-fixed-segments", launch, {}};
}

void equal_row_sums(Bench &b, size_t rows, size_t length)
{
    size_t bytes = rows * length * sizeof(float);
    if (bytes > b.pool_bytes)
        return;
    long long *offsets = (long long *)b.spare;
    to_device(offsets, row_offsets(rows, length, length));
    rp_spec spec = spec_of(RP_OP_SUM, RP_F32, rows, length, 0);
    Inputs in = inputs(b, bytes);
    Case c = {"rows", "sum f32 " + std::to_string(rows) + " x " + std::to_string(length), bytes, {}};
    c.rivals = {ours(b, "reduced", spec, in), cub_segmented(b, rows, offsets, in),
                cub_fixed_segments(b, rows, length, in)};
    b.meter.measure(c);
    Inputs first = std::make_shared<Rotation>(b.pool, 0, bytes); // always the same array
    Rival our = ours(b, "", spec, first), peer = cub_segmented(b, rows, offsets, first);
    b.meter.report(c, check_rows(b, our, peer, rows));
}

Rival cub_segments(Bench &b, size_t rows, Inputs in)
{
    auto launch = [&b, rows, in] {
        const long long *offsets = (const long long *)in->next();
        return cub_peer::segmented_sum((const float *)(offsets + rows + 1), rows, offsets, (float *)b.peer_cells,
                                       b.temp, b.meter.stream);
    };
    return {"cub-segmented", launch, {}};
}

// Rows of mixed lengths: each array of the pool begins with its offsets.
void mixed_row_sums(Bench &b, size_t rows, size_t least, size_t most)
{
    std::vector<long long> offsets = row_offsets(rows, least, most);
    size_t elements = (size_t)offsets[rows], bytes = (rows + 1) * sizeof(long long) + elements * sizeof(float);
    if (bytes > b.pool_bytes)
        return;
    rp_spec spec = spec_of(RP_OP_SUM, RP_F32, rows, elements, RP_OFFSETS);
    Inputs in = inputs(b, bytes), first = std::make_shared<Rotation>(b.pool, 0, bytes);
    for (size_t i = 0; i < in->count(); i++)
        to_device((void *)in->place(i), offsets);
    Case c = {"rows",
              "sum f32 " + std::to_string(rows) + " x " + std::to_string(least) + ".." + std::to_string(most), bytes,
              {ours(b, "reduced", spec, in), cub_segments(b, rows, in)}};
    b.meter.measure(c);
    Rival our = ours(b, "", spec, first), peer = cub_segments(b, rows, first);
    b.meter.report(c, check_rows(b, our, peer, rows));
}

void rows(Bench &b)
{
    if (!listed(b.options.dtypes, "f32"))
        return;
    fill_pool(b, RP_F32);
    for (size_t length : {2, 32, 1024})
        equal_row_sums(b, 1000000, length);
    equal_row_sums(b, 4, (size_t)1 << 26);
    mixed_row_sums(b, 100000, 100, 10000); // last: its offsets are no floats to add
}

void allocate(Bench &b)
{
    for (b.pool_bytes = kPool; cudaMalloc((void **)&b.pool, b.pool_bytes) != cudaSuccess; b.pool_bytes /= 2)
        CK(b.pool_bytes < (size_t)1 << 30 ? cudaErrorMemoryAllocation : cudaSuccess);
    cudaGetLastError();
    CK(cudaMalloc((void **)&b.spare, kSpare));
    CK(cudaMalloc(&b.scratch, rk::chain_scratch_bytes()));
    CK(cudaMalloc(&b.cells, kResults));
    CK(cudaMalloc(&b.peer_cells, kResults));
    CK(cudaMalloc((void **)&b.fault, sizeof *b.fault));
    b.temp.bytes = kTemp;
    CK(cudaMalloc(&b.temp.data, b.temp.bytes));
}

} // namespace

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(Bench &);
    } groups[] = {{"ceiling", ceilings}, {"sum", sums},         {"max", maxima},          {"adversarial", adversarial},
                  {"types", narrow_types}, {"moments", moments}, {"framework", framework_ops}, {"rows", rows}};
    std::string names;
    for (const auto &g : groups)
        names += std::string(names.empty() ? "" : ",") + g.name;
    Options options = options_of(argc, argv, names.c_str());
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("no device\n");
        return 77;
    }
    Bench b(options);
    CK(rk::device_open(&b.device, 0));
    allocate(b);
    printf("%s, %s, %s\n", b.device.name, cub_peer::version(),
           b.options.queued ? "device time alone" : "launch included");
    for (const auto &g : groups)
        if (listed(b.options.groups, g.name))
            g.run(b);
    return 0;
}
