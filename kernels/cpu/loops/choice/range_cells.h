/* range and minmax of columns without states: the best keys at both ends (chosen_cells.h). */
#ifndef RK_CPU_RANGE_CELLS_H
#define RK_CPU_RANGE_CELLS_H

#include "kernels/cpu/loops/choice/column_ends.h"
#include "kernels/cpu/loops/sums/sum_f32.h"

/* The difference of two integers of a type fits 64 bits without a sign; marks those that an i64 does not hold. */
#define SUBTRACT_INTS(NAME, W, INF, TURN)                                                                           \
    static size_t subtract_##NAME(const int##W##_t *const *best, size_t n, int out, uint8_t *cells, uint16_t *left) \
    {                                                                                                               \
        u64_loose *to = (u64_loose *)(void *)cells;                                                                 \
        uint64_t least[RK_LOT];                                                                                     \
        uint8_t marks[RK_LOT];                                                                                      \
        (void)out;                                                                                                  \
        integers_##NAME((u64_loose *)least, best[LEAST], n, false);                                                 \
        integers_##NAME(to, best[LARGEST], n, true);                                                                \
        for (size_t c = 0; c < n; c++) {                                                                            \
            to[c] -= least[c];                                                                                      \
            marks[c] = TURN == 0 && to[c] >> 63;                                                                    \
        }                                                                                                           \
        return leave_marked(left, 0, 0, n, marks);                                                                  \
    }

/* Doubles round the difference once, or as if once: they have twice the bits of a narrower float, and two more. Infinities and
 * NaNs subtract to what is wanted. */
#define SUBTRACT_FLOATS(NAME, W, INF, TURN)                                                                         \
    static size_t subtract_##NAME(const int##W##_t *const *best, size_t n, int out, uint8_t *cells, uint16_t *left) \
    {                                                                                                               \
        uint##W##_t least[RK_LOT], most[RK_LOT];                                                                    \
        double range[RK_LOT];                                                                                       \
        elements_##NAME((u##W##_loose *)least, best[LEAST], n, false);                                              \
        elements_##NAME((u##W##_loose *)most, best[LARGEST], n, true);                                              \
        for (size_t c = n; c % LANES64; c++)                                                                        \
            least[c] = most[c] = 0;                                                                                 \
        for (size_t c = 0; c < n; c += LANES64)                                                                     \
            *(vf64_loose *)(void *)(range + c) = load_##NAME(most + c) - load_##NAME(least + c);                    \
        convert_sums(range, n, out, cells);                                                                         \
        (void)left;                                                                                                 \
        return 0;                                                                                                   \
    }
ORDERED_INTS(SUBTRACT_INTS)
ORDERED_FLOATS(SUBTRACT_FLOATS)
#undef SUBTRACT_INTS
#undef SUBTRACT_FLOATS

/* May the difference of two elements be taken by doubles? Their own bits must not reach the middle between two results. */
INLINE bool rounds_once(int dtype, int out) { return !rk_is_float(dtype) || out == dtype || out == RP_F64 || dtype == RP_F16; }

#define RANGE_CELLS(NAME, W, INF, TURN)                                                                                      \
    ONE_COPY void only_ends_##NAME(int##W##_t *least, int##W##_t *most, const u##W##_loose *x, size_t n, int##W##_t nan_key) \
    {                                                                                                                        \
        for (size_t c = 0; c < n; c++) {                                                                                     \
            least[c] = key_##W(x[c], INF, TURN, LEAST, nan_key);                                                             \
            most[c] = key_##W(x[c], INF, TURN, LARGEST, nan_key);                                                            \
        }                                                                                                                    \
    }                                                                                                                        \
    static size_t range_cells_##NAME(const rk_lot *lot, void *cells, uint16_t *left)                                         \
    {                                                                                                                        \
        const int##W##_t nan_key = lot->nan == RP_NAN_OMIT ? INT##W##_MIN : INT##W##_MAX;                                    \
        const char *x = lot->x;                                                                                              \
        const size_t n = lot->columns, size = rp_dtype_size(lot->out);                                                       \
        int##W##_t least[RK_LOT], most[RK_LOT];                                                                              \
        uint64_t pairs[2][RK_LOT];                                                                                           \
        size_t k = 0;                                                                                                        \
        if (lot->op == RP_OP_RANGE && !rounds_once(lot->dtype, lot->out))                                                    \
            return leave_all(left, 0, 0, n);                                                                                 \
        if (lot->rows == 1) {                                                                                                \
            only_ends_##NAME(least, most, lot->x, n, nan_key);                                                               \
        } else {                                                                                                             \
            no_rows_##NAME(least, n);                                                                                        \
            no_rows_##NAME(most, n);                                                                                         \
        }                                                                                                                    \
        for (size_t r = lot->rows == 1; r < lot->rows; r += 4, x += 4 * lot->stride)                                         \
            extend_##NAME(least, most, x, lot->stride, lot->rows - r, n, nan_key);                                           \
        if (lot->op == RP_OP_RANGE) {                                                                                        \
            k = subtract_##NAME((const int##W##_t *[]){least, most}, n, lot->out, cells, left);                              \
        } else {                                                                                                             \
            put_chosen_##NAME(lot, least, pairs[LEAST], false);                                                              \
            put_chosen_##NAME(lot, most, pairs[LARGEST], true);                                                              \
            (size == 8 ? interleave_64 : size == 4 ? interleave_32 : interleave_16)(pairs[LEAST], pairs[LARGEST], n, cells); \
        }                                                                                                                    \
        return INF == 0 || lot->nan == RP_NAN_PROPAGATE ? k : leave_key_##NAME(most, n, nan_key, left);                      \
    }
ORDERED_TYPES(RANGE_CELLS)
#undef RANGE_CELLS

#endif
