// Reductions by key (keyed_args.h): states and values of the operations with squares, which take nvcc as long as all others.
#include "kernels/cuda/exact/ziv_state.cuh"
#include "kernels/cuda/pass/keyed_state.cuh"

namespace rk {
namespace {

// The value of a group, or why it has none: by doubles if possible, because dividing integers takes long.
__device__ inline int square_value(const rk_state &s, const FinishArgs &f, uint64_t *words)
{
    const int sum = rk_sum_limbs(s.layout);
    const rk_range none = {0, 0}, of_sum = sum ? rk_range_of(s.limb, sum) : none;
    words[0] = 0;
    if (f.spec.nan == RP_NAN_ERROR && s.skipped)
        return RP_NAN;
    if (finish_by_doubles(s, of_sum, rk_range_of(s.limb + sum, rk_square_limbs(s.layout)), f.spec, (rk_finisher)f.finisher,
                          words))
        return RP_OK;
    if (!rk_is_float(f.spec.out))
        return rk_finish_integer(&s, &f.spec, words);
    uint64_t scratch[RK_FINISH_SCRATCH];
    const rk_format out = rk_format_of(f.spec.out);
    words[0] = f.finisher == RK_FINISH_SPREAD ? rk_finish_spread(&s, f.spec.op, f.spec.ddof, scratch, out)
                                              : rk_finish_squares(&s, f.spec.op, out);
    return RP_OK;
}

// A thread a group
__global__ void __launch_bounds__(kFinishThreads)
    finish_squares(const __grid_constant__ KeyedArgs a, const __grid_constant__ FinishArgs f)
{
    each_group(a, [&](u64 group) {
        PlainState room;
        rk_state &s = room.get();
        uint64_t words[RP_MAX_CELL_WORDS];
        state_of_group(a, f.plan.layout, group, &s);
        squares_of_group(a, group, a.flags[group], &s);
        if (f.spec.flags & RP_STATES_OUT) {
            write_state(f, group, s);
            return;
        }
        if (has_initial(a, f))
            add_initial(a, f, group, &s);
        if (square_value(s, f, words) != RP_OK)
            set_fault(f, group);
        write_bits(f.cell_bytes, f.cells, group, words[0]);
    });
}

} // namespace

KeyedFinishFn keyed_finish_squares_kernel() { return finish_squares; }

} // namespace rk
