/* argmin and argmax of columns without states: the best keys and their rows (column_places.h). */
#ifndef RK_CPU_PLACED_CELLS_H
#define RK_CPU_PLACED_CELLS_H

#include "kernels/cpu/loops/choice/chosen_cells.h"
#include "kernels/cpu/loops/choice/column_places.h"

/* Places among rows, of which the first has index `from`; all bits set: none was better than what is in the cell. */
#define PUT_PLACES(W)                                                                                 \
    ONE_COPY void put_places_##W(u64_loose *cells, const uint##W##_t *place, size_t n, uint64_t from) \
    {                                                                                                 \
        for (size_t c = 0; c < n; c++)                                                                \
            cells[c] = place[c] == UINT##W##_MAX ? cells[c] : from + place[c];                        \
    }
PUT_PLACES(8)
PUT_PLACES(16)
PUT_PLACES(32)
PUT_PLACES(64)
#undef PUT_PLACES

/* NAME, W, INF, TURN: ORDERED_TYPES (choose.h). Where no key is better than the smallest one, it is that of the first row: no
 * float that is kept has it. */
#define PLACED_CELLS(NAME, W, INF, TURN)                                                                                  \
    static size_t placed_lines_##NAME(const rk_lot *lot, u64_loose *cells, uint16_t *left)                                \
    {                                                                                                                     \
        const bool nan_wins = lot->nan == RP_NAN_PROPAGATE;                                                               \
        const chooser *how = lot->op == RP_OP_ARGMAX ? &largest_##NAME : &least_##NAME;                                   \
        size_t k = 0;                                                                                                     \
        for (size_t c = 0; c < lot->columns; c++) {                                                                       \
            int64_t key;                                                                                                  \
            if (how->best(line_of(lot, c), lot->rows, nan_wins, &key) && !nan_wins)                                       \
                left[k++] = (uint16_t)c;                                                                                  \
            else                                                                                                          \
                cells[c] = lot->base + how->place(line_of(lot, c), lot->rows, nan_wins, key);                             \
        }                                                                                                                 \
        return k;                                                                                                         \
    }                                                                                                                     \
    static size_t placed_cells_##NAME(const rk_lot *lot, void *cells, uint16_t *left)                                     \
    {                                                                                                                     \
        enum { AT_ONCE = W == 8 ? 252 : RK_LOT_ROWS };                                                                    \
        const int##W##_t nan_key = lot->nan == RP_NAN_OMIT ? INT##W##_MIN : INT##W##_MAX;                                 \
        const size_t n = lot->columns;                                                                                    \
        const char *x = lot->x;                                                                                           \
        int##W##_t best[RK_LOT];                                                                                          \
        uint##W##_t place[RK_LOT];                                                                                        \
        if (lot->lines)                                                                                                   \
            return placed_lines_##NAME(lot, cells, left);                                                                 \
        for (size_t c = 0; c < n; c++) {                                                                                  \
            best[c] = INT##W##_MIN;                                                                                       \
            ((u64_loose *)cells)[c] = lot->base;                                                                          \
        }                                                                                                                 \
        for (size_t from = 0, rows; from < lot->rows; from += rows) {                                                     \
            rows = lot->rows - from < AT_ONCE ? lot->rows - from : AT_ONCE;                                               \
            memset(place, 0xff, n * sizeof *place);                                                                       \
            for (size_t r = 0; r < rows; r += 4, x += 4 * lot->stride)                                                    \
                place_##NAME(best, place, x, lot->stride, rows - r, n, (uint##W##_t)r, lot->op == RP_OP_ARGMAX, nan_key); \
            put_places_##W(cells, place, n, lot->base + from);                                                            \
        }                                                                                                                 \
        return INF == 0 || lot->nan == RP_NAN_PROPAGATE ? 0 : leave_key_##NAME(best, n, nan_key, left);                   \
    }
ORDERED_TYPES(PLACED_CELLS)
#undef PLACED_CELLS

#endif
