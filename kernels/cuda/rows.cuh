// Kernels for many short lines (rows or segments): several lanes of a warp, or one, finish a line.
#pragma once

#include "kernels/cuda/finish.cuh"
#include "kernels/line.h"

namespace rk {

constexpr int kRowThreads = 128;

struct RowArgs {
    const uint8_t *offsets, *elements; // as in rp_parts
    u64 lines;
    u64 longest;     // longer lines are passed over
    u32 lanes;       // of a line: a power of two up to a warp
    u32 state_words; // of shared memory for each thread
    bool skip;       // NaNs are left out and counted
};

using RowsKernel = void (*)(FinishArgs, RowArgs);

RowsKernel sum_rows_kernel(int dtype);      // sum_rows.cu: f16 bf16 f32 f64
RowsKernel sum_tiny_rows_kernel(int dtype); // equal rows, lanes = 1

} // namespace rk
