// The pass chain: segment reduce; if its last blocks cannot finish the rows, relaunch on the partials until one is left, and
// finish on the device.
#pragma once

#include "kernels/cuda/device/cuda_device.h"

namespace rk {

// One request on device memory. Pointers are device-accessible; `cells` and `fault` may be mapped host memory.
struct ChainTask {
    rp_spec spec;            // checked
    const void *data;        // as rp_spec_parts cuts it, aligned to its elements; with offsets or states to 8
    const uint8_t *offsets;  // with RP_OFFSETS: the host's copy of them
    u64 base;                // index of a row's first element within the row: chunks of a stream
    void *cells;             // rp_results x rp_cell_size, aligned to 8
    u32 *fault;              // kNoFault before; lowered to the first row or column without a result: EMPTY, NAN, OVERFLOW (of
                             // segments, to some number)
    const uint8_t *mask;     // NULL: it is with the elements
    const uint8_t *weights;  // NULL: they are with the elements, too; aligned to their type
    const uint8_t *segments; // with RP_OFFSETS: these are beside the elements, and the host does not know them. NULL: as above
    const uint64_t *bounds;  // of a histogram: its edges as keys, of the host. NULL: the spec has edges
};

// Where its data are.
inline rp_parts parts_of(const ChainTask &t)
{
    rp_parts beside = {};
    beside.mask = t.mask;
    beside.weights = t.weights;
    beside.offsets = t.segments;
    return rp_spec_parts(&t.spec, t.data, &beside);
}

// The weights of elements from number `before` on, the first of which are of row `row`.
inline const uint8_t *weights_from(const rp_spec &s, const uint8_t *weights, u64 before, u64 row)
{
    const u64 first = s.weights_extent == RP_EXTENT_ROW ? 0 : s.weights_extent == RP_EXTENT_COLUMN ? row : before;
    return weights + first * rp_dtype_size(s.weights);
}

// Bytes of scratch that suffice for any task whose data fits one message (RP_MAX_DATA), and for any number of elements:
// many rows are gone over in batches.
size_t chain_scratch_bytes();

// To be called once for new scratch, on the first stream that uses it.
cudaError_t chain_scratch_clear(void *scratch, cudaStream_t stream);

// Enqueue the whole chain on `stream`: no host round trip in between. Scratch must stay untouched until it is done. `route`
// gets the name of the route taken (routes.h), which is never freed.
cudaError_t chain_launch(Device *d, const ChainTask &t, void *scratch, size_t scratch_bytes, cudaStream_t stream,
                         const char **route);

// ---- order statistics ----

// Can chain_launch compute this order statistic? Not of segments, nor of columns and rows in runs whose lines are longer than
// fits into scratch.
bool selects_on_device(const rp_spec &spec);

// To say why a line has no result: what is found of it (select_args.h: found_words of a cell's values), or of largest and
// smallest the element that does not fit (FinishTop); in memory that the device can access. Not of a histogram.
cudaError_t select_one_line(Device *d, const ChainTask &task, u64 line, void *scratch, size_t bytes, cudaStream_t stream,
                            u64 *found);

} // namespace rk
