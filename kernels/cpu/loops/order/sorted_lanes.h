/* Short lines side by side: each is a lane, its elements are below one another. Keys are signed here, 2^(bits - 1) lower than
 * those of rk_keys, because vectors compare signed numbers best. Loops take RK_LANE_BYTES together, and so the lanes at the end
 * that no line has, too. */
#ifndef RK_CPU_SORTED_LANES_H
#define RK_CPU_SORTED_LANES_H

#include <string.h>

#include "kernels/cpu/loops/order/between.h"

#define SORTED_LANES(W)                                                                                                        \
    enum { TOGETHER_##W = RK_LANE_BYTES * 8 / W };                                                                             \
    INLINE u##W##_loose *lanes_of_##W(const rk_lanes *l, size_t row)                                                           \
    {                                                                                                                          \
        return (u##W##_loose *)(void *)(l->keys + row * l->apart);                                                             \
    }                                                                                                                          \
    INLINE size_t lanes_##W(const rk_lanes *l) { return (l->lanes + TOGETHER_##W - 1) / TOGETHER_##W * TOGETHER_##W; }         \
    static void lane_keys_##W(const rk_lanes *l, const rk_keys *of)                                                            \
    {                                                                                                                          \
        const uint##W##_t half = (uint##W##_t)INT##W##_MIN, most = (uint##W##_t)of->most;                                      \
        const size_t n = lanes_##W(l);                                                                                         \
        const rk_keys k = *of;                                                                                                 \
        for (size_t r = 0; r < l->rows; r++) {                                                                                 \
            u##W##_loose *x = lanes_of_##W(l, r);                                                                              \
            for (size_t c = 0; c < n; c++) {                                                                                   \
                const uint##W##_t key = order_key_##W(x[c], &k);                                                               \
                x[c] = (W == 8 && key > most ? most : key) ^ half; /* true has several bytes */                                \
            }                                                                                                                  \
        }                                                                                                                      \
    }                                                                                                                          \
    static void lane_masks_##W(const rk_lanes *l, const uint8_t *mask, size_t apart)                                           \
    {                                                                                                                          \
        for (size_t r = 0; r < l->rows; r++, mask += apart) {                                                                  \
            u##W##_loose *x = lanes_of_##W(l, r);                                                                              \
            for (size_t c = 0; c < l->lanes; c++)                                                                              \
                x[c] = mask[c] ? x[c] : (uint##W##_t)INT##W##_MAX;                                                             \
        }                                                                                                                      \
    }                                                                                                                          \
    INLINE void exchange_##W(u##W##_loose *restrict a, u##W##_loose *restrict b, size_t n)                                     \
    {                                                                                                                          \
        for (size_t c = 0; c < n; c++) {                                                                                       \
            const int##W##_t x = (int##W##_t)a[c], y = (int##W##_t)b[c];                                                       \
            a[c] = (uint##W##_t)(x < y ? x : y);                                                                               \
            b[c] = (uint##W##_t)(x < y ? y : x);                                                                               \
        }                                                                                                                      \
    }                                                                                                                          \
    /* A NaN's key is above those of its type. */                                                                              \
    INLINE void mark_nans_##W(const u##W##_loose *keys, size_t lanes, const rk_keys *k, uint8_t *marks)                        \
    {                                                                                                                          \
        const int##W##_t most = (int##W##_t)((uint##W##_t)k->most ^ (uint##W##_t)INT##W##_MIN);                                \
        for (size_t c = 0; c < lanes; c++)                                                                                     \
            marks[c] |= (int##W##_t)keys[c] > most;                                                                            \
    }                                                                                                                          \
    /* Batcher's merge exchange (Knuth, vol. 3, 5.2.2, algorithm M) */                                                         \
    static void lane_sort_##W(const rk_lanes *lanes, const rk_keys *k, uint8_t *marks)                                         \
    {                                                                                                                          \
        const rk_lanes l = *lanes;                                                                                             \
        const size_t n = lanes_##W(lanes);                                                                                     \
        size_t top = 1;                                                                                                        \
        while (2 * top < l.rows)                                                                                               \
            top *= 2;                                                                                                          \
        for (size_t p = top; p; p /= 2)                                                                                        \
            for (size_t q = top, r = 0, d = p; d; d = q - p, q /= 2, r = p)                                                    \
                for (size_t from = r; from + d < l.rows; from += 2 * p)                                                        \
                    for (size_t i = from; i < from + p && i + d < l.rows; i++)                                                 \
                        exchange_##W(lanes_of_##W(&l, i), lanes_of_##W(&l, i + d), n);                                         \
        mark_nans_##W(lanes_of_##W(&l, l.rows - 1), l.lanes, k, marks);                                                        \
    }                                                                                                                          \
    static void lane_elements_##W(void *bits, const void *keys, size_t lanes, const rk_keys *k)                                \
    {                                                                                                                          \
        const uint##W##_t flip = (uint##W##_t)k->flip, base = (uint##W##_t)k->base ^ (uint##W##_t)INT##W##_MIN;                \
        const u##W##_loose *key = keys;                                                                                        \
        u##W##_loose *out = bits;                                                                                              \
        for (size_t c = 0; c < lanes; c++) {                                                                                   \
            const uint##W##_t y = (uint##W##_t)(key[c] + base), sign = (uint##W##_t)((int##W##_t)y >> (W - 1));                \
            out[c] = y ^ (sign & flip);                                                                                        \
        }                                                                                                                      \
    }                                                                                                                          \
    /* Scores of row `row` move in here, or those above move down. The first row has none above; a fresh one has no scores. */ \
    INLINE void move_##W(u##W##_loose *restrict best, u##W##_loose *restrict place, const u##W##_loose *restrict above,        \
                         const u##W##_loose *restrict above_place, const u##W##_loose *restrict score, uint##W##_t row,        \
                         bool first, bool fresh, size_t n)                                                                     \
    {                                                                                                                          \
        for (size_t c = 0; c < n; c++) {                                                                                       \
            const uint##W##_t x = score[c], here = best[c], at = place[c], up = first ? x : above[c],                          \
                              up_at = first ? row : above_place[c];                                                            \
            const bool in = fresh || (int##W##_t)x > (int##W##_t)here, over = (int##W##_t)x > (int##W##_t)up;                  \
            const uint##W##_t y = in ? x : here, r = in ? row : at;                                                            \
            best[c] = over ? up : y;                                                                                           \
            place[c] = over ? up_at : r;                                                                                       \
        }                                                                                                                      \
    }                                                                                                                          \
    static void lane_best_##W(const rk_lanes *l, const rk_keys *of, const rk_scores *s, size_t k, void *keys, void *rows,      \
                              uint8_t *marks)                                                                                  \
    {                                                                                                                          \
        const uint##W##_t half = (uint##W##_t)INT##W##_MIN, most = (uint##W##_t)of->most, flip = (uint##W##_t)s->flip,         \
                          add = (uint##W##_t)s->add, nan = (uint##W##_t)s->nan;                                                \
        const rk_lanes best = {keys, l->apart, k, l->lanes}, place = {rows, l->apart, k, l->lanes};                            \
        const size_t n = lanes_##W(l);                                                                                         \
        for (size_t r = 0; r < l->rows; r++) {                                                                                 \
            u##W##_loose *x = lanes_of_##W(l, r);                                                                              \
            for (size_t c = 0; c < n; c++) {                                                                                   \
                const uint##W##_t key = x[c] ^ half;                                                                           \
                x[c] = (key > most ? nan : (uint##W##_t)((key ^ flip) + add)) ^ half;                                          \
            }                                                                                                                  \
            for (size_t j = r < k ? r : k - 1; j; j--)                                                                         \
                move_##W(lanes_of_##W(&best, j), lanes_of_##W(&place, j), lanes_of_##W(&best, j - 1),                          \
                         lanes_of_##W(&place, j - 1), x, (uint##W##_t)r, false, j == r, n);                                    \
            move_##W(keys, rows, NULL, NULL, x, (uint##W##_t)r, true, !r, n);                                                  \
        }                                                                                                                      \
        for (size_t j = 0; j < k; j++) {                                                                                       \
            u##W##_loose *x = lanes_of_##W(&best, j);                                                                          \
            for (size_t c = 0; c < n; c++)                                                                                     \
                x[c] = ((uint##W##_t)((x[c] ^ half) - add) ^ flip) ^ half;                                                     \
            mark_nans_##W(x, l->lanes, of, marks);                                                                             \
        }                                                                                                                      \
    }
SORTED_LANES(8)
SORTED_LANES(16)
SORTED_LANES(32)
SORTED_LANES(64)
#undef SORTED_LANES

#endif
