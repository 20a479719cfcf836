#include "kernels/cpu/loops/sums/near.h"

#include <math.h>
#include <string.h>

#include "kernels/cpu/loops/sums/add_to_limbs.h"
#include "kernels/exact/cell.h"
#include "kernels/exact/finish.h"
#include "kernels/exact/runs.h"

rk_near_fn *rk_cpu_near(const rk_simd *simd, const rp_spec *s)
{
    const uint32_t plain = RP_OFFSETS | RP_INITIAL | (s->op == RP_OP_PROD ? RP_COLUMNS : 0);
    const bool sums = s->op == RP_OP_SUM || s->op == RP_OP_MEAN || s->op == RP_OP_NORM1, product = s->op == RP_OP_PROD;
    const rk_finisher finisher = rk_finisher_of(s->op);
    const bool squares = s->dtype == RP_F64 && (finisher == RK_FINISH_SQUARES || finisher == RK_FINISH_SPREAD);
    if (!rk_is_float(s->dtype) || s->flags & ~plain || rk_in_runs(s))
        return NULL;
    return sums || squares ? simd->near_sum[s->dtype] : product ? simd->near_product[s->dtype] : NULL;
}

rk_pairs_fn *rk_cpu_pairs(const rk_simd *simd, const rp_spec *s)
{
    if (!(s->flags & RP_WEIGHTS))
        return NULL;
    if (rp_is_comoments(s->op))
        return rk_comoments_loop(s->weights == s->dtype);
    return s->weights == s->dtype ? simd->pairs[s->dtype] : simd->pairs_f32_f64;
}

bool rk_cpu_is_near(const rk_simd *simd, const rp_spec *s)
{
    const uint32_t plain = RP_OFFSETS | RP_MASK | RP_WEIGHTS;
    if (!(s->flags & RP_WEIGHTS))
        return rk_cpu_near(simd, s);
    return rk_is_float(s->dtype) && !(s->flags & ~plain) && !rk_in_runs(s) && !rp_is_comoments(s->op);
}

/* The unit of a sum is 2 to this power. */
static int unit_of(const rk_state *s)
{
    return s->layout == RP_STATE_PROD ? -RK_LOG2_FRACTION : rk_square_limbs(s->layout) ? 2 * rk_e0(s->dtype) : rk_e0(s->dtype);
}

/* Limbs of the sum that may be near, and where it is. */
static int limbs_of(const rk_state *s, int *at)
{
    const int squares = rk_square_limbs(s->layout); /* or of the products of pairs */
    *at = squares ? rk_sum_limbs(s->layout) : 0;
    return s->layout == RP_STATE_PROD ? 3 : squares ? squares : rk_sum_limbs(s->layout);
}

/* Are there elements with these sums? Else what is less than 0 would be finished as if it were more. */
static bool is_possible(const rk_state *s)
{
    const int sum = rk_sum_limbs(s->layout), squares = rk_square_limbs(s->layout);
    if (!squares || rk_is_pairs(s->layout) || s->special)
        return true;
    return !(s->limb[sum + squares - 1] >> 63) && (!sum || rk_moments_possible(s));
}

/* The cell if the sum were larger by `more`. */
static int cell_with(const rk_task *t, const rk_state *s, double more, uint8_t *cell)
{
    rk_state moved;
    memcpy(&moved, s, rp_state_size(s->layout));
    int at, limbs = limbs_of(s, &at);
    if (!s->special)
        add_number(moved.limb + at, limbs, unit_of(s), more);
    if (more < 0 && !is_possible(&moved))
        return RP_OVERFLOW;
    return rk_cell_write(&moved, &t->spec, cell);
}

/* Rounding is monotonic: if both ends round alike, so does all in between. */
bool rk_cpu_near_cell(const rk_task *t, uint64_t line, const rk_state *s, double neglected)
{
    const size_t size = rp_cell_size(&t->spec);
    uint8_t low[8], *cell = (uint8_t *)t->cells + line * size;
    const double bound = neglected > 0 ? neglected + ldexp(1, unit_of(s)) : 0; /* no less after it is cut to whole units */
    return cell_with(t, s, bound, cell) == RP_OK && (bound == 0 || cell_with(t, s, -bound, low) == RP_OK) &&
           (bound == 0 || memcmp(cell, low, size) == 0);
}
