// Columns of few rows, in vectors of 16 bytes side by side: a thread takes the whole columns of a vector, so no joins are
// needed.
//
// Columns of wide rows are read as they lie: neighbouring threads have neighbouring vectors. Planes whose rows are a few
// vectors come by shared memory: a warp reads what lies together, then each of its threads goes down its own columns.
#pragma once

#include "kernels/cuda/pass/lines.cuh"
#include "kernels/cuda/pass/whole.h"

namespace rk {

// Streaming store for many values, which must not evict the input from L2.
template <class Vector> __device__ __forceinline__ void store_vector(void *cells, u64 at, Vector v)
{
    __stcs((Vector *)cells + at, v);
}

// The values of columns, to cells of any width
__device__ __forceinline__ void store_bits(const FinishArgs &a, u64 line, const u64 (&bits)[kColumns])
{
    static_assert(kColumns == 4);
    const auto word = [&](int c) { return (u32)bits[c]; };
    if (a.cell_bytes == 8) {
        store_vector(a.cells, line / 2, make_ulonglong2(bits[0], bits[1]));
        store_vector(a.cells, line / 2 + 1, make_ulonglong2(bits[2], bits[3]));
    } else if (a.cell_bytes == 4) {
        store_vector(a.cells, line / 4, make_uint4(word(0), word(1), word(2), word(3)));
    } else {
        store_vector(a.cells, line / 4, make_uint2(word(0) | word(1) << 16, word(2) | word(3) << 16));
    }
}

// The same of values in f64, of which those in `known` are certain: a bit each. Returns those that decide what is written.
__device__ __forceinline__ u32 store_values(const FinishArgs &a, u64 line, const double (&v)[kColumns], u32 known)
{
    u64 bits[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; c++)
        known &= value_bits(v[c], a.spec.out, &bits[c]) ? ~0u : ~(1u << c);
    store_bits(a, line, bits);
    return known;
}

// The columns of one vector of f32, as they lie
struct WholeColumns {
    const uint8_t *at;
    u64 jump; // bytes from a row to the next
    u32 rows;

    // From this line on
    __device__ __forceinline__ WholeColumns(const FinishArgs &a, const WalkArgs &w, u64 line)
        : jump(a.spec.row_len * sizeof(float)), rows((u32)a.spec.rows)
    {
        u64 first = line;
        if (a.spec.planes > 1) // past the rows of the planes before. Vectors are counted by 32 bits: launch.cu
            first += (u32)(line / kColumns) / (u32)(a.spec.row_len / kColumns) * (a.spec.rows - 1) * a.spec.row_len;
        at = w.parts.elements + first * sizeof(float);
    }

    // add(tile) for kRows rows at a time; missing rows are `fill`.
    template <int kRows, class Add> __device__ __forceinline__ void each_tile(uint4 fill, Add add) const
    {
        const uint8_t *p = at;
        u32 left = rows;
        uint4 tile[kRows];
#pragma unroll 1
        for (; left >= kRows; left -= kRows, p += kRows * jump) {
#pragma unroll
            for (int k = 0; k < kRows; k++)
                tile[k] = load_vector((const uint4 *)(p + k * jump));
            add(tile);
        }
        if (left) {
#pragma unroll
            for (int k = 0; k < kRows; k++)
                tile[k] = k < left ? load_vector((const uint4 *)(p + k * jump)) : fill;
            add(tile);
        }
    }
};

// Planes whose rows are 1, 2 or 4 vectors, as tiles: as many as have the columns of a warp's threads, copied ahead to shared
// memory.
struct PlaneTiles {
    const u32 rows, vectors; // of a plane; of a row
    const u32 many;          // vectors of a tile
    uint4 *const tile;       // the warp's
    const u32 begin;         // row at which a thread begins, so that 8 neighbours have no bank conflicts
    const uint4 *const data; // of the launch
    const u64 all;           // vectors of the launch

    static __device__ __forceinline__ u32 first_row(u32 rows, u32 vectors)
    {
        const u32 apart = 8 / vectors, plane = threadIdx.x % kWarp / vectors, common = rows & (0u - rows) & (apart - 1);
        return (common ? plane * common / apart % common : plane) % rows; // common 0 stands for `apart`
    }
    __device__ __forceinline__ PlaneTiles(const FinishArgs &a, const WalkArgs &w, uint4 *shared)
        : rows((u32)a.spec.rows), vectors((u32)(a.spec.row_len / kColumns)), many(kWarp * rows),
          tile(shared + threadIdx.x / kWarp * many), begin(first_row(rows, vectors)),
          data((const uint4 *)(w.parts.elements + w.first_line * a.spec.rows * sizeof(float))),
          all(w.lines / kColumns * a.spec.rows)
    {
    }
    // The tile with this number is under way to shared memory.
    __device__ __forceinline__ void request(u64 number) const
    {
        const u64 first = number * many + threadIdx.x % kWarp;
        const uint4 *p = data + first;
        uint4 *to = tile + threadIdx.x % kWarp;
#pragma unroll 8
        for (u32 k = 0; k < rows; k++, p += kWarp, to += kWarp)
            if (first + k * kWarp < all)
                copy_vector(to, p);
        end_of_copies();
    }
    // The first row of the thread's columns
    __device__ __forceinline__ const uint4 *first_vector() const
    {
        const u32 lane = threadIdx.x % kWarp;
        return tile + lane / vectors * (rows * vectors) + lane % vectors;
    }
    // add(vector) for each row of the thread's columns
    template <class Add> __device__ __forceinline__ void each_row(Add add) const
    {
        const uint4 *first = first_vector();
        u32 at = begin;
#pragma unroll 4
        for (u32 k = 0; k < rows; k++) {
            add(first[at * vectors]);
            at = at + 1 < rows ? at + 1 : 0;
        }
    }
};

} // namespace rk
