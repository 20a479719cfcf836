/* Elements of short lines as words of the reply, or the means of two of each line, rounded once. */
#ifndef RK_CPU_LANE_WORDS_H
#define RK_CPU_LANE_WORDS_H

#include <string.h>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/vec.h"
#include "kernels/exact/format.h"

/* As doubles or, of integers, as 64 bits; the other one is NULL. False: C does not have the type. */
static bool convert_lanes(int dtype, const uint8_t *x, size_t n, double *doubles, uint64_t *words)
{
    switch (dtype) {
#define CASE(CODE, T)                               \
    case CODE:                                      \
        for (size_t c = 0; c < n; c++) {            \
            T v;                                    \
            memcpy(&v, x + c * sizeof v, sizeof v); \
            if (doubles)                            \
                doubles[c] = (double)v;             \
            else                                    \
                words[c] = (uint64_t)v;             \
        }                                           \
        return true;
        CASE(RP_BOOL, uint8_t)
        CASE(RP_I8, int8_t)
        CASE(RP_U8, uint8_t)
        CASE(RP_I16, int16_t)
        CASE(RP_U16, uint16_t)
        CASE(RP_I32, int32_t)
        CASE(RP_U32, uint32_t)
        CASE(RP_I64, int64_t)
        CASE(RP_U64, uint64_t)
        CASE(RP_F32, float)
        CASE(RP_F64, double)
#undef CASE
    }
    return false;
}

/* The sum of two is rounded once: its half is exact, or else the sum was so, as all that are that small. */
#define MEANS(T)                                                                       \
    INLINE void means_of_##T(const T *x, const T *y, size_t n, T *out, uint8_t *marks) \
    {                                                                                  \
        for (size_t c = 0; c < n; c++) {                                               \
            const T mean = (x[c] + y[c]) * (T)0.5;                                     \
            out[c] = mean;                                                             \
            marks[c] |= mean - mean != 0; /* infinite, or NaN */                       \
        }                                                                              \
    }
MEANS(float)
MEANS(double)
#undef MEANS

INLINE bool are_exact(const double *x, size_t n)
{
    bool exact = true;
    for (size_t c = 0; c < n; c++)
        exact &= (x[c] > -0x1p53) & (x[c] < 0x1p53);
    return exact;
}

static bool mean_words(int dtype, int out, const void *a, const void *b, size_t n, void *words, uint8_t *marks)
{
    enum { SOME = 64 };
    const size_t size = rp_dtype_size(dtype);
    const bool sure = dtype != RP_I64 && dtype != RP_U64;
    double x[SOME], y[SOME];
    if (dtype == RP_F32 && out == RP_F32) {
        means_of_float(a, b, n, words, marks);
        return true;
    }
    for (size_t c = 0, some; c < n; c += some) {
        some = n - c < SOME ? n - c : SOME;
        if (out != RP_F64 || !convert_lanes(dtype, (const uint8_t *)a + c * size, some, x, NULL))
            return false;
        convert_lanes(dtype, (const uint8_t *)b + c * size, some, y, NULL);
        if (!sure && !(are_exact(x, some) && are_exact(y, some)))
            return false;
        means_of_double(x, y, some, (double *)words + c, marks + c);
    }
    return true;
}

static bool lane_words(int dtype, int out, const void *a, const void *b, size_t n, void *words, uint8_t *marks)
{
    if (b)
        return mean_words(dtype, out, a, b, n, words, marks);
    if (out == RP_F64)
        return convert_lanes(dtype, a, n, words, NULL);
    if (!rk_is_float(dtype))
        return out == (rk_is_signed(dtype) ? RP_I64 : RP_U64) && convert_lanes(dtype, a, n, NULL, words);
    if (out == dtype)
        memcpy(words, a, n * rp_dtype_size(dtype));
    return out == dtype;
}

#endif
