// What the kernel benchmarks share: memory, inputs in rotation, and the rivals: our chain, CUB, plain reads and copies.
#pragma once

#include <algorithm>
#include <memory>

#include "kernels/cuda/launch/launch.h"
#include "tests/gpu/bench.cuh"
#include "tests/gpu/bench_data.cuh"
#include "tests/gpu/cub_peer.cuh"

namespace bench {

struct Bench {
    const Options options;
    Meter meter;
    rk::Device device;
    char *pool; // the inputs
    size_t pool_bytes;
    char *spare;              // kSpare bytes: copies go here
    void *scratch;            // the chain's
    void *cells, *peer_cells; // kResults bytes each
    unsigned *fault;
    cub_peer::Temp temp;

    explicit Bench(const Options &o); // allocates; there is a device
};

constexpr size_t kSpare = (size_t)2 << 30;
constexpr size_t kResults = (size_t)128 << 20; // sums of 2^24 columns, stats of 10^6 rows

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

Inputs inputs(const Bench &b, size_t bytes); // out of the whole pool

// The pool full of INTS.
void fill_pool(Bench &b, int dtype);

// "sum f32 2^20"
std::string name_of(int op, int dtype, int log2);

// Do the options ask for it, and does it fit the pool?
bool wanted(const Bench &b, int dtype, int log2);

rp_spec spec_of(int op, int dtype, size_t rows, size_t row_len, uint32_t flags);

// Our chain; `offsets`: the host's copy, which must outlive the rival. And the same for one array and one result.
Rival ours(Bench &b, std::string name, rp_spec spec, Inputs in, const uint8_t *offsets = nullptr);
Rival ours(Bench &b, std::string name, int op, int dtype, size_t n, Inputs in);

using CubReduce = cudaError_t (*)(int, const void *, size_t, void *, cub_peer::Temp, cudaStream_t);
Rival cub(Bench &b, std::string name, CubReduce reduce, int dtype, size_t n, Inputs in);

// What the memory gives: reads `bytes` and does nothing with them; moves `bytes`, half of them read, half written.
Rival reader(Bench &b, size_t bytes, Inputs in);
Rival copier(Bench &b, size_t bytes, Inputs in);

// Groups of cases of their own: sums of many rows; other operations, columns and masks.
void rows(Bench &b);
void shapes(Bench &b);
void order(Bench &b); // order statistics

} // namespace bench
