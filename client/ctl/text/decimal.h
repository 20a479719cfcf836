/* Floats as decimals: the shortest ones, by Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020). */
#ifndef CTL_DECIMAL_H
#define CTL_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* digits * 10^exponent; not ending in 0 unless that is all */
typedef struct ctl_decimal {
    uint64_t digits;
    int exponent;
} ctl_decimal;

/* A positive float: fraction * 2^exponent. `closer`: the next smaller float is half as far away as the next larger one. */
typedef struct ctl_float {
    uint64_t fraction;
    int exponent;
    bool closer;
} ctl_float;

/* The decimal of the fewest digits that a reader, which rounds to nearest even, takes for the float; the nearest of these. */
ctl_decimal ctl_shortest(ctl_float f);

/* The decimal of at most 17 digits as people write numbers, without exponent from 1e-5 up to 17 digits before the point.
 * Returns the end, without a 0 byte; what is behind it may be overwritten, as far as the room goes. */
enum { CTL_DECIMAL_ROOM = 40 };
char *ctl_put_decimal(char *out, ctl_decimal d);

/* The whole number in decimal; returns the end. */
char *ctl_put_u64(char *out, uint64_t v);

#endif
