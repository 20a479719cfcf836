/* Elements of a line that a mask keeps, or that a stride parts, gathered: the loops of simd.c take contiguous ones. */
#include "kernels/cpu/view.h"

/* Counts the nonzero bytes of 8. */
static unsigned let_in(const uint8_t *mask)
{
    const uint64_t ones = UINT64_MAX / 255, low = ones * 127;
    uint64_t m;
    memcpy(&m, mask, sizeof m);
    return (unsigned)((((((m & low) + low) | m) >> 7 & ones) * ones) >> 56);
}

/* The index of the k-th element, of n, that the mask keeps. If a client changes the mask in shared memory meanwhile, there may
 * be fewer: then the last index. */
static uint64_t kept_index(const uint8_t *mask, uint64_t n, uint64_t k)
{
    uint64_t i = 0;
    for (unsigned some; i + 8 < n && (some = let_in(mask + i)) <= k; i += 8)
        k -= some;
    while (i + 1 < n && !(mask[i] && k-- == 0))
        i++;
    return i;
}

void rk_add_gathered(const rk_view *v, rk_state *s, const void *x, uint64_t n, uint64_t index, uint64_t of, const uint8_t *mask)
{
    rk_state part;
    rk_state_init(&part, v->layout, v->dtype);
    v->reduce(&part, x, n, mask ? 0 : index, v->spec->nan);
    if (mask && part.count && rk_is_arg(v->layout))
        part.limb[1] = index + kept_index(mask, of, part.limb[1]);
    if (mask && part.count && rk_is_stats(v->layout)) {
        uint64_t *other = part.limb + rk_sum_limbs(v->layout) + rk_square_limbs(v->layout);
        other[RK_STATS_MIN_INDEX] = index + kept_index(mask, of, other[RK_STATS_MIN_INDEX]);
        other[RK_STATS_MAX_INDEX] = index + kept_index(mask, of, other[RK_STATS_MAX_INDEX]);
    }
    rk_state_merge(s, &part);
}

void rk_add_masked(const rk_view *v, rk_state *s, const uint8_t *x, const uint8_t *mask, uint64_t from, uint64_t n)
{
    uint8_t kept[RK_GATHER_BYTES];
    const size_t room = RK_GATHER_BYTES / v->size, least = room / 8;
    rk_keep_fn *keep = v->simd->keep[__builtin_ctzll(v->size)];
    for (uint64_t i = 0, start; i < n;) {
        size_t k = 0, take;
        for (start = i; i < n && room - k >= least; i += take) {
            take = n - i < room - k ? (size_t)(n - i) : room - k;
            k = keep(kept, k, x + i * v->size, mask + i, take);
        }
        if (k)
            rk_add_gathered(v, s, kept, k, from + start, i - start, mask + start);
    }
}
