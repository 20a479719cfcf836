/* cpu-sequential: one loop, one accumulator.
 *
 * The idea    what the definition says: N - 1 additions, one after the other.
 * What is wrong  each addition waits for the one before (3 to 4 cycles for a float), so neither the vector units nor the
 *             memory bus are busy. For int32 a compiler may reorder the sum and vectorise; for floats it must not, since
 *             float addition is not associative.
 *
 * Included once for each element type T. */
#ifndef T /* read alone */
#define T int32_t
#define RUNG(name) name##_i32
#include <stddef.h>
#include <stdint.h>
#endif

static inline T RUNG(sequential)(T *x, size_t n)
{
    T sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}
