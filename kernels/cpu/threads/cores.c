/* Processors: the number that this process may use, and their name. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cpu/cpu.h"

#ifdef __x86_64__
#include <cpuid.h>

void rk_cpu_name(char *out, size_t cap)
{
    unsigned words[12] = {0};
    for (unsigned leaf = 0; leaf < 3; leaf++) {
        unsigned *w = words + 4 * leaf;
        if (!__get_cpuid(0x80000002u + leaf, &w[0], &w[1], &w[2], &w[3]))
            break;
    }
    char name[sizeof words + 1] = {0};
    memcpy(name, words, sizeof words);
    const char *start = name + strspn(name, " ");
    snprintf(out, cap, "%s", *start ? start : "x86-64");
}

#else /* aarch64 */

void rk_cpu_name(char *out, size_t cap) { snprintf(out, cap, "aarch64"); }

#endif

int rk_cpu_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return (int)sysconf(_SC_NPROCESSORS_ONLN); /* more processors than the set can hold */
    return CPU_COUNT(&set);
}
