// Many results at once: equal rows and rows of mixed lengths, beside CUB's segmented sums; and other operations and shapes,
// which tests/bench/peers_gpu.py measures, too.
#include <cmath>

#include "tests/gpu/bench_setup.cuh"

namespace bench {
namespace {

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
        return cub_peer::segmented_sum((const float *)in->next(), rows, offsets, (float *)b.peer_cells, b.temp, b.meter.stream);
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
    c.rivals = {ours(b, "reduced", spec, in), cub_segmented(b, rows, offsets, in), cub_fixed_segments(b, rows, length, in)};
    b.meter.measure(c);
    Inputs first = std::make_shared<Rotation>(b.pool, 0, bytes); // always the same array
    Rival our = ours(b, "", spec, first), peer = cub_segmented(b, rows, offsets, first);
    b.meter.report(c, check_rows(b, our, peer, rows));
}

Rival cub_segments(Bench &b, size_t rows, Inputs in)
{
    auto launch = [&b, rows, in] {
        const long long *offsets = (const long long *)in->next();
        return cub_peer::segmented_sum((const float *)(offsets + rows + 1), rows, offsets, (float *)b.peer_cells, b.temp,
                                       b.meter.stream);
    };
    return {"cub-segmented", launch, {}};
}

// Rows of mixed lengths: each array of the pool begins with its offsets.
void mixed_row_sums(Bench &b, size_t rows, size_t least, size_t most)
{
    const std::vector<long long> offsets = row_offsets(rows, least, most);
    const uint8_t *on_host = (const uint8_t *)offsets.data();
    size_t elements = (size_t)offsets[rows], bytes = (rows + 1) * sizeof(long long) + elements * sizeof(float);
    if (bytes > b.pool_bytes)
        return;
    rp_spec spec = spec_of(RP_OP_SUM, RP_F32, rows, elements, RP_OFFSETS);
    Inputs in = inputs(b, bytes), first = std::make_shared<Rotation>(b.pool, 0, bytes);
    for (size_t i = 0; i < in->count(); i++)
        to_device((void *)in->place(i), offsets);
    Case c = {"rows",
              "sum f32 " + std::to_string(rows) + " x " + std::to_string(least) + ".." + std::to_string(most),
              bytes,
              {ours(b, "reduced", spec, in, on_host), cub_segments(b, rows, in)}};
    b.meter.measure(c);
    Rival our = ours(b, "", spec, first, on_host), peer = cub_segments(b, rows, first);
    b.meter.report(c, check_rows(b, our, peer, rows));
}

} // namespace

void rows(Bench &b)
{
    if (!listed(b.options.dtypes, "f32"))
        return;
    fill_pool(b, RP_F32);
    for (size_t length : {2, 32, 1024})
        equal_row_sums(b, 1000000, length);
    equal_row_sums(b, 4, (size_t)1 << 26);
    mixed_row_sums(b, 100000, 100, 10000); // last: its offsets are not floats that could be added
}

// ---- shapes: no case may fall off a cliff ----

void shape(Bench &b, std::string name, int op, size_t rows, size_t length, uint32_t flags, int dtype = RP_F32)
{
    size_t bytes = rows * length * (rp_dtype_size(dtype) + (flags & RP_MASK ? 1 : 0));
    if (bytes > b.pool_bytes)
        return;
    Inputs in = inputs(b, bytes);
    Case c = {"shapes", name, bytes, {ours(b, "reduced", spec_of(op, dtype, rows, length, flags), in)}};
    b.meter.measure(c);
    b.meter.report(c, "-");
}

/* Axis 1 of planes x rows x columns. */
void planes(Bench &b, std::string what, int op, size_t planes, size_t rows, size_t columns)
{
    size_t bytes = planes * rows * columns * sizeof(float);
    if (bytes > b.pool_bytes)
        return;
    Inputs in = inputs(b, bytes);
    rp_spec spec = spec_of(op, RP_F32, rows, columns, RP_COLUMNS);
    spec.planes = planes;
    std::string name = what + "axis 1 of " + std::to_string(planes) + " x " + std::to_string(rows) + " x " +
                       std::to_string(columns);
    Case c = {"shapes", name, bytes, {ours(b, "reduced", spec, in)}};
    b.meter.measure(c);
    b.meter.report(c, "-");
}

