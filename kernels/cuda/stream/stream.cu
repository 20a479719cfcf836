// The kernels in the caller's stream: kernels/stream.h.
#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/launch/list.h"
#include "kernels/cuda/stream/opened.h"
#include "kernels/cuda/stream/status.cuh"

namespace rk {
namespace {

constexpr size_t kHead = RK_STREAM_ALIGN; // bytes in front of the scratch, which is aligned so
static_assert(sizeof(Head) <= kHead, "the head of a workspace");
constexpr u64 kMostOfSegments = 1ull << 31; // what kernels count in 32 bits

Head *head_of(const rk_launch &l) { return (Head *)l.workspace; }

bool is_cut_by_rows(const rp_spec &s) { return !(s.flags & RP_COLUMNS) && s.planes <= 1; }

// No more results than a reply holds, for which the kernels are made.
u64 most_rows(const rp_spec &s) { return RP_MAX_DATA / rp_cell_size(&s); }

u32 *fault_of(const rk_launch &l, bool told) { return told ? &head_of(l)->fault : &head_of(l)->nobody; }

cudaError_t launch_rows(Device *d, const rk_launch &l, bool told, u64 first, u64 rows, cudaStream_t stream)
{
    const u64 before = l.offsets ? 0 : first * l.spec.row_len; // segments have all elements before them
    ChainTask t = {};
    t.spec = l.spec;
    t.spec.rows = rows;
    t.data = l.data + before * rp_item_size(&l.spec);
    t.cells = l.cells + first * rp_cell_size(&l.spec);
    t.fault = fault_of(l, told);
    t.mask = l.mask ? l.mask + before : NULL;
    t.weights = l.weights ? weights_from(l.spec, l.weights, before, first) : NULL;
    t.segments = l.offsets ? l.offsets + first * sizeof(u64) : NULL;
    const char *route;
    return chain_launch(d, t, l.workspace + kHead, chain_scratch_bytes(), stream, &route);
}

cudaError_t launch_list(Device *d, const rk_launch &l, bool told, cudaStream_t stream)
{
    ChainTask t = {};
    t.spec = l.spec;
    t.cells = l.cells;
    t.fault = fault_of(l, told);
    u32 *const too_many = l.status ? &head_of(l)->too_many : &head_of(l)->nobody;
    const List list = {l.arrays, l.n_arrays, l.arrays_on_device ? too_many : NULL, l.most};
    TRY_CUDA(list_launch(d, t, list, l.workspace + kHead, chain_scratch_bytes(), stream));
    if (!l.status)
        return cudaSuccess;
    TRY_CUDA(tell_status(head_of(l), l.status, l.failure, 0, stream));
    return l.arrays_on_device ? tell_too_many(head_of(l), l.status, l.too_many, stream) : cudaSuccess;
}

cudaError_t launch(Device *d, const rk_launch &l, cudaStream_t stream)
{
    const bool told = l.status && l.failure;
    if (l.arrays)
        return launch_list(d, l, told, stream);
    const u64 each = is_cut_by_rows(l.spec) ? most_rows(l.spec) : l.spec.rows;
    for (u64 first = 0, rows; first < l.spec.rows; first += rows) {
        rows = l.spec.rows - first < each ? l.spec.rows - first : each;
        TRY_CUDA(launch_rows(d, l, told, first, rows, stream));
        if (l.status && (told || first == 0))
            TRY_CUDA(tell_status(head_of(l), l.status, l.failure, first, stream));
    }
    return cudaSuccess;
}

} // namespace
} // namespace rk

using namespace rk;

extern "C" int rk_stream_open(rk_stream **out, int device)
{
    rk_stream *s = (rk_stream *)malloc(sizeof *s);
    const cudaError_t err = s ? device_open(&s->device, device) : cudaErrorMemoryAllocation;
    if (err == cudaSuccess)
        *out = s;
    else
        free(s);
    return err;
}

extern "C" void rk_stream_close(rk_stream *s) { free(s); }

extern "C" int rk_stream_is_current(const rk_stream *s, bool *current)
{
    int now = -1;
    const cudaError_t err = cudaGetDevice(&now);
    *current = now == s->device.id;
    return err;
}

extern "C" size_t rk_stream_bytes(void) { return kHead + chain_scratch_bytes(); }

extern "C" int rk_stream_clear(uint8_t *workspace, void *stream)
{
    TRY_CUDA(cudaMemsetAsync(workspace, 0xff, kHead, (cudaStream_t)stream)); // kNoFault
    return chain_scratch_clear(workspace + kHead, (cudaStream_t)stream);
}

extern "C" const char *rk_stream_refusal(const rp_spec *s)
{
    if (s->flags & RP_OFFSETS && rp_elements(s) >= kMostOfSegments)
        return "segments of 2^31 elements together, or more, are not possible in a stream";
    if (s->flags & RP_KEYS)
        return "keys are not possible in a stream";
    if (rp_is_ranked(s->op) && !selects_on_device(*s))
        return s->flags & RP_OFFSETS ? "order statistics of segments are not possible in a stream"
                                     : "order statistics of lines that long are not possible in a stream";
    const bool columns = s->flags & RP_COLUMNS && !rp_is_ranked(s->op); // whose launches take parts of any number of lines
    if (!columns && !is_cut_by_rows(*s) && rp_results(s) > most_rows(*s))
        return "results of planes, or order statistics of columns, are over 4 MiB";
    return NULL;
}

extern "C" const char *rk_stream_list_refusal(const rp_spec *s)
{
    return lists_on_device(*s) ? NULL : "lists have kernels for sums, means, variances and norms of floats, without a mask";
}

extern "C" int rk_stream_launch(rk_stream *s, const rk_launch *l, void *stream)
{
    return launch(&s->device, *l, (cudaStream_t)stream);
}

extern "C" int rk_stream_rehearse(rk_stream *s, const rk_launch *l)
{
    return rehearse([=](cudaStream_t stream) { return launch(&s->device, *l, stream); });
}

extern "C" bool rk_stream_error(int err, char text[RK_STREAM_TEXT])
{
    cudaGetLastError(); // it is reported here, and to no later call
    const char *call = failed_call((cudaError_t)err);
    snprintf(text, RK_STREAM_TEXT, "%s%s%.60s", cudaGetErrorString((cudaError_t)err), *call ? ": " : "", call);
    return err == cudaErrorMemoryAllocation;
}
