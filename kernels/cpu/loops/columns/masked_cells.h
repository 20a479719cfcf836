/* Cells of columns with a mask: other elements stand in for those that it leaves out, and change no result. So the loops for
 * columns without a mask finish them. */
#ifndef RK_CPU_MASKED_CELLS_H
#define RK_CPU_MASKED_CELLS_H

#include "kernels/cpu/loops/columns/column_batch.h"
#include "kernels/cpu/loops/sums/bounded_sums.h"

enum { NO_ROW = UINT8_MAX };

#define MASKED_PICK(W)                                                                                                      \
    INLINE uint##W##_t pick_##W(uint8_t mask, uint##W##_t kept, uint##W##_t other)                                          \
    {                                                                                                                       \
        const uint##W##_t in = (uint##W##_t)(mask ? -1 : 0);                                                                \
        return (uint##W##_t)((kept & in) | (other & (uint##W##_t) ~in));                                                    \
    }                                                                                                                       \
    /* `over` has bits where a magnitude that is kept is above `most`. */                                                   \
    ONE_COPY void keep_row_##W(u##W##_loose *restrict out, const u##W##_loose *x, const uint8_t *mask,                      \
                               const uint##W##_t *other, size_t n, uint##W##_t *restrict over, int##W##_t most)             \
    {                                                                                                                       \
        for (size_t c = 0; c < n; c++) {                                                                                    \
            out[c] = pick_##W(mask[c], x[c], other[c]);                                                                     \
            over[c] |= pick_##W(mask[c], (int##W##_t)(x[c] & INT##W##_MAX) > most, 0);                                      \
        }                                                                                                                   \
    }                                                                                                                       \
    /* `row` has the first row of each column that is kept, if that stands in for others. */                                \
    static void fill_##W(const rk_lot *lot, const rk_kept *kept, const uint8_t *row, char *out, size_t apart, uint8_t *nan) \
    {                                                                                                                       \
        const size_t n = lot->columns;                                                                                      \
        const char *x = lot->x;                                                                                             \
        const bool by_first = kept->by_first && !kept->has_initial && lot->rows > 1;                                        \
        const int##W##_t most = kept->infinity ? (int##W##_t)kept->infinity : INT##W##_MAX;                                 \
        uint##W##_t other[RK_LOT], over[RK_LOT];                                                                            \
        for (size_t c = 0; c < n; c++) {                                                                                    \
            other[c] = (uint##W##_t)kept->other;                                                                            \
            over[c] = (int##W##_t)(kept->initial & INT##W##_MAX) > most;                                                    \
        }                                                                                                                   \
        for (size_t c = 0; by_first && c < n; c++)                                                                          \
            other[c] = ((const u##W##_loose *)(const void *)(x + (row[c] != NO_ROW) * row[c] * lot->stride))[c];            \
        for (size_t r = 0; r < lot->rows; r++, x += lot->stride, out += apart)                                              \
            keep_row_##W((void *)out, (const void *)x, kept->mask + r * kept->stride, other, n, over, most);                \
        for (size_t c = 0; c < n; c++)                                                                                      \
            nan[c] = over[c] != 0;                                                                                          \
        for (size_t c = 0; kept->has_initial && c < n; c++)                                                                 \
            ((u##W##_loose *)(void *)out)[c] = (uint##W##_t)kept->initial;                                                  \
    }
MASKED_PICK(8)
MASKED_PICK(16)
MASKED_PICK(32)
MASKED_PICK(64)
#undef MASKED_PICK

/* The first row of each column that the mask keeps, or NO_ROW. */
static void first_rows(const rk_kept *kept, size_t rows, size_t n, uint8_t *row)
{
    memset(row, NO_ROW, n);
    while (rows--) {
        const uint8_t *mask = kept->mask + rows * kept->stride;
        for (size_t c = 0; c < n; c++)
            row[c] = pick_8(mask[c], (uint8_t)rows, row[c]);
    }
}

/* The element that stands in for those before is the first one that is kept. */
static void move_places(u64_loose *cells, const uint8_t *row, size_t n, uint64_t base)
{
    for (size_t c = 0; c < n; c++)
        cells[c] = cells[c] < base + row[c] ? base + row[c] : cells[c];
}

/* Columns with NaNs get this cell, or a mark if it is 0. */
static void put_nans(const uint8_t *nan, size_t n, uint64_t cell, size_t size, uint8_t *cells, uint8_t *marks)
{
    for (size_t c = 0; c < n; c++)
        if (nan[c]) {
            marks[c] = cell == 0;
            memcpy(cells + c * size, &cell, size);
        }
}

/* The elements of a lot, and an initial one, as doubles. False: not all are doubles exactly. */
static bool widen_lot(rk_lot *lot, rk_kept *kept, char *out, size_t apart)
{
    _Alignas(VB) double initial[LANES64];
    bool exact = doubles_of[lot->dtype](initial, &kept->initial, 1);
    for (size_t r = 0; r < lot->rows && exact; r++)
        exact = doubles_of[lot->dtype]((double *)(void *)(out + r * apart), (const char *)lot->x + r * lot->stride,
                                       lot->columns);
    kept->initial = bits_of_f64(initial[0]);
    lot->x = out;
    lot->stride = apart;
    lot->dtype = RP_F64;
    return exact;
}

/* The cells of a lot */
static size_t masked_cells(const rk_lot *given, const rk_kept *keeping, rk_cells_fn *run, void *cells, uint16_t *left)
{
    enum { ROOM = RK_KEPT_BYTES + (RK_KEPT_ROWS + 1) * RK_APART };
    _Alignas(VB) char filled[ROOM], doubles[ROOM];
    uint8_t marks[RK_LOT], nan[RK_LOT], row[RK_LOT];
    rk_lot lot = *given;
    rk_kept kept = *keeping;
    const size_t n = lot.columns, size = rp_dtype_size(kept.dtype), apart = n * size + RK_APART;
    if (kept.dtype != lot.dtype && !widen_lot(&lot, &kept, doubles, apart))
        return leave_all(left, 0, 0, n);
    if (kept.by_first && !kept.has_initial)
        first_rows(&kept, lot.rows, n, row);
    (size == 1 ? fill_8 : size == 2 ? fill_16 : size == 4 ? fill_32 : fill_64)(&lot, &kept, row, filled, apart, nan);
    for (size_t c = 0; c < n; c++)
        marks[c] = kept.by_first && !kept.has_initial && row[c] == NO_ROW;
    lot.x = filled;
    lot.stride = apart;
    lot.rows += kept.has_initial;
    for (size_t k = 0, some = run(&lot, cells, left); k < some; k++)
        marks[left[k]] = 1;
    if (lot.op == RP_OP_ARGMIN || lot.op == RP_OP_ARGMAX)
        move_places(cells, row, n, lot.base);
    put_nans(nan, n, kept.nan, rp_dtype_size(lot.out), cells, marks);
    return leave_marked(left, 0, 0, n, marks);
}

#endif
