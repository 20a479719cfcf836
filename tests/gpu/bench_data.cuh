// Arrays for the GPU benchmarks, made on the device, and what is true of them.
#pragma once

#include <cuda_runtime.h>

#include "proto/types.h"

namespace bench {

enum Kind {
    INTS,       // -7 to 8 in any type, so that every sum is exact in every type that is wide enough
    UNIFORM,    // floats in [0, 1)
    NORMAL,     // floats of mean 0 and variance 1
    FULL_RANGE, // any finite bits
    SPECIALS,   // UNIFORM with NaN, +inf and -inf in one element of 1024 each
    NEGATIVE_ZEROS,
    SUBNORMALS
};
const char *kind_name(Kind kind);

// Enqueue: n elements of `dtype` at `data`. Integers can only be INTS.
void fill(void *data, int dtype, Kind kind, size_t n, cudaStream_t stream);

// Of INTS, by a plain integer kernel of its own; waits for it.
struct Moments {
    long long count, sum, squares, least, most;
};
Moments moments_of(const void *data, int dtype, size_t n, cudaStream_t stream);

// The result of `op` on such data as a double, correctly rounded where `op` is; NAN if it is not told.
double expected(int op, const Moments &m);

} // namespace bench
