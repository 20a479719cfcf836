#include "daemon/telemetry/histogram.h"

enum { STEP_BITS = 3 }; /* RD_STEPS = 2^3 */

/* Values below 8 have a bucket each; above, the exponent and the next three bits choose. */
static unsigned index_of(uint64_t v)
{
    if (v < RD_STEPS)
        return (unsigned)v;
    unsigned exponent = 63u - (unsigned)__builtin_clzll(v);
    unsigned i = (exponent - STEP_BITS + 1) * RD_STEPS + (unsigned)(v >> (exponent - STEP_BITS) & (RD_STEPS - 1));
    return i < RD_BUCKETS ? i : RD_BUCKETS - 1;
}

/* The largest value of a bucket. */
static uint64_t upper(unsigned i)
{
    if (i < RD_STEPS)
        return i;
    unsigned shift = i / RD_STEPS - 1;
    return ((uint64_t)(RD_STEPS + i % RD_STEPS + 1) << shift) - 1;
}

void rd_histogram_add(rd_histogram *h, uint64_t ns)
{
    h->bucket[index_of(ns)]++;
    h->count++;
    h->sum += ns;
    if (ns > h->max)
        h->max = ns;
}

void rd_histogram_join(rd_histogram *h, const rd_histogram *from)
{
    for (unsigned i = 0; i < RD_BUCKETS; i++)
        h->bucket[i] += from->bucket[i];
    h->count += from->count;
    h->sum += from->sum;
    if (from->max > h->max)
        h->max = from->max;
}

uint64_t rd_histogram_below(const rd_histogram *h, unsigned exponent)
{
    uint64_t n = 0;
    for (unsigned i = 0, end = index_of(UINT64_C(1) << exponent); i < end; i++)
        n += h->bucket[i];
    return n;
}

uint64_t rd_histogram_quantile(const rd_histogram *h, double q)
{
    if (h->count == 0)
        return 0;
    uint64_t want = (uint64_t)(q * (double)h->count), seen = 0;
    if ((double)want < q * (double)h->count || want == 0)
        want++; /* round up: at least one, at least the share */
    unsigned i = 0;
    while (i < RD_BUCKETS - 1 && (seen += h->bucket[i]) < want)
        i++;
    uint64_t v = upper(i);
    return i == RD_BUCKETS - 1 || v > h->max ? h->max : v;
}
