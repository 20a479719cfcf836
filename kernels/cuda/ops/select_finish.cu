// The elements found by selection become cells: a thread makes a value, by the definitions of kernels/exact/order_mix.h.
#include "kernels/exact/order_mix.h"

#include "kernels/cuda/pass/finish.cuh"
#include "kernels/cuda/pass/select_args.h"

namespace rk {
namespace {

__device__ rp_err value_of(const FinishSelected &a, const u64 *found, u32 pair, uint64_t *word)
{
    const u64 n = found[0], nans = found[1];
    uint64_t rank;
    if (nans && a.nan == RP_NAN_ERROR)
        return RP_NAN;
    if (n == 0 || (nans && a.nan != RP_NAN_OMIT)) {
        *word = rk_nan_bits(rk_format_of(a.out));
        return rk_is_float(a.out) ? RP_OK : RP_EMPTY;
    }
    if (a.rules[pair].how == RK_RANK && !rk_order_rank(a.rules[pair], n, &rank))
        return RP_SHAPE;
    const rk_place place = n == a.n ? a.all[pair] : rk_order_place(a.rules[pair], n);
    const u64 *key = found + kFoundHead + 2 * (a.first_pair + pair);
    return rk_order_between(a.dtype, a.out, bits_of_key(a.dtype, key[0]), bits_of_key(a.dtype, key[1]), place, word);
}

__global__ void finish_selected(const __grid_constant__ FinishSelected a)
{
    wait_for_previous_pass();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.lines * a.pairs; i += (u64)gridDim.x * blockDim.x) {
        const u64 line = i / a.pairs;
        const u32 pair = (u32)(i % a.pairs);
        uint64_t word = 0;
        if (value_of(a, a.found + line * a.found_words, pair, &word))
            lower_fault(a.fault, a.first_line + line);
        else
            write_bits(a.bytes, a.cells, (a.first_line + line) * a.values + a.first_pair + pair, word);
    }
}

} // namespace

FinishSelectedFn finish_selected_kernel() { return finish_selected; }

} // namespace rk
