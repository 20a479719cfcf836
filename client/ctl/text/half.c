/* 16-bit floats: their values, exactly, as doubles. */
#include <math.h>

#include "client/ctl/ctl.h"

typedef struct format {
    int fraction_bits;
    int bias;
    int top; /* exponent field of infinities and NaNs */
} format;

static format format_of(int dtype)
{
    static const format half = {10, 15, 31}, brain = {7, 127, 255};
    return dtype == REDUCE_F16 ? half : brain;
}

unsigned ctl_half_infinity(int dtype)
{
    format f = format_of(dtype);
    return (unsigned)f.top << f.fraction_bits;
}

double ctl_half_value(int dtype, unsigned bits)
{
    format f = format_of(dtype);
    int field = (int)(bits >> f.fraction_bits);
    unsigned fraction = bits & ((1u << f.fraction_bits) - 1);
    if (field)
        fraction |= 1u << f.fraction_bits;
    return ldexp(fraction, (field ? field : 1) - f.bias - f.fraction_bits);
}

unsigned ctl_half_round(int dtype, double y)
{
    unsigned low = 0, high = ctl_half_infinity(dtype); /* value(low) <= y < value(high), or y is beyond */
    if (y >= ctl_half_value(dtype, high))
        return high;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (ctl_half_value(dtype, middle) <= y)
            low = middle;
        else
            high = middle;
    }
    double half = (ctl_half_value(dtype, low) + ctl_half_value(dtype, high)) / 2; /* exact */
    return y > half || (y == half && low % 2) ? high : low;
}
