/* cpu-recursive-interleaved: the upper half is added to the lower half, stride N/2, N/4, ... (recursiveReduceInterleaved)
 *
 * The idea    the same tree with adjacent elements used together: each level is two streams of whole cache lines. The
 *             published speed-ups are over this rung.
 * What is wrong  it writes as much as it keeps: 3/2 N reads and writes in the first level alone, where one read of N
 *             would do.
 *
 * The notes halve n and lose the last element where n is odd. Here the lower half is the larger one: x[n/2] waits.
 * Included once for each element type T. */
#ifndef T /* read alone */
#define T int32_t
#define RUNG(name) name##_i32
#include <stddef.h>
#include <stdint.h>
#endif

static inline T RUNG(recursive_interleaved)(T *x, size_t n)
{
    if (n == 1)
        return x[0];
    size_t stride = n - n / 2;
    for (size_t i = 0; i < n / 2; i++)
        x[i] += x[i + stride];
    return RUNG(recursive_interleaved)(x, stride);
}
