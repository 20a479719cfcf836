// Any shape, element by element: threads walk along a line (a row, a segment or a column, with or without a mask) and
// accumulate in registers. It serves many short lines, masks and columns; long rows without a mask have faster kernels
// (segment.cuh).
//
// A line has `walkers` threads, which take every walkers-th of its elements: neighbouring threads read neighbouring
// elements, of a row or of the columns beside it. A `team` of them joins at once and leaves one partial together; of a row
// these are neighbouring lanes of a warp. The Walker defines what they accumulate:
//
//   using Bits                                   unsigned, of the element's width
//   void init(NULL, const SegmentArgs &)
//   void add(Bits, u64 index)                    in ascending order of the index
//   void join_lane(u32 mask, int distance)       with the other lane's, both get the result
//   u64 word(const SegmentArgs &, u32 j) const   word j of the partial
//   u64 left_out(const SegmentArgs &) const      NaNs that are skipped
//   u32 flags(const SegmentArgs &) const         of the tail
//   static constexpr bool kSlow                  if there is one, and true: elements are loaded one by one
//   int value(const FinishArgs &, u64 elements, u64 *value) const   as light_value does; if kLight only
//
// Sums of floats have walkers of their own: lines_float.cu.
#pragma once

#include "kernels/cuda/pass/segment.cuh"
#include "kernels/exact/line.h"

