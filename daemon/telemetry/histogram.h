/* Durations in buckets of relative width 1/8, from 1 ns to half an hour and beyond. Pure, fixed size. */
#ifndef RD_HISTOGRAM_H
#define RD_HISTOGRAM_H

#include <stdint.h>

enum { RD_STEPS = 8, RD_BUCKETS = 42 * RD_STEPS };

/* Metrics and page show how many values are below 2^10 ns = 1 us, 2^11 ns, ... 2^34 ns = 17 s. */
enum { RD_FIRST_LE = 10, RD_LAST_LE = 34 };

typedef struct rd_histogram {
    uint64_t bucket[RD_BUCKETS];
    uint64_t count, sum, max;
} rd_histogram;

void rd_histogram_add(rd_histogram *h, uint64_t ns);
void rd_histogram_join(rd_histogram *h, const rd_histogram *from); /* as if all of `from` had been added to h */

/* How many are shorter than 2^exponent ns, exponent 3 to 44. */
uint64_t rd_histogram_below(const rd_histogram *h, unsigned exponent);

/* The duration that the share `q` (0..1) of all stays below or at, up to the bucket's width; never above the maximum.
 * 0 if there is none. */
uint64_t rd_histogram_quantile(const rd_histogram *h, double q);

#endif
