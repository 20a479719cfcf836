// Lists of arrays: data that host and device share. list.cuh has the kernel, launch/list.cu launches it.
#pragma once

#include "kernels/cuda/pass/args.h"

namespace rk {

// An array of a list, in scratch; behind the last one there is one more, for its first tile.
struct ListEntry {
    const u8 *data;
    u64 count;      // of elements
    u64 first_tile; // tiles of the arrays before it
};

// Elements in front of an array's vectors of 16 bytes
__host__ __device__ inline u64 elements_before_vectors(const u8 *data, u64 count, u32 element_log2)
{
    const u64 head = (16 - (uintptr_t)data % 16) % 16 >> element_log2;
    return head < count ? head : count;
}

// Tiles of an array, of `tile` vectors each. Elements outside of vectors go with the last one.
__host__ __device__ inline u64 tiles_of_array(const u8 *data, u64 count, u32 element_log2, u64 tile)
{
    const u64 vectors = (count - elements_before_vectors(data, count, element_log2)) >> (4 - element_log2);
    return count == 0 ? 0 : vectors == 0 ? 1 : (vectors + tile - 1) / tile;
}

constexpr u32 kListPart = 160; // entries that are a launch's parameters: below 4 KiB of these

struct ListPart {
    ListEntry entry[kListPart];
};

struct ListArgs {
    const ListEntry *entries;
    u32 n;
    bool each; // a result for each array; else one of all
};

} // namespace rk