namespace rk {

// One team's part of a line.
struct Share {
    u64 number; // of the line in this launch
    u32 team;   // of the line's teams
    rk_line line;
};

__device__ inline Share share_of(const FinishArgs &a, const WalkArgs &w, u64 i)
{
    const u32 teams = w.walkers / w.team;
    Share s;
    if (teams == 1) {
        s.number = i;
        s.team = 0;
    } else if (a.spec.flags & RP_COLUMNS) {
        s.number = i % w.lines;
        s.team = (u32)(i / w.lines);
    } else {
        s.number = i / teams;
        s.team = (u32)(i % teams);
    }
    s.line = rk_line_of(&a.spec, w.parts.offsets, w.first_line + s.number);
    return s;
}

__device__ inline u64 *partial_of(const FinishArgs &a, const WalkArgs &w, u64 *partials, const Share &s)
{
    const u32 teams = w.walkers / w.team;
    return partials + w.lines * teams * w.pair_words + (s.number * teams + s.team) * a.plan.all;
}

// Word k of a team's partial of w.pair_words words: those lie before the others, of each word those of all columns beside each
// other, team after team.
__device__ inline u64 *pair_word(const WalkArgs &w, u64 *partials, u64 number, u32 team, u32 k)
{
    return partials + ((u64)(k * (w.walkers / w.team) + team) * w.lines + number);
}

constexpr int kWalkLoads = 8; // in flight

// Adds kWalkLoads elements, `jump` apart.
template <class Walker>
__device__ __forceinline__ void add_all(Walker &x, const typename Walker::Bits *p, u64 jump, u64 index, u32 step)
{
    typename Walker::Bits bits[kWalkLoads];
#pragma unroll
    for (int k = 0; k < kWalkLoads; k++, p += jump)
        bits[k] = *p;
#pragma unroll
    for (int k = 0; k < kWalkLoads; k++, index += step)
        x.add(bits[k], index);
}

// The same of those whose byte of the mask is not zero. Returns how many that were.
template <class Walker> __device__ __forceinline__ u32 add_masked(Walker &x, const typename Walker::Bits *p,
                                                                  const uint8_t *mask, u64 jump, u64 index, u32 step)
{
    typename Walker::Bits bits[kWalkLoads];
    uint8_t in[kWalkLoads]; // no test before all are requested: it would wait for its byte
    u32 taken = 0;
#pragma unroll
    for (int k = 0; k < kWalkLoads; k++, p += jump, mask += jump) {
        bits[k] = *p;
        in[k] = *mask;
    }
#pragma unroll
    for (int k = 0; k < kWalkLoads; k++, index += step)
        if (in[k]) {
            x.add(bits[k], index);
            taken++;
        }
    return taken;
}

// The same of the first `left`, fewer than kWalkLoads; `mask` may be NULL.
template <class Walker> __device__ __forceinline__ u32 add_rest(Walker &x, const typename Walker::Bits *p, const uint8_t *mask,
                                                                u64 jump, u64 index, u32 step, int left)
{
    const bool masked = mask;
    typename Walker::Bits bits[kWalkLoads - 1];
    bool in[kWalkLoads - 1];
    u32 taken = 0;
#pragma unroll
    for (int k = 0; k < kWalkLoads - 1; k++, p += jump) {
        bits[k] = k < left ? *p : (typename Walker::Bits)0;
        in[k] = k < left && (!masked || *mask);
        if (masked)
            mask += jump;
    }
#pragma unroll
    for (int k = 0; k < kWalkLoads - 1; k++, index += step)
        if (in[k]) {
            x.add(bits[k], index);
            taken++;
        }
    return taken;
}

// Adds vectors from, from + step, ... of 16 bytes, of the first `vectors` ones at p. Returns how many elements those have.
template <class Walker>
__device__ __forceinline__ u64 add_vectors(Walker &x, const typename Walker::Bits *p, u64 vectors, u64 from, u32 step)
{
    using Bits = typename Walker::Bits;
    constexpr u32 kPer = 16 / sizeof(Bits), kLoads = sizeof(Bits) == 1 ? 2 : 4;
    const uint4 *at = (const uint4 *)p;
    const auto add = [&](uint4 v, u64 number) {
        each_element<sizeof(Bits)>(v, [&](Bits bits, int e) { x.add(bits, number * kPer + e); });
    };
    u64 v = from, taken = 0;
    for (; v + (u64)(kLoads - 1) * step < vectors; v += (u64)kLoads * step, taken += kLoads * kPer) {
        uint4 data[kLoads];
#pragma unroll
        for (u32 u = 0; u < kLoads; u++)
            data[u] = load_vector(at + v + (u64)u * step);
#pragma unroll
        for (u32 u = 0; u < kLoads; u++)
            add(data[u], v + (u64)u * step);
    }
    for (; v < vectors; v += step, taken += kPer)
        add(load_vector(at + v), v);
    return taken;
}

// Is so much done for an element that loads do not count?
template <class Walker, class = void> constexpr bool kByElement = false;
template <class Walker> constexpr bool kByElement<Walker, std::void_t<decltype(Walker::kSlow)>> = Walker::kSlow;

// Adds elements from, from + step, ... of the line that are not masked out. Of one that can be read so, vectors in this order,
// and then such elements of the rest. Returns how many those were.
template <class Walker>
__device__ __forceinline__ u64 walk(Walker &x, const rp_parts &parts, const rk_line &line, u64 from, u32 step)
{
    const typename Walker::Bits *p = (const typename Walker::Bits *)parts.elements + line.first;
    u64 taken = 0, i = from;
    if constexpr (!kByElement<Walker>)
        if (!parts.mask && line.stride == 1 && (uintptr_t)p % 16 == 0) {
            constexpr u32 kPer = 16 / sizeof(*p);
            taken = add_vectors(x, p, line.n / kPer, from, step);
            i += line.n / kPer * kPer;
        }
    p += i * line.stride;
    const uint8_t *mask = parts.mask ? parts.mask + line.first + i * line.stride : NULL;
    const u64 jump = step * line.stride, many = (u64)kWalkLoads * step;
    for (; i + (many - step) < line.n; i += many, p += kWalkLoads * jump) {
        if (mask) {
            taken += add_masked(x, p, mask, jump, i, step);
            mask += kWalkLoads * jump;
        } else {
            add_all(x, p, jump, i, step);
            taken += kWalkLoads;
        }
    }
    int left = 0;
    for (u64 k = i; k < line.n; k += step)
        left++;
    return left ? taken + add_rest(x, p, mask, jump, i, step, left) : taken;
}

// Word j of a walker's partial, tail included.
template <class Walker> __device__ __forceinline__ u64 word_of(const Walker &x, const SegmentArgs &g, u32 own, u64 taken, u32 j)
{
    if (j < own)
        return x.word(g, j);
    const u64 skipped = x.left_out(g);
    return j == own + kWordCount ? taken - skipped : x.flags(g) | (skipped ? (u32)kFlagSkipped : 0u);
}

template <class Walker> __device__ __forceinline__ void finish_walk(const Walker &x, const FinishArgs &a, u64 line, u64 taken)
{
    u64 bits = 0;
    if (x.value(a, taken, &bits) != RP_OK)
        set_fault(a, line);
    write_bits(a.cell_bytes, a.cells, line, bits);
}

// kLight: a walker may make the line's value.
template <bool kLight, class Walker> __global__ void __launch_bounds__(kWalkThreads)
    walk_lines(const __grid_constant__ FinishArgs a, const __grid_constant__ SegmentArgs g, const __grid_constant__ WalkArgs w,
               u64 *partials)
{
    const u32 lanes = w.lanes, lane = threadIdx.x % lanes, mask = group_mask(lanes), teams = w.walkers / lanes;
    const u64 stride = (u64)gridDim.x * (kWalkThreads / lanes);
    for (u64 i = (u64)blockIdx.x * (kWalkThreads / lanes) + threadIdx.x / lanes; i < w.lines * teams; i += stride) {
        const Share s = share_of(a, w, i);
        if (s.line.n > w.longest)
            continue; // another kernel's
        Walker x;
        x.init(NULL, g);
        u64 taken = walk(x, w.parts, s.line, s.team * lanes + lane, w.walkers);
        for (u32 d = lanes / 2; d; d /= 2) {
            x.join_lane(mask, d);
            taken += __shfl_xor_sync(mask, taken, d);
        }
        if constexpr (kLight) {
            if (w.values) {
                if (lane == 0)
                    finish_walk(x, a, w.first_line + s.number, taken);
                continue;
            }
        }
        u64 *out = partial_of(a, w, partials, s);
        for (u32 j = lane; j < a.plan.all; j += lanes)
            out[j] = word_of(x, g, a.plan.own, taken, j);
    }
}

// Kernels for an operation: of whole rows, and of walking.
template <class Accumulator, class Walker = Accumulator> SegmentKernel row_and_walk_kernels()
{
    SegmentKernel k = segment_kernel<Accumulator>();
    k.walk = walk_lines<false, Walker>;
    return k;
}

} // namespace rk
