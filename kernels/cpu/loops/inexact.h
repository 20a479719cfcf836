/* Did an addition round? IEEE 754 has every operation raise a sticky flag, "inexact", when its result is not the exact one. So
 * a loop of plain additions need not examine its elements: it runs between inexact_clear and inexact_seen. If the flag is not
 * raised, every partial sum was exact for any elements.
 *
 * The operations in between must be those of functions that are not inlined and leave their results in memory, to which both
 * calls are given a pointer: the compiler cannot move such a call past either. An unrelated operation in between may raise the
 * flag, which only costs a second attempt; it never hides a rounding. */
#ifndef RK_CPU_INEXACT_H
#define RK_CPU_INEXACT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __x86_64__

enum { FP_FLAGS = 0x3f, FP_INEXACT = 0x20, FP_RANGE = 0x18 }; /* range: overflow and underflow */

static inline uint32_t fp_status(const void *results)
{
    uint32_t status;
    __asm__ volatile("stmxcsr %0" : "=m"(status) : "r"(results) : "memory");
    return status;
}

static inline void fp_set_status(uint32_t status, const void *results)
{
    __asm__ volatile("ldmxcsr %0" : : "m"(status), "r"(results) : "memory");
}

#else /* aarch64 */

enum { FP_FLAGS = 0x9f, FP_INEXACT = 0x10, FP_RANGE = 0x0c };

static inline uint64_t fp_status(const void *results)
{
    uint64_t status;
    __asm__ volatile("mrs %0, fpsr" : "=r"(status) : "r"(results) : "memory");
    return status;
}

static inline void fp_set_status(uint64_t status, const void *results)
{
    __asm__ volatile("msr fpsr, %0" : : "r"(status), "r"(results) : "memory");
}

#endif

/* Clears the flag; `inexact_seen` then reports on the operations that compute `results`. */
static inline void inexact_clear(void *results)
{
    if (fp_status(results) & FP_INEXACT)
        fp_set_status(fp_status(results) & ~(uint32_t)FP_FLAGS, results);
}

static inline bool inexact_seen(const void *results) { return fp_status(results) & FP_INEXACT; }

/* Did one overflow, or underflow to what is not exact? Either raises "inexact", too. */
static inline bool range_left(const void *results) { return fp_status(results) & FP_RANGE; }

#endif
