// Columns of few rows that a thread takes whole (whole_columns.cuh), and the list of lines whose values are uncertain: data
// that host and device share.
#pragma once

#include "kernels/cuda/pass/plan.h"

namespace rk {

constexpr int kColumns = 4;              // of a vector of f32
constexpr u32 kMostWholeRows = 1u << 10; // of a column: row_values.cuh
constexpr int kWholeThreads = 128;       // of a block
constexpr u32 kWholeBlocks = 4;          // ... of an SM; for min and max 8
constexpr int kPlaneThreads = 64;        // of a block that goes through narrow planes
constexpr u32 kPlaneBlocks = 10;         // ... and blocks of an SM
constexpr u32 kPlaneRows = 32;           // ... rows of a plane at most
constexpr u32 kPlaneVectors = 4;         // ... and vectors of such a row

// The most lines in the list. Where there may be more (list_or_mark), further lines get a mark in place of their value.
#ifndef SIMT_ARCH // and not __NVCC__: a C++ compiler compiles the launches, which must see the kernels' number
constexpr u64 kMostListed = 1u << 20;
#else
constexpr u64 kMostListed = 64; // in tests/simt: few, so that a small test exceeds it
#endif
// The mark, in a cell of these bytes: a NaN that is never a value
constexpr u64 kUncertain8 = 0xfff00dd1cef00d01, kUncertain4 = 0x7fffffff, kUncertain2 = 0x7fff;

} // namespace rk
