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

/* The first of the largest of n elements xor `flip`, in one pass: the best of each lane, and where the step with it begins. n:
 * to be found in another way. There are few elements, or NaNs, or infinities that add to one; or it is a float's zero. */
#define FIRST_LARGEST(W, V, MAX, LEAST_ONE, TURNED)                                                             \
    ONE_COPY size_t first_##V(const void *data, size_t n, uint##W##_t flip)                                     \
    {                                                                                                           \
        enum { STEP = 4 * LANES##W };                                                                           \
        const u##W##_loose *x = data;                                                                           \
        v##V best = (v##V){0} + LEAST_ONE;                                                                      \
        vi##W at = {0}, lost = {0}, keys;                                                                       \
        int##W##_t key = INT##W##_MIN, nans = 0;                                                                \
        uint##W##_t step = UINT##W##_MAX, place = UINT##W##_MAX;                                                \
        if (n < STEP)                                                                                           \
            return n;                                                                                           \
        for (size_t i = 0, next; i < n; i = next) {                                                             \
            v##V v[4];                                                                                          \
            for (int u = 0; u < 4; u++)                                                                         \
                v[u] = (v##V)(*(const vi##W##_loose *)(const void *)(x + i + u * LANES##W) ^ (int##W##_t)flip); \
            const v##V most = MAX(MAX(v[0], v[1]), MAX(v[2], v[3])), sum = v[0] + v[1] + (v[2] + v[3]);         \
            const vi##W better = most > best;                                                                   \
            if (TURNED)                                                                                         \
                lost |= sum != sum;                                                                             \
            at = (at & ~better) | ((int##W##_t)i & better);                                                     \
            best = MAX(best, most);                                                                             \
            next = i + STEP == n ? n : i + 2 * STEP <= n ? i + STEP : n - STEP; /* the last one may overlap */  \
        }                                                                                                       \
        keys = (vi##W)best ^ ((vi##W)best >> (W - 1) & (TURNED ? INT##W##_MAX : 0));                            \
        for (int j = 0; j < LANES##W; j++) {                                                                    \
            key = keys[j] > key ? keys[j] : key;                                                                \
            nans |= lost[j];                                                                                    \
        }                                                                                                       \
        if (nans || (TURNED && (key == 0 || key == -1)))                                                        \
            return n;                                                                                           \
        at |= keys != key;                                                                                      \
        for (int j = 0; j < LANES##W; j++)                                                                      \
            step = (uint##W##_t)at[j] < step ? (uint##W##_t)at[j] : step;                                       \
        key = (int##W##_t)(flip ^ (uint##W##_t)(key ^ (key >> (W - 1) & (TURNED ? INT##W##_MAX : 0))));         \
        for (int j = 0; j < LANES##W; j++)                                                                      \
            at[j] = j;                                                                                          \
        keys = at - at - 1;                                                                                     \
        for (int u = 3; u >= 0; u--) {                                                                          \
            const vi##W same = *(const vi##W##_loose *)(const void *)(x + step + u * LANES##W) == key;          \
            keys = (keys & ~same) | ((at + u * LANES##W) & same);                                               \
        }                                                                                                       \
        for (int j = 0; j < LANES##W; j++)                                                                      \
            place = (uint##W##_t)keys[j] < place ? (uint##W##_t)keys[j] : place;                                \
        return step + place;                                                                                    \
    }
FIRST_LARGEST(32, i32, max_i32, INT32_MIN, false)
FIRST_LARGEST(64, i64, max_i64, INT64_MIN, false)
FIRST_LARGEST(32, f32, max_f32, -__builtin_inff(), true)
FIRST_LARGEST(64, f64, max_f64, -__builtin_inf(), true)
#undef FIRST_LARGEST
#define first_f8(x, n, flip) n
#define first_f16(x, n, flip) n
#define first_i8(x, n, flip) n
#define first_i16(x, n, flip) n

/* NAME, W, INF, TURN: ORDERED_TYPES (choose.h). Where no key is better than the smallest one, it is that of the first row: no
 * float that is kept has it. */
#define PLACED_CELLS(NAME, W, INF, TURN)                                                                                  \
    static size_t placed_lines_##NAME(const rk_lot *lot, u64_loose *cells, uint16_t *left)                                \
    {                                                                                                                     \
        const bool nan_wins = lot->nan == RP_NAN_PROPAGATE;                                                               \
        const chooser *how = lot->op == RP_OP_ARGMAX ? &largest_##NAME : &least_##NAME;                                   \
        size_t k = 0;                                                                                                     \
        for (size_t c = 0; c < lot->columns; c++) {                                                                       \
            const char *x = line_of(lot, c);                                                                              \
            const size_t i = INF != 0 ? first_f##W(x, lot->rows, lot->op == RP_OP_ARGMAX ? 0 : (uint##W##_t)INT##W##_MIN) \
                                      : first_i##W(x, lot->rows,                                                          \
                                                   (uint##W##_t)(lot->op == RP_OP_ARGMAX ? TURN : TURN ^ UINT##W##_MAX)); \
            int64_t key;                                                                                                  \
            if (i < lot->rows)                                                                                            \
                cells[c] = lot->base + i;                                                                                 \
            else if (how->best(x, lot->rows, nan_wins, &key) && !nan_wins)                                                \
                left[k++] = (uint16_t)c;                                                                                  \
            else                                                                                                          \
                cells[c] = lot->base + how->place(x, lot->rows, nan_wins, key);                                           \
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
