// Order statistics beside our sum of the same bytes, CUB's radix sort and its histogram: random data and the kinds of it that
// selections dislike. Other peers are in tests/bench/peers_gpu.py.
#include <vector>

#include "proto/tagged.h"
#include "tests/gpu/bench_setup.cuh"

namespace bench {
namespace {

enum Hard { NONE, EQUAL, TWO, SORTED, HALF_NAN, ORGAN, SUBNORMAL };
const char *const kHard[] = {"", ", all equal", ", two values", ", sorted", ", NaN half", ", organ pipe", ", subnormal"};

template <class T> __global__ void make_hard(T *p, size_t n, Hard kind)
{
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        const u64 mixed = (i + 1) * 0x9e3779b97f4a7c15ull, z = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ull;
        const T x = (T)((double)(z >> 11) * 0x1p-52 - 1);
        const T least = sizeof(T) == 4 ? (T)0x1p-126 : (T)0x1p-1022;
        p[i] = kind == EQUAL       ? (T)0.5
               : kind == TWO       ? (T)(z >> 63 ? 0.5 : -0.25)
               : kind == SORTED    ? (T)((double)i / (double)n * 2 - 1)
               : kind == ORGAN     ? (T)((double)(i < n / 2 ? i : n - i) / (double)n)
               : kind == SUBNORMAL ? x * least
               : z >> 63           ? (T)NAN
                                   : x;
    }
}

void make(Bench &b, int dtype, Hard kind)
{
    const size_t n = b.pool_bytes / rp_dtype_size(dtype);
    if (kind == NONE)
        fill(b.pool, dtype, NORMAL, n, b.meter.stream);
    else if (dtype == RP_F32)
        make_hard<<<4096, 256, 0, b.meter.stream>>>((float *)b.pool, n, kind);
    else
        make_hard<<<4096, 256, 0, b.meter.stream>>>((double *)b.pool, n, kind);
    CK(cudaGetLastError());
    CK(cudaStreamSynchronize(b.meter.stream));
}

// What is asked for; the arrays of specs live as long as the program.
struct Ask {
    const char *name;
    rp_spec spec;
};

std::vector<double> equal_edges(int bins)
{
    std::vector<double> edges;
    for (int i = 0; i <= bins; i++)
        edges.push_back(-4 + i * 8.0 / bins);
    return edges;
}

std::vector<Ask> asks(int dtype)
{
    static uint8_t five[16 * 5];
    static const std::vector<double> hundred = equal_edges(100), many = equal_edges(10000);
    static std::vector<double> odd = hundred;
    uint8_t *to = five;
    for (int i : {1, 25, 5, 75, 9}) {
        rp_value v = {};
        v.i64 = i;
        v.exponent = i < 10 ? -1 : -2;
        to += rp_put_value(to, RP_FORM_DECIMAL, &v);
    }
    for (size_t i = 1; i + 1 < odd.size(); i += 2)
        odd[i] += 0.03;
    auto of = [&](int op) {
        rp_spec s = {};
        s.op = (uint8_t)op;
        s.dtype = (uint8_t)dtype;
        return s;
    };
    std::vector<Ask> all = {{"sum", of(RP_OP_SUM)},
                            {"median", of(RP_OP_MEDIAN)},
                            {"five quantiles", of(RP_OP_QUANTILE)},
                            {"largest 10", of(RP_OP_LARGEST)},
                            {"largest 100", of(RP_OP_LARGEST)},
                            {"smallest 262144", of(RP_OP_SMALLEST)},
                            {"histogram of 100", of(RP_OP_HISTOGRAM)},
                            {"histogram of 100 uneven", of(RP_OP_HISTOGRAM)},
                            {"histogram of 10000", of(RP_OP_HISTOGRAM)}};
    all[2].spec.quantiles = 5;
    all[2].spec.q = five;
    all[3].spec.k = 10;
    all[4].spec.k = 100;
    all[5].spec.k = 262144;
    for (int i = 6; i < 9; i++) {
        const std::vector<double> &edges = i == 6 ? hundred : i == 7 ? odd : many;
        all[i].spec.edges = (const uint8_t *)edges.data();
        all[i].spec.n_edges = (uint32_t)edges.size();
    }
    return all;
}

// What CUB has for it, with room of its own. `room` has the elements in order, then CUB's temporary storage.
void add_cub(Bench &b, Case *c, size_t i, int dtype, size_t n, Inputs in, cub_peer::Temp room)
{
    const size_t bytes = n * rp_dtype_size(dtype);
    if (room.bytes <= bytes)
        return;
    const cub_peer::Temp temp = {(char *)room.data + bytes, room.bytes - bytes};
    if (i == 1)
        c->rivals.push_back(
            {"cub-radix-sort", [=, &b] { return cub_peer::sort(dtype, in->next(), n, room.data, temp, b.meter.stream); }, {}});
    if (i == 6)
        c->rivals.push_back(
            {"cub-histogram",
             [=, &b] { return cub_peer::histogram(dtype, in->next(), n, 100, room.data, temp, b.meter.stream); },
             {}});
}

void compare(Bench &b, const std::string &shape, size_t rows, size_t row_len, int dtype, Hard kind, cub_peer::Temp room)
{
    const size_t bytes = rows * row_len * rp_dtype_size(dtype);
    if (bytes > b.pool_bytes)
        return;
    std::vector<Ask> all = asks(dtype);
    for (size_t i = 1; i < all.size(); i++) {
        rp_fault f;
        rp_spec s = all[i].spec, sum = all[0].spec;
        s.rows = sum.rows = rows;
        s.row_len = sum.row_len = row_len;
        if (rp_spec_check_large(&s, &f) != RP_OK || rp_spec_check_large(&sum, &f) != RP_OK ||
            rp_results(&s) * rp_cell_size(&s) > kResults)
            continue;
        Inputs in = inputs(b, bytes);
        Case c = {"order", std::string(all[i].name) + " " + rp_dtype_name(dtype) + " " + shape + kHard[kind], bytes, {}};
        c.rivals = {ours(b, "reduced", s, in), ours(b, "reduced-sum", sum, in)};
        if (rows == 1 && kind != HALF_NAN)
            add_cub(b, &c, i, dtype, row_len, in, room);
        b.meter.measure(c);
        b.meter.report(c, "-");
    }
}

} // namespace

void order(Bench &b)
{
    cub_peer::Temp room = {NULL, 2 * b.pool_bytes + ((size_t)64 << 20)};
    if (cudaMalloc(&room.data, room.bytes) != cudaSuccess)
        room = {NULL, 0};
    for (int dtype : {RP_F32, RP_F64})
        for (Hard kind : {NONE, EQUAL, TWO, SORTED, HALF_NAN, ORGAN, SUBNORMAL}) {
            if (!listed(b.options.dtypes, rp_dtype_name(dtype)))
                continue;
            make(b, dtype, kind);
            const int log2 = dtype == RP_F32 ? 28 : 27;
            compare(b, "2^" + std::to_string(log2), 1, (size_t)1 << log2, dtype, kind, room);
            if (kind == NONE || kind == EQUAL)
                compare(b, "262144 x 1024", 262144, 1024, dtype, kind, room);
            if (kind == NONE)
                compare(b, "2^20", 1, (size_t)1 << 20, dtype, kind, room);
        }
    cudaFree(room.data);
}

} // namespace bench
