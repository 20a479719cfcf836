/* Powers of ten in 128 bits, for numbers as text. */
#ifndef CTL_POWERS_H
#define CTL_POWERS_H

#include <stdint.h>

enum { CTL_POWER_MIN = -342, CTL_POWER_MAX = 342 };

/* 10^k = (high * 2^64 + low - e) * 2^(ctl_log2_power(k) - 127), where the top bit of `high` is set and 0 <= e < 1; e is 0 for k
 * from 0 to 55. */
typedef struct ctl_power {
    uint64_t high, low;
} ctl_power;

/* The power of k = CTL_POWER_MIN is the first. Made at the first call; any thread may call. */
const ctl_power *ctl_powers(void);

/* floor(log2(10^k)), for |k| <= 1233 */
static inline int ctl_log2_power(int k) { return (k * 1741647) >> 19; }

#endif
