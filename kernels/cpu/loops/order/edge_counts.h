/* Counts keys by bins of any width: the pass of a histogram. */
#ifndef RK_CPU_EDGE_COUNTS_H
#define RK_CPU_EDGE_COUNTS_H

#include "kernels/cpu/loops/order/between.h"
#include "kernels/cpu/loops/order/edge_places.h"

enum { EDGE_STRIP = 256 }; /* elements whose places are found together, by vectors */

/* A NaN's place is behind the others, and its key is below all bounds. So is the last key of 64 bits, which reaches all bounds:
 * what follows these is above all other keys. */
#define KEYS_AND_PLACES(W)                                                                                    \
    INLINE void nans_apart_##W(uint##W##_t *key, uint32_t *place, size_t n, const rk_edge_keys *e)            \
    {                                                                                                         \
        const uint##W##_t most = (uint##W##_t)(e->most - (e->most == UINT64_MAX));                            \
        const uint32_t places = e->places;                                                                    \
        for (size_t i = 0; i < n; i++) {                                                                      \
            place[i] = key[i] > most ? places : place[i];                                                     \
            key[i] = key[i] > most ? 0 : key[i];                                                              \
        }                                                                                                     \
    }                                                                                                         \
    INLINE void keys_and_places_##W(const u##W##_loose *x, size_t n, const rk_keys *k, const rk_edge_keys *e, \
                                    uint##W##_t *key, uint32_t *place)                                        \
    {                                                                                                         \
        const uint##W##_t first = (uint##W##_t)e->first;                                                      \
        const uint32_t last = e->places - 1;                                                                  \
        const int shift = e->shift;                                                                           \
        for (size_t i = 0; i < n; i++) {                                                                      \
            key[i] = order_key_##W(x[i], k);                                                                  \
            place[i] = key_place_##W(key[i], first, shift, last);                                             \
        }                                                                                                     \
    }
KEYS_AND_PLACES(16)
KEYS_AND_PLACES(32)
KEYS_AND_PLACES(64)
#undef KEYS_AND_PLACES

#define KEYS_AND_VALUES(W, T)                                                                                 \
    INLINE void keys_and_values_##W(const u##W##_loose *x, size_t n, const rk_keys *k, const rk_edge_keys *e, \
                                    uint##W##_t *key, uint32_t *place)                                        \
    {                                                                                                         \
        typedef T value __attribute__((aligned(1), may_alias));                                               \
        const value *v = (const value *)(const void *)x;                                                      \
        const T low = (T)e->low, scale = (T)e->scale;                                                         \
        const uint32_t last = e->places - 1;                                                                  \
        for (size_t i = 0; i < n; i++)                                                                        \
            key[i] = order_key_##W(x[i], k);                                                                  \
        for (size_t i = 0; i < n; i++)                                                                        \
            place[i] = value_place_##W(v[i], low, scale, last);                                               \
    }
KEYS_AND_VALUES(32, float)
KEYS_AND_VALUES(64, double)
#undef KEYS_AND_VALUES
#define keys_and_values_16 keys_and_places_16

/* The bounds in a place are searched without branches; most tables have one at most. */
#define COUNT_SLOTS(W)                                                                                                         \
    INLINE void count_slot_##W(uint##W##_t key, uint32_t slot, uint32_t half, const uint64_t *bound, uint64_t *counts)         \
    {                                                                                                                          \
        for (; half > 1; half /= 2)                                                                                            \
            slot += bound[slot + half - 1] <= key ? half : 0;                                                                  \
        slot += bound[slot] <= key;                                                                                            \
        counts[(size_t)slot * RK_TURNS]++;                                                                                     \
    }                                                                                                                          \
    INLINE void count_slots_##W(const uint##W##_t *key, const uint32_t *place, size_t n, const rk_edge_keys *e, uint32_t half, \
                                uint64_t *counts)                                                                              \
    {                                                                                                                          \
        const uint64_t *bound = e->bound;                                                                                      \
        const uint32_t *table = e->table;                                                                                      \
        size_t i = 0;                                                                                                          \
        for (; i + RK_TURNS <= n; i += RK_TURNS)                                                                               \
            _Pragma("GCC unroll 8") for (size_t j = 0; j < RK_TURNS; j++)                                                      \
                count_slot_##W(key[i + j], table[place[i + j]], half, bound, counts + j);                                      \
        for (; i < n; i++)                                                                                                     \
            count_slot_##W(key[i], table[place[i]], half, bound, counts);                                                      \
    }                                                                                                                          \
    static void edge_counts_##W(const void *data, size_t n, const rk_keys *k, const rk_edge_keys *s, uint64_t *counts)         \
    {                                                                                                                          \
        const u##W##_loose *x = data;                                                                                          \
        const rk_edge_keys e = *s;                                                                                             \
        uint##W##_t key[EDGE_STRIP];                                                                                           \
        uint32_t place[EDGE_STRIP];                                                                                            \
        for (size_t i = 0, some; i < n; i += some) {                                                                           \
            some = n - i < EDGE_STRIP ? n - i : EDGE_STRIP;                                                                    \
            for (size_t j = 0; j < some; j += 64 / sizeof *x)                                                                  \
                prefetch(x + i + j, 4096);                                                                                     \
            if (e.by_value)                                                                                                    \
                keys_and_values_##W(x + i, some, k, &e, key, place);                                                           \
            else                                                                                                               \
                keys_and_places_##W(x + i, some, k, &e, key, place);                                                           \
            nans_apart_##W(key, place, some, &e);                                                                              \
            if (e.half <= 1)                                                                                                   \
                count_slots_##W(key, place, some, &e, 1, counts);                                                              \
            else                                                                                                               \
                count_slots_##W(key, place, some, &e, e.half, counts);                                                         \
        }                                                                                                                      \
    }
COUNT_SLOTS(16)
COUNT_SLOTS(32)
COUNT_SLOTS(64)
#undef COUNT_SLOTS
#undef keys_and_values_16

#endif
