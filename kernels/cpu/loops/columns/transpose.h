/* Transposes columns of a matrix to contiguous elements. Squares of elements, with rows of 16 bytes, are transposed in
 * registers: the rows of the upper and the lower half are interleaved, element by element, as often as the square can be
 * halved. */
#ifndef RK_CPU_TRANSPOSE_H
#define RK_CPU_TRANSPOSE_H

#include "kernels/cpu/loops.h"
#include "kernels/cpu/loops/vec.h"

enum { SQUARE_BYTES = 16, TURNED_AHEAD = 16 /* rows to prefetch: the hardware prefetcher does not follow such long strides */ };

typedef uint8_t __attribute__((vector_size(SQUARE_BYTES), aligned(1), may_alias)) square_row;

/* Two vectors of elements of W bits, interleaved: their lower halves, their upper halves. */
typedef VEC(uint8_t, SQUARE_BYTES) square_8;
typedef VEC(uint16_t, SQUARE_BYTES) square_16;
typedef VEC(uint32_t, SQUARE_BYTES) square_32;
typedef VEC(uint64_t, SQUARE_BYTES) square_64;

INLINE square_8 lower_8(square_8 a, square_8 b)
{
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
INLINE square_8 upper_8(square_8 a, square_8 b)
{
    return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
INLINE square_16 lower_16(square_16 a, square_16 b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
INLINE square_16 upper_16(square_16 a, square_16 b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
INLINE square_32 lower_32(square_32 a, square_32 b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
INLINE square_32 upper_32(square_32 a, square_32 b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
INLINE square_64 lower_64(square_64 a, square_64 b) { return __builtin_shufflevector(a, b, 0, 2); }
INLINE square_64 upper_64(square_64 a, square_64 b) { return __builtin_shufflevector(a, b, 1, 3); }

#define TURN(W)                                                                                                      \
    enum { SIDE_##W = SQUARE_BYTES * 8 / W };                                                                        \
    INLINE void turn_square_##W(uint8_t *to, size_t apart, const uint8_t *x, size_t stride)                          \
    {                                                                                                                \
        enum { HALF = SIDE_##W / 2 };                                                                                \
        square_##W row[SIDE_##W], next[SIDE_##W];                                                                    \
        for (size_t i = 0; i < SIDE_##W; i++)                                                                        \
            row[i] = (square_##W) * (const square_row *)(const void *)(x + i * stride);                              \
        for (size_t step = 1; step < SIDE_##W; step *= 2) {                                                          \
            for (size_t i = 0; i < HALF; i++) {                                                                      \
                next[2 * i] = lower_##W(row[i], row[i + HALF]);                                                      \
                next[2 * i + 1] = upper_##W(row[i], row[i + HALF]);                                                  \
            }                                                                                                        \
            for (size_t i = 0; i < SIDE_##W; i++)                                                                    \
                row[i] = next[i];                                                                                    \
        }                                                                                                            \
        for (size_t i = 0; i < SIDE_##W; i++)                                                                        \
            *(square_row *)(void *)(to + i * apart) = (square_row)row[i];                                            \
    }                                                                                                                \
    /* Columns [from, columns) of some rows, one element after the other */                                          \
    static void turn_rest_##W(uint8_t *out, size_t apart, const uint8_t *x, size_t stride, size_t rows, size_t from, \
                              size_t columns)                                                                        \
    {                                                                                                                \
        for (size_t r = 0; r < rows; r++, x += stride)                                                               \
            for (size_t c = from; c < columns; c++)                                                                  \
                ((u##W##_loose *)(void *)(out + c * apart))[r] = ((const u##W##_loose *)(const void *)x)[c];         \
    }                                                                                                                \
    static void turn_##W(void *turned, size_t apart, const void *data, size_t stride, size_t rows, size_t columns)   \
    {                                                                                                                \
        const size_t whole = columns / SIDE_##W * SIDE_##W;                                                          \
        uint8_t *out = turned;                                                                                       \
        const uint8_t *x = data;                                                                                     \
        for (; rows >= SIDE_##W; rows -= SIDE_##W, x += SIDE_##W * stride, out += SQUARE_BYTES) {                    \
            for (size_t c = 0; c < whole; c += SIDE_##W) {                                                           \
                const uint8_t *at = x + c * (W / 8);                                                                 \
                for (size_t i = 0; i < SIDE_##W && c * (W / 8) % 64 == 0; i++)                                       \
                    prefetch(at, (TURNED_AHEAD + i) * stride);                                                       \
                turn_square_##W(out + c * apart, apart, at, stride);                                                 \
            }                                                                                                        \
            turn_rest_##W(out, apart, x, stride, SIDE_##W, whole, columns);                                          \
        }                                                                                                            \
        turn_rest_##W(out, apart, x, stride, rows, 0, columns);                                                      \
    }
TURN(8)
TURN(16)
TURN(32)
TURN(64)
#undef TURN

#endif