void shapes_of_f32(Bench &b)
{
    fill_pool(b, RP_F32);
    for (int op : {RP_OP_MEAN, RP_OP_MAX, RP_OP_ARGMAX, RP_OP_VAR, RP_OP_STATS}) {
        const std::string what = std::string(rp_op_name(op)) + " f32 ";
        for (size_t length : {2, 32, 1024})
            shape(b, what + "1000000 x " + std::to_string(length), op, 1000000, length, 0);
        shape(b, what + "1000 x 1000", op, 1000, 1000, 0);
    }
    for (int op : {RP_OP_SUM, RP_OP_MAX, RP_OP_VAR}) {
        const std::string what = std::string(rp_op_name(op)) + " f32 ";
        for (size_t columns : {4, 1000, 16384, 1 << 20})
            shape(b, what + "axis 0 of " + std::to_string((1 << 28) / columns) + " x " + std::to_string(columns), op,
                  (1 << 28) / columns, columns, RP_COLUMNS);
        planes(b, what, op, 16, 4096, 4096);
        planes(b, what, op, 256, 1024, 1024);
        planes(b, what, op, 65536, 64, 64);
        planes(b, what, op, 1 << 22, 16, 4);
        shape(b, what + "masked 2^28", op, 1, 1 << 28, RP_MASK);
        shape(b, what + "masked 1000000 x 128", op, 1000000, 128, RP_MASK);
    }
}

// Whole numbers, of which one of 16 is zero, or normal data.
void products_of(Bench &b, int dtype, bool normal)
{
    const std::string what = std::string("prod ") + rp_dtype_name(dtype) + " ", kind = normal ? " normal" : "";
    fill(b.pool, dtype, normal ? NORMAL : INTS, b.pool_bytes / rp_dtype_size(dtype), b.meter.stream);
    for (int log2 : {10, 16, 20, 24, 27, 28})
        shape(b, what + "2^" + std::to_string(log2) + kind, RP_OP_PROD, 1, (size_t)1 << log2, 0, dtype);
    for (size_t length : {2, 32, 1024})
        shape(b, what + "1000000 x " + std::to_string(length) + kind, RP_OP_PROD, 1000000, length, 0, dtype);
    shape(b, what + "4096 x 4096" + kind, RP_OP_PROD, 4096, 4096, 0, dtype);
    shape(b, what + "axis 0 of 4096 x 4096" + kind, RP_OP_PROD, 4096, 4096, RP_COLUMNS, dtype);
}

void products(Bench &b)
{
    for (int dtype : {RP_F32, RP_F64, RP_F16, RP_BF16})
        for (bool normal : {false, true})
            if (listed(b.options.dtypes, rp_dtype_name(dtype)))
                products_of(b, dtype, normal);
}

// Rows of elements that are not of 4 bytes, by values that take few instructions.
void rows_of_others(Bench &b)
{
    for (int dtype : {RP_I8, RP_I16, RP_F16, RP_F64})
        for (int op : {RP_OP_SUM, RP_OP_MAX, RP_OP_ARGMAX, RP_OP_COUNT_NONZERO}) {
            if (!listed(b.options.dtypes, rp_dtype_name(dtype)))
                continue;
            fill_pool(b, dtype);
            const std::string what = std::string(rp_op_name(op)) + " " + rp_dtype_name(dtype) + " ";
            for (size_t length : {16, 128, 1024})
                shape(b, what + std::to_string((1 << 24) / length) + " x " + std::to_string(length), op, (1 << 24) / length,
                      length, 0, dtype);
        }
}

void shapes(Bench &b)
{
    if (listed(b.options.dtypes, "f32"))
        shapes_of_f32(b);
    rows_of_others(b);
    products(b);
}

} // namespace bench
