/* Bools: bytes, of which those that are not 0 are true. Their states follow from counts (kernels/exact/truths.h), or from the
 * first element that is true or false, behind which nothing is read. */
#ifndef RK_CPU_BOOLS_H
#define RK_CPU_BOOLS_H

#include "kernels/cpu/loops/choice/count.h"
#include "kernels/cpu/loops/choice/counted_cells.h"
#include "kernels/cpu/loops/choice/placed_cells.h"
#include "kernels/cpu/loops/sums/mean_cells.h"
#include "kernels/cpu/loops/sums/total_cells.h"
#include "kernels/exact/truths.h"

/* ---- the first element ---- */

INLINE bool some_lane(vu8 v)
{
#if VB == 64
    return _mm512_test_epi64_mask((__m512i)v, (__m512i)v) != 0;
#elif VB == 32
    return !_mm256_testz_si256((__m256i)v, (__m256i)v);
#elif defined(__aarch64__)
    return vmaxvq_u8((uint8x16_t)v) != 0;
#else
    return _mm_movemask_epi8(_mm_cmpeq_epi8((__m128i)v, _mm_setzero_si128())) != 0xffff;
#endif
}

/* The index of the first of n bytes that is not 0, or is, if not `truth`; n: there is none. */
INLINE uint64_t find_truth(const uint8_t *x, uint64_t n, bool truth)
{
    enum { SIDE = 8, STEP = SIDE * VB };
    uint64_t i = 0;
    for (; n - i >= STEP; i += STEP) {
        vu8 found = {0};
        for (int u = 0; u < SIDE; u++) {
            const vu8 v = *(const vu8_loose *)(const void *)(x + i + (uint64_t)(u * VB));
            found |= truth ? v : (vu8)(v == 0);
            prefetch(x + i + u * VB, 4096);
        }
        if (some_lane(found))
            break;
    }
    for (const uint64_t ones = UINT64_MAX / 255; n - i >= 8; i += 8) {
        uint64_t eight;
        memcpy(&eight, x + i, 8);
        eight = truth ? eight : (eight - ones) & ~eight & ones << 7; /* the lowest bit that is set is right */
        if (eight)
            return i + (uint64_t)__builtin_ctzll(eight) / 8;
    }
    while (i < n && (x[i] != 0) != truth)
        i++;
    return i;
}
ONE_COPY uint64_t first_true(const void *x, uint64_t n) { return find_truth(x, n, true); }
ONE_COPY uint64_t first_false(const void *x, uint64_t n) { return find_truth(x, n, false); }

/* ---- states ---- */

#define TRUTHS(NAME) static void NAME##_bool(rk_state *s, const void *x, uint64_t n, uint64_t index, int nan_policy)

TRUTHS(counted)
{
    (void)index, (void)nan_policy;
    rk_state_of_truths(s, n, s->layout == RP_STATE_NANS ? 0 : tally_8(x, n).nonzero);
}

/* Layouts that one element decides */
TRUTHS(decided)
{
    (void)index, (void)nan_policy;
    const bool by_true = rk_truth_decides(s->layout) == RK_DECIDES_TRUE;
    const bool found = (by_true ? first_true(x, n) : first_false(x, n)) < n;
    rk_state_of_truths(s, n, found == by_true ? n : 0);
}

TRUTHS(both_ends)
{
    (void)index, (void)nan_policy;
    const bool some = first_true(x, n) < n, every = first_false(x, n) == n;
    rk_state_of_truths(s, n, every ? n : some);
}

/* The first element is chosen if none is better. */
static uint64_t place_of(uint64_t found, uint64_t n, uint64_t index) { return index + (found < n ? found : 0); }

TRUTHS(placed)
{
    (void)nan_policy;
    const bool most = s->layout == RP_STATE_ARGMAX;
    const uint64_t found = most ? first_true(x, n) : first_false(x, n);
    s->count = n;
    if (!n)
        return;
    s->limb[0] = most == (found < n);
    s->limb[1] = place_of(found, n, index);
}

TRUTHS(stats)
{
    (void)nan_policy;
    const uint64_t trues = tally_8(x, n).nonzero;
    uint64_t *other = rk_summary_others(s);
    s->count = n;
    s->limb[0] = s->limb[rk_sum_limbs(s->layout)] = trues;
    other[RK_STATS_ZEROS] = n - trues;
    if (!n)
        return;
    other[RK_STATS_MIN] = trues == n;
    other[RK_STATS_MIN_INDEX] = place_of(first_false(x, n), n, index);
    other[RK_STATS_MAX] = trues != 0;
    other[RK_STATS_MAX_INDEX] = place_of(first_true(x, n), n, index);
}
#undef TRUTHS

/* ---- cells ---- */

/* What counts of elements that are not 0 tell: all of a kind of cells */
static size_t cells_bool(const rk_lot *lot, void *cells, uint16_t *left)
{
    const int op = lot->op;
    rk_lot counted = *lot;
    counted.op = op == RP_OP_MAX                       ? RP_OP_ANY
                 : op == RP_OP_MIN || op == RP_OP_PROD ? RP_OP_ALL
                 : op == RP_OP_SUM || op == RP_OP_MEAN ? RP_OP_COUNT_NONZERO
                                                       : op;
    if (op != RP_OP_MEAN)
        return counted_cells_8(&counted, cells, left);
    uint64_t trues[RK_LOT];
    counted_cells_8(&counted, trues, left);
    mean_integers(trues, lot->columns, lot->rows, lot->out, cells);
    return 0;
}

ONE_COPY void place_truths(uint8_t *place, const uint8_t *x, size_t n, bool truth, uint8_t row)
{
    for (size_t c = 0; c < n; c++)
        place[c] = (x[c] != 0) == truth ? row : place[c];
}

/* The first true or false element, from the last row up: earlier ones take the place of later ones. */
static size_t placed_cells_bool(const rk_lot *lot, void *cells, uint16_t *left)
{
    enum { AT_ONCE = 252 };
    const bool truth = lot->op == RP_OP_ARGMAX;
    uint8_t place[RK_LOT];
    (void)left;
    for (size_t c = 0; c < lot->columns; c++) {
        const void *x = line_of(lot, c);
        const uint64_t found = !lot->lines ? 0 : truth ? first_true(x, lot->rows) : first_false(x, lot->rows);
        ((u64_loose *)cells)[c] = place_of(found, lot->rows, lot->base);
    }
    for (size_t end = lot->lines ? 0 : lot->rows, from; end; end = from) {
        from = end > AT_ONCE ? end - AT_ONCE : 0;
        memset(place, 0xff, lot->columns);
        for (size_t r = end; r-- > from;)
            place_truths(place, (const uint8_t *)lot->x + r * lot->stride, lot->columns, truth, (uint8_t)(r - from));
        put_places_8(cells, place, lot->columns, lot->base + from);
    }
    return 0;
}

#endif
