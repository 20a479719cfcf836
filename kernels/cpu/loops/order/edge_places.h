/* Places of elements in the table of a histogram. Rounded arithmetic never falls while x rises, so the places do not either. */
#ifndef RK_CPU_EDGE_PLACES_H
#define RK_CPU_EDGE_PLACES_H

#include <stdint.h>

/* NaNs have any place. */
#define VALUE_PLACE(W, T)                                                                 \
    static inline uint32_t value_place_##W(T x, T low, T scale, uint32_t last)            \
    {                                                                                     \
        const T far = (x - low) * scale, most = (T)(int32_t)last, up = far > 0 ? far : 0; \
        return (uint32_t)(int32_t)(up < most ? up : most);                                \
    }
VALUE_PLACE(32, float)
VALUE_PLACE(64, double)
#undef VALUE_PLACE

#define KEY_PLACE(W)                                                                                   \
    static inline uint32_t key_place_##W(uint##W##_t key, uint##W##_t first, int shift, uint32_t last) \
    {                                                                                                  \
        const uint##W##_t far = (uint##W##_t)((uint##W##_t)(key < first ? 0 : key - first) >> shift);  \
        return (uint32_t)(far < last ? far : last);                                                    \
    }
KEY_PLACE(16)
KEY_PLACE(32)
KEY_PLACE(64)
#undef KEY_PLACE

#endif
