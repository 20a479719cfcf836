// Columns by vectors of 16 bytes, for reductions whose arithmetic would keep loads waiting: rows are copied to a ring in shared
// memory ahead of their use (machine.cuh: copy_vector). That takes no registers, and goes on from one item to the next.
//
// An item is a team's work: w.width vectors side by side, for each of which w.team threads share the rows. A thread's next row
// is w.walkers rows further down. Blocks stay and take every gridDim.x-th item: through all columns, then to the next team of
// each. Each thread has its own ring, so threads never wait for each other's data.
#pragma once

#include "kernels/cuda/pass/lines.cuh"

namespace rk {

// Rows of the team with this number, of all that share n rows.
__device__ __forceinline__ u64 rows_of_team(u64 each, u64 more, const WalkArgs &w, u32 team)
{
    const u64 before = (u64)team * w.team;
    return each * w.team + (more > before ? min(more - before, (u64)w.team) : 0);
}

// A thread's part of an item
struct ColumnItem {
    u64 number; // of its first column in this launch
    u32 team;
    bool own; // are there such columns?
    u64 rows; // of the thread
};

// Values that all items of a launch share
struct ColumnItems {
    const WalkArgs &w;
    const u32 per, side, row; // columns of a vector; the thread's place in the team
    const u32 across, count;  // items side by side, and all
    const u64 each, more;     // rows of every walker, and how many have one more
    const u64 jump;           // elements from a walker's row to its next
    const u32 plane;          // vectors of a row of a plane, if there are several planes; else 0
    const u64 apart;          // elements between planes, but for a row

    __device__ __forceinline__ ColumnItems(const FinishArgs &a, const WalkArgs &args, u32 columns)
        : w(args), per(columns), side(threadIdx.x % args.width), row(threadIdx.x / args.width),
          across((u32)((args.lines / columns + args.width - 1) / args.width)), count(across * (args.walkers / args.team)),
          each(a.spec.rows / args.walkers), more(a.spec.rows % args.walkers), jump(args.walkers * a.spec.row_len),
          plane(a.spec.planes > 1 ? (u32)(a.spec.row_len / columns) : 0), apart((a.spec.rows - 1) * a.spec.row_len)
    {
    }
    __device__ __forceinline__ u32 walker(u32 team) const { return team * w.team + row; }
    __device__ __forceinline__ u64 rows_of(u32 team) const { return rows_of_team(each, more, w, team); }
    // The thread's first element. Vectors are counted by 32 bits: launch.cu.
    __device__ __forceinline__ u64 first_of(const FinishArgs &a, const ColumnItem &x) const
    {
        const u64 column = w.first_line + x.number;
        const u64 at = column + walker(x.team) * a.spec.row_len;
        return plane ? at + (u32)(column / per) / plane * apart : at;
    }
    __device__ __forceinline__ ColumnItem item(u32 i) const
    {
        ColumnItem x;
        x.team = i / across;
        x.number = ((u64)(i - x.team * across) * w.width + side) * per;
        x.own = row < w.team && x.number < w.lines;
        x.rows = x.own ? each + (walker(x.team) < more) : 0;
        return x;
    }
};

// A vector of -0.0 in floats of this number of bytes
__device__ __forceinline__ uint4 negative_zeros(u32 bytes)
{
    const u32 sign = bytes == 2 ? 0x80008000u : 1u << 31, low = bytes == 8 ? 0 : sign;
    return {low, sign, low, sign};
}

// The copies of a thread: a tile of kRingRows rows after the other. Behind an item's last row comes -0.0.
struct ColumnFeed {
    const uint8_t *p;
    u64 left; // rows of the item
    u32 next; // item

    __device__ __forceinline__ ColumnFeed() : p(NULL), left(0), next(blockIdx.x) {}

    __device__ __forceinline__ void request(const ColumnItems &items, const FinishArgs &a, u32 bytes, uint4 *to)
    {
        const u64 jump = items.jump * bytes;
        for (; left == 0 && next < items.count; next += gridDim.x) {
            const ColumnItem x = items.item(next);
            p = items.w.parts.elements + items.first_of(a, x) * bytes;
            left = x.rows;
        }
        if (left >= kRingRows) {
#pragma unroll
            for (int k = 0; k < kRingRows; k++, p += jump)
                copy_vector(to + k * kColumnThreads, p);
            left -= kRingRows;
        } else {
#pragma unroll 1
            for (int k = 0; k < kRingRows; k++) {
                if (k < left) {
                    copy_vector(to + k * kColumnThreads, p);
                    p += jump;
                } else {
                    to[k * kColumnThreads] = negative_zeros(bytes);
                }
            }
            left = 0;
        }
        end_of_copies();
    }
};

// For each item take(item), with begin() before and tile(tile, at) for kRingRows rows of it. `at` is where they are in the
// ring, kColumnThreads vectors apart.
template <class Begin, class Tile, class Take> __device__ __forceinline__ void
each_item(const ColumnItems &items, const FinishArgs &a, u32 bytes, uint4 *ring, Begin begin, Tile tile, Take take)
{
    constexpr u32 kTile = kRingRows * kColumnThreads; // vectors
    uint4 *const mine = ring + threadIdx.x;
    ColumnFeed feed;
#pragma unroll 1
    for (u32 t = 0; t < kRingTiles; t++)
        feed.request(items, a, bytes, mine + t * kTile);
    u32 now = 0; // tile of the ring
    for (u32 i = blockIdx.x; i < items.count; i += gridDim.x) {
        const ColumnItem x = items.item(i);
        begin();
        for (u64 from = 0; from < x.rows; from += kRingRows) {
            copies_arrived<kRingTiles - 1>();
            uint4 rows[kRingRows];
#pragma unroll
            for (int k = 0; k < kRingRows; k++)
                rows[k] = mine[now * kTile + k * kColumnThreads];
            tile(rows, mine + now * kTile);
            feed.request(items, a, bytes, mine + now * kTile);
            now = now + 1 == kRingTiles ? 0 : now + 1;
        }
        take(x);
    }
}

} // namespace rk
