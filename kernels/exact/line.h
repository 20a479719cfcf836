/* Where the elements of one result lie: rows, segments and columns are all lines through the data. */
#ifndef RK_LINE_H
#define RK_LINE_H

#include <string.h>

#include "kernels/exact/format.h"

/* Elements first, first + stride, ...: n of them. Their indexes within the line are 0 .. n-1. */
typedef struct rk_line {
    uint64_t first, stride, n;
} rk_line;

/* `offsets`: rp_parts.offsets, checked, any alignment; read with RP_OFFSETS only. */
RK_FN uint64_t rk_offset(const uint8_t *offsets, uint64_t i)
{
    uint64_t v = 0;
#ifdef __CUDA_ARCH__
    for (int k = 0; k < 8; k++)
        v |= (uint64_t)offsets[8 * i + k] << 8 * k;
#else
    memcpy(&v, offsets + 8 * i, sizeof v);
#endif
    return v;
}

RK_FN rk_line rk_line_of(const rp_spec *s, const uint8_t *offsets, uint64_t result)
{
    rk_line l = {result * s->row_len, 1, s->row_len};
    if (s->flags & RP_OFFSETS) {
        l.first = rk_offset(offsets, result);
        l.n = rk_offset(offsets, result + 1) - l.first;
    } else if (s->flags & RP_COLUMNS) {
        l.first = result;
        if (s->planes > 1) /* past the rows of the planes before */
            l.first += result / s->row_len * (s->rows - 1) * s->row_len;
        l.stride = s->row_len;
        l.n = s->rows;
    }
    return l;
}

/* The number of the weight of the element that is at `place` in the data. */
RK_FN uint64_t rk_weight_of(const rp_spec *s, uint64_t place)
{
    return s->weights_extent == RP_EXTENT_ROW      ? place % s->row_len
           : s->weights_extent == RP_EXTENT_COLUMN ? place / s->row_len % s->rows
                                                   : place;
}

/* Bits of an element of 1, 2, 4 or 8 bytes at any address that suits its size on the device, any at all on the host. */
RK_FN uint64_t rk_load(const uint8_t *p, int bytes)
{
#ifdef __CUDA_ARCH__
    switch (bytes) {
    case 1:
        return *p;
    case 2:
        return *(const uint16_t *)p;
    case 4:
        return *(const uint32_t *)p;
    default:
        return *(const uint64_t *)p;
    }
#else
    uint64_t v = 0;
    for (int k = 0; k < bytes; k++)
        v |= (uint64_t)p[k] << 8 * k;
    return v;
#endif
}

#endif
