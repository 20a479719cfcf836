// chain: the product's own pass chain, as the daemon runs it. Its pages are kernels/cuda/pass/segment.cuh, merge.cuh and
// finish.cuh.
//
// A grid that just fills the card strides through the input with 16-byte loads, the next tile under way while this one is
// added; each block leaves an exact partial; the partials are joined by re-launches and rounded once, on the device. So
// float sums are the correctly rounded ones, the same bits whatever the grid.
//
// The one page that needs the product: everything else here stands alone.
#include "kernels/cuda/launch/launch.h"
#include "kernels/ladder/ladder.cuh"

namespace ladder {
namespace {

constexpr size_t kFaultBytes = 256; // of the scratch: the chain's fault word, and its alignment

template <class T> int dtype_of();
template <> int dtype_of<int>() { return RP_I32; }
template <> int dtype_of<float>() { return RP_F32; }

} // namespace

template <class T> cudaError_t launch_chain(const Launch<T> &l)
{
    static rk::Device device;
    int current;
    cudaError_t err = cudaGetDevice(&current);
    if (err == cudaSuccess && (device.sms == 0 || device.id != current))
        err = rk::device_open(&device, current);
    if (err != cudaSuccess)
        return err;
    rk::ChainTask t = {};
    t.spec.op = RP_OP_SUM;
    t.spec.dtype = (uint8_t)dtype_of<T>();
    t.spec.out = dtype_of<T>() == RP_F32 ? RP_F32 : RP_I64; // the low half of the i64 is the int32 sum
    t.spec.rows = 1;
    t.spec.row_len = l.n;
    rp_fault fault;
    if (rp_spec_check(&t.spec, &fault) != RP_OK)
        return cudaErrorInvalidValue;
    t.data = l.data;
    t.cells = l.out.to;
    char *scratch = (char *)l.scratch + l.scratch_bytes - scratch_chain();
    t.fault = (rk::u32 *)scratch;
    const char *route;
    return rk::chain_launch(&device, t, scratch + kFaultBytes, rk::chain_scratch_bytes(), l.stream, &route);
}

size_t scratch_chain() { return kFaultBytes + rk::chain_scratch_bytes(); }

LADDER_TYPES(chain)

} // namespace ladder
