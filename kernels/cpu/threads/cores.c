/* Processors: the number that this process may use, and their name. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
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

/* ---- the control group's limit (cgroup 2) ---- */

/* Processors' worth of time that a group's cpu.max allows, "QUOTA PERIOD" in us, rounded up; INT_MAX: any. */
static int quota_of(const char *path)
{
    unsigned long long quota = 0, period = 0;
    FILE *f = fopen(path, "re");
    const bool limited = f && fscanf(f, "%llu %llu", &quota, &period) == 2 && period > 0;
    if (f)
        fclose(f);
    const unsigned long long cores = limited ? quota / period + (quota % period != 0) : INT_MAX;
    return cores > INT_MAX ? INT_MAX : cores ? (int)cores : 1;
}

int rk_group_cores(const char *membership, const char *groups)
{
    char line[PATH_MAX], path[2 * PATH_MAX];
    int most = INT_MAX;
    FILE *f = fopen(membership, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        /* the group itself, and those above it */
        for (char *end = line + strlen(line); end; end = strrchr(line + 3, '/')) {
            *end = '\0';
            snprintf(path, sizeof path, "%s%s/cpu.max", groups, line + 3);
            const int cores = quota_of(path);
            most = cores < most ? cores : most;
        }
    }
    if (f)
        fclose(f);
    return most;
}

static int group_cores;
static void find_group_cores(void) { group_cores = rk_group_cores("/proc/self/cgroup", "/sys/fs/cgroup"); }

static int affine_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return (int)sysconf(_SC_NPROCESSORS_ONLN); /* more processors than the set can hold */
    return CPU_COUNT(&set);
}

int rk_cpu_cores(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_group_cores);
    const int cores = affine_cores();
    return cores < group_cores ? cores : group_cores;
}
