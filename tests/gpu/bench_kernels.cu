// The pass chain beside CUB on device-resident data, in one run.
//
//     bench_kernels [--only GROUP,...] [--types DTYPE,...] [--largest LOG2] [--smallest LOG2] [--runs N] [--json FILE]
//
// Each case prints a line: our median time and rate, then each peer's with, in brackets, its time over ours. Inputs
// rotate through a pool far larger than L2, so each run reads from device memory. Results stay on the device; CUB's
// temporary storage is allocated beforehand. What is computed is checked: `exact` is the exact value, DIFFERENT is not.
#include <cmath>
#include <cstring>

#include "tests/gpu/bench_setup.cuh"

namespace {

using namespace bench;

// ---- ceilings: what the memory gives ----

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

void adversarial_case(Bench &b, int op, int dtype, int log2, Kind kind)
{
    size_t n = (size_t)1 << log2, bytes = n * rp_dtype_size(dtype), half = b.pool_bytes / 2;
    fill(b.pool + half, dtype, kind, half / rp_dtype_size(dtype), b.meter.stream);
    Inputs easy = std::make_shared<Rotation>(b.pool, half, bytes);
    Inputs hard = std::make_shared<Rotation>(b.pool + half, half, bytes);
    Case c = {"adversarial", name_of(op, dtype, log2) + " " + kind_name(kind), bytes, {}};
    c.rivals = {ours(b, "reduced", op, dtype, n, hard), ours(b, "reduced-uniform", op, dtype, n, easy),
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
            adversarial_case(b, RP_OP_SUM, dtype, log2, kind);
        for (Kind kind : {FULL_RANGE, SPECIALS}) // beside CUB's plain sum, like all moments
            adversarial_case(b, RP_OP_VAR, dtype, log2, kind);
    }
}

// Squares of floats of any exponents, beside those of normal data
void far(Bench &b)
{
    for (int dtype : {RP_F64, RP_F32}) {
        if (!wanted(b, dtype, 20))
            continue;
        const size_t half = b.pool_bytes / 2;
        fill(b.pool, dtype, NORMAL, half / rp_dtype_size(dtype), b.meter.stream);
        fill(b.pool + half, dtype, FULL_RANGE, half / rp_dtype_size(dtype), b.meter.stream);
        for (int log2 : {20, 24, dtype == RP_F64 ? 27 : 28})
            for (int op : {RP_OP_VAR, RP_OP_STD, RP_OP_NORM2}) {
                const size_t n = (size_t)1 << log2, bytes = n * rp_dtype_size(dtype);
                if (!wanted(b, dtype, log2))
                    continue;
                Case c = {"far", name_of(op, dtype, log2) + " full-range", bytes, {}};
                c.rivals = {ours(b, "reduced", op, dtype, n, std::make_shared<Rotation>(b.pool + half, half, bytes)),
                            ours(b, "reduced-normal", op, dtype, n, std::make_shared<Rotation>(b.pool, half, bytes))};
                b.meter.measure(c);
                b.meter.report(c, "-");
            }
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

// ---- small and middle arrays, and rows of middle length, of normal data ----

// Beside sum and max, which need as many bytes.
void normal_array(Bench &b, int dtype, int log2)
{
    const size_t n = (size_t)1 << log2, bytes = n * rp_dtype_size(dtype);
    if (!wanted(b, dtype, log2) || log2 < b.options.smallest)
        return;
    for (int op : {RP_OP_MEAN, RP_OP_VAR, RP_OP_NORM2, RP_OP_STATS, RP_OP_NORM1, RP_OP_NORMINF}) {
        Inputs in = inputs(b, bytes);
        Case c = {"normal", name_of(op, dtype, log2) + " normal", bytes, {}};
        c.rivals = {ours(b, "reduced", op, dtype, n, in), ours(b, "reduced-sum", RP_OP_SUM, dtype, n, in),
                    ours(b, "reduced-max", RP_OP_MAX, dtype, n, in), cub(b, "cub-sum", cub_peer::sum, dtype, n, in)};
        b.meter.measure(c);
        b.meter.report(c, "-");
    }
}

// Beside small integers, which fit any window.
void normal_rows(Bench &b, int dtype, size_t rows, size_t row_len)
{
    const size_t bytes = rows * row_len * rp_dtype_size(dtype), half = b.pool_bytes / 2;
    const std::string shape = std::to_string(rows) + " x " + std::to_string(row_len);
    for (int op : {RP_OP_SUM, RP_OP_MEAN, RP_OP_VAR, RP_OP_NORM2, RP_OP_NORM1, RP_OP_NORMINF}) {
        const rp_spec spec = spec_of(op, dtype, rows, row_len, 0);
        Case c = {"normal", std::string(rp_op_name(op)) + " " + rp_dtype_name(dtype) + " " + shape + " normal", bytes, {}};
        c.rivals = {ours(b, "reduced", spec, std::make_shared<Rotation>(b.pool, half, bytes)),
                    ours(b, "reduced-ints", spec, std::make_shared<Rotation>(b.pool + half, half, bytes))};
        b.meter.measure(c);
        b.meter.report(c, "-");
    }
}

// Axis 1 of planes x rows x columns, or axis 0 of one plane.
void normal_columns(Bench &b, int dtype, size_t planes, size_t rows, size_t columns)
{
    const size_t bytes = planes * rows * columns * rp_dtype_size(dtype);
    const std::string shape = (planes > 1 ? "axis 1 of " + std::to_string(planes) + " x " : "axis 0 of ") +
                              std::to_string(rows) + " x " + std::to_string(columns);
    for (int op : {RP_OP_SUM, RP_OP_MEAN, RP_OP_VAR, RP_OP_NORM2, RP_OP_MAX, RP_OP_NORMINF}) {
        rp_spec spec = spec_of(op, dtype, rows, columns, RP_COLUMNS);
        spec.planes = planes;
        Case c = {"columns", std::string(rp_op_name(op)) + " " + rp_dtype_name(dtype) + " " + shape + " normal", bytes, {}};
        c.rivals = {ours(b, "reduced", spec, inputs(b, bytes))};
        b.meter.measure(c);
        b.meter.report(c, "-");
    }
}

// Columns of middle length, of arrays of 4 to 64 MiB
void columns(Bench &b)
{
    for (int dtype : {RP_F32, RP_F64, RP_F16, RP_BF16}) {
        if (!listed(b.options.dtypes, rp_dtype_name(dtype)))
            continue;
        fill(b.pool, dtype, NORMAL, b.pool_bytes / rp_dtype_size(dtype), b.meter.stream);
        for (auto shape : {std::pair<size_t, size_t>{128, 131072}, {256, 4096}, {1024, 16384}, {4096, 4096}, {16384, 1024}})
            normal_columns(b, dtype, 1, shape.first, shape.second);
        normal_columns(b, dtype, 64, 512, 512);
    }
}

void normal(Bench &b)
{
    for (int dtype : {RP_F32, RP_F64, RP_F16}) {
        if (!listed(b.options.dtypes, rp_dtype_name(dtype)))
            continue;
        const size_t n = b.pool_bytes / rp_dtype_size(dtype);
        fill(b.pool, dtype, NORMAL, n / 2, b.meter.stream);
        fill(b.pool + b.pool_bytes / 2, dtype, INTS, n / 2, b.meter.stream);
        for (auto shape :
             {std::pair<size_t, size_t>{1 << 17, 1 << 7}, {1 << 14, 1 << 10}, {1 << 12, 1 << 8}, {1 << 10, 1 << 14}})
            normal_rows(b, dtype, shape.first, shape.second);
        if (dtype == RP_F32)
            for (auto shape : {std::pair<size_t, size_t>{1 << 19, 1 << 5}, {64, 1 << 14}, {16, 1 << 20}, {4096, 1 << 12}})
                normal_rows(b, dtype, shape.first, shape.second);
        fill(b.pool, dtype, NORMAL, n, b.meter.stream);
        for (int log2 : {10, 16, 20, 22, 24, 27, 28})
            if (dtype == RP_F32 ? log2 != 27 : dtype == RP_F64 && (log2 == 20 || log2 == 24 || log2 == 27))
                normal_array(b, dtype, log2);
    }
}

// ---- elements with weights, which lie behind them ----

void pair(Bench &b, std::string name, int op, int dtype, int weights, rp_extent extent, size_t rows, size_t row_len)
{
    const size_t beside = extent == RP_EXTENT_ROW ? row_len : rows * row_len;
    const size_t bytes = rows * row_len * rp_dtype_size(dtype) + beside * rp_dtype_size(weights);
    rp_spec s = spec_of(op, dtype, rows, row_len, RP_WEIGHTS);
    s.weights = (uint8_t)weights;
    s.weights_extent = (uint8_t)extent;
    Inputs in = inputs(b, bytes);
    Case c = {"pairs", name, bytes, {ours(b, "reduced", s, in), reader(b, bytes, in)}};
    b.meter.measure(c);
    b.meter.report(c, "-");
}

void pairs(Bench &b)
{
    for (int dtype : {RP_F32, RP_F64}) {
        const int log2 = dtype == RP_F32 ? 28 : 27;
        if (!wanted(b, dtype, log2 + 1))
            continue;
        for (Kind kind : {INTS, NORMAL}) {
            const std::string of = kind == NORMAL ? " normal" : "";
            fill(b.pool, dtype, kind, b.pool_bytes / rp_dtype_size(dtype), b.meter.stream);
            for (int op : {RP_OP_DOT, RP_OP_WMEAN, RP_OP_COV, RP_OP_CORR})
                for (int size : {20, 24, log2})
                    pair(b, name_of(op, dtype, size) + of, op, dtype, dtype, RP_EXTENT_ELEMENTS, 1, (size_t)1 << size);
            const std::string type = rp_dtype_name(dtype);
            for (int op : {RP_OP_WMEAN, RP_OP_COV})
                pair(b, std::string(rp_op_name((rp_op)op)) + " " + type + " 262144 x 1024, a row of weights" + of, op, dtype,
                     dtype, RP_EXTENT_ROW, 1 << 18, 1024);
        }
    }
    if (!wanted(b, RP_F32, 28))
        return;
    fill_pool(b, RP_F64); // halves of these are finite numbers, too
    pair(b, "wmean f32 2^27, weights f64", RP_OP_WMEAN, RP_F32, RP_F64, RP_EXTENT_ELEMENTS, 1, (size_t)1 << 27);
}

// ---- sums as on cards with slow doubles, forced on this one ----

void integers(Bench &b)
{
    const size_t n = (size_t)1 << 28, bytes = n * rp_dtype_size(RP_F32);
    if (!wanted(b, RP_F32, 28))
        return;
    fill_pool(b, RP_F32);
    const bool slow_doubles = b.device.slow_doubles;
    b.device.slow_doubles = true;
    for (int op : {RP_OP_SUM, RP_OP_MEAN, RP_OP_VAR, RP_OP_STATS}) {
        Inputs in = inputs(b, bytes);
        Case c = {"integers", name_of(op, RP_F32, 28) + " by integers", bytes, {}};
        c.rivals = {ours(b, "reduced", op, RP_F32, n, in), cub(b, "cub-sum", cub_peer::sum, RP_F32, n, in)};
        b.meter.measure(c);
        b.meter.report(c, check(b, op, RP_F32, n));
    }
    b.device.slow_doubles = slow_doubles;
}

} // namespace

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(Bench &);
    } groups[] = {{"ceiling", ceilings},  {"sum", sums},           {"max", maxima},      {"adversarial", adversarial},
                  {"far", far},           {"types", narrow_types}, {"moments", moments}, {"framework", framework_ops},
                  {"rows", rows},         {"shapes", shapes},      {"normal", normal},   {"columns", columns},
                  {"integers", integers}, {"pairs", pairs},        {"order", order}};
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
    printf("%s, %s, %s\n", b.device.name, cub_peer::version(), b.options.queued ? "device time alone" : "launch included");
    for (const auto &g : groups)
        if (listed(b.options.groups, g.name))
            g.run(b);
    return 0;
}
